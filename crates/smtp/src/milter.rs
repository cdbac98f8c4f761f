//! The milter protocol between an MTA and its mail filters (versions 2 to 6), the filter's side,
//! without sockets.
//!
//! A packet is a length (four bytes, big endian), a command byte and data. The MTA opens with a
//! negotiation, then sends connection, HELO, envelope, header and body of one message after
//! another; it waits for a reply to each command unless the negotiation says that there is none.
//! [`Session`] replies to all commands but the end of a message by itself and collects the message;
//! the caller scans it and writes [`Action`]s and one [`Reply`].
//!
//! Header fields and body are stored as they will be parsed: CRLF at the end of each line,
//! `Name:value` with the white space that the MTA reported.

mod action;
mod message;
mod packet;

use std::collections::BTreeMap;

use crate::data::DataError;
use message::MessageBuilder;
use packet::{connection, number, packet, path, strings, text};

pub use action::{Action, Allowed, Reply};
pub use message::{Fault, Message, Peer};

/// Highest protocol version supported.
const VERSION: u32 = 6;
/// Lowest protocol version supported.
const VERSION_MIN: u32 = 2;
/// Commands that are not replied to: only the end of the message needs a reply. `SMFIP_NR_*`:
/// header, connect, HELO, MAIL, RCPT, DATA, unknown, end of header, body.
const NO_REPLIES: u32 =
    0x80 | 0x1000 | 0x2000 | 0x4000 | 0x8000 | 0x1_0000 | 0x2_0000 | 0x4_0000 | 0x8_0000;
/// `SMFIP_NOUNKNOWN`, `SMFIP_NODATA`: commands that carry nothing of a message.
const UNWANTED: u32 = 0x100 | 0x200;
/// `SMFIP_HDR_LEADSPC`: values of header fields keep the space after the colon.
const LEADING_SPACE: u32 = 0x10_0000;
/// Most macros kept of one command, and most bytes of a value.
const MACROS_MAX: usize = 128;
const MACRO_BYTES_MAX: usize = 1_024;
/// Memory of a string besides its bytes.
const TEXT_COST: usize = size_of::<String>();
/// Longest packet with a name or address: far above any path (RFC 5321 section 4.5.3.1.3).
const TEXT_BYTES_MAX: usize = 4_096;

/// Limits of what an MTA may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest packet in bytes.
    pub packet_bytes_max: usize,
    /// Largest message in bytes; a larger one is dropped and has [`Fault::TooLarge`].
    pub message_bytes_max: usize,
    /// Most recipients of a message; more of them give [`Fault::TooManyRecipients`].
    pub recipients_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { packet_bytes_max: 1 << 20, message_bytes_max: 50 << 20, recipients_max: 1_000 }
    }
}

/// A violation of the protocol, which ends the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A packet of this length: empty, or over the limit.
    #[error("a packet of {0} bytes")]
    Length(u32),
    /// Malformed data of this command.
    #[error("command {:?} with data that it cannot have", char::from(*.0))]
    Data(u8),
    /// A command that the protocol does not have.
    #[error("unknown command {:?}", char::from(*.0))]
    Command(u8),
    /// A command out of order.
    #[error("command {:?} out of order", char::from(*.0))]
    Order(u8),
    /// A protocol version that is not supported.
    #[error("version {0} of the protocol")]
    Version(u32),
}

/// What the caller has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The packet is not complete: read more bytes.
    More,
    /// A message is complete: take it with [`Session::take`], then reply.
    Message,
    /// The MTA ends the session: close the connection.
    Close,
}

/// One milter connection of an MTA.
#[derive(Debug)]
pub struct Session {
    limits: Limits,
    input: Vec<u8>,
    /// What was negotiated; none before the negotiation.
    negotiated: Option<Negotiated>,
    peer: Peer,
    /// Macros by the command they came before: a later message does not see those of an earlier
    /// one.
    macros: BTreeMap<u8, Vec<(String, String)>>,
    message: Option<MessageBuilder>,
    packets: u64,
}

