//! `/static/...`: our style, script and sign. They change with the program only.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use crate::fault::Fault;
use crate::server::App;
use crate::text::noted;
use crate::visit::{self, Visit};

/// `GET /static/{file}`.
pub(crate) fn show(_: &App, visit: &Visit) -> Result<Response, Fault> {
    let (kind, text) = match visit.param("file") {
        "style.css" => ("text/css; charset=utf-8", include_str!("../static/style.css")),
        "script.js" => ("text/javascript; charset=utf-8", include_str!("../static/script.js")),
        "icon.svg" => ("image/svg+xml", include_str!("../static/icon.svg")),
        _ => return Err(Fault::NotFound(noted("There is no such file."))),
    };
    let mut response = visit::respond(StatusCode::OK, kind, Body::from(text));
    let caching = HeaderValue::from_static("public, max-age=300");
    response.headers_mut().insert(header::CACHE_CONTROL, caching);
    Ok(response)
}
