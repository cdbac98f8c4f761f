//! The queue: messages that were accepted, until each of their addresses has its final outcome.
//!
//! ```text
//! submit ─▶ active: quarantine, Maildir, Sender settle the targets ─▶ conclude
//!    ▲                                                                 │ all final: log, then spool.done
//!    └── due ◀── waiting: id and due time only; the rest is on disk ◀──┘ else: state, log, wait
//! ```
//!
//! A message in memory is *active*; bodies of active messages are bounded, and what goes beyond waits
//! on disk like a deferred one. Order of writing: outcomes reach the log before the spool forgets the
//! message, so that a crash repeats work but loses no outcome.

mod administration;
mod cut_through;
pub mod drain;
pub mod in_hand;
pub mod passed_on;
mod reports;
pub mod schedule;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use gauntlet_mail::{Direction, Message};
use gauntlet_policy::{Change, rewrite};
use gauntlet_smtp::{Notify as DsnNotify, Outgoing, OutgoingRecipient, Ret};
use gauntlet_store::{Delivery, Event, Log, LogRecord, Outcome, Spool};
use tokio::sync::Notify;

use crate::clock::now_ms;
use crate::clock::steady::SteadyClock;
use crate::config::SenderSettings;
use crate::dsn::News;
use crate::hold::{HoldJob, Holder};
use crate::ids::{self, Ids};
use crate::maildir::{Maildir, MaildirJob};
use crate::metrics::Metrics;
use crate::queue::in_hand::{InHand, Slot};
use crate::queue::passed_on::PassedOn;
use crate::queue::schedule::Schedule;
use crate::route::{Route, Routes};
use crate::sender::{Parcel, Sender, Settled};
use crate::signing::KeyRing;
use crate::transit::{Action, Transit};

pub use cut_through::CutThrough;

/// Bytes of active messages; beyond, messages wait on disk for their turn.
const ACTIVE_BYTES_MAX: u64 = 64 << 20;
/// What an active message holds beside its body: envelope, facts and verdict take 12 KB on average
/// of real mail, which is more than most bodies.
const ACTIVE_RECORD_BYTES: u64 = 16 << 10;
/// A message whose outcome could not be logged or spooled is tried again after this.
const TROUBLE_RETRY_MS: i64 = 10_000;
/// Between two messages that were in hand at a crash.
const SUSPECT_PAUSE_MS: i64 = 20;
/// An active message that has not been concluded for so long is logged as queued.
const LOG_AFTER: Duration = Duration::from_secs(1);

/// What the queue works with.
#[derive(Debug)]
pub struct QueueParts {
    /// Messages in flight.
    pub spool: Arc<Spool>,
    /// The message log.
    pub log: Arc<Log>,
    /// The way into quarantine.
    pub holder: Holder,
    /// The way into the Maildir.
    pub maildir: Maildir,
    /// The way to next hops.
    pub sender: Arc<Sender>,
    /// Keys that sign outbound mail.
    pub key_ring: Arc<ArcSwap<KeyRing>>,
    /// Where mail goes.
    pub routes: Arc<ArcSwap<Routes>>,
    /// Retries, expiry, bounces.
    pub settings: Arc<ArcSwap<SenderSettings>>,
    /// Makes ids for bounces.
    pub ids: Arc<Ids>,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// Our name.
    pub host: String,
    /// Remembers what is in hand, for the case of a crash.
    pub in_hand: InHand,
    /// Outcomes that no spool remembers, until they are logged.
    pub passed_on: Arc<PassedOn>,
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
}

/// A message in memory.
#[derive(Debug)]
struct Active {
    id: u64,
    transit: Transit,
    body: Arc<Vec<u8>>,
    since: Instant,
    /// Its place in the list of what is in hand.
    slot: Option<Slot>,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    deliveries: Vec<Delivery>,
    /// Parcels that are not settled yet.
    open: usize,
    /// Outcomes of this round for the log.
    events: Vec<Event>,
    /// Targets of this round that the sender may be told about.
    news: Vec<(News, usize)>,
    logged: bool,
}

/// How a waiting or active message is, for people.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct QueuedMessage {
    /// The message's id.
    pub id: String,
    /// When something is to be done, Unix milliseconds; none if it is held.
    pub due_ms: Option<i64>,
    /// It is being delivered now.
    pub active: bool,
}

/// Due time of a message that an administrator holds.
const HELD: i64 = i64::MAX;

