//! POP3 (RFC 1939, RFC 2449). A command and its response are a transaction; the greeting is one,
//! too.

mod wire;

use gauntlet_packet::Direction;

use crate::buffer::Bytes;
use crate::parser::{At, Change, Guess, Input, Module, Outcome, Parser, Probe, Question, Wishes};
use crate::protocol::{Carrier, Protocol};
use crate::record::{Fields, Value};
use crate::tables::{TWO_STATES, transactions_in};
use crate::transaction::{Transaction, Transactions};
use wire::{Command, Response};

/// With more transactions that wait, nothing more is taken.
const TRANSACTIONS_MAX: usize = 256;

/// So few bytes say nothing.
const PROBE_BYTES_MIN: usize = 5;

/// What the server says to an authentication without a challenge.
const EMPTY_CHALLENGE: &[u8] = b"+ \r\n";

const TOO_MANY: u8 = 0;
const REQUEST_TOO_LONG: u8 = 1;
const WRONG_COUNT: u8 = 2;
const UNKNOWN: u8 = 3;
const RESPONSE_TOO_LONG: u8 = 4;

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::Pop3,
    events: &[
        "too_many_transactions",
        "request_too_long",
        "incorrect_argument_count",
        "unknown_command",
        "response_too_long",
    ],
    states: TWO_STATES,
    buffers: &[],
    numbers: &[],
    patterns: &[],
    probes: &[Probe {
        carrier: Carrier::Tcp,
        ports: &[110],
        direction: Direction::ToServer,
        min: 0,
        max: 16,
        to_port: Some(probe),
        from_port: Some(probe),
    }],
    accepts_gaps: true,
    first: None,
    make: |_, _| Some(Box::new(Pop3::default())),
};

fn probe(question: &Question<'_>) -> Guess {
    if question.bytes.len() < PROBE_BYTES_MIN {
        return Guess::Unsure;
    }
    if fits(question.direction, question.bytes) { Guess::Yes } else { Guess::No }
}

fn fits(direction: Direction, bytes: &[u8]) -> bool {
    match direction {
        Direction::ToServer => wire::read_command(bytes).is_some(),
        Direction::ToClient => wire::read_response(bytes).is_some(),
    }
}

#[derive(Default)]
struct Exchange {
    request: Option<Command>,
    response: Option<Response>,
}

#[derive(Default)]
struct Pop3 {
    exchanges: Transactions<Exchange>,
    /// Bytes are missing: the directions are out of step until a message fits.
    gaps: [bool; 2],
    /// Bytes of a mail that are still to come.
    mail: usize,
    /// The next line of the client is the answer to a challenge.
    is_challenged: bool,
}

/// Why it does not go on.
enum Stop {
    /// More bytes are needed, so many from here on.
    More(usize),
    Failed,
}

impl Pop3 {
    /// The first that has no response.
    fn open(&mut self) -> Option<&mut Transaction<Exchange>> {
        self.exchanges.iter_mut().find(|transaction| transaction.data.response.is_none())
    }

    fn add(&mut self) -> Option<&mut Transaction<Exchange>> {
        if self.exchanges.len() > TRANSACTIONS_MAX {
            for transaction in self.exchanges.iter_mut() {
                let state = &mut transaction.state;
                if state.progress != [1, 1] {
                    state.progress = [1, 1];
                    state.updated = [true, true];
                    state.event(TOO_MANY);
                }
            }
            return None;
        }
        self.exchanges.push(Exchange::default())
    }

    /// Takes a line of the client; says how long it is.
    fn request(&mut self, bytes: &[u8], wishes: &mut Wishes) -> Result<usize, Stop> {
        if self.is_challenged {
            let is_answer = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
            let length = bytes.iter().take_while(|byte| is_answer(byte)).count();
            let rest = bytes.get(length..).unwrap_or_default();
            return match rest {
                [b'\r', b'\n', ..] => {
                    self.is_challenged = false;
                    self.take_request(Command::answer(), wishes);
                    Ok(length + 2)
                }
                [] | [b'\r'] => Err(Stop::More(bytes.len() + 1)),
                _ => Err(Stop::Failed),
            };
        }
        let (command, length) = wire::read_command(bytes).ok_or(Stop::Failed)?;
        if self.take_request(command, wishes) { Ok(length) } else { Err(Stop::Failed) }
    }

    fn take_request(&mut self, command: Command, wishes: &mut Wishes) -> bool {
        let Some(Transaction { state, data }) = self.add() else { return false };
        let events = [
            (command.is_too_long, REQUEST_TOO_LONG),
            (command.has_wrong_count, WRONG_COUNT),
            (command.is_unknown, UNKNOWN),
        ];
        for (_, event) in events.into_iter().filter(|(is_so, _)| *is_so) {
            state.event(event);
        }
        data.request = Some(command);
        state.progress[0] = 1;
        state.updated = [true, true];
        wishes.inspect(Direction::ToServer);
        true
    }

    /// A response is through of which no more is kept.
    fn complete(&mut self) {
        if let Some(transaction) = self.open() {
            transaction.state.progress = [1, 1];
            transaction.state.updated = [true, true];
        }
    }

