//! A request on its way to its handler: read, authorized, given a thread, answered.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;

use crate::api::Operation;
use crate::app::App;
use crate::authorization::authorize;
use crate::error::RequestError;
use crate::route::Route;
use crate::text::translatable;
use crate::{headers, request as context, response};

/// A request waits so long for others to be answered; then its client is asked to come again, so
/// that slow pages do not hold all connections.
const TURN_WAIT_MAX: Duration = Duration::from_secs(20);

/// Answers a request of this route.
pub(crate) async fn answer(
    app: Arc<App>,
    route: &'static Route,
    operation: Option<&'static Operation>,
    client: IpAddr,
    request: Request,
) -> Response {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let client = app.state.proxies.client(client, request.headers());
    let answered = async {
        let https = app.state.options.https;
        let (visit, headers) = context::read(client, https, request).await?;
        // Monitoring is answered however long pages take.
        let turns = if route.is_monitoring() { &app.monitoring } else { &app.pages };
        let turn = tokio::time::timeout(TURN_WAIT_MAX, turns.acquire());
        let Ok(Ok(_turn)) = turn.await else { return Err(RequestError::Busy) };
        let app = app.clone();
        let made = tokio::task::spawn_blocking(move || {
            let visit = authorize(&app.state, route, operation, visit, &headers)?;
            if let Some(operation) = operation {
                operation.check(&visit)?;
            }
            (route.page)(&app, &visit)
        });
        made.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a page of the console failed");
            Err(RequestError::Bad(
                translatable("This page failed. The node's own log says why.").to_owned(),
            ))
        })
    };
    let response = match answered.await {
        Ok(response) => response,
        Err(error) => response::refuse(&path, &query, &error),
    };
    let mut response = response::localize(response, &app.state.texts);
    headers::secure(response.headers_mut());
    response
}
