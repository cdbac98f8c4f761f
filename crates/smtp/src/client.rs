//! The client side of SMTP and LMTP (RFC 5321 section 4.5.4) as a state machine without a socket.
//!
//! The owner of the socket passes what it read to [`Client::next`] and writes what that appended to
//! `out`. A session goes through `greeting -> EHLO -> [STARTTLS -> EHLO] -> [AUTH] -> Ready`, then
//! through any number of messages: [`Client::send`], [`ClientEvent::Body`], [`ClientEvent::Done`].

mod capabilities;
mod outgoing;

use std::collections::VecDeque;

use crate::reply::{Reply, ReplyError, ReplyReader};
use capabilities::capabilities;

pub use capabilities::Capabilities;
pub use outgoing::{Outgoing, OutgoingRecipient};

/// How the client behaves in a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientConfig {
    /// Host name sent in EHLO or LHLO.
    pub helo: String,
    /// Speak LMTP: LHLO, and one reply for each recipient after the message (RFC 2033).
    pub lmtp: bool,
    /// Use STARTTLS when the server offers it.
    pub tls: bool,
    /// Fail with [`ClientError::NoTls`] when the server does not offer STARTTLS.
    pub tls_required: bool,
    /// Login and password for AUTH PLAIN; used over TLS only.
    pub login: Option<(String, String)>,
}

/// The server's final reply for one recipient: that of MAIL, RCPT, DATA or the message.
pub type RecipientReply = Reply;

/// What the owner of the socket has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEvent {
    /// The input is consumed: write `out`, read more.
    More,
    /// Do the TLS handshake, then call [`Client::tls_started`].
    StartTls,
    /// [`Client::send`] or [`Client::ask`] may be called.
    Ready,
    /// Send the message as [`crate::dot_stuff`] encodes it, then read on.
    Body,
    /// The message is answered: one reply for each recipient, in their order. The client is ready
    /// again unless [`Client::is_closing`].
    Done(Vec<RecipientReply>),
}

/// Why the session cannot continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The greeting, EHLO or AUTH was refused.
    #[error("{stage} was answered {}", .reply.one_line())]
    Refused {
        /// The refused command, for error messages.
        stage: &'static str,
        /// What the server answered, 4xx or 5xx.
        reply: Reply,
    },
    /// The server's bytes are not an SMTP reply.
    #[error("{0}")]
    ReplyError(#[from] ReplyError),
    /// TLS is required but not offered.
    #[error("the server does not offer STARTTLS, which this route requires")]
    NoTls,
    /// The server sent a reply to no command.
    #[error("the server answered something that was not asked: {}", .0.one_line())]
    Unexpected(Reply),
    /// The server's replies are not those to our commands: DATA was answered neither by 354 nor by
    /// a refusal. Nothing that it says about the message can be believed.
    #[error("the server's answers are out of step: DATA was answered {}", .0.one_line())]
    OutOfStep(Reply),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expect {
    Greeting,
    Ehlo,
    Helo,
    StartTls,
    Auth,
    Reset,
    Mail,
    Rcpt(usize),
    Data,
    /// After the message; with LMTP of one recipient, by index.
    Message(Option<usize>),
    Quit,
}

/// An SMTP or LMTP session with one server.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    reader: ReplyReader,
    expect: VecDeque<Expect>,
    capabilities: Capabilities,
    tls: bool,
    ready: bool,
    closing: bool,
    /// The last transaction did not end with a reply to the message: MAIL would be nested, so RSET
    /// comes first.
    needs_reset: bool,
    /// The transaction only verifies a recipient: no DATA follows RCPT.
    probing: bool,
    message: Option<Outgoing>,
    /// Commands not yet sent, because the server does not offer PIPELINING.
    queued: VecDeque<(Expect, Vec<u8>)>,
    settled: Vec<Option<Reply>>,
    /// Complete replies received, the greeting included.
    replies: u64,
}

