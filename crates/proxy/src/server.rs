//! Listeners and connections of clients.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gauntlet_web::pac::Speaks;
use hyper::Method;
use hyper::body::Body;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, ServerConnection};

use crate::access_log::{AccessLog, AccessRecord, NoLog};
use crate::auth::{LoginError, Logins};
use crate::client::Client;
use crate::connection::{builder, serve_stream};
use crate::counters::Counters;
use crate::error_page::{self, About, Form};
use crate::forward::Forwarder;
use crate::interception;
use crate::judge::{AllowAll, Judge};
use crate::refusal::Refusal;
use crate::request::without_user;
use crate::resolve::{Resolve, SystemResolver};
use crate::service::{References, Service};
use crate::settings::{Settings, SettingsError};
use crate::shared::{Now, Shared};
use crate::stop::{Phase, Stop, drain};
use crate::stream::Stream;
use crate::tls::{Interceptor, OriginTls, OriginTrust, TlsError, with_protocols};
use crate::transparent::{self, socket};
use crate::tunnel::Pipes;

/// How long a client beyond the limits has to send its request and take the page.
const REFUSE: Duration = Duration::from_secs(5);
/// Bytes of plain text that one connection may hold back for a client that does not read.
const TLS_BUFFER_BYTES_MAX: usize = 64 * 1024;
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
    /// Checks logins; none takes the files that the settings name, if they ask for logins.
    pub logins: Option<Arc<Logins>>,
    /// Clients of the explicit listeners speak TLS to the proxy itself, and are shown this; which
    /// protocols they may choose from is the proxy's to say.
    pub tls: Option<ServerConfig>,
}

impl Default for Parts {
    fn default() -> Self {
        Parts {
            judge: Arc::new(AllowAll),
            resolver: None,
            log: Arc::new(NoLog),
            logins: None,
            tls: None,
        }
    }
}

/// Why a proxy does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The certificate authority, or the roots.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Logins.
    #[error(transparent)]
    Login(#[from] LoginError),
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
    origin_tls: Arc<OriginTls>,
    interceptor: Option<Arc<Interceptor>>,
}

impl Server {
    /// Checks the settings and listens. Clients wait until [`Server::run`].
    ///
    /// # Errors
    /// If a setting is out of its bounds, an address is taken, or an authority or roots cannot be
    /// used.
    pub async fn bind(settings: Settings, parts: Parts) -> Result<Self, StartError> {
        settings.check()?;
        let failed = |address| move |source| StartError::Listen { address, source };
        let mut explicit = Vec::new();
        for &address in &settings.listen {
            let listener = TcpListener::bind(address).await.and_then(TcpListener::into_std);
            explicit.push(listener.map_err(failed(address))?);
        }
        let mode = settings.transparent.mode;
        let transparent = settings.transparent.listen.iter();
        let transparent =
            transparent.map(|&address| socket::listen(address, mode).map_err(failed(address)));
        let transparent = transparent.collect::<Result<Vec<_>, _>>()?;
        Self::with_sockets(explicit, transparent, settings, parts)
    }

