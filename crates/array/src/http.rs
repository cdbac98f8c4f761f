//! HTTP/1.1 to the object store: what the crate `object_store` asks is carried by hyper and rustls,
//! as all of this program's HTTP is.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_RANGE, HOST, HeaderValue};
use hyper::{StatusCode, Uri};
use hyper_util::rt::TokioIo;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpService,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// Connections kept for the next request.
const CONNECTIONS_KEPT: usize = 4;
/// Largest body of a response, in bytes: a held message, or a list of names.
const RESPONSE_BYTES_MAX: usize = 1 << 30;
/// Bytes a second below which a transfer is given up, beyond what a request may take by itself.
const BYTES_A_SECOND_MIN: u64 = 256 << 10;

type Connection = SendRequest<HttpRequestBody>;

/// Limits of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HttpLimits {
    /// Until a connection is open and encrypted.
    pub(crate) connect_max: Duration,
    /// Until a request is answered, beside a second for each 256 KiB of its body.
    pub(crate) request_max: Duration,
}

/// Carries requests to one server.
#[derive(Debug, Clone)]
pub(crate) struct Http(Arc<Inner>);

struct Inner {
    host: String,
    port: u16,
    /// None for HTTP in clear.
    tls: Option<Arc<ClientConfig>>,
    limits: HttpLimits,
    kept: Mutex<Vec<Connection>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Http {
    /// Requests to this server.
    pub(crate) fn new(
        host: &str,
        port: u16,
        tls: Option<Arc<ClientConfig>>,
        limits: HttpLimits,
    ) -> Self {
        let (host, kept) = (host.to_owned(), Mutex::default());
        Http(Arc::new(Inner { host, port, tls, limits, kept }))
    }
}

impl HttpConnector for Http {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl HttpService for Http {
    fn call<'s, 'f>(
        &'s self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(self.0.exchange(request))
    }
}

impl Inner {
    fn kept(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let seconds = request.body().content_length() as u64 / BYTES_A_SECOND_MIN;
        let most = self.limits.request_max + Duration::from_secs(seconds);
        let mut connection = match self.kept_one() {
            Some(kept) => kept,
            None => self.open().await?,
        };
        let answered = async {
            let response = connection.send_request(origin_form(request)?).await;
            let (mut parts, body) = response.map_err(failed)?.into_parts();
            let collected = Limited::new(body, RESPONSE_BYTES_MAX).collect().await;
            let bytes =
                collected.map_err(|e| HttpError::new_boxed(HttpErrorKind::Interrupted, e))?;
            // Some servers answer a part with 200; the header says that it is one.
            if parts.status == StatusCode::OK && parts.headers.contains_key(CONTENT_RANGE) {
                parts.status = StatusCode::PARTIAL_CONTENT;
            }
            Ok::<_, HttpError>(HttpResponse::from_parts(parts, bytes.to_bytes().into()))
        };
        let response = match tokio::time::timeout(most, answered).await {
            Ok(response) => response?,
            Err(_) => return Err(timeout(&format!("no answer in {} s", most.as_secs()))),
        };
        let mut kept = self.kept();
        if kept.len() < CONNECTIONS_KEPT && !connection.is_closed() {
            kept.push(connection);
        }
        Ok(response)
    }

    /// An idle connection, if one is still open.
    fn kept_one(&self) -> Option<Connection> {
        let mut kept = self.kept();
        while let Some(connection) = kept.pop() {
            if connection.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    async fn open(&self) -> Result<Connection, HttpError> {
        let most = self.limits.connect_max;
        match tokio::time::timeout(most, self.connect()).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(HttpError::new(HttpErrorKind::Connect, error)),
            Err(_) => {
                let text = format!("no connection in {} s", most.as_secs());
                Err(HttpError::new(HttpErrorKind::Connect, io::Error::other(text)))
            }
        }
    }

    async fn connect(&self) -> io::Result<Connection> {
        let bare = self.host.trim_matches(['[', ']']);
        let stream = TcpStream::connect((bare, self.port)).await?;
        stream.set_nodelay(true)?;
        let Some(config) = &self.tls else { return shake_hands(stream).await };
        let name = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
        shake_hands(TlsConnector::from(config.clone()).connect(name, stream).await?).await
    }
}

async fn shake_hands<S>(stream: S) -> io::Result<Connection>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // Ends with its sender, or when the server closes; whoever waits gets the error.
    tokio::spawn(async move {
        let _told_to_who_waits = connection.await;
    });
    Ok(sender)
}

/// A request as it goes over the wire: the path alone, and the host in a header.
fn origin_form(request: HttpRequest) -> Result<HttpRequest, HttpError> {
    let bad =
        |error: &str| HttpError::new(HttpErrorKind::Unknown, io::Error::other(error.to_owned()));
    let (mut parts, body) = request.into_parts();
    let host = parts.uri.authority().map_or("", |authority| authority.as_str());
    let host = HeaderValue::from_str(host).map_err(|_| bad("a bad host name"))?;
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let path = Uri::try_from(path).map_err(|_| bad("a bad name of an object"))?;
    parts.headers.insert(HOST, host);
    parts.uri = path;
    Ok(HttpRequest::from_parts(parts, body))
}

fn timeout(text: &str) -> HttpError {
    HttpError::new(HttpErrorKind::Timeout, io::Error::other(text.to_owned()))
}

/// An error of a request, by whether it may be sent again.
fn failed(error: hyper::Error) -> HttpError {
    let kind = match error.is_canceled() || error.is_closed() || error.is_incomplete_message() {
        // A kept connection that the server closed meanwhile.
        true => HttpErrorKind::Request,
        false => HttpErrorKind::Interrupted,
    };
    HttpError::new(kind, error)
}
