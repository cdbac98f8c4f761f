//! Facts about a request before anything is decided.

use std::net::IpAddr;

use gauntlet_mail::CanonicalUrl;
use gauntlet_mail::url::canonical;
use hyper::header::{CONTENT_TYPE, HeaderName, REFERER, UPGRADE, USER_AGENT};
use hyper::{HeaderMap, Method, Request, Uri, Version};

use crate::refusal::Refusal;
use crate::settings::Settings;

/// A request as a judge sees it.
#[derive(Debug, Clone)]
pub struct WebRequest {
    /// The client's address.
    pub client: IpAddr,
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
    /// The port, the scheme's own if none was written.
    pub port: u16,
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
}

/// Selected header fields; texts that are no ASCII are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields {
    /// `User-Agent`.
    pub user_agent: Option<String>,
    /// `Referer`.
    pub referer: Option<String>,
    /// `Content-Type` of the request's body.
    pub content_type: Option<String>,
}

impl WebRequest {
    /// Reads a request that was sent to an explicit proxy (RFC 9112 sections 3.2.2 and 3.2.3).
    ///
    /// # Errors
    /// If it is too large, not for a proxy, or names no host that can be looked up.
    pub(crate) fn read<B>(
        client: IpAddr,
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
        let (url, port) = match kind {
            Kind::Connect => tunnel_target(uri)?,
            Kind::Plain | Kind::Upgrade => plain_target(uri)?,
        };
        Ok(WebRequest {
            client,
            method: request.method().clone(),
            version: request.version(),
            kind,
            url,
            port,
            fields: Fields::read(headers),
        })
    }

    /// The host without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        let host = self.url.host();
        host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host)
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

impl Fields {
    fn read(headers: &HeaderMap) -> Self {
        let text = |name: HeaderName| Some(headers.get(name)?.to_str().ok()?.to_owned());
        Fields {
            user_agent: text(USER_AGENT),
            referer: text(REFERER),
            content_type: text(CONTENT_TYPE),
        }
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
    let port = authority.port_u16().filter(|p| *p > 0);
    let port = port.ok_or(Refusal::Malformed("a CONNECT names no port"))?;
    let url = url_of("https", authority.as_str(), "")?;
    Ok((url, port))
}

fn plain_target(uri: &Uri) -> Result<(CanonicalUrl, u16), Refusal> {
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(Refusal::Malformed(
            "this is a proxy, and the request names no server (it is not in absolute form)",
        ));
    };
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(Refusal::Unsupported("this scheme; http and tunnels (CONNECT) are"));
    }
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    let url = url_of("http", authority.as_str(), path)?;
    let port = url.port().unwrap_or(80);
    match port {
        0 => Err(Refusal::Malformed("port 0 does not exist")),
        port => Ok((url, port)),
    }
}

fn url_of(scheme: &str, authority: &str, path: &str) -> Result<CanonicalUrl, Refusal> {
    // RFC 9110 section 4.2.4; a password in a URL is for phishing.
    if authority.contains('@') {
        return Err(Refusal::Malformed("the address has a user name"));
    }
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

/// A name of the DNS (RFC 1035 section 2.3.4).
const HOST_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, uri: &str) -> Result<WebRequest, Refusal> {
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        WebRequest::read([192, 0, 2, 7].into(), &request, &Settings::default())
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
    }

    #[test]
    fn a_tunnel_names_host_and_port() {
        let request = read("CONNECT", "example.com:443").unwrap();
        assert_eq!((request.kind, request.port), (Kind::Connect, 443));
        assert_eq!(request.authority(), "example.com:443");
        assert!(read("CONNECT", "example.com").is_err());
    }

    #[test]
    fn what_is_not_for_a_proxy_is_refused() {
        for uri in ["/", "*", "https://example.com/", "ftp://example.com/", "http://u:p@x.example/"]
        {
            assert!(read("GET", uri).is_err(), "{uri}");
        }
        let long = format!("http://example.com/{}", "a".repeat(20_000));
        assert_eq!(read("GET", &long).unwrap_err().name(), "uri_too_long");
    }
}
