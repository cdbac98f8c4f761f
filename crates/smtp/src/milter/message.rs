//! A message as it is assembled from header and body packets.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::data::{DataError, LineCheck};

/// Why a message cannot be scanned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is larger than [`super::Limits::message_bytes_max`].
    TooLarge,
    /// It has more recipients than [`super::Limits::recipients_max`].
    TooManyRecipients,
    /// There was no memory for it ([`super::Session::refuse_content`]).
    NoRoom,
    /// It has bytes that a message must not have. The MTA relays its own copy, which programs
    /// behind it parse in more than one way.
    Bytes(DataError),
}

/// The SMTP client of the MTA.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peer {
    /// Reverse DNS name; `[address]` or empty if it has none.
    pub name: String,
    /// IP address; none for a local client.
    pub address: Option<IpAddr>,
    /// The argument of HELO or EHLO.
    pub helo: String,
}

/// A message as the MTA has handed it over, from connect to end of body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// Host name and address of the SMTP client.
    pub peer: Peer,
    /// Macros by name, without braces; the last value of each.
    pub macros: BTreeMap<String, String>,
    /// Reverse path without brackets; empty for `<>`.
    pub mail_from: String,
    /// Forward paths without brackets, in order.
    pub rcpt_to: Vec<String>,
    /// The message: header, empty line and body.
    pub raw: Vec<u8>,
    /// Why it cannot be scanned; `raw` is then incomplete.
    pub fault: Option<Fault>,
}

#[derive(Debug, Default)]
pub(super) struct MessageBuilder {
    pub(super) mail_from: String,
    pub(super) rcpt_to: Vec<String>,
    pub(super) raw: Vec<u8>,
    pub(super) in_body: bool,
    /// Line state of the body.
    pub(super) lines: LineCheck,
    pub(super) fault: Option<Fault>,
}

impl MessageBuilder {
    /// Appends bytes, or marks the message as too large and drops it.
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

    /// Records that the message has bytes that it must not have.
    pub(super) fn note_fault(&mut self, bad: DataError) {
        self.fault.get_or_insert(Fault::Bytes(bad));
    }

    /// Appends a piece of the body.
    pub(super) fn body(&mut self, data: &[u8], bytes_max: usize) {
        self.start_body(bytes_max);
        if let Err(bad) = self.lines.check(data) {
            self.note_fault(bad);
        }
        self.add(&[data], bytes_max);
    }

    /// Appends a header field. Whatever the value holds, it stays one field; a value that would
    /// have to be changed for that makes the message a fault, since the MTA relays its own copy.
    pub(super) fn field(&mut self, name: &[u8], value: &[u8], spaced: bool, bytes_max: usize) {
        match memchr::memchr3(b'\r', b'\n', 0, name).and_then(|at| name.get(at)) {
            Some(b'\r') => self.note_fault(DataError::BareCr),
            Some(b'\n') => self.note_fault(DataError::BareLf),
            Some(_) => self.note_fault(DataError::Nul),
            None => {}
        }
        // Other unusual names stay: the parser handles them as it does anywhere.
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
                self.note_fault(DataError::BareCr);
            }
            if i > 0 {
                folded.extend_from_slice(b"\r\n");
                // An unfolded line would be a field by itself, an empty one the end of the header.
                if !matches!(line.first(), Some(b' ' | b'\t')) {
                    self.note_fault(DataError::BareLf);
                    folded.push(b'\t');
                }
            }
            folded.extend(line.iter().filter(|b| **b != b'\r'));
        }
        let space: &[u8] = if spaced || folded.is_empty() { b"" } else { b" " };
        self.add(&[&name, b":", space, &folded, b"\r\n"], bytes_max);
    }

    pub(super) fn start_body(&mut self, bytes_max: usize) {
        if !std::mem::replace(&mut self.in_body, true) {
            self.add(&[b"\r\n"], bytes_max);
        }
    }
}
