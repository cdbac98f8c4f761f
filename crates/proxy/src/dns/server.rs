//! Sockets of the DNS service: UDP and TCP, or TLS alone (RFC 7858).

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use gauntlet_web::settings::DnsSettings;
use hickory_resolver::system_conf::read_system_conf;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::admission::{Admission, Place};
use crate::dns::counters::DnsCounters;
use crate::dns::service::{DnsService, Transport};
use crate::dns::upstream::framed;
use crate::server::{Parts, StartError, adopted};
use crate::settings::{Limits, Settings, SettingsError};
use crate::stop::{Phase, Stop, drain};
use crate::stream::Stream;

/// Bytes of a query by UDP: larger ones are no queries.
const QUERY_BYTES_MAX: usize = 4_096;
/// After an error of a socket, such as too many open files.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
/// The protocol within TLS (RFC 7858 section 3.2 and IANA's list).
const ALPN: &[u8] = b"dot";

/// A DNS service that listens.
pub struct DnsServer {
    listeners: Vec<TcpListener>,
    sockets: Vec<UdpSocket>,
    settings: Settings,
    upstreams: Vec<SocketAddr>,
    parts: Parts,
    counters: Arc<DnsCounters>,
}

impl DnsServer {
    /// Takes sockets that are bound, and do not block; with TLS in `parts`, those of TCP alone.
    /// Call it on the runtime that is to run it.
    ///
    /// # Errors
    /// If a setting is out of its bounds, there is no resolver to ask but this one, or the runtime
    /// does not take a socket.
    pub fn with_sockets(
        listeners: Vec<std::net::TcpListener>,
        sockets: Vec<std::net::UdpSocket>,
        settings: Settings,
        parts: Parts,
    ) -> Result<Self, StartError> {
        settings.check()?;
        let listeners = adopted(listeners)?;
        let adopt = |socket: std::net::UdpSocket| {
            let address = socket.local_addr().unwrap_or_else(|_| SocketAddr::from(([0; 4], 0)));
            UdpSocket::from_std(socket).map_err(|source| StartError::Listen { address, source })
        };
        let sockets = sockets.into_iter().map(adopt).collect::<Result<Vec<_>, _>>()?;
        let own: Vec<_> = listeners.iter().filter_map(|l| l.local_addr().ok()).collect();
        let upstreams = upstreams(&settings.dns, &own)?;
        let counters = Arc::default();
        Ok(DnsServer { listeners, sockets, settings, upstreams, parts, counters })
    }

    /// Where it listens.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// What happens, in numbers.
    pub fn counters(&self) -> Arc<DnsCounters> {
        Arc::clone(&self.counters)
    }

    /// Serves until `stop` is ready, then lets what has begun end within `times.stop_seconds_max`.
    ///
    /// # Errors
    /// None: its settings were checked.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), StartError> {
        let stop_max = Duration::from_secs(self.settings.times.stop_seconds_max);
        let (phase, stopping) = Stop::new();
        let (alive, all_gone) = mpsc::channel(1);
        let tls = self.parts.tls.clone().map(|config| TlsAcceptor::from(with_protocol(config)));
        let shared = Arc::new(Shared::new(&self, stopping, alive));
        let mut serving = JoinSet::new();
        for socket in self.sockets {
            serving.spawn(datagrams(Arc::new(socket), Arc::clone(&shared)));
        }
        for listener in self.listeners {
            serving.spawn(connections(listener, tls.clone(), Arc::clone(&shared)));
        }
        stop.await;
        serving.shutdown().await;
        drop(shared);
        drain(phase, stop_max, all_gone).await;
        Ok(())
    }
}

/// The resolvers that are asked: those of the settings, else the system's.
fn upstreams(settings: &DnsSettings, own: &[SocketAddr]) -> Result<Vec<SocketAddr>, SettingsError> {
    let named = settings.upstreams()?;
    let system = || {
        let servers = read_system_conf().map(|(config, _)| config.name_servers);
        servers.unwrap_or_default().into_iter().map(|server| SocketAddr::new(server.ip, 53))
    };
    let all = if named.is_empty() { system().collect() } else { named };
    let is_own = |address: &SocketAddr| {
        let same_host = |o: &SocketAddr| o.ip() == address.ip() || o.ip().is_unspecified();
        own.iter().any(|o| o.port() == address.port() && same_host(o))
    };
    match all.iter().find(|address| is_own(address)) {
        Some(own) => Err(SettingsError::Dns(format!(
            "{own} is this service itself, so it would ask itself; name others in upstream"
        ))),
        None if all.is_empty() => {
            let text = "there is no resolver to ask; name one in upstream".to_owned();
            Err(SettingsError::Dns(text))
        }
        None => Ok(all),
    }
}

fn with_protocol(mut config: ServerConfig) -> Arc<ServerConfig> {
    config.alpn_protocols = vec![ALPN.to_vec()];
    Arc::new(config)
}

/// What queries share.
struct Shared {
    service: Arc<DnsService>,
    admission: Arc<Admission>,
    queries: Arc<Semaphore>,
    stop: Stop,
    client_networks: Vec<gauntlet_mail::Network>,
    alive: mpsc::Sender<()>,
}

