//! Taking in messages that another node accepted, once each, however often they are handed over.
//!
//! ```text
//! bundle ─▶ known? ─▶ intended (synced) ─▶ spool (synced) ─▶ taken (synced) ─▶ queue, answer
//!             └ yes: answer alone
//! ```
//!
//! A crash before the spool has the message leaves an intent without a message, and it is taken in
//! when it is handed over again. A crash behind that point leaves the message in the spool: the
//! next start finds it by its intent. Nothing is delivered before *taken* is durable, so that a
//! message that has been delivered and forgotten is known by its token. Why:
//! `docs/decisions/302-messages-move-once.md`.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use gauntlet_store::{Event, Log, LogRecord, Quarantine, Spool};
use serde::{Deserialize, Serialize};

use super::bundle::{Bundle, Token};
use super::ledger::{Known, Ledger};
use super::saved_progress;
use crate::clock::Clock;
use crate::ids::{self, Ids};
use crate::outbound::queued_message::{Moved, QueuedMessage};

/// A message whose id is further ahead of our clock gets a new one: ids made here must not follow a
/// clock that is wrong elsewhere.
const AHEAD_MS_MAX: i64 = 60_000;
/// Beside the time for a body: for its judgement and whatever else comes before the spool.
const IN_HAND_MS: i64 = 600_000;

/// What became of a message that was handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// It is here, durable, and on its way.
    Taken {
        /// Its id here.
        id: String,
    },
    /// It came before.
    Known {
        /// Its id here then.
        id: String,
    },
    /// It is not here and will not be: what is wrong with it.
    Refused {
        /// Why.
        why: String,
    },
    /// It is not here now, and may be handed over again.
    Later {
        /// Why, and what to do.
        why: String,
    },
}

/// What arrivals work with.
#[derive(Debug, Clone)]
pub struct ArrivalParts {
    /// Gets the messages.
    pub spool: Arc<Spool>,
    /// Knows which ids were used.
    pub log: Arc<Log>,
    /// The same.
    pub quarantine: Arc<Quarantine>,
    /// Makes ids for messages whose own is taken.
    pub ids: Arc<Ids>,
    /// Dates of records.
    pub clock: Clock,
    /// Longest time for a body in milliseconds; none where nothing is received.
    pub body_ms_max: Option<i64>,
    /// Whether the spool outlives the process.
    pub is_durable: bool,
}

/// Takes messages in.
#[derive(Debug)]
pub struct Arrivals {
    parts: ArrivalParts,
    ledger: Mutex<Ledger>,
    /// When this process began to make ids, Unix milliseconds.
    started_ms: i64,
}

/// A message about to be put into the spool.
struct Planned {
    index: usize,
    token: Token,
    id: u64,
    due_ms: i64,
    record: LogRecord,
    moved: Moved,
    meta: Vec<u8>,
    body: Bytes,
}

impl Arrivals {
    /// Where messages are held.
    pub(super) fn quarantine(&self) -> &Quarantine {
        &self.parts.quarantine
    }

    /// Opens the record of arrivals in this folder, and finds out what became of those that a crash
    /// interrupted: before anything of the spool is delivered.
    ///
    /// # Errors
    /// If it cannot be read, or not be made.
    pub fn open(folder: &Path, parts: ArrivalParts) -> io::Result<Self> {
        let now_ms = parts.clock.unix_ms();
        let mut ledger = Ledger::open(folder, now_ms)?;
        let (mut here, mut gone) = (Vec::new(), Vec::new());
        for (token, id) in ledger.open_intents() {
            let is_here = due_of(&parts.spool, token, id).is_some();
            if is_here { here.push((token, id)) } else { gone.push(token) }
        }
        gone.into_iter().for_each(|token| ledger.forget(token));
        if let Err(error) = ledger.take(&here, now_ms) {
            tracing::error!(%error, "that messages were taken in cannot be written down");
            ledger.believe(&here, now_ms);
        }
        Ok(Arrivals { parts, ledger: Mutex::new(ledger), started_ms: now_ms })
    }

