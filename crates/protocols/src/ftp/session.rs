//! Commands and replies in step.

use gauntlet_packet::Direction;

use super::{Settings, command, port};
use crate::parser::{Expectation, Input, Outcome, Wishes};
use crate::protocol::Protocol;
use crate::transaction::{Transaction, Transactions};

pub(super) const EVENTS: &[&str] = &[
    "request_command_too_long",
    "response_command_too_long",
    "too_many_transactions",
    "file_before_port",
    "file_without_name",
];
const REQUEST_COMMAND_TOO_LONG: u8 = 0;
const RESPONSE_COMMAND_TOO_LONG: u8 = 1;
const TOO_MANY_TRANSACTIONS: u8 = 2;
const FILE_BEFORE_PORT: u8 = 3;
const FILE_WITHOUT_NAME: u8 = 4;

/// Reply lines that are kept of one command.
const REPLIES_MAX: usize = 4096;
/// Longest name of a file.
const FILE_NAME_BYTES_MAX: usize = 1023;

/// A line of a reply.
#[derive(Debug)]
pub(super) struct Reply {
    /// Three digits, or nothing.
    pub(super) code: Vec<u8>,
    pub(super) text: Vec<u8>,
    pub(super) is_cut: bool,
}

/// A command with its replies.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    pub(super) command: Option<&'static str>,
    pub(super) line: Vec<u8>,
    pub(super) is_cut: bool,
    pub(super) replies: Vec<Reply>,
    pub(super) port: Option<u16>,
    pub(super) is_active: bool,
    pub(super) is_done: bool,
}

/// A session.
#[derive(Default)]
pub(super) struct Session {
    settings: Settings,
    pub(super) exchanges: Transactions<Exchange>,
    /// The last command, if it was a known one.
    command: Option<&'static str>,
    port_line: Vec<u8>,
    port: Option<u16>,
    is_active: bool,
    /// The rest of a line that is too long is to come, by direction.
    cut: [bool; 2],
}

/// The protocol is broken.
struct Broken;

/// A line without its end.
struct Line<'a> {
    text: &'a [u8],
    has_end: bool,
    is_long: bool,
}

enum Next<'a> {
    Line(Line<'a>, usize),
    Over,
    Wait,
}

