//! A connection to the server that is measured, whatever the protocol.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::bucket::{self, Bucket};
use super::corpus::Item;
use super::{clamd, http, milter, smtp, spamd};

/// How messages are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// RFC 5321, to a gateway or MTA.
    Smtp,
    /// RFC 2033, to a delivery agent or a content filter.
    Lmtp,
    /// What spamc speaks to spamd: `CHECK`.
    Spamd,
    /// What clamdscan speaks to clamd: `INSTREAM`.
    Clamd,
    /// What rspamc speaks to rspamd: `POST /checkv2`.
    Rspamd,
    /// What an MTA speaks to its mail filters, version 6.
    Milter,
}

impl Protocol {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Smtp => "smtp",
            Protocol::Lmtp => "lmtp",
            Protocol::Spamd => "spamd",
            Protocol::Clamd => "clamd",
            Protocol::Rspamd => "rspamd",
            Protocol::Milter => "milter",
        }
    }
}

/// What the server made of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Taken, or called ham.
    Passed,
    /// Called spam by a protocol that says so.
    Spam,
    /// Refused for good.
    Refused,
    /// Refused for now.
    Deferred,
    /// No answer: broken off, out of time, or not understood.
    Failed,
}

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The system.
    #[error(transparent)]
    System(#[from] io::Error),
    /// What came is not the protocol.
    #[error("{0}")]
    Protocol(String),
    /// Too late.
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

/// Sender and recipient of what is sent.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// Of MAIL.
    pub from: String,
    /// Of RCPT; `{}` becomes a number from 0 to `users - 1`.
    pub to: String,
    /// Different recipients.
    pub users: u64,
}

impl Addresses {
    /// The recipient of the message with this number.
    pub(crate) fn to(&self, number: u64) -> String {
        if self.to.contains("{}") {
            self.to.replace("{}", &(number % self.users.max(1)).to_string())
        } else {
            self.to.clone()
        }
    }
}

/// Puts a message into the form of the protocol.
pub(crate) fn prepare(protocol: Protocol, item: &Item) -> Prepared {
    let mut prepared = match protocol {
        Protocol::Smtp | Protocol::Lmtp => smtp::prepare(&item.raw),
        Protocol::Spamd => spamd::prepare(&item.raw),
        Protocol::Clamd => clamd::prepare(&item.raw),
        Protocol::Rspamd => http::prepare(&item.raw),
        Protocol::Milter => milter::prepare(&item.raw),
    };
    prepared.size = item.raw.len() as u64;
    prepared
}

/// An open connection.
pub(crate) enum Connection {
    Smtp(Box<smtp::Conversation>),
    Spamd(spamd::Exchange),
    Clamd(clamd::Session),
    Rspamd(http::Exchange),
    Milter(Box<milter::Conversation>),
}

impl Connection {
    /// Connects, and speaks as far as a first message can be sent.
    pub(crate) async fn open(
        protocol: Protocol,
        target: SocketAddr,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let open = async {
            let stream = Link::open(target, None).await?;
            Ok::<_, Failure>(match protocol {
                Protocol::Smtp => {
                    Self::Smtp(Box::new(smtp::Conversation::open(stream, false).await?))
                }
                Protocol::Lmtp => {
                    Self::Smtp(Box::new(smtp::Conversation::open(stream, true).await?))
                }
                Protocol::Spamd => Self::Spamd(spamd::Exchange::new(stream)),
                Protocol::Clamd => Self::Clamd(clamd::Session::open(stream).await?),
                Protocol::Rspamd => Self::Rspamd(http::Exchange::new(stream)),
                Protocol::Milter => {
                    Self::Milter(Box::new(milter::Conversation::open(stream).await?))
                }
            })
        };
        tokio::time::timeout(timeout, open).await.unwrap_or(Err(Failure::Timeout))
    }

    /// Passes a message. After a failure the connection is of no more use.
    pub(crate) async fn pass(
        &mut self,
        message: &Prepared,
        from: &str,
        to: &str,
        timeout: Duration,
    ) -> Result<Outcome, Failure> {
        let pass = async {
            match self {
                Self::Smtp(conversation) => conversation.pass(message, from, to).await,
                Self::Spamd(exchange) => exchange.pass(message).await,
                Self::Clamd(session) => session.pass(message).await,
                Self::Rspamd(exchange) => exchange.pass(message).await,
                Self::Milter(conversation) => conversation.pass(message, from, to).await,
            }
        };
        tokio::time::timeout(timeout, pass).await.unwrap_or(Err(Failure::Timeout))
    }

    /// Another message may be passed.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Self::Smtp(conversation) => conversation.is_open(),
            Self::Spamd(_) => false,
            Self::Rspamd(exchange) => exchange.is_open(),
            Self::Clamd(_) | Self::Milter(_) => true,
        }
    }

    /// Says goodbye where the protocol knows it.
    pub(crate) async fn close(self, timeout: Duration) {
        if let Self::Smtp(mut conversation) = self {
            // The figures are taken; a goodbye that fails harms nobody.
            let _ = tokio::time::timeout(timeout, conversation.quit()).await;
        }
    }
}

/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 8 << 10;

/// A socket, and what was read of an answer.
pub(crate) struct Link {
    stream: TcpStream,
    /// Bytes/s that may be written, shared by all connections.
    bucket: Option<Arc<Bucket>>,
    /// Read and not yet used.
    pub(crate) input: Vec<u8>,
}

impl Link {
    /// Connects.
    pub(crate) async fn open(
        target: SocketAddr,
        bucket: Option<Arc<Bucket>>,
    ) -> Result<Self, Failure> {
        let stream = TcpStream::connect(target).await?;
        stream.set_nodelay(true)?;
        Ok(Link { stream, bucket, input: Vec::new() })
    }

    /// Writes all of it, as fast as the link is.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(bucket) = &self.bucket else { return Ok(self.stream.write_all(bytes).await?) };
        for piece in bytes.chunks(bucket::PIECE_BYTES) {
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
