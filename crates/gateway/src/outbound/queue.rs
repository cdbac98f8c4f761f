//! The queue: messages that were accepted, until each of their addresses has its final outcome.
//!
//! ```text
//! submit ─▶ active: quarantine, Maildir, Sender settle the targets ─▶ conclude
//!    ▲                                                                 │ all final: log, then
//!    spool.done └── due ◀── waiting: id and due time only; the rest is on disk ◀──┘ else: state,
//!    log, wait
//! ```
//!
//! A message in memory is *active*; bodies of active messages are bounded, and what goes beyond
//! waits on disk like a deferred one. Order of writing: outcomes reach the log before the spool
//! forgets the message, so that a crash repeats work but loses no outcome.

pub mod accept;
pub mod administration;
pub mod arrivals;
mod backlog;
pub mod bundle;
mod changes;
mod cut_through;
pub mod cut_through_journal;
mod deliver;
pub mod departures;
pub mod drain;
mod failed_releases;
mod groups;
pub mod in_flight;
mod ledger;
mod notifications;
mod removals;
mod reports;
mod saved_progress;
pub mod schedule;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gauntlet_store::{Delivery, Event, Log, LogRecord, Outcome, Spool};
use tokio::sync::Notify;

use crate::clock::steady::SteadyClock;
use crate::current::Current;
use crate::ids::{self, Ids};
use crate::metrics::Metrics;
use crate::outbound::disarming::Disarming;
use crate::outbound::hold::Holder;
use crate::outbound::maildir::Maildir;
use crate::outbound::queue::cut_through_journal::CutThroughJournal;
use crate::outbound::queue::in_flight::{InFlight, Slot};
use crate::outbound::queue::schedule::Schedule;
use crate::outbound::queued_message::{News, QueuedMessage};
use crate::outbound::sender::{Sender, Settled};
use crate::outbound::settings::OutboundSettings;

pub use self::arrivals::Arrival;
use self::arrivals::Arrivals;
pub use self::bundle::Bundle;
use self::failed_releases::ReleasedMessage;
use self::groups::groups;
pub(crate) use changes::seals;
pub use cut_through::{CutThrough, NextHopAnswer};

/// Bytes of active messages; beyond, messages wait on disk for their turn.
const ACTIVE_BYTES_MAX: u64 = 64 << 20;
/// What an active message holds beside its body: envelope, facts and verdict take 12 KB on average
/// of real mail, which is more than most bodies.
const ACTIVE_RECORD_BYTES: u64 = 16 << 10;
/// A message whose outcome could not be logged or spooled is tried again after this.
const ERROR_RETRY_MS: i64 = 10_000;
/// Between two messages that were in flight at a crash.
const SUSPECT_PAUSE_MS: i64 = 20;
/// An active message that has not been concluded for so long is logged as queued.
const LOG_AFTER: Duration = Duration::from_secs(1);

/// What the queue works with.
#[derive(Debug)]
pub struct QueueParts {
    /// Holds messages in flight, durable until every recipient is settled.
    pub spool: Arc<Spool>,
    /// The message log, which has a line for each outcome.
    pub log: Arc<Log>,
    /// The way into quarantine.
    pub holder: Holder,
    /// Takes macros and scripts out of files.
    pub disarming: Disarming,
    /// The way into the Maildir.
    pub maildir: Maildir,
    /// The way to next hops.
    pub sender: Arc<Sender>,
    /// The settings in force: one generation for each attempt.
    pub settings: Current<OutboundSettings>,
    /// Makes ids for bounces.
    pub ids: Arc<Ids>,
    /// Counters and gauges, which `/metrics` shows.
    pub metrics: Arc<Metrics>,
    /// Host name of this node, as HELO and trace fields have it.
    pub host: String,
    /// Remembers which messages are in flight, for the case of a crash.
    pub in_flight: InFlight,
    /// Outcomes that no spool remembers, until they are logged.
    pub cut_through_journal: Arc<CutThroughJournal>,
    /// Takes in what other nodes hand over.
    pub arrivals: Arrivals,
    /// The time that messages age by.
    pub clock: Arc<SteadyClock>,
    /// The spool keeps nothing: every message is dropped once it is accepted.
    pub null: bool,
}

