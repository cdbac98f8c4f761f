//! The Sender: hands messages to next hops over connections that are used again.
//!
//! Each next hop has a queue and up to a limit of workers; a worker holds a connection, takes one
//! parcel after the other, and ends when there has been nothing to do for a while. A next hop that
//! cannot be reached is left alone for a moment, so that a backlog does not wait for one timeout a
//! message.

mod connection;
mod places;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use gauntlet_smtp::{Outgoing, Reply};
use gauntlet_store::Outcome;
use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;

use self::connection::{Connection, TimeLimits, Trouble};
pub use self::places::Places;
use crate::config::SenderSettings;
use crate::exchangers::{NoWay, Ourselves};
use crate::mta_sts::MtaSts;
use crate::random::Random;
use crate::reports::tls_outcomes::TlsOutcomes;
use crate::resolver::Resolver;
use crate::route::Route;
use crate::tls::HopTls;

/// What became of one recipient of a parcel.
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
    /// Whoever took it tells the sender of its delivery, if that was asked for (DSN).
    pub tells: bool,
}

/// What a next hop said about an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// It takes mail for it.
    Taken,
    /// It does not; its answer, one line.
    Refused(String),
    /// It said neither.
    Unclear,
}

/// Called with what became of every recipient of a parcel.
pub type OnSettled = Box<dyn FnOnce(Vec<Settled>) + Send>;

/// A message for some recipients at one next hop.
pub struct Parcel {
    /// Envelope; the recipients are those of `targets`, in the same order.
    pub outgoing: Outgoing,
    /// Indices of the targets.
    pub targets: Vec<usize>,
    /// The message.
    pub body: Arc<Vec<u8>>,
    /// Called once.
    pub done: OnSettled,
}

impl std::fmt::Debug for Parcel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parcel").field("targets", &self.targets).finish_non_exhaustive()
    }
}

