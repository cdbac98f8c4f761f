//! The protocol between an MTA and its mail filters (milter, versions 2 to 6), the filter's side, without
//! sockets.
//!
//! A packet is its length (four bytes, big endian), a command byte and data. The MTA opens with a
//! negotiation, then tells client, HELO, envelope, header and body of one message after another; each
//! command waits for an answer unless the negotiation said that there is none. [`Session`] answers all
//! but the end of a message by itself and collects the message; whoever judges it writes [`Action`]s and
//! one [`Reply`].
//!
//! Header fields and body come as they will be read: CRLF at the end of each line, `Name:value` with
//! the white space that the MTA says there was.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::data::{BadData, LineCheck};

/// Highest version spoken.
const VERSION: u32 = 6;
/// Lowest version spoken.
const VERSION_MIN: u32 = 2;
/// Commands without which there is no verdict are answered at the end; none of the others needs an
/// answer. `SMFIP_NR_*`: header, connect, HELO, MAIL, RCPT, DATA, unknown, end of header, body.
const NO_ANSWERS: u32 =
    0x80 | 0x1000 | 0x2000 | 0x4000 | 0x8000 | 0x1_0000 | 0x2_0000 | 0x4_0000 | 0x8_0000;
/// `SMFIP_NOUNKNOWN`, `SMFIP_NODATA`: commands that say nothing about a message.
const UNWANTED: u32 = 0x100 | 0x200;
/// `SMFIP_HDR_LEADSPC`: values of header fields keep the space after the colon.
const LEADING_SPACE: u32 = 0x10_0000;
/// Data of a body packet that we send at most (`MILTER_CHUNK_SIZE`).
const CHUNK_BYTES: usize = 65_535;
/// Names of macros kept at most, and bytes of a value.
const MACROS_MAX: usize = 128;
const MACRO_BYTES_MAX: usize = 1_024;
/// What a text costs beside its bytes.
const TEXT_COST: usize = size_of::<String>();
/// Bytes of a packet with a name or address: far above any path (RFC 5321 section 4.5.3.1.3).
const TEXT_BYTES_MAX: usize = 4_096;

/// Changes that the MTA allows (`SMFIF_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowed(u32);

impl Allowed {
    const ADD_HEADERS: u32 = 0x1;
    const CHANGE_BODY: u32 = 0x2;
    const ADD_RECIPIENTS: u32 = 0x4;
    const DELETE_RECIPIENTS: u32 = 0x8;
    const CHANGE_HEADERS: u32 = 0x10;
    const QUARANTINE: u32 = 0x20;
    const ALL: u32 = 0x3f;

    /// The action may be sent.
    pub fn allows(self, action: &Action) -> bool {
        let bit = match action {
            Action::InsertHeader { .. } => Self::ADD_HEADERS,
            Action::ChangeHeader { .. } => Self::CHANGE_HEADERS,
            Action::ReplaceBody(_) => Self::CHANGE_BODY,
            Action::AddRecipient(_) => Self::ADD_RECIPIENTS,
            Action::DeleteRecipient(_) => Self::DELETE_RECIPIENTS,
            Action::Quarantine(_) => Self::QUARANTINE,
        };
        self.0 & bit != 0
    }
}

/// Bounds of what an MTA may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one packet.
    pub packet_bytes_max: usize,
    /// Bytes of a message; what is over is dropped, and the message has [`Fault::TooLarge`].
    pub message_bytes_max: usize,
    /// Recipients of a message; more of them give [`Fault::TooManyRecipients`].
    pub recipients_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { packet_bytes_max: 1 << 20, message_bytes_max: 50 << 20, recipients_max: 1_000 }
    }
}

/// What ends a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    /// A packet of no bytes, or over its limit.
    #[error("a packet of {0} bytes")]
    Length(u32),
    /// Data that the command cannot have.
    #[error("command {:?} with data that it cannot have", char::from(*.0))]
    Data(u8),
    /// A command that is none.
    #[error("unknown command {:?}", char::from(*.0))]
    Command(u8),
    /// A command where it cannot be.
    #[error("command {:?} out of order", char::from(*.0))]
    Order(u8),
    /// A version that we do not speak.
    #[error("version {0} of the protocol")]
    Version(u32),
}

