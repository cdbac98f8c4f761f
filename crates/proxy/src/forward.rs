//! A request to its server, or to the next proxy, and the response back.
//!
//! A request is sent a second time only if a kept connection turned out to be closed: then if none
//! of it had been sent, or if the method is idempotent and there is no body (RFC 9110 section
//! 9.2.2).

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{HOST, HeaderValue, PROXY_AUTHORIZATION, UPGRADE};
use hyper::http::uri::InvalidUri;
use hyper::upgrade::Upgraded;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use tokio::net::TcpStream;

use crate::body::{AnyBody, Watched, empty};
use crate::connect::{Connector, NamedBy};
use crate::counters::Counters;
use crate::headers;
use crate::judge::{BlockReason, Decision, Judge};
use crate::pool::{Connection, Key, Pool, SendError};
use crate::progress::Progress;
use crate::recent::Recent;
use crate::refusal::Refusal;
use crate::request::{Kind, WebRequest};
use crate::settings::{Destination, Settings, SettingsError, Upstream, VerifyNames};
use crate::stream::{self, Stream};
use crate::tls::{OriginTls, Protocols, Replay, Route, Unsecured, Verified};

/// What sends requests.
pub(crate) struct Forwarder {
    settings: Arc<Settings>,
    connector: Connector,
    pool: Arc<Pool>,
    counters: Arc<Counters>,
    tls: Arc<OriginTls>,
    judge: Arc<dyn Judge>,
}

/// A response, and the watch over the connection that its body comes by.
pub(crate) struct Received {
    pub(crate) response: Response<Incoming>,
    pub(crate) progress: Arc<Progress>,
    /// The address that it came from.
    pub(crate) address: Option<IpAddr>,
    /// Others use its connection, too.
    is_shared: bool,
}

impl Received {
    /// The body, which keeps the watch informed.
    pub(crate) fn into_parts(
        self,
        ends_connection: bool,
    ) -> (hyper::http::response::Parts, Watched<Incoming>) {
        let (parts, inner) = self.response.into_parts();
        let progress = Arc::clone(&self.progress);
        let stalled = self.is_shared.then(|| {
            let progress = Arc::clone(&progress);
            Box::pin(async move { progress.stalled().await }) as Pin<Box<_>>
        });
        // A stream that is dropped is reset; its connection goes on.
        let ends_connection = ends_connection && !self.is_shared;
        let progress = Some(progress);
        let (bytes, waits) = (None, None);
        (parts, Watched { inner, progress, bytes, waits, ends_connection, stalled })
    }
}

impl Forwarder {
    pub(crate) fn new(
        settings: Arc<Settings>,
        resolver: Arc<dyn crate::resolve::Resolve>,
        counters: Arc<Counters>,
        tls: Arc<OriginTls>,
        judge: Arc<dyn Judge>,
    ) -> Result<Self, SettingsError> {
        let connector = Connector {
            reach: crate::destination::Reach::new(settings.networks()?),
            resolver,
            wait_max: Duration::from_secs(settings.times.connect_seconds_max),
            addresses_max: settings.limits.addresses_max,
            recent: (!settings.transparent.listen.is_empty()).then(|| {
                let times = &settings.times;
                // A connection that comes back is asked about when its first bytes are here.
                let keep = times.header_seconds_max + times.connect_seconds_max;
                Recent::new(Duration::from_secs(keep))
            }),
        };
        let pool = Arc::new(Pool::new(&settings));
        Ok(Forwarder { settings, connector, pool, counters, tls, judge })
    }

    /// Whether the request's port may be reached.
    ///
    /// # Errors
    /// If not.
    pub(crate) fn check_port(&self, web: &WebRequest) -> Result<(), Refusal> {
        let checked = self.settings.check_port(web.kind.into(), web.port);
        checked.map_err(|_| Refusal::Port(web.port))
    }

