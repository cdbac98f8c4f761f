//! HTTPS: the console's connections through TLS, with certificates that the node keeps.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::rustls::{ServerConfig, ServerConnection};
use tokio_rustls::server::TlsStream;

/// Bytes of plain text that one connection may hold back for a client that does not read.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// TLS of the console: what the node shows its clients.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Of this configuration; certificates that it changes later are shown from then on.
    pub fn new(config: Arc<ServerConfig>) -> Self {
        Tls(config)
    }

    /// Makes a client's connection a TLS one.
    ///
    /// # Errors
    /// The handshake's, or that it took longer than `wait_max`.
    pub(crate) async fn accept(&self, stream: TcpStream, wait_max: Duration) -> io::Result<Stream> {
        let acceptor = tokio_rustls::TlsAcceptor::from(self.0.clone());
        let limited = |c: &mut ServerConnection| c.set_buffer_limit(Some(BUFFER_BYTES_MAX));
        let shaken = tokio::time::timeout(wait_max, acceptor.accept_with(stream, limited)).await;
        let slow = |_| io::Error::new(io::ErrorKind::TimedOut, "no TLS handshake in time");
        Ok(Stream::Tls(Box::new(shaken.map_err(slow)??)))
    }
}

/// A connection, with or without TLS.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        }
    }
}
