//! Requests within a tunnel, decrypted or without TLS: they are for the tunnel's server, and for no
//! other.

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
    /// It came without TLS, and goes to its host as any other.
    Plain,
    /// It goes nowhere.
    Refused(Refusal),
}

/// A tunnel with requests in it, as they see it.
#[derive(Debug)]
pub(crate) struct Tunneled {
    /// That of the requests.
    pub(crate) scheme: Scheme,
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
            (Ok(()), None) if self.scheme == Scheme::HTTP => Inside::Plain,
            (Ok(()), None) => Inside::Route(self.route.clone()),
        };
        request.extensions_mut().insert(inside);
    }

    fn place<B>(&self, request: &mut Request<B>) -> Result<(), Refusal> {
        let uri = request.uri();
        if request.method() == Method::CONNECT {
            return Err(Refusal::Method("CONNECT within a tunnel".to_owned()));
        }
        let host = request.headers().get(HOST);
        let authority = match (uri.authority(), host) {
            (Some(authority), _) => authority.clone(),
            (None, Some(host)) => Authority::try_from(host.as_bytes()).map_err(bad)?,
            // HTTP/1.0.
            (None, None) if self.scheme == Scheme::HTTP => self.authority()?,
            (None, None) => return Err(Refusal::Malformed("it has no Host")),
        };
        let scheme = uri.scheme().cloned();
        let mut parts = uri.clone().into_parts();
        if parts.path_and_query.as_ref().is_some_and(|path| path.as_str() == "*") {
            return Err(Refusal::Unsupported("OPTIONS * within a tunnel"));
        }
        let (host, port) = host_and_port(self.scheme.as_str(), authority.as_str())?;
        // CONNECT has said the port, which not every client says again.
        let is_port_left_out = self.scheme == Scheme::HTTP && authority.port().is_none();
        let is_ours = scheme.is_none_or(|scheme| scheme == self.scheme)
            && host == self.route.name
            && (port == self.route.port || is_port_left_out);
        parts.authority = Some(if is_port_left_out { self.authority()? } else { authority });
        parts.scheme = Some(self.scheme.clone());
        *request.uri_mut() = Uri::from_parts(parts).map_err(bad)?;
        match is_ours {
            true => Ok(()),
            false => Err(Refusal::Misdirected),
        }
    }

    /// Name and port of the server.
    fn authority(&self) -> Result<Authority, Refusal> {
        let Route { name, port, .. } = &self.route;
        let authority = match name.contains(':') {
            true => format!("[{name}]:{port}"),
            false => format!("{name}:{port}"),
        };
        authority.parse().map_err(bad)
    }
}

fn bad<E>(_: E) -> Refusal {
    Refusal::Malformed("the address names no host")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked_as(scheme: Scheme, uri: &str, host: Option<&str>) -> (String, Inside) {
        let route =
            Route { host: "192.0.2.1".to_owned(), port: 443, name: "www.example.com".to_owned() };
        let mut request = Request::get(uri);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        let mut request = request.body(()).unwrap();
        Tunneled { scheme, route, refusal: None }.mark(&mut request);
        let inside = request.extensions_mut().remove::<Inside>().unwrap();
        (request.uri().to_string(), inside)
    }

    fn marked(uri: &str, host: Option<&str>) -> (String, Inside) {
        marked_as(Scheme::HTTPS, uri, host)
    }

    #[test]
    fn a_request_without_tls_is_for_the_tunnel_s_server_too() {
        let marked = |uri, host| marked_as(Scheme::HTTP, uri, host);
        for (uri, host) in [
            ("/a?b", None),
            ("/a?b", Some("www.example.com")),
            ("/a?b", Some("WWW.example.com:443")),
            ("http://www.example.com:443/a?b", None),
        ] {
            let (uri, inside) = marked(uri, host);
            assert_eq!(uri.to_lowercase(), "http://www.example.com:443/a?b");
            assert!(matches!(inside, Inside::Plain), "{uri} {inside:?}");
        }
        for (uri, host) in [
            ("/", Some("other.example")),
            ("/", Some("www.example.com:80")),
            ("https://www.example.com/", None),
            ("http://other.example:443/", Some("www.example.com")),
            ("/", Some("a b")),
            ("*", Some("www.example.com")),
        ] {
            let (_, inside) = marked(uri, host);
            assert!(matches!(&inside, Inside::Refused(_)), "{uri} {inside:?}");
        }
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
