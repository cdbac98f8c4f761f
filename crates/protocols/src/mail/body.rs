//! Lines with dots (RFC 5321 section 4.5.2, RFC 1939 section 3): up to the one that is a dot alone.

use super::message::Growing;

/// Takes out dots and finds the end.
#[derive(Debug)]
pub(super) struct Body {
    /// At the beginning of a line; with what of it waits: a dot, or a dot and CR.
    at_start: bool,
    waiting: Vec<u8>,
    /// The line before ended with CR LF.
    after_crlf: bool,
    last: u8,
}

impl Default for Body {
    fn default() -> Self {
        Self { at_start: true, waiting: Vec::new(), after_crlf: true, last: 0 }
    }
}

impl Body {
    /// Takes bytes; `bytes` is what is behind the end. Whether the end was there.
    pub(super) fn take(&mut self, bytes: &mut &[u8], message: &mut Growing) -> bool {
        while !bytes.is_empty() {
            if self.at_start && (!self.waiting.is_empty() || bytes.first() == Some(&b'.')) {
                match self.dot(bytes, message) {
                    Dot::End => return true,
                    Dot::More => continue,
                    Dot::Line => {}
                }
            }
            self.at_start = false;
            let (piece, rest) = match memchr::memchr(b'\n', bytes) {
                Some(end) => bytes.split_at(end + 1),
                None => (*bytes, &[][..]),
            };
            message.push(piece);
            *bytes = rest;
            if piece.last() == Some(&b'\n') {
                let before = piece.len().checked_sub(2).and_then(|place| piece.get(place));
                self.after_crlf = before.copied().unwrap_or(self.last) == b'\r';
                self.at_start = true;
            }
            self.last = piece.last().copied().unwrap_or_default();
        }
        false
    }

    /// A line that begins with a dot.
    fn dot(&mut self, bytes: &mut &[u8], message: &mut Growing) -> Dot {
        let Some((first, rest)) = bytes.split_first() else { return Dot::More };
        match (self.waiting.as_slice(), *first) {
            ([], b'.') => self.waiting.push(b'.'),
            ([b'.'], b'\r') => self.waiting.push(b'\r'),
            ([b'.', b'\r'], b'\n') if self.after_crlf => {
                *bytes = rest;
                return Dot::End;
            }
            (waiting, byte) => {
                // Some servers end the message here (LF . LF and others).
                if byte == b'\n' {
                    message.note_other_end();
                }
                // The dot is not the message's.
                let behind = waiting.get(1..).unwrap_or_default().to_vec();
                message.push(&behind);
                self.last = behind.last().copied().unwrap_or(b'.');
                self.waiting.clear();
                return Dot::Line;
            }
        }
        *bytes = rest;
        Dot::More
    }
}

enum Dot {
    End,
    /// It takes more bytes to tell.
    More,
    /// A line of the message.
    Line,
}