#[derive(Debug, Clone, Copy)]
struct Negotiated {
    steps: u32,
    allowed: Allowed,
}

impl Session {
    /// A session with these limits.
    pub fn new(limits: Limits) -> Self {
        Session {
            limits,
            input: Vec::new(),
            negotiated: None,
            peer: Peer::default(),
            macros: BTreeMap::new(),
            packets: 0,
            message: None,
        }
    }

    /// Processes the next bytes and returns what to do. Call it again, with no bytes, after
    /// [`Event::Message`] was replied to.
    ///
    /// # Errors
    /// [`ProtocolError`]: close; the MTA then does what it is set to do when a filter fails.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Event, ProtocolError> {
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

    /// Bytes of memory held for the incomplete message and packet.
    pub fn bytes(&self) -> usize {
        let of_message = |m: &MessageBuilder| {
            m.raw.capacity() + m.rcpt_to.iter().map(|to| to.capacity() + TEXT_COST).sum::<usize>()
        };
        self.input.capacity() + self.message.as_ref().map_or(0, of_message)
    }

    /// A packet is incomplete: its rest should arrive soon.
    pub fn is_within_packet(&self) -> bool {
        !self.input.is_empty()
    }

    /// Complete packets received so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// A message or packet is incomplete.
    pub fn is_busy(&self) -> bool {
        !self.input.is_empty() || self.message.is_some()
    }

    /// Drops the current message and the rest of it, for lack of memory.
    pub fn refuse_content(&mut self) {
        if let Some(message) = &mut self.message {
            message.fault.get_or_insert(Fault::NoRoom);
            message.raw = Vec::new();
        }
    }

