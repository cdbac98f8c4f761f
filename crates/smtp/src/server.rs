//! The accepting side of a conversation (RFC 5321 section 4.3), without a socket.
//!
//! The owner of the socket calls [`Session::next`] with what it read until the answer is
//! [`Event::More`], sending what gathers in `out` before it waits for anything. Some events are
//! questions; each names the method that answers it, and nothing more is read until it is called.
//!
//! ```text
//! Mail ──answer──▶ Rcpt ──answer──▶ ... ──▶ Data ──start_body──▶ Message ──answer_message──▶
//! ```
//!
//! Invariants: a message is complete only at CR LF `.` CR LF (or the last BDAT chunk); all of it is lines
//! that end with CR LF, without NUL, so that it can be sent on as it was judged; whatever is
//! out of order, malformed or ambiguous is answered without touching the transaction, and what
//! cannot be answered safely ends the conversation.

mod auth;
mod transaction;
mod xclient;

use std::sync::Arc;

use crate::command::{Command, CommandError, MailCommand, RcptCommand};
use crate::data::{BadData, DataDecoder, DataStep, LineCheck};
use crate::reply::Reply;
use crate::scram::First;

/// Bytes of CR LF.
const LINE_END_BYTES: usize = 2;

/// Bounds of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Longest command line, in bytes with its CR LF. RFC 5321 asks for 512 plus what extensions
    /// add; AUTH wants 12,288 (RFC 4954 section 4).
    pub line_bytes_max: usize,
    /// Largest message, in bytes.
    pub message_bytes_max: u64,
    /// Largest chunk (BDAT) that is read past when it was refused before it came, in bytes; a larger one
    /// closes the connection. A client that pipelines has sent such a chunk before it reads the refusal.
    pub refused_chunk_bytes_max: u64,
    /// Most recipients of one message; RFC 5321 asks for at least 100.
    pub recipients_max: usize,
    /// Errors after which the conversation ends with 421.
    pub errors_max: u16,
    /// Commands without a message between them after which the conversation ends with 421.
    pub commands_max: u16,
}

impl Default for SessionLimits {
    fn default() -> Self {
        SessionLimits {
            line_bytes_max: 12_288,
            message_bytes_max: 50 * 1024 * 1024,
            refused_chunk_bytes_max: 1024 * 1024,
            recipients_max: 1_000,
            errors_max: 10,
            commands_max: 200,
        }
    }
}

/// What a listener offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// STARTTLS.
    pub starttls: bool,
    /// AUTH PLAIN and LOGIN, once TLS is on.
    pub auth: bool,
    /// AUTH SCRAM-SHA-256 as well.
    pub scram: bool,
    /// MAIL only after AUTH.
    pub auth_required: bool,
    /// LMTP (RFC 2033): LHLO, and a reply for each recipient.
    pub lmtp: bool,
}

/// What all sessions of a listener share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// Our name in the greeting.
    pub host: String,
    /// Bounds.
    pub limits: SessionLimits,
    /// Extensions that depend on the listener.
    pub features: Features,
}

/// A message on its way in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transaction {
    /// MAIL.
    pub mail: MailCommand,
    /// RCPTs that were accepted, in order.
    pub recipients: Vec<RcptCommand>,
    /// What [`Session::start_body`] put first, then the message with CR LF line ends.
    pub body: Vec<u8>,
    /// Bytes of `body` that were put first.
    pub prefix_bytes: usize,
    /// It came by BDAT.
    pub chunked: bool,
    /// Bytes of the message that [`Session::drain_body`] took away.
    drained_bytes: u64,
    /// Set when the message is refused while its rest is still being read.
    refusal: Option<Reply>,
    /// Where chunks are in a line.
    lines: LineCheck,
    /// What was wrong with the bytes of a chunk that is still being read.
    bad: Option<BadData>,
}