impl Client {
    /// A client that waits for the greeting. `tls`: TLS was negotiated before SMTP began (implicit
    /// TLS).
    pub fn new(config: ClientConfig, tls: bool) -> Self {
        Client {
            config,
            reader: ReplyReader::default(),
            expect: VecDeque::from([Expect::Greeting]),
            capabilities: Capabilities::default(),
            tls,
            ready: false,
            closing: false,
            needs_reset: false,
            probing: false,
            message: None,
            queued: VecDeque::new(),
            settled: Vec::new(),
            replies: 0,
        }
    }

    /// The extensions of the server's last EHLO reply.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// The connection uses TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The server offers DSN (RFC 3461).
    pub fn knows_dsn(&self) -> bool {
        self.capabilities.dsn
    }

    /// The server replied 421, or more than it was asked: no more messages in this session.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Complete replies received so far. A reply timeout restarts when this grows, not with every
    /// byte.
    pub fn replies(&self) -> u64 {
        self.replies
    }

    /// The connection is lost in the middle of a transaction: the reply for each recipient, if the
    /// server has answered for one at least. These answers are final (RFC 2033 section 4.2: LMTP
    /// answers for each recipient after the message; RFC 5321 section 4.2.5); `otherwise` is for
    /// the others. None after an error of the protocol, which puts all answers in doubt.
    pub fn break_off(&mut self, otherwise: &Reply) -> Option<Vec<Reply>> {
        self.closing = true;
        let settled = std::mem::take(&mut self.settled);
        let is_any = settled.iter().any(Option::is_some);
        let reply = |slot: Option<Reply>| slot.unwrap_or_else(|| otherwise.clone());
        is_any.then(|| settled.into_iter().map(reply).collect())
    }

    /// Processes `input` up to the next event.
    pub fn next(
        &mut self,
        input: &mut &[u8],
        out: &mut Vec<u8>,
    ) -> Result<ClientEvent, ClientError> {
        let event = self.advance(input, out);
        if event.is_err() {
            self.settled.clear();
        }
        event
    }

    fn advance(
        &mut self,
        input: &mut &[u8],
        out: &mut Vec<u8>,
    ) -> Result<ClientEvent, ClientError> {
        while let Some(reply) = self.reader.read(input)? {
            self.replies += 1;
            if reply.code == 421 {
                self.closing = true;
            }
            let Some(expect) = self.expect.pop_front() else {
                return Err(ClientError::Unexpected(reply));
            };
            if let Some(event) = self.handle_reply(expect, reply, out)? {
                // A surplus reply would be taken for that to the next command, and all after it
                // for those to the ones after: mail would count as delivered that never was.
                match event {
                    ClientEvent::Body if !input.is_empty() => {
                        self.surplus(input)?;
                    }
                    ClientEvent::Done(_) if !input.is_empty() => self.closing = true,
                    _ => {}
                }
                return Ok(event);
            }
        }
        Ok(ClientEvent::More)
    }

    /// The error for what came where the server had nothing to answer.
    fn surplus(&mut self, input: &mut &[u8]) -> Result<(), ClientError> {
        self.closing = true;
        match self.reader.read(input)? {
            Some(reply) => Err(ClientError::Unexpected(reply)),
            None => Ok(()),
        }
    }

