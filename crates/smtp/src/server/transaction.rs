//! What came of a message so far.

use super::Transaction;
use crate::data::BadData;
use crate::reply::Reply;

impl Transaction {
    /// Bytes of the message that came so far.
    pub(super) fn message_bytes(&self) -> u64 {
        self.drained_bytes + self.body.len().saturating_sub(self.prefix_bytes) as u64
    }

    pub(super) fn refuse(&mut self, reply: Reply) {
        self.body = Vec::new();
        self.prefix_bytes = 0;
        self.drained_bytes = 0;
        self.refusal.get_or_insert(reply);
    }

    /// Takes bytes of a chunk. What may not stand in a message is refused at the chunk's end, when the
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

    /// What was wrong with the chunk that ends here. A message whose last line has no end is given one, as
    /// DATA would have: it could not be sent on without.
    pub(super) fn end_chunk(&mut self, last: bool) -> Option<BadData> {
        if self.bad.is_none() && self.refusal.is_none() && last {
            self.bad = self.lines.end().err();
            if self.body.len() > self.prefix_bytes && !self.body.ends_with(b"\r\n") {
                self.body.extend_from_slice(b"\r\n");
            }
        }
        self.bad
    }
}