/// What happened, or what the host has to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The input is used up: send `out`, read more.
    More,
    /// MAIL: call [`Session::answer`].
    Mail(MailCommand),
    /// RCPT: call [`Session::answer`].
    Rcpt(RcptCommand),
    /// The message is about to come: call [`Session::start_body`] or [`Session::refuse_data`].
    Data,
    /// The message is complete: take it with [`Session::take_message`], then call
    /// [`Session::answer_message`].
    Message,
    /// The client wants to log in: call [`Session::answer_auth`].
    Auth {
        /// Login.
        user: String,
        /// Password.
        password: String,
    },
    /// The client wants to log in by SCRAM: call [`Session::challenge`].
    Credentials(String),
    /// A SCRAM login was proven. Nothing is to be answered.
    LoggedIn(String),
    /// A SCRAM login was not proven. Nothing is to be answered.
    LoginFailed(String),
    /// A trusted relay speaks for this client (XCLIENT), or for one that it does not know. Nothing is to
    /// be answered.
    Client(Option<std::net::IpAddr>),
    /// Send `out`, make the connection a TLS one, then call [`Session::tls_started`].
    StartTls,
    /// Send `out` and close the connection.
    Close(CloseReason),
}

/// Why a conversation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// QUIT.
    Quit,
    /// More errors than the limit.
    TooManyErrors,
    /// More commands than the limit.
    TooManyCommands,
    /// As many messages as the host takes in one session.
    TooManyMessages,
    /// The client did not wait for an answer where it must.
    Unsynchronised,
    /// A large chunk (BDAT) that belongs to no message.
    RefusedChunk,
    /// Bare CR, bare LF or NUL.
    Smuggling(BadData),
    /// The client speaks HTTP.
    NotSmtp,
}

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

/// The question the host owes an answer to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Owed {
    Nothing,
    Mail(MailCommand),
    Rcpt(RcptCommand),
    Data,
    Chunk { size: u64, last: bool },
    Message,
    Auth(String),
    Credentials(First),
    Tls,
}

/// One conversation, from the greeting to QUIT.
#[derive(Debug)]
pub struct Session {
    config: Arc<SessionConfig>,
    phase: Phase,
    owed: Owed,
    /// The part of a command line that has come.
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
    /// The host takes no message after the last one.
    ends: bool,
    transaction: Option<Box<Transaction>>,
}

impl Session {
    /// A session before its greeting. `tls`: the connection has been a TLS one from its start.
    pub fn new(config: Arc<SessionConfig>, tls: bool) -> Self {
        Session {
            config,
            phase: Phase::Command,
            owed: Owed::Nothing,
            line: Vec::new(),
            line_overlong: false,
            helo: None,
            extended: false,
            tls,
            user: None,
            trusts_xclient: false,
            errors: 0,
            commands: 0,
            ends: false,
            transaction: None,
        }
    }

    /// No message is taken after this one: the next command but QUIT gets 421, and the connection is
    /// closed. Clients that keep connections for later (RSET, NOOP) then know before they have a message
    /// for it: who is told at MAIL only defers that message.
    pub fn take_no_more(&mut self) {
        self.ends = true;
    }

    /// Appends the greeting.
    pub fn greet(&self, out: &mut Vec<u8>) {
        let kind = if self.config.features.lmtp { "LMTP" } else { "ESMTP" };
        Reply::plain(220, format!("{} {kind} Gauntlet", self.config.host)).write(out);
    }

    /// The name the client gave in HELO, EHLO or LHLO; empty before.
    pub fn helo(&self) -> &str {
        self.helo.as_deref().unwrap_or_default()
    }

    /// The client said EHLO or LHLO.
    pub fn is_extended(&self) -> bool {
        self.extended
    }

    /// Who logged in.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The conversation is LMTP: every recipient gets a reply to the message.
    pub fn is_lmtp(&self) -> bool {
        self.config.features.lmtp
    }

    /// The connection is a TLS one.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The message's recipient, if it has one only.
    pub fn only_recipient(&self) -> Option<&str> {
        match self.transaction.as_ref()?.recipients.as_slice() {
            [one] => Some(&one.to),
            _ => None,
        }
    }

    /// The sender of the message, once MAIL was accepted.
    pub fn sender(&self) -> Option<&str> {
        self.transaction.as_ref().map(|t| t.mail.from.as_str())
    }

