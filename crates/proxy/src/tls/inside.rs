//! Requests within a decrypted tunnel: they are for the tunnel's server, and for no other.

use hyper::header::HOST;
use hyper::http::uri::{Authority, Scheme};
use hyper::{Method, Request, Uri};

use crate::refusal::Refusal;
use crate::request::host_and_port;

/// Where requests of a decrypted tunnel go: to the host that the tunnel is for, under the name that
/// was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// Host or address that is connected to.
    pub(crate) host: String,
    /// Its port.
    pub(crate) port: u16,
    /// The name in TLS.
    pub(crate) name: String,
}

/// What a request within a tunnel carries to the service.
#[derive(Debug, Clone)]
pub(crate) enum Inside {
    /// It goes there.
    Route(Route),
    /// It goes nowhere.
    Refused(Refusal),
}

/// A decrypted tunnel, as its requests see it.
#[derive(Debug)]
pub(crate) struct Tunneled {
    pub(crate) route: Route,
    /// Answer every request with this.
    pub(crate) refusal: Option<Refusal>,
}

impl Tunneled {
    /// Gives a request its absolute form (`https://host/path`), and says where it goes.
    pub(crate) fn mark<B>(&self, request: &mut Request<B>) {
        let inside = match (self.place(request), &self.refusal) {
            (_, Some(refusal)) => Inside::Refused(refusal.clone()),
            (Err(refusal), None) => Inside::Refused(refusal),
            (Ok(()), None) => Inside::Route(self.route.clone()),
        };
        request.extensions_mut().insert(inside);
    }

    fn place<B>(&self, request: &mut Request<B>) -> Result<(), Refusal> {
        let uri = request.uri();
        if request.method() == Method::CONNECT {
            return Err(Refusal::Method("CONNECT within a tunnel".to_owned()));
        }
        let authority = match uri.authority() {
            Some(authority) => authority.clone(),
            None => request
                .headers()
                .get(HOST)
                .and_then(|host| Authority::try_from(host.as_bytes()).ok())
                .ok_or(Refusal::Malformed("it has no Host"))?,
        };
        let scheme = uri.scheme().cloned();
        let mut parts = uri.clone().into_parts();
        if parts.path_and_query.as_ref().is_some_and(|path| path.as_str() == "*") {
            return Err(Refusal::Unsupported("OPTIONS * within a tunnel"));
        }
        parts.authority = Some(authority.clone());
        parts.scheme = Some(Scheme::HTTPS);
        let bad = |_| Refusal::Malformed("the address names no host");
        *request.uri_mut() = Uri::from_parts(parts).map_err(bad)?;
        let (host, port) = host_and_port("https", authority.as_str())?;
        let is_https = scheme.is_none_or(|scheme| scheme == Scheme::HTTPS);
        match is_https && host == self.route.name && port == self.route.port {
            true => Ok(()),
            false => Err(Refusal::Misdirected),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(uri: &str, host: Option<&str>) -> (String, Inside) {
        let route =
            Route { host: "192.0.2.1".to_owned(), port: 443, name: "www.example.com".to_owned() };
        let mut request = Request::get(uri);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        let mut request = request.body(()).unwrap();
        Tunneled { route, refusal: None }.mark(&mut request);
        let inside = request.extensions_mut().remove::<Inside>().unwrap();
        (request.uri().to_string(), inside)
    }

    #[test]
    fn a_request_gets_its_whole_address() {
        for (uri, host) in [
            ("/a?b", Some("www.example.com")),
            ("/a?b", Some("WWW.example.com:443")),
            ("https://www.example.com/a?b", None),
        ] {
            let (uri, inside) = marked(uri, host);
            assert!(uri.to_lowercase().starts_with("https://www.example.com"), "{uri}");
            assert!(uri.ends_with("/a?b"), "{uri}");
            assert!(matches!(inside, Inside::Route(route) if route.host == "192.0.2.1"));
        }
    }

    #[test]
    fn a_request_for_another_server_is_misdirected() {
        for (uri, host) in [
            ("/", Some("other.example")),
            ("/", Some("www.example.com:8443")),
            ("http://www.example.com/", Some("www.example.com")),
            ("https://other.example/", Some("www.example.com")),
        ] {
            let (_, inside) = marked(uri, host);
            assert!(matches!(&inside, Inside::Refused(Refusal::Misdirected)), "{uri} {inside:?}");
        }
        assert!(matches!(marked("/", None).1, Inside::Refused(Refusal::Malformed(_))));
        assert!(matches!(marked("*", Some("www.example.com")).1, Inside::Refused(_)));
    }
}
