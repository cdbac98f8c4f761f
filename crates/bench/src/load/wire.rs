//! What all protocols of the load generator share: prepared messages, outcomes, and the socket.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::token_bucket::{self, TokenBucket};

/// What the server made of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Taken, or called ham.
    Passed,
    /// Called spam by a protocol that says so.
    Spam,
    /// Refused for good (5xx).
    Refused,
    /// To come again later (4xx).
    Deferred,
    /// No answer: broken off, out of time, or not understood.
    Failed,
}

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The operating system failed a call.
    #[error(transparent)]
    System(#[from] io::Error),
    /// What came is not the protocol.
    #[error("{0}")]
    Protocol(String),
    /// The time-out has passed.
    #[error("no answer in time")]
    Timeout,
}

impl Failure {
    /// It was for want of something on the client's side.
    pub(crate) fn is_clients(&self) -> bool {
        let Failure::System(error) = self else { return false };
        let numbers =
            [libc::EMFILE, libc::ENFILE, libc::EADDRNOTAVAIL, libc::ENOMEM, libc::ENOBUFS];
        error.raw_os_error().is_some_and(|n| numbers.contains(&n))
    }
}

/// A message in the form of the protocol.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// Bytes that go over the wire as they are.
    pub(crate) wire: Vec<u8>,
    /// Ends of pieces of `wire` that each wait for an answer (milter).
    pub(crate) pieces: Vec<usize>,
    /// Bytes of the message itself.
    pub(crate) size: u64,
    /// It holds bytes over 127.
    pub(crate) eight_bit: bool,
}

/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 8 << 10;

/// A socket, and what was read of an answer.
pub(crate) struct Link {
    stream: TcpStream,
    /// Bytes/s that may be written, shared by all connections.
    bucket: Option<Arc<TokenBucket>>,
    /// Read and not yet used.
    pub(crate) input: Vec<u8>,
}

impl Link {
    /// Connects, and paces what it writes by the bucket.
    pub(crate) async fn open(
        target: SocketAddr,
        bucket: Option<Arc<TokenBucket>>,
    ) -> Result<Self, Failure> {
        let stream = TcpStream::connect(target).await?;
        stream.set_nodelay(true)?;
        Ok(Link { stream, bucket, input: Vec::new() })
    }

    /// Writes all of it, as fast as the link is.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(bucket) = &self.bucket else { return Ok(self.stream.write_all(bytes).await?) };
        for piece in bytes.chunks(token_bucket::PIECE_BYTES) {
            bucket.take(piece.len()).await;
            self.stream.write_all(piece).await?;
        }
        Ok(())
    }

    /// Says that no more will be written.
    pub(crate) async fn finish(&mut self) -> Result<(), Failure> {
        Ok(self.stream.shutdown().await?)
    }

    /// Appends what there is to `input`; false at the end of the stream.
    pub(crate) async fn read(&mut self) -> Result<bool, Failure> {
        if self.input.len() > ANSWER_BYTES_MAX {
            return Err(Failure::Protocol(format!("an answer over {ANSWER_BYTES_MAX} bytes")));
        }
        self.input.reserve(READ_BYTES);
        Ok(self.stream.read_buf(&mut self.input).await? > 0)
    }

    /// Reads more; the end of the stream is a failure.
    pub(crate) async fn more(&mut self) -> Result<(), Failure> {
        if self.read().await? {
            Ok(())
        } else {
            Err(Failure::Protocol("the server closed the connection".to_owned()))
        }
    }
}
