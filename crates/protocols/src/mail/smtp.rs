//! SMTP and LMTP (RFC 5321, RFC 3030, RFC 4954, RFC 2033): what a server is given.

use std::collections::VecDeque;

use gauntlet_packet::Direction;

use super::Next;
use super::body::Body;
use super::lines::{Lines, after, text, words};
use super::message::{Growing, Mail, MailEnd, MailEnvelope, Settings};
use crate::protocol::Protocol;

/// Commands without answers; with more, the reader is out of step.
const COMMANDS_MAX: usize = 10_000;
/// Recipients of a message that are kept.
const RECIPIENTS_MAX: usize = 10_000;
/// Bytes of a client that wait for an answer; with more, the command counts as accepted.
const WAITING_BYTES_MAX: usize = 64 * 1024;

/// A command whose answer is to come.
#[derive(Debug)]
enum Command {
    Hello(String),
    Mail(String),
    Recipient(String),
    Data,
    Auth,
    StartTls,
    Reset,
    /// Also chunks and ends of messages.
    Other,
}

enum Mode {
    Command,
    /// The line is an answer to a challenge of AUTH.
    Challenge,
    Data(Body),
    Chunk {
        left: u64,
        is_last: bool,
    },
}

pub(super) struct Smtp {
    settings: Settings,
    envelope: MailEnvelope,
    /// Commands in their order.
    commands: VecDeque<Command>,
    mode: Mode,
    lines: [Lines; 2],
    /// The client's bytes wait for the answer to its last command.
    waits: bool,
    waiting: Vec<u8>,
    /// The next answer is the greeting.
    is_greeting_due: bool,
    /// Answers are seen.
    has_answers: bool,
    login: Option<String>,
    message: Option<Growing>,
}

impl Smtp {
    pub(super) fn new(settings: &Settings, begins: bool) -> Self {
        Self {
            settings: settings.clone(),
            envelope: MailEnvelope::default(),
            commands: VecDeque::new(),
            mode: Mode::Command,
            lines: Default::default(),
            waits: false,
            waiting: Vec::new(),
            is_greeting_due: begins,
            has_answers: false,
            login: None,
            message: None,
        }
    }

    pub(super) fn data(&mut self, way: Direction, bytes: &[u8], done: &mut Vec<Mail>) -> Next {
        match way {
            Direction::ToServer if self.waits => self.hold(bytes, done),
            Direction::ToServer => self.client(bytes, done),
            Direction::ToClient => self.server(bytes, done),
        }
    }

    pub(super) fn stop(mut self, end: MailEnd, done: &mut Vec<Mail>) {
        self.finish(end, done);
    }

    fn hold(&mut self, bytes: &[u8], done: &mut Vec<Mail>) -> Next {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() <= WAITING_BYTES_MAX {
            return Next::Go;
        }
        if matches!(self.commands.back(), Some(Command::Data)) {
            self.commands.pop_back();
            self.begin_data();
        }
        self.go_on(done)
    }

    /// The client's bytes do not wait any more.
    fn go_on(&mut self, done: &mut Vec<Mail>) -> Next {
        self.waits = false;
        let bytes = std::mem::take(&mut self.waiting);
        self.client(&bytes, done)
    }

    fn client(&mut self, mut bytes: &[u8], done: &mut Vec<Mail>) -> Next {
        while !bytes.is_empty() {
            if self.waits {
                return self.hold(bytes, done);
            }
            match &mut self.mode {
                Mode::Command | Mode::Challenge => {
                    let [lines, _] = &mut self.lines;
                    if let Some(line) = lines.next(&mut bytes)
                        && self.line(&line, done) == Next::Stop
                    {
                        return Next::Stop;
                    }
                }
                Mode::Data(body) => {
                    let Some(message) = &mut self.message else { return Next::Stop };
                    if body.take(&mut bytes, message) {
                        self.sent(Command::Other);
                        self.finish(MailEnd::Whole, done);
                    }
                }
                Mode::Chunk { left, is_last } => {
                    let len = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    let (piece, rest) = bytes.split_at(len);
                    bytes = rest;
                    *left -= piece.len() as u64;
                    let is_over = (*left == 0).then_some(*is_last);
                    if let Some(message) = &mut self.message {
                        message.push(piece);
                    }
                    self.chunk_ends(is_over, done);
                }
            }
            if self.commands.len() > COMMANDS_MAX {
                return Next::Stop;
            }
        }
        Next::Go
    }

    /// `is_last`: of a chunk that is over, whether it was the message's last.
    fn chunk_ends(&mut self, is_last: Option<bool>, done: &mut Vec<Mail>) {
        match is_last {
            Some(true) => self.finish(MailEnd::Whole, done),
            Some(false) => self.mode = Mode::Command,
            None => {}
        }
    }