    /// Sends a request whose header is prepared.
    ///
    /// # Errors
    /// Why there is no response.
    pub(crate) async fn send(
        &self,
        web: &WebRequest,
        route: Option<&Route>,
        mut request: Request<AnyBody>,
    ) -> Result<Received, Refusal> {
        let key = self.key(web, route);
        let named_by = self.named_by(&key, web)?;
        self.address(web, &key, &mut request)?;
        // A tunnel through the next proxy is one person's there.
        let is_own = web.credentials.is_some() && key.tls.is_some();
        let is_bound = headers::binds_connection(request.headers()) || is_own;
        let mut kept = match web.kind {
            Kind::Plain if !is_own => self.pool.take(&key),
            Kind::Plain => None,
            Kind::Connect | Kind::Upgrade | Kind::Lookup => None,
        };
        loop {
            let is_kept = kept.is_some();
            let mut connection = match kept.take() {
                Some(connection) => {
                    self.counters.origin_reused.add(1);
                    connection
                }
                None => self.new_connection(&key, named_by, web).await?,
            };
            let wait_max = Duration::from_secs(self.settings.times.response_seconds_max);
            connection.progress.set_limit(wait_max);
            let again = is_kept.then(|| repeat(&request)).flatten();
            let request_now = request.map(|body| watch(body, &connection.progress));
            request = match connection.send(request_now).await {
                Ok(response) if is_bound => return Ok(self.received(None, connection, response)),
                Ok(response) => return Ok(self.received(Some(key), connection, response)),
                Err(SendError::Unsent(request)) if is_kept => *request,
                Err(SendError::Unsent(_)) => return Err(Refusal::Closed),
                Err(SendError::Stalled) => return Err(Refusal::ResponseTimeout),
                Err(SendError::Failed(error)) => match again {
                    Some(request)
                        if is_lost(&error, connection.is_shared())
                            && !connection.progress.has_stalled() =>
                    {
                        request
                    }
                    _ => return Err(refusal_of(&error, &connection.progress)),
                },
            };
            self.counters.origin_retries.add(1);
        }
    }

    /// What came back; the connection is kept for others under this key.
    fn received(
        &self,
        key: Option<Key>,
        connection: Connection,
        response: Response<Incoming>,
    ) -> Received {
        let progress = Arc::clone(&connection.progress);
        progress.set_limit(Duration::from_secs(self.settings.times.idle_seconds_max));
        let is_shared = connection.is_shared();
        let address = connection.address;
        if let Some(key) = key.filter(|_| !is_shared) {
            self.pool.put_when_ready(key, connection);
        }
        Received { response, progress, address, is_shared }
    }

    /// The form of the target that the receiver wants: absolute for a proxy, else the path (RFC
    /// 9112 section 3.2).
    fn address(
        &self,
        web: &WebRequest,
        key: &Key,
        request: &mut Request<AnyBody>,
    ) -> Result<(), Refusal> {
        let upstream = self.settings.upstream.as_ref().filter(|_| key.tls.is_none());
        let uri = match upstream {
            None => in_origin_form(request.uri()),
            Some(upstream) => {
                let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
                let path = if path == "*" { "" } else { path };
                let credentials = credentials(upstream, web);
                let uri = format!("http://{}{path}", web.authority()).parse();
                request.headers_mut().extend(credentials.map(|c| (PROXY_AUTHORIZATION, c)));
                uri
            }
        };
        *request.uri_mut() = uri.map_err(|_| Refusal::Malformed("the address names no host"))?;
        *request.version_mut() = Version::HTTP_11;
        Ok(())
    }

    fn key(&self, web: &WebRequest, route: Option<&Route>) -> Key {
        if let Some(route) = route {
            return Key::of_route(route);
        }
        let host = web.host().to_owned();
        let is_secure = web.kind != Kind::Connect && web.url.scheme() == "https";
        match &self.settings.upstream {
            _ if is_secure => Key { host: host.clone(), port: web.port, tls: Some(host) },
            Some(upstream) => Key { host: upstream.host.clone(), port: upstream.port, tls: None },
            None => {
                let (host, port) = self.target(web);
                Key { host, port, tls: None }
            }
        }
    }

    /// The host or address, and the port, that a request is for.
    pub(crate) fn target(&self, web: &WebRequest) -> (String, u16) {
        let is_original = self.settings.transparent.destination == Destination::Original;
        match web.original.filter(|_| is_original) {
            Some(original) => (original.ip().to_string(), original.port()),
            None => (web.host().to_owned(), web.port),
        }
    }

