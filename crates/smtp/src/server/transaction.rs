//! A mail transaction and the message received so far.

use crate::command::{MailCommand, RcptCommand};
use crate::data::{DataError, LineCheck};
use crate::reply::Reply;

/// A mail transaction (RFC 5321 section 3.3), from MAIL to the end of the data.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transaction {
    /// Reverse path and parameters of MAIL.
    pub mail: MailCommand,
    /// The accepted recipients, in order.
    pub recipients: Vec<RcptCommand>,
    /// The prefix of [`super::Session::start_body`], then the message with CR LF line ends.
    pub body: Vec<u8>,
    /// Bytes of the prefix in `body`.
    pub prefix_bytes: usize,
    /// The message was sent by BDAT.
    pub chunked: bool,
    /// Bytes of the message that [`super::Session::drain_body`] removed.
    pub(super) drained_bytes: u64,
    /// RCPTs that gave no recipient and were not counted as commands.
    pub(super) excused: usize,
    /// The reply that refuses the message, while its rest is still being skipped.
    pub(super) refusal: Option<Reply>,
    /// Line state across BDAT chunks.
    pub(super) lines: LineCheck,
    /// The first forbidden byte of a chunk that is still being received.
    pub(super) bad: Option<DataError>,
}

impl Transaction {
    /// Bytes of the message received so far.
    pub(super) fn message_bytes(&self) -> u64 {
        self.drained_bytes + self.body.len().saturating_sub(self.prefix_bytes) as u64
    }

    pub(super) fn refuse(&mut self, reply: Reply) {
        self.body = Vec::new();
        self.prefix_bytes = 0;
        self.drained_bytes = 0;
        self.refusal.get_or_insert(reply);
    }

    /// Appends bytes of a chunk. Forbidden bytes are refused at the end of the chunk, when the
    /// client reads again.
    pub(super) fn add_to_chunk(&mut self, bytes: &[u8]) {
        if self.bad.is_some() || self.refusal.is_some() {
            return;
        }
        self.bad = self.lines.check(bytes).err();
        match self.bad {
            Some(_) => (self.body, self.prefix_bytes) = (Vec::new(), 0),
            None => self.body.extend_from_slice(bytes),
        }
    }

    /// Ends a chunk and returns its first forbidden byte. A message whose last line has no CR LF
    /// gets one, as after DATA: it could not be relayed without.
    pub(super) fn end_chunk(&mut self, last: bool) -> Option<DataError> {
        if self.bad.is_none() && self.refusal.is_none() && last {
            self.bad = self.lines.end().err();
            if self.body.len() > self.prefix_bytes && !self.body.ends_with(b"\r\n") {
                self.body.extend_from_slice(b"\r\n");
            }
        }
        self.bad
    }
}
