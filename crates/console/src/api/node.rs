//! Checks of what the node depends on, its rules and reports.

use axum::response::Response;
use serde_json::json;

use super::done;
use crate::app::App;
use crate::error::RequestError;
use crate::pages::{reports, rules as rules_page};
use crate::request::RequestContext;

/// `GET /api/v1/health`.
pub(super) fn health(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    let findings = app.state.node.health();
    let ok = findings.iter().all(|f| f.status != "error");
    done(&json!({ "ok": ok, "findings": findings }))
}

/// `GET /api/v1/settings`.
pub(super) fn settings(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    done(&json!({ "settings": app.state.node.settings() }))
}

/// `GET /api/v1/learning`.
pub(super) fn learning(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    done(&json!({ "calibration": app.state.node.calibration().unwrap_or_default() }))
}

/// `GET /api/v1/disks`.
pub(super) fn disks(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    done(&json!({ "disks": app.state.node.disks() }))
}

/// `GET /api/v1/routes`.
pub(super) fn routes(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    done(&json!({ "routes": app.state.node.mail_routes() }))
}

/// `GET /api/v1/rules`.
pub(super) fn rules(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let rules = rules_page::usage(app, rules_page::days(request)?, request.now_ms)?;
    let measured_ms = app.measured().map(|m| m.at_ms);
    done(&json!({ "rules": rules, "measured_ms": measured_ms }))
}

/// `POST /api/v1/rules/measure`.
pub(super) fn measure(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let measured = rules_page::measure(app, request.now_ms)?;
    done(&json!({ "messages": measured.messages, "measured_ms": measured.at_ms }))
}

/// `GET /api/v1/report`.
pub(super) fn report(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    done(&reports::asked(app, request)?)
}

/// `GET /api/v1/nodes`.
pub(super) fn nodes(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    done(&json!({ "array": app.state.node.array() }))
}