impl Queue {
    /// An empty queue.
    pub fn new(parts: QueueParts) -> Arc<Self> {
        let (state, wake) = (Mutex::default(), Notify::new());
        let (active_bytes, cutting) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Queue { parts, state, active_bytes, cutting, wake })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over messages that the spool held at the start. Those that are `unproven` are held: a person
    /// should look at them first.
    pub fn recover(&self, messages: &[(u64, i64)], unproven: &[u64]) {
        let (aside, suspects) = (self.parts.in_hand.set_aside(), self.parts.in_hand.suspects());
        let mut alone_from = now_ms();
        for (id, due) in messages {
            self.parts.ids.see(*id);
            let mut due = *due;
            if unproven.contains(id) && due != HELD {
                let name = ids::to_text(*id);
                tracing::error!(
                    id = name,
                    "held: it was found behind damage in a spool file of an older version, where a sender \
                     can forge a message; see `gauntlet queue show {name}`, then retry or delete it"
                );
                self.parts.spool.set_due(*id, HELD);
                due = HELD;
            } else if aside.contains(id) && due != HELD {
                let name = ids::to_text(*id);
                tracing::error!(
                    id = name,
                    "set aside: the node ended too often with this message in hand; see `gauntlet \
                     queue show {name}`, then retry or delete it"
                );
                self.parts.spool.set_due(*id, HELD);
                due = HELD;
            } else if suspects.contains(id) {
                // One after the other: whoever ends the process again is known by that.
                due = due.max(alone_from);
                alone_from += SUSPECT_PAUSE_MS;
            }
            self.wait_until(*id, due);
        }
    }

