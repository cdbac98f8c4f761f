//! The HTTP server around the pages.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request};
use axum::routing::{MethodFilter, on};
use gauntlet_store::{Log, Policies, Quarantine, Users};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::api::OPERATIONS;
use crate::node::NodeHandle;
use crate::oidc::{OidcOptions, SignIns};
use crate::pages::rules::Measured;
use crate::proxies::Proxies;
use crate::replays::Replays;
use crate::routes::{Method, Route, routes};
use crate::text::Texts;
use crate::visit;

/// Pages that are made at once; further requests wait. Keeps the console from taking the blocking
/// threads and connections that mail needs.
const PAGES_AT_ONCE_MAX: usize = 4;

/// Settings of the console.
#[derive(Debug, Clone, Copy)]
pub struct ConsoleOptions {
    /// Seconds without a request after which a login ends.
    pub session_seconds: u64,
    /// The console is reached by HTTPS (through a proxy): cookies are for HTTPS only.
    pub https: bool,
}

impl Default for ConsoleOptions {
    fn default() -> Self {
        ConsoleOptions { session_seconds: 8 * 3600, https: false }
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

/// Serves the console on this listener until `shutdown` is done; requests under way are finished.
///
/// # Errors
/// If the listener fails.
pub async fn serve(
    listener: TcpListener,
    state: ConsoleState,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let app = Arc::new(App {
        state,
        pages: Semaphore::new(PAGES_AT_ONCE_MAX),
        replays: Replays::default(),
        sign_ins: SignIns::default(),
        measured: Mutex::default(),
    });
    let service = router(&app).into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).with_graceful_shutdown(shutdown).await
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
