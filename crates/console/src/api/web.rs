//! The web log.

use axum::response::Response;

use super::done;
use crate::app::App;
use crate::error::RequestError;
use crate::pages::query_fields::number;
use crate::pages::web;
use crate::request::RequestContext;

const HOUR_MS: i64 = 3_600_000;
/// Hours counted when the request does not say.
const HOURS_DEFAULT: i64 = 24;

/// `GET /api/v1/web/requests`: fields as in the filter of the page, and `after`, `limit`.
pub(super) fn requests(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    done(&web::log(app)?.search(&web::query(request)?)?)
}

/// `GET /api/v1/web/summary`: of the last `hours`.
pub(super) fn summary(app: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let hours: i64 = number(request, "hours")?.unwrap_or(HOURS_DEFAULT);
    let now = request.now_ms;
    done(&web::log(app)?.summary(now - hours * HOUR_MS, now)?)
}
