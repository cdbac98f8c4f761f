//! From bytes in a declared charset to UTF-8.

use std::borrow::Cow;

use crate::defect::DefectKind;

/// Text, and what was wrong with its charset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text<'a> {
    /// UTF-8; bytes that could not be decoded are U+FFFD.
    pub text: Cow<'a, str>,
    /// [`DefectKind::UnknownCharset`] or [`DefectKind::BadCharset`].
    pub problem: Option<DefectKind>,
}

/// Decodes `bytes` as `label` says.
///
/// UTF-8 and ASCII are taken without a copy when they are valid. A label that nobody knows, and none,
/// fall back to [`guess`].
pub fn decode<'a>(bytes: &'a [u8], label: Option<&[u8]>) -> Text<'a> {
    let Some(label) = label else {
        return Text { text: guess(bytes), problem: None };
    };
    let Some(encoding) = encoding_rs::Encoding::for_label(label) else {
        if let Some(text) = utf7(bytes, label) {
            return Text { text: Cow::Owned(text), problem: None };
        }
        let problem = (!is_ascii_label(label)).then_some(DefectKind::UnknownCharset);
        return Text { text: guess(bytes), problem };
    };
    if let Ok(text) = simdutf8::basic::from_utf8(bytes)
        && (encoding == encoding_rs::UTF_8
            || (text.is_ascii()
                && encoding.is_ascii_compatible()
                && encoding != encoding_rs::ISO_2022_JP))
    {
        return Text { text: Cow::Borrowed(text), problem: None };
    }
    let (text, bad) = encoding.decode_without_bom_handling(bytes);
    Text { text, problem: bad.then_some(DefectKind::BadCharset) }
}

fn is_ascii_label(label: &[u8]) -> bool {
    [&b"us-ascii"[..], b"ascii", b"7bit", b"8bit", b"ansi_x3.4-1968"]
        .iter()
        .any(|known| label.eq_ignore_ascii_case(known))
}

/// UTF-8 if the bytes are that, else Windows-1252, which has a character for every byte.
pub fn guess(bytes: &[u8]) -> Cow<'_, str> {
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => encoding_rs::WINDOWS_1252.decode_without_bom_handling(bytes).0,
    }
}

/// UTF-7 (RFC 2152), which no browser reads any more and some spam still uses.
fn utf7(bytes: &[u8], label: &[u8]) -> Option<String> {
    let ours = [&b"utf-7"[..], b"unicode-1-1-utf-7", b"utf7"];
    if !ours.iter().any(|l| label.eq_ignore_ascii_case(l)) {
        return None;
    }
    let mut out = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(plus) = memchr::memchr(b'+', rest) {
        out.push_str(&guess(&rest[..plus]));
        rest = &rest[plus + 1..];
        let length = rest
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
            .count();
        if length == 0 {
            out.push('+');
        } else {
            let units = crate::encoding::base64(&rest[..length]).bytes;
            let units = units.chunks_exact(2).map(|p| u16::from_be_bytes([p[0], p[1]]));
            out.extend(char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')));
        }
        rest = &rest[length..];
        rest = rest.strip_prefix(b"-").unwrap_or(rest);
    }
    out.push_str(&guess(rest));
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_fallbacks() {
        assert_eq!(decode(b"caf\xe9", Some(b"ISO-8859-1")).text, "café");
        assert_eq!(decode(b"\xa4\xe5", Some(b"koi8-r")).problem, None);
        assert_eq!(decode(b"x", Some(b"no-such")).problem, Some(DefectKind::UnknownCharset));
        assert_eq!(decode(b"\xff", Some(b"utf-8")).problem, Some(DefectKind::BadCharset));
        assert_eq!(decode(b"caf\xe9", None).text, "café");
        assert_eq!(decode(b"Hi +AOk-!", Some(b"utf-7")).text, "Hi é!");
        assert_eq!(decode(b"+AOk-", Some(b"unicode-1-1-utf-7")).problem, None);
        assert_eq!(decode(b"\x1b$B$\"\x1b(B", Some(b"iso-2022-jp")).text, "あ");
    }
}
