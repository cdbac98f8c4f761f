//! For machines: `/metrics` and `/healthz`. Neither names users or messages.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;

use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;

/// `GET /metrics`: Prometheus' text format, version 0.0.4.
pub(crate) fn show(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    let mut text = app.state.node.metrics();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str("# HELP gauntlet_quarantine_items Messages held, by folder.\n");
    text.push_str("# TYPE gauntlet_quarantine_items gauge\n");
    let folders = app.state.quarantine.folders()?;
    for folder in &folders {
        let (name, items) = (label(&folder.name), folder.items);
        text.push_str(&format!("gauntlet_quarantine_items{{folder=\"{name}\"}} {items}\n"));
    }
    text.push_str("# HELP gauntlet_quarantine_bytes Bytes of messages held, by folder.\n");
    text.push_str("# TYPE gauntlet_quarantine_bytes gauge\n");
    for folder in &folders {
        let (name, bytes) = (label(&folder.name), folder.bytes);
        text.push_str(&format!("gauntlet_quarantine_bytes{{folder=\"{name}\"}} {bytes}\n"));
    }
    text.push_str(
        "# HELP gauntlet_sign_in_attempts_refused_total Passwords (console, API, SMTP AUTH) and codes of a \
         second factor that were not looked at: too many were wrong before.\n",
    );
    text.push_str("# TYPE gauntlet_sign_in_attempts_refused_total counter\n");
    let (passwords, codes) = app.state.users.attempts().refused();
    for (of, count) in [("password", passwords), ("code", codes)] {
        let name = "gauntlet_sign_in_attempts_refused_total";
        text.push_str(&format!("{name}{{of=\"{of}\"}} {count}\n"));
    }
    Ok(response::respond(StatusCode::OK, "text/plain; version=0.0.4", Body::from(text)))
}

/// A label's value, escaped.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// `GET /healthz`: 200 when the node takes mail (with what an administrator should decide), else
/// 503 and why.
pub(crate) fn health(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
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