    /// Whether lists and policy let the request's host be reached at this address, which it was
    /// looked up to.
    ///
    /// # Errors
    /// If they do not.
    fn judge_address(&self, web: &WebRequest, address: IpAddr) -> Result<(), Refusal> {
        if !self.settings.listed_addresses {
            return Ok(());
        }
        let (decision, note) = self.judge.address(web, address).into_parts();
        let refusal = match decision {
            Decision::Allow | Decision::Inspect(_) | Decision::Noted(..) => return Ok(()),
            Decision::Block(reason) => Refusal::Blocked(reason),
            Decision::Warn(reason, warning) => Refusal::Warned(reason, warning),
            Decision::Redirect(to) => {
                let text = "An address of this server is on a list.".to_owned();
                Refusal::Blocked(BlockReason { rule: format!("redirect: {to}"), text })
            }
        };
        Err(refusal.noted(note))
    }

    /// A client's address is that of one of our own connections: they come back to us.
    pub(crate) fn is_own(&self, client: SocketAddr) -> bool {
        self.connector.recent.as_ref().is_some_and(|recent| recent.has(client))
    }

    /// Whether the name that a client says has the address that it connected to, as far as the
    /// settings ask.
    ///
    /// # Errors
    /// If it does not, and the settings want that to be refused.
    pub(crate) async fn verify_name(&self, web: &WebRequest) -> Result<(), Refusal> {
        let verify = self.settings.transparent.verify_names;
        let Some(original) = web.original.filter(|_| verify != VerifyNames::Off) else {
            return Ok(());
        };
        if self.connector.has_address(web.host(), original.ip()).await {
            return Ok(());
        }
        self.counters.names_mismatched.add(1);
        let (client, name) = (web.client, web.host());
        tracing::warn!(%client, name, %original, "the name does not have this address");
        match verify {
            VerifyNames::Block => Err(Refusal::NameMismatch),
            VerifyNames::Log | VerifyNames::Off => Ok(()),
        }
    }

    async fn new_connection(
        &self,
        key: &Key,
        named_by: NamedBy,
        web: &WebRequest,
    ) -> Result<Connection, Refusal> {
        let Some(name) = &key.tls else {
            let judge = |address| self.judge_address(web, address);
            let stream = self.connector.connect(&key.host, key.port, named_by, judge).await?;
            self.counters.origin_connections.add(1);
            return Connection::new(stream, &self.settings).await;
        };
        let stream = self.stream(&key.host, key.port, web).await?;
        // What is one person's is not shared, as connections of HTTP/2 are.
        let is_alone = web.kind == Kind::Upgrade || web.credentials.is_some();
        let protocols = if is_alone { Protocols::Http1 } else { Protocols::Any };
        match self.tls.secure(stream, name, protocols).await {
            Ok(secured) => self.pool.connection(key, secured, &self.settings).await,
            Err(Unsecured { refusal: Refusal::Certificate(fault), .. }) => {
                Err(Refusal::Certificate(fault))
            }
            Err(Unsecured { asks_for_certificate: true, .. }) => Err(Refusal::ClientCertificate),
            Err(unsecured) => Err(unsecured.refusal),
        }
    }

    /// Whether a request to this host may go through the next proxy, and whose wish its address is.
    fn named_by(&self, key: &Key, web: &WebRequest) -> Result<NamedBy, Refusal> {
        let host = if key.tls.is_some() { &key.host } else { web.host() };
        match self.settings.upstream {
            None => Ok(NamedBy::Client),
            // A request goes there by its name, a tunnel by its address, if they are not the same.
            Some(_) => {
                self.connector.check_literal(host)?;
                self.connector.check_literal(&self.target(web).0)?;
                Ok(NamedBy::Settings)
            }
        }
    }

    /// A connection to this server is kept, so that it was verified.
    pub(crate) fn has_kept(&self, key: &Key) -> bool {
        self.pool.has(key)
    }

    /// Verifies a server over a new connection to it, and keeps the connection for a request.
    ///
    /// # Errors
    /// Why it is not secure.
    pub(crate) async fn verify(
        &self,
        key: Key,
        stream: Box<dyn Stream>,
    ) -> Result<Verified, Unsecured> {
        let name = key.tls.as_deref().unwrap_or(&key.host);
        let secured = self.tls.secure(stream, name, Protocols::Any).await?;
        let asks_for_certificate = secured.asks_for_certificate;
        if !asks_for_certificate {
            let failed = |refusal| Unsecured { refusal, asks_for_certificate };
            let connection = self.pool.connection(&key, secured, &self.settings).await;
            let connection = connection.map_err(failed)?;
            if !connection.is_shared() {
                self.pool.put(key, connection);
            }
        }
        Ok(Verified { asks_for_certificate })
    }

