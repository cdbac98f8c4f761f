//! The sending side of a conversation (RFC 5321 section 4.5.4), without a socket.
//!
//! The owner of the socket feeds what it read to [`Client::next`] and sends what gathers in `out`.
//! A client lives through `greeting -> EHLO -> [STARTTLS -> EHLO] -> [AUTH] -> Ready`, then through
//! any number of messages: [`Client::send`], [`ClientEvent::Body`], [`ClientEvent::Done`].

use std::collections::VecDeque;

use crate::command::{Notify, Ret};
use crate::reply::{BadReply, Reply, ReplyReader};

/// How a client introduces itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientConfig {
    /// Our name in EHLO.
    pub helo: String,
    /// LHLO, and a reply for each recipient (RFC 2033).
    pub lmtp: bool,
    /// Use STARTTLS when it is offered.
    pub tls: bool,
    /// Go no further without STARTTLS.
    pub tls_required: bool,
    /// Login and password for AUTH PLAIN; used over TLS only.
    pub login: Option<(String, String)>,
}

/// What the server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// RFC 2920.
    pub pipelining: bool,
    /// RFC 6152.
    pub eight_bit: bool,
    /// RFC 6531.
    pub utf8: bool,
    /// RFC 3461.
    pub dsn: bool,
    /// RFC 3207.
    pub starttls: bool,
    /// RFC 4954, mechanism PLAIN.
    pub auth_plain: bool,
    /// RFC 1870 is offered.
    pub size: bool,
    /// The limit it announces, in bytes; 0 for none.
    pub size_max: u64,
}

/// A recipient of an outgoing message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutgoingRecipient {
    /// Mailbox.
    pub to: String,
    /// `NOTIFY=`, passed on when the server knows DSN.
    pub notify: Option<Notify>,
    /// `ORCPT=`, likewise.
    pub orcpt: Option<String>,
}

/// An outgoing message, without its body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outgoing {
    /// Reverse path; empty is the null sender.
    pub from: String,
    /// Recipients; at least one.
    pub recipients: Vec<OutgoingRecipient>,
    /// Bytes of the body.
    pub size: u64,
    /// The body holds bytes over 127.
    pub eight_bit: bool,
    /// An address or header is not ASCII.
    pub utf8: bool,
    /// `RET=`.
    pub ret: Option<Ret>,
    /// `ENVID=`.
    pub envid: Option<String>,
}

/// What the server said to one recipient: of MAIL, RCPT, DATA or the message, the reply that
/// settled it.
pub type RecipientReply = Reply;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientEvent {
    /// The input is used up: send `out`, read more.
    More,
    /// Make the connection a TLS one, then call [`Client::tls_started`].
    StartTls,
    /// The next message may be sent.
    Ready,
    /// Send the message ([`crate::stuff`] writes it), then read on.
    Body,
    /// The message is settled, one reply for each recipient in their order. The client is ready
    /// again unless [`Client::is_closing`].
    Done(Vec<RecipientReply>),
}

/// The conversation cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The greeting, EHLO or AUTH was refused.
    #[error("{stage} was answered {}", .reply.one_line())]
    Refused {
        /// The command.
        stage: &'static str,
        /// The answer.
        reply: Reply,
    },
    /// What came is no reply.
    #[error("{0}")]
    BadReply(#[from] BadReply),
    /// TLS is required but not offered.
    #[error("the server does not offer STARTTLS, which this route requires")]
    NoTls,
    /// The server spoke without being asked.
    #[error("the server answered something that was not asked: {}", .0.one_line())]
    Unexpected(Reply),
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
    /// After the body; with LMTP for one recipient.
    Message(Option<usize>),
    Quit,
}

/// One conversation with a next hop.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    reader: ReplyReader,
    expect: VecDeque<Expect>,
    capabilities: Capabilities,
    tls: bool,
    ready: bool,
    closing: bool,
    /// The last message was not settled by a reply to its body: MAIL would be nested.
    needs_reset: bool,
    /// No message follows RCPT.
    probing: bool,
    message: Option<Outgoing>,
    /// Commands held back for want of PIPELINING.
    held: VecDeque<(Expect, Vec<u8>)>,
    settled: Vec<Option<Reply>>,
    /// Whole replies that came.
    replies: u64,
}

