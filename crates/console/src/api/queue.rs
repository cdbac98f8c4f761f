//! What waits for delivery.

use axum::response::Response;
use serde_json::json;

use super::done;
use crate::fault::Fault;
use crate::node::QueueOrder;
use crate::pages::messages::number;
use crate::server::App;
use crate::visit::Visit;

/// Messages listed when nobody says how many.
const LISTED_DEFAULT: usize = 1_000;

/// `GET /api/v1/queue`.
pub(super) fn list(app: &App, visit: &Visit) -> Result<Response, Fault> {
    let limit = number(visit, "limit")?.unwrap_or(LISTED_DEFAULT);
    done(&json!({ "messages": app.state.node.queue(limit) }))
}

/// `POST /api/v1/queue/retry`.
pub(super) fn retry(app: &App, visit: &Visit) -> Result<Response, Fault> {
    act(app, visit, QueueOrder::Retry)
}

/// `POST /api/v1/queue/hold`.
pub(super) fn hold(app: &App, visit: &Visit) -> Result<Response, Fault> {
    act(app, visit, QueueOrder::Hold)
}

/// `POST /api/v1/queue/delete`.
pub(super) fn delete(app: &App, visit: &Visit) -> Result<Response, Fault> {
    act(app, visit, QueueOrder::Delete)
}

fn act(app: &App, visit: &Visit, order: QueueOrder) -> Result<Response, Fault> {
    let ids: Vec<&str> = visit.all("id").collect();
    let messages = crate::pages::queue::act(app, visit, order, &ids)?;
    done(&json!({ "messages": messages }))
}
