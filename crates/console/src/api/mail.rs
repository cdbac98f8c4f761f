//! The node, the message log and the quarantine.

use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_mail::Message;
use gauntlet_store::quarantine::{Deletion, State};
use gauntlet_store::users::{Role, Scope};
use serde_json::json;

use super::done;
use crate::app::App;
use crate::error::RequestError;
use crate::node::{HeldOrder, Released};
use crate::pages::elsewhere::{self, Deleted};
use crate::pages::held::html_part;
use crate::pages::quarantine as held_mail;
use crate::pages::query_fields::{self, number};
use crate::preview::document;
use crate::request::RequestContext;
use crate::response;
use crate::text::translatable;

/// Hours counted when the request does not say.
const HOURS_DEFAULT: i64 = 24;
/// Hours that a count may go back, at most: 100 days.
const HOURS_MAX: i64 = 24 * 100;

/// `GET /api/v1/status`.
pub(crate) fn status(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    let status = app.state.node.status();
    let value = json!({
        "name": status.name,
        "version": status.version,
        "ruleset": status.ruleset,
        "started_ms": status.started_ms,
        "ready": status.problems.is_empty(),
        "problems": status.problems,
        "questions": status.questions,
        "warnings": status.warnings,
        "queued": status.queued,
        "queue_age_ms": status.queue_age_ms,
        "sessions": status.sessions,
        "metrics": numbers(&app.state.node.metrics()),
    });
    done(&value)
}

/// The numbers of Prometheus' text format, by name (and labels).
fn numbers(metrics: &str) -> serde_json::Map<String, serde_json::Value> {
    let lines = metrics.lines().filter(|l| !l.starts_with('#'));
    let pairs = lines.filter_map(|l| l.rsplit_once(' '));
    pairs.filter_map(|(name, n)| Some((name.to_owned(), json!(n.parse::<f64>().ok()?)))).collect()
}

/// `GET /api/v1/messages`: fields as in the filter of the page, and `after`, `limit`.
pub(crate) fn messages(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let page = app.state.messages.search(&query_fields::query(request)?)?;
    done(&page)
}

/// `GET /api/v1/messages/{id}`.
pub(crate) fn message(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let unknown = RequestError::NotFound(translatable(
        "There is no such message in the log, or it is forgotten.",
    ));
    let logged = app.state.messages.get(request.param("id"))?.ok_or(unknown)?;
    let mut value = json!({ "record": logged.record, "events": logged.events });
    if !logged.node.is_empty() {
        value["node"] = logged.node.into();
    }
    done(&value)
}

/// `GET /api/v1/counts`: the last `hours`, in spans of `span_minutes`.
pub(crate) fn counts(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let hours = number(request, "hours")?.unwrap_or(HOURS_DEFAULT).clamp(1, HOURS_MAX);
    let span: u32 = number(request, "span_minutes")?.unwrap_or(60);
    let counts = app.state.messages.counts(
        request.now_ms - hours * 3_600_000,
        request.now_ms + 60_000,
        span,
    )?;
    done(&counts)
}

/// `GET /api/v1/quarantine`: fields as in the filter of the page, and `after`, `limit`.
pub(crate) fn quarantine(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let page = held_mail::search(app, request, &held_mail::query(request)?)?;
    done(&page)
}

/// `GET /api/v1/quarantine/{id}`.
pub(crate) fn held(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let seen = held_mail::find(app, request, request.param("id"))?;
    let mut value = json!(seen.held);
    value["released_by"] = json!(app.state.quarantine.released_by(&seen.held.item));
    let orders = elsewhere::orders_of(app, request, &seen.held);
    if !orders.is_empty() {
        value["orders"] = json!(orders);
    }
    done(&value)
}

/// Longest text of a preview, in characters.
const PREVIEW_CHARS_MAX: usize = 100_000;

/// `GET /api/v1/quarantine/{id}/preview`.
pub(crate) fn preview(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let held = held_mail::find(app, request, request.param("id"))?.held;
    let gone = RequestError::NotFound(translatable("Its text is not kept any more."));
    let raw = app.state.held.body(&held.reference())?.ok_or(gone)?;
    let message = Message::parse(&raw);
    let plain =
        message.parts().iter().find(|p| !p.is_container && p.content_type.is("text", "plain"));
    let text: String =
        plain.and_then(|p| p.text()).unwrap_or_default().chars().take(PREVIEW_CHARS_MAX).collect();
    done(&json!({
        "subject": held.item.subject,
        "from": held.item.from,
        "text": text,
        "html": html_part(&message).map(document),
    }))
}

/// `POST /api/v1/quarantine/{id}/release`: `to` (may repeat) sends it to others instead,
/// `learn=yes` trains the classifier. 409 if it was released or deleted before; 403 if a user asks
/// for what only an administrator may release. 202 with the order if another node holds the message
/// and has not answered yet: `orders` of the message says what came of it.
pub(crate) fn release(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let seen = held_mail::find(app, request, request.param("id"))?;
    held_mail::may_release(&seen)?;
    held_mail::check_addresses(request)?;
    if request.values("to").next().is_some() {
        // Who sends a message elsewhere can read it there.
        request.require_scope(Scope::QuarantineRead)?;
    }
    match held_mail::release_one(app, request, &seen.held) {
        Ok(Released::Done(to)) => done(&json!({ "released_to": to })),
        Ok(Released::Ordered(order)) => Ok(response::json(StatusCode::ACCEPTED, &json!(order))),
        Ok(Released::NotHeld(state)) => Ok(not_held(state)),
        Ok(Released::NotAllowed) => Err(held_mail::ADMIN_ONLY),
        Ok(Released::Unknown) => Err(RequestError::NotFound(translatable(
            "There is no such message in the quarantine, or it is forgotten.",
        ))),
        Err(why) => {
            // What failed inside is for those who run the node.
            let shown = match request.role() {
                Role::User => "It could not be released.".to_owned(),
                _ => why.to_string(),
            };
            // What another node, or the array, answers is no failure of this one.
            let status = match elsewhere::is_elsewhere(app, &seen.held) {
                true => StatusCode::CONFLICT,
                false => StatusCode::INTERNAL_SERVER_ERROR,
            };
            Ok(response::json(status, &json!({ "error": shown })))
        }
    }
}

/// `POST /api/v1/quarantine/{id}/delete`: `learn=yes` trains the classifier with it as spam. 409 if
/// it was released or deleted before; 202 as for a release.
pub(crate) fn delete(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let seen = held_mail::find(app, request, request.param("id"))?;
    held_mail::may_delete(&seen)?;
    match held_mail::delete_one(app, request, &seen.held)? {
        Deleted::Here(Deletion::Done) => done(&json!({ "deleted": true })),
        Deleted::Elsewhere(HeldOrder { was: Some(state), .. }) => Ok(not_held(state)),
        Deleted::Elsewhere(order) if order.done_ms.is_some() => done(&json!({ "deleted": true })),
        Deleted::Elsewhere(order) => Ok(response::json(StatusCode::ACCEPTED, &json!(order))),
        Deleted::Here(Deletion::NotHeld(state)) => Ok(not_held(state)),
        Deleted::Here(Deletion::Unknown) => {
            Err(RequestError::NotFound(translatable("There is no such message any more.")))
        }
    }
}

fn not_held(state: State) -> Response {
    let error = format!("It is not held any more: it is {}.", state.name());
    response::json(StatusCode::CONFLICT, &json!({ "error": error, "state": state }))
}