    fn handle_reply(
        &mut self,
        expect: Expect,
        reply: Reply,
        out: &mut Vec<u8>,
    ) -> Result<Option<ClientEvent>, ClientError> {
        match expect {
            Expect::Greeting if reply.is_positive() => {
                self.send_ehlo(out);
                Ok(None)
            }
            Expect::Greeting => Err(ClientError::Refused { stage: "the connection", reply }),
            Expect::Ehlo if reply.is_positive() => self.after_ehlo(&reply, out),
            Expect::Ehlo if reply.is_permanent() && !self.config.lmtp => {
                self.send_command(
                    Expect::Helo,
                    format!("HELO {}\r\n", self.config.helo).as_bytes(),
                    out,
                );
                Ok(None)
            }
            Expect::Helo if reply.is_positive() && !self.config.tls_required => {
                Ok(Some(self.become_ready()))
            }
            Expect::Helo if reply.is_positive() => Err(ClientError::NoTls),
            Expect::Ehlo | Expect::Helo => Err(ClientError::Refused { stage: "EHLO", reply }),
            Expect::StartTls if reply.is_positive() => Ok(Some(ClientEvent::StartTls)),
            Expect::StartTls if self.config.tls_required => {
                Err(ClientError::Refused { stage: "STARTTLS", reply })
            }
            Expect::StartTls => Ok(self.authenticate(out)),
            Expect::Auth if reply.is_positive() => Ok(Some(self.become_ready())),
            Expect::Auth => Err(ClientError::Refused { stage: "AUTH", reply }),
            Expect::Reset => Ok(self.send_next(out)),
            Expect::Quit => Ok(None),
            Expect::Mail => {
                if !reply.is_positive() {
                    self.settle_all(&reply);
                }
                Ok(self.send_next(out).or_else(|| self.finish_probe()))
            }
            Expect::Rcpt(index) => {
                if self.probing || !reply.is_positive() {
                    self.settle(index, reply);
                }
                Ok(self.send_next(out).or_else(|| self.finish_probe()))
            }
            Expect::Data => self.after_data(reply, out),
            Expect::Message(index) => {
                match index {
                    Some(index) => self.settle(index, reply),
                    None => self.settle_all(&reply),
                }
                Ok(self.finish_if_settled())
            }
        }
    }

    fn send_command(&mut self, expect: Expect, line: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(line);
        self.expect.push_back(expect);
    }

    fn send_ehlo(&mut self, out: &mut Vec<u8>) {
        let verb = if self.config.lmtp { "LHLO" } else { "EHLO" };
        let line = format!("{verb} {}\r\n", self.config.helo);
        self.send_command(Expect::Ehlo, line.as_bytes(), out);
    }

    fn after_ehlo(
        &mut self,
        reply: &Reply,
        out: &mut Vec<u8>,
    ) -> Result<Option<ClientEvent>, ClientError> {
        self.capabilities = capabilities(&reply.text);
        if self.tls || !(self.config.tls || self.config.tls_required) {
            return Ok(self.authenticate(out));
        }
        if self.capabilities.starttls {
            self.send_command(Expect::StartTls, b"STARTTLS\r\n", out);
            Ok(None)
        } else if self.config.tls_required {
            Err(ClientError::NoTls)
        } else {
            Ok(self.authenticate(out))
        }
    }

    /// Call after the TLS handshake of [`ClientEvent::StartTls`]; appends EHLO.
    pub fn tls_started(&mut self, out: &mut Vec<u8>) {
        self.tls = true;
        self.reader = ReplyReader::default();
        self.send_ehlo(out);
    }

    fn authenticate(&mut self, out: &mut Vec<u8>) -> Option<ClientEvent> {
        match &self.config.login {
            Some((user, password)) if self.tls && self.capabilities.auth_plain => {
                let secret =
                    base64_simd::STANDARD.encode_to_string(format!("\0{user}\0{password}"));
                self.send_command(Expect::Auth, format!("AUTH PLAIN {secret}\r\n").as_bytes(), out);
                None
            }
            _ => Some(self.become_ready()),
        }
    }

    fn become_ready(&mut self) -> ClientEvent {
        self.ready = true;
        ClientEvent::Ready
    }

    /// Starts a transaction; the client must be ready.
    pub fn send(&mut self, message: Outgoing, out: &mut Vec<u8>) {
        debug_assert!(self.ready && self.message.is_none() && !message.recipients.is_empty());
        if std::mem::take(&mut self.needs_reset) {
            self.queued.push_back((Expect::Reset, b"RSET\r\n".to_vec()));
        }
        self.queued.push_back((Expect::Mail, self.mail_line(&message)));
        for (index, recipient) in message.recipients.iter().enumerate() {
            self.queued.push_back((Expect::Rcpt(index), self.rcpt_line(recipient)));
        }
        self.queued.push_back((Expect::Data, b"DATA\r\n".to_vec()));
        self.settled = vec![None; message.recipients.len()];
        self.needs_reset = true;
        self.message = Some(message);
        while let Some((expect, line)) = self.queued.pop_front() {
            self.send_command(expect, &line, out);
            if !self.capabilities.pipelining {
                break;
            }
        }
    }

