//! A client's connection: what is watched over it.
//!
//! ```text
//! Header ──request──▶ Busy ──last response sent──▶ Idle ──first byte──▶ Header (HTTP/1)
//! header_seconds_max  stages of a request          keep_alive_seconds_max
//! ```
//!
//! Over HTTP/2 there is no telling a request's first byte from other frames: a header that comes
//! slowly is then cut as an idle connection is.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::header::HeaderValue;
use hyper::upgrade::Upgraded;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::admission::Place;
use crate::progress::Progress;
use crate::request::WebRequest;
use crate::settings::Times;
use crate::stream::{self, Stream, Tcp, joined};

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A header is coming.
    Header,
    /// So many requests are in progress.
    Busy(usize),
    /// Nothing.
    Idle,
}

/// A connection of a client.
pub(crate) struct Client {
    pub(crate) address: IpAddr,
    /// The server that it connected to, if a router handed the connection over.
    pub(crate) original: Option<SocketAddr>,
    /// Where it connected to, if that is an explicit listener.
    pub(crate) local: Option<SocketAddr>,
    /// Who logged in for the tunnel that the requests come by.
    pub(crate) user: Option<Arc<str>>,
    /// What that login brought for the next proxy.
    pub(crate) credentials: Option<HeaderValue>,
    pub(crate) progress: Progress,
    stage: Mutex<Stage>,
    is_http2: AtomicBool,
    header: Duration,
    keep_alive: Duration,
    stalled: Duration,
    /// None of a decrypted tunnel, which is in the place of the connection that it came by.
    _place: Option<Place>,
    /// The server waits until the last of these is dropped.
    _alive: mpsc::Sender<()>,
}

impl Client {
    pub(crate) fn new(
        address: IpAddr,
        times: &Times,
        place: Place,
        alive: mpsc::Sender<()>,
    ) -> Self {
        Client::with(address, times, Some(place), alive)
    }

    /// What is watched over requests within a client's tunnel, which `connect` asked for.
    pub(crate) fn inside(outer: &Client, connect: &WebRequest, times: &Times) -> Self {
        let inside = Client::with(outer.address, times, None, outer._alive.clone());
        let user = connect.user.as_deref().map(Into::into);
        Client { user, credentials: connect.credentials.clone(), ..inside }
    }

    fn with(address: IpAddr, times: &Times, place: Option<Place>, alive: mpsc::Sender<()>) -> Self {
        let header = Duration::from_secs(times.header_seconds_max);
        Client {
            address,
            original: None,
            local: None,
            user: None,
            credentials: None,
            progress: Progress::new(header),
            stage: Mutex::new(Stage::Header),
            is_http2: AtomicBool::new(false),
            header,
            keep_alive: Duration::from_secs(times.keep_alive_seconds_max),
            stalled: times.stalled(),
            _place: place,
            _alive: alive,
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request's header has come.
    pub(crate) fn begin(self: &Arc<Self>, is_http2: bool) -> Busy {
        self.is_http2.store(is_http2, Ordering::Relaxed);
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        *stage = match *stage {
            Stage::Busy(n) => Stage::Busy(n + 1),
            Stage::Header | Stage::Idle => {
                self.progress.set_limit(self.stalled);
                Stage::Busy(1)
            }
        };
        Busy(Arc::clone(self))
    }

    fn end(&self) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        *stage = match *stage {
            Stage::Busy(n) if n > 1 => Stage::Busy(n - 1),
            _ => {
                self.progress.set_limit(self.keep_alive);
                Stage::Idle
            }
        };
    }

    fn has_read(&self) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        match *stage {
            Stage::Busy(_) => self.progress.touch(),
            Stage::Idle if !self.is_http2.load(Ordering::Relaxed) => {
                *stage = Stage::Header;
                self.progress.set_limit(self.header);
            }
            // A header that comes byte by byte has no more time than one that comes at once.
            Stage::Header | Stage::Idle => {}
        }
    }

    fn has_written(&self) {
        if self.stage() != Stage::Header {
            self.progress.touch();
        }
    }
}

/// A request in progress, until it is dropped.
pub(crate) struct Busy(Arc<Client>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The stream, which tells the connection what passes.
pub(crate) struct Socket<S> {
    pub(crate) stream: S,
    pub(crate) client: Arc<Client>,
    /// Bytes that were taken from the stream before, and are read first.
    pub(crate) replay: Bytes,
}

/// A client's connection that is no longer one of HTTP.
pub(crate) fn given_back(upgraded: Upgraded) -> Box<dyn Stream> {
    match stream::given_back::<Socket<TcpStream>>(upgraded) {
        Ok((socket, first)) => {
            let replay = joined(first, socket.replay);
            Box::new(Socket { replay, ..socket })
        }
        Err(other) => Box::new(other),
    }
}

impl<S: Stream> Stream for Socket<S> {
    fn is_plain(&self) -> bool {
        self.stream.is_plain()
    }

    fn into_tcp(self: Box<Self>) -> Option<Tcp> {
        let Socket { stream, client, replay } = *self;
        let mut tcp = Box::new(stream).into_tcp()?.after(replay);
        tcp.keeps = Some(Box::new((client, tcp.keeps.take())));
        Some(tcp)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.replay.is_empty() {
            let length = self.replay.len().min(buffer.remaining());
            buffer.put_slice(&self.replay.split_to(length));
            self.client.has_read();
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.client.has_read();
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if result.is_ready() {
            self.client.has_written();
        }
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, buffers);
        if result.is_ready() {
            self.client.has_written();
        }
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