impl Parcel {
    /// Settles every recipient alike.
    pub fn settle_all(self, outcome: Option<Outcome>, next_hop: &str, reply: &str) {
        let one = |target: &usize| Settled {
            target: *target,
            outcome,
            next_hop: next_hop.to_owned(),
            reply: reply.to_owned(),
            tells: false,
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

/// All next hops.
#[derive(Debug)]
pub struct Sender {
    ways: Ways,
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
pub struct Ways {
    /// Limits and waits.
    pub settings: Arc<ArcSwap<SenderSettings>>,
    /// TLS.
    pub tls: Arc<ArcSwap<HopTls>>,
    /// The way to the DNS.
    pub resolver: Arc<Resolver>,
    /// MTA-STS policies.
    pub sts: Arc<MtaSts>,
    /// Who we are.
    pub us: Arc<Ourselves>,
    /// Choices among equals.
    pub random: Arc<Random>,
    /// Counts how connections to exchangers were encrypted.
    pub outcomes: Arc<TlsOutcomes>,
    /// Connections over all next hops.
    pub places: Places,
}

#[derive(Debug)]
struct Hop {
    route: Route,
    state: Mutex<HopState>,
    work: Notify,
}

#[derive(Debug, Default)]
struct HopState {
    parcels: VecDeque<Parcel>,
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
    pub fn new(ways: Ways, runtime: tokio::runtime::Handle) -> Self {
        Sender { ways, hops: Mutex::default(), runtime }
    }

    fn hops(&self) -> std::sync::MutexGuard<'_, Hops> {
        self.hops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a parcel for a next hop.
    pub fn send(&self, route: &Route, parcel: Parcel) {
        let hop = self.hops().get(route);
        let mut state = hop.state();
        state.parcels.push_back(parcel);
        if state.idle > 0 {
            drop(state);
            hop.work.notify_one();
        } else if state.workers < self.ways.settings.load().connections_per_hop_max {
            state.workers += 1;
            drop(state);
            self.runtime.spawn(work(hop, self.ways.clone()));
        }
    }

    /// Asks a next hop whether it takes mail for this address, without sending any.
    pub async fn probe(&self, route: &Route, address: &str) -> Probe {
        let hop = self.hops().get(route);
        let mut connection = match open(&hop, &self.ways, false).await {
            Ok(connection) => connection,
            Err(_) => return Probe::Unclear,
        };
        let limits = TimeLimits::of(&self.ways.settings.load());
        let probe = match connection.ask(address, limits).await {
            Ok(reply) if reply.is_positive() => Probe::Taken,
            Ok(reply) if reply.is_permanent() => Probe::Refused(reply.one_line()),
            Ok(_) | Err(_) => Probe::Unclear,
        };
        close(Some(connection)).await;
        probe
    }

    /// The next hop was not unreachable a moment ago, nothing waits for it, and a message would get a
    /// connection at once.
    pub fn is_free(&self, route: &Route) -> bool {
        let hops = self.hops();
        let has_room = self.ways.places.has_room();
        let Some(hop) = hops.all.get(route) else { return has_room };
        let most = self.ways.settings.load().connections_per_hop_max;
        let state = hop.state();
        let away = state.unreachable.as_ref().is_some_and(|(at, _)| at.elapsed() < UNREACHABLE_FOR);
        let connected = state.idle > 0 || (state.workers < most && has_room);
        state.parcels.is_empty() && !away && connected
    }

    /// Forgets that next hops were unreachable: somebody asked for a retry.
    pub fn try_again(&self) {
        self.hops().all.values().for_each(|hop| hop.state().unreachable = None);
    }
}

impl Hops {
    fn get(&mut self, route: &Route) -> Arc<Hop> {
        if self.all.len() >= self.sweep_at.max(HOPS_SWEPT_AT) {
            let away = |hop: &Hop| {
                let state = hop.state();
                state.unreachable.as_ref().is_some_and(|(at, _)| at.elapsed() < UNREACHABLE_FOR)
            };
            // Whoever works for a hop, or is about to, holds it too.
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

/// A worker: one connection at a time, parcel after parcel.
async fn work(hop: Arc<Hop>, ways: Ways) {
    let mut connection: Option<Connection> = None;
    loop {
        let parcel = hop.state().parcels.pop_front();
        let Some(parcel) = parcel else {
            if ways.places.are_scarce() {
                // Another next hop may be waiting for the place.
                close(connection.take()).await;
            }
            hop.state().idle += 1;
            let woken = tokio::time::timeout(IDLE, hop.work.notified()).await.is_ok();
            let mut state = hop.state();
            state.idle -= 1;
            if woken || !state.parcels.is_empty() {
                continue;
            }
            state.workers -= 1;
            break;
        };
        connection = deliver(&hop, parcel, connection, &ways).await;
    }
    close(connection).await;
}

/// Says QUIT.
async fn close(connection: Option<Connection>) {
    if let Some(mut connection) = connection {
        let mut out = Vec::new();
        connection.client.quit(&mut out);
        let said = connection.wire.write_all(&out);
        let _it_was_to_be_closed_anyway = tokio::time::timeout(QUIT_WAIT, said).await;
    }
}

/// Hands one parcel on. Returns the connection if it can be used again.
async fn deliver(
    hop: &Hop,
    parcel: Parcel,
    connection: Option<Connection>,
    ways: &Ways,
) -> Option<Connection> {
    let settings = ways.settings.load_full();
    let reused = connection.is_some();
    let report = parcel.outgoing.from.is_empty();
    let connection = match connection {
        Some(connection) => connection,
        None => match open(hop, ways, report).await {
            Ok(connection) => connection,
            Err(NoWay::Later(reply)) => {
                parcel.settle_all(None, &describe(&hop.route), &reply);
                return None;
            }
            Err(NoWay::Never(reply)) => {
                parcel.settle_all(Some(Outcome::Failed), &describe(&hop.route), &reply);
                return None;
            }
        },
    };
    let mut connection = connection;
    let limits = TimeLimits::of(&settings);
    let mut sent = connection.transact(&parcel.outgoing, &parcel.body, limits).await;
    if reused && matches!(sent, Err(Trouble { stale: true, .. })) {
        // The other side closed the idle connection: that says nothing about this message.
        sent = match open(hop, ways, report).await {
            Ok(fresh) => {
                connection = fresh;
                connection.transact(&parcel.outgoing, &parcel.body, limits).await
            }
            Err(why) => Err(Trouble { stale: false, text: why.into_text() }),
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
                tells: connection.client.knows_dsn(),
            };
            let settled = parcel.targets.iter().zip(&replies).map(one).collect();
            (parcel.done)(settled);
            connection.messages += 1;
            let used_up = connection.messages >= settings.messages_per_connection_max;
            if connection.client.is_closing() || used_up {
                close(Some(connection)).await;
                return None;
            }
            Some(connection)
        }
        Err(trouble) => {
            parcel.settle_all(None, &peer, &trouble.text);
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

/// A connection to the next hop, or why there is none. `report`: for a message from the empty sender.
async fn open(hop: &Hop, ways: &Ways, report: bool) -> Result<Connection, NoWay> {
    if let Some((since, why)) = &hop.state().unreachable
        && since.elapsed() < UNREACHABLE_FOR
    {
        return Err(NoWay::Later(why.clone()));
    }
    let opened = Connection::open(&hop.route, ways, report).await;
    hop.state().unreachable = match &opened {
        Err(NoWay::Later(why)) => Some((Instant::now(), why.clone())),
        // That nobody takes mail there is no outage, and the DNS is remembered elsewhere.
        Ok(_) | Err(NoWay::Never(_)) => None,
    };
    opened
}
