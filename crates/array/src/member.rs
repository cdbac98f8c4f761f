//! A node as a member of the array: one thread that ships, tells, and follows.
//!
//! Nothing waits for it. The database away: it tries again, with growing pauses, and what is to be
//! shipped waits on the node's disk.

mod held;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gauntlet_mail::date::DAY_MS;
use gauntlet_store::log::Backlog;
use gauntlet_store::sharing::SharedKind;
use gauntlet_store::{Clock, Log, Quarantine};
use tokio::sync::watch;

use crate::activity::{self, ActivityLog, ActivityShipper, NumberedLine, ReadActivity};
use crate::database::{Database, Notifications, Session};
use crate::editions::{CHANNEL, Edition};
use crate::error::ArrayError;
use crate::log::DayCounts;
use crate::nodes::{self, Identity, Status};
use crate::objects::Objects;
use crate::orders::{self, Followed, Journal, Order, Outcome};
use crate::pack::Layout;
use crate::schema;
use crate::shipping::{self, Shipper};
use crate::state::{self, SharedParts, SharedStates};
use crate::transfers::Departing;

mod sharing;

/// First pause after the database could not be used; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Between two looks at an order that goes on.
const UNDER_WAY_PAUSE: Duration = Duration::from_secs(1);
/// How long the end of a node waits for a last shipment.
const LAST_SHIPMENT_MAX: Duration = Duration::from_secs(3);

/// What a member does when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberOptions {
    /// Between two shipments of the log.
    pub ship_every: Duration,
    /// Between two reports of how the node is.
    pub status_every: Duration,
    /// Between two looks for editions and orders that no notification told of.
    pub poll_every: Duration,
    /// Between two shipments of the counts of a day (names, recipients, feedback).
    pub counts_every: Duration,
    /// Days of the array's log that are kept, if this node drops older ones.
    pub log_days: Option<u32>,
    /// Folder for the journal of orders and the number of the policy in force.
    pub folder: PathBuf,
}

/// Held mail that is to be in the array, too.
#[derive(Debug, Clone)]
pub struct HeldParts {
    /// That of the node.
    pub quarantine: Arc<Quarantine>,
    /// Where bodies go.
    pub objects: Objects,
}

/// The node that is a member.
pub trait LocalNode: Send + Sync {
    /// How it is. Quick.
    fn status(&self) -> Status;

    /// Makes this policy the one in force. May block.
    ///
    /// # Errors
    /// Why it cannot be.
    fn apply_policy(&self, edition: &Edition) -> Result<(), String>;

    /// Number of the array's settings in force; 0 for none.
    fn settings(&self) -> i64;

    /// Makes these settings, or none, those that the node's own file is read over. May block.
    ///
    /// # Errors
    /// Why they cannot be.
    fn apply_settings(&self, edition: Option<&Edition>) -> Result<(), String>;

    /// Ids of the messages in the queue, those among them that are leaving already.
    fn queued(&self) -> Vec<String>;

    /// Ids of the messages that are leaving, each with the name of the node it goes to. May block.
    fn leaving(&self) -> Vec<(String, String)>;

    /// Takes a message off the queue for this node; nobody delivers it here from then on, until
    /// [`LocalNode::left`] says what became of it. May block; the same again gives the same.
    ///
    /// # Errors
    /// Why it cannot leave.
    fn leave(&self, id: &str, to: &str) -> Result<Departing, String>;

    /// A message that was leaving goes on from here: its node left the array before it had it. May
    /// block.
    fn keep(&self, id: u64);

    /// Takes messages in that other nodes handed over, once each. May block. Returns what became of
    /// each, for its source; none where it may be tried again.
    fn take_in(&self, bodies: Vec<Vec<u8>>) -> Vec<Option<String>>;

    /// Other nodes answered for messages that left: their numbers in the queue, and the answers.
    /// Durable when it returns. May block.
    fn left(&self, answers: &[(u64, String)]);

