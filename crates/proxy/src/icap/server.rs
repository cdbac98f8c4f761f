//! Listeners and connections of ICAP clients.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::admission::Admission;
use crate::client::{Client, Socket};
use crate::icap::answer::{self, About};
use crate::icap::connection::Connection;
use crate::icap::counters::IcapCounters;
use crate::icap::service::Service;
use crate::server::{Parts, StartError, adopted};
use crate::settings::{Settings, SettingsError};
use crate::stop::{Phase, Stop, drain};

/// How long a client beyond the limits has to take the answer.
const REFUSE: Duration = Duration::from_secs(1);
/// Clients beyond the limits that get an answer at once; others are closed.
const REFUSED_AT_ONCE_MAX: usize = 64;
/// After an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An ICAP service that listens.
pub struct IcapServer {
    listeners: Vec<TcpListener>,
    settings: Arc<Settings>,
    parts: Parts,
    counters: Arc<IcapCounters>,
}

impl IcapServer {
    /// Checks the settings and listens on `icap.listen`. Clients wait until [`IcapServer::run`].
    ///
    /// # Errors
    /// If a setting is out of its bounds, or an address is taken.
    pub async fn bind(settings: Settings, parts: Parts) -> Result<Self, StartError> {
        settings.check()?;
        let mut sockets = Vec::new();
        for &address in &settings.icap.listen {
            let listener = TcpListener::bind(address).await.and_then(TcpListener::into_std);
            sockets.push(listener.map_err(|source| StartError::Listen { address, source })?);
        }
        Self::with_sockets(sockets, settings, parts)
    }

    /// The same with sockets that were bound before, and do not block. Call it on the runtime that
    /// is to run it.
    ///
    /// # Errors
    /// If a setting is out of its bounds, or the runtime does not take a socket.
    pub fn with_sockets(
        sockets: Vec<std::net::TcpListener>,
        settings: Settings,
        parts: Parts,
    ) -> Result<Self, StartError> {
        settings.check()?;
        let listeners = adopted(sockets)?;
        let (settings, counters) = (Arc::new(settings), Arc::default());
        Ok(IcapServer { listeners, settings, parts, counters })
    }

    /// Where it listens: with port 0 in the settings, the port that the system chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// What happens, in numbers.
    pub fn counters(&self) -> Arc<IcapCounters> {
        Arc::clone(&self.counters)
    }

    /// Serves until `stop` is ready, then lets what has begun end within `times.stop_seconds_max`.
    ///
    /// # Errors
    /// If a setting is out of its bounds.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), StartError> {
        let stop_max = Duration::from_secs(self.settings.times.stop_seconds_max);
        let (phase, stopping) = Stop::new();
        let (alive, all_gone) = mpsc::channel(1);
        let shared = Arc::new(Shared::new(&self, stopping, alive)?);
        let mut accepting = JoinSet::new();
        for listener in self.listeners {
            accepting.spawn(accept(listener, Arc::clone(&shared)));
        }
        stop.await;
        accepting.shutdown().await;
        drop(shared);
        drain(phase, stop_max, all_gone).await;
        Ok(())
    }
}

/// What connections share.
struct Shared {
    service: Arc<Service>,
    admission: Arc<Admission>,
    refusing: Arc<Semaphore>,
    alive: mpsc::Sender<()>,
}

impl Shared {
    fn new(
        server: &IcapServer,
        stop: Stop,
        alive: mpsc::Sender<()>,
    ) -> Result<Self, SettingsError> {
        let (settings, counters) = (Arc::clone(&server.settings), Arc::clone(&server.counters));
        let admission = Arc::new(Admission::new(&settings.icap.admission()));
        let (judge, log) = (Arc::clone(&server.parts.judge), Arc::clone(&server.parts.log));
        let service = Arc::new(Service::new(settings, judge, log, counters, stop)?);
        let refusing = Arc::new(Semaphore::new(REFUSED_AT_ONCE_MAX));
        Ok(Shared { service, admission, refusing, alive })
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => admit(stream, peer, &shared),
            Err(error) => {
                tracing::warn!(%error, "ICAP connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn admit(stream: TcpStream, peer: SocketAddr, shared: &Shared) {
    let address = peer.ip().to_canonical();
    // Without it, small pieces would wait for acknowledgements; an error changes nothing else.
    let _ = stream.set_nodelay(true);
    let service = Arc::clone(&shared.service);
    let is_known = service.settings.client_networks.iter().any(|n| n.contains(address));
    if let Some(place) = is_known.then(|| shared.admission.take(address)).flatten() {
        let times = service.settings.icap.times();
        let client = Arc::new(Client::new(address, &times, place, shared.alive.clone()));
        tokio::spawn(serve(stream, client, service));
        return;
    }
    service.counters.connections_refused.add(1);
    if let Ok(permit) = Arc::clone(&shared.refusing).try_acquire_owned() {
        tokio::spawn(async move {
            let _permit = permit;
            let _ = timeout(REFUSE, refuse(stream, &service)).await;
        });
    }
}

async fn serve(stream: TcpStream, client: Arc<Client>, service: Arc<Service>) {
    let _now = Now::new(&service.counters);
    let ended = service.stop.clone().begun(Phase::Ended);
    let socket = Socket { stream, client: Arc::clone(&client), replay: Bytes::new() };
    let connection = Connection::new(Arc::clone(&service), client, socket);
    tokio::select! {
        () = connection.run() => {}
        () = ended => {}
    }
}

/// Counts a connection while it lasts.
struct Now(Arc<IcapCounters>);

impl Now {
    fn new(counters: &Arc<IcapCounters>) -> Self {
        counters.connections.add(1);
        counters.connections_now.add(1);
        Now(Arc::clone(counters))
    }
}

impl Drop for Now {
    fn drop(&mut self) {
        self.0.connections_now.decrement();
    }
}

/// Tells a client beyond the limits so.
async fn refuse(mut stream: TcpStream, service: &Service) {
    service.counters.errors.add(1);
    let istag = service.istag();
    let about = About { istag: &istag, is_last: true };
    let out = answer::error(503, "icap.connections_max is reached", about);
    // Whatever goes wrong, the connection ends.
    if stream.write_all(&out).await.is_ok() && stream.shutdown().await.is_ok() {
        let mut rest = [0; 4096];
        while matches!(tokio::io::AsyncReadExt::read(&mut stream, &mut rest).await, Ok(1..)) {}
    }
}
