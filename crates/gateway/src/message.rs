//! One type for a message on its way in, one for a message on its way out. Both share the bytes as
//! they came.
//!
//! ```text
//! end of DATA: [ room | Received: | message as it came ]      ReceivedMessage: one buffer
//! facts, stamp:   [ Authentication-Results: | ... ]           written into the room, nothing is
//! moved scan, spool, quarantine, Maildir, replay                    Bytes: the same buffer, shared
//! delivery:    [ header with changes, signatures, seal ] + [ the body ]   OutgoingMessage: the
//! body is shared
//! ```

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use gauntlet_mail::fields;

/// Bytes kept free before a message for the fields that the node puts on top of it.
pub const ROOM_BYTES: usize = 1_024;

/// A message that is being received: one buffer, with room in front.
#[derive(Debug, Clone)]
pub struct ReceivedMessage {
    buffer: Vec<u8>,
    start: usize,
}

impl ReceivedMessage {
    /// What a buffer begins with into which a message is then written: the room, and our trace
    /// field. `announced` is the size that the client said, in bytes; it is only a hint.
    pub fn begin(trace_field: &str, announced: usize) -> Vec<u8> {
        let mut buffer = Vec::with_capacity(ROOM_BYTES + trace_field.len() + announced + 64);
        buffer.resize(ROOM_BYTES, b' ');
        buffer.extend_from_slice(trace_field.as_bytes());
        buffer
    }

    /// Of a buffer that began with [`ReceivedMessage::begin`], whose trace field has this length in
    /// bytes.
    ///
    /// A message whose first line begins with white space has no header (RFC 5322 section 2.2): an
    /// empty line is put before it, as Postfix does. Otherwise the line would go on with our trace
    /// field, and what follows would be a header to some programs and not to others.
    pub fn of_buffer(mut buffer: Vec<u8>, trace_bytes: usize) -> Self {
        const EMPTY_LINE: &[u8] = b"\r\n";
        let start = ROOM_BYTES.min(buffer.len());
        let first = start + trace_bytes;
        if !matches!(buffer.get(first), Some(b' ' | b'\t')) {
            return ReceivedMessage { buffer, start };
        }
        // The trace field moves into the room, not the message.
        let moved = start - EMPTY_LINE.len();
        buffer.copy_within(start..first, moved);
        buffer[first - EMPTY_LINE.len()..first].copy_from_slice(EMPTY_LINE);
        ReceivedMessage { buffer, start: moved }
    }

    /// A copy of a message that came without room before it, with room.
    pub fn copy_of(message: &[u8]) -> Self {
        let mut buffer = ReceivedMessage::begin("", message.len());
        buffer.extend_from_slice(message);
        ReceivedMessage { buffer, start: ROOM_BYTES }
    }

    /// Of a message that came without room before it.
    pub fn of_bytes(buffer: Vec<u8>) -> Self {
        ReceivedMessage { buffer, start: 0 }
    }

    /// The message as it is now.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Puts whole fields, with their line ends, before all others; an mbox line stays first. A
    /// message is copied only if there is no room for them.
    pub fn put_first(&mut self, fields: &[u8]) {
        let bytes = self.bytes();
        let mbox = bytes.starts_with(b"From ").then(|| fields::fields(bytes).next());
        let line = mbox.flatten().map_or(0, <[u8]>::len);
        let Some(start) = self.start.checked_sub(fields.len()) else {
            let (line, rest) = bytes.split_at(line);
            *self = ReceivedMessage::of_bytes([line, fields, rest].concat());
            return;
        };
        self.buffer.copy_within(self.start..self.start + line, start);
        self.buffer[start + line..self.start + line].copy_from_slice(fields);
        self.start = start;
    }

    /// Takes out the fields for which `is_removed` says so: what stands before them is moved up to
    /// what stands behind, each byte once. Says how many there were.
    pub fn remove_fields(&mut self, is_removed: impl Fn(&[u8]) -> bool) -> usize {
        let (mut removed, mut at) = (Vec::new(), self.start);
        for field in fields::fields(self.bytes()) {
            if is_removed(field) {
                removed.push(at..at + field.len());
            }
            at += field.len();
        }
        let mut to = removed.last().map_or(self.start, |range| range.end);
        for (index, range) in removed.iter().enumerate().rev() {
            let before = index.checked_sub(1).and_then(|before| removed.get(before));
            let kept = before.map_or(self.start, |before| before.end)..range.start;
            to -= kept.len();
            self.buffer.copy_within(kept, to);
        }
        self.start = to;
        removed.len()
    }

    /// The message, shared from now on.
    pub fn freeze(self) -> Bytes {
        Bytes::from(self.buffer).slice(self.start..)
    }
}

/// A message on its way out: its header, and its body (from the empty line on), which all copies
/// share.
#[derive(Debug, Clone)]
pub struct OutgoingMessage {
    header: Bytes,
    body: Bytes,
    /// SHA-256 of the body in relaxed canonical form: for all signatures and the seal.
    body_hash: Arc<OnceLock<Vec<u8>>>,
}

impl From<Bytes> for OutgoingMessage {
    fn from(message: Bytes) -> Self {
        let at: usize = fields::fields(&message).map(<[u8]>::len).sum();
        let body = message.slice(at..);
        OutgoingMessage { header: message.slice(..at), body, body_hash: Arc::default() }
    }
}

impl From<&[u8]> for OutgoingMessage {
    fn from(message: &[u8]) -> Self {
        OutgoingMessage::from(Bytes::copy_from_slice(message))
    }
}

impl OutgoingMessage {
    /// The fields, with their line ends.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// What follows the fields: the empty line and the body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Bytes of header and body.
    pub fn size(&self) -> usize {
        self.header.len() + self.body.len()
    }

