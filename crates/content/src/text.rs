//! Small helpers for text of unknown make.

use std::fmt::Write as _;

/// The beginning of a text, at most `max` bytes, on a character's boundary.
pub(crate) fn cut(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let end = (0..=max).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}

/// As [`cut`], with a copy.
pub(crate) fn bounded(text: &str, max: usize) -> String {
    cut(text, max).to_owned()
}

/// The text with control and direction characters shown as escapes: for names in paths and logs.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let hidden = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
        if c.is_control() || hidden {
            let _ = write!(out, "{}", c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Bytes as text: UTF-8 if they are, UTF-16 by its mark, else Windows-1252.
pub(crate) fn decode(bytes: &[u8]) -> String {
    match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        _ => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => encoding_rs::WINDOWS_1252.decode_without_bom_handling(bytes).0.into_owned(),
        },
    }
}

/// UTF-16 with replacement characters for what is none.
pub(crate) fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes.chunks_exact(2).map(|b| unit([b[0], b[1]]));
    char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect()
}

/// UTF-16, little endian, as Windows writes it.
pub(crate) fn utf16_le(bytes: &[u8]) -> String {
    utf16(bytes, u16::from_le_bytes)
}

/// A name as archives have it: UTF-8 if it is, else code page 437, which ZIP and its kin say
/// (APPNOTE.TXT appendix D); only letters below 128 are sure then.
pub(crate) fn file_name(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(name) => name.to_owned(),
        Err(_) => encoding_rs::WINDOWS_1252.decode_without_bom_handling(bytes).0.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("aäb", 2), "a");
        assert_eq!(cut("aäb", 3), "aä");
        assert_eq!(printable("a\u{202e}b\n"), "a\\u{202e}b\\u{a}");
        assert_eq!(decode(b"\xff\xfea\0b\0"), "ab");
        assert_eq!(decode(b"caf\xe9"), "café");
    }
}
