//! Anything that bytes come from and go to.

use std::any::Any;
use std::net::IpAddr;

use bytes::{Bytes, BytesMut};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::{client, server};

/// Bytes both ways.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// They go through a socket as they are.
    fn is_plain(&self) -> bool {
        false
    }

    /// That socket, if they do.
    fn into_tcp(self: Box<Self>) -> Option<Tcp> {
        None
    }

    /// The address at the other end, if that is known.
    fn address(&self) -> Option<IpAddr> {
        None
    }
}

/// A socket that was below a stream.
pub(crate) struct Tcp {
    pub(crate) stream: TcpStream,
    /// Bytes that were taken from it before.
    pub(crate) first: Bytes,
    /// What lives as long as the socket is used.
    pub(crate) keeps: Option<Box<dyn Any + Send + Sync>>,
}

/// One after the other; mostly, one of them is empty.
pub(crate) fn joined(first: Bytes, then: Bytes) -> Bytes {
    match (first.is_empty(), then.is_empty()) {
        (true, _) => then,
        (_, true) => first,
        (false, false) => {
            let mut both = BytesMut::from(first);
            both.extend_from_slice(&then);
            both.freeze()
        }
    }
}

impl Tcp {
    /// With bytes that come before its own.
    pub(crate) fn after(self, first: Bytes) -> Self {
        Tcp { first: joined(first, self.first), ..self }
    }
}

impl Stream for TcpStream {
    fn is_plain(&self) -> bool {
        true
    }

    fn into_tcp(self: Box<Self>) -> Option<Tcp> {
        Some(Tcp { stream: *self, first: Bytes::new(), keeps: None })
    }

    fn address(&self) -> Option<IpAddr> {
        self.peer_addr().ok().map(|peer| peer.ip().to_canonical())
    }
}

impl Stream for Box<dyn Stream> {
    fn is_plain(&self) -> bool {
        (**self).is_plain()
    }

    fn into_tcp(self: Box<Self>) -> Option<Tcp> {
        (*self).into_tcp()
    }

    fn address(&self) -> Option<IpAddr> {
        (**self).address()
    }
}

impl Stream for TokioIo<Upgraded> {}
impl<S: Stream> Stream for server::TlsStream<S> {}

impl<S: Stream> Stream for client::TlsStream<S> {
    fn address(&self) -> Option<IpAddr> {
        self.get_ref().0.address()
    }
}

/// A connection that hyper gives back: the stream `S` that it was made of, and the bytes that were
/// read from it and are no HTTP.
///
/// # Errors
/// With the connection, if it was made of something else.
pub(crate) fn given_back<S: Stream>(upgraded: Upgraded) -> Result<(S, Bytes), TokioIo<Upgraded>> {
    // That of a client is wrapped by what tells the versions of HTTP apart.
    let upgraded = match auto::upgrade::downcast::<TokioIo<S>>(upgraded) {
        Ok(parts) => return Ok((parts.io.into_inner(), parts.read_buf)),
        Err(upgraded) => upgraded,
    };
    match upgraded.downcast::<TokioIo<S>>() {
        Ok(parts) => Ok((parts.io.into_inner(), parts.read_buf)),
        Err(upgraded) => Err(TokioIo::new(upgraded)),
    }
}
