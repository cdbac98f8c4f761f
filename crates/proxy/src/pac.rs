//! The file of the proxy auto-configuration, for browsers that ask the proxy's own port: in origin
//! form, which no request to a proxy has.

use std::net::SocketAddr;

use gauntlet_web::pac::{MEDIA_TYPE, PATHS, Pac, Speaks, script};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response};

use crate::body::{AnyBody, full};

/// The answer to a request for the script; none if it is for something else, or names no host and
/// the settings name none. `local` is the address that the client connected to.
pub(crate) fn answer<B>(
    request: &Request<B>,
    pac: &Pac,
    speaks: Speaks,
    local: Option<SocketAddr>,
) -> Option<Response<AnyBody>> {
    let (uri, method) = (request.uri(), request.method());
    let is_origin_form = uri.authority().is_none();
    let is_read = *method == Method::GET || *method == Method::HEAD;
    if !is_origin_form || !is_read || !PATHS.contains(&uri.path()) {
        return None;
    }
    let host = request.headers().get(HOST);
    let host = host.map_or(Some(""), |host| host.to_str().ok()).unwrap_or("?");
    let script = script(pac, host, speaks).or_else(|| {
        let local = local?;
        // Without a port it was asked for at port 80, which a router or a web server leads here.
        let proxy = match host {
            "" => local.to_string(),
            host => format!("{host}:{}", local.port()),
        };
        script(pac, &proxy, speaks)
    })?;
    let mut response = Response::new(full(script));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    // A change of the settings reaches browsers within the hour.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=3600"));
    Some(response)
}