    /// The way to next hops.
    pub fn sender(&self) -> Arc<Sender> {
        self.parts.sender.clone()
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
    pub fn submit(self: &Arc<Self>, id: u64, transit: Transit, body: Arc<Vec<u8>>) {
        if self.parts.null {
            return;
        }
        let bytes = weight(&body);
        if self.active_bytes.load(Ordering::Relaxed) + bytes > ACTIVE_BYTES_MAX
            && !self.state().active.is_empty()
        {
            self.wait_until(id, now_ms());
            return;
        }
        self.activate(id, transit, body);
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
                    if let Ok(Some((transit, body))) = read {
                        self.activate(id, transit, Arc::new(body));
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
        let early = due.saturating_sub(now_ms());
        // Later than any attempt is put: the clock was ahead when this was written, and went back.
        let early = if due != HELD && early > self.pause_max_ms() { 0 } else { early };
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
        let settings = self.parts.settings.load();
        let longest = settings.retry_seconds.iter().copied().max().unwrap_or(0);
        let longest = i64::try_from(longest.saturating_mul(1_000)).unwrap_or(i64::MAX / 4);
        longest.max(60 * TROUBLE_RETRY_MS).saturating_mul(2)
    }

    fn read_back(&self, id: u64) -> Option<(Transit, Vec<u8>)> {
        let stored = match self.parts.spool.read(id) {
            Ok(stored) => stored,
            Err(gauntlet_store::SpoolError::Unknown(_)) => return None,
            Err(error) => {
                tracing::error!(%error, id = ids::to_text(id), "a message cannot be read back");
                self.wait_until(id, now_ms() + 60 * TROUBLE_RETRY_MS);
                return None;
            }
        };
        match serde_json::from_slice::<Transit>(&stored.meta) {
            Ok(mut transit) => {
                let state = stored.state.as_deref();
                let state = state.and_then(|s| serde_json::from_slice::<Vec<Delivery>>(s).ok());
                if let Some(deliveries) = state.filter(|d| d.len() == transit.targets.len()) {
                    transit.record.deliveries = deliveries;
                }
                Some((transit, stored.body))
            }
            Err(error) => {
                tracing::error!(%error, id = ids::to_text(id), "a message's envelope is unreadable");
                self.wait_until(id, HELD);
                None
            }
        }
    }

    /// Logs messages whose first attempt takes long, so that people see them.
    fn log_slow(&self) {
        let slow: Vec<Arc<Active>> = {
            let state = self.state();
            let late = |a: &&Arc<Active>| a.since.elapsed() > LOG_AFTER;
            state.active.values().filter(late).cloned().collect()
        };
        for active in slow {
            let mut progress = active.progress();
            if !std::mem::replace(&mut progress.logged, true) {
                let record = active.record(&progress.deliveries);
                drop(progress);
                self.parts.log.append_then(vec![record], Vec::new(), Box::new(|_| {}));
            }
        }
    }

    fn activate(self: &Arc<Self>, id: u64, transit: Transit, body: Arc<Vec<u8>>) {
        self.active_bytes.fetch_add(weight(&body), Ordering::Relaxed);
        self.parts.metrics.active.add(1);
        let deliveries = transit.record.deliveries.clone();
        let groups = self.groups(&transit);
        let progress = Progress {
            deliveries,
            open: groups.len() + 1,
            events: Vec::new(),
            news: Vec::new(),
            logged: false,
        };
        let active = Arc::new(Active {
            id,
            transit,
            body,
            since: Instant::now(),
            slot: self.parts.in_hand.take(id),
            progress: Mutex::new(progress),
        });
        self.state().active.insert(id, active.clone());
        for (group, targets) in groups {
            self.start(&active, group, targets);
        }
        // The last of the open count: only now may the message be concluded.
        self.settle(&active, Vec::new());
    }

    /// Targets that are not final, put together by what happens to them.
    fn groups(&self, transit: &Transit) -> Vec<(Group, Vec<usize>)> {
        let routes = self.parts.routes.load();
        let recipients_max = self.parts.settings.load().recipients_per_message_max;
        let mut groups: Vec<(Group, Vec<usize>)> = Vec::new();
        for (index, target) in transit.targets.iter().enumerate() {
            if transit.record.deliveries.get(index).is_none_or(|d| d.outcome.is_final()) {
                continue;
            }
            let group = match &target.action {
                Action::Send => Group::Send(routes.route(&target.address), target.changes.clone()),
                Action::Quarantine { folder } => Group::Hold(folder.clone()),
                Action::Discard => Group::Settle(Outcome::Discarded, String::new()),
                Action::Refuse { text } => Group::Settle(Outcome::Rejected, text.clone()),
            };
            match groups.iter_mut().rfind(|(known, _)| *known == group) {
                // Each file of a Maildir has one recipient.
                Some((Group::Send(route, _), targets))
                    if *route != Route::Maildir && targets.len() < recipients_max =>
                {
                    targets.push(index);
                }
                Some((Group::Hold(_) | Group::Settle(..), targets)) => targets.push(index),
                _ => groups.push((group, vec![index])),
            }
        }
        groups
    }

    fn start(self: &Arc<Self>, active: &Arc<Active>, group: Group, targets: Vec<usize>) {
        let (queue, held) = (self.clone(), active.clone());
        match group {
            Group::Settle(outcome, reply) => {
                let all = targets.iter().map(|t| settled(*t, Some(outcome), "", &reply));
                queue.settle(&held, all.collect());
            }
            Group::Hold(folder) => {
                let item = active.transit.item(&folder, &targets);
                let done = Box::new(move |result: Result<(), String>| {
                    let (outcome, reply) = match result {
                        Ok(()) => (Some(Outcome::Quarantined), String::new()),
                        Err(error) => (None, error),
                    };
                    let all = targets.iter().map(|t| settled(*t, outcome, &folder, &reply));
                    queue.settle(&held, all.collect());
                });
                self.parts.holder.hold(HoldJob { item, body: active.body.clone(), done });
            }
            Group::Send(route, changes) => {
                let body = match self.changed(&active.transit.record, &active.body, &changes) {
                    Ok(body) => body,
                    Err(why) => {
                        let all = targets.iter().map(|t| settled(*t, None, "", &why));
                        return queue.settle(&held, all.collect());
                    }
                };
                if route == Route::Maildir {
                    for target in targets {
                        self.into_maildir(active, target, body.clone());
                    }
                    return;
                }
                let outgoing = outgoing(&active.transit, &targets, body.len());
                let done = Box::new(move |all| queue.settle(&held, all));
                self.parts.sender.send(&route, Parcel { outgoing, targets, body, done });
            }
        }
    }

    fn into_maildir(self: &Arc<Self>, active: &Arc<Active>, target: usize, body: Arc<Vec<u8>>) {
        let (queue, held) = (self.clone(), active.clone());
        let record = &active.transit.record;
        let seconds = record.received_ms / 1_000;
        let recipient = active.transit.targets.get(target).map(|t| t.address.clone());
        self.parts.maildir.deliver(MaildirJob {
            name: format!("{seconds}.{}_{target}.{}", record.id, self.parts.host),
            sender: record.envelope.mail_from.clone(),
            recipient: recipient.unwrap_or_default(),
            body,
            done: Box::new(move |result| {
                let one = match result {
                    Ok(()) => settled(target, Some(Outcome::Delivered), "maildir", ""),
                    Err(error) => settled(target, None, "maildir", &error),
                };
                queue.settle(&held, vec![one]);
            }),
        });
    }

    /// The body with these changes made, signed and sealed last.
    ///
    /// # Errors
    /// If it was to be signed and the secrets process has ended: it must wait then, not go out unsigned.
    pub(crate) fn changed(
        &self,
        record: &LogRecord,
        body: &Arc<Vec<u8>>,
        changes: &[Change],
    ) -> Result<Arc<Vec<u8>>, String> {
        let signs = changes.contains(&Change::DkimSign);
        let body = match changes.len() - usize::from(signs) {
            0 => body.clone(),
            _ => Arc::new(rewrite::apply(&Message::parse(body), changes)),
        };
        let keys = self.parts.key_ring.load();
        let body = if signs { with_fields(body, &keys, |body| keys.sign(body))? } else { body };
        if !self.seals(record) {
            return Ok(body);
        }
        let now = now_ms() / 1_000;
        with_fields(body, &keys, |body| keys.seal(body, &self.parts.host, record.facts.arc, now))
    }

    /// Whether a message gets a seal when it goes on.
    pub(crate) fn seals(&self, record: &LogRecord) -> bool {
        record.envelope.direction == Direction::Inbound && self.parts.key_ring.load().seals()
    }

    /// Puts a message that does not go through the queue into quarantine, for those of its targets that
    /// are to be held; on disk when it returns.
    ///
    /// # Errors
    /// Why it could not be held. Folders before the one that failed may hold it; held again under the
    /// same id it is there once.
    pub(crate) async fn quarantine(
        &self,
        transit: &Transit,
        body: &Arc<Vec<u8>>,
    ) -> Result<(), String> {
        let mut folders: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (i, target) in transit.targets.iter().enumerate() {
            if let Action::Quarantine { folder } = &target.action {
                folders.entry(folder).or_default().push(i);
            }
        }
        for (folder, targets) in folders {
            let (sender, held) = tokio::sync::oneshot::channel();
            let done = Box::new(move |result| {
                let _the_session_may_have_gone = sender.send(result);
            });
            let item = transit.item(folder, &targets);
            self.parts.holder.hold(HoldJob { item, body: body.clone(), done });
            held.await.unwrap_or_else(|_| Err("the quarantine's thread has ended".to_owned()))?;
        }
        Ok(())
    }

    /// Takes over what became of some targets; concludes the message when nothing is open.
    fn settle(self: &Arc<Self>, active: &Arc<Active>, all: Vec<Settled>) {
        let settings = self.parts.settings.load();
        // Mail expires by the time that has passed, not by a clock that was set ahead.
        let (now, steady) = (now_ms(), self.parts.clock.now_ms());
        let schedule = Schedule::of(&settings);
        let received = active.transit.record.received_ms;
        let mut progress = active.progress();
        for Settled { target, outcome, next_hop, reply, tells } in all {
            let Some(delivery) = progress.deliveries.get_mut(target) else { continue };
            let outcome = schedule.outcome(outcome, received, steady);
            let news = schedule.news(outcome, tells, received, delivery.at_ms, steady);
            self.tally(outcome);
            *delivery = Delivery {
                address: delivery.address.clone(),
                outcome,
                at_ms: now,
                attempts: delivery.attempts + 1,
                next_hop,
                reply,
            };
            let event = active.event(delivery);
            if outcome == Outcome::Failed || outcome == Outcome::Queued {
                progress.events.extend([event]);
            }
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
            Outcome::Rejected | Outcome::Deleted => {}
        }
    }

    /// Nothing is open any more: logs the outcomes and forgets the message, or lets it wait.
    fn conclude(self: &Arc<Self>, active: &Arc<Active>) {
        let id = active.id;
        let mut progress = active.progress();
        let deliveries = progress.deliveries.clone();
        let events = std::mem::take(&mut progress.events);
        drop(progress);
        self.state().active.remove(&id);
        self.parts.in_hand.put_down(active.slot);
        self.active_bytes.fetch_sub(weight(&active.body), Ordering::Relaxed);
        self.parts.metrics.active.add(-1);
        let record = active.record(&deliveries);
        if deliveries.iter().all(|d| d.outcome.is_final()) {
            // Before the log, which is slower: a crash in between must not deliver again.
            let state = serde_json::to_vec(&deliveries).unwrap_or_default();
            self.parts.spool.set_state(id, now_ms(), &state);
            let age = now_ms().saturating_sub(record.received_ms).max(0).cast_unsigned();
            self.parts.metrics.delivery_time.record(Duration::from_millis(age));
            announce(&record);
            let queue = self.clone();
            let done = move |result: Result<_, gauntlet_store::StoreError>| match result {
                Ok(_) => queue.parts.spool.done(id),
                Err(error) => {
                    tracing::error!(%error, "an outcome could not be logged; it is tried again");
                    queue.remember(id, &deliveries, now_ms() + TROUBLE_RETRY_MS);
                }
            };
            return self.parts.log.append_then(vec![record], events, Box::new(done));
        }
        let waiting = deliveries.iter().filter(|d| !d.outcome.is_final());
        let attempts = waiting.map(|d| d.attempts).min().unwrap_or(1);
        let settings = self.parts.settings.load();
        let due = Schedule::of(&settings).next_attempt(id, attempts, now_ms());
        self.remember(id, &deliveries, due);
        self.parts.log.append_then(vec![record], events, Box::new(|_| {}));
    }

    fn remember(&self, id: u64, deliveries: &[Delivery], due: i64) {
        let state = serde_json::to_vec(deliveries).unwrap_or_default();
        self.parts.spool.set_state(id, due, &state);
        self.wait_until(id, due);
    }
}

/// What happens to a group of targets.
#[derive(Debug, PartialEq, Eq)]
enum Group {
    Send(Route, Vec<Change>),
    Hold(String),
    Settle(Outcome, String),
}

/// What an active message counts against [`ACTIVE_BYTES_MAX`].
fn weight(body: &[u8]) -> u64 {
    (body.len() as u64).saturating_add(ACTIVE_RECORD_BYTES)
}

fn settled(target: usize, outcome: Option<Outcome>, next_hop: &str, reply: &str) -> Settled {
    let (next_hop, reply, tells) = (next_hop.to_owned(), reply.to_owned(), false);
    Settled { target, outcome, next_hop, reply, tells }
}

/// Envelope of a message for some of its targets.
fn outgoing(transit: &Transit, targets: &[usize], bytes: usize) -> Outgoing {
    let Transit { record, eight_bit, utf8, ret_full, envid, .. } = transit;
    let recipient = |target: &usize| {
        let target = transit.targets.get(*target)?;
        let notify =
            target.notify.map(|(success, failure, delay)| DsnNotify { success, failure, delay });
        let (to, orcpt) = (target.address.clone(), target.orcpt.clone());
        Some(OutgoingRecipient { to, notify, orcpt })
    };
    Outgoing {
        from: record.envelope.mail_from.clone(),
        recipients: targets.iter().filter_map(recipient).collect(),
        size: bytes as u64,
        eight_bit: *eight_bit,
        utf8: *utf8,
        ret: ret_full.map(|full| if full { Ret::Full } else { Ret::Headers }),
        envid: envid.clone(),
    }
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
        let mut record = self.transit.record.clone();
        record.deliveries = deliveries.to_vec();
        record
    }

    fn event(&self, delivery: &Delivery) -> Event {
        let kind = match delivery.outcome {
            Outcome::Queued => "deferred",
            Outcome::Failed => "bounced",
            other => other.name(),
        };
        Event {
            id: self.transit.record.id.clone(),
            received_ms: self.transit.record.received_ms,
            at_ms: delivery.at_ms,
            kind: kind.to_owned(),
            recipient: delivery.address.clone(),
            detail: format!("{} {}", delivery.next_hop, delivery.reply),
        }
    }
}

/// The message with fields on top that are made of it; as it is, said in the log, if they cannot be.
fn with_fields(
    body: Arc<Vec<u8>>,
    keys: &KeyRing,
    make: impl FnOnce(&[u8]) -> anyhow::Result<String>,
) -> Result<Arc<Vec<u8>>, String> {
    match make(&body) {
        Ok(fields) if fields.is_empty() => Ok(body),
        Ok(fields) => Ok(Arc::new([fields.as_bytes(), &body].concat())),
        Err(error) if keys.are_out_of_reach() => {
            tracing::error!(%error, "a message waits: it cannot be signed now");
            Err("cannot be signed now".to_owned())
        }
        Err(error) => {
            tracing::error!(%error, "a message goes out unsigned");
            Ok(body)
        }
    }
}