    /// Goes on with the upgrade that this order asks for, over a restart; none until it is done.
    /// May block.
    fn upgrade(&self, order: i64, seconds: u64) -> Option<Outcome>;

    /// Lines of one of the node's activity logs after this number, oldest first; after -1 the
    /// newest one alone. May block.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn activity(
        &self,
        _: ActivityLog,
        _after: i64,
        _max: u64,
    ) -> Result<Vec<NumberedLine>, String> {
        Ok(Vec::new())
    }

    /// Whether what the node holds was compared with what the array knows of it. Orders about held
    /// mail wait for that: a node whose disk went back in time would release it a second time.
    fn knows_held(&self) -> bool {
        true
    }

    /// Carries out an order other than [`Order::Move`] and [`Order::Upgrade`]. May block; harmless
    /// if it is repeated.
    fn carry_out(&self, order: Order, who: &str) -> Outcome;
}

/// How the membership is, for the console, metrics and `doctor`.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct MemberState {
    /// Name of the database's server: `host:port/database`.
    pub server: String,
    /// The database is there, and takes what this node ships.
    pub is_connected: bool,
    /// Unix milliseconds since when it is so, or is not.
    pub since_ms: i64,
    /// Why it is not.
    pub error: String,
    /// Messages shipped since the start, changed ones again.
    pub shipped_messages: u64,
    /// Bytes of the rows that they became.
    pub shipped_bytes: u64,
    /// Shipments that failed.
    pub failures: u64,
    /// Changes that wait to be shipped; of days that were not looked at yet, one each.
    pub behind: u64,
    /// When the oldest message among them was received, in Unix milliseconds.
    pub behind_since_ms: Option<i64>,
    /// Number of the array's policy in force; 0 for the node's own.
    pub policy: i64,
    /// When this node took it over, in Unix milliseconds; 0: not known.
    pub policy_since_ms: i64,
    /// Why a newer edition of the policy is not in force.
    pub policy_error: String,
    /// Number of the array's settings in force; 0 for none.
    pub settings: i64,
    /// When this node took them over, in Unix milliseconds; 0: not known.
    pub settings_since_ms: i64,
    /// Why a newer edition of them is not in force.
    pub settings_error: String,
    /// Orders carried out since the start.
    pub orders: u64,
    /// Changes of held mail shipped since the start.
    pub shipped_held: u64,
    /// Changes of held mail that wait.
    pub held_behind: u64,
    /// Why held mail cannot be shipped.
    pub objects_error: String,
    /// State that is shared with other nodes.
    pub shared: SharedStates,
}

/// A member, ready to run.
pub struct Member {
    database: Database,
    pub(crate) own: Identity,
    log: Arc<Log>,
    pub(crate) local: Arc<dyn LocalNode>,
    pub(crate) options: MemberOptions,
    pub(crate) clock: Clock,
    held: Option<HeldParts>,
    /// Something came of held mail: it is shipped now.
    held_changed: tokio::sync::Notify,
    shared: Option<SharedParts>,
    state: Arc<Mutex<MemberState>>,
    /// [`nodes::Status::instance`].
    instance: String,
    /// This process has taken part.
    has_begun: AtomicBool,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("own", &self.own).finish_non_exhaustive()
    }
}

/// When what is due next.
struct Due {
    ship: Instant,
    status: Instant,
    poll: Instant,
    counts: Instant,
    shared: Instant,
}

impl Member {
    /// A member of the array in this database.
    pub fn new(
        database: Database,
        own: Identity,
        log: Arc<Log>,
        local: Arc<dyn LocalNode>,
        (options, clock): (MemberOptions, Clock),
        held: Option<HeldParts>,
    ) -> Self {
        let state = MemberState { server: database.server(), ..MemberState::default() };
        let state = Arc::new(Mutex::new(state));
        let member = Member {
            database,
            own,
            log,
            local,
            options,
            clock,
            held,
            shared: None,
            held_changed: tokio::sync::Notify::new(),
            state,
            // Without randomness it takes part all the same.
            instance: Identity::make().unwrap_or_default(),
            has_begun: AtomicBool::new(false),
        };
        member.recall_editions();
        member
    }

