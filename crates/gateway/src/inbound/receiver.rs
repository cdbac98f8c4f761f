//! The Receiver: listeners, and what all sessions share.

mod author;
mod overflow;
mod pace;
mod proxy;
mod session;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use gauntlet_smtp::{Features, SessionConfig, SessionLimits};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

use crate::busy::{Timed, Work};
use crate::clock::Clock;
use crate::config::{ListenerRole, ListenerSettings, StressSettings};
use crate::current::Current;
use crate::ids::Ids;
use crate::inbound::admission::Admission;
use crate::inbound::draining::Phase;
use crate::inbound::intake::Intake;
use crate::inbound::logins::Logins;
use crate::inbound::rate_limiter::RateLimiter;
use crate::inbound::settings::InboundSettings;
use crate::memory::{Holder, MemoryBudget, network_of};
use crate::metrics::Metrics;
use crate::net::tls::ListenerTls;
use crate::network::Network;
use crate::outbound::sender::Sender;

pub use overflow::OverflowArea;

/// Bytes that a session's task may hold, beside what it allocates while it works.
const SESSION_BYTES_MAX: usize = 4_096;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 4_096;
/// Between two polls whether the node is under pressure.
const STRESS_PAUSE: Duration = Duration::from_millis(500);

/// What all sessions of a node share.
#[derive(Debug)]
pub struct Receiver {
    /// What rates, waits and dates go by.
    pub clock: Clock,
    /// Host name of this node, as HELO and trace fields have it.
    pub host: String,
    /// The settings in force.
    pub settings: Current<InboundSettings>,
    /// The way to next hops, which may be asked.
    pub sender: Arc<Sender>,
    /// Who may connect, and how many sessions there may be.
    pub admission: Arc<Admission>,
    /// Bounds the bytes of bodies in memory over all sessions.
    pub memory: Arc<MemoryBudget>,
    /// Where large bodies wait for their end.
    pub overflow: Arc<OverflowArea>,
    /// Rates of clients and senders, and greylisting.
    pub rate_limiter: Arc<RateLimiter>,
    /// Judges a received message and accepts it into the queue.
    pub intake: Arc<Intake>,
    /// Makes the ids of messages: unique, ordered by time.
    pub ids: Arc<Ids>,
    /// Who may log in.
    pub logins: Arc<Logins>,
    /// Counters and gauges, which `/metrics` shows.
    pub metrics: Arc<Metrics>,
    /// True once the node stops.
    pub stopping: watch::Receiver<bool>,
    /// Whether the node takes mail.
    pub phase: watch::Receiver<Phase>,
}

/// A listener that is bound.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    role: ListenerRole,
    networks: Arc<Vec<Network>>,
    proxies: Arc<Vec<Network>>,
    xclients: Arc<Vec<Network>>,
    own_header_from: bool,
    tls: Option<Arc<ListenerTls>>,
}

impl Listener {
    /// Binds the address of these settings.
    ///
    /// # Errors
    /// If the address cannot be bound or a network is malformed; the message names the setting.
    pub fn bind(settings: &ListenerSettings, tls: Option<Arc<ListenerTls>>) -> io::Result<Self> {
        use std::net::ToSocketAddrs;
        let named = |e: io::Error| {
            let hint = remediation(&e);
            io::Error::new(e.kind(), format!("listener.address {}: {e}{hint}", settings.address))
        };
        let addresses = settings.address.to_socket_addrs().map_err(named)?;
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "no such address");
        let networks = read_networks("networks", &settings.networks)?;
        let proxies = read_networks("proxy_from", &settings.proxy_from)?;
        let xclients = read_networks("xclient_from", &settings.xclient_from)?;
        for address in addresses {
            match bind(address, settings.share_port) {
                Ok(socket) => {
                    let (role, own_header_from) = (settings.role, settings.own_header_from);
                    let listener = Listener {
                        socket,
                        role,
                        networks,
                        proxies,
                        xclients,
                        own_header_from,
                        tls,
                    };
                    return Ok(listener);
                }
                Err(error) => last = error,
            }
        }
        Err(named(last))
    }

    /// The address it is bound to.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The certificates it shows; none without TLS.
    pub fn tls(&self) -> Option<Arc<ListenerTls>> {
        self.tls.clone()
    }

    /// Which mail comes in there, and what its clients may do.
    pub fn role(&self) -> ListenerRole {
        self.role
    }
}

fn read_networks(key: &str, texts: &[String]) -> io::Result<Arc<Vec<Network>>> {
    let networks = texts.iter().map(|n| n.parse::<Network>()).collect::<Result<Vec<_>, _>>();
    let wrong = |e| io::Error::new(io::ErrorKind::InvalidInput, format!("listener.{key}: {e}"));
    networks.map(Arc::new).map_err(wrong)
}

