//! What waits for delivery.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::done;
use crate::app::App;
use crate::error::RequestError;
use crate::node::{ArrayNode, QueueOrder};
use crate::pages::query_fields::number;
use crate::request::RequestContext;
use crate::response;

/// Messages listed by default.
const LISTED_DEFAULT: usize = 1_000;

/// `GET /api/v1/queue`.
pub(super) fn list(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let limit = number(request, "limit")?.unwrap_or(LISTED_DEFAULT);
    let others = crate::pages::queue::others(app);
    let others: Vec<Value> = others.iter().map(elsewhere).collect();
    done(&json!({ "messages": app.state.node.queue(limit), "elsewhere": others }))
}

fn elsewhere(node: &ArrayNode) -> Value {
    json!({
        "node": node.name,
        "queued": node.queued,
        "seen_ms": node.seen_ms,
        "messages": node.waiting,
    })
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
    let node = request.field("node");
    if !node.is_empty() && node != app.state.node.name() {
        let ordered = crate::pages::queue::act_elsewhere(app, request, node, order, &ids)?;
        if ordered.is_done && !ordered.is_good {
            return Err(RequestError::Bad(format!("{node}: {}", ordered.outcome)));
        }
        return Ok(response::json(StatusCode::ACCEPTED, &json!(ordered)));
    }
    let messages = crate::pages::queue::act(app, request, order, &ids)?;
    done(&json!({ "messages": messages }))
}
