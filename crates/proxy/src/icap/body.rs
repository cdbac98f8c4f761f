//! What comes from an ICAP client: headers, and bodies as [`Body`]s that read no more than is asked
//! for.
//!
//! A connection and the body of its present request share what is read from the socket; they never
//! read at the same time. What is behind a preview is not read before the client was told to send
//! it: the body asks by one channel and learns by another that it was.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame};
use tokio::io::{AsyncReadExt, ReadHalf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::body::BodyError;
use crate::client::Socket;
use crate::icap::chunks::{ChunkDecoder, Piece};
use crate::icap::codec::{CodecError, CodecLimits, HeadEnd};

/// Bytes that are read at once: of headers, of bodies.
const HEAD_BYTES: usize = 4 * 1024;
const BODY_BYTES: usize = 16 * 1024;

/// Why nothing more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadError {
    /// The client closed the connection, or it broke.
    #[error("the connection ended")]
    Closed,
    /// The bytes are not ICAP.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// One connection's bytes.
#[derive(Clone)]
pub(crate) struct Incoming(Arc<Mutex<Wire>>);

struct Wire {
    socket: ReadHalf<Socket<TcpStream>>,
    buffer: BytesMut,
    limits: CodecLimits,
    head_end: HeadEnd,
    decoder: ChunkDecoder,
    /// A preview that was read before anybody asked for it.
    ahead: VecDeque<Bytes>,
    /// The end of the present body was asked for and given.
    is_delivered: bool,
    /// Bytes of the present body so far.
    body_bytes: u64,
    failed: Option<ReadError>,
}

impl Wire {
    /// Reads what there is, at most `bytes`.
    fn poll_more(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<Result<(), ReadError>> {
        self.buffer.reserve(bytes);
        let reading = pin!(self.socket.read_buf(&mut self.buffer));
        match ready!(reading.poll(cx)) {
            Ok(1..) => Poll::Ready(Ok(())),
            Ok(0) | Err(_) => Poll::Ready(Err(ReadError::Closed)),
        }
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, ReadError>> {
        loop {
            if let Some(end) = self.head_end.find(&self.buffer, self.limits.header_bytes_max)? {
                self.head_end = HeadEnd::default();
                return Poll::Ready(Ok(self.buffer.split_to(end).freeze()));
            }
            ready!(self.poll_more(cx, HEAD_BYTES))?;
        }
    }

    /// What whoever takes the body gets next.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, ReadError>> {
        if let Some(data) = self.ahead.pop_front() {
            return Poll::Ready(Ok(Piece::Data(data)));
        }
        let piece = ready!(self.poll_wire(cx));
        self.is_delivered |= matches!(piece, Ok(Piece::End(_)));
        Poll::Ready(piece)
    }

    fn poll_wire(&mut self, cx: &mut Context<'_>) -> Poll<Result<Piece, ReadError>> {
        if let Some(error) = self.failed {
            return Poll::Ready(Err(error));
        }
        loop {
            let next = match self.decoder.next(&mut self.buffer) {
                Ok(Some(piece)) => Ok(piece),
                Ok(None) => match ready!(self.poll_more(cx, BODY_BYTES)) {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
                Err(error) => Err(error.into()),
            };
            match &next {
                Ok(Piece::Data(data)) => {
                    let n = u64::try_from(data.len()).unwrap_or(u64::MAX);
                    self.body_bytes = self.body_bytes.saturating_add(n);
                }
                Ok(Piece::PreviewEnd | Piece::End(_)) => {}
                Err(error) => self.failed = Some(*error),
            }
            return Poll::Ready(next);
        }
    }
}

impl Incoming {
    pub(crate) fn new(socket: ReadHalf<Socket<TcpStream>>, limits: CodecLimits) -> Self {
        Incoming(Arc::new(Mutex::new(Wire {
            socket,
            buffer: BytesMut::new(),
            limits,
            head_end: HeadEnd::default(),
            decoder: ChunkDecoder::ended(limits),
            ahead: VecDeque::new(),
            is_delivered: false,
            body_bytes: 0,
            failed: None,
        })))
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing of a next request has come.
    pub(crate) fn is_idle(&self) -> bool {
        self.wire().buffer.is_empty()
    }

    /// Gives memory back that an idle connection does not need.
    pub(crate) fn release(&self) {
        let mut wire = self.wire();
        if wire.buffer.is_empty() {
            wire.buffer = BytesMut::new();
        }
    }

    /// The next ICAP header. May be dropped and asked again.
    pub(crate) async fn head(&self) -> Result<Bytes, ReadError> {
        std::future::poll_fn(|cx| self.wire().poll_head(cx)).await
    }

    /// The next bytes, whose number the caller has bounded.
    pub(crate) async fn exact(&self, n: usize) -> Result<Bytes, ReadError> {
        std::future::poll_fn(|cx| {
            let mut wire = self.wire();
            while wire.buffer.len() < n {
                ready!(wire.poll_more(cx, HEAD_BYTES))?;
            }
            Poll::Ready(Ok(wire.buffer.split_to(n).freeze()))
        })
        .await
    }

    /// From here on, a body comes.
    pub(crate) fn begin_body(&self, decoder: ChunkDecoder) {
        let mut wire = self.wire();
        (wire.decoder, wire.body_bytes, wire.failed) = (decoder, 0, None);
        (wire.is_delivered, wire.ahead) = (false, VecDeque::new());
    }

    /// Whoever took the body has got all of it.
    pub(crate) fn is_delivered(&self) -> bool {
        self.wire().is_delivered
    }

    /// The client waits behind its preview.
    pub(crate) fn waits(&self) -> bool {
        self.wire().decoder.waits()
    }

    /// Why the body broke off, if it did.
    pub(crate) fn failed(&self) -> Option<ReadError> {
        self.wire().failed
    }

    /// Bytes of the body so far.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.wire().body_bytes
    }

    /// Reads a preview, which is bounded, to its end: an answer may not come before.
    pub(crate) async fn read_ahead(&self) -> Result<(), ReadError> {
        std::future::poll_fn(|cx| {
            let mut wire = self.wire();
            loop {
                match ready!(wire.poll_wire(cx))? {
                    Piece::Data(data) => wire.ahead.push_back(data),
                    Piece::PreviewEnd | Piece::End(_) => return Poll::Ready(Ok(())),
                }
            }
        })
        .await
    }

    /// Reads whatever comes until the connection ends, and drops it.
    pub(crate) async fn discard(&self) {
        let poll = |cx: &mut Context<'_>| {
            let mut wire = self.wire();
            wire.buffer.clear();
            wire.poll_more(cx, BODY_BYTES)
        };
        while std::future::poll_fn(poll).await.is_ok() {}
    }

    /// Reads what is left of the body, or of its preview, and drops it.
    pub(crate) async fn skip(&self) -> Result<(), ReadError> {
        loop {
            let piece = std::future::poll_fn(|cx| self.wire().poll_piece(cx)).await?;
            if !matches!(piece, Piece::Data(_)) {
                return Ok(());
            }
        }
    }

    /// The body, and what learns that it wants what is behind the preview.
    pub(crate) fn body(&self) -> (IncomingBody, Gate) {
        let ((want, wanted), (open, opened)) = (oneshot::channel(), oneshot::channel());
        let body =
            IncomingBody { incoming: self.clone(), want: Some(want), opened, has_ended: false };
        (body, Gate { wanted, open: Some(open) })
    }
}

/// The way past a preview.
pub(crate) struct Gate {
    wanted: oneshot::Receiver<()>,
    open: Option<oneshot::Sender<()>>,
}

impl Gate {
    /// Returns when the body wants more than the preview; never if it does not.
    pub(crate) async fn wanted(&mut self) {
        if self.open.is_none() || (&mut self.wanted).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The client has been told to go on.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_none()
    }

    /// Lets the body read on: the client has been told to send the rest.
    pub(crate) fn open(&mut self) {
        // Nobody waits if the body is gone.
        let _ = self.open.take().map(|open| open.send(()));
    }
}

/// A request's body.
pub(crate) struct IncomingBody {
    incoming: Incoming,
    want: Option<oneshot::Sender<()>>,
    opened: oneshot::Receiver<()>,
    has_ended: bool,
}

impl Body for IncomingBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        while !self.has_ended {
            let piece = ready!(self.incoming.wire().poll_piece(cx));
            match piece {
                Ok(Piece::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Piece::PreviewEnd) => {
                    // The connection may be gone; then so is this body, soon.
                    let _ = self.want.take().map(|want| want.send(()));
                    if ready!(Pin::new(&mut self.opened).poll(cx)).is_err() {
                        return self.cut(ReadError::Closed);
                    }
                    self.incoming.wire().decoder.go_on();
                }
                Ok(Piece::End(trailers)) => {
                    self.has_ended = true;
                    if !trailers.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                    }
                }
                Err(error) => return self.cut(error),
            }
        }
        Poll::Ready(None)
    }
}

impl IncomingBody {
    fn cut(&mut self, error: ReadError) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.has_ended = true;
        Poll::Ready(Some(Err(Box::new(error))))
    }
}
