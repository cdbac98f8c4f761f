//! Facts about a request before anything is decided.

use std::net::{IpAddr, SocketAddr};

use gauntlet_mail::CanonicalUrl;
use gauntlet_mail::url::canonical;
use gauntlet_web::RequestKind;
use hyper::header::{
    CONTENT_TYPE, HOST, HeaderName, HeaderValue, RANGE, REFERER, UPGRADE, USER_AGENT,
};
use hyper::{HeaderMap, Method, Request, Uri, Version};

use crate::refusal::Refusal;
use crate::settings::Settings;

/// A request as a judge sees it.
#[derive(Debug, Clone)]
pub struct WebRequest {
    /// The client's address.
    pub client: IpAddr,
    /// Who it is, if that is known.
    pub user: Option<String>,
    /// What it asks for.
    pub method: Method,
    /// By which version of HTTP.
    pub version: Version,
    /// What it is.
    pub kind: Kind,
    /// Where it goes, in the one form that lists know. Its host is the one that is connected to and
    /// named in `Host`: what is judged is what is asked. A tunnel's URL has the scheme `https` and
    /// no path.
    pub url: CanonicalUrl,
    /// The port, the scheme's own if none was written; that of `original` if there is one; 0 of a
    /// DNS query.
    pub port: u16,
    /// The server that the client connected to, if a router handed the connection over. The name
    /// in the URL is then what the client says.
    pub original: Option<SocketAddr>,
    /// Credentials for the next proxy, if the settings hand them on.
    pub credentials: Option<HeaderValue>,
    /// Fields that rules may ask for.
    pub fields: Fields,
}

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One request, one response.
    Plain,
    /// A tunnel (CONNECT), whose content is not seen.
    Connect,
    /// A request that turns the connection into another protocol, such as WebSocket.
    Upgrade,
    /// A query for a name (DNS): nothing is sent to the host.
    Lookup,
}

impl From<Kind> for RequestKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Plain => RequestKind::Plain,
            Kind::Connect => RequestKind::Tunnel,
            Kind::Upgrade => RequestKind::Upgrade,
            Kind::Lookup => RequestKind::Lookup,
        }
    }
}

/// Selected header fields: their lines joined by commas, and what is no UTF-8 replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    /// `User-Agent`.
    pub user_agent: Option<String>,
    /// `Referer`.
    pub referer: Option<String>,
    /// `Content-Type` of the request's body.
    pub content_type: Option<String>,
    /// `Upgrade`.
    pub upgrade: Option<String>,
    /// There is a `Range`.
    pub has_range: bool,
}

impl WebRequest {
    /// Reads a request that was sent to an explicit proxy (RFC 9112 sections 3.2.2 and 3.2.3), or
    /// to the server `original`.
    ///
    /// # Errors
    /// If it is too large, not for a proxy, or names no host that can be looked up.
    pub(crate) fn read<B>(
        client: IpAddr,
        original: Option<SocketAddr>,
        request: &Request<B>,
        settings: &Settings,
    ) -> Result<Self, Refusal> {
        let (uri, headers) = (request.uri(), request.headers());
        if uri_bytes(uri) > settings.limits.uri_bytes_max {
            return Err(Refusal::UriTooLong(settings.limits.uri_bytes_max));
        }
        if headers.len() > settings.limits.header_fields_max {
            return Err(Refusal::HeaderTooLarge);
        }
        let kind = kind(request, settings);
        let (url, port) = match (kind, original) {
            (Kind::Connect, _) => tunnel_target(uri)?,
            (_, None) => plain_target(uri)?,
            (_, Some(original)) => intercepted_target(uri, headers, original)?,
        };
        Ok(WebRequest {
            client,
            user: None,
            method: request.method().clone(),
            version: request.version(),
            kind,
            url,
            port,
            original,
            credentials: None,
            fields: Fields::read(headers),
        })
    }

    /// The same for another host, at the same port: a tunnel whose TLS names it.
    ///
    /// # Errors
    /// If it is no host.
    pub(crate) fn with_host(&self, host: &str) -> Result<Self, Refusal> {
        let url = url_of("https", &format!("{host}:{}", self.port), "")?;
        Ok(WebRequest { url, ..self.clone() })
    }

