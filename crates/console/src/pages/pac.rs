//! Proxy auto-configuration, for browsers of a site whose web requests pass this node.

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use gauntlet_web::pac::MEDIA_TYPE;

use crate::app::App;
use crate::error::RequestError;
use crate::request::RequestContext;
use crate::response;
use crate::text::translatable;

/// `GET /proxy.pac` and `/wpad.dat`: names the proxy, and nobody who uses it.
pub(crate) fn show(app: &App, _: &RequestContext) -> Result<Response, RequestError> {
    let none =
        || RequestError::NotFound(translatable("This node has no listener for web requests."));
    let script = app.state.pac.clone().ok_or_else(none)?;
    Ok(response::respond(StatusCode::OK, MEDIA_TYPE, Body::from(script.to_string())))
}
