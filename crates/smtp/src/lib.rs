//! SMTP, LMTP (RFC 5321, RFC 2033) and the protocols of mail filters as parsers and state machines
//! without sockets.
//!
//! Bytes go in, events and bytes come out: [`Session`] is the server, [`Client`] the client. The
//! owner of the socket moves the bytes. So a session can be tested as a text file, fuzzed, and run
//! inside a simulation.
//!
//! | Module | RFC |
//! |---|---|
//! | [`address`] | 5321 section 4.1.2, 6531 (paths, mailboxes) |
//! | [`command`] | 5321 section 4.1.1, 1870, 2920, 3030, 3461, 3207, 4954, 6152, 6531 |
//! | [`reply`] | 5321 section 4.2, 2034 and 3463 (enhanced codes) |
//! | [`data`] | 5321 section 4.5.2 (transparency) |
//! | [`server`] | 5321 section 4.3 (sequencing), 2033, 2920, 3030 |
//! | [`scram`] | 5802, 7677 (SCRAM-SHA-256) |
//! | [`proxy`] | PROXY protocol, version 2 |
//! | [`client`] | 5321 section 4.5.4 |
//! | [`text`] | none: outside text that stays on its line |
//! | [`milter`] | none: Sendmail's filters, versions 2 to 6 |
//! | [`spamd`] | none: SpamAssassin's spamd and spamc, 1.2 to 1.5 |
//!
//! Parsers are total: for any bytes they return in bounded time and memory.

pub mod address;
pub mod client;
pub mod command;
pub mod data;
pub mod milter;
pub mod proxy;
pub mod reply;
pub mod scram;
pub mod server;
pub mod spamd;
pub mod text;

pub use client::{
    Capabilities, Client, ClientConfig, ClientError, ClientEvent, Outgoing, OutgoingRecipient,
    RecipientReply,
};
pub use command::{Command, CommandError, MailCommand, Notify, RcptCommand, Ret};
pub use data::{DataDecoder, DataError, DataStep, LineCheck, dot_stuff, needs_dot_stuffing};
pub use reply::{Reply, ReplyReader};
pub use server::{
    CloseReason, Event, Features, Session, SessionConfig, SessionLimits, Transaction,
};