    /// Reads a request that another proxy got and asks about (ICAP): whatever scheme it knows, and
    /// a path alone with `Host`, as the examples of RFC 3507 have it.
    ///
    /// # Errors
    /// If it is too large, or names no host.
    pub(crate) fn asked_about<B>(
        client: IpAddr,
        user: Option<String>,
        request: &Request<B>,
        settings: &Settings,
    ) -> Result<Self, Refusal> {
        if uri_bytes(request.uri()) > settings.limits.uri_bytes_max {
            return Err(Refusal::UriTooLong(settings.limits.uri_bytes_max));
        }
        let kind = kind(request, settings);
        let (url, port) = match kind {
            Kind::Connect => tunnel_target(request.uri())?,
            _ => any_target(request)?,
        };
        Ok(WebRequest {
            client,
            user,
            method: request.method().clone(),
            version: request.version(),
            kind,
            url,
            port,
            original: None,
            credentials: None,
            fields: Fields::read(request.headers()),
        })
    }

    /// Reads a request that was seen on its way to `server`, a proxy or the server that it is for.
    ///
    /// # Errors
    /// If it is too large, or names no host.
    pub fn seen<B>(
        client: IpAddr,
        server: SocketAddr,
        request: &Request<B>,
        settings: &Settings,
    ) -> Result<Self, Refusal> {
        let is_for_proxy = request.uri().scheme().is_some() || request.method() == Method::CONNECT;
        match is_for_proxy {
            true => Self::asked_about(client, None, request, settings),
            false => Self::read(client, Some(server), request, settings),
        }
    }

    /// A connection to `server` by TLS, whose client names this host: a tunnel.
    ///
    /// # Errors
    /// If it is no host.
    pub fn named(client: IpAddr, server: SocketAddr, host: &str) -> Result<Self, Refusal> {
        let port = server.port();
        Ok(WebRequest {
            client,
            user: None,
            method: Method::CONNECT,
            version: Version::HTTP_11,
            kind: Kind::Connect,
            url: url_of("https", &format!("{host}:{port}"), "")?,
            port,
            original: Some(server),
            credentials: None,
            fields: Fields::default(),
        })
    }

    /// A query for a name (DNS).
    ///
    /// # Errors
    /// If it is no name of a host.
    pub fn lookup(client: IpAddr, name: &str) -> Result<Self, Refusal> {
        Ok(WebRequest {
            client,
            user: None,
            // It is a token (RFC 9110 section 5.6.2).
            method: Method::from_bytes(b"DNS").unwrap_or_default(),
            version: Version::HTTP_11,
            kind: Kind::Lookup,
            url: url_of("https", name, "")?,
            port: 0,
            original: None,
            credentials: None,
            fields: Fields::default(),
        })
    }

    /// The host without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        without_brackets(self.url.host())
    }

    /// The URL with the address that the client connected to instead of the name that it says; none
    /// if the address is not known, or is what it says.
    pub(crate) fn by_address(&self) -> Option<CanonicalUrl> {
        by_address(&self.url, self.original?)
    }

    /// Host and port as `Host` has them: the port only if it is not the scheme's own.
    pub fn authority(&self) -> String {
        match (self.kind, self.url.port()) {
            (Kind::Connect, _) => format!("{}:{}", self.url.host(), self.port),
            (_, Some(port)) => format!("{}:{port}", self.url.host()),
            (_, None) => self.url.host().to_owned(),
        }
    }
}

/// A URL with an address instead of its host; none if that is its host.
pub(crate) fn by_address(url: &CanonicalUrl, address: SocketAddr) -> Option<CanonicalUrl> {
    let authority = format!("{}:{}", bracketed(address.ip()), address.port());
    let by_address = url_of(url.scheme(), &authority, url.path_and_query()).ok()?;
    Some(by_address).filter(|by_address| by_address.host() != url.host())
}

impl Fields {
    fn read(headers: &HeaderMap) -> Self {
        // A field may have other bytes than ASCII (RFC 9110 section 5.5), and several lines.
        let text = |name: HeaderName| {
            let line = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
            let lines: Vec<String> = headers.get_all(name).iter().map(line).collect();
            Some(lines.join(", ")).filter(|_| !lines.is_empty())
        };
        Fields {
            user_agent: text(USER_AGENT),
            referer: text(REFERER),
            content_type: text(CONTENT_TYPE),
            upgrade: text(UPGRADE),
            has_range: headers.contains_key(RANGE),
        }
    }
}

