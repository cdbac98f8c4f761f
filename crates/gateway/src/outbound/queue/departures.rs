//! Handing messages of a queue over to another node.
//!
//! ```text
//! waiting ─▶ leaving (synced), a bundle ─▶ the other node has it ─▶ done here
//!    ▲                    └── it refused: stay
//!    └────────────────────────┘
//! ```
//!
//! A message that is leaving is delivered by nobody here, also after a restart: its due time is one
//! that never comes. It is handed over again, to the same node, until that node has said what
//! became of it.

use std::sync::Arc;

use gauntlet_store::{Event, LogRecord, Outcome, Spool};

use super::administration::HOW_IT_ENDS;
use super::bundle::{Bundle, BundleError};
use super::saved_progress::{self, Leaving};
use super::{Arrival, HELD, LEAVING, Queue};
use crate::ids;
use crate::outbound::queued_message::QueuedMessage;

/// A message that is about to leave a spool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Departure {
    /// What the other node gets.
    pub(crate) bundle: Bundle,
    /// The state that says so, for the spool that it leaves.
    state: Vec<u8>,
    /// To which node it was leaving already.
    pub(crate) before: Option<String>,
}

/// Why a message cannot be handed over.
#[derive(Debug, thiserror::Error)]
pub enum DepartError {
    /// It is being delivered, or not there.
    #[error("{0} is not waiting in the queue; try again when its attempt is over")]
    NotWaiting(String),
    /// It is on its way to another node, which may have it.
    #[error("{0} is on its way to {1}: {HOW_IT_ENDS}")]
    Elsewhere(String, String),
    /// It cannot be read back, or not be marked.
    #[error("{0}: {1}")]
    Unreadable(String, BundleError),
    /// What is kept beside its body is damaged.
    #[error("{0} has an unreadable envelope: {1}")]
    Envelope(String, serde_json::Error),
}

impl Departure {
    /// Reads a message of a spool that is to leave this node (`from`) for another (`to`). Nothing
    /// is changed.
    ///
    /// # Errors
    /// If it cannot be read, or its envelope cannot be understood.
    pub(crate) fn prepare(
        spool: &Spool,
        id: u64,
        (from, to): (&str, &str),
    ) -> Result<Self, DepartError> {
        let name = || ids::to_text(id);
        let stored = spool.read(id).map_err(|e| DepartError::Unreadable(name(), e.into()))?;
        let message: Result<QueuedMessage, _> = serde_json::from_slice(&stored.meta);
        let mut message = message.map_err(|e| DepartError::Envelope(name(), e))?;
        let state = stored.state.as_deref();
        let before = saved_progress::leaving(state).filter(|_| stored.due == LEAVING);
        saved_progress::apply(state, message.targets.len(), &mut message.record);
        let due_ms = before.as_ref().map_or(stored.due, |leaving| leaving.due_ms);
        let leaving = Leaving { to: to.to_owned(), due_ms };
        let (from, body) = (from.to_owned(), stored.body.into());
        Ok(Departure {
            state: saved_progress::encode_leaving(&message.record, Some(leaving)),
            bundle: Bundle { id, from, due_ms, meta: stored.meta, state: stored.state, body },
            before: before.map(|leaving| leaving.to),
        })
    }

    /// The other node is to hold it until a person has looked at it.
    pub(crate) fn hold(&mut self) {
        self.bundle.due_ms = HELD;
    }

    /// What marks it as leaving: id, due time, state.
    pub(crate) fn mark(&self) -> (u64, i64, Vec<u8>) {
        (self.bundle.id, LEAVING, self.state.clone())
    }

    /// What takes the mark away again.
    pub(crate) fn unmark(&self) -> (u64, i64, Vec<u8>) {
        (self.bundle.id, self.bundle.due_ms, self.bundle.state.clone().unwrap_or_default())
    }
}

impl Queue {
    /// Takes a waiting message off the queue for this node and returns it as a bundle: the first of
    /// two phases. It is marked durably. The same again for a message that is leaving there
    /// already. Blocks: not for a task of the runtime.
    ///
    /// # Errors
    /// If it is not waiting, is on its way to another node, or cannot be read or marked.
    pub fn leave(&self, id: u64, to: &str) -> Result<Bundle, DepartError> {
        let due = self.take_off(id).ok_or_else(|| DepartError::NotWaiting(ids::to_text(id)))?;
        let left = self.mark_leaving(id, to);
        self.wait_until(id, if left.is_ok() { LEAVING } else { due });
        left
    }

    fn mark_leaving(&self, id: u64, to: &str) -> Result<Bundle, DepartError> {
        let spool = &self.parts.spool;
        let departure = Departure::prepare(spool, id, (&self.parts.host, to))?;
        if let Some(other) = departure.before.as_ref().filter(|before| *before != to) {
            return Err(DepartError::Elsewhere(ids::to_text(id), other.clone()));
        }
        let marked = spool.set_states_durably(&[departure.mark()]);
        marked.map_err(|e| DepartError::Unreadable(ids::to_text(id), e.into()))?;
        self.leave_backlog(id);
        Ok(departure.bundle)
    }

