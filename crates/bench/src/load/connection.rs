//! A connection to the server that is measured, whatever the protocol.

use std::net::SocketAddr;
use std::time::Duration;

use super::corpus::Item;
use super::wire::{Failure, Link, Outcome, Prepared};
use super::{clamd, http, milter, smtp, spamd};
use crate::protocol::Protocol;

/// Sender and recipient of what is sent.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// Envelope sender of every message.
    pub from: String,
    /// Of RCPT; `{}` becomes a number from 0 to `users - 1`.
    pub to: String,
    /// Number of different recipients, by turns.
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

/// A connection of any protocol, ready for the next message.
pub(crate) enum Connection {
    Smtp(Box<smtp::Conversation>),
    Spamd(spamd::Exchange),
    Clamd(clamd::Session),
    Rspamd(http::Exchange),
    Milter(Box<milter::Conversation>),
}

impl Connection {
    /// Connects, and runs the protocol up to where a first message can be sent.
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
            // The figures are taken; a QUIT that fails does not matter.
            let _ = tokio::time::timeout(timeout, conversation.quit()).await;
        }
    }
}
