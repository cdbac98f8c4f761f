//! Events of a session, and why it ends.

use std::net::IpAddr;

use crate::command::{MailCommand, RcptCommand};
use crate::data::DataError;

/// What happened, or what the host has to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The input is consumed: write `out`, read more.
    More,
    /// MAIL was received: decide by [`super::Session::answer`].
    Mail(MailCommand),
    /// RCPT was received: decide by [`super::Session::answer`].
    Rcpt(RcptCommand),
    /// DATA or BDAT was received: call [`super::Session::start_body`] or
    /// [`super::Session::refuse_data`].
    Data,
    /// The message is complete: take it with [`super::Session::take_message`], then call
    /// [`super::Session::answer_message`].
    Message,
    /// AUTH PLAIN or LOGIN: call [`super::Session::answer_auth`].
    Auth {
        /// Login name as the client gave it.
        user: String,
        /// Password in plain text.
        password: String,
    },
    /// AUTH SCRAM-SHA-256 of this login: call [`super::Session::challenge`].
    Credentials(String),
    /// A SCRAM login succeeded. Needs no answer.
    LoggedIn(String),
    /// A SCRAM login failed. Needs no answer.
    LoginFailed(String),
    /// A trusted relay reported its client's address by XCLIENT; none if it does not know it. Needs
    /// no answer.
    Client(Option<IpAddr>),
    /// Write `out`, do the TLS handshake, then call [`super::Session::tls_started`].
    StartTls,
    /// Write `out` and close the connection.
    Close(CloseReason),
}

/// Why a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The client sent QUIT.
    Quit,
    /// More errors than [`super::SessionLimits::errors_max`].
    TooManyErrors,
    /// More commands than [`super::SessionLimits::commands_max`].
    TooManyCommands,
    /// The host accepts no further message in this session.
    TooManyMessages,
    /// The client pipelined after a command that forbids it.
    Unsynchronised,
    /// A large BDAT chunk outside a transaction.
    RefusedChunk,
    /// Bare CR, bare LF or NUL: SMTP smuggling.
    Smuggling(DataError),
    /// The client sent HTTP.
    NotSmtp,
}