/// Why a message cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Over [`Limits::message_bytes_max`].
    TooLarge,
    /// Over [`Limits::recipients_max`].
    TooManyRecipients,
    /// The host had no room for it ([`Session::refuse_content`]).
    NoRoom,
    /// Bytes that may not stand in a message. The MTA passes its own copy on, which programs behind it
    /// read in more ways than one.
    Bytes(BadData),
}

/// What the MTA said of the client's connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peer {
    /// The client's name; `[address]` or empty if it has none.
    pub name: String,
    /// Its address; none for a local one.
    pub address: Option<IpAddr>,
    /// The argument of HELO or EHLO.
    pub helo: String,
}

/// A message that is complete.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// Client.
    pub peer: Peer,
    /// Macros by name, without braces; the last word of each counts.
    pub macros: BTreeMap<String, String>,
    /// Reverse path without brackets; empty for `<>`.
    pub mail_from: String,
    /// Forward paths without brackets, in order.
    pub rcpt_to: Vec<String>,
    /// Header, empty line and body.
    pub raw: Vec<u8>,
    /// Why it cannot be judged; `raw` is then incomplete.
    pub fault: Option<Fault>,
}

/// A change before the final [`Reply`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A field at this place of the header, from 0.
    InsertHeader {
        /// Its place.
        index: u32,
        /// Its name.
        name: String,
        /// Its value with the space after the colon; LF or CRLF where it is folded.
        value: Vec<u8>,
    },
    /// Another value for the field that is the `index`th of its name, from 1; none takes it out.
    ChangeHeader {
        /// Its place among the fields of its name.
        index: u32,
        /// Its name.
        name: String,
        /// As in [`Action::InsertHeader`].
        value: Option<Vec<u8>>,
    },
    /// Another body.
    ReplaceBody(Vec<u8>),
    /// One more recipient.
    AddRecipient(String),
    /// One recipient less.
    DeleteRecipient(String),
    /// The MTA keeps the message until somebody looks at it; the text says why.
    Quarantine(String),
}

/// The last word about a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It goes on, with the changes.
    Accept,
    /// It is dropped, and its sender told that it went well.
    Discard,
    /// Refused: code, enhanced code, text. 4xx or 5xx.
    Say(u16, (u8, u8, u8), String),
}

/// What a session wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// More bytes.
    More,
    /// A message is complete: take it, answer it.
    Message,
    /// The MTA is done.
    Close,
}

/// One connection of an MTA.
#[derive(Debug)]
pub struct Session {
    limits: Limits,
    input: Vec<u8>,
    /// What was negotiated; none before.
    terms: Option<Terms>,
    peer: Peer,
    /// Macros by the command they came before: a later message does not see those of an earlier one.
    macros: BTreeMap<u8, Vec<(String, String)>>,
    message: Option<Building>,
    packets: u64,
}

#[derive(Debug, Clone, Copy)]
struct Terms {
    steps: u32,
    allowed: Allowed,
}

#[derive(Debug, Default)]
struct Building {
    mail_from: String,
    rcpt_to: Vec<String>,
    raw: Vec<u8>,
    in_body: bool,
    /// Where the body is in a line.
    lines: LineCheck,
    fault: Option<Fault>,
}

/// Appends a packet.
fn packet(command: u8, parts: &[&[u8]], out: &mut Vec<u8>) {
    let length = 1 + parts.iter().map(|p| p.len()).sum::<usize>();
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    out.push(command);
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Strings that end with NUL each; the last one's may be missing.
fn strings(data: &[u8]) -> Vec<&[u8]> {
    let data = data.strip_suffix(b"\0").unwrap_or(data);
    if data.is_empty() { Vec::new() } else { data.split(|b| *b == 0).collect() }
}

fn text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    crate::text::one_line(&text, ' ').into_owned()
}

/// An address of MAIL or RCPT without its brackets.
fn path(argument: &[u8]) -> String {
    let text = text(argument);
    let text = text.trim();
    let inner = text.strip_prefix('<').and_then(|t| t.strip_suffix('>')).unwrap_or(text);
    inner.to_owned()
}