    /// Keeps a connection to the request's server for the requests that its tunnel carries.
    pub(crate) async fn keep(&self, web: &WebRequest, stream: Box<dyn Stream>) {
        // The next proxy gets such requests by themselves, not by a tunnel.
        if self.settings.upstream.is_some() {
            return;
        }
        let (host, port) = self.target(web);
        if let Ok(connection) = Connection::new(stream, &self.settings).await {
            self.pool.put(Key { host, port, tls: None }, connection);
        }
    }

    /// Which of these protocols (ALPN, RFC 7301) a server chooses; none if it chooses none.
    ///
    /// # Errors
    /// If it does not speak TLS with somebody who offers them.
    pub(crate) async fn selected(
        &self,
        stream: Box<dyn Stream>,
        name: &str,
        protocols: &[Vec<u8>],
    ) -> Result<Option<Vec<u8>>, Refusal> {
        self.tls.selected(stream, name, protocols).await
    }

    /// A tunnel to the request's host and port, through the next proxy if there is one.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn tunnel(&self, web: &WebRequest) -> Result<Box<dyn Stream>, Refusal> {
        let (host, port) = self.target(web);
        if self.settings.upstream.is_some() {
            self.connector.check_literal(web.host())?;
        }
        self.stream(&host, port, web).await
    }

    /// A connection to a server, through the next proxy if there is one.
    async fn stream(
        &self,
        host: &str,
        port: u16,
        web: &WebRequest,
    ) -> Result<Box<dyn Stream>, Refusal> {
        let Some(upstream) = &self.settings.upstream else {
            let judge = |address| self.judge_address(web, address);
            let stream = self.connector.connect(host, port, NamedBy::Client, judge).await?;
            self.counters.origin_connections.add(1);
            return Ok(Box::new(stream));
        };
        self.connector.check_literal(host)?;
        let next = (upstream.host.as_str(), upstream.port);
        let by_settings = NamedBy::Settings;
        let stream = self.connector.connect(next.0, next.1, by_settings, |_| Ok(())).await?;
        self.counters.origin_connections.add(1);
        let mut connection = Connection::new(stream, &self.settings).await?;
        let authority = match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        let mut request = Request::new(empty());
        *request.method_mut() = Method::CONNECT;
        let bad = |_| Refusal::Malformed("the address names no host");
        *request.uri_mut() = authority.parse().map_err(bad)?;
        let headers = request.headers_mut();
        headers.extend(HeaderValue::try_from(authority).ok().map(|host| (HOST, host)));
        headers.extend(credentials(upstream, web).map(|c| (PROXY_AUTHORIZATION, c)));
        let mut response = match connection.send(request).await {
            Ok(response) => response,
            Err(SendError::Unsent(_)) => return Err(Refusal::Closed),
            Err(SendError::Stalled) => return Err(Refusal::ResponseTimeout),
            Err(SendError::Failed(error)) => return Err(refusal_of(&error, &connection.progress)),
        };
        if !response.status().is_success() {
            return Err(Refusal::Upstream(response.status().as_u16()));
        }
        let upgraded = hyper::upgrade::on(&mut response).await.map_err(|_| Refusal::Closed)?;
        Ok(given_back(upgraded))
    }

    /// A response that must not reach the client as it is.
    ///
    /// # Errors
    /// If it asks for credentials of a proxy, which are ours alone to ask for, or switches to a
    /// protocol that the client did not want; or if its body is under another coding than
    /// `chunked`, which would be passed on as if it were none.
    pub(crate) fn check_response(
        &self,
        web: &WebRequest,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        let has_body = web.method != Method::HEAD && status != StatusCode::NOT_MODIFIED;
        if has_body && !headers::is_plainly_framed(headers) {
            return Err(Refusal::TransferCoding);
        }
        match status {
            StatusCode::PROXY_AUTHENTICATION_REQUIRED
                if self.settings.upstream.is_some() && web.url.scheme() == "http" =>
            {
                Err(Refusal::Upstream(407))
            }
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => Err(Refusal::Protocol),
            StatusCode::SWITCHING_PROTOCOLS if !switches_as_asked(web, headers) => {
                Err(Refusal::Protocol)
            }
            _ => Ok(()),
        }
    }
}

