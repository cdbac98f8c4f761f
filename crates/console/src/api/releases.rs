//! What people ask to have released of the web, and what was.

use axum::response::Response;
use gauntlet_store::web_releases::RequestState;
use serde_json::json;

use super::done;
use crate::app::App;
use crate::error::RequestError;
use crate::pages::query_fields::number;
use crate::pages::releases::{self, store};
use crate::request::RequestContext;
use crate::text::translatable;

/// Requests or exceptions listed by default.
const LISTED_DEFAULT: usize = 50;
const UNKNOWN: RequestError =
    RequestError::NotFound(translatable("There is no such request or exception."));

fn limit(request: &RequestContext) -> Result<usize, RequestError> {
    Ok(number(request, "limit")?.filter(|n| *n > 0).unwrap_or(LISTED_DEFAULT))
}

fn of_path(request: &RequestContext) -> Result<i64, RequestError> {
    request.param("number").parse().map_err(|_| UNKNOWN)
}

/// `GET /api/v1/web/release-requests`.
pub(super) fn list(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let state = match request.field("state") {
        "any" => None,
        "" => Some(RequestState::Open),
        name => RequestState::of_name(name),
    };
    let found = store(app)?.requests(state, number(request, "before")?, limit(request)?)?;
    done(&json!({ "requests": found }))
}

/// `POST /api/v1/web/release-requests/{number}/approve`.
pub(super) fn approve(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let made = releases::approve(app, request, Some(of_path(request)?))?;
    done(&json!({ "exception": made }))
}

/// `POST /api/v1/web/release-requests/{number}/decline`.
pub(super) fn decline(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    releases::decline(app, request, of_path(request)?)?;
    done(&json!({ "declined": true }))
}

/// `GET /api/v1/web/exceptions`.
pub(super) fn exceptions(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let at = (request.field("state") != "any").then_some(request.now_ms);
    let found = store(app)?.list(at, number(request, "before")?, limit(request)?)?;
    done(&json!({ "exceptions": found }))
}

/// `POST /api/v1/web/exceptions`.
pub(super) fn add(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    done(&json!({ "exception": releases::approve(app, request, None)? }))
}

/// `DELETE /api/v1/web/exceptions/{number}`.
pub(super) fn revoke(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    match releases::revoke(app, request, of_path(request)?)? {
        true => done(&json!({ "removed": true })),
        false => Err(UNKNOWN),
    }
}
