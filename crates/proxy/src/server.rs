//! Listeners and connections of clients.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::access_log::{AccessLog, NoLog};
use crate::admission::Admission;
use crate::client::{Client, Socket, Stage};
use crate::counters::Counters;
use crate::error_page::{self, About, Form};
use crate::forward::Forwarder;
use crate::judge::{AllowAll, Judge};
use crate::refusal::Refusal;
use crate::resolve::{Resolve, SystemResolver};
use crate::service::{References, Service};
use crate::settings::{Settings, SettingsError};
use crate::stop::{Phase, Stop};
use crate::transparent::{self, socket};

/// How long a connection that is told to end may take to say so.
const GOODBYE: Duration = Duration::from_secs(1);
/// How long a client beyond the limits has to send its request and take the page.
const REFUSE: Duration = Duration::from_secs(5);
/// Clients beyond the limits that get a page at once; others are closed.
const REFUSED_AT_ONCE_MAX: usize = 64;
/// After an error of `accept`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a proxy is made of beside its settings.
pub struct Parts {
    /// Decides.
    pub judge: Arc<dyn Judge>,
    /// Looks names up; none takes the system's.
    pub resolver: Option<Arc<dyn Resolve>>,
    /// Keeps records of requests.
    pub log: Arc<dyn AccessLog>,
}

impl Default for Parts {
    fn default() -> Self {
        Parts { judge: Arc::new(AllowAll), resolver: None, log: Arc::new(NoLog) }
    }
}

/// Why a proxy does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// An address that cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// A proxy that listens.
pub struct Server {
    listeners: Vec<TcpListener>,
    transparent: Vec<TcpListener>,
    settings: Arc<Settings>,
    parts: Parts,
    counters: Arc<Counters>,
}

impl Server {
    /// Checks the settings and listens. Clients wait until [`Server::run`].
    ///
    /// # Errors
    /// If a setting is out of its bounds, or an address is taken.
    pub async fn bind(settings: Settings, parts: Parts) -> Result<Self, StartError> {
        settings.check()?;
        let mut listeners = Vec::new();
        for &address in &settings.listen {
            let listener = TcpListener::bind(address).await;
            listeners.push(listener.map_err(|source| StartError::Listen { address, source })?);
        }
        let mode = settings.transparent.mode;
        let transparent = settings.transparent.listen.iter().map(|&address| {
            let listener = socket::listen(address, mode).and_then(TcpListener::from_std);
            listener.map_err(|source| StartError::Listen { address, source })
        });
        let transparent = transparent.collect::<Result<Vec<_>, _>>()?;
        let (settings, counters) = (Arc::new(settings), Arc::default());
        Ok(Server { listeners, transparent, settings, parts, counters })
    }

    /// The same with sockets that were bound before ([`transparent_socket`] for those that a router
    /// hands connections over to), and do not block. Call it on the runtime that is to run it.
    ///
    /// # Errors
    /// If a setting is out of its bounds, or the runtime does not take a socket.
    ///
    /// [`transparent_socket`]: crate::transparent_socket
    pub fn with_sockets(
        explicit: Vec<std::net::TcpListener>,
        transparent: Vec<std::net::TcpListener>,
        settings: Settings,
        parts: Parts,
    ) -> Result<Self, StartError> {
        settings.check()?;
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let adopt = |socket: std::net::TcpListener| {
            let address = socket.local_addr().unwrap_or(unknown);
            let adopted = TcpListener::from_std(socket);
            adopted.map_err(|source| StartError::Listen { address, source })
        };
        let listeners = explicit.into_iter().map(adopt).collect::<Result<_, _>>()?;
        let transparent = transparent.into_iter().map(adopt).collect::<Result<_, _>>()?;
        let settings = Arc::new(settings);
        Ok(Server { listeners, transparent, settings, parts, counters: Arc::default() })
    }

    /// Where it listens: with port 0 in the settings, the port that the system chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Where it takes connections that a router hands over.
    pub fn transparent_addresses(&self) -> Vec<SocketAddr> {
        self.transparent.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// What happens, in numbers.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Serves until `stop` is ready, then lets what has begun end within `times.stop_seconds_max`.
    ///
    /// # Errors
    /// If a setting is out of its bounds.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), StartError> {
        let stop_max = Duration::from_secs(self.settings.times.stop_seconds_max);
        let (phase, stopping) = Stop::new();
        let (alive, mut all_gone) = mpsc::channel(1);
        let shared = Arc::new(Shared::new(&self, stopping, alive)?);
        let mut accepting = JoinSet::new();
        for listener in self.listeners {
            let shared = Arc::clone(&shared);
            accepting.spawn(accept(listener, move |stream, peer| admit(stream, peer, &shared)));
        }
        for listener in self.transparent {
            let (address, shared) = (listener.local_addr(), Arc::clone(&shared));
            let Ok(address) = address else { continue };
            accepting.spawn(accept(listener, move |stream, peer| {
                transparent::admit(stream, peer, address, &shared);
            }));
        }
        stop.await;
        accepting.shutdown().await;
        drop(shared);
        let _ = phase.send(Phase::Draining);
        // Nothing is ever sent: the channel ends when the last connection has.
        let _ = timeout(stop_max, all_gone.recv()).await;
        let _ = phase.send(Phase::Ended);
        let _ = timeout(GOODBYE, all_gone.recv()).await;
        Ok(())
    }
}