/// The queue. Share it as `Arc<Queue>`.
#[derive(Debug)]
pub struct Queue {
    parts: QueueParts,
    state: Mutex<State>,
    active_bytes: AtomicU64,
    cutting: AtomicU64,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Waiting messages by due time.
    waiting: BTreeSet<(i64, u64)>,
    /// Due time of each waiting message.
    due: HashMap<u64, i64>,
    active: BTreeMap<u64, Arc<Active>>,
    /// Messages that the quarantine has not got yet. Those that the last process left count until
    /// they are read.
    to_hold: BTreeSet<u64>,
}

/// A message in memory.
#[derive(Debug)]
struct Active {
    id: u64,
    message: QueuedMessage,
    body: Bytes,
    since: Instant,
    /// Those of this attempt.
    settings: Arc<OutboundSettings>,
    /// Its slot in the list of messages in flight.
    slot: Option<Slot>,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    deliveries: Vec<Delivery>,
    /// Delivery jobs that are not settled yet.
    open: usize,
    /// Outcomes of this round for the log.
    events: Vec<Event>,
    /// Targets of this round whose outcome may be reported to the sender.
    news: Vec<(News, usize)>,
    logged: bool,
}

/// A waiting or active message, as commands and console show it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct QueueEntry {
    /// Id of the message, as log and Received field have it.
    pub id: String,
    /// When something is to be done, Unix milliseconds; none if it is held.
    pub due_ms: Option<i64>,
    /// It is being delivered now.
    pub active: bool,
    /// The node of the array that it is on its way to; empty for none.
    pub leaving_to: String,
}

/// Due time of a message that an administrator holds.
const HELD: i64 = i64::MAX;
/// Due time of a message that is on its way to another node.
const LEAVING: i64 = HELD - 1;

impl Queue {
    /// An empty queue; what the spool has is to be put into it.
    pub fn new(parts: QueueParts) -> Arc<Self> {
        let (state, wake) = (Mutex::default(), Notify::new());
        let (active_bytes, cutting) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Queue { parts, state, active_bytes, cutting, wake })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The wall clock, Unix milliseconds: due times and dates.
    pub(crate) fn now_ms(&self) -> i64 {
        self.parts.clock.wall_ms()
    }

    /// Queues messages that the spool held at the start. Those that are `unproven` are held: an
    /// administrator should review them first.
    pub fn recover(&self, messages: &[(u64, i64)], unproven: &[u64]) {
        let (aside, suspects) = (self.parts.in_flight.set_aside(), self.parts.in_flight.suspects());
        let mut alone_from = self.now_ms();
        for (id, due) in messages {
            self.parts.ids.see(*id);
            let mut due = *due;
            if unproven.contains(id) && due < LEAVING {
                let name = ids::to_text(*id);
                tracing::error!(
                    id = name,
                    "held: it was found behind damage in a spool file of an older version, where a sender \
                     can forge a message; see `gauntlet queue show {name}`, then retry or delete it"
                );
                self.parts.spool.set_due(*id, HELD);
                due = HELD;
            } else if aside.contains(id) && due < LEAVING {
                let name = ids::to_text(*id);
                tracing::error!(
                    id = name,
                    "set aside: the node ended too often with this message in hand; see `gauntlet \
                     queue show {name}`, then retry or delete it"
                );
                self.parts.spool.set_due(*id, HELD);
                due = HELD;
            } else if suspects.contains(id) && due < LEAVING {
                // One after the other: the message that ends the process again is known by that.
                due = due.max(alone_from);
                alone_from += SUSPECT_PAUSE_MS;
            }
            self.wait_until(*id, due);
        }
        let now = self.now_ms();
        let due_now = messages.iter().filter(|(_, due)| *due <= now).map(|(id, _)| *id);
        self.state().to_hold.extend(due_now);
    }