    /// The same with sockets that were bound before ([`transparent_socket`] for those that a router
    /// hands connections over to), and do not block. Call it on the runtime that is to run it.
    ///
    /// # Errors
    /// If a setting is out of its bounds, an authority or roots cannot be used, or the runtime does
    /// not take a socket.
    ///
    /// [`transparent_socket`]: crate::transparent_socket
    pub fn with_sockets(
        explicit: Vec<std::net::TcpListener>,
        transparent: Vec<std::net::TcpListener>,
        settings: Settings,
        mut parts: Parts,
    ) -> Result<Self, StartError> {
        settings.check()?;
        parts.logins = match (settings.login.is_on() && !explicit.is_empty(), parts.logins) {
            (false, _) => None,
            (true, Some(logins)) => Some(logins),
            (true, None) => Some(Arc::new(Logins::new(&settings.login, None)?)),
        };
        let counters = Arc::default();
        let wait_max = Duration::from_secs(settings.times.connect_seconds_max);
        let origin_tls = Arc::new(OriginTls::new(&settings.tls, wait_max)?);
        let interceptor = Interceptor::new(&settings.tls, &counters)?.map(Arc::new);
        let (listeners, transparent) = (adopted(explicit)?, adopted(transparent)?);
        let settings = Arc::new(settings);
        Ok(Server { listeners, transparent, settings, parts, counters, origin_tls, interceptor })
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

    /// Whom it trusts among servers.
    pub fn trust(&self) -> OriginTrust {
        OriginTrust(Arc::clone(&self.origin_tls))
    }

    /// Serves until `stop` is ready, then lets what has begun end within `times.stop_seconds_max`.
    ///
    /// # Errors
    /// If a setting is out of its bounds.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), StartError> {
        let stop_max = Duration::from_secs(self.settings.times.stop_seconds_max);
        let (phase, stopping) = Stop::new();
        let (alive, all_gone) = mpsc::channel(1);
        let shared = Arc::new(Shared::new(service(&self, stopping)?, alive));
        let mut accepting = JoinSet::new();
        let tls = self.parts.tls.map(|config| TlsAcceptor::from(with_protocols(config)));
        for listener in self.listeners {
            let (shared, tls) = (Arc::clone(&shared), tls.clone());
            accepting.spawn(accept(listener, move |stream, peer| {
                admit(stream, peer, &shared, tls.as_ref());
            }));
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
        drain(phase, stop_max, all_gone).await;
        Ok(())
    }
}

/// Hands sockets to the runtime.
pub(crate) fn adopted(sockets: Vec<std::net::TcpListener>) -> Result<Vec<TcpListener>, StartError> {
    let adopt = |socket: std::net::TcpListener| {
        let address = socket.local_addr().unwrap_or_else(|_| SocketAddr::from(([0, 0, 0, 0], 0)));
        TcpListener::from_std(socket).map_err(|source| StartError::Listen { address, source })
    };
    sockets.into_iter().map(adopt).collect()
}

/// What answers the requests of a server.
fn service(server: &Server, stop: Stop) -> Result<Service, SettingsError> {
    let (settings, counters) = (Arc::clone(&server.settings), Arc::clone(&server.counters));
    let resolver = server.parts.resolver.clone();
    let resolver =
        resolver.unwrap_or_else(|| Arc::new(SystemResolver::new(settings.limits.lookups_max)));
    let origin_tls = Arc::clone(&server.origin_tls);
    let judge = Arc::clone(&server.parts.judge);
    let forwarder =
        Forwarder::new(Arc::clone(&settings), resolver, Arc::clone(&counters), origin_tls, judge)?;
    Ok(Service {
        judge: Arc::clone(&server.parts.judge),
        log: Arc::clone(&server.parts.log),
        settings,
        counters,
        forwarder,
        speaks: if server.parts.tls.is_some() { Speaks::Tls } else { Speaks::Plain },
        logins: server.parts.logins.clone(),
        interceptor: server.interceptor.clone(),
        carry: interception::carry,
        pipes: Pipes::new(),
        stop,
        references: References::default(),
    })
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

fn admit(stream: TcpStream, peer: SocketAddr, shared: &Shared, tls: Option<&TlsAcceptor>) {
    let address = peer.ip().to_canonical();
    // Without it, small pieces would wait for acknowledgements; an error changes nothing else.
    let _ = stream.set_nodelay(true);
    let service = Arc::clone(&shared.service);
    let is_known = shared.takes(address);
    let refusal = if is_known { Refusal::Connections } else { Refusal::Client };
    if let Some(place) = is_known.then(|| shared.admission.take(address)).flatten() {
        let times = &service.settings.times;
        let mut client = Client::new(address, times, place, shared.alive.clone());
        client.local = stream.local_addr().ok();
        tokio::spawn(serve(stream, Arc::new(client), service, tls.cloned()));
    } else if let Ok(permit) = Arc::clone(&shared.refusing).try_acquire_owned() {
        let tls = tls.cloned();
        tokio::spawn(async move {
            let _permit = permit;
            let refuse = async {
                match tls {
                    None => refuse(stream, peer, refusal, &service).await,
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => refuse(stream, peer, refusal, &service).await,
                        Err(_) => service.counters.client_tls_failures.add(1),
                    },
                }
            };
            let _ = timeout(REFUSE, refuse).await;
        });
    } else {
        service.counters.connections_dropped.add(1);
    }
}

async fn serve(
    stream: TcpStream,
    client: Arc<Client>,
    service: Arc<Service>,
    tls: Option<TlsAcceptor>,
) {
    let _now = Now::new(&service.counters);
    let Some(tls) = tls else { return serve_stream(stream, client, service, None).await };
    // Small enough that a client who does not read holds little back.
    let limited = |c: &mut ServerConnection| c.set_buffer_limit(Some(TLS_BUFFER_BYTES_MAX));
    let wait_max = Duration::from_secs(service.settings.times.header_seconds_max);
    let accepted = tokio::select! {
        accepted = timeout(wait_max, tls.accept_with(stream, limited)) => accepted,
        () = service.stop.clone().begun(Phase::Draining) => return,
    };
    match accepted {
        Ok(Ok(stream)) => serve_stream(stream, client, service, None).await,
        Ok(Err(error)) => {
            service.counters.client_tls_failures.add(1);
            tracing::debug!(client = %client.address, %error, "no TLS with a client");
        }
        Err(_) => service.counters.header_timeouts.add(1),
    }
}

/// Tells a client that is not taken why.
async fn refuse(
    stream: impl Stream + 'static,
    peer: SocketAddr,
    refusal: Refusal,
    service: &Arc<Service>,
) {
    let (settings, counters) = (Arc::clone(&service.settings), Arc::clone(&service.counters));
    let (log, reference) = (Arc::clone(&service.log), service.references.next());
    let each = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        counters.refused(&refusal);
        let url = without_user(request.uri());
        let client = peer.ip().to_canonical();
        let mut record = AccessRecord::refused_at_once(client, &request, &url, &refusal);
        record.reference = reference.clone();
        let about = About {
            url: &url,
            client,
            evidence: "",
            reference: &reference,
            proxy: &settings.name,
            release: None,
        };
        let form = Form::wanted(request.headers());
        let page = error_page::response(&refusal, &about, form);
        if request.method() != Method::HEAD {
            record.bytes_out = page.body().size_hint().exact().unwrap_or(0);
        }
        log.record(&record);
        async move { Ok::<_, Infallible>(page) }
    });
    let mut builder = builder(&service.settings);
    builder.http1().keep_alive(false);
    // Whatever goes wrong, the connection ends.
    let _ = builder.serve_connection(TokioIo::new(stream), each).await;
}
