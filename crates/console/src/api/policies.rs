//! The policy: read, checked, tried, changed and changed back.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_policy::{Finding, Policy, PolicyError, diff};
use gauntlet_store::users::Scope;
use serde_json::{Value, json};

use super::done;
use crate::app::App;
use crate::error::RequestError;
use crate::node::PolicyOrder;
use crate::pages::policy::{self, DAYS_DEFAULT};
use crate::pages::query_fields::number;
use crate::replays::{Job, Trial};
use crate::request::RequestContext;
use crate::response;
use crate::text::translatable;

const UNKNOWN: RequestError =
    RequestError::NotFound(translatable("There is no such version of the policy."));
/// Versions listed by default.
const VERSIONS_DEFAULT: usize = 50;

/// `GET /api/v1/policy`.
pub(super) fn show(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    done(&policy::in_force(app)?)
}

/// `PUT /api/v1/policy`.
pub(super) fn put(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let text = request.lines("text");
    if let Err(error) = Policy::parse(&text, &app.state.node.groups()) {
        return Err(RequestError::Bad(error.to_string()));
    }
    let base = number(request, "base")?;
    let newest = policy::in_force(app)?.version;
    if base.is_some_and(|base: i64| base != newest.number) {
        let error = format!(
            "the policy was changed meanwhile: version {} by {}",
            newest.number, newest.who
        );
        let value = json!({ "error": error, "newest": newest });
        return Ok(response::json(StatusCode::CONFLICT, &value));
    }
    let order =
        PolicyOrder { text: &text, base, who: request.login(), note: request.field("note") };
    done(&policy::put(app, request, &order)?)
}

/// `POST /api/v1/policy/check`.
pub(super) fn check(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let text = request.lines("text");
    let finding = |f: &Finding| json!({ "line": f.line, "rule": f.rule, "message": f.message });
    let wrong = |line: usize, rule: &str, message: &str| {
        done(&json!({ "valid": false, "rules": 0, "diff": "",
            "findings": [{ "line": line, "rule": rule, "message": message }] }))
    };
    match Policy::parse(&text, &app.state.node.groups()) {
        Err(PolicyError::Syntax { line, message }) => wrong(line, "", &message),
        Err(PolicyError::Meaning(f)) => wrong(f.line, &f.rule, &f.message),
        Ok(read) => {
            let old = policy::in_force(app)?.text;
            let findings: Vec<Value> = read.warnings.iter().map(finding).collect();
            done(&json!({ "valid": true, "rules": read.rules.len(), "findings": findings,
                "diff": diff::text(&old, &text) }))
        }
    }
}

/// `GET /api/v1/policy/versions`.
pub(super) fn history(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let limit = number(request, "limit")?.filter(|n| *n > 0).unwrap_or(VERSIONS_DEFAULT);
    let versions = app.state.policies.list(number(request, "before")?, limit)?;
    done(&json!({ "versions": versions }))
}

/// `GET /api/v1/policy/versions/{number}`.
pub(super) fn version(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let number: i64 = request.param("number").parse().map_err(|_| UNKNOWN)?;
    let edition = app.state.policies.get(number)?.ok_or(UNKNOWN)?;
    let before = app.state.policies.before(number)?.map(|e| e.text).unwrap_or_default();
    let mut value = json!(edition);
    value["diff"] = json!(diff::text(&before, &edition.text));
    done(&value)
}

/// `POST /api/v1/policy/rollback`.
pub(super) fn roll_back(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let newest = policy::in_force(app)?.version.number;
    let found = match number(request, "number")? {
        Some(number) => app.state.policies.get(number)?,
        None => app.state.policies.before(newest)?,
    };
    let edition = found.ok_or(UNKNOWN)?;
    let note = format!("back to version {}", edition.version.number);
    let order = PolicyOrder { text: &edition.text, base: None, who: request.login(), note: &note };
    done(&policy::put(app, request, &order)?)
}

/// `POST /api/v1/policy/replay`.
pub(super) fn replay(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    request.require_scope(Scope::PolicyRead)?;
    let base = policy::in_force(app)?.version.number;
    let days = number(request, "days")?.unwrap_or(DAYS_DEFAULT);
    let trial = Trial { text: request.lines("text"), base, days, who: request.login().to_owned() };
    match app.replays.begin(&app.state, trial, request.now_ms)? {
        Some(job) => done(&replay_json(&job)),
        None => {
            let error = json!({ "error": "Another replay is under way." });
            Ok(response::json(StatusCode::CONFLICT, &error))
        }
    }
}

/// `GET /api/v1/policy/replay`.
pub(super) fn replayed(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    request.require_scope(Scope::PolicyRead)?;
    let none = RequestError::NotFound(translatable("No policy was tried since the node started."));
    let job = app.replays.current().ok_or(none)?;
    done(&replay_json(&job))
}

fn replay_json(job: &Job) -> Value {
    let outcome = job.outcome();
    let mut value = json!({ "number": job.number, "done": outcome.is_some(),
        "messages": job.messages(), "requests": job.requests(), "percent": job.percent(), "days": job.trial.days });
    match outcome {
        Some(Ok(report)) => value["report"] = json!(*report),
        Some(Err(why)) => value["failed"] = json!(why.to_string()),
        None => {}
    }
    value
}