    /// Bytes over 127 are in it.
    pub fn is_eight_bit(&self) -> bool {
        !(self.header.is_ascii() && self.body.is_ascii())
    }

    /// The same body under another header.
    #[must_use]
    pub fn with_header(&self, header: impl Into<Bytes>) -> Self {
        OutgoingMessage { header: header.into(), ..self.clone() }
    }

    /// The same with whole fields, with their line ends, before all others.
    #[must_use]
    pub fn with_first(&self, fields: &str) -> Self {
        match fields {
            "" => self.clone(),
            fields => self.with_header([fields.as_bytes(), &self.header].concat()),
        }
    }

    /// SHA-256 of the body in relaxed canonical form (RFC 6376 section 3.4.4), computed once for
    /// all copies.
    pub fn body_hash(&self) -> &[u8] {
        self.body_hash.get_or_init(|| crate::canonical::body_hash(&self.body))
    }

    /// All of it in one piece: a copy.
    pub fn to_vec(&self) -> Vec<u8> {
        [&self.header[..], &self.body[..]].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIL: &[u8] = b"Received: x\r\nReturn-Path: <a@b>\r\nSubject: s\r\n\t2\r\n\r\nbody\r\n";

    fn received() -> ReceivedMessage {
        let mut buffer = ReceivedMessage::begin("", MAIL.len());
        buffer.extend_from_slice(MAIL);
        ReceivedMessage::of_buffer(buffer, 0)
    }

    #[test]
    fn a_first_line_of_white_space_does_not_continue_the_trace_field() {
        let trace = "Received: by us\r\n";
        for (mail, expected) in [
            (&b" Subject: s\r\n\r\nbody\r\n"[..], "\r\n Subject: s\r\n\r\nbody\r\n"),
            (b"\tx", "\r\n\tx"),
            (b" \r\nA: 1\r\n", "\r\n \r\nA: 1\r\n"),
            (b"A: 1\r\n x\r\n", "A: 1\r\n x\r\n"),
            (b"\r\n x", "\r\n x"),
            (b"", ""),
        ] {
            let mut buffer = ReceivedMessage::begin(trace, mail.len());
            buffer.extend_from_slice(mail);
            let mut message = ReceivedMessage::of_buffer(buffer, trace.len());
            assert_eq!(message.bytes(), format!("{trace}{expected}").as_bytes());
            message.put_first(b"B: 2\r\n");
            assert_eq!(message.freeze(), format!("B: 2\r\n{trace}{expected}"));
        }
    }

    #[test]
    fn fields_are_put_into_the_room_and_the_body_stays_where_it_is() {
        let mut message = received();
        let buffer = message.buffer.as_ptr();
        message.put_first(b"A: 1\r\n");
        message.put_first(b"B: 2\r\n");
        assert_eq!(message.buffer.as_ptr(), buffer);
        let bytes = message.freeze();
        assert_eq!(&bytes[..], [b"B: 2\r\nA: 1\r\n", MAIL].concat());
        // No copy for sharing it, either.
        assert_eq!(bytes.as_ptr(), buffer.wrapping_add(ROOM_BYTES - 12));
    }

    #[test]
    fn fields_that_do_not_fit_into_the_room_are_put_first_all_the_same() {
        let mut message = received();
        let long = format!("A: {}\r\n", "x".repeat(ROOM_BYTES));
        message.put_first(long.as_bytes());
        message.put_first(b"B: 2\r\n");
        assert_eq!(message.bytes(), [b"B: 2\r\n", long.as_bytes(), MAIL].concat());
    }

    #[test]
    fn fields_are_removed_wherever_they_stand() {
        let mut message = received();
        let removed = message.remove_fields(|field| !fields::is_named(field, b"subject"));
        assert_eq!((removed, message.bytes()), (2, &b"Subject: s\r\n\t2\r\n\r\nbody\r\n"[..]));
        assert_eq!(message.remove_fields(|_| true), 1);
        assert_eq!(message.bytes(), b"\r\nbody\r\n");
        message.put_first(b"A: 1\r\n");
        assert_eq!(message.bytes(), b"A: 1\r\n\r\nbody\r\n");
        let mut message =
            ReceivedMessage::copy_of(b"X: 1\nA: 1\nB: 2\nX: 2\nX: 3\nC: 3\nX: 4\n\nb");
        assert_eq!(message.remove_fields(|field| fields::is_named(field, b"x")), 4);
        assert_eq!(message.bytes(), b"A: 1\nB: 2\nC: 3\n\nb");
    }

    #[test]
    fn an_mbox_line_stays_first_with_room_and_without() {
        let mail = b"From x\nA: 1\n\nb";
        for mut message in
            [ReceivedMessage::copy_of(mail), ReceivedMessage::of_bytes(mail.to_vec())]
        {
            message.put_first(b"B: 2\n");
            assert_eq!(message.bytes(), b"From x\nB: 2\nA: 1\n\nb");
        }
    }

    #[test]
    fn a_body_is_shared_and_hashed_once() {
        let bytes = Bytes::from_static(MAIL);
        let message = OutgoingMessage::from(bytes.clone());
        assert_eq!(message.body(), b"\r\nbody\r\n");
        let signed = message.with_first("DKIM-Signature: x\r\n");
        assert_eq!(signed.to_vec(), [b"DKIM-Signature: x\r\n", MAIL].concat());
        assert_eq!(signed.body().as_ptr(), message.body().as_ptr());
        assert_eq!(signed.body_hash().as_ptr(), message.body_hash().as_ptr());
        assert_eq!(signed.size(), MAIL.len() + 19);
        let headless = OutgoingMessage::from(&b"\r\nonly a body"[..]);
        assert_eq!((headless.header(), headless.body()), (&b""[..], &b"\r\nonly a body"[..]));
    }
}
