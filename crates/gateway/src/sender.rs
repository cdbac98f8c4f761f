//! The Sender: hands messages to next hops over connections that are used again.
//!
//! Each next hop has a queue and up to a limit of workers; a worker holds a connection, takes one
//! parcel after the other, and ends when there has been nothing to do for a while. A next hop that
//! cannot be reached is left alone for a moment, so that a backlog does not wait for one timeout a
//! message.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use gauntlet_smtp::{Client, ClientConfig, ClientEvent, Outgoing, Reply, stuff};
use gauntlet_store::Outcome;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::config::{HopTlsPolicy, SenderSettings};
use crate::route::Route;
use crate::tls::HopTls;
use crate::wire::{Wire, read_with};

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
        };
        let settled = self.targets.iter().map(one).collect();
        (self.done)(settled);
    }
}

/// A worker without work ends after this.
const IDLE: Duration = Duration::from_secs(10);
/// A next hop that could not be reached is left alone for this long.
const UNREACHABLE_FOR: Duration = Duration::from_secs(10);
/// Somebody on the way wrote commands into the plain part of the conversation.
const INJECTED: &str = "the server said more than its answer to STARTTLS";

/// All next hops.
#[derive(Debug)]
pub struct Sender {
    ways: Ways,
    hops: Mutex<HashMap<Route, Arc<Hop>>>,
    runtime: tokio::runtime::Handle,
}

/// What every connection is opened with.
#[derive(Debug, Clone)]
struct Ways {
    settings: Arc<ArcSwap<SenderSettings>>,
    tls: Arc<ArcSwap<HopTls>>,
    host: Arc<str>,
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
    /// A sender that calls itself `host`, running on this runtime.
    pub fn new(
        settings: Arc<ArcSwap<SenderSettings>>,
        tls: Arc<ArcSwap<HopTls>>,
        host: String,
        runtime: tokio::runtime::Handle,
    ) -> Self {
        let ways = Ways { settings, tls, host: host.into() };
        Sender { ways, hops: Mutex::default(), runtime }
    }