    /// Verifies a recipient: MAIL with the null sender, RCPT, and no message. [`ClientEvent::Done`]
    /// has the reply. The client must be ready.
    pub fn ask(&mut self, to: &str, out: &mut Vec<u8>) {
        debug_assert!(self.ready && self.message.is_none());
        if std::mem::replace(&mut self.needs_reset, true) {
            self.queued.push_back((Expect::Reset, b"RSET\r\n".to_vec()));
        }
        self.queued.push_back((Expect::Mail, b"MAIL FROM:<>\r\n".to_vec()));
        self.queued.push_back((Expect::Rcpt(0), format!("RCPT TO:<{to}>\r\n").into_bytes()));
        self.settled = vec![None];
        self.probing = true;
        while let Some((expect, line)) = self.queued.pop_front() {
            self.send_command(expect, &line, out);
            if !self.capabilities.pipelining {
                break;
            }
        }
    }

    /// Recipient verification is done once its recipient and every command is answered.
    fn finish_probe(&mut self) -> Option<ClientEvent> {
        let done = self.probing.then(|| self.finish_if_settled()).flatten();
        self.probing &= done.is_none();
        done
    }

    /// Sends the next command that waited because the server does not offer PIPELINING.
    fn send_next(&mut self, out: &mut Vec<u8>) -> Option<ClientEvent> {
        if self.capabilities.pipelining {
            return None;
        }
        if self.settled.iter().all(Option::is_some) {
            self.queued.clear();
            return self.finish_if_settled();
        }
        if let Some((expect, line)) = self.queued.pop_front() {
            self.send_command(expect, &line, out);
        }
        None
    }

    fn after_data(
        &mut self,
        reply: Reply,
        out: &mut Vec<u8>,
    ) -> Result<Option<ClientEvent>, ClientError> {
        let waiting: Vec<usize> = (0..self.settled.len())
            .filter(|&i| self.settled.get(i).is_some_and(Option::is_none))
            .collect();
        if reply.code != 354 {
            // Only a refusal settles a message that was not sent (RFC 5321 section 4.3.2).
            if reply.code < 400 {
                self.closing = true;
                return Err(ClientError::OutOfStep(reply));
            }
            self.settle_all(&reply);
            return Ok(self.finish_if_settled());
        }
        self.needs_reset = false;
        if waiting.is_empty() {
            // RFC 2920 section 3.1: the server replied 354 with no recipient accepted; send an
            // empty message.
            self.send_command(Expect::Message(None), b".\r\n", out);
            return Ok(None);
        }
        if self.config.lmtp {
            self.expect.extend(waiting.into_iter().map(|i| Expect::Message(Some(i))));
        } else {
            self.expect.push_back(Expect::Message(None));
        }
        Ok(Some(ClientEvent::Body))
    }

    fn settle(&mut self, index: usize, reply: Reply) {
        if let Some(slot) = self.settled.get_mut(index) {
            slot.get_or_insert(reply);
        }
    }

    fn settle_all(&mut self, reply: &Reply) {
        for slot in &mut self.settled {
            slot.get_or_insert_with(|| reply.clone());
        }
    }

    fn finish_if_settled(&mut self) -> Option<ClientEvent> {
        if !self.expect.is_empty() || self.settled.iter().any(Option::is_none) {
            return None;
        }
        self.message = None;
        Some(ClientEvent::Done(std::mem::take(&mut self.settled).into_iter().flatten().collect()))
    }

    /// Appends QUIT; no transaction may follow.
    pub fn quit(&mut self, out: &mut Vec<u8>) {
        self.ready = false;
        self.send_command(Expect::Quit, b"QUIT\r\n", out);
    }
}

#[cfg(test)]
mod tests;