    /// Takes messages in: one answer for each, in their order, and what is new with its due time,
    /// for the queue. Blocks until all are on stable storage.
    pub fn take_in(&self, bundles: Vec<Bundle>) -> (Vec<Arrival>, Vec<(u64, i64)>) {
        let count = bundles.len();
        if !self.parts.is_durable {
            let why = "the spool here keeps nothing (spool.backend): set it to \"disk\"";
            return (vec![Arrival::Refused { why: why.to_owned() }; count], Vec::new());
        }
        // One after the other: two callers may hand over the same message.
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let mut answers = vec![later("it was not looked at"); count];
        let (mut new, mut planned) = (Vec::new(), Vec::<Planned>::new());
        let mut ids_used = BTreeSet::new();
        for (index, bundle) in bundles.into_iter().enumerate() {
            let token = bundle.token();
            if let Some((answer, due)) = self.known(&mut ledger, token) {
                new.extend(due);
                set(&mut answers, index, answer);
            } else if planned.iter().any(|other| other.token == token) {
                set(&mut answers, index, later("the same message is being taken in"));
            } else {
                match self.plan(index, token, bundle, &mut ids_used) {
                    Ok(plan) => planned.push(plan),
                    Err(why) => set(&mut answers, index, Arrival::Refused { why }),
                }
            }
        }
        new.extend(self.put(&mut ledger, planned, &mut answers));
        (answers, new)
    }

    /// What is known of a move. One that was interrupted here is finished.
    fn known(&self, ledger: &mut Ledger, token: Token) -> Option<(Arrival, Option<(u64, i64)>)> {
        let id = match ledger.get(token)? {
            Known::Taken(id) => return Some((Arrival::Known { id: ids::to_text(id) }, None)),
            Known::Intended(id) => id,
        };
        let Some(due_ms) = due_of(&self.parts.spool, token, id) else {
            ledger.forget(token);
            return None;
        };
        Some(match ledger.take(&[(token, id)], self.parts.clock.unix_ms()) {
            Ok(()) => (Arrival::Taken { id: ids::to_text(id) }, Some((id, due_ms))),
            Err(error) => (later(&unwritten(&error)), None),
        })
    }

    /// The message as the spool is to have it.
    ///
    /// # Errors
    /// Why it can be taken in nowhere.
    fn plan(
        &self,
        index: usize,
        token: Token,
        bundle: Bundle,
        ids_used: &mut BTreeSet<u64>,
    ) -> Result<Planned, String> {
        let unreadable = |error: &dyn std::fmt::Display| format!("its envelope: {error}");
        let text = String::from_utf8(bundle.meta).map_err(|e| unreadable(&e))?;
        let first: QueuedMessage = serde_json::from_str(&text).map_err(|e| unreadable(&e))?;
        let id = self.id_for(bundle.id, &first.record, ids_used);
        let (old_name, name) = (ids::to_text(bundle.id), ids::to_text(id));
        let mut message = match id == bundle.id {
            true => first,
            // Names of originals in quarantine and texts that quote the reference follow it.
            false => {
                serde_json::from_str(&text.replace(&old_name, &name)).map_err(|e| unreadable(&e))?
            }
        };
        let targets = message.targets.len();
        saved_progress::apply(bundle.state.as_deref(), targets, &mut message.record);
        if message.record.deliveries.len() != targets {
            return Err("its deliveries are not those of its recipients".to_owned());
        }
        message.record.id = name;
        // A release that the other node began there is finished there.
        message.release = None;
        let moved = Moved { token: token.to_text(), from: bundle.from, id: old_name };
        message.moved = Some(moved.clone());
        let meta = serde_json::to_vec(&message).map_err(|e| unreadable(&e))?;
        ids_used.insert(id);
        let (record, body) = (message.record, bundle.body);
        Ok(Planned { index, token, id, due_ms: bundle.due_ms, record, moved, meta, body })
    }

    /// Its own id if that names nothing else here, else a new one.
    fn id_for(&self, id: u64, record: &LogRecord, ids_used: &BTreeSet<u64>) -> u64 {
        let now_ms = self.parts.clock.unix_ms();
        let made_ms = ids::time_of(id);
        // A message that this process receives now has an id that nothing else shows yet.
        let in_hand_ms = self.parts.body_ms_max.map(|ms| ms.saturating_add(IN_HAND_MS));
        let may_be_in_hand = in_hand_ms
            .is_some_and(|ms| made_ms >= self.started_ms && made_ms.saturating_add(ms) > now_ms);
        if id > 0 && made_ms <= now_ms + AHEAD_MS_MAX && !may_be_in_hand {
            self.parts.ids.see(id);
            if !ids_used.contains(&id) && self.is_free(id, record) {
                return id;
            }
        }
        self.parts.ids.next(now_ms)
    }

