//! Charsets of two and four bytes a character: UTF-16 and UTF-32 (Unicode Standard, section 3.10).
//!
//! A byte order mark wins over the label, as in browsers (Encoding Standard, section 6), which
//! for UTF-32 know neither label nor mark; other mail programs read it.

use std::borrow::Cow;

use super::Text;
use crate::defect::DefectKind;

/// Bytes that are examined to detect the byte order where nothing declares it.
const PROBE_BYTES_MAX: usize = 1024;

/// The text if label or byte order mark say that it is UTF-16 or UTF-32.
pub(super) fn decode<'a>(bytes: &[u8], label: &[u8]) -> Option<Text<'a>> {
    let marked = |mark: &[u8]| bytes.starts_with(mark).then(|| &bytes[mark.len()..]);
    // The mark of UTF-32 in little endian begins as that of UTF-16, and no text has a NUL there.
    if let Some(rest) = marked(&[0xff, 0xfe, 0, 0]) {
        return Some(utf32(rest, u32::from_le_bytes));
    }
    if let Some(rest) = marked(&[0, 0, 0xfe, 0xff]) {
        return Some(utf32(rest, u32::from_be_bytes));
    }
    if let Some(rest) = marked(&[0xff, 0xfe]) {
        return Some(utf16(rest, u16::from_le_bytes));
    }
    if let Some(rest) = marked(&[0xfe, 0xff]) {
        return Some(utf16(rest, u16::from_be_bytes));
    }
    let is = |names: &[&str]| names.iter().any(|n| label.eq_ignore_ascii_case(n.as_bytes()));
    if is(&["utf-32le", "utf32le", "ucs-4le"]) {
        return Some(utf32(bytes, u32::from_le_bytes));
    }
    if is(&["utf-32be", "utf32be", "ucs-4be"]) {
        return Some(utf32(bytes, u32::from_be_bytes));
    }
    if is(&["utf-32", "utf32", "ucs-4", "ucs4", "iso-10646-ucs-4", "csucs4", "csutf32"]) {
        let order = if zeros(bytes, 4, 0) >= zeros(bytes, 4, 3) {
            u32::from_be_bytes
        } else {
            u32::from_le_bytes
        };
        return Some(utf32(bytes, order));
    }
    if is(&["utf-16", "utf16", "ucs-2", "ucs2", "iso-10646-ucs-2", "csunicode", "unicode"]) {
        // RFC 2781 says big, browsers say little; the bytes know better than both.
        let order = if zeros(bytes, 2, 0) > zeros(bytes, 2, 1) {
            u16::from_be_bytes
        } else {
            u16::from_le_bytes
        };
        return Some(utf16(bytes, order));
    }
    if is(&["utf-16be", "utf16be"]) {
        return Some(utf16(bytes, u16::from_be_bytes));
    }
    None
}

/// How many of the first characters of `width` bytes have a zero at `index`.
fn zeros(bytes: &[u8], width: usize, index: usize) -> usize {
    let probe = bytes.get(..PROBE_BYTES_MAX).unwrap_or(bytes);
    probe.chunks_exact(width).filter(|unit| unit[index] == 0).count()
}

fn utf32<'a>(bytes: &[u8], order: fn([u8; 4]) -> u32) -> Text<'a> {
    let mut bad = !bytes.len().is_multiple_of(4);
    let units = bytes.chunks_exact(4).map(|unit| order([unit[0], unit[1], unit[2], unit[3]]));
    let text = units
        .map(|unit| {
            char::from_u32(unit).unwrap_or_else(|| {
                bad = true;
                '\u{fffd}'
            })
        })
        .collect();
    finished(text, bad)
}

fn utf16<'a>(bytes: &[u8], order: fn([u8; 2]) -> u16) -> Text<'a> {
    let mut bad = !bytes.len().is_multiple_of(2);
    let units = bytes.chunks_exact(2).map(|unit| order([unit[0], unit[1]]));
    let text = char::decode_utf16(units)
        .map(|unit| {
            unit.unwrap_or_else(|_| {
                bad = true;
                '\u{fffd}'
            })
        })
        .collect();
    finished(text, bad)
}

fn finished<'a>(text: String, bad: bool) -> Text<'a> {
    Text { text: Cow::Owned(text), problem: bad.then_some(DefectKind::BadCharset) }
}
