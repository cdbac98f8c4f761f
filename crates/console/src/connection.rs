//! One connection of the console: bounded in number, in time, and in what it may hold.
//!
//! A connection that sends no request, or does not take its answer, keeps a place that others may
//! want: once all places are taken, the one that does so for longest is closed. Connections are the
//! node's to count ([`ConnectionLimiter`]), with descriptors of their own beside those that mail
//! needs.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as _, Incoming};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};

use crate::request::FORM_BYTES_MAX;
use crate::response;
use crate::state::{ConsoleOptions, ConsoleState};
use crate::text::Texts;
use crate::tls::{Stream, Tls};

/// Bytes of a request's head: more than any browser sends.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Header fields of a request.
const FIELDS_MAX: usize = 100;
/// Bodies up to so many bytes are read whatever others do.
const SMALL_BODY_BYTES: u64 = 16 << 10;
/// Bytes of a body that is too large, read only so that its client sees the answer.
const DISCARDED_BYTES_MAX: usize = 16 * FORM_BYTES_MAX;
/// Larger ones that are read at once; further ones wait.
const LARGE_BODIES_MAX: usize = 8;

/// What is waited for.
pub type BoxedWait<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Counts connections, and refuses those over a limit.
pub trait ConnectionLimiter: Send + Sync {
    /// Done when there is room for one more connection.
    fn wait_for_capacity(&self) -> BoxedWait<'_>;
    /// A place for a connection of this client; none if the client has too many.
    fn admit(&self, client: IpAddr) -> Option<Arc<dyn ConnectionSlot>>;
}

/// The place of one connection, which ends with its last reference.
pub trait ConnectionSlot: Send + Sync {
    /// From here on it waits for its client, and may have to leave for others.
    fn wait(&self);
    /// A request has come and is being answered.
    fn work(&self);
    /// Done when it has to leave.
    fn evicted(&self) -> BoxedWait<'_>;
}

/// What all connections share.
pub(crate) struct ConnectionHandler {
    pages: TowerToHyperService<Router>,
    options: ConsoleOptions,
    tls: Option<Tls>,
    texts: Arc<Texts>,
    large_bodies: Semaphore,
}

impl ConnectionHandler {
    pub(crate) fn new(pages: Router, state: &ConsoleState) -> Self {
        ConnectionHandler {
            pages: TowerToHyperService::new(pages),
            options: state.options,
            tls: state.tls.clone(),
            texts: state.texts.clone(),
            large_bodies: Semaphore::new(LARGE_BODIES_MAX),
        }
    }

    /// Reads a request's body, and has it answered.
    async fn answer(
        &self,
        request: Request<Incoming>,
        client: SocketAddr,
        slot: &dyn ConnectionSlot,
    ) -> Response {
        let (head, body) = request.into_parts();
        if is_ambiguous(&head.headers) {
            let why = "the request's length can be read in two ways\n";
            let closing = [(header::CONNECTION, "close")];
            return (StatusCode::BAD_REQUEST, closing, why).into_response();
        }
        let is_small = body.size_hint().upper().is_some_and(|bytes| bytes <= SMALL_BODY_BYTES);
        let read = async {
            let _turn = match is_small {
                true => None,
                false => self.large_bodies.acquire().await.ok(),
            };
            read_body(body).await
        };
        let body = match tokio::time::timeout(self.options.body_wait_max, read).await {
            Ok(Ok(body)) => body,
            Ok(Err(BodyError::TooLarge)) => {
                return response::too_large(head.uri.path(), &self.texts);
            }
            Ok(Err(BodyError::Incomplete)) => {
                let why = "the request's body is incomplete\n";
                return (StatusCode::BAD_REQUEST, why).into_response();
            }
            Err(_) => {
                let why = "the request's body did not come in time (console.body_seconds_max)\n";
                return (StatusCode::REQUEST_TIMEOUT, why).into_response();
            }
        };
        slot.work();
        let mut request = Request::from_parts(head, Body::from(body));
        request.extensions_mut().insert(ConnectInfo(client));
        let Ok(response) = self.pages.call(request).await;
        slot.wait();
        response
    }
}

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyError {
    TooLarge,
    Incomplete,
}

/// A request's body.
///
/// A body that is too large is read on, and forgotten, within bounds: a connection that is closed
/// while its client still sends is reset, and the client may never see the answer that says why
/// (RFC 9112 section 9.6).
async fn read_body(mut body: Incoming) -> Result<Vec<u8>, BodyError> {
    let mut bytes = Vec::new();
    let mut discarded = 0;
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|_| BodyError::Incomplete)?;
        let Ok(data) = frame.into_data() else { continue };
        if discarded == 0 && bytes.len() + data.len() <= FORM_BYTES_MAX {
            bytes.extend_from_slice(&data);
            continue;
        }
        discarded += bytes.len() + data.len();
        bytes = Vec::new();
        if discarded > DISCARDED_BYTES_MAX {
            return Err(BodyError::TooLarge);
        }
    }
    if discarded == 0 { Ok(bytes) } else { Err(BodyError::TooLarge) }
}

/// A proxy before us may see the end of such a request elsewhere, and what follows as another's
/// (RFC 9112 sections 6.1 and 11.2): a body in chunks that has a length, too, or is in chunks
/// twice.
fn is_ambiguous(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let Some(first) = codings.next() else { return false };
    let is_plain = first.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    !is_plain || codings.next().is_some() || headers.contains_key(header::CONTENT_LENGTH)
}

/// Answers the requests of one connection until it ends, is too slow, or has to leave.
pub(crate) async fn run(
    handler: Arc<ConnectionHandler>,
    stream: TcpStream,
    client: SocketAddr,
    slot: Arc<dyn ConnectionSlot>,
    mut stopping: watch::Receiver<bool>,
) {
    let _latency_is_all_that_is_lost = stream.set_nodelay(true);
    slot.wait();
    let shaken = async {
        match &handler.tls {
            Some(tls) => tls.accept(stream, handler.options.head_wait_max).await,
            None => Ok(Stream::Plain(stream)),
        }
    };
    let stream = tokio::select! {
        shaken = shaken => shaken,
        () = slot.evicted() => return,
    };
    let stream = match stream {
        Ok(stream) => stream,
        Err(error) => {
            tracing::debug!(%client, %error, "no TLS with a client of the console");
            return;
        }
    };
    let service = service_fn(|request| {
        let (handler, slot) = (handler.clone(), slot.clone());
        async move { Ok::<_, Infallible>(handler.answer(request, client, &*slot).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(handler.options.head_wait_max)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(FIELDS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = slot.evicted() => return,
        () = stopped(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%client, %error, "a connection to the console was aborted");
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error says that the server is gone: the same.
    let _stopped = stopping.wait_for(|stop| *stop).await.is_ok();
}

/// Answers 503 to a client that has too many connections.
pub(crate) fn reject(stream: &TcpStream, client: IpAddr) {
    tracing::warn!(%client, "connection refused: console.connections_per_client_max");
    let words = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\nContent-Length: 0\r\n\
                  Connection: close\r\n\r\n";
    // Best effort: the buffer of a new connection has room for a few words.
    let _said_or_not = stream.try_write(words);
}