impl Client {
    /// A client that waits for the greeting. `tls`: the connection has been a TLS one from its start.
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
            held: VecDeque::new(),
            settled: Vec::new(),
            replies: 0,
        }
    }

    /// What the server offers.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// The connection is a TLS one.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The server reports deliveries to senders that ask for it (RFC 3461).
    pub fn knows_dsn(&self) -> bool {
        self.capabilities.dsn
    }

    /// The server said 421: no more messages here.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whole replies that came so far: a time limit for a reply begins anew when this grows, and not with
    /// every byte.
    pub fn replies(&self) -> u64 {
        self.replies
    }

    /// Reads `input` up to the next event.
    pub fn next(
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
            if let Some(event) = self.take(expect, reply, out)? {
                return Ok(event);
            }
        }
        Ok(ClientEvent::More)
    }

    fn take(
        &mut self,
        expect: Expect,
        reply: Reply,
        out: &mut Vec<u8>,
    ) -> Result<Option<ClientEvent>, ClientError> {
        match expect {
            Expect::Greeting if reply.is_positive() => {
                self.hello(out);
                Ok(None)
            }
            Expect::Greeting => Err(ClientError::Refused { stage: "the connection", reply }),
            Expect::Ehlo if reply.is_positive() => self.after_ehlo(&reply, out),
            Expect::Ehlo if reply.is_permanent() && !self.config.lmtp => {
                self.say(Expect::Helo, format!("HELO {}\r\n", self.config.helo).as_bytes(), out);
                Ok(None)
            }
            Expect::Helo if reply.is_positive() && !self.config.tls_required => {
                Ok(Some(self.now_ready()))
            }
            Expect::Helo if reply.is_positive() => Err(ClientError::NoTls),
            Expect::Ehlo | Expect::Helo => Err(ClientError::Refused { stage: "EHLO", reply }),
            Expect::StartTls if reply.is_positive() => Ok(Some(ClientEvent::StartTls)),
            Expect::StartTls if self.config.tls_required => {
                Err(ClientError::Refused { stage: "STARTTLS", reply })
            }
            Expect::StartTls => Ok(self.authenticate(out)),
            Expect::Auth if reply.is_positive() => Ok(Some(self.now_ready())),
            Expect::Auth => Err(ClientError::Refused { stage: "AUTH", reply }),
            Expect::Reset => Ok(self.advance(out)),
            Expect::Quit => Ok(None),
            Expect::Mail => {
                if !reply.is_positive() {
                    self.settle_all(&reply);
                }
                Ok(self.advance(out).or_else(|| self.finish_probe()))
            }
            Expect::Rcpt(index) => {
                if self.probing || !reply.is_positive() {
                    self.settle(index, reply);
                }
                Ok(self.advance(out).or_else(|| self.finish_probe()))
            }
            Expect::Data => Ok(self.after_data(&reply, out)),
            Expect::Message(index) => {
                match index {
                    Some(index) => self.settle(index, reply),
                    None => self.settle_all(&reply),
                }
                Ok(self.finish_if_settled())
            }
        }
    }

    fn say(&mut self, expect: Expect, line: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(line);
        self.expect.push_back(expect);
    }

    fn hello(&mut self, out: &mut Vec<u8>) {
        let verb = if self.config.lmtp { "LHLO" } else { "EHLO" };
        let line = format!("{verb} {}\r\n", self.config.helo);
        self.say(Expect::Ehlo, line.as_bytes(), out);
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
            self.say(Expect::StartTls, b"STARTTLS\r\n", out);
            Ok(None)
        } else if self.config.tls_required {
            Err(ClientError::NoTls)
        } else {
            Ok(self.authenticate(out))
        }
    }

    /// The handshake after [`ClientEvent::StartTls`] is done.
    pub fn tls_started(&mut self, out: &mut Vec<u8>) {
        self.tls = true;
        self.reader = ReplyReader::default();
        self.hello(out);
    }

    fn authenticate(&mut self, out: &mut Vec<u8>) -> Option<ClientEvent> {
        match &self.config.login {
            Some((user, password)) if self.tls && self.capabilities.auth_plain => {
                let secret =
                    base64_simd::STANDARD.encode_to_string(format!("\0{user}\0{password}"));
                self.say(Expect::Auth, format!("AUTH PLAIN {secret}\r\n").as_bytes(), out);
                None
            }
            _ => Some(self.now_ready()),
        }
    }

    fn now_ready(&mut self) -> ClientEvent {
        self.ready = true;
        ClientEvent::Ready
    }

    /// Why the server cannot be given this message: its addresses or its header need SMTPUTF8, which is not
    /// offered (RFC 6531 section 3.2). Raw UTF-8 must not go there all the same. For all recipients.
    pub fn cannot_take(&self, message: &Outgoing, body: &[u8]) -> Option<Reply> {
        if self.capabilities.utf8 {
            return None;
        }
        let addresses =
            message.from.is_ascii() && message.recipients.iter().all(|r| r.to.is_ascii());
        let header = || {
            let end = body.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or(body.len());
            body.get(..end).is_some_and(<[u8]>::is_ascii)
        };
        if addresses && (!message.utf8 || header()) {
            return None;
        }
        let text = "the next hop does not offer SMTPUTF8, which this message needs";
        Some(Reply::new(553, (5, 6, 7), text))
    }

    /// Starts a message; the client must be ready.
    pub fn send(&mut self, message: Outgoing, out: &mut Vec<u8>) {
        debug_assert!(self.ready && self.message.is_none() && !message.recipients.is_empty());
        if std::mem::take(&mut self.needs_reset) {
            self.held.push_back((Expect::Reset, b"RSET\r\n".to_vec()));
        }
        self.held.push_back((Expect::Mail, self.mail_line(&message)));
        for (index, recipient) in message.recipients.iter().enumerate() {
            self.held.push_back((Expect::Rcpt(index), self.rcpt_line(recipient)));
        }
        self.held.push_back((Expect::Data, b"DATA\r\n".to_vec()));
        self.settled = vec![None; message.recipients.len()];
        self.needs_reset = true;
        self.message = Some(message);
        while let Some((expect, line)) = self.held.pop_front() {
            self.say(expect, &line, out);
            if !self.capabilities.pipelining {
                break;
            }
        }
    }

    /// Asks whether the server takes mail for an address: MAIL with the null sender, RCPT, and no message.
    /// [`ClientEvent::Done`] has its reply. The client must be ready.
    pub fn ask(&mut self, to: &str, out: &mut Vec<u8>) {
        debug_assert!(self.ready && self.message.is_none());
        if std::mem::replace(&mut self.needs_reset, true) {
            self.held.push_back((Expect::Reset, b"RSET\r\n".to_vec()));
        }
        self.held.push_back((Expect::Mail, b"MAIL FROM:<>\r\n".to_vec()));
        self.held.push_back((Expect::Rcpt(0), format!("RCPT TO:<{to}>\r\n").into_bytes()));
        self.settled = vec![None];
        self.probing = true;
        while let Some((expect, line)) = self.held.pop_front() {
            self.say(expect, &line, out);
            if !self.capabilities.pipelining {
                break;
            }
        }
    }

    /// A probe is over once its address is settled and every answer has come.
    fn finish_probe(&mut self) -> Option<ClientEvent> {
        let done = self.probing.then(|| self.finish_if_settled()).flatten();
        self.probing &= done.is_none();
        done
    }

    fn mail_line(&self, message: &Outgoing) -> Vec<u8> {
        let offered = self.capabilities;
        let mut line = format!("MAIL FROM:<{}>", message.from);
        if offered.size {
            line.push_str(&format!(" SIZE={}", message.size));
        }
        if offered.eight_bit && message.eight_bit {
            line.push_str(" BODY=8BITMIME");
        }
        if offered.utf8 && message.utf8 {
            line.push_str(" SMTPUTF8");
        }
        if offered.dsn {
            match message.ret {
                Some(Ret::Full) => line.push_str(" RET=FULL"),
                Some(Ret::Headers) => line.push_str(" RET=HDRS"),
                None => {}
            }
            if let Some(envid) = &message.envid {
                line.push_str(&format!(" ENVID={envid}"));
            }
        }
        line.push_str("\r\n");
        line.into_bytes()
    }

    fn rcpt_line(&self, recipient: &OutgoingRecipient) -> Vec<u8> {
        let mut line = format!("RCPT TO:<{}>", recipient.to);
        if self.capabilities.dsn {
            if let Some(wanted) = recipient.notify {
                let words = [
                    (wanted.success, "SUCCESS"),
                    (wanted.failure, "FAILURE"),
                    (wanted.delay, "DELAY"),
                ];
                let words: Vec<&str> = words.iter().filter(|w| w.0).map(|w| w.1).collect();
                let value = if words.is_empty() { "NEVER".to_owned() } else { words.join(",") };
                line.push_str(&format!(" NOTIFY={value}"));
            }
            if let Some(orcpt) = &recipient.orcpt {
                line.push_str(&format!(" ORCPT={orcpt}"));
            }
        }
        line.push_str("\r\n");
        line.into_bytes()
    }

    /// Says the next command that was held back for want of PIPELINING.
    fn advance(&mut self, out: &mut Vec<u8>) -> Option<ClientEvent> {
        if self.capabilities.pipelining {
            return None;
        }
        if self.settled.iter().all(Option::is_some) {
            self.held.clear();
            return self.finish_if_settled();
        }
        if let Some((expect, line)) = self.held.pop_front() {
            self.say(expect, &line, out);
        }
        None
    }

    fn after_data(&mut self, reply: &Reply, out: &mut Vec<u8>) -> Option<ClientEvent> {
        let waiting: Vec<usize> = (0..self.settled.len())
            .filter(|&i| self.settled.get(i).is_some_and(Option::is_none))
            .collect();
        if reply.code != 354 {
            self.settle_all(reply);
            return self.finish_if_settled();
        }
        self.needs_reset = false;
        if waiting.is_empty() {
            // RFC 2920 section 3.1: the server takes data for nobody; give it an empty message.
            self.say(Expect::Message(None), b".\r\n", out);
            return None;
        }
        if self.config.lmtp {
            self.expect.extend(waiting.into_iter().map(|i| Expect::Message(Some(i))));
        } else {
            self.expect.push_back(Expect::Message(None));
        }
        Some(ClientEvent::Body)
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

    /// Says QUIT.
    pub fn quit(&mut self, out: &mut Vec<u8>) {
        self.ready = false;
        self.say(Expect::Quit, b"QUIT\r\n", out);
    }
}

