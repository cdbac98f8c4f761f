//! Cut-through: the next hop is asked while the client waits, the spool is the fallback.

use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use gauntlet_store::record::Stage;
use gauntlet_store::{LogRecord, Outcome, StoreError};

use super::groups::{Group, groups, outgoing};
use super::{Queue, announce};
use crate::outbound::queued_message::QueuedMessage;
use crate::outbound::sender::{DeliveryJob, Settled};

/// Messages handed on at once while their clients wait; further ones go through the spool.
const CUTTING_MAX: u64 = 200;

/// What a next hop said to a message while its client waited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutThrough {
    /// It took the message for every recipient; else it refused it for every recipient.
    pub taken: bool,
    /// Its answer to the first recipient, one line.
    pub reply: String,
}

impl Queue {
    /// Hands a message that just came in to its next hop while its client waits (cut-through): only
    /// if every recipient goes to one next hop with the same changes, and the next hop is free.
    /// Gives its answer if it took the message for everybody or refused it for everybody for good;
    /// else none, and the message is to be spooled for those who have not got it.
    ///
    /// A crash between the next hop's 250 and ours lets the client send again: a duplicate, never a
    /// loss. What is answered is logged here.
    pub async fn cut_through(
        &self,
        message: &mut QueuedMessage,
        body: &Bytes,
        began: Instant,
    ) -> Option<CutThrough> {
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
        let (sender, settled) = tokio::sync::oneshot::channel();
        let done = Box::new(move |all| {
            let _the_session_may_have_gone = sender.send(all);
        });
        self.cutting.fetch_add(1, Ordering::Relaxed);
        self.parts.sender.send(&route, DeliveryJob { outgoing, targets, body: changed, done });
        let settled: Result<Vec<Settled>, _> = settled.await;
        self.cutting.fetch_sub(1, Ordering::Relaxed);
        let settled = settled.ok()?;
        let all = |outcome: Outcome| settled.iter().all(|s| s.outcome == Some(outcome));
        let taken = all(Outcome::Delivered);
        let answered = taken || all(Outcome::Failed);
        let reply = settled.first().map(|s| s.reply.clone()).unwrap_or_default();
        for (delivery, settled) in message.record.deliveries.iter_mut().zip(settled) {
            let outcome = match settled.outcome {
                Some(Outcome::Delivered) => Outcome::Delivered,
                _ if answered => Outcome::Rejected,
                _ => continue,
            };
            self.tally(outcome);
            delivery.outcome = outcome;
            delivery.at_ms = self.now_ms();
            delivery.attempts = 1;
            delivery.next_hop = settled.next_hop;
            delivery.reply = settled.reply;
        }
        if !answered {
            return None;
        }
        message.record.stages.push(Stage::now("passed on", began));
        // The client gets its answer now, not when the message was judged.
        message.record.latency_ms = u32::try_from(began.elapsed().as_millis()).unwrap_or(u32::MAX);
        let record = message.record.clone();
        self.parts.metrics.cut_through.add_one();
        announce(&record);
        self.log_outcome(record).await;
        Some(CutThrough { taken, reply })
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
                let (sender, logged) = tokio::sync::oneshot::channel();
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