impl Shared {
    fn new(server: &DnsServer, stop: Stop, alive: mpsc::Sender<()>) -> Self {
        let (settings, parts) = (server.settings.dns.clone(), &server.parts);
        let admission = Admission::new(&Limits {
            connections_max: settings.connections_max,
            client_connections_max: settings.client_connections_max,
            ..Limits::default()
        });
        let queries = Arc::new(Semaphore::new(settings.queries_max));
        let (judge, log) = (Arc::clone(&parts.judge), Arc::clone(&parts.log));
        let (servers, counters) = (server.upstreams.clone(), Arc::clone(&server.counters));
        let service = Arc::new(DnsService::new(settings, servers, judge, log, counters));
        let client_networks = server.settings.client_networks.clone();
        Shared { service, admission: Arc::new(admission), queries, stop, client_networks, alive }
    }

    fn is_known(&self, client: IpAddr) -> bool {
        self.client_networks.iter().any(|network| network.contains(client))
    }
}

async fn datagrams(socket: Arc<UdpSocket>, shared: Arc<Shared>) {
    let mut buffer = [0; QUERY_BYTES_MAX];
    let counters = &shared.service.counters;
    loop {
        let (count, peer) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                tracing::debug!(%error, "a DNS query could not be received");
                sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        let client = peer.ip().to_canonical();
        // Whoever forges a stranger's address would have us answer that stranger.
        if !shared.is_known(client) {
            counters.strangers.add(1);
            continue;
        }
        let Ok(permit) = Arc::clone(&shared.queries).try_acquire_owned() else {
            counters.dropped.add(1);
            continue;
        };
        let query = buffer.get(..count).unwrap_or_default().to_vec();
        let (service, socket, alive) =
            (Arc::clone(&shared.service), Arc::clone(&socket), shared.alive.clone());
        tokio::spawn(async move {
            let _held = (permit, alive);
            if let Some(answer) = service.answer(client, &query, Transport::Udp).await {
                // The client has gone, or asks again.
                let _ = socket.send_to(&answer, peer).await;
            }
        });
    }
}

async fn connections(listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "DNS connection could not be accepted");
                sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        let client = peer.ip().to_canonical();
        let place = shared.is_known(client).then(|| shared.admission.take(client)).flatten();
        let Some(place) = place else {
            shared.service.counters.connections_refused.add(1);
            continue;
        };
        tokio::spawn(connection(stream, client, tls.clone(), Arc::clone(&shared), place));
    }
}

async fn connection(
    stream: TcpStream,
    client: IpAddr,
    tls: Option<TlsAcceptor>,
    shared: Arc<Shared>,
    place: Place,
) {
    let _held = (place, shared.alive.clone());
    // Without it, small pieces would wait for acknowledgements; an error changes nothing else.
    let _ = stream.set_nodelay(true);
    let (stop, service) = (shared.stop.clone(), Arc::clone(&shared.service));
    let queries = Arc::clone(&shared.queries);
    // The server is gone when nobody shares it any more.
    drop(shared);
    service.counters.connections_now.add(1);
    let idle_max = Duration::from_secs(service.settings.idle_seconds_max);
    let serve = async {
        match tls {
            None => queries_of(stream, client, &service, &queries, &stop).await,
            Some(tls) => match timeout(idle_max, tls.accept(stream)).await {
                Ok(Ok(stream)) => queries_of(stream, client, &service, &queries, &stop).await,
                Ok(Err(error)) => {
                    service.counters.tls_failures.add(1);
                    Err(error)
                }
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            },
        }
    };
    tokio::select! {
        ended = serve => {
            if let Err(error) = ended {
                tracing::debug!(%client, %error, "a DNS connection ended");
            }
        }
        () = stop.clone().begun(Phase::Ended) => {}
    }
    service.counters.connections_now.decrement();
}

/// Answers the queries of a connection, one after the other.
async fn queries_of(
    mut stream: impl Stream,
    client: IpAddr,
    service: &DnsService,
    queries: &Semaphore,
    stop: &Stop,
) -> io::Result<()> {
    let idle_max = Duration::from_secs(service.settings.idle_seconds_max);
    loop {
        let query = tokio::select! {
            query = timeout(idle_max, query(&mut stream)) => query??,
            () = stop.clone().begun(Phase::Draining) => return Ok(()),
        };
        let Ok(_permit) = queries.try_acquire() else {
            service.counters.dropped.add(1);
            return Ok(());
        };
        let Some(answer) = service.answer(client, &query, Transport::Tcp).await else {
            return Ok(());
        };
        timeout(idle_max, stream.write_all(&framed(&answer)?)).await??;
        timeout(idle_max, stream.flush()).await??;
    }
}

/// The next query of a connection; its length alone says how much memory it may have.
async fn query(stream: &mut impl Stream) -> io::Result<Vec<u8>> {
    let count = usize::from(stream.read_u16().await?);
    if count > QUERY_BYTES_MAX {
        return Err(io::Error::other("a query is longer than any that is answered"));
    }
    let mut query = vec![0; count];
    stream.read_exact(&mut query).await?;
    Ok(query)
}
