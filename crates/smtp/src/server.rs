//! The server side of SMTP and LMTP (RFC 5321 section 4.3) as a state machine without a socket.
//!
//! The owner of the socket calls [`Session::next`] with what it read until the result is
//! [`Event::More`], and writes what was appended to `out` before it waits for anything. Some events
//! need a decision; each names the method that answers it, and no more input is processed until
//! that is called.
//!
//! ```text
//! Mail ──answer──▶ Rcpt ──answer──▶ ... ──▶ Data ──start_body──▶ Message ──answer_message──▶
//! ```
//!
//! Invariants: a message is complete only at CR LF `.` CR LF (or the last BDAT chunk); all its
//! lines end with CR LF and have no NUL, so that it can be relayed as it was scanned; commands that
//! are out of order, malformed or ambiguous are replied to without a change of the transaction, and
//! input that cannot be answered safely ends the session.

mod auth;
mod body;
mod commands;
mod config;
mod event;
mod transaction;
mod xclient;

use std::sync::Arc;

use crate::command::{MailCommand, RcptCommand};
use crate::data::{DataDecoder, DataError};
use crate::reply::Reply;
use crate::scram::ClientFirst;

pub use config::{Features, SessionConfig, SessionLimits};
pub use event::{CloseReason, Event};
pub use transaction::Transaction;

const LINE_END_BYTES: usize = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Command,
    AuthPlain,
    AuthUser,
    AuthPassword(String),
    AuthScram(Box<auth::Scram>),
    Data(DataDecoder),
    Chunk { size: u64, left: u64, last: bool },
    Closed,
}

/// The decision that the host has to make next.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pending {
    Nothing,
    Mail(MailCommand),
    Rcpt(RcptCommand),
    Data,
    Chunk { size: u64, last: bool },
    Message,
    Auth(String),
    Credentials(ClientFirst),
    Tls,
}

/// One SMTP or LMTP session, from the greeting to QUIT.
#[derive(Debug)]
pub struct Session {
    config: Arc<SessionConfig>,
    phase: Phase,
    pending: Pending,
    /// The incomplete command line.
    line: Vec<u8>,
    /// The line is too long; its rest is skipped.
    line_overlong: bool,
    helo: Option<String>,
    extended: bool,
    tls: bool,
    user: Option<String>,
    trusts_xclient: bool,
    errors: u16,
    commands: u16,
    /// The host accepts no further message.
    refuses_messages: bool,
    transaction: Option<Box<Transaction>>,
}

impl Session {
    /// A session before its greeting. `tls`: TLS was negotiated before SMTP began (implicit TLS).
    pub fn new(config: Arc<SessionConfig>, tls: bool) -> Self {
        Session {
            config,
            phase: Phase::Command,
            pending: Pending::Nothing,
            line: Vec::new(),
            line_overlong: false,
            helo: None,
            extended: false,
            tls,
            user: None,
            trusts_xclient: false,
            errors: 0,
            commands: 0,
            refuses_messages: false,
            transaction: None,
        }
    }

    /// Accepts no further message: the next command but QUIT gets 421, and the connection is
    /// closed. So clients that keep connections open (RSET, NOOP) learn of it before they send
    /// MAIL; a 421 to MAIL would defer that message.
    pub fn refuse_further_messages(&mut self) {
        self.refuses_messages = true;
    }

    /// Appends the greeting (220).
    pub fn greet(&self, out: &mut Vec<u8>) {
        let kind = if self.config.features.lmtp { "LMTP" } else { "ESMTP" };
        Reply::plain(220, format!("{} {kind} Gauntlet", self.config.host)).write(out);
    }

    /// The argument of HELO, EHLO or LHLO; empty before.
    pub fn helo(&self) -> &str {
        self.helo.as_deref().unwrap_or_default()
    }

    /// The client sent EHLO or LHLO.
    pub fn is_extended(&self) -> bool {
        self.extended
    }

    /// The login that the client has proved, if any.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The session is LMTP: every recipient gets a reply to the message.
    pub fn is_lmtp(&self) -> bool {
        self.config.features.lmtp
    }

    /// The connection uses TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The transaction's recipient, if it has exactly one.
    pub fn only_recipient(&self) -> Option<&str> {
        match self.transaction.as_ref()?.recipients.as_slice() {
            [one] => Some(&one.to),
            _ => None,
        }
    }

    /// The envelope sender, once MAIL was accepted.
    pub fn sender(&self) -> Option<&str> {
        self.transaction.as_ref().map(|t| t.mail.from.as_str())
    }

    /// `SIZE=` of the message in bytes; 0 if it was not given.
    pub fn announced_bytes(&self) -> u64 {
        self.transaction.as_ref().and_then(|t| t.mail.size).unwrap_or(0)
    }

    /// The message uses SMTPUTF8.
    pub fn is_utf8(&self) -> bool {
        self.transaction.as_ref().is_some_and(|t| t.mail.utf8)
    }

