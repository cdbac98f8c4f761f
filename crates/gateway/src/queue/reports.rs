//! Telling senders what became of their messages.
//!
//! Failures are told before the message is forgotten: no crash lets one go unreported. Delays and
//! deliveries are told when the report is in the spool; a crash may lose or repeat one.

use std::sync::Arc;

use gauntlet_store::{Delivery, LogRecord, Outcome};

use super::{Active, Queue};
use crate::clock::now_ms;
use crate::dsn::{self, News};
use crate::ids;
use crate::trace_fields;
use crate::transit::Transit;

impl Queue {
    /// Sends the reports that are due, then concludes.
    pub(super) fn report(self: &Arc<Self>, active: &Arc<Active>) {
        let settings = self.parts.settings.load();
        for news in [News::Delayed, News::Delivered] {
            let about = self.about(active, news);
            if !about.is_empty() && settings.bounces {
                self.send_report(active, news, &about, |_| {});
            }
        }
        let failed = self.about(active, News::Failed);
        if failed.is_empty() || !settings.bounces {
            return self.conclude(active);
        }
        let (queue, held) = (self.clone(), active.clone());
        self.send_report(active, News::Failed, &failed, move |spooled| {
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
            queue.conclude(&held);
        });
    }

    /// Deliveries of this round of which the sender wants, and may be told, such news.
    fn about(&self, active: &Active, news: News) -> Vec<Delivery> {
        let progress = active.progress();
        let all = progress.news.iter().filter(|(kind, _)| *kind == news);
        all.filter(|(_, target)| {
            active.transit.targets.get(*target).is_some_and(|t| active.transit.may_tell(t, news))
        })
        .filter_map(|(_, target)| progress.deliveries.get(*target).cloned())
        .collect()
    }

    /// Spools a report and queues it; `then` hears whether that worked.
    fn send_report(
        self: &Arc<Self>,
        active: &Arc<Active>,
        news: News,
        about: &[Delivery],
        then: impl FnOnce(bool) + Send + 'static,
    ) {
        let now = now_ms();
        let id = self.parts.ids.next(now);
        let name = ids::to_text(id);
        let host = &self.parts.host;
        let original = dsn::Original { transit: &active.transit, body: &active.body };
        let expires_ms = {
            let seconds = self.parts.settings.load().expire_seconds;
            let ms = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
            active.transit.record.received_ms.saturating_add(ms)
        };
        let report = dsn::report(host, &name, &original, news, about, now, expires_ms);
        let transit = active.reporting(&name, news, &report, now, host);
        let meta = serde_json::to_vec(&transit).unwrap_or_default();
        let (queue, body) = (self.clone(), Arc::new(report));
        let spooled = body.clone();
        let done = move |result: Result<(), gauntlet_store::SpoolError>| match result {
            Ok(()) => {
                queue.parts.metrics.bounces.add_one();
                queue.submit(id, transit, body);
                then(true);
            }
            Err(error) => {
                tracing::error!(%error, "a report to a sender could not be spooled");
                then(false);
            }
        };
        self.parts.spool.put(id, now, meta, spooled, Box::new(done));
    }
}

impl Active {
    /// A report about this message, as a message of our own.
    fn reporting(&self, name: &str, news: News, report: &[u8], now: i64, host: &str) -> Transit {
        debug_assert!(trace_fields::count_received(report) == 0);
        let to = self.transit.record.envelope.mail_from.clone();
        let record = LogRecord {
            id: name.to_owned(),
            received_ms: now,
            envelope: gauntlet_mail::Envelope {
                direction: gauntlet_mail::Direction::Outbound,
                helo: host.to_owned(),
                rcpt_to: vec![to.clone()],
                received_at: now / 1_000,
                ..Default::default()
            },
            size: report.len() as u64,
            from: format!("MAILER-DAEMON@{host}"),
            subject: format!("{}: {}", news.subject(), self.transit.record.id),
            message_id: format!("{name}@{host}"),
            ..LogRecord::default()
        };
        Transit::straight(record, &[to])
    }
}
