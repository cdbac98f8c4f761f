//! Lines of events.

use super::Look;

/// Longest name of a field.
const NAME_BYTES_MAX: usize = 64;
/// Fields that programs know; they ignore others.
const NAMES: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];
/// It may stand before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Follows the lines: text, each with a field that is known, a comment, or nothing. Once there was
/// one of these, other names count, too: `name: value`.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Of the line, as long as its name has not ended.
    name: Vec<u8>,
    is_in_value: bool,
    /// A line, or the name of one, was that of a stream.
    is_one: bool,
    is_other: bool,
    /// Bytes that follow of a character that has begun.
    follow: u8,
    /// No byte order mark can come any more.
    is_begun: bool,
}

impl Events {
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Look {
        for byte in bytes {
            if self.is_other {
                break;
            }
            self.is_other = !self.take(*byte);
        }
        match (self.is_other, self.is_one) {
            (true, _) => Look::Other,
            (false, true) => Look::Stream,
            (false, false) => Look::Undecided,
        }
    }

    /// Whether the byte may stand here.
    fn take(&mut self, byte: u8) -> bool {
        if !self.is_text(byte) {
            return false;
        }
        match byte {
            b'\r' | b'\n' => self.end_line(),
            _ if self.is_in_value => true,
            b':' => {
                self.is_in_value = true;
                let is_named = self.name.is_empty() || self.is_known() || self.is_one;
                self.is_one |= is_named;
                is_named
            }
            byte => {
                self.name.push(byte);
                if !self.is_begun && BYTE_ORDER_MARK.starts_with(&self.name) {
                    if self.name == BYTE_ORDER_MARK {
                        (self.is_begun, self.name) = (true, Vec::new());
                    }
                    return true;
                }
                self.is_begun = true;
                let is_name = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
                is_name && self.name.len() <= NAME_BYTES_MAX
            }
        }
    }

    /// A line without a colon is a name alone.
    fn end_line(&mut self) -> bool {
        let is_line = self.is_in_value || self.name.is_empty() || self.is_known();
        self.is_one |= is_line;
        (self.is_in_value, self.is_begun) = (false, true);
        self.name.clear();
        is_line
    }

    fn is_known(&self) -> bool {
        NAMES.contains(&self.name.as_slice())
    }

    /// UTF-8 as far as its bytes' places go, without control characters.
    fn is_text(&mut self, byte: u8) -> bool {
        match (self.follow, byte) {
            (0, 0..0x20) => matches!(byte, b'\t' | b'\r' | b'\n'),
            (0, 0x7f..0xc2 | 0xf5..) => false,
            (0, 0xc2..) => {
                self.follow = match byte {
                    0xc2..0xe0 => 1,
                    0xe0..0xf0 => 2,
                    _ => 3,
                };
                true
            }
            (0, _) => true,
            (_, 0x80..0xc0) => {
                self.follow -= 1;
                true
            }
            _ => false,
        }
    }
}