    /// Takes a response; says how long it is.
    fn response(&mut self, bytes: &[u8], wishes: &mut Wishes) -> Result<usize, Stop> {
        if bytes.starts_with(EMPTY_CHALLENGE) {
            self.complete();
            let mut challenged = false;
            if let Some(transaction) = self.open() {
                transaction.data.response = Some(Response::empty());
                challenged = transaction.data.request.as_ref().is_some_and(|r| r.name == "AUTH");
            }
            self.is_challenged |= challenged;
            return Ok(EMPTY_CHALLENGE.len());
        }
        let request = self.open().and_then(|transaction| transaction.data.request.as_ref());
        let (mut has_lines, is_mail) = request.map_or((false, false), Command::answer_kind);
        let line = memchr::memmem::find(bytes, b"\r\n").ok_or(Stop::More(bytes.len() + 1))?;
        let (header, body) = (bytes.get(..line).unwrap_or_default(), line + 2);
        let mut start = 0;
        if is_mail && let Some(size) = wire::octets(header) {
            let there = size.min(bytes.len() - body);
            self.mail = size - there;
            start = body + there;
        } else if header.starts_with(b"-ERR") {
            has_lines = false;
        }
        if has_lines {
            let rest = bytes.get(start..).unwrap_or_default();
            let end = memchr::memmem::find(rest, b".\r\n");
            let end = end.ok_or(Stop::More(bytes.len() + 1)).or_else(|stop| {
                // What was taken of a mail is not seen again.
                if start > 0 && rest.is_empty() { Ok(0) } else { Err(stop) }
            })?;
            if is_mail && self.mail == 0 && !rest.is_empty() {
                start += end + 3;
                self.complete();
            }
        }
        let rest = bytes.get(start..).filter(|rest| !rest.is_empty());
        let Some(rest) = rest else { return Ok(start) };
        let (response, length) = wire::read_response(rest).ok_or(Stop::Failed)?;
        if self.take_response(response, wishes) { Ok(start + length) } else { Err(Stop::Failed) }
    }

    fn take_response(&mut self, mut response: Response, wishes: &mut Wishes) -> bool {
        let has_open = self.open().is_some();
        let found = if has_open { self.open() } else { self.add() };
        let Some(Transaction { state, data }) = found else { return false };
        if response.is_too_long {
            state.event(RESPONSE_TOO_LONG);
        }
        state.progress = [1, 1];
        state.updated = [true, true];
        wishes.inspect(Direction::ToClient);
        let mut challenged = false;
        if response.is_ok {
            match data.request.as_ref().map(|request| request.name.as_str()) {
                Some("STLS") => {
                    let expect = Some(Protocol::Tls);
                    wishes.change = Some(Change { expect, forced: false, port: None });
                }
                Some("RETR") => response.lines.clear(),
                Some("AUTH") => challenged = true,
                _ => {}
            }
        }
        data.response = Some(response);
        self.is_challenged |= challenged;
        true
    }
}

impl Parser for Pop3 {
    fn parse(&mut self, input: Input<'_>, wishes: &mut Wishes) -> Outcome {
        let direction = input.direction;
        let is_up = direction == Direction::ToServer;
        if is_up && input.end {
            return Outcome::Done;
        }
        let mut consumed = 0;
        if !is_up && self.mail > 0 {
            consumed = self.mail.min(input.bytes.len());
            self.mail -= consumed;
            if self.mail == 0 {
                self.complete();
            }
        }
        let rest = input.bytes.get(consumed..).unwrap_or_default();
        if !rest.is_empty()
            && let Some(gap) = self.gaps.get_mut(direction.index())
            && *gap
        {
            if !fits(direction, rest) {
                return Outcome::Done;
            }
            *gap = false;
        }
        while let Some(rest) = input.bytes.get(consumed..).filter(|rest| !rest.is_empty()) {
            let taken =
                if is_up { self.request(rest, wishes) } else { self.response(rest, wishes) };
            match taken {
                Ok(length) => consumed += length,
                Err(Stop::More(needed)) => return Outcome::Incomplete { consumed, needed },
                Err(Stop::Failed) => return Outcome::Failed,
            }
        }
        Outcome::Done
    }

    fn gap(&mut self, direction: Direction, _: u64, _: &mut Wishes) -> Outcome {
        if let Some(gap) = self.gaps.get_mut(direction.index()) {
            *gap = true;
        }
        Outcome::Done
    }

    transactions_in!(exchanges);

    fn buffer(&self, _: usize, _: At, _: usize) -> Option<Bytes<'_>> {
        None
    }

    fn record(&self, place: usize, fields: &mut Fields) {
        let Some(transaction) = self.exchanges.at(place) else { return };
        let texts = |lines: &[Vec<u8>]| {
            let texts = lines.iter().map(|line| String::from_utf8_lossy(line).into_owned());
            texts.map(Value::Text).collect()
        };
        let mut pop3 = Fields::default();
        if let Some(request) = &transaction.data.request {
            let mut inner = Fields::default();
            inner.text("command", request.name.as_bytes());
            inner.list("args", texts(&request.arguments));
            pop3.object("request", inner);
        }
        if let Some(response) = &transaction.data.response {
            let mut inner = Fields::default();
            inner.truth("success", response.is_ok);
            inner.text("status", if response.is_ok { b"OK" } else { b"ERR" });
            inner.text("header", &response.header);
            inner.list("data", texts(&response.lines));
            pop3.object("response", inner);
        }
        fields.object("pop3", pop3);
    }
}

#[cfg(test)]
mod tests;
