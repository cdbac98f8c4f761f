//! Whole messages that mail protocols carry, put together as the receiving program gets them: SMTP
//! (DATA, BDAT), POP3 (RETR, TOP) and IMAP (APPEND, FETCH).
//!
//! ```text
//! bytes of a conversation -> Tap (reader of the protocol) -> Mail: envelope, bytes, how it ended
//! ```
//!
//! Readers go by the RFCs and know nothing of the parsers of these protocols, whose behaviour rules
//! see and which stop at what Suricata stops at: a message goes on to be read then. Bytes of a
//! client behind a command whose answer decides how they are read (DATA, AUTH, a literal) wait for
//! the answer; where no answers are seen, commands count as accepted.

mod body;
mod imap;
mod lines;
mod message;
mod pop3;
mod smtp;

use gauntlet_packet::Direction;

use crate::protocol::Protocol;
pub use message::{Mail, MailEnd, MailEnvelope, Settings};

/// Whole messages of one connection that wait to be taken, at most; later ones are not read.
const WAITING_MAX: usize = 1_024;

/// Reads the messages of one conversation.
pub(crate) struct Tap {
    protocol: Protocol,
    reader: Reader,
    done: Vec<Mail>,
    /// By direction: how far the stream was read.
    places: [u64; 2],
}

enum Reader {
    Smtp(Box<smtp::Smtp>),
    Pop3(Box<pop3::Pop3>),
    Imap(Box<imap::Imap>),
    /// Nothing can be read any more.
    Over,
}

/// What a reader says after it has read bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Go,
    /// The rest is encrypted, compressed, or out of step.
    Stop,
}

impl Tap {
    /// For a conversation in this protocol; `begins`: its first bytes are seen. None if the
    /// protocol carries no messages.
    pub(crate) fn new(protocol: Protocol, settings: &Settings, begins: bool) -> Option<Self> {
        let reader = match protocol {
            Protocol::Smtp => Reader::Smtp(Box::new(smtp::Smtp::new(settings, begins))),
            Protocol::Pop3 => Reader::Pop3(Box::new(pop3::Pop3::new(settings, begins))),
            Protocol::Imap => Reader::Imap(Box::new(imap::Imap::new(settings))),
            _ => return None,
        };
        Some(Self { protocol, reader, done: Vec::new(), places: [0; 2] })
    }

    /// Whose messages are read.
    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Takes bytes behind those that were taken before.
    pub(crate) fn more(&mut self, direction: Direction, bytes: &[u8]) {
        let place = self.places.get(direction.index()).copied().unwrap_or_default();
        self.data(direction, place, bytes);
    }

    /// Takes bytes that begin at this place of their stream; what was taken before is left out.
    pub(crate) fn data(&mut self, direction: Direction, place: u64, bytes: &[u8]) {
        let Some(known) = self.places.get_mut(direction.index()) else { return };
        let end = place + bytes.len() as u64;
        if end <= *known {
            return;
        }
        let skip = usize::try_from(known.saturating_sub(place)).unwrap_or(usize::MAX);
        let is_behind = place > *known && *known > 0;
        *known = end;
        if is_behind {
            return self.gap();
        }
        let bytes = bytes.get(skip..).unwrap_or_default();
        let next = match &mut self.reader {
            Reader::Smtp(smtp) => smtp.data(direction, bytes, &mut self.done),
            Reader::Pop3(pop3) => pop3.data(direction, bytes, &mut self.done),
            Reader::Imap(imap) => imap.data(direction, bytes, &mut self.done),
            Reader::Over => Next::Go,
        };
        if next == Next::Stop || self.done.len() >= WAITING_MAX {
            self.stop(MailEnd::Cut);
        }
    }

    /// Bytes are missing: nothing behind them can be told from what was before.
    pub(crate) fn gap(&mut self) {
        self.stop(MailEnd::Gap);
    }

    /// The connection ends.
    pub(crate) fn end(&mut self) {
        self.stop(MailEnd::Cut);
    }

    fn stop(&mut self, end: MailEnd) {
        match std::mem::replace(&mut self.reader, Reader::Over) {
            Reader::Smtp(smtp) => smtp.stop(end, &mut self.done),
            Reader::Pop3(pop3) => pop3.stop(end, &mut self.done),
            Reader::Imap(imap) => imap.stop(end, &mut self.done),
            Reader::Over => {}
        }
    }

    /// Whether nothing more will be read.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.reader, Reader::Over)
    }

    /// Messages that have ended since the last call.
    pub(crate) fn take(&mut self) -> Vec<Mail> {
        std::mem::take(&mut self.done)
    }
}

#[cfg(test)]
mod tests;