/// What was asked for, for logs and pages: a URL may have a name and a password in it.
pub(crate) fn without_user(uri: &Uri) -> String {
    let text = uri.to_string();
    match uri.authority().and_then(|authority| authority.as_str().rsplit_once('@')) {
        Some((user, _)) => text.replacen(&format!("{user}@"), "", 1),
        None => text,
    }
}

fn uri_bytes(uri: &Uri) -> usize {
    let authority = uri.authority().map_or(0, |a| a.as_str().len() + "http://".len());
    authority + uri.path_and_query().map_or(0, |p| p.as_str().len())
}

fn kind<B>(request: &Request<B>, settings: &Settings) -> Kind {
    if request.method() == Method::CONNECT {
        return Kind::Connect;
    }
    let wanted = request.headers().get(UPGRADE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    // One protocol alone: of several, nobody would know which the server took.
    let is_allowed = settings.upgrades.iter().any(|u| u.eq_ignore_ascii_case(wanted.trim()));
    match is_allowed && request.version() == Version::HTTP_11 {
        true => Kind::Upgrade,
        false => Kind::Plain,
    }
}

fn tunnel_target(uri: &Uri) -> Result<(CanonicalUrl, u16), Refusal> {
    let authority = uri.authority().ok_or(Refusal::Malformed("a CONNECT names no host"))?;
    let url = url_of("https", authority.as_str(), "")?;
    match authority.port_u16() {
        None => Err(Refusal::Malformed("a CONNECT names no port")),
        Some(0) => Err(Refusal::Malformed("port 0 does not exist")),
        Some(port) => Ok((url, port)),
    }
}

fn plain_target(uri: &Uri) -> Result<(CanonicalUrl, u16), Refusal> {
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(Refusal::Malformed(
            "this is a proxy, and the request names no server (it is not in absolute form)",
        ));
    };
    let (scheme, default_port) = match scheme {
        s if s.eq_ignore_ascii_case("http") => ("http", 80),
        s if s.eq_ignore_ascii_case("https") => ("https", 443),
        _ => return Err(Refusal::Unsupported("this scheme; http, https and tunnels are")),
    };
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    let url = url_of(scheme, authority.as_str(), path)?;
    let port = url.port().unwrap_or(default_port);
    match port {
        0 => Err(Refusal::Malformed("port 0 does not exist")),
        port => Ok((url, port)),
    }
}

/// What a server is asked for (RFC 9112 section 3.3): the client names the host, the connection the
/// port.
fn intercepted_target(
    uri: &Uri,
    headers: &HeaderMap,
    original: SocketAddr,
) -> Result<(CanonicalUrl, u16), Refusal> {
    if uri.scheme_str().is_some_and(|scheme| !scheme.eq_ignore_ascii_case("http")) {
        return Err(Refusal::Unsupported("this scheme; http is"));
    }
    let said = match (uri.authority(), headers.get(HOST)) {
        (Some(authority), _) => Some(authority.clone()),
        (None, Some(host)) => {
            let authority = host.to_str().ok().and_then(|host| host.trim().parse().ok());
            Some(authority.ok_or(Refusal::Malformed("its Host names no host"))?)
        }
        // HTTP/1.0.
        (None, None) => None,
    };
    let host = match &said {
        Some(said) if said.as_str().contains('@') => {
            return Err(Refusal::Malformed("the address has a user name"));
        }
        Some(said) => said.host().to_owned(),
        None => bracketed(original.ip()),
    };
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    // `OPTIONS *` is about the server as a whole.
    let path = if path == "*" { "" } else { path };
    let url = url_of("http", &format!("{host}:{}", original.port()), path)?;
    Ok((url, original.port()))
}

/// An address as a URL has it.
pub(crate) fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    }
}

/// Host and port of an authority, in the form of [`WebRequest::host`].
///
/// # Errors
/// If it names no host that can be looked up.
pub(crate) fn host_and_port(scheme: &str, authority: &str) -> Result<(String, u16), Refusal> {
    let url = url_of(scheme, authority, "/")?;
    let port = url.port().unwrap_or(if scheme == "https" { 443 } else { 80 });
    Ok((without_brackets(url.host()).to_owned(), port))
}

