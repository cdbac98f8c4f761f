//! The Sender: hands messages to next hops over connections that are used again.
//!
//! Each next hop has a queue and up to a limit of workers; a worker holds a connection, takes one
//! job after the other, and ends when there has been nothing to do for a while. A next hop that
//! cannot be reached is left alone for a moment, so that a backlog does not wait for one timeout a
//! message.

mod connection;
mod connection_limits;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gauntlet_smtp::{Outgoing, Reply};
use gauntlet_store::Outcome;
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

use self::connection::{Connection, DeliveryError, TimeLimits};
pub use self::connection_limits::ConnectionLimits;
use crate::busy::{Timed, Work};
use crate::clock::Clock;
use crate::current::Current;
use crate::message::OutgoingMessage;
use crate::metrics::Metrics;
use crate::net::resolver::Resolver;
use crate::outbound::exchangers::{Ourselves, RouteError};
use crate::outbound::mta_sts::MtaSts;
use crate::outbound::route::Route;
use crate::outbound::settings::OutboundSettings;
use crate::outbound::tls_outcomes::TlsOutcomes;
use crate::random::Random;

/// What became of one recipient of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// Index of the target in its message.
    pub target: usize,
    /// The end, or none: try again later.
    pub outcome: Option<Outcome>,
    /// Where it went or should have gone.
    pub next_hop: String,
    /// The answer, one line.
    pub reply: String,
    /// The next hop reports its delivery to the sender, if that was requested (DSN).
    pub reports_delivery: bool,
}

/// What a next hop said about an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// It takes mail for it.
    Taken,
    /// It does not; its answer, one line.
    Refused(String),
    /// Neither: a passing refusal, or no answer.
    Unclear,
}

/// Called with what became of every recipient of a job.
pub type OnSettled = Box<dyn FnOnce(Vec<Settled>) + Send>;

/// A message for some recipients at one next hop.
pub struct DeliveryJob {
    /// Envelope; the recipients are those of `targets`, in the same order.
    pub outgoing: Outgoing,
    /// Indices of the targets.
    pub targets: Vec<usize>,
    /// Header and body as they are to be sent.
    pub body: OutgoingMessage,
    /// Called once with the outcome for each recipient.
    pub done: OnSettled,
}

impl std::fmt::Debug for DeliveryJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeliveryJob").field("targets", &self.targets).finish_non_exhaustive()
    }
}

impl DeliveryJob {
    /// Settles every recipient alike.
    pub fn settle_all(self, outcome: Option<Outcome>, next_hop: &str, reply: &str) {
        let one = |target: &usize| Settled {
            target: *target,
            outcome,
            next_hop: next_hop.to_owned(),
            reply: reply.to_owned(),
            reports_delivery: false,
        };
        let settled = self.targets.iter().map(one).collect();
        (self.done)(settled);
    }
}

/// A worker without work ends after this.
const IDLE: Duration = Duration::from_secs(10);
/// A server that does not even take QUIT is left after this.
const QUIT_WAIT: Duration = Duration::from_secs(5);
/// A next hop that could not be reached is left alone for this long.
const UNREACHABLE_FOR: Duration = Duration::from_secs(10);
/// Next hops remembered before those that are not in use are forgotten.
const HOPS_SWEPT_AT: usize = 1_024;

/// Connections to all next hops, and what was learned about each.
#[derive(Debug)]
pub struct Sender {
    context: SenderContext,
    hops: Mutex<Hops>,
    runtime: tokio::runtime::Handle,
}

#[derive(Debug, Default)]
struct Hops {
    all: HashMap<Route, Arc<Hop>>,
    /// Entries at which those not in use are forgotten.
    sweep_at: usize,
}

/// What every connection is opened with. Clones share it.
#[derive(Debug, Clone)]
pub struct SenderContext {
    /// When a next hop that was unreachable is tried again.
    pub clock: Clock,
    /// The settings in force: one generation for each attempt.
    pub settings: Current<OutboundSettings>,
    /// The way to the DNS.
    pub resolver: Arc<Resolver>,
    /// Policies of domains that want TLS (RFC 8461).
    pub sts: Arc<MtaSts>,
    /// Our name and addresses, by which a delivery to ourselves is found.
    pub us: Arc<Ourselves>,
    /// Chooses among hops of equal preference.
    pub random: Arc<Random>,
    /// Counts how connections to exchangers were encrypted.
    pub outcomes: Arc<TlsOutcomes>,
    /// Connections over all next hops.
    pub connection_limits: ConnectionLimits,
    /// Counts the time that the workers take.
    pub metrics: Arc<Metrics>,
}

