//! Reports to senders about their messages (DSN).
//!
//! Failures are reported before the message is forgotten: no crash lets one go unreported. Delays
//! and deliveries are reported once the report is in the spool; a crash may lose or repeat one.

use std::sync::Arc;

use gauntlet_store::{Delivery, Event, LogRecord, Outcome};

use super::accept::AcceptError;
use super::{Active, Queue};
use crate::ids;
use crate::outbound::dsn;
use crate::outbound::queued_message::{News, NoReport, QueuedMessage, own_record};
use crate::trace_fields;

impl Queue {
    /// Sends the reports that are due, then concludes.
    pub(super) fn report(self: &Arc<Self>, active: Arc<Active>) {
        let bounces = active.settings.sender.bounces;
        for news in [News::Delayed, News::Delivered] {
            let about = self.about(&active, news);
            if !about.is_empty() && bounces {
                self.send_report(&active, news, &about, |_| {});
            }
        }
        let failed = self.about(&active, News::Failed);
        if failed.is_empty() || !bounces {
            return self.conclude(active);
        }
        let (queue, held) = (self.clone(), active.clone());
        self.send_report(&active, News::Failed, &failed, move |spooled| {
            if !spooled {
                // It is tried again with the message.
                let mut progress = held.progress();
                for (news, target) in std::mem::take(&mut progress.news) {
                    if news == News::Failed
                        && let Some(delivery) = progress.deliveries.get_mut(target)
                    {
                        delivery.outcome = Outcome::Queued;
                    }
                }
            }
            queue.conclude(held);
        });
    }

    /// Deliveries of this round of which the sender wants, and may get, such a report.
    fn about(&self, active: &Active, news: News) -> Vec<Delivery> {
        let progress = active.progress();
        let all = progress.news.iter().filter(|(kind, _)| *kind == news);
        all.filter(|(_, target)| {
            active.message.targets.get(*target).is_some_and(|t| active.message.may_report(t, news))
        })
        .filter_map(|(_, target)| progress.deliveries.get(*target).cloned())
        .collect()
    }

    /// Spools a report and queues it; `then` gets whether that worked.
    fn send_report(
        self: &Arc<Self>,
        active: &Arc<Active>,
        news: News,
        about: &[Delivery],
        then: impl FnOnce(bool) + Send + 'static,
    ) {
        let now = self.now_ms();
        let id = self.parts.ids.next(now);
        let name = ids::to_text(id);
        let host = &self.parts.host;
        let original = dsn::Original { message: &active.message, body: &active.body };
        let expires_ms = {
            let seconds = active.settings.sender.expire_seconds;
            let ms = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
            active.message.record.received_ms.saturating_add(ms)
        };
        let report = dsn::report(host, &name, &original, news, about, now, expires_ms);
        let message = active.reporting(&name, news, &report, now, host);
        let metrics = self.parts.metrics.clone();
        let done = move |result: Result<(), AcceptError>| {
            match &result {
                Ok(()) => metrics.bounces.add_one(),
                Err(error) => {
                    tracing::error!(%error, "a report to a sender could not be spooled");
                }
            }
            then(result.is_ok());
        };
        self.accept(id, message, report.into(), |_| {}, done);
    }
}

impl Active {
    /// What the log says of an attempt that failed, for now or for good: `bounced` only if the
    /// sender gets a report.
    pub(super) fn event(&self, target: usize, delivery: &Delivery) -> Event {
        let mut detail = format!("{} {}", delivery.next_hop, delivery.reply);
        let kind = match (delivery.outcome, self.why_no_bounce(target)) {
            (Outcome::Queued, _) => "deferred",
            (Outcome::Failed, None) => "bounced",
            (Outcome::Failed, Some(why)) => {
                detail.push_str(&format!("; no report was sent: {}", why.text()));
                "failed"
            }
            (other, _) => other.name(),
        };
        Event {
            id: self.message.record.id.clone(),
            received_ms: self.message.record.received_ms,
            at_ms: delivery.at_ms,
            kind: kind.to_owned(),
            recipient: delivery.address.clone(),
            detail,
        }
    }

    fn why_no_bounce(&self, target: usize) -> Option<NoReport> {
        if !self.settings.sender.bounces {
            return Some(NoReport::SwitchedOff);
        }
        self.message.why_no_report(self.message.targets.get(target)?, News::Failed)
    }

    /// A report about this message, as a message of our own.
    fn reporting(
        &self,
        name: &str,
        news: News,
        report: &[u8],
        now: i64,
        host: &str,
    ) -> QueuedMessage {
        debug_assert!(trace_fields::count_received(report) == 0);
        let to = self.message.record.envelope.mail_from.clone();
        let record = LogRecord {
            size: report.len() as u64,
            from: format!("MAILER-DAEMON@{host}"),
            subject: dsn::subject(news, &self.message.record),
            message_id: format!("{name}@{host}"),
            ..own_record(name, now, host, &to)
        };
        // What it returns of the message may hold bytes over 127.
        let eight_bit = !report.is_ascii();
        QueuedMessage { eight_bit, ..QueuedMessage::straight(record, &[to]) }
    }
}
