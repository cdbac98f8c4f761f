//! Bodies as they pass: types, and the wrappers that watch them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Frame, SizeHint};
use hyper::{Request, StatusCode};
use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

use crate::progress::Progress;
use crate::refusal::Refusal;

/// Why a body was cut.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// Any body.
pub(crate) type AnyBody = UnsyncBoxBody<Bytes, BodyError>;

/// A body without content.
pub(crate) fn empty() -> AnyBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A body of these bytes.
pub(crate) fn full(bytes: impl Into<Bytes>) -> AnyBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body that touches a [`Progress`] and counts its bytes.
pub(crate) struct Watched<B> {
    pub(crate) inner: B,
    pub(crate) progress: Option<Arc<Progress>>,
    pub(crate) bytes: Option<Arc<AtomicU64>>,
    /// More of it was asked for and is not here: whoever sends it is slow.
    pub(crate) waits: Option<Arc<AtomicBool>>,
    /// The connection that it came by cannot be used again.
    pub(crate) ends_connection: bool,
    /// Ends it when nothing has moved for too long, if its connection does not: that of HTTP/2,
    /// where others move.
    pub(crate) stalled: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<B> Body for Watched<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if let Some(waits) = &self.waits {
            waits.store(polled.is_pending(), Ordering::Relaxed);
        }
        let Poll::Ready(frame) = polled else {
            if let Some(stalled) = &mut self.stalled {
                std::task::ready!(stalled.as_mut().poll(cx));
                self.stalled = None;
                return Poll::Ready(Some(Err(Refusal::ResponseTimeout.into())));
            }
            return Poll::Pending;
        };
        if let Some(progress) = &self.progress {
            progress.touch();
        }
        if let (Some(Ok(frame)), Some(bytes)) = (&frame, &self.bytes) {
            let length = frame.data_ref().map_or(0, Bytes::len);
            bytes.fetch_add(length as u64, Ordering::Relaxed);
        }
        // A connection that is closed by its watch fails as one that the other side closes.
        let has_stalled = self.progress.as_ref().is_some_and(|progress| progress.has_stalled());
        Poll::Ready(frame.map(|frame| match frame {
            Err(_) if has_stalled => Err(Refusal::ResponseTimeout.into()),
            frame => frame.map_err(Into::into),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> Drop for Watched<B> {
    fn drop(&mut self) {
        if let Some(progress) = self.progress.as_ref().filter(|_| self.ends_connection) {
            progress.end();
        }
    }
}

/// A body whose client waits for `100 Continue`: it is not asked for until the server sent that.
///
/// hyper answers 100 to the client when the body is first asked for, so that the client's
/// expectation is the server's to meet (RFC 9110 section 10.1.1). If the final response comes
/// first, the body is never asked for.
pub(crate) struct Held<B> {
    inner: B,
    gate: Gate,
    wait: Pin<Box<Sleep>>,
    is_released: Arc<AtomicBool>,
}

/// What a held body waits for.
enum Gate {
    /// That the server says 100, or that the time is over.
    Waiting(oneshot::Receiver<()>),
    /// That the time is over: a response that has come ends the body before.
    Unattended,
    /// Nothing more.
    Open,
}

impl<B> Held<B> {
    /// Whether the body has been asked for.
    pub(crate) fn released(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_released)
    }

    fn release(&mut self) {
        self.gate = Gate::Open;
        self.is_released.store(true, Ordering::Relaxed);
    }
}

/// Holds a body back until [`release_on_continue`] or until the time is over: a server of HTTP/1.0
/// never says 100. Gives what releases it, too.
pub(crate) fn hold<B>(inner: B, wait_max: Duration) -> (Held<B>, oneshot::Sender<()>) {
    let (sender, receiver) = oneshot::channel();
    let wait = Box::pin(sleep(wait_max));
    (Held { inner, gate: Gate::Waiting(receiver), wait, is_released: Arc::default() }, sender)
}

/// Lets the body go when the server says 100.
pub(crate) fn release_on_continue<B>(request: &mut Request<B>, sender: oneshot::Sender<()>) {
    let sender = std::sync::Mutex::new(Some(sender));
    hyper::ext::on_informational(request, move |response| {
        let is_continue = response.status() == StatusCode::CONTINUE;
        let taken = sender.lock().ok().filter(|_| is_continue).and_then(|mut s| s.take());
        if let Some(sender) = taken {
            // Nobody waits if the time was over.
            let _ = sender.send(());
        }
    });
}

impl<B: Body + Unpin> Body for Held<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        if let Gate::Waiting(said) = &mut self.gate {
            match Pin::new(said).poll(cx) {
                Poll::Ready(Ok(())) => self.release(),
                // Nobody will say it: the final response is here, or the server speaks HTTP/2, of
                // which hyper tells no informational responses.
                Poll::Ready(Err(_)) => self.gate = Gate::Unattended,
                Poll::Pending => {}
            }
        }
        if !matches!(self.gate, Gate::Open) {
            std::task::ready!(self.wait.as_mut().poll(cx));
            self.release();
        }
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