#[derive(Debug)]
struct Hop {
    route: Route,
    state: Mutex<HopState>,
    work: Notify,
}

#[derive(Debug, Default)]
struct HopState {
    jobs: VecDeque<DeliveryJob>,
    workers: usize,
    idle: usize,
    unreachable: Option<(Instant, String)>,
}

impl Hop {
    fn state(&self) -> std::sync::MutexGuard<'_, HopState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender {
    /// A sender that opens its connections so, running on this runtime.
    pub fn new(context: SenderContext, runtime: tokio::runtime::Handle) -> Self {
        Sender { context, hops: Mutex::default(), runtime }
    }

    fn hops(&self) -> std::sync::MutexGuard<'_, Hops> {
        self.hops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The clock that outages end by.
    pub fn clock(&self) -> &Clock {
        &self.context.clock
    }

    /// Queues a job for a next hop.
    pub fn send(&self, route: &Route, job: DeliveryJob) {
        let hop = self.hops().get(route, &self.context.clock);
        let mut state = hop.state();
        state.jobs.push_back(job);
        if state.idle > 0 {
            drop(state);
            hop.work.notify_one();
        } else if state.workers < self.context.settings.get().sender.connections_per_hop_max {
            state.workers += 1;
            drop(state);
            let (task, metrics) = (work(hop, self.context.clone()), self.context.metrics.clone());
            self.runtime.spawn(Timed::new(task, Work::PassingOn, metrics));
        }
    }

    /// Asks a next hop whether it takes mail for this address, without sending any.
    pub async fn probe(&self, route: &Route, address: &str) -> Probe {
        let hop = self.hops().get(route, &self.context.clock);
        let settings = self.context.settings.get();
        let mut connection = match open(&hop, &self.context, &settings, false).await {
            Ok(connection) => connection,
            Err(_) => return Probe::Unclear,
        };
        let limits = TimeLimits::of(&settings.sender);
        let probe = match connection.ask(address, limits).await {
            Ok(reply) if reply.is_positive() => Probe::Taken,
            Ok(reply) if reply.is_permanent() => Probe::Refused(reply.one_line()),
            Ok(_) | Err(_) => Probe::Unclear,
        };
        close(Some(connection)).await;
        probe
    }

    /// The next hop was not unreachable a moment ago, nothing waits for it, and a message would get
    /// a connection at once.
    pub fn is_free(&self, route: &Route) -> bool {
        let hops = self.hops();
        let has_room = self.context.connection_limits.has_room();
        let Some(hop) = hops.all.get(route) else { return has_room };
        let most = self.context.settings.get().sender.connections_per_hop_max;
        let (state, clock) = (hop.state(), &self.context.clock);
        let away =
            state.unreachable.as_ref().is_some_and(|(at, _)| clock.elapsed(*at) < UNREACHABLE_FOR);
        let connected = state.idle > 0 || (state.workers < most && has_room);
        state.jobs.is_empty() && !away && connected
    }

    /// Forgets that next hops were unreachable: an administrator asked for a retry.
    pub fn try_again(&self) {
        self.hops().all.values().for_each(|hop| hop.state().unreachable = None);
    }
}

impl Hops {
    fn get(&mut self, route: &Route, clock: &Clock) -> Arc<Hop> {
        if self.all.len() >= self.sweep_at.max(HOPS_SWEPT_AT) {
            let away = |hop: &Hop| {
                let state = hop.state();
                state
                    .unreachable
                    .as_ref()
                    .is_some_and(|(at, _)| clock.elapsed(*at) < UNREACHABLE_FOR)
            };
            // A task that works for a hop, or is about to, holds it too.
            self.all.retain(|_, hop| Arc::strong_count(hop) > 1 || away(hop));
            self.sweep_at = 2 * self.all.len();
        }
        let new = || {
            let (state, work) = (Mutex::default(), Notify::new());
            Arc::new(Hop { route: route.clone(), state, work })
        };
        self.all.entry(route.clone()).or_insert_with(new).clone()
    }
}