fn without_brackets(host: &str) -> &str {
    host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host)
}

/// The URL of a request in absolute form, or of its path and `Host`.
fn any_target<B>(request: &Request<B>) -> Result<(CanonicalUrl, u16), Refusal> {
    let uri = request.uri();
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    let url = match (uri.scheme_str(), uri.authority()) {
        (Some(scheme), Some(authority)) => url_of(scheme, authority.as_str(), path)?,
        _ => {
            let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
            let host = host.filter(|host| !host.is_empty() && !host.contains(['/', '?', '#']));
            let host = host.ok_or(Refusal::Malformed("the address names no host"))?;
            url_of("http", host, if path == "*" { "/" } else { path })?
        }
    };
    let port = url.port().unwrap_or(match url.scheme() {
        "https" | "wss" => 443,
        "ftp" => 21,
        _ => 80,
    });
    Ok((url, port))
}

fn url_of(scheme: &str, authority: &str, path: &str) -> Result<CanonicalUrl, Refusal> {
    // RFC 9110 section 4.2.4; a password in a URL is for phishing.
    if authority.contains('@') {
        return Err(Refusal::Malformed("the address has a user name"));
    }
    check_port(authority)?;
    let url = canonical(&format!("{scheme}://{authority}{path}"));
    let url = url.ok_or(Refusal::Malformed("the address names no host"))?;
    // What stands in `Host` and is looked up: nothing that ends it for another program.
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b);
    let is_short = url.host().len() <= HOST_BYTES_MAX;
    if !url.host().bytes().all(is_plain) || !is_short || url.host().starts_with('.') {
        return Err(Refusal::Malformed("the address names no host"));
    }
    Ok(url)
}

/// A port is digits, none of them stands for the scheme's own (RFC 3986 section 3.2.3). What is
/// none must not be taken for that, which other programs do not.
fn check_port(authority: &str) -> Result<(), Refusal> {
    let behind = authority.rsplit_once(']').map_or(authority, |(_, behind)| behind);
    let Some((_, port)) = behind.rsplit_once(':').filter(|(_, port)| !port.is_empty()) else {
        return Ok(());
    };
    match port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok() {
        true => Ok(()),
        false => Err(Refusal::Malformed("the address has a port that does not exist")),
    }
}

