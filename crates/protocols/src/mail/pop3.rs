//! POP3 (RFC 1939, RFC 2449, RFC 2595): what a client fetches.

use std::collections::VecDeque;

use gauntlet_packet::Direction;

use super::Next;
use super::body::Body;
use super::lines::{Lines, after, words};
use super::message::{Growing, Mail, MailEnd, MailEnvelope, Settings};
use crate::protocol::Protocol;

/// Commands without answers; with more, the reader is out of step.
const COMMANDS_MAX: usize = 10_000;

/// How a command's answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    /// RETR, and TOP with lines of the body.
    Message,
    /// Lines up to a dot.
    List,
    /// AUTH, and lines that answer its challenges.
    Auth,
    Encrypt,
    Line,
}

pub(super) struct Pop3 {
    settings: Settings,
    commands: VecDeque<Command>,
    lines: [Lines; 2],
    /// The client's next line answers a challenge.
    is_challenged: bool,
    /// The client's lines wait: whether they are commands is not known yet.
    waits: bool,
    waiting: Vec<u8>,
    is_greeting_due: bool,
    /// An answer of several lines.
    body: Option<Body>,
    message: Option<Growing>,
    /// What goes by and is no message.
    other: Option<Growing>,
}

impl Pop3 {
    pub(super) fn new(settings: &Settings, begins: bool) -> Self {
        Self {
            settings: settings.clone(),
            commands: VecDeque::new(),
            lines: Default::default(),
            is_challenged: false,
            waits: false,
            waiting: Vec::new(),
            is_greeting_due: begins,
            body: None,
            message: None,
            other: None,
        }
    }

    pub(super) fn data(&mut self, way: Direction, bytes: &[u8], done: &mut Vec<Mail>) -> Next {
        match way {
            Direction::ToServer => self.client(bytes),
            Direction::ToClient => self.server(bytes, done),
        }
    }

    pub(super) fn stop(mut self, end: MailEnd, done: &mut Vec<Mail>) {
        if let Some(message) = self.message.take() {
            done.push(message.finish(end, MailEnvelope::default()));
        }
    }

    fn client(&mut self, mut bytes: &[u8]) -> Next {
        while !bytes.is_empty() {
            if self.waits {
                self.waiting.extend_from_slice(bytes);
                let is_fine = self.waiting.len() <= COMMANDS_MAX;
                return if is_fine { Next::Go } else { Next::Stop };
            }
            let [lines, _] = &mut self.lines;
            let Some(line) = lines.next(&mut bytes) else { break };
            let command = match std::mem::take(&mut self.is_challenged) {
                true => Command::Auth,
                false => read(&line),
            };
            self.waits = matches!(command, Command::Auth | Command::Encrypt);
            self.commands.push_back(command);
            if self.commands.len() > COMMANDS_MAX {
                return Next::Stop;
            }
        }
        Next::Go
    }

    fn server(&mut self, mut bytes: &[u8], done: &mut Vec<Mail>) -> Next {
        while !bytes.is_empty() {
            if let Some(mut body) = self.body.take() {
                let target = self.message.as_mut().or(self.other.as_mut());
                let Some(target) = target else { return Next::Stop };
                if !body.take(&mut bytes, target) {
                    self.body = Some(body);
                    continue;
                }
                self.other = None;
                if let Some(message) = self.message.take() {
                    done.push(message.finish(MailEnd::Whole, MailEnvelope::default()));
                }
                continue;
            }
            let [_, lines] = &mut self.lines;
            let Some(line) = lines.next(&mut bytes) else { break };
            if self.answered(&line) == Next::Stop {
                return Next::Stop;
            }
        }
        Next::Go
    }

    fn answered(&mut self, line: &[u8]) -> Next {
        if std::mem::take(&mut self.is_greeting_due) {
            return Next::Go;
        }
        let is_fine = line.starts_with(b"+OK");
        let is_challenge = line == b"+" || line.starts_with(b"+ ");
        match self.commands.pop_front() {
            Some(Command::Encrypt) if is_fine => return Next::Stop,
            Some(Command::Message) if is_fine => {
                self.body = Some(Body::default());
                self.message = Some(self.growing(&self.settings));
            }
            Some(Command::List) if is_fine => {
                self.body = Some(Body::default());
                // Nothing of it is kept.
                self.other = Some(self.growing(&Settings::new(0, 0)));
            }
            Some(Command::Auth) if is_challenge => self.is_challenged = true,
            _ => {}
        }
        if std::mem::take(&mut self.waits) {
            let waiting = std::mem::take(&mut self.waiting);
            return self.client(&waiting);
        }
        Next::Go
    }

    fn growing(&self, settings: &Settings) -> Growing {
        Growing::new(settings, Protocol::Pop3, Direction::ToClient)
    }
}

fn read(line: &[u8]) -> Command {
    let counts = |rest: &[u8]| words(rest).count();
    if after(line, b"retr").is_some() {
        Command::Message
    } else if let Some(rest) = after(line, b"top") {
        let has_body = words(rest).nth(1).is_some_and(|lines| lines != b"0");
        if has_body { Command::Message } else { Command::List }
    } else if after(line, b"list").or_else(|| after(line, b"uidl")).is_some_and(|r| counts(r) == 0)
        || after(line, b"capa").is_some()
    {
        Command::List
    } else if after(line, b"auth").is_some() {
        Command::Auth
    } else if after(line, b"stls").is_some() {
        Command::Encrypt
    } else {
        Command::Line
    }
}
