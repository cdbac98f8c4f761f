//! Strings of Excel's binary format (MS-XLS section 2.5.293 and 2.5.294).

use crate::formats::numbers::{slice, u16_at, u32_at};
use crate::text;

/// Strings of one table.
const STRINGS_MAX: usize = 200_000;
/// Bytes of text that are kept of one table.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// Characters of one or two bytes.
pub(super) fn characters(bytes: &[u8], count: usize, wide: bool) -> String {
    if wide {
        text::utf16_le(slice(bytes, 0, 2 * count))
    } else {
        slice(bytes, 0, count).iter().map(|&b| char::from(b)).collect()
    }
}

/// A string with its length and the byte of its width; before Excel 97 without the latter.
pub(super) fn sized(bytes: &[u8]) -> String {
    let count = usize::from(u16_at(bytes, 0).unwrap_or(0));
    match bytes.get(2) {
        Some(wide @ (0 | 1)) => characters(slice(bytes, 3, bytes.len()), count, *wide == 1),
        _ => text::decode(slice(bytes, 2, count)),
    }
}

/// The records of a table, read as one stream that knows where they end.
struct Pieces<'b> {
    pieces: &'b [&'b [u8]],
    rest: &'b [u8],
}

impl<'b> Pieces<'b> {
    fn is_empty(&mut self) -> bool {
        while self.rest.is_empty() {
            let Some((first, behind)) = self.pieces.split_first() else { return true };
            (self.rest, self.pieces) = (first, behind);
        }
        false
    }

    /// Bytes, across the ends of records.
    fn take(&mut self, count: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while out.len() < count && !self.is_empty() {
            let some = slice(self.rest, 0, count - out.len());
            out.extend_from_slice(some);
            self.rest = &self.rest[some.len()..];
        }
        out
    }

    /// Characters: a record that continues them begins with their width.
    fn characters(&mut self, mut count: usize, mut wide: bool) -> String {
        let mut out = String::new();
        loop {
            let width = if wide { 2 } else { 1 };
            let here = (self.rest.len() / width).min(count);
            out.push_str(&characters(self.rest, here, wide));
            self.rest = &self.rest[here * width..];
            count -= here;
            if count == 0 {
                return out;
            }
            self.rest = &[];
            if self.is_empty() {
                return out;
            }
            wide = self.rest[0] & 1 == 1;
            self.rest = &self.rest[1..];
        }
    }
}

/// The strings of the shared table (section 2.4.265), each on a line.
pub(super) fn shared(pieces: &[&[u8]], shown: &mut String) {
    let mut stream = Pieces { pieces, rest: &[] };
    let head = stream.take(8);
    let count = u32_at(&head, 4).unwrap_or(0) as usize;
    for _ in 0..count.min(STRINGS_MAX) {
        if stream.is_empty() || shown.len() > TEXT_BYTES_MAX {
            return;
        }
        let head = stream.take(3);
        let (Some(count), Some(&flags)) = (u16_at(&head, 0), head.get(2)) else { return };
        let runs = if flags & 8 != 0 { u16_at(&stream.take(2), 0).unwrap_or(0) } else { 0 };
        let more = if flags & 4 != 0 { u32_at(&stream.take(4), 0).unwrap_or(0) } else { 0 };
        let text = stream.characters(usize::from(count), flags & 1 == 1);
        super::push(shown, &text);
        // Formats and phonetic readings.
        stream.take(4 * usize::from(runs));
        stream.take(more as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_that_goes_on_in_another_record() {
        let first = [&2u32.to_le_bytes()[..], &2u32.to_le_bytes(), &[5, 0, 0], b"hel"].concat();
        let second = [&[1][..], b"l\0o\0", &[2, 0, 8, 1, 0], b"ab", &[9; 4]].concat();
        let mut shown = String::new();
        shared(&[&first, &second], &mut shown);
        assert_eq!(shown, "hello\nab\n");
        for end in 0..second.len() {
            shared(&[&first, &second[..end]], &mut String::new());
        }
        assert_eq!(sized(b"\x03\0\x01a\0b\0c\0"), "abc");
    }
}
