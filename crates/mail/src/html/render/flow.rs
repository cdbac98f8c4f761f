//! Text that grows with its white space collapsed, as CSS does (`white-space: normal`).

use crate::html::entity;
use crate::html::tag::Break;
use crate::limits::Limits;

/// White space that is owed before the next text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Gap {
    pub(super) lines: u8,
    cell: bool,
    space: bool,
}

/// Text that collapses white space as it grows.
pub(super) struct TextFlow {
    pub(super) text: String,
    pub(super) gap: Gap,
    /// The marker of a list's item, owed before its text.
    pub(super) marker: String,
    pub(super) bytes_max: usize,
    pub(super) full: bool,
    /// Where each piece was written from, if that is asked for.
    pub(super) places: Option<Places>,
}

/// Where in the source the pieces of a text stand.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// Offsets in the text and in the source at which a piece begins, in order.
    pieces: Vec<(u32, u32)>,
    /// Where in the source what is written now comes from.
    pub(super) source_at: usize,
}

impl Places {
    /// The byte of the source that this byte of the text was written from. A gap between pieces
    /// has none, and is counted to the piece before it.
    pub fn source_offset(&self, at: usize) -> usize {
        let next = self.pieces.partition_point(|piece| piece.0 as usize <= at);
        let Some(&(text, source)) = next.checked_sub(1).and_then(|i| self.pieces.get(i)) else {
            return 0;
        };
        let after = self.pieces.get(next).map_or(usize::MAX, |piece| piece.1 as usize);
        (source as usize + (at - text as usize)).min(after)
    }
}

/// Bytes that end a run that can be copied: white space, `&`, and the first byte of U+00A0.
const SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    table[b' ' as usize] = true;
    table[b'\t' as usize] = true;
    table[b'\n' as usize] = true;
    table[b'\r' as usize] = true;
    table[0x0c] = true;
    table[b'&' as usize] = true;
    table[0xc2] = true;
    table
};

impl TextFlow {
    pub(super) fn new(limits: &Limits) -> Self {
        TextFlow {
            text: String::new(),
            gap: Gap::default(),
            marker: String::new(),
            bytes_max: limits.text_bytes_max as usize,
            full: false,
            places: None,
        }
    }

    /// What is written next comes from this byte of the source.
    pub(super) fn write_at(&mut self, offset: usize, source: &str, preserves_whitespace: bool) {
        if let Some(places) = &mut self.places {
            places.source_at = offset;
        }
        self.write(source, preserves_whitespace);
    }

    pub(super) fn gap_for(&mut self, breaks: Break) {
        match breaks {
            Break::Inline => {}
            Break::Line => self.gap.lines = self.gap.lines.max(1),
            Break::Paragraph => self.gap.lines = 2,
            Break::Cell => self.gap.cell = true,
        }
    }

    /// Writes source text: references decoded, white space collapsed unless `preserves_whitespace`.
    pub(super) fn write(&mut self, source: &str, preserves_whitespace: bool) {
        let bytes = source.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let run = bytes[at..].iter().position(|&b| SPECIAL[usize::from(b)]);
            let end = run.map_or(bytes.len(), |i| at + i);
            if end > at {
                self.write_plain(source.get(at..end).unwrap_or_default());
            }
            let start = std::mem::replace(&mut at, end);
            self.pass(end - start);
            match bytes.get(at) {
                None => {}
                Some(b'&') => at += self.write_reference(&bytes[at..]),
                Some(0xc2) => {
                    // Two bytes of UTF-8; the source is valid, so both are there.
                    match source.get(at..at + 2) {
                        Some("\u{a0}") | None => self.gap.space = true,
                        Some(other) => self.write_plain(other),
                    }
                    at += 2;
                }
                Some(b'\n') if preserves_whitespace => {
                    self.gap.lines = (self.gap.lines + 1).min(2);
                    at += 1;
                }
                Some(_) => {
                    self.gap.space = true;
                    at += 1;
                }
            }
            self.pass(at - end);
        }
    }

    /// So many bytes of the source are done.
    fn pass(&mut self, bytes: usize) {
        if let Some(places) = &mut self.places {
            places.source_at += bytes;
        }
    }

    /// Writes the reference at the start of `bytes`; returns its length.
    fn write_reference(&mut self, bytes: &[u8]) -> usize {
        match entity::reference(bytes, false) {
            Some(('\u{a0}' | ' ' | '\t' | '\n' | '\r', length)) => {
                self.gap.space = true;
                length
            }
            Some((c, length)) => {
                self.write_plain(c.encode_utf8(&mut [0; 4]));
                length
            }
            None => {
                self.write_plain("&");
                1
            }
        }
    }

    /// Writes what is owed, then `text` as it is.
    pub(super) fn write_plain(&mut self, text: &str) {
        if self.text.len() + text.len() + self.marker.len() + 2 > self.bytes_max {
            self.full = true;
            return;
        }
        let gap = std::mem::take(&mut self.gap);
        if !self.text.is_empty() {
            match gap {
                Gap { lines: 2.., .. } => self.text.push_str("\n\n"),
                Gap { lines: 1, .. } => self.text.push('\n'),
                Gap { cell: true, .. } => self.text.push('\t'),
                Gap { space: true, .. } => self.text.push(' '),
                _ => {}
            }
        }
        if !self.marker.is_empty() {
            self.text.push_str(&self.marker);
            self.marker.clear();
        }
        if let Some(places) = &mut self.places {
            places.pieces.push((self.text.len() as u32, places.source_at as u32));
        }
        self.text.push_str(text);
    }
}