/// A worker: one connection at a time, job after job.
async fn work(hop: Arc<Hop>, context: SenderContext) {
    let mut connection: Option<Connection> = None;
    loop {
        let job = hop.state().jobs.pop_front();
        let Some(job) = job else {
            if context.connection_limits.are_scarce() {
                // Another next hop may be waiting for the connection.
                close(connection.take()).await;
            }
            hop.state().idle += 1;
            let woken = tokio::time::timeout(IDLE, hop.work.notified()).await.is_ok();
            let mut state = hop.state();
            state.idle -= 1;
            if woken || !state.jobs.is_empty() {
                continue;
            }
            state.workers -= 1;
            break;
        };
        connection = deliver(&hop, job, connection, &context).await;
    }
    close(connection).await;
}

/// Ends a session with QUIT, without waiting long for the answer.
async fn close(connection: Option<Connection>) {
    if let Some(mut connection) = connection {
        let mut out = Vec::new();
        connection.client.quit(&mut out);
        let said = connection.wire.write_all(&out);
        let _it_was_to_be_closed_anyway = tokio::time::timeout(QUIT_WAIT, said).await;
    }
}

/// Hands one job on. Returns the connection if it can be used again.
async fn deliver(
    hop: &Hop,
    job: DeliveryJob,
    connection: Option<Connection>,
    context: &SenderContext,
) -> Option<Connection> {
    let settings = context.settings.get();
    let connection = connection.and_then(|mut c| c.is_in_step().then_some(c));
    let reused = connection.is_some();
    let report = job.outgoing.from.is_empty();
    let connection = match connection {
        Some(connection) => connection,
        None => match open(hop, context, &settings, report).await {
            Ok(connection) => connection,
            Err(RouteError::Later(reply)) => {
                job.settle_all(None, &describe(&hop.route), &reply);
                return None;
            }
            Err(RouteError::Never(reply)) => {
                job.settle_all(Some(Outcome::Failed), &describe(&hop.route), &reply);
                return None;
            }
        },
    };
    let mut connection = connection;
    let limits = TimeLimits::of(&settings.sender);
    let mut sent = connection.transact(&job.outgoing, &job.body, limits).await;
    if reused && matches!(sent, Err(DeliveryError { stale: true, .. })) {
        // The other side closed the idle connection: that says nothing about this message.
        sent = match open(hop, context, &settings, report).await {
            Ok(fresh) => {
                connection = fresh;
                connection.transact(&job.outgoing, &job.body, limits).await
            }
            Err(why) => Err(DeliveryError { stale: false, text: why.into_text() }),
        };
    }
    let peer = connection.peer.to_string();
    match sent {
        Ok(replies) => {
            let one = |(target, reply): (&usize, &Reply)| Settled {
                target: *target,
                outcome: match reply {
                    r if r.is_positive() => Some(Outcome::Delivered),
                    r if r.is_permanent() => Some(Outcome::Failed),
                    _ => None,
                },
                next_hop: peer.clone(),
                reply: reply.one_line(),
                reports_delivery: connection.client.knows_dsn(),
            };
            let settled = job.targets.iter().zip(&replies).map(one).collect();
            (job.done)(settled);
            connection.messages += 1;
            let used_up = connection.messages >= settings.sender.messages_per_connection_max;
            if connection.client.is_closing() || used_up {
                close(Some(connection)).await;
                return None;
            }
            Some(connection)
        }
        Err(error) => {
            job.settle_all(None, &peer, &error.text);
            None
        }
    }
}

fn describe(route: &Route) -> String {
    match route {
        Route::Maildir => "maildir".to_owned(),
        Route::Hop(address) => address.clone(),
        Route::Exchangers { domain, .. } => domain.clone(),
        Route::Hops(hop) => {
            hop.hosts.iter().map(|(host, _)| host.as_str()).collect::<Vec<_>>().join(", ")
        }
    }
}

/// A connection to the next hop, or why there is none. `report`: for a message from the empty
/// sender.
async fn open(
    hop: &Hop,
    context: &SenderContext,
    settings: &OutboundSettings,
    report: bool,
) -> Result<Connection, RouteError> {
    if let Some((since, why)) = &hop.state().unreachable
        && context.clock.elapsed(*since) < UNREACHABLE_FOR
    {
        let seconds = context.clock.elapsed(*since).as_secs();
        return Err(RouteError::Later(format!("not tried, as {seconds} s before: {why}")));
    }
    let opened = Connection::open(&hop.route, (context, settings), report).await;
    hop.state().unreachable = match &opened {
        Err(RouteError::Later(why)) => Some((context.clock.now(), why.clone())),
        // That no host takes mail there is no outage, and the DNS is remembered elsewhere.
        Ok(_) | Err(RouteError::Never(_)) => None,
    };
    opened
}

#[cfg(test)]
mod tests;
