//! What waits for delivery.

use axum::response::Response;
use serde_json::json;

use super::done;
use crate::app::App;
use crate::error::RequestError;
use crate::node::QueueOrder;
use crate::pages::messages::number;
use crate::request::RequestContext;

/// Messages listed by default.
const LISTED_DEFAULT: usize = 1_000;

/// `GET /api/v1/queue`.
pub(super) fn list(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let limit = number(request, "limit")?.unwrap_or(LISTED_DEFAULT);
    done(&json!({ "messages": app.state.node.queue(limit) }))
}

/// `POST /api/v1/queue/retry`.
pub(super) fn retry(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    act(app, request, QueueOrder::Retry)
}

/// `POST /api/v1/queue/hold`.
pub(super) fn hold(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    act(app, request, QueueOrder::Hold)
}

/// `POST /api/v1/queue/delete`.
pub(super) fn delete(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    act(app, request, QueueOrder::Delete)
}

fn act(app: &App, request: &RequestContext, order: QueueOrder) -> Result<Response, RequestError> {
    let ids: Vec<&str> = request.values("id").collect();
    let messages = crate::pages::queue::act(app, request, order, &ids)?;
    done(&json!({ "messages": messages }))
}
