//! One version of the policy, and going back to it.

use axum::http::StatusCode;
use axum::response::Response;
use maud::html;

use super::policy;
use super::query_fields::number;
use crate::app::App;
use crate::error::RequestError;
use crate::format;
use crate::node::PolicyOrder;
use crate::request::RequestContext;
use crate::response;
use crate::text::{t, translatable};

const UNKNOWN: RequestError =
    RequestError::NotFound(translatable("There is no such version of the policy."));

/// `GET /policy/versions/{number}`.
pub(crate) fn show(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let number: i64 = request.param("number").parse().map_err(|_| UNKNOWN)?;
    let edition = app.state.policies.get(number)?.ok_or(UNKNOWN)?;
    let before = app.state.policies.before(number)?;
    let newest = app.state.policies.newest()?.is_some_and(|n| n.version.number == number);
    let version = &edition.version;
    let body = html! {
        p.crumbs { a href="/policy" { (t("Policy")) } }
        h1 { (t("Version {}").with(number)) }
        p.lead { (t("By {}, {}").with(format::plain(&version.who)).with(format::time(version.at_ms)))
            @if !version.note.is_empty() { ": " (format::plain(&version.note)) } "." }
        @if newest { p { b { (t("It is in force.")) } } }
        @else { (policy::roll_back(request, number, translatable("Go back to it"))) }
        @match &before {
            Some(before) => (policy::difference(&before.text, &edition.text)),
            None => p.hint { (t("It is the first.")) },
        }
        section.card { h2 { (t("Text")) } pre.source.text tabindex="0" { (edition.text) } }
    };
    Ok(policy::page(request, StatusCode::OK, &body))
}

/// `POST /policy/rollback`: makes a new version of an old one's text.
pub(crate) fn roll_back(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let Some(number) = number::<i64>(request, "number")? else {
        return Ok(response::redirect("/policy?notice=none-0"));
    };
    let edition = app.state.policies.get(number)?.ok_or(UNKNOWN)?;
    let note = format!("back to version {number}");
    let order = PolicyOrder { text: &edition.text, base: None, who: request.login(), note: &note };
    let version = policy::put(app, request, &order)?;
    Ok(response::redirect(&format!("/policy?notice=policy-{}", version.number)))
}