    /// The message ends; the next one has an envelope of its own.
    fn finish(&mut self, end: MailEnd, done: &mut Vec<Mail>) {
        self.mode = Mode::Command;
        if let Some(message) = self.message.take() {
            done.push(message.finish(end, self.envelope.clone()));
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.envelope.mail_from.clear();
        self.envelope.rcpt_to.clear();
    }

    fn begin_data(&mut self) {
        self.message = Some(self.growing());
        self.mode = Mode::Data(Body::default());
    }

    fn growing(&self) -> Growing {
        Growing::new(&self.settings, Protocol::Smtp, Direction::ToServer)
    }

    fn line(&mut self, line: &[u8], done: &mut Vec<Mail>) -> Next {
        if matches!(self.mode, Mode::Challenge) {
            self.mode = Mode::Command;
            self.note_login(line);
            return self.sent_and_wait(Command::Auth);
        }
        let hello = || [&b"ehlo"[..], b"helo", b"lhlo"].into_iter().find_map(|w| after(line, w));
        if after(line, b"data").is_some() {
            return self.sent_and_wait(Command::Data);
        } else if let Some(rest) = after(line, b"bdat") {
            return self.begin_chunk(rest, done);
        } else if let Some(rest) = after(line, b"auth") {
            self.login = None;
            let mut words = words(rest);
            let method = words.next().unwrap_or_default();
            if let Some(response) = words.next().filter(|_| method.eq_ignore_ascii_case(b"plain")) {
                self.note_login(response);
            }
            return self.sent_and_wait(Command::Auth);
        } else if let Some(rest) = after(line, b"mail") {
            return self.sent(Command::Mail(path(rest)));
        } else if let Some(rest) = after(line, b"rcpt") {
            return self.sent(Command::Recipient(path(rest)));
        } else if let Some(rest) = hello() {
            return self.sent(Command::Hello(text(rest)));
        } else if after(line, b"starttls").is_some() {
            return self.sent_and_wait(Command::StartTls);
        } else if after(line, b"rset").is_some() {
            return self.sent(Command::Reset);
        }
        self.sent(Command::Other)
    }

    fn begin_chunk(&mut self, rest: &[u8], done: &mut Vec<Mail>) -> Next {
        let mut words = words(rest);
        let length = words.next().and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
        // What follows cannot be told from commands.
        let Some(left) = length else { return Next::Stop };
        let is_last = words.next().is_some_and(|word| word.eq_ignore_ascii_case(b"last"));
        if self.message.is_none() {
            self.message = Some(self.growing());
        }
        self.mode = Mode::Chunk { left, is_last };
        let next = self.sent(Command::Other);
        if left == 0 {
            self.chunk_ends(Some(is_last), done);
        }
        next
    }

    /// The name in a response of PLAIN (RFC 4616), or the first of LOGIN; nothing of a password is
    /// kept.
    fn note_login(&mut self, response: &[u8]) {
        if self.login.is_some() {
            return;
        }
        let Ok(decoded) = base64_simd::STANDARD.decode_to_vec(response) else { return };
        let mut parts = decoded.split(|byte| *byte == 0);
        let first = parts.next().unwrap_or_default();
        let name = parts.next().unwrap_or(first);
        self.login = Some(text(name));
    }

    fn sent(&mut self, command: Command) -> Next {
        if self.has_answers || self.is_greeting_due {
            self.commands.push_back(command);
            return Next::Go;
        }
        // Nothing of the server is seen.
        let code = if matches!(command, Command::Data) { 354 } else { 250 };
        self.answered(command, code)
    }

    fn sent_and_wait(&mut self, command: Command) -> Next {
        let next = self.sent(command);
        self.waits = !self.commands.is_empty();
        next
    }

    fn server(&mut self, mut bytes: &[u8], done: &mut Vec<Mail>) -> Next {
        while !bytes.is_empty() {
            let [_, lines] = &mut self.lines;
            let Some(line) = lines.next(&mut bytes) else { break };
            self.has_answers = true;
            let code = line.get(..3).and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
            let Some(code) = code.filter(|_| line.get(3) != Some(&b'-')) else { continue };
            if std::mem::take(&mut self.is_greeting_due) {
                continue;
            }
            let Some(command) = self.commands.pop_front() else { continue };
            let is_awaited = self.commands.is_empty() && self.waits;
            if self.answered(command, code) == Next::Stop {
                return Next::Stop;
            }
            if is_awaited && self.go_on(done) == Next::Stop {
                return Next::Stop;
            }
        }
        Next::Go
    }

    fn answered(&mut self, command: Command, code: u16) -> Next {
        let is_fine = (200..300).contains(&code);
        match command {
            Command::Data if code == 354 => self.begin_data(),
            Command::Auth if code == 334 => self.mode = Mode::Challenge,
            Command::Auth if code == 235 => self.envelope.auth_user = self.login.take(),
            Command::StartTls if code == 220 => return Next::Stop,
            Command::Mail(from) if is_fine => self.envelope.mail_from = from,
            Command::Recipient(to) if is_fine && self.envelope.rcpt_to.len() < RECIPIENTS_MAX => {
                self.envelope.rcpt_to.push(to);
            }
            Command::Hello(name) if is_fine => {
                self.envelope.helo = name;
                self.forget();
            }
            Command::Reset if is_fine => {
                self.message = None;
                self.forget();
            }
            _ => {}
        }
        Next::Go
    }
}

/// The path of `FROM:<a@b> SIZE=1`, without brackets and source route.
fn path(rest: &[u8]) -> String {
    let behind = rest.iter().position(|byte| *byte == b':').map_or(0, |place| place + 1);
    let rest = rest.get(behind..).unwrap_or_default().trim_ascii_start();
    let path = match rest.strip_prefix(b"<") {
        Some(rest) => {
            let mut is_quoted = false;
            let end = rest.iter().position(|byte| {
                is_quoted ^= *byte == b'"';
                *byte == b'>' && !is_quoted
            });
            rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
        }
        None => rest.split(u8::is_ascii_whitespace).next().unwrap_or_default(),
    };
    let routed = path.strip_prefix(b"@").and_then(|route| {
        let place = route.iter().position(|byte| *byte == b':')?;
        route.get(place + 1..)
    });
    text(routed.unwrap_or(path))
}
