//! The HTTP server around the pages.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request};
use axum::routing::{MethodFilter, on};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::addresses::Addresses;
use crate::api::OPERATIONS;
use crate::app::App;
use crate::connection::{self, ConnectionHandler, ConnectionLimiter};
use crate::request::FORM_BYTES_MAX;
use crate::route::{Method, Route};
use crate::routes::routes;
use crate::state::ConsoleState;
use crate::{dispatch, response};

/// A listener that cannot accept (no descriptor is left) is asked again after this.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the console on this listener until `shutdown` is done; requests under way are finished.
/// `places` bounds its connections: no connection is accepted that could not be served.
///
/// # Errors
/// None of its own: a connection that cannot be accepted is logged.
pub async fn serve(
    listener: TcpListener,
    state: ConsoleState,
    limiter: Arc<dyn ConnectionLimiter>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let addresses = routes().map(|route| (route.path, route.method == Method::Get));
    let app = Arc::new(App::new(state, Addresses::of(addresses)));
    let handler = Arc::new(ConnectionHandler::new(router(&app), &app.state));
    let stop = watch::Sender::new(false);
    tokio::pin!(shutdown);
    loop {
        let next = async {
            limiter.wait_for_capacity().await;
            listener.accept().await
        };
        let accepted = tokio::select! {
            accepted = next => accepted,
            () = &mut shutdown => break,
        };
        match accepted {
            Ok((stream, client)) => match limiter.admit(client.ip()) {
                Some(slot) => {
                    let handler = handler.clone();
                    tokio::spawn(connection::run(handler, stream, client, slot, stop.subscribe()));
                }
                None => connection::reject(&stream, client.ip()),
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
                dispatch::answer(app, route, operation, client.ip(), request)
            }
        };
        router = router.route(route.path, on(filter(route), handler));
    }
    let (lost, wrong) = (app.clone(), app.clone());
    let router = router.fallback(|request: Request| async move {
        response::not_found(request.uri().path(), &lost.state.texts)
    });
    let router = router.method_not_allowed_fallback(|request: Request| async move {
        response::wrong_method(request.uri().path(), &wrong.state.texts)
    });
    router.layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
}

fn filter(route: &Route) -> MethodFilter {
    match route.method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Put => MethodFilter::PUT,
        Method::Delete => MethodFilter::DELETE,
    }
}