/// What connections share.
pub(crate) struct Shared {
    pub(crate) service: Arc<Service>,
    pub(crate) admission: Arc<Admission>,
    refusing: Arc<Semaphore>,
    pub(crate) alive: mpsc::Sender<()>,
}

impl Shared {
    /// Clients of this address may use the proxy.
    pub(crate) fn takes(&self, address: IpAddr) -> bool {
        self.service.settings.client_networks.iter().any(|n| n.contains(address))
    }

    fn new(server: &Server, stop: Stop, alive: mpsc::Sender<()>) -> Result<Self, SettingsError> {
        let (settings, counters) = (Arc::clone(&server.settings), Arc::clone(&server.counters));
        let resolver = server.parts.resolver.clone();
        let resolver =
            resolver.unwrap_or_else(|| Arc::new(SystemResolver::new(settings.limits.lookups_max)));
        let forwarder = Forwarder::new(Arc::clone(&settings), resolver, Arc::clone(&counters))?;
        let admission = Arc::new(Admission::new(&settings.limits));
        let service = Service {
            judge: Arc::clone(&server.parts.judge),
            log: Arc::clone(&server.parts.log),
            settings,
            counters,
            forwarder,
            stop,
            references: References::default(),
        };
        let refusing = Arc::new(Semaphore::new(REFUSED_AT_ONCE_MAX));
        Ok(Shared { service: Arc::new(service), admission, refusing, alive })
    }
}

async fn accept(listener: TcpListener, admit: impl Fn(TcpStream, SocketAddr)) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => admit(stream, peer),
            Err(error) => {
                tracing::warn!(%error, "connection could not be accepted");
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
    let is_known = shared.takes(address);
    let refusal = if is_known { Refusal::Connections } else { Refusal::Client };
    if let Some(place) = is_known.then(|| shared.admission.take(address)).flatten() {
        let times = &service.settings.times;
        let client = Arc::new(Client::new(address, times, place, shared.alive.clone()));
        let socket = Socket { stream, client, replay: Bytes::new() };
        tokio::spawn(async move {
            let _now = Now::new(&service.counters);
            serve(socket, service).await;
        });
    } else if let Ok(permit) = Arc::clone(&shared.refusing).try_acquire_owned() {
        tokio::spawn(async move {
            let _permit = permit;
            let _ = timeout(REFUSE, refuse(stream, peer, refusal, &service)).await;
        });
    } else {
        service.counters.connections_dropped.add(1);
    }
}

/// Counts a connection while it lasts.
pub(crate) struct Now(Arc<Counters>);

impl Now {
    pub(crate) fn new(counters: &Arc<Counters>) -> Self {
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

/// Answers the requests of a connection.
pub(crate) async fn serve(socket: Socket, service: Arc<Service>) {
    let (counters, client) = (Arc::clone(&service.counters), Arc::clone(&socket.client));
    let builder = builder(&service.settings);
    let (draining, ended) =
        (service.stop.clone().begun(Phase::Draining), service.stop.clone().begun(Phase::Ended));
    let (mut draining, mut ended) = (pin!(draining), pin!(ended));
    let each = {
        let client = Arc::clone(&client);
        service_fn(move |request| {
            let (service, client) = (Arc::clone(&service), Arc::clone(&client));
            async move { Ok::<_, Infallible>(service.serve(client, request).await) }
        })
    };
    let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(socket), each));
    let mut is_draining = false;
    let result = loop {
        tokio::select! {
            result = connection.as_mut() => break result,
            () = draining.as_mut(), if !is_draining => {
                is_draining = true;
                connection.as_mut().graceful_shutdown();
            }
            () = ended.as_mut() => return,
            () = client.progress.stalled() => {
                match client.stage() {
                    Stage::Header => counters.header_timeouts.add(1),
                    Stage::Busy(_) => counters.stalled.add(1),
                    Stage::Idle => {}
                }
                connection.as_mut().graceful_shutdown();
                let _ = timeout(GOODBYE, connection).await;
                return;
            }
        }
    };
    if let Err(error) = result
        && error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse)
    {
        counters.protocol_errors.add(1);
        tracing::debug!(client = %client.address, %error, "request could not be read");
    }
}

/// HTTP/1 and HTTP/2 (prior knowledge) within the limits. Time limits are [`Client`]'s.
pub(crate) fn builder(settings: &Settings) -> auto::Builder<TokioExecutor> {
    let limits = &settings.limits;
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(limits.header_bytes_max)
        .max_headers(limits.header_fields_max);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX));
    builder
}

/// Tells a client that is not taken why.
async fn refuse(stream: TcpStream, peer: SocketAddr, refusal: Refusal, service: &Arc<Service>) {
    let (settings, counters) = (Arc::clone(&service.settings), Arc::clone(&service.counters));
    let each = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        counters.refused(&refusal);
        let url = request.uri().to_string();
        let client = peer.ip().to_canonical();
        let about =
            About { url: &url, client, evidence: "", reference: "-", proxy: &settings.name };
        let form = Form::wanted(request.headers());
        let page = error_page::response(&refusal, &about, form);
        async move { Ok::<_, Infallible>(page) }
    });
    let mut builder = builder(&service.settings);
    builder.http1().keep_alive(false);
    // Whatever goes wrong, the connection ends.
    let _ = builder.serve_connection(TokioIo::new(stream), each).await;
}