    /// Takes the complete message.
    pub fn take(&mut self) -> Option<Message> {
        let MessageBuilder { mail_from, rcpt_to, mut raw, in_body, lines, fault } =
            self.message.take()?;
        let fault = fault.or(lines.end().err().map(Fault::Bytes));
        if !in_body {
            raw.extend_from_slice(b"\r\n");
        }
        let macros = std::mem::take(&mut self.macros);
        // In the order of a session; macros of the connection and HELO hold for all its messages.
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

    /// The changes that the MTA permits.
    pub fn allowed(&self) -> Allowed {
        self.negotiated.map_or(Allowed::default(), |negotiated| negotiated.allowed)
    }

    /// The negotiation keeps the space after the colon of a field.
    fn keeps_leading_space(&self) -> bool {
        self.negotiated.is_some_and(|negotiated| negotiated.steps & LEADING_SPACE != 0)
    }

    /// Processes one packet, if it is complete. Returns some event where the caller has to act.
    fn next(
        &mut self,
        rest: &mut &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event>, ProtocolError> {
        let Some(length) = number(rest, 0) else { return Ok(Some(Event::More)) };
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        if bytes == 0 || bytes > self.limits.packet_bytes_max {
            return Err(ProtocolError::Length(length));
        }
        let Some((whole, after)) = rest.split_at_checked(bytes + 4) else {
            return Ok(Some(Event::More));
        };
        *rest = after;
        let (command, data) = match whole.get(4..) {
            Some([command, data @ ..]) => (*command, data),
            _ => return Err(ProtocolError::Length(length)),
        };
        self.command(command, data, out)
    }

    fn command(
        &mut self,
        command: u8,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event>, ProtocolError> {
        if self.negotiated.is_none() && !matches!(command, b'O' | b'Q') {
            return Err(ProtocolError::Order(command));
        }
        if matches!(command, b'C' | b'H' | b'M' | b'R') && data.len() > TEXT_BYTES_MAX {
            return Err(ProtocolError::Data(command));
        }
        match command {
            b'O' => self.negotiate(data, out)?,
            b'D' => self.store_macros(data)?,
            b'C' => {
                self.peer = connection(data).ok_or(ProtocolError::Data(command))?;
                self.message = None;
                self.send_continue(0x1000, out);
            }
            b'H' => {
                self.peer.helo = text(strings(data).first().copied().unwrap_or_default());
                self.send_continue(0x2000, out);
            }
            b'M' => {
                let from =
                    strings(data).first().map(|a| path(a)).ok_or(ProtocolError::Data(command))?;
                self.message =
                    Some(MessageBuilder { mail_from: from, ..MessageBuilder::default() });
                self.send_continue(0x4000, out);
            }
            b'T' => self.send_continue(0x1_0000, out),
            b'U' => self.send_continue(0x2_0000, out),
            b'R' | b'L' | b'N' | b'B' | b'E' => return self.content(command, data, out),
            b'A' => self.abort_message(),
            b'K' => {
                self.abort_message();
                (self.peer, self.macros) = (Peer::default(), BTreeMap::new());
            }
            b'Q' => return Ok(Some(Event::Close)),
            other => return Err(ProtocolError::Command(other)),
        }
        Ok(None)
    }

    /// Commands within a message.
    fn content(
        &mut self,
        command: u8,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event>, ProtocolError> {
        let (limits, spaced) = (self.limits, self.keeps_leading_space());
        let message = self.message.as_mut().ok_or(ProtocolError::Order(command))?;
        match command {
            b'R' => {
                let to =
                    strings(data).first().map(|a| path(a)).ok_or(ProtocolError::Data(command))?;
                if message.rcpt_to.len() < limits.recipients_max {
                    message.rcpt_to.push(to);
                } else {
                    message.fault.get_or_insert(Fault::TooManyRecipients);
                }
                self.send_continue(0x8000, out);
            }
            b'L' if message.in_body => return Err(ProtocolError::Order(command)),
            b'L' => {
                let mut parts = data.splitn(3, |b| *b == 0);
                let (name, value) =
                    parts.next().zip(parts.next()).ok_or(ProtocolError::Data(command))?;
                if parts.next().is_some_and(|rest| !rest.is_empty()) {
                    message.note_fault(DataError::Nul);
                }
                message.field(name, value, spaced, limits.message_bytes_max);
                self.send_continue(0x80, out);
            }
            b'N' => {
                message.start_body(limits.message_bytes_max);
                self.send_continue(0x4_0000, out);
            }
            b'B' => {
                message.body(data, limits.message_bytes_max);
                self.send_continue(0x8_0000, out);
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

    fn negotiate(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), ProtocolError> {
        let numbers = (number(data, 0), number(data, 4), number(data, 8));
        let (Some(version), Some(actions), Some(steps)) = numbers else {
            return Err(ProtocolError::Data(b'O'));
        };
        if version < VERSION_MIN {
            return Err(ProtocolError::Version(version));
        }
        let version = version.min(VERSION);
        let allowed = Allowed(actions & Allowed::ALL);
        let steps = steps & (NO_REPLIES | UNWANTED | LEADING_SPACE);
        self.negotiated = Some(Negotiated { steps, allowed });
        let answer = [version.to_be_bytes(), allowed.0.to_be_bytes(), steps.to_be_bytes()];
        packet(b'O', &[answer.as_flattened()], out);
        Ok(())
    }

    /// Macros: the command they belong to, then names and values.
    fn store_macros(&mut self, data: &[u8]) -> Result<(), ProtocolError> {
        let (step, data) = data.split_first().ok_or(ProtocolError::Data(b'D'))?;
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

    /// Replies "continue" to a command unless the negotiation says that it has no reply.
    fn send_continue(&self, unanswered: u32, out: &mut Vec<u8>) {
        if self.negotiated.is_some_and(|negotiated| negotiated.steps & unanswered == 0) {
            packet(b'c', &[], out);
        }
    }

    /// Drops the current message and its macros.
    fn abort_message(&mut self) {
        self.message = None;
        self.macros.retain(|step, _| matches!(step, b'C' | b'H'));
    }
}

#[cfg(test)]
mod tests;
