//! What administrators do with the queue: list, show, retry, hold, delete.

use gauntlet_store::{LogRecord, Outcome, StoreError};

use super::{HELD, LEAVING, Queue, QueueEntry, saved_progress};
use crate::ids;
use crate::outbound::queued_message::QueuedMessage;

/// How the wait of a message that is on its way to another node ends.
pub const HOW_IT_ENDS: &str = "it waits until that node has answered; if that one never comes back, \
                               `gauntlet array leave NODE` has it delivered from here";

/// Why nothing could be done about a message.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// It is on its way to another node, which may have it.
    #[error("{0} is on its way to another node, which may have it: {HOW_IT_ENDS}")]
    Leaving(String),
    /// It is being delivered, or not there.
    #[error("{0} is not waiting in the queue")]
    NotWaiting(String),
    /// The spool cannot read it.
    #[error("{0} cannot be read back")]
    Unreadable(String),
    /// Its end could not be logged.
    #[error(transparent)]
    Log(#[from] StoreError),
}

impl Queue {
    /// Delivers waiting messages now; all if `ids` is empty. Returns how many.
    pub fn retry(&self, ids: &[u64]) -> usize {
        self.parts.sender.try_again();
        self.set_due(ids, self.now_ms())
    }

    /// Keeps messages waiting until they are retried, also over a restart. Returns how many.
    pub fn hold(&self, ids: &[u64]) -> usize {
        self.set_due(ids, HELD)
    }

    fn set_due(&self, ids: &[u64], due: i64) -> usize {
        let all: Vec<u64> = {
            let state = self.state();
            // Another node may have what is on its way there, and would deliver it, too.
            let chosen =
                |(id, due): &(&u64, &i64)| **due != LEAVING && (ids.is_empty() || ids.contains(id));
            state.due.iter().filter(chosen).map(|(id, _)| *id).collect()
        };
        for id in &all {
            // Only what is held is written down: a retry that a crash forgets is no harm.
            if due == HELD || self.is_held(*id) {
                self.parts.spool.set_due(*id, due);
            }
            if due == HELD {
                // It waits for a person, not for the quarantine.
                self.leave_backlog(*id);
            }
            self.wait_until(*id, due);
        }
        all.len()
    }

    /// Refuses messages that are on their way to another node: nothing can be done about them here.
    ///
    /// # Errors
    /// If one of them is.
    pub fn check_here(&self, ids: &[u64]) -> Result<(), DeleteError> {
        let state = self.state();
        match ids.iter().find(|id| state.due.get(id) == Some(&LEAVING)) {
            Some(id) => Err(DeleteError::Leaving(ids::to_text(*id))),
            None => Ok(()),
        }
    }

    fn is_held(&self, id: u64) -> bool {
        self.state().due.get(&id).is_some_and(|due| *due >= LEAVING)
    }

    /// Takes a waiting message out of the queue: its open deliveries end as deleted.
    ///
    /// # Errors
    /// If it is not waiting, or cannot be read.
    pub fn delete(&self, id: u64, who: &str) -> Result<(), DeleteError> {
        let name = ids::to_text(id);
        let waiting = {
            let mut state = self.state();
            if state.due.get(&id) == Some(&LEAVING) {
                return Err(DeleteError::Leaving(name));
            }
            let due = state.due.remove(&id);
            due.is_some_and(|due| state.waiting.remove(&(due, id)))
        };
        if !waiting {
            return Err(DeleteError::NotWaiting(name));
        }
        let Some((mut message, _)) = self.read_back(id) else {
            return Err(DeleteError::Unreadable(name));
        };
        for delivery in message.record.deliveries.iter_mut().filter(|d| !d.outcome.is_final()) {
            delivery.outcome = Outcome::Deleted;
            delivery.at_ms = self.now_ms();
            delivery.reply = format!("deleted by {who}");
        }
        self.parts.log.append(vec![message.record])?;
        self.leave_backlog(id);
        self.parts.spool.done(id);
        Ok(())
    }

    /// Messages waiting or active, oldest first, at most `max`.
    pub fn list(&self, max: usize) -> Vec<QueueEntry> {
        let state = self.state();
        let waiting = state.due.iter().map(|(id, due)| (*id, Some(*due)));
        let active = state.active.keys().map(|id| (*id, None));
        let mut all: Vec<_> = waiting.chain(active).collect();
        drop(state);
        all.sort_unstable();
        let one = |(id, due): (u64, Option<i64>)| QueueEntry {
            id: ids::to_text(id),
            due_ms: due.filter(|due| *due < LEAVING),
            active: due.is_none(),
            leaving_to: match due {
                Some(LEAVING) => self.leaving_to(id).unwrap_or_default(),
                _ => String::new(),
            },
        };
        all.into_iter().take(max).map(one).collect()
    }

    /// A message as the queue knows it.
    pub fn show(&self, id: u64) -> Option<LogRecord> {
        if let Some(active) = self.state().active.get(&id).cloned() {
            let deliveries = active.progress().deliveries.clone();
            return Some(active.record(&deliveries));
        }
        let stored = self.parts.spool.read(id).ok()?;
        let mut message: QueuedMessage = serde_json::from_slice(&stored.meta).ok()?;
        let (state, targets) = (stored.state.as_deref(), message.targets.len());
        saved_progress::apply(state, targets, &mut message.record);
        Some(message.record)
    }
}
