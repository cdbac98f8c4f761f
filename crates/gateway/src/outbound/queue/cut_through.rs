//! Cut-through: the next hop is asked while the client waits, the spool is the fallback.

use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use gauntlet_smtp::ReplyReader;
use gauntlet_store::record::Stage;
use gauntlet_store::{LogRecord, Outcome, StoreError};
use tokio::sync::oneshot;

use super::groups::{Group, groups, outgoing};
use super::{Queue, announce};
use crate::outbound::queued_message::QueuedMessage;
use crate::outbound::route::Route;
use crate::outbound::sender::{DeliveryJob, Settled};

/// Messages handed on at once while their clients wait; further ones go through the spool.
const CUTTING_MAX: u64 = 200;

/// What came of cut-through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CutThrough {
    /// The next hop took the message for every recipient, or refused it for every recipient.
    Answered(NextHopAnswer),
    /// The message is to be spooled. What the attempt came to for those who have not got it; empty
    /// if there was none.
    Open(Vec<Settled>),
}

/// What a next hop said to a message while its client waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextHopAnswer {
    /// It took the message for every recipient; else it refused it for every recipient.
    pub taken: bool,
    /// Its answer to the first recipient, one line.
    pub reply: String,
}

impl NextHopAnswer {
    /// The enhanced status code of a refusal (RFC 3463), which says more than 5.0.0; none if the
    /// next hop gave none.
    pub fn enhanced(&self) -> Option<(u8, u16, u16)> {
        let line = format!("{}\r\n", self.reply);
        let reply = ReplyReader::default().read(&mut line.as_bytes()).ok().flatten()?;
        reply.enhanced.filter(|_| reply.is_permanent())
    }
}