    /// Messages that are leaving, each with the node that it goes to: nobody here knows yet whether
    /// it has arrived. Blocks.
    pub fn leaving(&self) -> Vec<(u64, String)> {
        let state = self.state();
        let leaves = state.due.iter().filter(|(_, due)| **due == LEAVING);
        let ids: Vec<u64> = leaves.map(|(id, _)| *id).collect();
        drop(state);
        ids.into_iter().filter_map(|id| Some((id, self.leaving_to(id)?))).collect()
    }

    /// The node that a message is on its way to. Blocks.
    pub(super) fn leaving_to(&self, id: u64) -> Option<String> {
        let stored = self.parts.spool.read(id).ok().filter(|stored| stored.due == LEAVING)?;
        Some(saved_progress::leaving(stored.state.as_deref())?.to)
    }

    /// What to tell of a message beside its log while it is on its way to another node. Blocks.
    pub fn leaving_event(&self, id: u64) -> Option<Event> {
        let to = self.leaving_to(id)?;
        Some(Event {
            id: ids::to_text(id),
            received_ms: 0,
            at_ms: self.now_ms(),
            kind: "moving".to_owned(),
            recipient: String::new(),
            detail: format!("to {to}: {HOW_IT_ENDS}"),
        })
    }

    /// Takes a message off the waiting list; its due time.
    fn take_off(&self, id: u64) -> Option<i64> {
        let mut state = self.state();
        let due = state.due.remove(&id)?;
        state.waiting.remove(&(due, id));
        Some(due)
    }

    /// The second phase: the other node said what became of a message that was leaving. What it has
    /// is forgotten here; what it refused waits here again. False if the message is not leaving.
    pub fn left(self: &Arc<Self>, id: u64, answer: &Arrival) -> bool {
        if self.state().due.get(&id) != Some(&LEAVING) {
            return false;
        }
        let Ok(stored) = self.parts.spool.read(id) else { return false };
        let Some(leaving) = saved_progress::leaving(stored.state.as_deref()) else { return false };
        match answer {
            Arrival::Taken { id: there } | Arrival::Known { id: there } => {
                self.take_off(id);
                let place = format!("to {}, where it is {there}", leaving.to);
                match self.show(id) {
                    Some(record) => self.log_moved(id, record, place),
                    None => self.parts.spool.done(id),
                }
            }
            Arrival::Refused { .. } | Arrival::Later { .. } => self.stay(id, leaving.due_ms),
        }
        true
    }

    /// Logs that a message is another node's now, which logs its outcomes, and forgets it. Until
    /// that is in the log it is offered again, which the other node knows.
    fn log_moved(self: &Arc<Self>, id: u64, mut record: LogRecord, place: String) {
        let at_ms = self.now_ms();
        for delivery in record.deliveries.iter_mut().filter(|d| !d.outcome.is_final()) {
            (delivery.outcome, delivery.at_ms) = (Outcome::Moved, at_ms);
            place.clone_into(&mut delivery.reply);
        }
        let queue = self.clone();
        let done = move |result: Result<_, gauntlet_store::StoreError>| match result {
            Ok(_) => queue.parts.spool.done(id),
            Err(error) => {
                tracing::error!(%error, "a move could not be logged; it is tried again");
                queue.wait_until(id, LEAVING);
            }
        };
        let event = Event {
            id: record.id.clone(),
            received_ms: record.received_ms,
            at_ms,
            kind: "moved_away".to_owned(),
            recipient: String::new(),
            detail: place,
        };
        self.parts.log.append_then(vec![record], vec![event], Box::new(done));
    }

    /// Waits until what was done with messages of the queue is durable. Blocks.
    pub fn sync(&self) {
        self.parts.spool.flush();
    }

    /// Delivers from here what was on its way to a node that left: nobody takes it in any more.
    pub fn keep(&self, id: u64) {
        if self.state().due.get(&id) == Some(&LEAVING) {
            self.stay(id, self.now_ms());
        }
    }

    /// Lets a message wait here again that was leaving.
    fn stay(&self, id: u64, due: i64) {
        if let Some(record) = self.show(id) {
            let state = saved_progress::encode(&record);
            self.parts.spool.set_state(id, due, &state);
        }
        self.wait_until(id, due);
    }

    /// Messages that wait for a person: held, or on their way to another node.
    pub fn held(&self) -> u64 {
        let state = self.state();
        state.waiting.range((LEAVING, 0)..).count() as u64
    }

    /// Takes in messages that another node handed over, once each; what is new is on its way.
    /// Blocks until all are durable: not for a task of the runtime.
    pub fn take_in(self: &Arc<Self>, bundles: Vec<Bundle>) -> Vec<Arrival> {
        let (answers, new) = self.parts.arrivals.take_in(bundles);
        for (id, due) in new {
            // A due time is kept, but not the mark of the node that it left.
            self.wait_until(id, if due == LEAVING { HELD } else { due });
        }
        answers
    }
}
