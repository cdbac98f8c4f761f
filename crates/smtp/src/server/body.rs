//! The message itself: DATA and BDAT.

use super::{CloseReason, Event, LINE_END_BYTES, Pending, Phase, Session};
use crate::data::{DataDecoder, DataStep};
use crate::reply::Reply;

impl Session {
    /// The reply if no message may be sent now.
    fn why_no_message(&self) -> Option<Reply> {
        match &self.transaction {
            None => Some(Reply::new(503, (5, 5, 1), "need MAIL first")),
            Some(t) if t.recipients.is_empty() => {
                Some(Reply::new(554, (5, 5, 1), "no valid recipients"))
            }
            Some(_) => None,
        }
    }

    pub(super) fn data(&mut self, out: &mut Vec<u8>) -> Option<Event> {
        if let Some(reply) = self.why_no_message() {
            return self.send_error(&reply, out);
        }
        if self.transaction.as_ref().is_some_and(|t| t.chunked) {
            return self.send_error(&Reply::new(503, (5, 5, 1), "DATA after BDAT"), out);
        }
        self.pending = Pending::Data;
        Some(Event::Data)
    }

    pub(super) fn bdat(&mut self, size: u64, last: bool, out: &mut Vec<u8>) -> Option<Event> {
        if let Some(reply) = self.why_no_message() {
            if size > self.config.limits.refused_chunk_bytes_max {
                // Skipping so much for a refusal would have no limit: without a transaction there
                // are no timeouts and rates to enforce.
                return Some(self.close(&reply, CloseReason::RefusedChunk, out));
            }
            // The client sends the chunk anyway: skip it, then reply.
            self.transaction.get_or_insert_default().refuse(reply);
            return self.begin_chunk(size, last, out);
        }
        match &self.transaction {
            Some(t) if !t.chunked => {
                self.pending = Pending::Chunk { size, last };
                Some(Event::Data)
            }
            _ => self.begin_chunk(size, last, out),
        }
    }

    fn begin_chunk(&mut self, size: u64, last: bool, out: &mut Vec<u8>) -> Option<Event> {
        let limit = self.config.limits.message_bytes_max;
        if let Some(t) = &mut self.transaction {
            t.chunked = true;
            let held = t.message_bytes();
            if held.saturating_add(size) > limit && t.refusal.is_none() {
                t.refuse(too_large(limit));
            }
        }
        self.phase = Phase::Chunk { size, left: size, last };
        if size == 0 { self.end_chunk(0, last, out) } else { None }
    }

    pub(super) fn read_chunk(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Option<Event> {
        let Phase::Chunk { size, left, last } = &mut self.phase else { return None };
        let take = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
        let (head, rest) = input.split_at(take);
        *input = rest;
        *left -= take as u64;
        let (size, left, last) = (*size, *left, *last);
        if let Some(t) = &mut self.transaction {
            t.add_to_chunk(head);
        }
        if left > 0 { None } else { self.end_chunk(size, last, out) }
    }

    fn end_chunk(&mut self, size: u64, last: bool, out: &mut Vec<u8>) -> Option<Event> {
        self.phase = Phase::Command;
        if let Some(bad) = self.transaction.as_mut().and_then(|t| t.end_chunk(last)) {
            return Some(self.close_for_smuggling(bad, out));
        }
        let refusal = self.transaction.as_ref().and_then(|t| t.refusal.clone());
        match refusal {
            Some(reply) => {
                if last || reply.code == 503 || reply.code == 554 {
                    self.transaction = None;
                }
                self.send_error(&reply, out)
            }
            None if last => {
                self.pending = Pending::Message;
                Some(Event::Message)
            }
            None => {
                self.send_reply(&Reply::new(250, (2, 0, 0), format!("{size} bytes received")), out)
            }
        }
    }

    pub(super) fn read_data(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Option<Event> {
        let (Phase::Data(decoder), Some(t)) = (&mut self.phase, &mut self.transaction) else {
            return None;
        };
        let limit = self.config.limits.message_bytes_max;
        let mut skipped = Vec::new();
        let body = if t.refusal.is_some() { &mut skipped } else { &mut t.body };
        let step = decoder.decode(input, body);
        let held = t.message_bytes();
        if held > limit && t.refusal.is_none() {
            t.refuse(too_large(limit));
        }
        match step {
            DataStep::More => {
                *input = &[];
                None
            }
            DataStep::Bad(bad) => Some(self.close_for_smuggling(bad, out)),
            DataStep::End(used) => {
                *input = input.get(used..).unwrap_or_default();
                self.phase = Phase::Command;
                let refusal = self.transaction.as_mut().and_then(|t| t.refusal.take());
                if let Some(reply) = refusal {
                    self.transaction = None;
                    return self.send_error(&reply, out);
                }
                self.pending = Pending::Message;
                Some(Event::Message)
            }
        }
    }

    /// Answers [`Event::Data`]: the message may be sent. `prefix` is put before it (trace fields).
    ///
    /// May return [`Event::Message`] at once, for an empty last chunk.
    pub fn start_body(&mut self, prefix: Vec<u8>, out: &mut Vec<u8>) -> Option<Event> {
        let pending = std::mem::replace(&mut self.pending, Pending::Nothing);
        if let Some(t) = &mut self.transaction {
            t.prefix_bytes = prefix.len();
            t.body = prefix;
        }
        match pending {
            Pending::Data => {
                self.phase = Phase::Data(DataDecoder::default());
                self.send_reply(&Reply::plain(354, "end with <CRLF>.<CRLF>"), out)
            }
            Pending::Chunk { size, last } => self.begin_chunk(size, last, out),
            _ => None,
        }
    }

    /// Answers [`Event::Data`]: refuses the message.
    pub fn refuse_data(&mut self, reply: Reply, out: &mut Vec<u8>) -> Option<Event> {
        match std::mem::replace(&mut self.pending, Pending::Nothing) {
            Pending::Chunk { size, last } => {
                if let Some(t) = &mut self.transaction {
                    t.refuse(reply);
                }
                self.begin_chunk(size, last, out)
            }
            _ => {
                self.transaction = None;
                self.send_reply(&reply, out)
            }
        }
    }

    /// Refuses the message being received: frees its memory, skips its rest and sends `reply` at
    /// its end.
    pub fn refuse_body(&mut self, reply: Reply) {
        if let Some(t) = &mut self.transaction {
            t.refuse(reply);
        }
    }

    /// Removes the part of the body that was received, so that the host can store it outside
    /// memory; [`Session::take_message`] then returns the rest only. The last two bytes stay: the
    /// line end before the end of data is looked for there.
    pub fn drain_body(&mut self) -> Vec<u8> {
        let Some(t) = &mut self.transaction else { return Vec::new() };
        let keep = t.body.split_off(t.body.len().saturating_sub(LINE_END_BYTES));
        let drained = std::mem::replace(&mut t.body, keep);
        let prefix = t.prefix_bytes.min(drained.len());
        t.drained_bytes += (drained.len() - prefix) as u64;
        t.prefix_bytes -= prefix;
        drained
    }
}

fn too_large(limit: u64) -> Reply {
    Reply::new(552, (5, 3, 4), format!("message larger than {limit} bytes"))
}