    /// Bytes that the client announced for the message; 0 if it did not.
    pub fn announced_bytes(&self) -> u64 {
        self.transaction.as_ref().and_then(|t| t.mail.size).unwrap_or(0)
    }

    /// The message uses SMTPUTF8.
    pub fn is_utf8(&self) -> bool {
        self.transaction.as_ref().is_some_and(|t| t.mail.utf8)
    }

    /// Bytes of memory that the message holds.
    pub fn body_bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, |t| t.body.capacity())
    }

    /// Bytes of the body that [`Session::drain_body`] took away: of a message that was refused, none.
    pub fn drained_bytes(&self) -> u64 {
        self.transaction.as_ref().map_or(0, |t| t.drained_bytes)
    }

    /// Takes away what came of the body, so that the host can keep it elsewhere than in memory; the
    /// transaction of [`Session::take_message`] then holds the rest only. The last two bytes stay: the
    /// line end before a message's end is looked for there.
    pub fn drain_body(&mut self) -> Vec<u8> {
        let Some(t) = &mut self.transaction else { return Vec::new() };
        let keep = t.body.split_off(t.body.len().saturating_sub(LINE_END_BYTES));
        let drained = std::mem::replace(&mut t.body, keep);
        let prefix = t.prefix_bytes.min(drained.len());
        t.drained_bytes += (drained.len() - prefix) as u64;
        t.prefix_bytes -= prefix;
        drained
    }

    /// A message is being received.
    pub fn in_body(&self) -> bool {
        matches!(self.phase, Phase::Data(_) | Phase::Chunk { .. })
    }

    /// MAIL was accepted and the message is not yet answered.
    pub fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Reads `input` up to the next event.
    pub fn next(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Event {
        debug_assert_eq!(self.owed, Owed::Nothing, "the last event has not been answered");
        loop {
            if input.is_empty() || self.owed != Owed::Nothing {
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

    /// Collects a line and hands it to `then`, with whether more input waits behind it.
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
            return self.error(&Reply::new(500, (5, 5, 2), "line too long"), out);
        }
        let stored = std::mem::take(&mut self.line);
        let whole: &[u8] = if stored.is_empty() { head } else { &stored };
        match whole.strip_suffix(b"\r\n") {
            Some(line) if !line.contains(&b'\r') => then(self, line, !rest.is_empty(), out),
            Some(_) => Some(self.refuse_smuggling(BadData::BareCr, out)),
            None => Some(self.refuse_smuggling(BadData::BareLf, out)),
        }
    }

    fn command(&mut self, line: &[u8], more: bool, out: &mut Vec<u8>) -> Option<Event> {
        self.commands = self.commands.saturating_add(1);
        if self.commands > self.config.limits.commands_max {
            let reply = Reply::new(421, (4, 7, 0), "too many commands");
            return Some(self.close(&reply, CloseReason::TooManyCommands, out));
        }
        let command = match Command::parse(line) {
            Ok(command) => command,
            Err(CommandError::Unknown) if is_http(line) => {
                let reply = Reply::new(554, (5, 7, 0), "this is SMTP");
                return Some(self.close(&reply, CloseReason::NotSmtp, out));
            }
            Err(error) => return self.error(&error.reply(), out),
        };
        if self.ends && command != Command::Quit {
            let reply = Reply::new(421, (4, 7, 0), "enough messages in one session, connect again");
            return Some(self.close(&reply, CloseReason::TooManyMessages, out));
        }
        let must_wait = matches!(
            command,
            Command::Helo(_)
                | Command::Ehlo(_)
                | Command::Lhlo(_)
                | Command::Data
                | Command::StartTls
                | Command::Auth { .. }
                | Command::Xclient(_)
        );
        if must_wait && more {
            let reply = Reply::new(554, (5, 5, 0), "improper use of pipelining");
            return Some(self.close(&reply, CloseReason::Unsynchronised, out));
        }
        match command {
            Command::Helo(name) => self.hello(name, false, false, out),
            Command::Ehlo(name) => self.hello(name, true, false, out),
            Command::Lhlo(name) => self.hello(name, true, true, out),
            Command::Mail(mail) => self.mail(mail, out),
            Command::Rcpt(rcpt) => self.rcpt(rcpt, out),
            Command::Data => self.data(out),
            Command::Bdat { size, last } => self.bdat(size, last, out),
            Command::Rset => {
                self.transaction = None;
                self.say(&Reply::new(250, (2, 0, 0), "Ok"), out)
            }
            Command::Noop => self.say(&Reply::new(250, (2, 0, 0), "Ok"), out),
            Command::Quit => {
                Some(self.close(&Reply::new(221, (2, 0, 0), "Bye"), CloseReason::Quit, out))
            }
            Command::Vrfy => {
                self.say(&Reply::new(252, (2, 5, 2), "cannot verify; send the mail"), out)
            }
            Command::Expn => {
                self.error(&Reply::new(502, (5, 5, 1), "lists are not expanded here"), out)
            }
            Command::Help => {
                let text = "HELO EHLO MAIL RCPT DATA BDAT RSET NOOP QUIT VRFY HELP";
                self.say(&Reply::new(214, (2, 0, 0), text), out)
            }
            Command::StartTls => self.starttls(out),
            Command::Auth { mechanism, initial } => self.auth(&mechanism, initial, out),
            Command::Xclient(arguments) => self.xclient(&arguments, out),
        }
    }

    fn hello(
        &mut self,
        name: String,
        extended: bool,
        lmtp: bool,
        out: &mut Vec<u8>,
    ) -> Option<Event> {
        if lmtp != self.config.features.lmtp {
            let wanted = if lmtp { "this is SMTP: EHLO" } else { "this is LMTP: LHLO" };
            return self.error(&Reply::new(500, (5, 5, 1), wanted), out);
        }
        self.transaction = None;
        self.helo = Some(name);
        self.extended = extended;
        if !extended {
            return self.say(&Reply::plain(250, self.config.host.clone()), out);
        }
        let features = self.config.features;
        let mut text = format!(
            "{}\nPIPELINING\nSIZE {}\n8BITMIME\nSMTPUTF8\nENHANCEDSTATUSCODES\nCHUNKING\nDSN",
            self.config.host, self.config.limits.message_bytes_max
        );
        if features.starttls && !self.tls {
            text.push_str("\nSTARTTLS");
        }
        if features.auth && self.tls {
            let scram = if features.scram { "SCRAM-SHA-256 " } else { "" };
            text.push_str(&format!("\nAUTH {scram}PLAIN LOGIN"));
        }
        if self.trusts_xclient {
            text.push('\n');
            text.push_str(xclient::OFFER);
        }
        self.say(&Reply::plain(250, text), out)
    }

    fn mail(&mut self, mail: MailCommand, out: &mut Vec<u8>) -> Option<Event> {
        let limits = self.config.limits;
        if self.helo.is_none() {
            return self.error(&Reply::new(503, (5, 5, 1), "say EHLO first"), out);
        }
        if self.config.features.auth_required && self.user.is_none() {
            return self.error(&Reply::new(530, (5, 7, 0), "authentication required"), out);
        }
        if self.transaction.is_some() {
            return self.error(&Reply::new(503, (5, 5, 1), "nested MAIL"), out);
        }
        if mail.size.is_some_and(|size| size > limits.message_bytes_max) {
            let text = format!("message larger than {} bytes", limits.message_bytes_max);
            return self.error(&Reply::new(552, (5, 3, 4), text), out);
        }
        self.owed = Owed::Mail(mail.clone());
        Some(Event::Mail(mail))
    }

    fn rcpt(&mut self, rcpt: RcptCommand, out: &mut Vec<u8>) -> Option<Event> {
        let Some(transaction) = &self.transaction else {
            return self.error(&Reply::new(503, (5, 5, 1), "need MAIL first"), out);
        };
        if !rcpt.to.is_ascii() && !transaction.mail.utf8 {
            return self.error(&CommandError::BadRecipient.reply(), out);
        }
        if transaction.recipients.len() >= self.config.limits.recipients_max {
            return self.say(&Reply::new(452, (4, 5, 3), "too many recipients"), out);
        }
        self.owed = Owed::Rcpt(rcpt.clone());
        Some(Event::Rcpt(rcpt))
    }

    /// Why no message may come now.
    fn no_message_now(&self) -> Option<Reply> {
        match &self.transaction {
            None => Some(Reply::new(503, (5, 5, 1), "need MAIL first")),
            Some(t) if t.recipients.is_empty() => {
                Some(Reply::new(554, (5, 5, 1), "no valid recipients"))
            }
            Some(_) => None,
        }
    }

    fn data(&mut self, out: &mut Vec<u8>) -> Option<Event> {
        if let Some(reply) = self.no_message_now() {
            return self.error(&reply, out);
        }
        if self.transaction.as_ref().is_some_and(|t| t.chunked) {
            return self.error(&Reply::new(503, (5, 5, 1), "DATA after BDAT"), out);
        }
        self.owed = Owed::Data;
        Some(Event::Data)
    }

    fn bdat(&mut self, size: u64, last: bool, out: &mut Vec<u8>) -> Option<Event> {
        if let Some(reply) = self.no_message_now() {
            if size > self.config.limits.refused_chunk_bytes_max {
                // Nobody reads past so much for a refusal: there is no transaction whose limits of
                // time and rate would hold.
                return Some(self.close(&reply, CloseReason::RefusedChunk, out));
            }
            // The chunk comes all the same: read past it, then answer.
            self.transaction.get_or_insert_default().refuse(reply);
            return self.begin_chunk(size, last, out);
        }
        match &self.transaction {
            Some(t) if !t.chunked => {
                self.owed = Owed::Chunk { size, last };
                Some(Event::Data)
            }
            _ => self.begin_chunk(size, last, out),
        }
    }

    fn begin_chunk(&mut self, size: u64, last: bool, out: &mut Vec<u8>) -> Option<Event> {
        let limit = self.config.limits.message_bytes_max;
        if let Some(t) = &mut self.transaction {
            t.chunked = true;
            let held = t.message_bytes();
            if held.saturating_add(size) > limit && t.refusal.is_none() {
                t.refuse(too_large(limit));
            }
        }
        self.phase = Phase::Chunk { size, left: size, last };
        if size == 0 { self.end_chunk(0, last, out) } else { None }
    }

    fn read_chunk(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Option<Event> {
        let Phase::Chunk { size, left, last } = &mut self.phase else { return None };
        let take = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
        let (head, rest) = input.split_at(take);
        *input = rest;
        *left -= take as u64;
        let (size, left, last) = (*size, *left, *last);
        if let Some(t) = &mut self.transaction {
            t.add_to_chunk(head);
        }
        if left > 0 { None } else { self.end_chunk(size, last, out) }
    }

    fn end_chunk(&mut self, size: u64, last: bool, out: &mut Vec<u8>) -> Option<Event> {
        self.phase = Phase::Command;
        if let Some(bad) = self.transaction.as_mut().and_then(|t| t.end_chunk(last)) {
            return Some(self.refuse_smuggling(bad, out));
        }
        let refusal = self.transaction.as_ref().and_then(|t| t.refusal.clone());
        match refusal {
            Some(reply) => {
                if last || reply.code == 503 || reply.code == 554 {
                    self.transaction = None;
                }
                self.error(&reply, out)
            }
            None if last => {
                self.owed = Owed::Message;
                Some(Event::Message)
            }
            None => self.say(&Reply::new(250, (2, 0, 0), format!("{size} bytes received")), out),
        }
    }

    fn read_data(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Option<Event> {
        let (Phase::Data(decoder), Some(t)) = (&mut self.phase, &mut self.transaction) else {
            return None;
        };
        let limit = self.config.limits.message_bytes_max;
        let mut skipped = Vec::new();
        let body = if t.refusal.is_some() { &mut skipped } else { &mut t.body };
        let step = decoder.decode(input, body);
        let held = t.message_bytes();
        if held > limit && t.refusal.is_none() {
            t.refuse(too_large(limit));
        }
        match step {
            DataStep::More => {
                *input = &[];
                None
            }
            DataStep::Bad(bad) => Some(self.refuse_smuggling(bad, out)),
            DataStep::End(used) => {
                *input = input.get(used..).unwrap_or_default();
                self.phase = Phase::Command;
                let refusal = self.transaction.as_mut().and_then(|t| t.refusal.take());
                if let Some(reply) = refusal {
                    self.transaction = None;
                    return self.error(&reply, out);
                }
                self.owed = Owed::Message;
                Some(Event::Message)
            }
        }
    }

    fn starttls(&mut self, out: &mut Vec<u8>) -> Option<Event> {
        if !self.config.features.starttls {
            return self.error(&Reply::new(502, (5, 5, 1), "TLS is not offered"), out);
        }
        if self.tls {
            return self.error(&Reply::new(503, (5, 5, 1), "TLS is already on"), out);
        }
        Reply::new(220, (2, 0, 0), "go ahead").write(out);
        self.owed = Owed::Tls;
        Some(Event::StartTls)
    }

    /// Answers [`Event::Mail`] and [`Event::Rcpt`]: a positive reply accepts.
    pub fn answer(&mut self, reply: &Reply, out: &mut Vec<u8>) -> Option<Event> {
        let accepted = reply.is_positive();
        match (std::mem::replace(&mut self.owed, Owed::Nothing), accepted) {
            (Owed::Mail(mail), true) => {
                self.transaction = Some(Box::new(Transaction { mail, ..Transaction::default() }));
            }
            (Owed::Rcpt(rcpt), true) => {
                if let Some(t) = &mut self.transaction {
                    t.recipients.push(rcpt);
                    // Recipients are bounded by their own limit, not by that of commands.
                    self.commands = self.commands.saturating_sub(1);
                }
            }
            _ => {}
        }
        if reply.is_permanent() { self.error(reply, out) } else { self.say(reply, out) }
    }

    /// Answers [`Event::Data`]: the message may come. `prefix` is what is to stand before it.
    ///
    /// May return [`Event::Message`] at once, for an empty last chunk.
    pub fn start_body(&mut self, prefix: Vec<u8>, out: &mut Vec<u8>) -> Option<Event> {
        let owed = std::mem::replace(&mut self.owed, Owed::Nothing);
        if let Some(t) = &mut self.transaction {
            t.prefix_bytes = prefix.len();
            t.body = prefix;
        }
        match owed {
            Owed::Data => {
                self.phase = Phase::Data(DataDecoder::default());
                self.say(&Reply::plain(354, "end with <CRLF>.<CRLF>"), out)
            }
            Owed::Chunk { size, last } => self.begin_chunk(size, last, out),
            _ => None,
        }
    }

    /// Answers [`Event::Data`]: no message now.
    pub fn refuse_data(&mut self, reply: Reply, out: &mut Vec<u8>) -> Option<Event> {
        match std::mem::replace(&mut self.owed, Owed::Nothing) {
            Owed::Chunk { size, last } => {
                if let Some(t) = &mut self.transaction {
                    t.refuse(reply);
                }
                self.begin_chunk(size, last, out)
            }
            _ => {
                self.transaction = None;
                self.say(&reply, out)
            }
        }
    }

    /// Gives up the message being received: its memory is freed, its rest skipped, `reply` said at
    /// its end.
    pub fn refuse_body(&mut self, reply: Reply) {
        if let Some(t) = &mut self.transaction {
            t.refuse(reply);
        }
    }

    /// The message of [`Event::Message`].
    pub fn take_message(&mut self) -> Option<Box<Transaction>> {
        self.transaction.take()
    }

    /// Answers [`Event::Message`]: one reply, or with LMTP one for each accepted recipient.
    pub fn answer_message(&mut self, replies: &[Reply], out: &mut Vec<u8>) {
        self.owed = Owed::Nothing;
        self.transaction = None;
        for reply in replies {
            reply.write(out);
        }
        self.commands = 0;
    }

    /// The handshake after [`Event::StartTls`] is done. What the client said before is forgotten
    /// (RFC 3207 section 4.2).
    pub fn tls_started(&mut self) {
        self.owed = Owed::Nothing;
        self.tls = true;
        self.helo = None;
        self.extended = false;
        self.transaction = None;
        self.line = Vec::new();
    }

    fn say(&mut self, reply: &Reply, out: &mut Vec<u8>) -> Option<Event> {
        reply.write(out);
        None
    }

    /// Says `reply` and counts it as an error of the client.
    fn error(&mut self, reply: &Reply, out: &mut Vec<u8>) -> Option<Event> {
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

    fn refuse_smuggling(&mut self, bad: BadData, out: &mut Vec<u8>) -> Event {
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

fn too_large(limit: u64) -> Reply {
    Reply::new(552, (5, 3, 4), format!("message larger than {limit} bytes"))
}

/// A browser that was sent here (cross-protocol attacks), not a mail client.
fn is_http(line: &[u8]) -> bool {
    const SIGNS: [&[u8]; 8] =
        [b"GET ", b"POST ", b"PUT ", b"HEAD ", b"CONNECT ", b"OPTIONS ", b"Host:", b"User-Agent:"];
    SIGNS.iter().any(|sign| line.starts_with(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        let config = SessionConfig {
            host: "mx.test".into(),
            limits: SessionLimits::default(),
            features: Features::default(),
        };
        Session::new(Arc::new(config), false)
    }

    #[test]
    fn an_idle_session_is_small() {
        let session = session();
        assert!(std::mem::size_of_val(&session) < 512);
        assert_eq!(session.body_bytes() + session.line.capacity(), 0);
    }

    #[test]
    fn a_body_that_is_taken_away_in_pieces_is_whole_and_held_to_the_limit() {
        let (mut session, mut out) = (session(), Vec::new());
        let mut say = |session: &mut Session, text: &[u8]| {
            let mut rest = text;
            let event = session.next(&mut rest, &mut out);
            assert!(rest.is_empty(), "{event:?}");
            event
        };
        let ok = Reply::new(250, (2, 0, 0), "Ok");
        say(&mut session, b"EHLO a\r\n");
        assert!(matches!(say(&mut session, b"MAIL FROM:<a@b>\r\n"), Event::Mail(_)));
        session.answer(&ok, &mut Vec::new());
        assert!(matches!(say(&mut session, b"RCPT TO:<c@d>\r\n"), Event::Rcpt(_)));
        session.answer(&ok, &mut Vec::new());
        assert_eq!(say(&mut session, b"DATA\r\n"), Event::Data);
        session.start_body(b"Received: x\r\n".to_vec(), &mut Vec::new());
        let mut whole = Vec::new();
        for piece in [&b"one\r\n.."[..], b"two", b"\r", b"\nthree\r\n"] {
            assert_eq!(say(&mut session, piece), Event::More);
            whole.extend(session.drain_body());
            assert!(session.body_bytes() <= 64, "{}", session.body_bytes());
        }
        assert_eq!(session.drained_bytes() as usize, whole.len() - b"Received: x\r\n".len());
        assert_eq!(say(&mut session, b".\r\n"), Event::Message);
        whole.extend(session.take_message().unwrap().body);
        assert_eq!(whole, b"Received: x\r\none\r\n.two\r\nthree\r\n");
    }

    #[test]
    fn a_line_in_pieces_is_one_line() {
        let (mut session, mut out) = (session(), Vec::new());
        for byte in b"EHLO client.test\r\n" {
            assert_eq!(session.next(&mut &[*byte][..], &mut out), Event::More);
        }
        assert_eq!(session.helo(), "client.test");
        assert!(out.starts_with(b"250-mx.test\r\n250-PIPELINING\r\n"));
    }

    #[test]
    fn an_endless_line_costs_no_memory() {
        let (mut session, mut out) = (session(), Vec::new());
        for _ in 0..1_000 {
            assert_eq!(session.next(&mut &[b'a'; 4096][..], &mut out), Event::More);
            assert!(session.line.capacity() <= 2 * session.config.limits.line_bytes_max);
        }
        assert_eq!(session.next(&mut &b"\r\n"[..], &mut out), Event::More);
        assert_eq!(out, b"500 5.5.2 line too long\r\n");
    }
}