    /// How it is, now and later.
    pub fn state(&self) -> Arc<Mutex<MemberState>> {
        self.state.clone()
    }

    /// Runs until `stop` is true.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut pause = PAUSE_MIN;
        while !*stop.borrow() {
            let began = Instant::now();
            let Err(error) = self.session(&mut stop).await else { return };
            // One that worked for a while is not one that never does.
            if began.elapsed() > PAUSE_MAX {
                pause = PAUSE_MIN;
            }
            self.note_failure(&error);
            if matches!(error, ArrayError::Superseded { .. }) {
                // Two that take the place of one another would both carry out orders.
                let _stopped = stop.changed().await;
                return;
            }
            self.measure_backlogs().await;
            let random =
                f64::from(gauntlet_store::random::array().map_or(0, |[byte]: [u8; 1]| byte));
            let spread = pause.mul_f64(0.75 + random / 512.0);
            tokio::select! {
                () = tokio::time::sleep(spread) => {}
                _ = stop.changed() => {}
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Counts what waits while nothing can be shipped: that is when people look.
    async fn measure_backlogs(&self) {
        let log = self.log.clone();
        if let Ok(backlog) = self.blocking(move || log.backlog()).await {
            let mut state = self.lock();
            (state.behind, state.behind_since_ms) = (backlog.changes, backlog.oldest_ms);
        }
        let Some(held) = &self.held else { return };
        let quarantine = held.quarantine.clone();
        if let Ok(backlog) = self.blocking(move || quarantine.backlog()).await {
            self.lock().held_behind = backlog.changes;
        }
    }

    /// Works with one connection until it breaks; `Ok` when the node stops.
    async fn session(&self, stop: &mut watch::Receiver<bool>) -> Result<(), ArrayError> {
        let mut session = schema::session(&self.database).await?;
        let id = nodes::register(&session, &self.own).await?;
        if self.has_begun.load(Ordering::Acquire) {
            self.check_is_ours(&session, id).await?;
        } else {
            // Until that is done, the row names the process before this one.
            nodes::take_over(&session, id, &self.instance).await?;
            self.has_begun.store(true, Ordering::Release);
        }
        let listening = session.client().batch_execute("LISTEN gauntlet");
        session.within("listening to the array", listening).await?;
        let mut told = session.take_notifications();
        let mut journal = Journal::open(&self.options.folder.join("orders.json"))?;
        let mut shipper = Shipper::new(self.log.clone(), id);
        let mut activity = ActivityShipper::new(id);
        let now = Instant::now();
        let mut due = Due { ship: now, status: now, poll: now, counts: now, shared: now };
        let mut exchange = self.begin_exchange(&session, id).await?;
        let held = self.follow_held(id);
        tokio::pin!(held);
        loop {
            let work = async {
                let parts = (&mut shipper, &mut journal, &mut activity);
                self.work(&session, id, parts, &mut due).await?;
                if let (Some(exchange), true) = (&mut exchange, due.shared <= Instant::now()) {
                    due.shared = Instant::now() + self.share(&session, exchange).await?;
                }
                Ok(())
            };
            held::beside(work, held.as_mut()).await?;
            self.note_success();
            let shared_due = if exchange.is_some() { due.shared } else { due.ship };
            let next = due.ship.min(shared_due).min(due.status).min(due.poll).min(due.counts);
            tokio::select! {
                () = tokio::time::sleep_until(next.into()) => {}
                failed = &mut held => return Err(failed),
                () = notified(&mut told) => due.poll = Instant::now(),
                _ = stop.changed() => {
                    let last = self.ship_last(&session, &mut shipper, exchange.as_mut());
                    let _the_rest_waits_on_disk = tokio::time::timeout(LAST_SHIPMENT_MAX, last).await;
                    return Ok(());
                }
            }
            if session.is_closed() {
                let cause = "the connection ended".to_owned();
                return Err(ArrayError::Unreachable { server: self.database.server(), cause });
            }
        }
    }

    /// An error if another process of this node began later.
    async fn check_is_ours(&self, session: &Session, id: i16) -> Result<(), ArrayError> {
        match nodes::is_superseded(session, id, &self.instance).await? {
            true => Err(ArrayError::Superseded { name: self.own.name.clone() }),
            false => Ok(()),
        }
    }

    /// Does what is due.
    async fn work(
        &self,
        session: &Session,
        id: i16,
        (shipper, journal, activity): (&mut Shipper, &mut Journal, &mut ActivityShipper),
        due: &mut Due,
    ) -> Result<(), ArrayError> {
        let now = Instant::now();
        if due.poll <= now {
            let followed = self.follow(session, id, journal).await?;
            if followed.done > 0 {
                // What came of held mail is seen soon where it was ordered.
                self.held_changed.notify_one();
            }
            let pause = match followed.under_way {
                0 => self.options.poll_every,
                _ => UNDER_WAY_PAUSE.min(self.options.poll_every),
            };
            due.poll = Instant::now() + pause;
        }
        // Before the status, which says how far behind the log is.
        if due.ship <= now {
            let more = self.ship(session, shipper).await?;
            let pause = if more { Duration::ZERO } else { self.options.ship_every };
            due.ship = Instant::now() + pause;
        }
        if due.status <= now {
            let oldest = self.tell(session, id).await?;
            shipper.lay_out(Layout::read_by(oldest));
            activity.step(session, &self.read_activity()).await?;
            due.status = Instant::now() + self.options.status_every;
        }
        if due.counts <= now {
            self.offer_again(session, id).await?;
            self.ship_counts(session, id).await?;
            due.counts = Instant::now() + self.options.counts_every;
        }
        Ok(())
    }

    fn read_activity(&self) -> Arc<ReadActivity> {
        let local = self.local.clone();
        Arc::new(move |log, after, max| local.activity(log, after, max))
    }

    /// Ships once; true if more waits.
    async fn ship(&self, session: &Session, shipper: &mut Shipper) -> Result<bool, ArrayError> {
        let shipped = shipper.step(session).await?;
        let backlog = self.blocking({
            let log = self.log.clone();
            move || log.backlog()
        });
        let backlog: Backlog = backlog.await?;
        let mut state = self.lock();
        // A node that was alone for months begins its days one after the other: each that waits for
        // that counts as one change at least, so that nobody takes the log for complete.
        let days_ahead = shipper.days_ahead();
        let behind = backlog.changes + days_ahead;
        (state.behind, state.behind_since_ms) = (behind, backlog.oldest_ms);
        let Some(shipped) = shipped else { return Ok(false) };
        state.shipped_messages += shipped.messages;
        state.shipped_bytes += shipped.bytes;
        // Days of few messages are not one shipment apart each.
        Ok(shipped.is_full || days_ahead > 0)
    }

    /// Ships the counts of today and yesterday; drops days that are too old.
    async fn ship_counts(&self, session: &Session, id: i16) -> Result<(), ArrayError> {
        let now_ms = self.clock.unix_ms();
        let today = now_ms.div_euclid(DAY_MS);
        for day in self.log.days().into_iter().filter(|day| *day >= today - 1) {
            let log = self.log.clone();
            let counted = tokio::task::spawn_blocking(move || DayCounts::of(&log, day)).await;
            let counted = counted.map_err(|error| ArrayError::Damaged {
                what: "the counts of a day".to_owned(),
                cause: error.to_string(),
            })?;
            counted?.ship(session, id, day).await?;
        }
        if let Some(days) = self.options.log_days {
            shipping::drop_days(session, now_ms, days).await?;
            activity::drop_old(session, now_ms - i64::from(days) * DAY_MS).await?;
            if let Some(parts) = &self.shared {
                state::drop_old(session, parts.days).await?;
            }
        }
        Ok(())
    }

    /// The oldest schema that a node knows.
    async fn tell(&self, session: &Session, id: i16) -> Result<i32, ArrayError> {
        let mut status = self.local.status();
        status.schema = schema::KNOWN;
        status.instance.clone_from(&self.instance);
        status.clock_ms = self.clock.unix_ms();
        {
            let state = self.lock();
            (status.behind, status.behind_since_ms) = (state.behind, state.behind_since_ms);
            (status.policy, status.policy_error) = (state.policy, state.policy_error.clone());
            status.settings = state.settings;
            status.policy_since_ms = state.policy_since_ms;
            status.settings_since_ms = state.settings_since_ms;
            let users = state.shared.get(SharedKind::Users.name());
            status.lists_ms = users.map(|users| users.current_ms);
            status.settings_error.clone_from(&state.settings_error);
        }
        if let Some(oldest) = nodes::tell(session, id, &status).await? {
            return Ok(oldest);
        }
        self.check_is_ours(session, id).await?;
        Err(ArrayError::Removed { name: self.own.name.clone() })
    }

    /// Takes over the policy, and carries out orders.
    async fn follow(
        &self,
        session: &Session,
        id: i16,
        journal: &mut Journal,
    ) -> Result<Followed, ArrayError> {
        self.check_is_ours(session, id).await?;
        self.follow_policy(session).await?;
        self.follow_settings(session).await?;
        let local = self.local.clone();
        let followed = orders::follow(session, id, journal, |number, order, who| {
            let (local, name) = (local.clone(), order.name());
            async move {
                if let Order::Upgrade { seconds, together } = order {
                    return self.upgrade(session, number, seconds, together).await;
                }
                if order.item().is_some() && !local.knows_held() {
                    return Ok(None);
                }
                tracing::info!(order = name, who, "an order of the array");
                if let Order::Move { to, ids } = order {
                    return self.move_queue(session, id, &to, ids).await.map(Some);
                }
                let carried = tokio::task::spawn_blocking(move || local.carry_out(order, &who));
                Ok(Some(carried.await.unwrap_or_else(|error| Outcome {
                    is_good: false,
                    text: format!("it failed: {error}"),
                })))
            }
        });
        let followed = followed.await?;
        self.lock().orders += followed.done as u64;
        self.take_in(session, id).await?;
        self.follow_answers(session, id).await?;
        Ok(followed)
    }

    /// Runs something that blocks.
    async fn blocking<T: Send + 'static>(
        &self,
        run: impl FnOnce() -> Result<T, gauntlet_store::StoreError> + Send + 'static,
    ) -> Result<T, ArrayError> {
        let done = tokio::task::spawn_blocking(run).await;
        let done = done.map_err(|error| ArrayError::Damaged {
            what: "the log of this node".to_owned(),
            cause: error.to_string(),
        })?;
        Ok(done?)
    }

    fn note_failure(&self, error: &ArrayError) {
        let now_ms = self.clock.unix_ms();
        let mut state = self.lock();
        let text = error.to_string();
        if state.is_connected || state.error != text {
            let hint = "mail is not affected; what was logged waits on this node's disk";
            tracing::warn!(error = text, hint, "the array cannot be used");
        }
        if state.is_connected || state.since_ms == 0 {
            state.since_ms = now_ms;
        }
        state.is_connected = false;
        state.error = text;
        state.failures += 1;
    }

    fn note_success(&self) {
        let now_ms = self.clock.unix_ms();
        let mut state = self.lock();
        if !state.is_connected {
            tracing::info!(server = state.server, "the array is there");
            state.since_ms = now_ms;
        }
        state.is_connected = true;
        state.error.clear();
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, MemberState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until the database says that something is new.
async fn notified(told: &mut Option<Notifications>) {
    let Some(receiver) = told else { return std::future::pending().await };
    loop {
        match receiver.recv().await {
            Some((channel, _)) if channel == CHANNEL => return,
            Some(_) => {}
            None => {
                // The connection ended: whoever asks next sees it.
                *told = None;
                return;
            }
        }
    }
}