    /// Bytes of memory held for the message.
    pub fn body_bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, |t| t.body.capacity())
    }

    /// Bytes of the message that [`Session::drain_body`] removed; 0 for a message that was refused.
    pub fn drained_bytes(&self) -> u64 {
        self.transaction.as_ref().map_or(0, |t| t.drained_bytes)
    }

    /// A message is being received.
    pub fn in_body(&self) -> bool {
        matches!(self.phase, Phase::Data(_) | Phase::Chunk { .. })
    }

    /// MAIL was accepted and the message is not yet replied to.
    pub fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Processes `input` up to the next event.
    pub fn next(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Event {
        debug_assert_eq!(self.pending, Pending::Nothing, "the last event has not been answered");
        loop {
            if input.is_empty() || self.pending != Pending::Nothing {
                return Event::More;
            }
            let event = match &mut self.phase {
                Phase::Closed => {
                    *input = &[];
                    None
                }
                Phase::Data(_) => self.read_data(input, out),
                Phase::Chunk { .. } => self.read_chunk(input, out),
                Phase::Command => self.read_line(input, out, Session::command),
                Phase::AuthPlain
                | Phase::AuthUser
                | Phase::AuthPassword(_)
                | Phase::AuthScram(_) => self.read_line(input, out, Session::auth_line),
            };
            if let Some(event) = event {
                return event;
            }
        }
    }

    /// Collects a line and passes it to `then`, with whether more input follows it.
    fn read_line(
        &mut self,
        input: &mut &[u8],
        out: &mut Vec<u8>,
        then: fn(&mut Self, &[u8], bool, &mut Vec<u8>) -> Option<Event>,
    ) -> Option<Event> {
        let end = memchr::memchr(b'\n', input);
        let (head, rest) = input.split_at(end.map_or(input.len(), |n| n + 1));
        *input = rest;
        if self.line.len() + head.len() > self.config.limits.line_bytes_max {
            self.line_overlong = true;
            self.line = Vec::new();
        } else if !self.line_overlong && (end.is_none() || !self.line.is_empty()) {
            self.line.extend_from_slice(head);
        }
        end?;
        if std::mem::take(&mut self.line_overlong) {
            return self.send_error(&Reply::new(500, (5, 5, 2), "line too long"), out);
        }
        let stored = std::mem::take(&mut self.line);
        let whole: &[u8] = if stored.is_empty() { head } else { &stored };
        match whole.strip_suffix(b"\r\n") {
            Some(line) if !line.contains(&b'\r') => then(self, line, !rest.is_empty(), out),
            Some(_) => Some(self.close_for_smuggling(DataError::BareCr, out)),
            None => Some(self.close_for_smuggling(DataError::BareLf, out)),
        }
    }

    /// Answers [`Event::Mail`] and [`Event::Rcpt`]: a positive reply accepts.
    pub fn answer(&mut self, reply: &Reply, out: &mut Vec<u8>) -> Option<Event> {
        let accepted = reply.is_positive();
        match (std::mem::replace(&mut self.pending, Pending::Nothing), accepted) {
            (Pending::Mail(mail), true) => {
                self.transaction = Some(Box::new(Transaction { mail, ..Transaction::default() }));
            }
            (Pending::Rcpt(rcpt), true) => {
                let lmtp = self.config.features.lmtp;
                if let Some(t) = &mut self.transaction {
                    // Each mailbox gets one copy. LMTP wants a reply for each RCPT, though (RFC
                    // 2033, section 4.2).
                    if lmtp || !t.recipients.iter().any(|known| known.is_same(&rcpt)) {
                        t.recipients.push(rcpt);
                        // Recipients have a limit of their own and do not count as commands.
                        self.commands = self.commands.saturating_sub(1);
                    } else {
                        self.excuse();
                    }
                }
            }
            _ => {}
        }
        if reply.is_permanent() { self.send_error(reply, out) } else { self.send_reply(reply, out) }
    }

    /// Does not count the last RCPT as a command, though it gave no recipient: a client with too
    /// many sends all of them, and is to send the message for those that were taken (RFC 5321,
    /// section 4.5.3.1.10). So it may once more for each recipient of the limit.
    fn excuse(&mut self) {
        let most = self.config.limits.recipients_max;
        if let Some(t) = self.transaction.as_mut().filter(|t| t.excused < most) {
            t.excused += 1;
            self.commands = self.commands.saturating_sub(1);
        }
    }

    /// The message of [`Event::Message`].
    pub fn take_message(&mut self) -> Option<Box<Transaction>> {
        self.transaction.take()
    }

    /// Answers [`Event::Message`]: one reply, or with LMTP one for each accepted recipient.
    pub fn answer_message(&mut self, replies: &[Reply], out: &mut Vec<u8>) {
        self.pending = Pending::Nothing;
        self.transaction = None;
        for reply in replies {
            reply.write(out);
        }
        self.commands = 0;
    }

    /// Call after the TLS handshake of [`Event::StartTls`]. Discards what the client said before
    /// (RFC 3207 section 4.2).
    pub fn tls_started(&mut self) {
        self.pending = Pending::Nothing;
        self.tls = true;
        self.helo = None;
        self.extended = false;
        self.transaction = None;
        self.line = Vec::new();
    }

    fn send_reply(&mut self, reply: &Reply, out: &mut Vec<u8>) -> Option<Event> {
        reply.write(out);
        None
    }

    /// Appends `reply` and counts it as an error of the client.
    fn send_error(&mut self, reply: &Reply, out: &mut Vec<u8>) -> Option<Event> {
        reply.write(out);
        self.count_error(out)
    }

    fn count_error(&mut self, out: &mut Vec<u8>) -> Option<Event> {
        self.errors = self.errors.saturating_add(1);
        if self.errors < self.config.limits.errors_max {
            return None;
        }
        let reply = Reply::new(421, (4, 7, 0), "too many errors");
        Some(self.close(&reply, CloseReason::TooManyErrors, out))
    }

    fn close_for_smuggling(&mut self, bad: DataError, out: &mut Vec<u8>) -> Event {
        let text = format!("{bad}, see RFC 5321 section 2.3.8");
        self.close(&Reply::new(521, (5, 5, 2), text), CloseReason::Smuggling(bad), out)
    }

    fn close(&mut self, reply: &Reply, reason: CloseReason, out: &mut Vec<u8>) -> Event {
        reply.write(out);
        self.phase = Phase::Closed;
        self.transaction = None;
        Event::Close(reason)
    }
}

#[cfg(test)]
mod tests;