/// Reads the lines of an answer to EHLO.
fn capabilities(text: &str) -> Capabilities {
    let mut found = Capabilities::default();
    for line in text.split('\n').skip(1) {
        let mut words = line.split([' ', '=']).filter(|w| !w.is_empty());
        match words.next().unwrap_or_default().to_ascii_uppercase().as_str() {
            "PIPELINING" => found.pipelining = true,
            "8BITMIME" => found.eight_bit = true,
            "SMTPUTF8" => found.utf8 = true,
            "DSN" => found.dsn = true,
            "STARTTLS" => found.starttls = true,
            "AUTH" => found.auth_plain = words.any(|w| w.eq_ignore_ascii_case("PLAIN")),
            "SIZE" => {
                found.size = true;
                found.size_max = words.next().and_then(|w| w.parse().ok()).unwrap_or(0);
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(recipients: &[&str]) -> Outgoing {
        let one = |to: &&str| OutgoingRecipient { to: (*to).into(), ..Default::default() };
        Outgoing {
            from: "a@b".into(),
            recipients: recipients.iter().map(one).collect(),
            size: 3,
            ..Outgoing::default()
        }
    }

    fn ready(ehlo: &str) -> Client {
        let mut client =
            Client::new(ClientConfig { helo: "gw".into(), ..Default::default() }, false);
        let mut out = Vec::new();
        let mut input = &b"220 hi\r\n"[..];
        assert_eq!(client.next(&mut input, &mut out), Ok(ClientEvent::More));
        assert_eq!(out, b"EHLO gw\r\n");
        assert_eq!(client.next(&mut ehlo.as_bytes(), &mut out), Ok(ClientEvent::Ready));
        client
    }

    fn codes(event: Result<ClientEvent, ClientError>) -> Vec<u16> {
        match event {
            Ok(ClientEvent::Done(replies)) => replies.iter().map(|r| r.code).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pipelines_and_keeps_each_recipients_reply() {
        let mut client = ready("250-x\r\n250-SIZE 100\r\n250 PIPELINING\r\n");
        let mut out = Vec::new();
        client.send(message(&["x@y", "z@y"]), &mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "MAIL FROM:<a@b> SIZE=3\r\nRCPT TO:<x@y>\r\nRCPT TO:<z@y>\r\nDATA\r\n"
        );
        let mut input = &b"250 ok\r\n550 5.1.1 no\r\n250 ok\r\n354 go\r\n"[..];
        assert_eq!(client.next(&mut input, &mut out), Ok(ClientEvent::Body));
        let done = client.next(&mut &b"250 2.0.0 queued\r\n"[..], &mut out);
        assert_eq!(codes(done), [550, 250]);
        out.clear();
        client.send(message(&["x@y"]), &mut out);
        assert!(out.starts_with(b"MAIL"), "no RSET after a settled message");
    }

    #[test]
    fn what_needs_smtputf8_does_not_go_to_a_server_without_it() {
        let (with, without) = (ready("250-x\r\n250 SMTPUTF8\r\n"), ready("250 x\r\n"));
        let plain = b"Subject: x\r\n\r\ncaf\xc3\xa9\r\n";
        let internationalized = "Subject: caf\u{e9}\r\n\r\nx\r\n".as_bytes();
        for (from, to, asked, body, refused) in [
            ("a@b", "x@y", false, &plain[..], false),
            ("a@b", "x@y", true, &plain[..], false),
            ("a@b", "x@y", true, internationalized, true),
            // Raw 8-bit header fields without SMTPUTF8 are the sender's mistake, as ever.
            ("a@b", "x@y", false, internationalized, false),
            ("a@b", "j\u{f6}rg@y", true, &plain[..], true),
            ("j\u{f6}rg@b", "x@y", true, &plain[..], true),
        ] {
            let outgoing = Outgoing { from: from.into(), utf8: asked, ..message(&[to]) };
            let reply = without.cannot_take(&outgoing, body);
            let status = reply.map(|r| r.one_line());
            assert_eq!(status.is_some(), refused, "{from} {to} {asked}");
            assert!(status.is_none_or(|s| s.starts_with("553 5.6.7")));
            assert_eq!(with.cannot_take(&outgoing, body), None);
        }
    }

    #[test]
    fn one_at_a_time_without_pipelining() {
        let mut client = ready("250 x\r\n");
        let mut out = Vec::new();
        client.send(message(&["x@y"]), &mut out);
        assert_eq!(out, b"MAIL FROM:<a@b>\r\n");
        out.clear();
        assert_eq!(client.next(&mut &b"250 ok\r\n"[..], &mut out), Ok(ClientEvent::More));
        assert_eq!(out, b"RCPT TO:<x@y>\r\n");
        let done = client.next(&mut &b"450 later\r\n"[..], &mut out);
        assert_eq!(codes(done), [450]);
        out.clear();
        client.send(message(&["x@y"]), &mut out);
        assert_eq!(out, b"RSET\r\n");
        assert_eq!(client.next(&mut &b"250 ok\r\n"[..], &mut out), Ok(ClientEvent::More));
        assert_eq!(out, b"RSET\r\nMAIL FROM:<a@b>\r\n");
    }

    #[test]
    fn data_for_nobody_gets_an_empty_message() {
        let mut client = ready("250-x\r\n250 PIPELINING\r\n");
        let mut out = Vec::new();
        client.send(message(&["x@y"]), &mut out);
        out.clear();
        let mut input = &b"250 ok\r\n550 no\r\n354 go\r\n"[..];
        assert_eq!(client.next(&mut input, &mut out), Ok(ClientEvent::More));
        assert_eq!(out, b".\r\n");
        assert_eq!(codes(client.next(&mut &b"554 nobody\r\n"[..], &mut out)), [550]);
    }

    #[test]
    fn a_probe_asks_and_sends_nothing() {
        for ehlo in ["250-x\r\n250 PIPELINING\r\n", "250 x\r\n"] {
            let mut client = ready(ehlo);
            for answer in ["250 2.1.5 ok\r\n", "550 5.1.1 no\r\n"] {
                let mut out = Vec::new();
                client.ask("x@y", &mut out);
                let mut event = Ok(ClientEvent::More);
                while event == Ok(ClientEvent::More) {
                    let said = String::from_utf8(std::mem::take(&mut out)).unwrap();
                    assert!(!said.contains("DATA"), "{said}");
                    let answers: String = said
                        .lines()
                        .map(|l| if l.starts_with("RCPT") { answer } else { "250 ok\r\n" })
                        .collect();
                    event = client.next(&mut answers.as_bytes(), &mut out);
                }
                assert_eq!(codes(event), [answer[..3].parse::<u16>().unwrap()]);
            }
            let mut out = Vec::new();
            client.send(message(&["x@y"]), &mut out);
            assert!(out.starts_with(b"RSET"), "what was begun is reset");
        }
    }

    #[test]
    fn required_tls_is_required() {
        let config =
            ClientConfig { helo: "gw".into(), tls_required: true, ..ClientConfig::default() };
        let mut client = Client::new(config, false);
        let mut out = Vec::new();
        let mut input = &b"220 hi\r\n250 x\r\n"[..];
        assert_eq!(client.next(&mut input, &mut out), Err(ClientError::NoTls));
    }
}