/// A name of the DNS (RFC 1035 section 2.3.4).
const HOST_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, uri: &str) -> Result<WebRequest, Refusal> {
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        WebRequest::read([192, 0, 2, 7].into(), None, &request, &Settings::default())
    }

    #[test]
    fn one_form_for_every_way_to_write_a_host() {
        for uri in ["http://EXAMPLE.com/a", "http://example.com./a", "http://example.com:80/a"] {
            let request = read("GET", uri).unwrap();
            assert_eq!((request.url.as_str(), request.port), ("http://example.com/a", 80));
            assert_eq!(request.authority(), "example.com");
        }
        assert_eq!(read("GET", "http://2130706433/").unwrap().host(), "127.0.0.1");
        assert_eq!(read("GET", "http://[::1]:81/").unwrap().host(), "::1");
        assert_eq!(read("GET", "http://[::1]:81/").unwrap().authority(), "[::1]:81");
        // It connects to the IPv4 address, and is judged by that.
        for uri in ["http://[::ffff:192.0.2.1]:81/", "http://[::ffff:c000:201]:81/"] {
            let request = read("GET", uri).unwrap();
            assert_eq!((request.host(), request.authority()), ("192.0.2.1", "192.0.2.1:81".into()));
        }
        assert_eq!(read("CONNECT", "[::ffff:192.0.2.1]:443").unwrap().host(), "192.0.2.1");
    }

    #[test]
    fn a_port_that_does_not_exist_is_not_the_scheme_s_own() {
        let refused = |authority: &str| {
            let error = url_of("http", authority, "/").unwrap_err();
            assert_eq!((error.name(), error.status().as_u16()), ("malformed", 400), "{authority}");
        };
        for port in ["65616", "-80", "+80", "80a", "0x50", "99999999999999999999"] {
            refused(&format!("good.test:{port}"));
            refused(&format!("[2001:db8::1]:{port}"));
        }
        assert!(read("GET", "http://good.test:65616/").is_err());
        for authority in ["good.test:", "good.test:0080", "[2001:db8::1]", "[2001:db8::1]:80"] {
            assert_eq!(url_of("http", authority, "/").unwrap().port(), None, "{authority}");
        }
    }

    #[test]
    fn a_tunnel_names_host_and_port() {
        let request = read("CONNECT", "example.com:443").unwrap();
        assert_eq!((request.kind, request.port), (Kind::Connect, 443));
        assert_eq!(request.authority(), "example.com:443");
        for (authority, why) in [
            ("example.com", "a CONNECT names no port"),
            ("example.com:", "a CONNECT names no port"),
            ("example.com:0", "port 0 does not exist"),
            ("example.com:65536", "the address has a port that does not exist"),
            ("example.com:443x", "the address has a port that does not exist"),
        ] {
            assert_eq!(
                read("CONNECT", authority).unwrap_err(),
                Refusal::Malformed(why),
                "{authority}"
            );
        }
    }

    #[test]
    fn what_another_proxy_got_is_read_in_every_form() {
        let read = |uri: &str, host: &str| {
            let request = Request::builder().uri(uri).header("host", host).body(()).unwrap();
            let settings = Settings::default();
            WebRequest::asked_about([192, 0, 2, 7].into(), None, &request, &settings)
        };
        for (uri, host, url, port) in [
            ("http://x.example:81/a", "", "http://x.example:81/a", 81),
            ("https://X.example/a", "", "https://x.example/a", 443),
            ("ftp://x.example/a", "", "ftp://x.example/a", 21),
            ("/a?b", "x.example", "http://x.example/a?b", 80),
            ("http://x.example/", "y.example", "http://x.example/", 80),
        ] {
            let request = read(uri, host).unwrap();
            assert_eq!((request.url.as_str(), request.port), (url, port));
        }
        for host in ["", "a/b", "u@x", "a b"] {
            assert!(read("/a", host).is_err(), "{host}");
        }
    }

    #[test]
    fn what_is_not_for_a_proxy_is_refused() {
        for uri in ["/", "*", "ftp://example.com/", "http://u:p@x.example/"] {
            assert!(read("GET", uri).is_err(), "{uri}");
        }
        let long = format!("http://example.com/{}", "a".repeat(20_000));
        assert_eq!(read("GET", &long).unwrap_err().name(), "uri_too_long");
    }

    fn read_intercepted(uri: &str, host: Option<&str>) -> Result<WebRequest, Refusal> {
        let mut request = Request::builder().uri(uri).body(()).unwrap();
        host.map(|host| request.headers_mut().insert(HOST, host.parse().unwrap()));
        let original = "[2001:db8::1]:8080".parse().unwrap();
        WebRequest::read([192, 0, 2, 7].into(), Some(original), &request, &Settings::default())
    }

    #[test]
    fn what_a_server_is_asked_for_has_the_host_that_is_said_and_the_port_that_is_meant() {
        for (uri, host, url) in [
            ("/a?b", Some("Example.com"), "http://example.com:8080/a?b"),
            ("/", Some("example.com:80"), "http://example.com:8080/"),
            ("/", Some("[::1]:1"), "http://[::1]:8080/"),
            ("http://a.example/x", Some("b.example"), "http://a.example:8080/x"),
            ("*", Some("a.example"), "http://a.example:8080/"),
            ("/", None, "http://[2001:db8::1]:8080/"),
        ] {
            let request = read_intercepted(uri, host).unwrap();
            assert_eq!((request.url.as_str(), request.port), (url, 8080), "{uri} {host:?}");
        }
        let request = read_intercepted("/a?b", Some("example.com")).unwrap();
        let by_address = request.by_address().unwrap();
        assert_eq!(by_address.as_str(), "http://[2001:db8::1]:8080/a?b");
        assert_eq!(read_intercepted("/", None).unwrap().by_address(), None);
        assert_eq!(read("GET", "http://example.com/").unwrap().by_address(), None);
        for (uri, host) in [
            ("https://a.example/", Some("a.example")),
            ("/", Some("")),
            ("/", Some("a@b.example")),
            ("/", Some("a.example/b")),
            ("/", Some("a.example, b.example")),
        ] {
            assert!(read_intercepted(uri, host).is_err(), "{uri} {host:?}");
        }
    }
}
