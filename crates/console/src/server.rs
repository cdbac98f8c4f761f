//! The HTTP server around the pages.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request};
use axum::routing::{MethodFilter, on};
use gauntlet_store::{Log, Policies, Quarantine, Users};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::api::OPERATIONS;
use crate::connection::{self, Door, Places};
use crate::node::NodeHandle;
use crate::oidc::{OidcOptions, SignIns};
use crate::pages::rules::Measured;
use crate::proxies::Proxies;
use crate::replays::Replays;
use crate::routes::{Method, Route, routes};
use crate::text::Texts;
use crate::tls::Tls;
use crate::visit;

/// Pages that are made at once; further requests wait. Keeps the console from taking the blocking
/// threads and connections that mail needs.
const PAGES_AT_ONCE_MAX: usize = 4;
/// The same of `/healthz` and `/metrics`.
const MACHINES_AT_ONCE_MAX: usize = 2;

/// Settings of the console.
#[derive(Debug, Clone, Copy)]
pub struct ConsoleOptions {
    /// Seconds without a request after which a login ends.
    pub session_seconds: u64,
    /// Seconds after which a login ends however busy it is.
    pub session_age_seconds_max: u64,
    /// The console is reached by HTTPS (its own, or a proxy's): cookies are for HTTPS only.
    pub https: bool,
    /// Time for the head of a request, and between two requests of a connection.
    pub head_wait_max: Duration,
    /// Time for the body of a request.
    pub body_wait_max: Duration,
}

impl Default for ConsoleOptions {
    fn default() -> Self {
        ConsoleOptions {
            session_seconds: 8 * 3600,
            session_age_seconds_max: 12 * 3600,
            https: false,
            head_wait_max: Duration::from_secs(10),
            body_wait_max: Duration::from_secs(30),
        }
    }
}

/// What the console works with.
#[derive(Clone)]
pub struct ConsoleState {
    /// The message log.
    pub log: Arc<Log>,
    /// The quarantine.
    pub quarantine: Arc<Quarantine>,
    /// The versions of the policy.
    pub policies: Arc<Policies>,
    /// The people.
    pub users: Arc<Users>,
    /// The node.
    pub node: Arc<dyn NodeHandle>,
    /// Settings.
    pub options: ConsoleOptions,
    /// HTTPS of its own; none serves HTTP.
    pub tls: Option<Tls>,
    /// Proxies whose word counts about who asks.
    pub proxies: Arc<Proxies>,
    /// What pages say.
    pub texts: Arc<Texts>,
    /// Signing in at somebody else's; none if there is none.
    pub oidc: Option<Arc<OidcOptions>>,
}

impl std::fmt::Debug for ConsoleState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsoleState").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The state with what the server itself keeps.
pub(crate) struct App {
    pub(crate) state: ConsoleState,
    pub(crate) pages: Semaphore,
    pub(crate) machines: Semaphore,
    pub(crate) replays: Replays,
    pub(crate) sign_ins: SignIns,
    measured: Mutex<Option<Measured>>,
}

impl App {
    /// What rules cost when that was measured last.
    pub(crate) fn measured(&self) -> Option<Measured> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps what rules cost.
    pub(crate) fn set_measured(&self, measured: Measured) {
        *self.measured.lock().unwrap_or_else(PoisonError::into_inner) = Some(measured);
    }
}

/// A listener that cannot accept (no descriptor is left) is asked again after this.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the console on this listener until `shutdown` is done; requests under way are finished. `places`
/// bounds its connections: nobody is accepted who could not be served.
///
/// # Errors
/// None of its own: a connection that cannot be accepted is logged.
pub async fn serve(
    listener: TcpListener,
    state: ConsoleState,
    places: Arc<dyn Places>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let (options, tls) = (state.options, state.tls.clone());
    let app = Arc::new(App {
        state,
        pages: Semaphore::new(PAGES_AT_ONCE_MAX),
        machines: Semaphore::new(MACHINES_AT_ONCE_MAX),
        replays: Replays::default(),
        sign_ins: SignIns::default(),
        measured: Mutex::default(),
    });
    let door = Arc::new(Door::new(router(&app), options, tls));
    let stop = watch::Sender::new(false);
    tokio::pin!(shutdown);
    loop {
        let next = async {
            places.wait_for_room().await;
            listener.accept().await
        };
        let accepted = tokio::select! {
            accepted = next => accepted,
            () = &mut shutdown => break,
        };
        match accepted {
            Ok((stream, client)) => match places.admit(client.ip()) {
                Some(place) => {
                    let door = door.clone();
                    tokio::spawn(connection::run(door, stream, client, place, stop.subscribe()));
                }
                None => connection::turn_away(&stream, client.ip()),
            },
            Err(error) => {
                tracing::warn!(%error, "the console cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    stop.send_replace(true);
    stop.closed().await;
    Ok(())
}

fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for route in routes() {
        let operation = OPERATIONS.iter().find(|o| std::ptr::eq(&raw const o.route, route));
        let handler = {
            let app = app.clone();
            move |ConnectInfo(client): ConnectInfo<SocketAddr>, request: Request| {
                visit::answer(app, route, operation, client.ip(), request)
            }
        };
        router = router.route(route.path, on(filter(route), handler));
    }
    let (lost, wrong) = (app.clone(), app.clone());
    let router = router.fallback(|request: Request| async move {
        visit::not_found(request.uri().path(), &lost.state.texts)
    });
    let router = router.method_not_allowed_fallback(|request: Request| async move {
        visit::wrong_method(request.uri().path(), &wrong.state.texts)
    });
    router.layer(DefaultBodyLimit::max(visit::FORM_BYTES_MAX))
}

fn filter(route: &Route) -> MethodFilter {
    match route.method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Put => MethodFilter::PUT,
        Method::Delete => MethodFilter::DELETE,
    }
}