    fn is_free(&self, id: u64, record: &LogRecord) -> bool {
        let name = ids::to_text(id);
        if self.parts.spool.contains(id) {
            return false;
        }
        let same = |other: &LogRecord| {
            other.received_ms == record.received_ms
                && other.size == record.size
                && other.envelope == record.envelope
        };
        match self.parts.log.get(&name) {
            // It was here before, or the nodes share a log.
            Ok(Some(logged)) => same(&logged.record),
            Ok(None) => matches!(self.parts.quarantine.get(&name), Ok(None)),
            Err(_) => false,
        }
    }

    /// Puts messages into the spool and notes that they are there; what is new, with its due time.
    fn put(
        &self,
        ledger: &mut Ledger,
        planned: Vec<Planned>,
        answers: &mut [Arrival],
    ) -> Vec<(u64, i64)> {
        let now_ms = self.parts.clock.unix_ms();
        let moves: Vec<(Token, u64)> = planned.iter().map(|p| (p.token, p.id)).collect();
        let bytes = planned.iter().map(|p| (p.meta.len() + p.body.len()) as u64).sum();
        let room = self.parts.spool.reserve(bytes).map_err(|error| error.to_string());
        let ready =
            room.and_then(|()| ledger.intend(&moves, now_ms).map_err(|error| unwritten(&error)));
        if let Err(why) = ready {
            planned.iter().for_each(|p| set(answers, p.index, later(&why)));
            return Vec::new();
        }
        let waits: Vec<_> = planned.into_iter().map(|plan| self.put_one(plan)).collect();
        let mut here = Vec::new();
        for (plan, durable) in waits {
            match durable.recv() {
                Ok(Ok(())) => here.push(plan),
                Ok(Err(error)) => set(answers, plan.index, later(&error)),
                Err(_) => set(answers, plan.index, later("the spool has ended")),
            }
        }
        let moves: Vec<(Token, u64)> = here.iter().map(|p| (p.token, p.id)).collect();
        if let Err(error) = ledger.take(&moves, now_ms) {
            here.iter().for_each(|p| set(answers, p.index, later(&unwritten(&error))));
            return Vec::new();
        }
        let new = here.iter().map(|p| (p.id, p.due_ms)).collect();
        let (mut records, mut events) = (Vec::new(), Vec::new());
        for plan in here {
            set(answers, plan.index, Arrival::Taken { id: plan.record.id.clone() });
            events.push(arrived(&plan.record, &plan.moved, now_ms));
            records.push(plan.record);
        }
        if !records.is_empty() {
            self.parts.log.append_or_tell(records, events);
        }
        new
    }

    fn put_one(
        &self,
        mut plan: Planned,
    ) -> (Planned, std::sync::mpsc::Receiver<Result<(), String>>) {
        let (sender, durable) = channel();
        let done = Box::new(move |result: Result<(), gauntlet_store::SpoolError>| {
            let _the_caller_waits = sender.send(result.map_err(|error| error.to_string()));
        });
        let meta = std::mem::take(&mut plan.meta);
        self.parts.spool.put(plan.id, plan.due_ms, meta, plan.body.clone(), done);
        (plan, durable)
    }
}

/// The due time of the message of this move in the spool; none if it is not there.
fn due_of(spool: &Spool, token: Token, id: u64) -> Option<i64> {
    let stored = spool.read(id).ok()?;
    let message: QueuedMessage = serde_json::from_slice(&stored.meta).ok()?;
    (message.moved?.token == token.to_text()).then_some(stored.due)
}

fn arrived(record: &LogRecord, moved: &Moved, at_ms: i64) -> Event {
    let from = if moved.from.is_empty() { "another node" } else { moved.from.as_str() };
    Event {
        id: record.id.clone(),
        received_ms: record.received_ms,
        at_ms,
        kind: "moved_here".to_owned(),
        recipient: String::new(),
        detail: format!("from {from}, where it was {}", moved.id),
    }
}

fn later(why: &str) -> Arrival {
    Arrival::Later { why: why.to_owned() }
}

fn unwritten(error: &io::Error) -> String {
    format!("the record of moved messages cannot be written: {error}; make room on the disk")
}

fn set(answers: &mut [Arrival], index: usize, answer: Arrival) {
    if let Some(place) = answers.get_mut(index) {
        *place = answer;
    }
}

#[cfg(test)]
mod tests;