fn number(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

impl Session {
    /// A session with these bounds.
    pub fn new(limits: Limits) -> Self {
        Session {
            limits,
            input: Vec::new(),
            terms: None,
            peer: Peer::default(),
            macros: BTreeMap::new(),
            packets: 0,
            message: None,
        }
    }

    /// Takes the next bytes, and says what is to be done. Call it again, with no bytes, after
    /// [`Event::Message`] was answered.
    ///
    /// # Errors
    /// [`Bad`]: close; the MTA then does what it is set to do when a filter fails.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Event, Bad> {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut rest = input.as_slice();
        let ended = loop {
            let before = rest.len();
            let next = self.next(&mut rest, out);
            self.packets += u64::from(rest.len() < before);
            match next {
                Ok(Some(event)) => break Ok(event),
                Ok(None) => {}
                Err(bad) => break Err(bad),
            }
        };
        self.input = rest.to_vec();
        ended
    }

    /// Bytes held for the message and the packet that are incomplete.
    pub fn bytes(&self) -> usize {
        let of_message = |m: &Building| {
            m.raw.capacity() + m.rcpt_to.iter().map(|to| to.capacity() + TEXT_COST).sum::<usize>()
        };
        self.input.capacity() + self.message.as_ref().map_or(0, of_message)
    }

    /// A packet has begun: the rest of it should come soon.
    pub fn is_within_packet(&self) -> bool {
        !self.input.is_empty()
    }

    /// Packets that were complete so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// A message is under way.
    pub fn is_busy(&self) -> bool {
        !self.input.is_empty() || self.message.is_some()
    }

    /// There is no room for the message under way: what came of it is dropped, and so is the rest.
    pub fn refuse_content(&mut self) {
        if let Some(message) = &mut self.message {
            message.fault.get_or_insert(Fault::NoRoom);
            message.raw = Vec::new();
        }
    }

    /// The message that is complete.
    pub fn take(&mut self) -> Option<Message> {
        let Building { mail_from, rcpt_to, mut raw, in_body, lines, fault } =
            self.message.take()?;
        let fault = fault.or(lines.end().err().map(Fault::Bytes));
        if !in_body {
            raw.extend_from_slice(b"\r\n");
        }
        let macros = std::mem::take(&mut self.macros);
        // In the order of a session; what the connection said holds for all its messages.
        let (mut named, mut kept) = (BTreeMap::new(), BTreeMap::new());
        for step in *b"CHMRTLNBE" {
            let list = macros.get(&step).cloned().unwrap_or_default();
            named.extend(list.iter().cloned());
            if matches!(step, b'C' | b'H') {
                kept.insert(step, list);
            }
        }
        self.macros = kept;
        Some(Message { peer: self.peer.clone(), macros: named, mail_from, rcpt_to, raw, fault })
    }

    /// The changes that the MTA allows.
    pub fn allowed(&self) -> Allowed {
        self.terms.map_or(Allowed::default(), |terms| terms.allowed)
    }

    /// The MTA keeps and wants the space after a colon.
    fn keeps_space(&self) -> bool {
        self.terms.is_some_and(|terms| terms.steps & LEADING_SPACE != 0)
    }

    /// A value as the MTA wants it: lines end with LF, the space before it only if that was agreed.
    fn value(&self, value: &[u8]) -> Vec<u8> {
        let bare = value.iter().filter(|b| **b != b'\r').map(|b| if *b == 0 { b' ' } else { *b });
        let bare: Vec<u8> = bare.collect();
        let bare = bare.strip_suffix(b"\n").unwrap_or(&bare);
        let kept = if self.keeps_space() { bare } else { bare.trim_ascii_start() };
        kept.to_vec()
    }

    /// The judge needs longer.
    pub fn progress(&self, out: &mut Vec<u8>) {
        packet(b'p', &[], out);
    }

    /// Writes a change. Nothing is written if the MTA does not allow it; see [`Session::allowed`].
    pub fn act(&self, action: &Action, out: &mut Vec<u8>) {
        if !self.allowed().allows(action) {
            return;
        }
        match action {
            Action::InsertHeader { index, name, value } => {
                let (index, value) = (index.to_be_bytes(), self.value(value));
                packet(b'i', &[&index, name.as_bytes(), b"\0", &value, b"\0"], out);
            }
            Action::ChangeHeader { index, name, value } => {
                let index = index.to_be_bytes();
                let value = value.as_ref().map(|v| self.value(v)).unwrap_or_default();
                packet(b'm', &[&index, name.as_bytes(), b"\0", &value, b"\0"], out);
            }
            Action::ReplaceBody(body) if body.is_empty() => packet(b'b', &[], out),
            Action::ReplaceBody(body) => {
                body.chunks(CHUNK_BYTES).for_each(|chunk| packet(b'b', &[chunk], out));
            }
            Action::AddRecipient(to) => packet(b'+', &[b"<", to.as_bytes(), b">\0"], out),
            Action::DeleteRecipient(to) => packet(b'-', &[b"<", to.as_bytes(), b">\0"], out),
            Action::Quarantine(why) => packet(b'q', &[text(why.as_bytes()).as_bytes(), b"\0"], out),
        }
    }

    /// Writes the last word.
    pub fn reply(&self, reply: &Reply, out: &mut Vec<u8>) {
        match reply {
            Reply::Accept => packet(b'a', &[], out),
            Reply::Discard => packet(b'd', &[], out),
            Reply::Say(code, (class, subject, detail), why) => {
                // Sendmail takes the text as a format; Postfix halves the signs again.
                let why = text(why.as_bytes()).replace('%', "%%");
                let line = format!("{code} {class}.{subject}.{detail} {why}\0");
                packet(b'y', &[line.as_bytes()], out);
            }
        }
    }

    /// Reads one packet, if it has come whole. Some where somebody else has to do something.
    fn next(&mut self, rest: &mut &[u8], out: &mut Vec<u8>) -> Result<Option<Event>, Bad> {
        let Some(length) = number(rest, 0) else { return Ok(Some(Event::More)) };
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        if bytes == 0 || bytes > self.limits.packet_bytes_max {
            return Err(Bad::Length(length));
        }
        let Some((whole, after)) = rest.split_at_checked(bytes + 4) else {
            return Ok(Some(Event::More));
        };
        *rest = after;
        let (command, data) = match whole.get(4..) {
            Some([command, data @ ..]) => (*command, data),
            _ => return Err(Bad::Length(length)),
        };
        self.command(command, data, out)
    }

    fn command(
        &mut self,
        command: u8,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event>, Bad> {
        if self.terms.is_none() && !matches!(command, b'O' | b'Q') {
            return Err(Bad::Order(command));
        }
        if matches!(command, b'C' | b'H' | b'M' | b'R') && data.len() > TEXT_BYTES_MAX {
            return Err(Bad::Data(command));
        }
        match command {
            b'O' => self.negotiate(data, out)?,
            b'D' => self.remember(data)?,
            b'C' => {
                self.peer = connection(data).ok_or(Bad::Data(command))?;
                self.message = None;
                self.go_on(0x1000, out);
            }
            b'H' => {
                self.peer.helo = text(strings(data).first().copied().unwrap_or_default());
                self.go_on(0x2000, out);
            }
            b'M' => {
                let from = strings(data).first().map(|a| path(a)).ok_or(Bad::Data(command))?;
                self.message = Some(Building { mail_from: from, ..Building::default() });
                self.go_on(0x4000, out);
            }
            b'T' => self.go_on(0x1_0000, out),
            b'U' => self.go_on(0x2_0000, out),
            b'R' | b'L' | b'N' | b'B' | b'E' => return self.content(command, data, out),
            b'A' => self.forget(),
            b'K' => {
                self.forget();
                (self.peer, self.macros) = (Peer::default(), BTreeMap::new());
            }
            b'Q' => return Ok(Some(Event::Close)),
            other => return Err(Bad::Command(other)),
        }
        Ok(None)
    }

    /// Commands within a message.
    fn content(
        &mut self,
        command: u8,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event>, Bad> {
        let (limits, spaced) = (self.limits, self.keeps_space());
        let message = self.message.as_mut().ok_or(Bad::Order(command))?;
        match command {
            b'R' => {
                let to = strings(data).first().map(|a| path(a)).ok_or(Bad::Data(command))?;
                if message.rcpt_to.len() < limits.recipients_max {
                    message.rcpt_to.push(to);
                } else {
                    message.fault.get_or_insert(Fault::TooManyRecipients);
                }
                self.go_on(0x8000, out);
            }
            b'L' if message.in_body => return Err(Bad::Order(command)),
            b'L' => {
                let mut parts = data.splitn(3, |b| *b == 0);
                let (name, value) = parts.next().zip(parts.next()).ok_or(Bad::Data(command))?;
                if parts.next().is_some_and(|rest| !rest.is_empty()) {
                    message.found(BadData::Nul);
                }
                message.field(name, value, spaced, limits.message_bytes_max);
                self.go_on(0x80, out);
            }
            b'N' => {
                message.start_body(limits.message_bytes_max);
                self.go_on(0x4_0000, out);
            }
            b'B' => {
                message.body(data, limits.message_bytes_max);
                self.go_on(0x8_0000, out);
            }
            _ => {
                if !data.is_empty() {
                    message.body(data, limits.message_bytes_max);
                }
                return Ok(Some(Event::Message));
            }
        }
        Ok(None)
    }

    fn negotiate(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Bad> {
        let numbers = (number(data, 0), number(data, 4), number(data, 8));
        let (Some(version), Some(actions), Some(steps)) = numbers else {
            return Err(Bad::Data(b'O'));
        };
        if version < VERSION_MIN {
            return Err(Bad::Version(version));
        }
        let version = version.min(VERSION);
        let allowed = Allowed(actions & Allowed::ALL);
        let steps = steps & (NO_ANSWERS | UNWANTED | LEADING_SPACE);
        self.terms = Some(Terms { steps, allowed });
        let answer = [version.to_be_bytes(), allowed.0.to_be_bytes(), steps.to_be_bytes()];
        packet(b'O', &[answer.as_flattened()], out);
        Ok(())
    }

    /// Macros: the command they belong to, then names and values.
    fn remember(&mut self, data: &[u8]) -> Result<(), Bad> {
        let (step, data) = data.split_first().ok_or(Bad::Data(b'D'))?;
        let strings = strings(data);
        let name_of = |name: &[u8]| {
            let name = text(name.get(..MACRO_BYTES_MAX).unwrap_or(name));
            name.trim_start_matches('{').trim_end_matches('}').to_owned()
        };
        let cut = |value: &[u8]| text(value.get(..MACRO_BYTES_MAX).unwrap_or(value));
        let pairs = strings.chunks(2).take(MACROS_MAX).map(|pair| match pair {
            [name, value] => (name_of(name), cut(value)),
            _ => (name_of(pair.first().copied().unwrap_or_default()), String::new()),
        });
        if b"CHMRTLNBEU".contains(step) {
            self.macros.insert(*step, pairs.collect());
        }
        Ok(())
    }

    /// Answers a command unless it was agreed that there is no answer.
    fn go_on(&self, unanswered: u32, out: &mut Vec<u8>) {
        if self.terms.is_some_and(|terms| terms.steps & unanswered == 0) {
            packet(b'c', &[], out);
        }
    }

    /// The message under way is given up.
    fn forget(&mut self) {
        self.message = None;
        self.macros.retain(|step, _| matches!(step, b'C' | b'H'));
    }
}

/// The data of a connection: name, family, port, address.
fn connection(data: &[u8]) -> Option<Peer> {
    let end = memchr::memchr(0, data)?;
    let (name, rest) = (data.get(..end)?, data.get(end + 1..)?);
    let (family, rest) = rest.split_first()?;
    let address = rest.get(2..).map(|a| text(strings(a).first().copied().unwrap_or_default()));
    let address = match family {
        b'4' | b'6' => {
            let address = address?;
            let bare = address
                .get(5..)
                .filter(|_| address.get(..5).is_some_and(|p| p.eq_ignore_ascii_case("ipv6:")));
            Some(bare.unwrap_or(&address).parse::<IpAddr>().ok()?.to_canonical())
        }
        b'L' | b'U' => None,
        _ => return None,
    };
    Some(Peer { name: text(name), address, helo: String::new() })
}

impl Building {
    /// Adds bytes, or marks the message as too large and drops what it has.
    fn add(&mut self, parts: &[&[u8]], bytes_max: usize) {
        if self.fault == Some(Fault::TooLarge) || self.fault == Some(Fault::NoRoom) {
            return;
        }
        let more = parts.iter().map(|p| p.len()).sum::<usize>();
        if self.raw.len().saturating_add(more) > bytes_max {
            self.fault = Some(Fault::TooLarge);
            self.raw = Vec::new();
            return;
        }
        parts.iter().for_each(|part| self.raw.extend_from_slice(part));
    }

    /// The message has bytes that may not stand in one.
    fn found(&mut self, bad: BadData) {
        self.fault.get_or_insert(Fault::Bytes(bad));
    }

    /// A piece of the body.
    fn body(&mut self, data: &[u8], bytes_max: usize) {
        self.start_body(bytes_max);
        if let Err(bad) = self.lines.check(data) {
            self.found(bad);
        }
        self.add(&[data], bytes_max);
    }

    /// A header field. Whatever it holds, it stays one field; what would have to be changed for that makes
    /// the message one that is refused, since the MTA passes on what it has.
    fn field(&mut self, name: &[u8], value: &[u8], spaced: bool, bytes_max: usize) {
        match memchr::memchr3(b'\r', b'\n', 0, name).and_then(|at| name.get(at)) {
            Some(b'\r') => self.found(BadData::BareCr),
            Some(b'\n') => self.found(BadData::BareLf),
            Some(_) => self.found(BadData::Nul),
            None => {}
        }
        // Other odd names stay: the parser makes of them what it makes of such lines anywhere.
        let kept = |b: &u8| *b >= b' ' && !matches!(b, 127 | b':');
        let name: Vec<u8> = name.trim_ascii().iter().copied().filter(kept).collect();
        if name.is_empty() {
            return;
        }
        let mut folded = Vec::with_capacity(value.len() + 8);
        let mut lines = value.split(|b| *b == b'\n').enumerate().peekable();
        while let Some((i, line)) = lines.next() {
            let line = match line.strip_suffix(b"\r") {
                Some(start) if lines.peek().is_some() => start,
                _ => line,
            };
            if line.contains(&b'\r') {
                self.found(BadData::BareCr);
            }
            if i > 0 {
                folded.extend_from_slice(b"\r\n");
                // An unfolded line would be a field of its own, an empty one the end of the header.
                if !matches!(line.first(), Some(b' ' | b'\t')) {
                    self.found(BadData::BareLf);
                    folded.push(b'\t');
                }
            }
            folded.extend(line.iter().filter(|b| **b != b'\r'));
        }
        let space: &[u8] = if spaced || folded.is_empty() { b"" } else { b" " };
        self.add(&[&name, b":", space, &folded, b"\r\n"], bytes_max);
    }

    fn start_body(&mut self, bytes_max: usize) {
        if !std::mem::replace(&mut self.in_body, true) {
            self.add(&[b"\r\n"], bytes_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(packets: &[(u8, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        packets.iter().for_each(|(command, data)| packet(*command, &[data], &mut out));
        out
    }

    fn offer(version: u32, actions: u32, steps: u32) -> Vec<u8> {
        [version.to_be_bytes(), actions.to_be_bytes(), steps.to_be_bytes()].concat()
    }

    fn open(steps: u32) -> (Session, Vec<u8>) {
        let mut session = Session::new(Limits { message_bytes_max: 200, ..Limits::default() });
        let mut out = Vec::new();
        let event = session.push(&wire(&[(b'O', &offer(6, 0x1ff, steps))]), &mut out);
        assert_eq!(event, Ok(Event::More));
        (session, out)
    }

    const MAIL: [(u8, &[u8]); 9] = [
        (b'D', b"C{daemon_name}\0mx\0j\0mx.test\0"),
        (b'C', b"client.example\x004\x00\x19192.0.2.7\0"),
        (b'H', b"client.example\0"),
        (b'D', b"Mi\0QUEUE1\0{auth_authen}\0ann\0"),
        (b'M', b"<ann@example.org>\0SIZE=9\0"),
        (b'R', b"<bob@example.net>\0"),
        (b'L', b"Subject\0 hello\n\tyou\0"),
        (b'N', b""),
        (b'B', b"body\r\n"),
    ];

    #[test]
    fn names_and_addresses_are_bounded() {
        let mut session = Session::new(Limits::default());
        let mut out = Vec::new();
        let mut bytes = Vec::new();
        packet(b'O', &[&[0, 0, 0, 6, 0, 0, 1, 0xff, 0, 0x0f, 0xf0, 0x80]], &mut bytes);
        packet(b'D', &[b"M", &vec![b'n'; 900_000], b"\0v\0"], &mut bytes);
        packet(b'M', &[b"<a@b>\0"], &mut bytes);
        packet(b'R', &[b"<", &vec![b'x'; 4_000], b">\0"], &mut bytes);
        session.push(&bytes, &mut out).unwrap();
        assert!(session.macros.values().flatten().all(|(name, _)| name.len() <= MACRO_BYTES_MAX));
        assert!(session.bytes() >= 4_000, "recipients count: {}", session.bytes());
        for command in [b'R', b'M', b'H', b'C'] {
            let mut wire = Vec::new();
            packet(command, &[&vec![b'x'; TEXT_BYTES_MAX + 1]], &mut wire);
            let mut session = Session::new(Limits::default());
            session.push(&bytes, &mut out).unwrap();
            assert!(session.push(&wire, &mut out).is_err(), "{}", char::from(command));
        }
    }

    #[test]
    fn a_message_is_collected_and_nothing_is_answered_before_its_end() {
        let (mut session, out) = open(0x1f_ffff);
        let steps = NO_ANSWERS | UNWANTED | LEADING_SPACE;
        assert_eq!(out, wire(&[(b'O', &offer(6, Allowed::ALL, steps))]));
        let mut out = Vec::new();
        let mut bytes = wire(&MAIL);
        bytes.extend(wire(&[(b'E', b"")]));
        // In pieces of any size.
        let mut events = bytes.chunks(7).map(|piece| session.push(piece, &mut out).unwrap());
        assert!(events.any(|event| event == Event::Message));
        assert!(out.is_empty());
        let message = session.take().unwrap();
        assert_eq!(message.raw, b"Subject: hello\r\n\tyou\r\n\r\nbody\r\n");
        assert_eq!(message.peer.address, Some("192.0.2.7".parse().unwrap()));
        assert_eq!(
            (message.mail_from.as_str(), &*message.rcpt_to[0]),
            ("ann@example.org", "bob@example.net")
        );
        assert_eq!((&*message.macros["i"], &*message.macros["auth_authen"]), ("QUEUE1", "ann"));
        assert_eq!((&*message.macros["j"], message.fault), ("mx.test", None));
        // The next message of the connection knows the client, not the last one's login.
        let mut out = Vec::new();
        let next = wire(&[(b'M', b"<>\0"), (b'R', b"<c@d>\0"), (b'E', b"")]);
        assert_eq!(session.push(&next, &mut out), Ok(Event::Message));
        let message = session.take().unwrap();
        assert_eq!((message.mail_from.as_str(), message.raw.as_slice()), ("", &b"\r\n"[..]));
        assert!(!message.macros.contains_key("auth_authen") && message.macros.contains_key("j"));
        assert_eq!(message.peer.helo, "client.example");
        assert_eq!(session.push(&wire(&[(b'K', b""), (b'Q', b"")]), &mut out), Ok(Event::Close));
    }

    #[test]
    fn an_old_mta_gets_its_answers() {
        let (mut session, _) = open(0);
        let mut out = Vec::new();
        assert_eq!(session.push(&wire(&MAIL), &mut out), Ok(Event::More));
        assert_eq!(out, wire(&[(b'c', &b""[..]); 7]));
        let mut again = Vec::new();
        let abort = wire(&[(b'A', b""), (b'E', b"")]);
        assert_eq!(session.push(&abort, &mut again), Err(Bad::Order(b'E')));
    }

    #[test]
    fn changes_and_answers() {
        let (session, _) = open(0x1f_ffff);
        let mut out = Vec::new();
        let insert =
            Action::InsertHeader { index: 1, name: "A".into(), value: b" b\r\n\tc".to_vec() };
        session.act(&insert, &mut out);
        session.act(&Action::ChangeHeader { index: 2, name: "S".into(), value: None }, &mut out);
        session.act(&Action::AddRecipient("a@b".into()), &mut out);
        session.act(&Action::ReplaceBody(vec![b'x'; CHUNK_BYTES + 1]), &mut out);
        session.reply(&Reply::Say(550, (5, 7, 1), "100 % spam\n".into()), &mut out);
        let (full, one) = (vec![b'x'; CHUNK_BYTES], [b'x']);
        let expected = wire(&[
            (b'i', b"\0\0\0\x01A\0 b\n\tc\0"),
            (b'm', b"\0\0\0\x02S\0\0"),
            (b'+', b"<a@b>\0"),
            (b'b', &full),
            (b'b', &one),
            (b'y', b"550 5.7.1 100 %% spam \0"),
        ]);
        assert_eq!(out, expected);
        let mut old = Session::new(Limits::default());
        let mut out = Vec::new();
        old.push(&wire(&[(b'O', &offer(2, 0x1, 0))]), &mut out).unwrap();
        out.clear();
        old.act(&insert, &mut out);
        old.act(&Action::Quarantine("x".into()), &mut out);
        assert_eq!(out, wire(&[(b'i', b"\0\0\0\x01A\0b\n\tc\0")]), "not allowed, not sent");
    }

    #[test]
    fn nonsense_ends_the_session() {
        let fail = |packets: &[(u8, &[u8])]| {
            let (mut session, _) = open(0x1f_ffff);
            session.push(&wire(packets), &mut Vec::new()).unwrap_err()
        };
        assert_eq!(fail(&[(b'R', b"<a@b>\0")]), Bad::Order(b'R'));
        assert_eq!(fail(&[(b'M', b"")]), Bad::Data(b'M'));
        assert_eq!(fail(&[(b'C', b"x\x004\0")]), Bad::Data(b'C'));
        assert_eq!(fail(&[(b'?', b"")]), Bad::Command(b'?'));
        let late = [(b'M', &b"<>\0"[..]), (b'N', b""), (b'L', b"A\0b\0")];
        assert_eq!(fail(&late), Bad::Order(b'L'));
        let mut new = Session::new(Limits::default());
        let (zero, giant) = ([0; 4], [0xff; 4]);
        assert_eq!(new.push(&zero, &mut Vec::new()), Err(Bad::Length(0)));
        let mut new = Session::new(Limits::default());
        assert_eq!(new.push(&giant, &mut Vec::new()), Err(Bad::Length(u32::MAX)));
        let mut new = Session::new(Limits::default());
        let early = new.push(&wire(&[(b'M', b"<>\0")]), &mut Vec::new());
        assert_eq!(early, Err(Bad::Order(b'M')));
    }

    #[test]
    fn limits_hold_and_fields_stay_fields() {
        let (mut session, _) = open(0x1f_ffff);
        let big = [b'x'; 300];
        let packets = [(b'M', &b"<>\0"[..]), (b'R', b"<a@b>\0"), (b'B', &big), (b'E', b"")];
        assert_eq!(session.push(&wire(&packets), &mut Vec::new()), Ok(Event::Message));
        let message = session.take().unwrap();
        assert_eq!((message.fault, message.raw.len()), (Some(Fault::TooLarge), 0));
        let packets = [
            (b'M', &b"<>\0"[..]),
            (b'L', b"A:\r\nB\0 1\n\nX: forged\r\0"),
            (b'L', b"\0nameless\0"),
            (b'E', b"late"),
        ];
        assert_eq!(session.push(&wire(&packets), &mut Vec::new()), Ok(Event::Message));
        assert_eq!(session.take().unwrap().raw, b"AB: 1\r\n\t\r\n\tX: forged\r\n\r\nlate");
    }

    #[test]
    fn what_the_mta_would_pass_on_otherwise_is_a_fault() {
        let fault = |packets: &[(u8, &[u8])]| {
            let (mut session, _) = open(0x1f_ffff);
            let mut all = vec![(b'M', &b"<>\0"[..]), (b'R', b"<a@b>\0")];
            all.extend_from_slice(packets);
            all.push((b'E', b""));
            assert_eq!(session.push(&wire(&all), &mut Vec::new()), Ok(Event::Message));
            session.take().unwrap().fault
        };
        let (cr, lf, nul) = (BadData::BareCr, BadData::BareLf, BadData::Nul);
        for (packets, bad) in [
            (&[(b'B', &b"a\0b\r\n"[..])][..], nul),
            (&[(b'B', b"a\rb\r\n")], cr),
            (&[(b'B', b"a\nb\r\n")], lf),
            (&[(b'B', b"a\r"), (b'B', b"b\r\n")], cr),
            (&[(b'B', b"a\r")], cr),
            (&[(b'B', b"a\r\r\n")], cr),
            (&[(b'L', b"A\0 1\rX: forged\0")], cr),
            (&[(b'L', b"A\0 1\r\0")], cr),
            (&[(b'L', b"A\0 1\r\r\n 2\0")], cr),
            (&[(b'L', b"A\0 1\nX: forged\0")], lf),
            (&[(b'L', b"A\0 1\0X: forged\0")], nul),
            (&[(b'L', b"A\rX\0 1\0")], cr),
        ] {
            assert_eq!(fault(packets), Some(Fault::Bytes(bad)), "{packets:?}");
        }
        for packets in [
            &[(b'B', &b"a\r"[..]), (b'B', b"\nb\r\n")][..],
            &[(b'B', b"no end")],
            &[(b'L', b"A\0 1\r\n 2\n\t3\0"), (b'L', b"B \0\0"), (b'L', b"\xe9\0 1\0")],
        ] {
            assert_eq!(fault(packets), None, "{packets:?}");
        }
    }
}
