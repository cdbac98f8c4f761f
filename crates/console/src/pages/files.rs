//! `/static/...`: our style, script and sign. They change with the program only.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::translatable;

/// `GET /static/{file}`.
pub(crate) fn show(_: &App, request: &RequestContext) -> Result<Response, RequestError> {
    let (kind, text) = match request.param("file") {
        "style.css" => ("text/css; charset=utf-8", include_str!("../static/style.css")),
        "script.js" => ("text/javascript; charset=utf-8", include_str!("../static/script.js")),
        "icon.svg" => ("image/svg+xml", include_str!("../static/icon.svg")),
        _ => return Err(RequestError::NotFound(translatable("There is no such file."))),
    };
    let mut response = response::respond(StatusCode::OK, kind, Body::from(text));
    let caching = HeaderValue::from_static("public, max-age=300");
    response.headers_mut().insert(header::CACHE_CONTROL, caching);
    Ok(response)
}