/// What a server is asked for: its path, or `*` for the server as a whole. An OPTIONS in absolute
/// form without a path is that, too (RFC 9112 section 3.2.4), but hyper reads a `/` there.
fn in_origin_form(uri: &Uri) -> Result<Uri, InvalidUri> {
    match uri.path_and_query() {
        None => Ok(Uri::from_static("/")),
        Some(path) if path.as_str() == "*" => Ok(Uri::from_static("*")),
        // It was read once, and is shared.
        Some(path) if path.as_str().starts_with('/') => Ok(Uri::from(path.clone())),
        // A query alone.
        Some(path) => path.to_string().parse::<Uri>(),
    }
}

/// Whether a server becomes what it was asked to become (RFC 9110 section 7.8).
fn switches_as_asked(web: &WebRequest, headers: &HeaderMap) -> bool {
    let asked = web.fields.upgrade.as_deref().filter(|_| web.kind == Kind::Upgrade);
    let mut named = headers.get_all(UPGRADE).iter();
    let named = named.next().filter(|_| named.next().is_none()).and_then(|v| v.to_str().ok());
    asked.zip(named).is_some_and(|(asked, named)| asked.trim().eq_ignore_ascii_case(named.trim()))
}

/// A connection to a server that is no longer one of HTTP.
pub(crate) fn given_back(upgraded: Upgraded) -> Box<dyn Stream> {
    match stream::given_back::<TcpStream>(upgraded) {
        Ok((stream, first)) => Box::new(Replay::new(first, stream)),
        Err(other) => Box::new(other),
    }
}

/// A body that tells the connection's watch when it moves.
fn watch(inner: AnyBody, progress: &Arc<Progress>) -> AnyBody {
    if inner.is_end_stream() {
        return inner;
    }
    let progress = Some(Arc::clone(progress));
    let (bytes, waits, stalled) = (None, None, None);
    Watched { inner, progress, bytes, waits, ends_connection: false, stalled }.boxed_unsync()
}

/// Basic credentials (RFC 7617): those of the settings, else the client's, if they are handed on.
fn credentials(upstream: &Upstream, web: &WebRequest) -> Option<HeaderValue> {
    if upstream.user.is_empty() {
        return web.credentials.clone();
    }
    let pair = format!("{}:{}", upstream.user, upstream.password);
    let encoded = base64_simd::STANDARD.encode_to_string(pair);
    let mut value = HeaderValue::try_from(format!("Basic {encoded}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The same request once more, if sending it twice is the same as sending it once.
fn repeat(request: &Request<AnyBody>) -> Option<Request<AnyBody>> {
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !is_safe || !request.body().is_end_stream() {
        return None;
    }
    let mut again = Request::new(empty());
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    Some(again)
}

/// The connection was closed before any of the response.
fn is_lost(error: &hyper::Error, is_http2: bool) -> bool {
    // A connection of HTTP/2 says goodbye in several ways, all of which are the server's.
    if is_http2 && !error.is_user() && !error.is_timeout() {
        return true;
    }
    let is_reset = error.source().and_then(|e| e.downcast_ref::<io::Error>()).is_some();
    error.is_incomplete_message() || error.is_canceled() || error.is_closed() || is_reset
}

fn refusal_of(error: &hyper::Error, progress: &Progress) -> Refusal {
    let mut cause: Option<&(dyn Error + 'static)> = error.source().filter(|_| error.is_user());
    while let Some(at) = cause {
        if let Some(refusal) = at.downcast_ref::<Refusal>() {
            return refusal.clone();
        }
        let kind = at.downcast_ref::<io::Error>().map(io::Error::kind);
        if matches!(kind, Some(io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData)) {
            return Refusal::Malformed("its body is not framed as it should be");
        }
        cause = at.source();
    }
    if progress.has_stalled() {
        Refusal::ResponseTimeout
    } else if error.is_user() {
        Refusal::RequestBody
    } else if error.is_parse() {
        Refusal::Protocol
    } else {
        Refusal::Closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_asked_for_a_path_or_for_themselves() {
        for (uri, path) in [
            ("http://a.example", "/"),
            ("http://a.example/", "/"),
            ("http://a.example/b?c", "/b?c"),
            ("http://a.example?c", "/?c"),
            ("/b", "/b"),
            ("*", "*"),
        ] {
            assert_eq!(in_origin_form(&uri.parse().unwrap()).unwrap(), path, "{uri}");
        }
    }
}