impl Session {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { settings: settings.clone(), ..Self::default() }
    }

    /// The address that the last command names, if that was PORT.
    pub(super) fn port_address(&self) -> Option<u32> {
        (self.command == Some("PORT")).then(|| port::address(&self.port_line)).flatten()
    }

    pub(super) fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        if input.bytes.is_empty() {
            let fine = input.end || input.direction == Direction::ToClient;
            return if fine { Outcome::Done } else { Outcome::Failed };
        }
        let mut place = 0;
        // The first transaction that replies may belong to.
        let mut from = 0;
        loop {
            let (line, next) = match self.next_line(input.bytes, place, input.direction) {
                Next::Line(line, next) => (line, next),
                Next::Over => return Outcome::Done,
                Next::Wait => {
                    let needed = input.bytes.len() - place + 1;
                    return Outcome::Incomplete { consumed: place, needed };
                }
            };
            place = next;
            let taken = match input.direction {
                Direction::ToServer => self.request(&line, wishes),
                Direction::ToClient => self.reply(&line, &mut from, wishes),
            };
            match taken {
                Err(Broken) => return Outcome::Failed,
                Ok(true) if line.is_long => return Outcome::Done,
                Ok(_) => {}
            }
        }
    }

    fn cut_mut(&mut self, direction: Direction) -> &mut bool {
        let [to_server, to_client] = &mut self.cut;
        if direction == Direction::ToServer { to_server } else { to_client }
    }

    fn next_line<'a>(&mut self, input: &'a [u8], place: usize, direction: Direction) -> Next<'a> {
        let max = self.settings.max_line_length;
        let cut = self.cut_mut(direction);
        let rest = input.get(place..).unwrap_or_default();
        if rest.is_empty() {
            return Next::Over;
        }
        let Some(end) = memchr::memchr(b'\n', rest) else {
            if *cut || rest.len() < max {
                return Next::Wait;
            }
            *cut = true;
            let text = input.get(..max).unwrap_or(input);
            return Next::Line(Line { text, has_end: false, is_long: true }, input.len());
        };
        if *cut {
            // What is behind a line that was cut goes, too: as Suricata has it.
            *cut = false;
            return Next::Over;
        }
        let next = place + end + 1;
        let full = rest.get(..=end).unwrap_or_default();
        if let Some(text) = full.get(..max) {
            *cut = true;
            return Next::Line(Line { text, has_end: true, is_long: true }, next);
        }
        let text = full.strip_suffix(b"\n").unwrap_or(full);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        Next::Line(Line { text, has_end: true, is_long: false }, next)
    }

    /// Adds a transaction, unless too many wait.
    fn begin(&mut self) -> Result<&mut Transaction<Exchange>, Broken> {
        let oldest = self.exchanges.at(0).map(|exchange| exchange.state.id);
        let waiting = oldest.map_or(0, |oldest| self.exchanges.total() - oldest);
        if waiting > self.settings.max_tx {
            if let Some(open) = self.exchanges.iter_mut().find(|open| !open.data.is_done) {
                open.state.event(TOO_MANY_TRANSACTIONS);
                finish(open);
                open.state.touch(Direction::ToServer);
            }
            return Err(Broken);
        }
        let exchange = self.exchanges.push(Exchange::default()).ok_or(Broken)?;
        exchange.state.progress = [1, 0];
        Ok(exchange)
    }

    /// A command; whether it was a known one.
    fn request(&mut self, line: &Line<'_>, wishes: &mut Wishes) -> Result<bool, Broken> {
        self.command = command::find(line.text);
        let Some(name) = self.command else { return Ok(false) };
        let is_cut = *self.cut_mut(Direction::ToServer);
        if line.has_end {
            *self.cut_mut(Direction::ToServer) = false;
        }
        let text = line.text.trim_ascii_end();
        let exchange = self.begin()?;
        exchange.state.touch(Direction::ToServer);
        exchange.data.command = Some(name);
        exchange.data.line = text.to_vec();
        exchange.data.is_cut = is_cut;
        if is_cut {
            exchange.state.event(REQUEST_COMMAND_TOO_LONG);
        }
        match name {
            "PORT" | "EPRT" => self.port_line = text.to_vec(),
            "RETR" | "STOR" | "APPE" if text.len() < 6 => {
                exchange.state.event(FILE_WITHOUT_NAME);
            }
            "RETR" | "STOR" | "APPE" | "STOU" | "NLST" | "LIST" | "MLSD" => {
                let id = exchange.state.id;
                self.announce(name, text, id, wishes);
            }
            _ => {}
        }
        Ok(true)
    }

    /// A transfer begins: the connection for it is to come.
    fn announce(&mut self, name: &'static str, text: &[u8], id: u64, wishes: &mut Wishes) {
        let Some(port) = self.port.take() else {
            if let Some(exchange) = self.exchanges.of_id_mut(id) {
                exchange.state.event(FILE_BEFORE_PORT);
            }
            return;
        };
        let stores = matches!(name, "STOR" | "APPE" | "STOU");
        let is_active = std::mem::take(&mut self.is_active);
        let file_name = match name {
            "RETR" | "STOR" | "APPE" | "STOU" if text.len() >= 6 => text.get(5..),
            "STOU" => Some(&b"<stou>"[..]),
            _ => None,
        };
        let file_name = file_name.unwrap_or_default();
        let file_name = file_name.get(..FILE_NAME_BYTES_MAX).unwrap_or(file_name);
        wishes.expected.push(Expectation {
            address: Vec::new(),
            port,
            protocol: Protocol::FtpData,
            direction: if is_active { Direction::ToClient } else { Direction::ToServer },
            about: [name.as_bytes(), file_name].concat(),
            // Of an active connection the client is who is connected to.
            upload: stores != is_active,
        });
    }

    /// A line of a reply.
    fn reply(
        &mut self,
        line: &Line<'_>,
        from: &mut u64,
        wishes: &mut Wishes,
    ) -> Result<bool, Broken> {
        let id = match self.oldest(*from) {
            Some(id) => id,
            None => {
                let exchange = self.begin()?;
                // No command: nothing is to be looked at to the server.
                exchange.state.skip = [true, false];
                exchange.state.id
            }
        };
        *from = id;
        let (last, port_line) = (self.command, std::mem::take(&mut self.port_line));
        let is_cut = *self.cut_mut(Direction::ToClient);
        let exchange = self.exchanges.of_id_mut(id).ok_or(Broken)?;
        exchange.state.touch(Direction::ToClient);
        if last.is_none() {
            exchange.data.command = None;
        }
        let text = line.text;
        let (port, is_active) = match last {
            Some("PORT") => (port::active(&port_line), true),
            Some("EPRT") => (port::extended_active(&port_line), true),
            Some("PASV") if text.starts_with(b"227 ") => (port::passive(text), false),
            Some("EPSV") if text.starts_with(b"229 ") => (port::extended_passive(text), false),
            _ => (None, false),
        };
        self.port_line = port_line;
        if let Some(port) = port {
            exchange.data.port = Some(port);
            exchange.data.is_active = is_active;
            self.port = Some(port);
            self.is_active = is_active;
            let who = if is_active { Direction::ToClient } else { Direction::ToServer };
            wishes.agreed.push((port, who));
        }
        let is_lost = matches!(last, Some("PORT" | "EPRT")) && port.is_none();
        if !is_lost {
            if let Some(reply) = read_reply(text, is_cut)
                && exchange.data.replies.len() < REPLIES_MAX
            {
                exchange.data.replies.push(reply);
            }
            if is_cut && !text.is_empty() {
                exchange.state.event(RESPONSE_COMMAND_TOO_LONG);
            }
        }
        if !is_preliminary(text) || is_lost {
            finish(exchange);
        }
        if line.has_end {
            *self.cut_mut(Direction::ToClient) = false;
        }
        Ok(!is_preliminary(text) || is_lost)
    }

    /// The oldest transaction from this one on that waits for its reply; the last one if none
    /// does.
    fn oldest(&self, from: u64) -> Option<u64> {
        let mut last = None;
        for exchange in self.exchanges.iter().filter(|exchange| exchange.state.id >= from) {
            if !exchange.data.is_done {
                return Some(exchange.state.id);
            }
            last = Some(exchange.state.id);
        }
        last
    }
}

fn finish(exchange: &mut Transaction<Exchange>) {
    exchange.data.is_done = true;
    exchange.state.advance(Direction::ToClient, 1);
}

/// Another reply follows before the command is done (RFC 959 section 4.2).
fn is_preliminary(text: &[u8]) -> bool {
    matches!(text, [b'1', b'0'..=b'9', b'0'..=b'9', space, ..] if space.is_ascii_whitespace())
}

/// Splits a line into code and text; `None` if it is empty.
fn read_reply(line: &[u8], is_cut: bool) -> Option<Reply> {
    let text = String::from_utf8_lossy(line);
    let text = text.split("\r\n").next().unwrap_or_default().trim_end();
    if text.is_empty() {
        return None;
    }
    let split = text
        .split_once(' ')
        .filter(|(code, _)| code.len() == 3 && code.bytes().all(|digit| digit.is_ascii_digit()));
    let (code, text) = split.unwrap_or(("", text));
    Some(Reply { code: code.into(), text: text.into(), is_cut })
}
