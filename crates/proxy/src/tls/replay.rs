//! A stream that gives bytes again that were read from it.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::{Stream, Tcp};

/// First these bytes, then the stream.
#[derive(Debug)]
pub(crate) struct Replay<S> {
    first: Bytes,
    stream: S,
}

impl<S> Replay<S> {
    pub(crate) fn new(first: impl Into<Bytes>, stream: S) -> Self {
        Replay { first: first.into(), stream }
    }
}

impl<S: Stream> Stream for Replay<S> {
    fn is_plain(&self) -> bool {
        self.stream.is_plain()
    }

    fn into_tcp(self: Box<Self>) -> Option<Tcp> {
        Some(Box::new(self.stream).into_tcp()?.after(self.first))
    }

    fn address(&self) -> Option<IpAddr> {
        self.stream.address()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Replay<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let length = self.first.len().min(buffer.remaining());
        buffer.put_slice(self.first.get(..length).unwrap_or_default());
        self.first.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Replay<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, buffers)
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn bytes_come_again_before_the_rest() {
        let mut replay = Replay::new("first, ", &b"then"[..]);
        let mut three = [0; 3];
        replay.read_exact(&mut three).await.unwrap();
        let mut rest = String::new();
        replay.read_to_string(&mut rest).await.unwrap();
        assert_eq!((&three, rest.as_str()), (b"fir", "st, then"));
    }
}
