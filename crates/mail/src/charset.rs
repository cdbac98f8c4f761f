//! From bytes in a declared charset to UTF-8.

mod shifted;
mod wide;

use std::borrow::Cow;

use crate::defect::DefectKind;

/// Text, and what was wrong with its charset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text<'a> {
    /// UTF-8; bytes that could not be decoded are U+FFFD.
    pub text: Cow<'a, str>,
    /// [`DefectKind::UnknownCharset`], [`DefectKind::UnreadableCharset`] or
    /// [`DefectKind::BadCharset`].
    pub problem: Option<DefectKind>,
}

/// Decodes `bytes` as `label` says.
///
/// UTF-8 and ASCII are taken without a copy when they are valid. An unknown label, and no label,
/// fall back to [`guess`].
pub fn decode<'a>(bytes: &'a [u8], label: Option<&[u8]>) -> Text<'a> {
    if let Some(text) = wide::decode(bytes, label.unwrap_or_default()) {
        return text;
    }
    let Some(label) = label else {
        return Text { text: guess(bytes), problem: None };
    };
    let known = encoding_rs::Encoding::for_label(label);
    let Some(encoding) = known.filter(|e| *e != encoding_rs::REPLACEMENT) else {
        if let Some(text) = utf7(bytes, label).or_else(|| shifted::decode(bytes, label)) {
            return Text { text: Cow::Owned(text), problem: None };
        }
        let problem = if is_unlike_ascii(label) {
            Some(DefectKind::UnreadableCharset)
        } else {
            (!is_ascii_label(label)).then_some(DefectKind::UnknownCharset)
        };
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

/// Charsets in which ASCII has other bytes and which some mail programs read (Outlook knows the
/// code pages of EBCDIC): what they say is not seen here.
fn is_unlike_ascii(label: &[u8]) -> bool {
    let lower = label.trim_ascii().to_ascii_lowercase();
    let is_ebcdic_page = |name: &[u8]| {
        let digits = name.strip_prefix(b"0").unwrap_or(name);
        EBCDIC_PAGES.iter().any(|page| digits == page.as_bytes())
    };
    let page = [&b"ibm-"[..], b"ibm", b"cp-", b"cp", b"x-cp", b"csibm", b"x-ebcdic-"];
    memchr::memmem::find(&lower, b"ebcdic").is_some()
        || lower.starts_with(b"scsu")
        || lower.starts_with(b"bocu")
        || lower.starts_with(b"iso-2022-cn")
        || lower == b"replacement"
        || page.iter().any(|start| lower.strip_prefix(*start).is_some_and(is_ebcdic_page))
}

/// Numbers of EBCDIC code pages (IANA's registry of character sets, Microsoft's code page
/// identifiers).
#[rustfmt::skip]
const EBCDIC_PAGES: &[&str] = &[
    "37", "038", "38", "273", "274", "275", "277", "278", "280", "281", "284", "285", "290", "297",
    "420", "423", "424", "500", "833", "838", "870", "871", "875", "880", "905", "918", "924",
    "1025", "1026", "1047", "1140", "1141", "1142", "1143", "1144", "1145", "1146", "1147", "1148",
    "1149", "1154",
];

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
    let ours = [
        &b"utf-7"[..],
        b"unicode-1-1-utf-7",
        b"unicode-2-0-utf-7",
        b"x-unicode-2-0-utf-7",
        b"csunicode11utf7",
        b"utf7",
    ];
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
        let unreadable = Some(DefectKind::UnreadableCharset);
        for label in ["ibm037", "cp500", "IBM-1047", "x-ebcdic-germany", "iso-2022-cn", "scsu"] {
            assert_eq!(decode(b"\xc8\x85", Some(label.as_bytes())).problem, unreadable, "{label}");
        }
        for label in ["ibm866", "cp1252", "cp437"] {
            assert_ne!(decode(b"x", Some(label.as_bytes())).problem, unreadable, "{label}");
        }
    }

    #[test]
    fn charsets_that_browsers_replace_are_read() {
        let wide = |text: &str, bytes: fn(u32) -> [u8; 4]| -> Vec<u8> {
            text.chars().flat_map(|c| bytes(c as u32)).collect()
        };
        let link = "http://bad.example/ é";
        for (label, bytes) in [
            ("utf-32", wide(link, u32::to_be_bytes)),
            ("utf-32", wide(link, u32::to_le_bytes)),
            ("UTF-32LE", wide(link, u32::to_le_bytes)),
            ("utf-32be", wide(link, u32::to_be_bytes)),
            ("ucs-4", [vec![0xff, 0xfe, 0, 0], wide(link, u32::to_le_bytes)].concat()),
            ("us-ascii", [vec![0, 0, 0xfe, 0xff], wide(link, u32::to_be_bytes)].concat()),
        ] {
            let text = decode(&bytes, Some(label.as_bytes()));
            assert_eq!((&*text.text, text.problem), (link, None), "{label}");
        }
        let narrow = |bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            link.encode_utf16().flat_map(bytes).collect()
        };
        for (label, bytes) in [
            ("utf-16", narrow(u16::to_be_bytes)),
            ("utf-16", narrow(u16::to_le_bytes)),
            ("utf-16be", narrow(u16::to_be_bytes)),
            ("utf-16", [vec![0xfe, 0xff], narrow(u16::to_be_bytes)].concat()),
            ("utf-8", [vec![0xff, 0xfe], narrow(u16::to_le_bytes)].concat()),
        ] {
            let text = decode(&bytes, Some(label.as_bytes()));
            assert_eq!((&*text.text, text.problem), (link, None), "{label}");
        }
        let korean = b"\x1b$)CGTUBE \x0e0!\x0f http://bad.example/";
        assert_eq!(decode(korean, Some(b"iso-2022-kr")).text, "GTUBE 가 http://bad.example/");
        let chinese = b"~{VPND~} http://bad.example/ ~~";
        assert_eq!(decode(chinese, Some(b"hz-gb-2312")).text, "中文 http://bad.example/ ~");
    }
}