    /// Queues a parcel for a next hop.
    pub fn send(&self, route: &Route, parcel: Parcel) {
        let hop = {
            let mut hops = self.hops.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || {
                let (state, work) = (Mutex::default(), Notify::new());
                Arc::new(Hop { route: route.clone(), state, work })
            };
            hops.entry(route.clone()).or_insert_with(new).clone()
        };
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

    /// The next hop was not unreachable a moment ago, and nothing waits for it.
    pub fn is_free(&self, route: &Route) -> bool {
        let hops = self.hops.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(hop) = hops.get(route) else { return true };
        let state = hop.state();
        let away = state.unreachable.as_ref().is_some_and(|(at, _)| at.elapsed() < UNREACHABLE_FOR);
        state.parcels.is_empty() && !away
    }

    /// Forgets that next hops were unreachable: somebody asked for a retry.
    pub fn try_again(&self) {
        let hops = self.hops.lock().unwrap_or_else(PoisonError::into_inner);
        hops.values().for_each(|hop| hop.state().unreachable = None);
    }
}

/// A worker: one connection at a time, parcel after parcel.
async fn work(hop: Arc<Hop>, ways: Ways) {
    let mut connection: Option<Connection> = None;
    loop {
        let parcel = hop.state().parcels.pop_front();
        let Some(parcel) = parcel else {
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
    if let Some(mut connection) = connection {
        let mut out = Vec::new();
        connection.client.quit(&mut out);
        let _it_was_to_be_closed_anyway = connection.wire.write_all(&out).await;
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
    let connection = match connection {
        Some(connection) => connection,
        None => match open(hop, ways).await {
            Ok(connection) => connection,
            Err(reply) => {
                parcel.settle_all(None, &describe(&hop.route), &reply);
                return None;
            }
        },
    };
    let mut connection = connection;
    let limit = Duration::from_secs(settings.reply_seconds_max);
    let mut sent = connection.transact(&parcel.outgoing, &parcel.body, limit).await;
    if reused && matches!(sent, Err(Trouble { stale: true, .. })) {
        // The other side closed the idle connection: that says nothing about this message.
        sent = match open(hop, ways).await {
            Ok(fresh) => {
                connection = fresh;
                connection.transact(&parcel.outgoing, &parcel.body, limit).await
            }
            Err(reply) => Err(Trouble { stale: false, text: reply }),
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
            };
            let settled = parcel.targets.iter().zip(&replies).map(one).collect();
            (parcel.done)(settled);
            connection.messages += 1;
            let used_up = connection.messages >= settings.messages_per_connection_max;
            if connection.client.is_closing() || used_up {
                let mut out = Vec::new();
                connection.client.quit(&mut out);
                let _it_was_to_be_closed_anyway = connection.wire.write_all(&out).await;
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
        Route::Exchangers(domain) => domain.clone(),
    }
}

/// A connection to the next hop, or why there is none.
async fn open(hop: &Hop, ways: &Ways) -> Result<Connection, String> {
    if let Some((since, why)) = &hop.state().unreachable
        && since.elapsed() < UNREACHABLE_FOR
    {
        return Err(why.clone());
    }
    let opened = Connection::open(&hop.route, ways).await;
    hop.state().unreachable = match &opened {
        Ok(_) => None,
        Err(why) => Some((Instant::now(), why.clone())),
    };
    opened
}

/// What kept a message from being handed on.
#[derive(Debug)]
struct Trouble {
    /// Nothing was said on the connection yet.
    stale: bool,
    text: String,
}

/// Why there is no connection.
#[derive(Debug)]
enum Failure {
    /// The TLS handshake failed.
    Handshake(String),
    /// Anything else.
    Other(String),
}

impl Failure {
    fn into_text(self) -> String {
        let (Failure::Handshake(text) | Failure::Other(text)) = self;
        text
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Failure::Other(text)
    }
}

/// A conversation with a next hop that is ready for messages.
struct Connection {
    wire: Wire,
    client: Client,
    peer: SocketAddr,
    messages: usize,
}

impl Connection {
    async fn open(route: &Route, ways: &Ways) -> Result<Self, String> {
        let addresses = resolve(route).await?;
        let mut why = format!("{}: no address", describe(route));
        for (name, peer) in addresses {
            match Connection::open_at(&name, peer, ways).await {
                Ok(connection) => return Ok(connection),
                Err(error) => why = format!("{peer}: {error}"),
            }
        }
        Err(why)
    }

    /// Connects to one address, with TLS as the settings ask for it.
    async fn open_at(name: &str, peer: SocketAddr, ways: &Ways) -> Result<Self, String> {
        let policy = ways.settings.load().tls;
        match Connection::attempt(name, peer, ways, policy).await {
            // RFC 7435: encryption that does not work is no reason to keep the mail.
            Err(Failure::Handshake(why)) if policy == HopTlsPolicy::Opportunistic => {
                tracing::info!(%peer, why, "TLS does not work there; going on without");
                let plain = Connection::attempt(name, peer, ways, HopTlsPolicy::Off).await;
                plain.map_err(Failure::into_text)
            }
            other => other.map_err(Failure::into_text),
        }
    }

    async fn attempt(
        name: &str,
        peer: SocketAddr,
        ways: &Ways,
        policy: HopTlsPolicy,
    ) -> Result<Self, Failure> {
        let limit = Duration::from_secs(ways.settings.load().connect_seconds_max);
        let connect = async {
            let stream = TcpStream::connect(peer).await.map_err(|e| e.to_string())?;
            let _latency_is_all_that_is_lost = stream.set_nodelay(true);
            let wire: Wire = Box::new(stream);
            let config = ClientConfig {
                helo: ways.host.to_string(),
                tls: policy != HopTlsPolicy::Off,
                tls_required: policy >= HopTlsPolicy::Required,
                ..ClientConfig::default()
            };
            let client = Client::new(config, false);
            let mut connection = Connection { wire, client, peer, messages: 0 };
            connection.greet(name, ways, policy).await?;
            Ok(connection)
        };
        match tokio::time::timeout(limit, connect).await {
            Ok(connected) => connected,
            Err(_) => Err(Failure::Other(format!("no answer within {} s", limit.as_secs()))),
        }
    }

    async fn greet(
        &mut self,
        name: &str,
        ways: &Ways,
        policy: HopTlsPolicy,
    ) -> Result<(), Failure> {
        let mut out = Vec::new();
        loop {
            match self.step(&mut out).await? {
                ClientEvent::Ready => return Ok(()),
                ClientEvent::More => {}
                ClientEvent::StartTls => {
                    let plain = std::mem::replace(&mut self.wire, Box::new(tokio::io::empty()));
                    let tls = ways.tls.load_full();
                    let verify = policy == HopTlsPolicy::Verified;
                    let secured = tls.connect(plain, name, verify).await;
                    self.wire = secured.map_err(Failure::Handshake)?;
                    self.client.tls_started(&mut out);
                }
                event => return Err(format!("unexpected: {event:?}").into()),
            }
        }
    }

    /// Sends `out`, reads and takes one step.
    async fn step(&mut self, out: &mut Vec<u8>) -> Result<ClientEvent, String> {
        if !out.is_empty() {
            self.wire.write_all(out).await.map_err(|e| e.to_string())?;
            out.clear();
        }
        let client = &mut self.client;
        let event = read_with(&mut self.wire, |mut input| {
            let event = client.next(&mut input, out);
            // What came behind the answer to STARTTLS came before the handshake (injection).
            match event {
                Ok(ClientEvent::StartTls) if !input.is_empty() => Err(INJECTED.to_owned()),
                event => event.map_err(|e| e.to_string()),
            }
        });
        match event.await {
            Err(error) => Err(error.to_string()),
            Ok(None) => Err("the connection was closed".to_owned()),
            Ok(Some(event)) => event,
        }
    }

    /// Hands a message on: one reply for each recipient.
    async fn transact(
        &mut self,
        outgoing: &Outgoing,
        body: &[u8],
        limit: Duration,
    ) -> Result<Vec<Reply>, Trouble> {
        let mut out = Vec::new();
        self.client.send(outgoing.clone(), &mut out);
        let mut heard = false;
        loop {
            let step = tokio::time::timeout(limit, self.step(&mut out)).await;
            let event = match step {
                Ok(Ok(event)) => event,
                Ok(Err(text)) => return Err(Trouble { stale: !heard, text }),
                Err(_) => {
                    let text = format!("no answer within {} s", limit.as_secs());
                    return Err(Trouble { stale: false, text });
                }
            };
            heard = true;
            match event {
                ClientEvent::More => {}
                ClientEvent::Body => stuff(body, &mut out),
                ClientEvent::Done(replies) => return Ok(replies),
                ClientEvent::Ready | ClientEvent::StartTls => {
                    let text = "the conversation is out of step".to_owned();
                    return Err(Trouble { stale: false, text });
                }
            }
        }
    }
}

/// Hosts of a route with their addresses, in the order they are tried.
async fn resolve(route: &Route) -> Result<Vec<(String, SocketAddr)>, String> {
    let name = match route {
        Route::Maildir => return Err("the Maildir is no next hop".to_owned()),
        Route::Hop(address) => address.clone(),
        Route::Exchangers(domain) => format!("{domain}:25"),
    };
    let found = tokio::net::lookup_host(&name).await.map_err(|e| format!("{name}: {e}"))?;
    let host = name.rsplit_once(':').map_or(name.as_str(), |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    Ok(found.map(|address| (host.to_owned(), address)).collect())
}