    /// The way to next hops.
    pub fn sender(&self) -> Arc<Sender> {
        self.parts.sender.clone()
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> Arc<OutboundSettings> {
        self.parts.settings.get()
    }

    /// Messages waiting or active.
    pub fn count(&self) -> u64 {
        let state = self.state();
        (state.due.len() + state.active.len()) as u64
    }

    /// The oldest message's id, from which its age follows.
    pub fn oldest(&self) -> Option<u64> {
        let state = self.state();
        let waiting = state.due.keys().min().copied();
        let active = state.active.keys().next().copied();
        waiting.into_iter().chain(active).min()
    }

    /// Nothing is active: for draining.
    pub fn is_quiet(&self) -> bool {
        self.state().active.is_empty()
    }

    /// Takes a message that is in the spool.
    fn submit(self: &Arc<Self>, id: u64, message: QueuedMessage, body: Bytes) {
        self.note_backlog(id, &message.targets, &message.record.deliveries);
        let bytes = weight(&body);
        // A message that alone is beyond the limit goes when nothing else is active.
        if self.active_bytes.load(Ordering::Relaxed) + bytes > ACTIVE_BYTES_MAX
            && !self.state().active.is_empty()
        {
            return self.remember(&message.record, id, self.now_ms());
        }
        self.activate(id, message, body);
    }

    fn wait_until(&self, id: u64, due: i64) {
        let mut state = self.state();
        if let Some(before) = state.due.insert(id, due) {
            state.waiting.remove(&(before, id));
        }
        state.waiting.insert((due, id));
        drop(state);
        self.wake.notify_one();
    }

    /// Reads due messages back and delivers them, for ever; also logs messages that take long.
    pub async fn run(self: Arc<Self>) {
        loop {
            let next = self.next_due();
            match next {
                Ok(id) => {
                    let queue = self.clone();
                    let read = tokio::task::spawn_blocking(move || queue.read_back(id)).await;
                    if let Ok(Some((message, body))) = read {
                        self.activate(id, message, body.into());
                    }
                }
                Err(pause) => {
                    let _woken_or_late = tokio::time::timeout(pause, self.wake.notified()).await;
                    self.log_slow();
                }
            }
        }
    }

    /// The next due message, taken off the waiting list; or how long to pause.
    fn next_due(&self) -> Result<u64, Duration> {
        let mut state = self.state();
        let full = self.active_bytes.load(Ordering::Relaxed) >= ACTIVE_BYTES_MAX;
        let Some(&(due, id)) = state.waiting.first() else { return Err(LOG_AFTER) };
        let early = due.saturating_sub(self.now_ms());
        // Later than any attempt is put: the clock was ahead when this was written, and went back.
        let early = if due < LEAVING && early > self.pause_max_ms() { 0 } else { early };
        if early > 0 || full {
            let early = Duration::from_millis(early.max(10).cast_unsigned());
            return Err(early.min(LOG_AFTER));
        }
        state.waiting.remove(&(due, id));
        state.due.remove(&id);
        Ok(id)
    }

    /// Milliseconds between two attempts at most, with some to spare.
    fn pause_max_ms(&self) -> i64 {
        let settings = &self.parts.settings.get().sender;
        let longest = settings.retry_seconds.iter().copied().max().unwrap_or(0);
        let longest = i64::try_from(longest.saturating_mul(1_000)).unwrap_or(i64::MAX / 4);
        longest.max(60 * ERROR_RETRY_MS).saturating_mul(2)
    }

    fn read_back(&self, id: u64) -> Option<(QueuedMessage, Vec<u8>)> {
        let stored = match self.parts.spool.read(id) {
            Ok(stored) => stored,
            Err(gauntlet_store::SpoolError::Unknown(_)) => {
                self.leave_backlog(id);
                return None;
            }
            Err(error) => {
                tracing::error!(%error, id = ids::to_text(id), "a message cannot be read back");
                self.wait_until(id, self.now_ms() + 60 * ERROR_RETRY_MS);
                return None;
            }
        };
        match serde_json::from_slice::<QueuedMessage>(&stored.meta) {
            Ok(mut message) => {
                let (state, targets) = (stored.state.as_deref(), message.targets.len());
                saved_progress::apply(state, targets, &mut message.record);
                Some((message, stored.body))
            }
            Err(error) => {
                tracing::error!(%error, id = ids::to_text(id), "a message's envelope is unreadable");
                self.wait_until(id, HELD);
                None
            }
        }
    }

    /// Logs messages whose first attempt takes long, so that the log shows them.
    fn log_slow(&self) {
        let slow: Vec<Arc<Active>> = {
            let (state, clock) = (self.state(), self.parts.clock.clock());
            let late = |a: &&Arc<Active>| clock.elapsed(a.since) > LOG_AFTER;
            state.active.values().filter(late).cloned().collect()
        };
        for active in slow {
            let mut progress = active.progress();
            if !std::mem::replace(&mut progress.logged, true) {
                let record = active.record(&progress.deliveries);
                drop(progress);
                self.parts.log.append_or_tell(vec![record], Vec::new());
            }
        }
    }

    fn activate(self: &Arc<Self>, id: u64, message: QueuedMessage, body: Bytes) {
        let settings = self.parts.settings.get();
        let groups = groups(&settings, &message);
        let slot = self.parts.in_flight.take(id);
        let active = self.begin_attempt(id, message, body, (settings, slot, groups.len()));
        for (group, targets) in groups {
            self.start(&active, group, targets);
        }
        // The last of the open count: only now may the message be concluded.
        self.settle(active, Vec::new());
    }

    /// A message is active from now on, with so many delivery jobs, and one more for whoever begins
    /// the attempt: what settles at once must not conclude the message yet.
    fn begin_attempt(
        &self,
        id: u64,
        message: QueuedMessage,
        body: Bytes,
        (settings, slot, jobs): (Arc<OutboundSettings>, Option<Slot>, usize),
    ) -> Arc<Active> {
        self.note_backlog(id, &message.targets, &message.record.deliveries);
        self.active_bytes.fetch_add(weight(&body), Ordering::Relaxed);
        self.parts.metrics.active.add(1);
        let progress = Progress {
            deliveries: message.record.deliveries.clone(),
            open: jobs + 1,
            events: Vec::new(),
            news: Vec::new(),
            logged: false,
        };
        let (since, progress) = (self.parts.clock.clock().now(), Mutex::new(progress));
        let active = Arc::new(Active { id, message, body, since, settings, slot, progress });
        self.state().active.insert(id, active.clone());
        active
    }

    /// Applies the outcomes of some targets; concludes the message when nothing is open.
    fn settle(self: &Arc<Self>, active: Arc<Active>, all: Vec<Settled>) {
        let settings = &active.settings.sender;
        // Mail expires by the time that has passed, not by a clock that was set ahead.
        let (now, steady) = (self.now_ms(), self.parts.clock.now_ms());
        let schedule = Schedule::of(settings);
        let received = active.message.record.received_ms;
        let mut progress = active.progress();
        for Settled { target, outcome, next_hop, reply, reports_delivery } in all {
            let Some(delivery) = progress.deliveries.get_mut(target) else { continue };
            let outcome = schedule.outcome(outcome, received, steady);
            let news = schedule.news(outcome, reports_delivery, received, delivery.at_ms, steady);
            self.tally(outcome);
            *delivery = Delivery {
                address: delivery.address.clone(),
                outcome,
                at_ms: now,
                attempts: delivery.attempts + 1,
                next_hop,
                reply,
            };
            let is_told = outcome == Outcome::Failed || outcome == Outcome::Queued;
            let event = is_told.then(|| active.event(target, delivery));
            progress.events.extend(event);
            progress.news.extend(news.map(|news| (news, target)));
        }
        progress.open -= 1;
        let over = progress.open == 0;
        drop(progress);
        if over {
            self.report(active);
        }
    }

    fn tally(&self, outcome: Outcome) {
        let metrics = &self.parts.metrics;
        match outcome {
            Outcome::Queued => metrics.deferred.add_one(),
            Outcome::Delivered => metrics.delivered.add_one(),
            Outcome::Quarantined => metrics.quarantined.add_one(),
            Outcome::Failed => metrics.failed.add_one(),
            Outcome::Discarded => metrics.discarded.add_one(),
            Outcome::Rejected | Outcome::Deleted | Outcome::Moved => {}
        }
    }

    /// Nothing is open any more: logs the outcomes and forgets the message, or lets it wait.
    fn conclude(self: &Arc<Self>, active: Arc<Active>) {
        let id = active.id;
        let mut progress = active.progress();
        let deliveries = progress.deliveries.clone();
        let events = std::mem::take(&mut progress.events);
        drop(progress);
        self.state().active.remove(&id);
        self.note_backlog(id, &active.message.targets, &deliveries);
        self.parts.in_flight.release(active.slot);
        self.active_bytes.fetch_sub(weight(&active.body), Ordering::Relaxed);
        self.parts.metrics.active.add(-1);
        let settings = active.settings.clone();
        // Of one that came from another node the item is there.
        let released = active.message.release.clone().filter(|_| active.message.moved.is_none());
        // Nobody else has it any more, as a rule.
        let record = Arc::try_unwrap(active)
            .map_or_else(|shared| shared.message.record.clone(), |own| own.message.record);
        let record = LogRecord { deliveries, ..record };
        if record.deliveries.iter().all(|d| d.outcome.is_final()) {
            // Before the log, which is slower: a crash in between must not deliver again.
            let state = saved_progress::encode(&record);
            self.parts.spool.set_state(id, self.now_ms(), &state);
            let age = self.now_ms().saturating_sub(record.received_ms).max(0).cast_unsigned();
            self.parts.metrics.delivery_time.record(Duration::from_millis(age));
            announce(&record);
            if let Some(token) = released {
                let (id, deliveries) = (record.id.clone(), record.deliveries.clone());
                let (queue, released) = (self.clone(), ReleasedMessage { token, id, deliveries });
                apart(move || queue.conclude_release(&released));
            }
            let queue = self.clone();
            let done = move |result: Result<_, gauntlet_store::StoreError>| match result {
                Ok(_) => queue.parts.spool.done(id),
                Err(error) => {
                    tracing::error!(%error, "an outcome could not be logged; it is tried again");
                    let due = queue.now_ms() + ERROR_RETRY_MS;
                    queue.parts.spool.set_state(id, due, &state);
                    queue.wait_until(id, due);
                }
            };
            return self.parts.log.append_then(vec![record], events, Box::new(done));
        }
        let waiting = record.deliveries.iter().filter(|d| !d.outcome.is_final());
        let attempts = waiting.map(|d| d.attempts).min().unwrap_or(1);
        let due = Schedule::of(&settings.sender).next_attempt(id, attempts, self.now_ms());
        self.remember(&record, id, due);
        self.parts.log.append_or_tell(vec![record], events);
    }

    /// Lets a message wait; how far it got is kept in the spool.
    fn remember(&self, record: &LogRecord, id: u64, due: i64) {
        self.parts.spool.set_state(id, due, &saved_progress::encode(record));
        self.wait_until(id, due);
    }
}

/// Does what waits for a disk, if this is a thread that should not.
fn apart(work: impl FnOnce() + Send + 'static) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => work(),
    }
}

/// What an active message counts against [`ACTIVE_BYTES_MAX`].
fn weight(body: &[u8]) -> u64 {
    (body.len() as u64).saturating_add(ACTIVE_RECORD_BYTES)
}

/// One line a final disposition.
fn announce(record: &LogRecord) {
    for delivery in &record.deliveries {
        tracing::info!(
            id = record.id,
            from = record.envelope.mail_from,
            to = delivery.address,
            class = record.verdict.class.name(),
            score = record.verdict.score,
            outcome = delivery.outcome.name(),
            next_hop = delivery.next_hop,
            attempts = delivery.attempts,
            reply = delivery.reply,
            "message"
        );
    }
}

impl Active {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, deliveries: &[Delivery]) -> LogRecord {
        let mut record = self.message.record.clone();
        record.deliveries = deliveries.to_vec();
        record
    }
}

#[cfg(test)]
mod tests;