impl Queue {
    /// Hands a message that just came in to its next hop while its client waits (cut-through): only
    /// if every recipient goes to one next hop with the same changes, and the next hop is free.
    /// What is not answered for everybody, and alike, is to be spooled for those who have not got
    /// it; the attempt counts.
    ///
    /// A crash between the next hop's 250 and ours lets the client send again: a duplicate, never a
    /// loss. What is answered is logged here.
    pub async fn cut_through(
        &self,
        message: &mut QueuedMessage,
        body: &Bytes,
        began: Instant,
    ) -> CutThrough {
        let Some((route, job, settled)) = self.cut_through_job(message, body) else {
            return CutThrough::Open(Vec::new());
        };
        self.cutting.fetch_add(1, Ordering::Relaxed);
        self.parts.sender.send(&route, job);
        let settled = settled.await.unwrap_or_default();
        self.cutting.fetch_sub(1, Ordering::Relaxed);
        let all = |outcome: Outcome| settled.iter().all(|s| s.outcome == Some(outcome));
        let taken = all(Outcome::Delivered);
        if settled.is_empty() || !(taken || all(Outcome::Failed)) {
            return CutThrough::Open(self.note_taken(message, settled));
        }
        let reply = settled.first().map(|s| s.reply.clone()).unwrap_or_default();
        let outcome = if taken { Outcome::Delivered } else { Outcome::Rejected };
        for settled in settled {
            self.note_first(message, settled, outcome);
        }
        message.record.stages.push(Stage::now("passed on", began));
        // The client gets its answer now, not when the message was judged.
        message.record.latency_ms = u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX);
        let record = message.record.clone();
        self.parts.metrics.cut_through.add_one();
        announce(&record);
        self.log_outcome(record).await;
        CutThrough::Answered(NextHopAnswer { taken, reply })
    }

    /// Where a message would go, with what, and what comes of it; none if it has to be spooled
    /// first.
    fn cut_through_job(
        &self,
        message: &QueuedMessage,
        body: &Bytes,
    ) -> Option<(Route, DeliveryJob, oneshot::Receiver<Vec<Settled>>)> {
        let settings = self.parts.settings.get();
        if !settings.routes.cuts_through() || self.cutting.load(Ordering::Relaxed) >= CUTTING_MAX {
            return None;
        }
        // A sender that asks for a report of success gets it from the queue.
        if message.targets.iter().any(|t| t.notify.is_some_and(|(success, ..)| success)) {
            return None;
        }
        let mut all = groups(&settings, message);
        let (group, targets) = all.pop().filter(|_| all.is_empty())?;
        let Group::Send(route, changes) = group else { return None };
        if !route.is_named() || !self.parts.sender.is_free(&route) {
            return None;
        }
        // The original of what is taken out is kept first: the queue sees to that.
        if changes.iter().any(|change| change.removal().is_some()) {
            return None;
        }
        // What cannot be signed now waits in the queue.
        let changed = self.changed(&settings, &message.record, body, &changes, &[]).ok()?;
        let outgoing = outgoing(message, &targets, changed.size());
        let (sender, settled) = oneshot::channel();
        let done = Box::new(move |all| {
            let _the_session_may_have_gone = sender.send(all);
        });
        Some((route, DeliveryJob { outgoing, targets, body: changed, done }, settled))
    }

    /// Notes who has got the message, before it is spooled: they must not get it again. The others
    /// are given back.
    fn note_taken(&self, message: &mut QueuedMessage, settled: Vec<Settled>) -> Vec<Settled> {
        let is_taken = |settled: &Settled| settled.outcome == Some(Outcome::Delivered);
        let (taken, open): (Vec<_>, Vec<_>) = settled.into_iter().partition(is_taken);
        for settled in taken {
            self.note_first(message, settled, Outcome::Delivered);
        }
        open
    }

    /// Notes the end of a delivery at its first attempt.
    fn note_first(&self, message: &mut QueuedMessage, settled: Settled, outcome: Outcome) {
        let Some(delivery) = message.record.deliveries.get_mut(settled.target) else { return };
        self.tally(outcome);
        delivery.outcome = outcome;
        delivery.at_ms = self.now_ms();
        delivery.attempts = 1;
        delivery.next_hop = settled.next_hop;
        delivery.reply = settled.reply;
    }

    /// Outcomes that are logged need not be remembered elsewhere.
    ///
    /// # Errors
    /// The system's.
    pub fn forget_passed_on(&self) -> std::io::Result<()> {
        self.parts.cut_through_journal.tidy()
    }

    /// No spool remembers this message: its outcome outlives the process before its client is
    /// answered.
    async fn log_outcome(&self, record: LogRecord) {
        let id = record.id.clone();
        let failed = |error: StoreError, id: &str| {
            tracing::error!(%error, id, "an outcome could not be logged");
        };
        let notes = &self.parts.cut_through_journal;
        match notes.note(&record) {
            Ok(noted) => {
                let notes = notes.clone();
                let done = move |result: Result<_, StoreError>| match result {
                    Ok(_) => notes.logged(noted),
                    // It stays where it was noted, for the next start.
                    Err(error) => failed(error, &id),
                };
                self.parts.log.append_then(vec![record], Vec::new(), Box::new(done));
            }
            Err(error) => {
                tracing::warn!(%error, id, "an outcome could not be noted; its client waits for the log");
                let (sender, logged) = oneshot::channel();
                let done = Box::new(move |result| {
                    let _the_session_may_have_gone = sender.send(result);
                });
                self.parts.log.append_now(vec![record], Vec::new(), done);
                if let Ok(Err(error)) = logged.await {
                    failed(error, &id);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_gives_the_code_that_the_next_hop_gave() {
        for (reply, enhanced) in [
            ("550 5.1.1 no such user", Some((5, 1, 1))),
            ("552 5.3.4 too large / see example.org", Some((5, 3, 4))),
            ("550 no such user", None),
            ("550 5.1 no such user", None),
            // Not the class of its reply.
            ("550 4.7.1 not now", None),
            ("example.net takes no mail", None),
            ("", None),
        ] {
            let said = NextHopAnswer { taken: false, reply: reply.to_owned() };
            assert_eq!(said.enhanced(), enhanced, "{reply:?}");
        }
    }
}
