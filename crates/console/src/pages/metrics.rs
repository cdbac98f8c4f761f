//! For machines: `/metrics`, `/health/ready` and `/health/live`. None names users or messages.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;

use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;

/// `GET /metrics`: the numbers that the node gives, in Prometheus' text format, version 0.0.4.
pub(crate) fn show(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    let text = app.state.node.metrics();
    Ok(response::respond(StatusCode::OK, "text/plain; version=0.0.4", Body::from(text)))
}

/// `GET /health/live`: 200 as long as the process answers, whether it takes mail or not: a
/// supervisor that restarted a node for its full disk, or while it drains, would help nobody.
pub(crate) fn live(_: &App, _: &RequestContext) -> Result<Response, RequestError> {
    Ok(response::respond(StatusCode::OK, "text/plain; charset=utf-8", Body::from("ok\n")))
}

/// `GET /health/ready` and, as older set-ups ask, `/healthz`: 200 when the node takes mail (with
/// what an administrator should decide), else 503 and why. An array whose database is away is no
/// reason: all its nodes would be taken out at once, while each of them takes mail.
pub(crate) fn ready(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    let status = app.state.node.status();
    let (problems, questions) = (status.problems, status.questions);
    let (status, text) = if problems.is_empty() {
        // Still healthy: a load balancer that took every node out whose clock was set would stop
        // all mail.
        let questions: String = questions.iter().map(|q| format!("{q}\n")).collect();
        (StatusCode::OK, format!("ok\n{questions}"))
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, problems.join("\n") + "\n")
    };
    Ok(response::respond(status, "text/plain; charset=utf-8", Body::from(text)))
}