/// What to do about an address that cannot be listened on; empty where the error says it.
pub fn remediation(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; stop what listens there, or choose another port",
        io::ErrorKind::AddrNotAvailable => "; no interface of this machine has this address",
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need CAP_NET_BIND_SERVICE (systemd: AmbientCapabilities), or choose another"
        }
        _ => "",
    }
}

fn bind(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    if shared {
        socket.set_reuseport(true)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A client's side of a session, for the checks that depend on it.
#[derive(Debug, Clone)]
struct Client {
    address: IpAddr,
    role: ListenerRole,
    /// Networks that may use an outbound listener.
    networks: Arc<Vec<Network>>,
    /// It may name the real client (XCLIENT).
    may_xclient: bool,
    /// From fields of users who logged in name their own addresses only.
    own_header_from: bool,
    /// Certificates of the listener.
    tls: Option<Arc<ListenerTls>>,
}

impl Client {
    /// It is in one of the listener's networks.
    fn is_trusted(&self) -> bool {
        self.networks.iter().any(|n| n.contains(self.address))
    }
}

impl Receiver {
    /// Accepts connections until the node stops.
    pub async fn run(self: Arc<Self>, listener: Listener) {
        let mut stopping = self.stopping.clone();
        loop {
            let next = async {
                self.admission.wait_for_capacity().await;
                listener.socket.accept().await
            };
            let accepted = tokio::select! {
                accepted = next => accepted,
                _ = stopping.wait_for(|stop| *stop) => return,
            };
            match accepted {
                Ok((stream, peer)) => self.clone().welcome(&listener, stream, peer),
                Err(error) => {
                    // Out of descriptors, mostly: a session that ends makes room.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn welcome(self: Arc<Self>, listener: &Listener, mut stream: TcpStream, peer: SocketAddr) {
        self.metrics.connections.add_one();
        let address = peer.ip().to_canonical();
        let client = Client {
            address,
            role: listener.role,
            networks: listener.networks.clone(),
            may_xclient: listener.xclients.iter().any(|n| n.contains(address)),
            own_header_from: listener.own_header_from,
            tls: listener.tls.clone(),
        };
        if !listener.proxies.iter().any(|n| n.contains(address)) {
            return self.admit(client, stream);
        }
        tokio::spawn(async move {
            match proxy::client(&mut stream).await {
                // The balancer's own check: it hears of a drain before clients do.
                Ok(None) if *self.phase.borrow() == Phase::Notice => {
                    let reply = format!("421 4.3.2 {}\r\n", Phase::Notice.text());
                    let _sent_or_not = stream.try_write(reply.as_bytes());
                }
                Ok(real) => {
                    let address = real.unwrap_or(peer).ip().to_canonical();
                    self.admit(Client { address, ..client }, stream);
                }
                Err(error) => tracing::warn!(balancer = %address, %error, "no PROXY header"),
            }
        });
    }

    /// Watches the pressure until the node stops: sessions that bring nothing then leave.
    pub async fn watch_stress(self: Arc<Self>) {
        let mut stopping = self.stopping.clone();
        loop {
            let stress = self.settings.get().stress;
            let idle = Duration::from_secs(stress.command_seconds_max);
            let short = self.memory.is_used_from(stress.percent);
            if self.admission.update_pressure(short, idle) {
                let (pressed, sessions) = (self.admission.is_pressed(), self.admission.sessions());
                let memory_bytes = self.memory.used();
                tracing::warn!(pressed, sessions, memory_bytes, "pressure on sessions or memory");
            }
            tokio::select! {
                () = tokio::time::sleep(STRESS_PAUSE) => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// How this client is treated, if that is harsher than usual.
    fn stress_of(&self, client: IpAddr) -> Option<StressSettings> {
        if !self.admission.is_pressed() {
            return None;
        }
        let settings = self.settings.get();
        (!settings.rates.is_exempt(client)).then_some(settings.stress)
    }

    /// Whose share of the memory a body of this client counts in.
    fn holders_of(&self, client: IpAddr) -> Vec<Holder> {
        match self.settings.get().rates.is_exempt(client) {
            true => Vec::new(),
            false => vec![Holder::Client(client), Holder::Network(network_of(client))],
        }
    }

    /// Begins the session of a client, or refuses it.
    fn admit(self: Arc<Self>, client: Client, stream: TcpStream) {
        let (address, now_s) = (client.address, self.clock.unix_s());
        let settings = self.settings.get();
        let rules = &settings.rates;
        let admitted = match self.rate_limiter.admit_connection(rules, address, now_s) {
            Ok(()) => self.admission.admit(address, rules.is_exempt(address), || {
                self.rate_limiter.is_good(rules, address, now_s)
            }),
            Err(why) => Err(why),
        };
        match admitted {
            Ok(admitted) => {
                let metrics = self.metrics.clone();
                let session = session::run(self, client, stream, admitted);
                debug_assert!(
                    size_of_val(&session) < SESSION_BYTES_MAX,
                    "an idle session is small"
                );
                tokio::spawn(Timed::new(session, Work::Receiving, metrics));
            }
            Err(why) => {
                self.metrics.connections_refused.add_one();
                // Best effort: the buffer of a new connection has room for one line.
                let reply = format!("421 4.3.2 {why}\r\n");
                let _sent_or_not = stream.try_write(reply.as_bytes());
            }
        }
    }

    /// What a session of this role offers.
    fn session_config(&self, client: &Client) -> SessionConfig {
        let (role, tls) = (client.role, client.tls.is_some());
        let in_force = self.settings.get();
        let settings = &in_force.receiver;
        let stress = self.stress_of(client.address);
        let errors_max =
            stress.map_or(settings.errors_max, |s| s.errors_max.min(settings.errors_max));
        let message_bytes_max = match role {
            ListenerRole::Trap => settings.message_bytes_max.min(in_force.traps.message_bytes_max),
            _ => settings.message_bytes_max,
        };
        let limits = SessionLimits {
            line_bytes_max: settings.command_bytes_max,
            refused_chunk_bytes_max: settings.refused_chunk_bytes_max,
            message_bytes_max,
            recipients_max: settings.recipients_max,
            errors_max: u16::try_from(errors_max).unwrap_or(u16::MAX),
            ..SessionLimits::default()
        };
        let submission = role == ListenerRole::Submission;
        let features = Features {
            starttls: tls,
            auth: submission,
            scram: submission,
            auth_required: submission,
            lmtp: role == ListenerRole::Lmtp,
        };
        SessionConfig { host: self.host.clone(), limits, features }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::node::test_node::TestNode;

    #[tokio::test]
    async fn a_client_has_so_many_sessions_at_once() {
        let node = TestNode::start("[receiver]\nsessions_per_client_max = 2\n");
        let (_first, greeting) = node.connect().await;
        assert!(greeting.starts_with("220 "));
        let (mut second, _) = node.connect().await;
        let (mut third, refusal) = node.connect().await;
        assert_eq!(refusal, "421 4.3.2 too many connections from your address\r\n");
        assert_eq!(third.reply().await, "", "it is closed");
        assert_eq!(node.node.metrics.connections_refused.get(), 1);
        second.say("QUIT").await;
        node.until(|node| (node.sessions() == 1).then_some(())).await;
        assert!(node.connect().await.1.starts_with("220 "), "there is room again");
    }

    #[tokio::test]
    async fn a_client_that_comes_too_often_is_let_in_a_minute_later() {
        let node = TestNode::start(
            "[receiver]\nexempt_networks = []\n[rates]\nclient_connections_per_minute = 2\n",
        );
        for _ in 0..2 {
            assert!(node.connect().await.1.starts_with("220 "));
        }
        assert!(node.connect().await.1.contains("too many connections a minute"));
        node.clock.advance(Duration::from_secs(120));
        assert!(node.connect().await.1.starts_with("220 "));
    }

    #[tokio::test]
    async fn a_node_that_drains_ends_sessions_after_their_transaction() {
        let node = TestNode::start("[receiver]\ndrain_notice_seconds = 0\n");
        let mut idle = node.client().await;
        let mut busy = node.client().await;
        assert!(busy.say("MAIL FROM:<ann@example.org>").await.starts_with("250"));
        assert!(node.node.drain().unwrap());
        assert!(idle.reply().await.starts_with("421 4.3.2 no new mail"));
        assert_eq!(idle.reply().await, "", "it is closed");
        let (_, refusal) = node.connect().await;
        assert!(refusal.starts_with("421 4.3.2 no new mail"), "{refusal}");
        assert!(node.node.problems()[0].starts_with("draining"));
        assert!(busy.say("RCPT TO:<bob@example.net>").await.starts_with("250"));
        assert!(busy.say("DATA").await.starts_with("354"));
        // The next transaction is there already when this one ends.
        let reply = busy.say("Subject: x\r\n\r\ny\r\n.\r\nMAIL FROM:<ann@example.org>").await;
        assert!(reply.starts_with("250"), "{reply}");
        assert!(busy.reply().await.starts_with("421 4.3.2 no new mail"));
        assert!(node.node.undo_drain().unwrap());
        assert!(node.connect().await.1.starts_with("220 "));
        assert!(node.node.problems().is_empty());
    }

    #[tokio::test]
    async fn a_node_that_stops_ends_its_idle_sessions() {
        let node = TestNode::start("");
        let mut client = node.client().await;
        node.node.stop().await;
        assert!(client.reply().await.starts_with("421 4.3.2"));
    }
}
