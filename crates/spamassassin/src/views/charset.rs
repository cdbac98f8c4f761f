//! Charsets as SpamAssassin 4.0 normalises them (`normalize_charset 1`, its default), without the
//! optional charset detector: first UTF-8 whatever is declared, then the declared charset strictly,
//! then Windows-1252.

use encoding_rs::{self as rs, Encoding};

use super::perl::Text;

/// Windows-1252 in 0x80..0xa0; 0 for bytes that are not assigned.
#[rustfmt::skip]
const WINDOWS_1252: [Option<char>; 32] = [
    Some('€'), None, Some('‚'), Some('ƒ'), Some('„'), Some('…'), Some('†'), Some('‡'),
    Some('ˆ'), Some('‰'), Some('Š'), Some('‹'), Some('Œ'), None, Some('Ž'), None,
    None, Some('‘'), Some('’'), Some('“'), Some('”'), Some('•'), Some('–'), Some('—'),
    Some('˜'), Some('™'), Some('š'), Some('›'), Some('œ'), None, Some('ž'), Some('Ÿ'),
];

/// How to decode a charset.
#[derive(Debug, Clone, Copy)]
enum Decoder {
    Ascii,
    Latin1,
    Windows1252,
    Utf8,
    /// `ISO-8859-N` whose upper half equals that of the other decoder, except the controls.
    Controls(&'static Encoding),
    /// A Windows charset: what is not assigned is an error.
    Assigned(&'static Encoding),
    Multibyte(&'static Encoding),
    /// GB 2312 only, not its superset.
    Gb2312,
    /// ISO 2022-JP: seven bits; a byte above 127 ends the text.
    Iso2022Jp,
    /// UTF-7 (RFC 2152): Base64 of UTF-16 between `+` and `-`.
    Utf7,
    /// Big5 without the Hong Kong characters.
    Big5,
}

/// Decodes `data`, whose declared charset is `declared`, to characters. Bytes that need no decoding
/// stay a narrow string.
pub(crate) fn normalize(data: &[u8], declared: &[u8]) -> Text {
    match decode(data, declared, false) {
        Some(chars) => Text::wide(chars),
        None => Text::narrow(data),
    }
}

/// The same for one encoded word: the declared charset is used, errors become U+FFFD; the result is
/// UTF-8 bytes.
pub(crate) fn normalize_word(data: &[u8], declared: &[u8]) -> Vec<u8> {
    decode(data, declared, true).map_or_else(|| data.to_vec(), String::into_bytes)
}

/// Bytes of a header value, made UTF-8.
pub(crate) fn normalize_header(data: &[u8]) -> Vec<u8> {
    decode(data, b"UTF-8", false).map_or_else(|| data.to_vec(), String::into_bytes)
}

/// `None`: the bytes stay as they are.
fn decode(data: &[u8], declared: &[u8], insist: bool) -> Option<String> {
    let ascii = data.is_ascii();
    let label = String::from_utf8_lossy(declared).to_ascii_lowercase();
    if ascii && is_ascii_superset(&label) {
        return None;
    }
    let utf8_first = !ascii && !insist;
    if utf8_first && let Some(text) = strict_utf8(data) {
        return Some(text.to_owned());
    }
    let decoded = if !insist && matches!(&*label, "ascii" | "us-ascii") {
        None
    } else if is_utf16(&label) {
        let text = utf16(data);
        // In an encoded word SpamAssassin keeps the bytes that it can decode.
        if insist && text.is_some() {
            return None;
        }
        text
    } else {
        match find(&label) {
            Some(Decoder::Utf8) if utf8_first => None,
            Some(decoder) => run(decoder, data, insist),
            None => None,
        }
    };
    match decoded {
        Some(text) => Some(text),
        None if ascii => None,
        // Windows-1252 in any case: the guess and the last resort are the same.
        None => run(Decoder::Windows1252, data, true),
    }
}

/// Labels of charsets whose lower half is ASCII, as far as SpamAssassin knows them.
fn is_ascii_superset(label: &str) -> bool {
    let rest = |prefix: &str| label.strip_prefix(prefix);
    let digits = |s: &str, n: std::ops::RangeInclusive<usize>| {
        n.contains(&s.len()) && s.bytes().all(|b| b.is_ascii_digit())
    };
    if matches!(label, "us-ascii" | "ascii" | "iso646-us" | "big5" | "gbk" | "utf8" | "utf-8") {
        return true;
    }
    if let Some(tail) = rest("ansi") {
        let tail = tail.strip_prefix(['_', ' ']).unwrap_or(tail).trim_start();
        return matches!(tail, "x3.4-1986" | "x3.4-1968");
    }
    if let Some(tail) = rest("iso8859").or_else(|| rest("iso-8859")).or_else(|| rest("iso 8859")) {
        return tail.is_empty() || tail.strip_prefix('-').is_some_and(|n| digits(n, 1..=2));
    }
    if let Some(tail) = rest("windows-") {
        return digits(tail, 4..=4);
    }
    if let Some(tail) = rest("koi8-").or_else(|| rest("euc-")) {
        return (1..=2).contains(&tail.len()) && tail.bytes().all(|b| b.is_ascii_lowercase());
    }
    let gb = rest("gb18030").or_else(|| rest("gb-18030")).or_else(|| rest("gb 18030"));
    gb.is_some_and(|t| t.is_empty() || t.strip_prefix("-20").is_some_and(|n| digits(n, 2..=2)))
}

/// UTF-8 as Perl's strict decoder takes it: no surrogates, no noncharacters.
pub(crate) fn strict_utf8(data: &[u8]) -> Option<&str> {
    const BLOCK: usize = 256;
    let text = simdutf8::basic::from_utf8(data).ok()?;
    // No early exit within a block, so that the compiler vectorizes it.
    let is_suspicious =
        |block: &[u8]| block.iter().fold(false, |any, &b| any | (b >= NONCHARACTER_START));
    let blocks = (0..).step_by(BLOCK).zip(data.chunks(BLOCK));
    let mut starts = blocks.filter(|(_, block)| is_suspicious(block)).flat_map(|(from, block)| {
        let bytes = (from..).zip(block);
        bytes.filter(|(_, b)| **b >= NONCHARACTER_START).map(|(at, _)| at)
    });
    let has_any = starts.any(|at| data.get(at..).is_some_and(begins_with_noncharacter));
    (!has_any).then_some(text)
}

/// The lowest byte that a noncharacter begins with in UTF-8.
const NONCHARACTER_START: u8 = 0xef;

/// Whether valid UTF-8 begins with a noncharacter: U+FDD0 to U+FDEF, and the last two of each
/// plane.
fn begins_with_noncharacter(text: &[u8]) -> bool {
    match *text {
        [0xef, 0xb7, 0x90..=0xaf, ..] | [0xef, 0xbf, 0xbe | 0xbf, ..] => true,
        [0xf0..=0xff, second, 0xbf, 0xbe | 0xbf, ..] => second & 0x0f == 0x0f,
        _ => false,
    }
}

/// UTF-8 with U+FFFD for what is none: one for each start byte with its continuation.
fn lossy_utf8(data: &[u8]) -> String {
    let mut out = String::with_capacity(data.len());
    let mut rest = data;
    while !rest.is_empty() {
        let valid = match std::str::from_utf8(rest) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(),
        };
        out.push_str(valid);
        rest = &rest[valid.len()..];
        let Some(&first) = rest.first() else { break };
        let more = match first {
            0xc0..=0xdf => 1,
            0xe0..=0xef => 2,
            0xf0..=0xf7 => 3,
            0xf8..=0xfb => 4,
            0xfc..=0xfd => 5,
            _ => 0,
        };
        let tail = rest[1..].iter().take(more).take_while(|&&b| b & 0xc0 == 0x80).count();
        out.push('\u{fffd}');
        rest = &rest[1 + tail..];
    }
    let bad = |c: char| matches!(u32::from(c), 0xfdd0..=0xfdef) || u32::from(c) & 0xfffe == 0xfffe;
    if out.contains(bad) { out.replace(bad, "\u{fffd}") } else { out }
}

fn is_utf16(label: &str) -> bool {
    let rest = label.strip_prefix("utf").unwrap_or_default();
    rest.strip_prefix(['-', ' ']).unwrap_or(rest).starts_with("16") && !rest.is_empty()
}

/// UTF-16 without a byte order mark, the order guessed; `None` if there is a mark or no clear
/// guess.
fn utf16(data: &[u8]) -> Option<String> {
    if data.starts_with(b"\xff\xfe") || data.starts_with(b"\xfe\xff") {
        return None;
    }
    let (mut little, mut big) = (0u64, 0u64);
    let (mut even, mut odd) = (0u64, 0u64);
    let weight = |b: u8| u64::from(b >> 4) + u64::from(b & 15);
    for pair in data.chunks(2) {
        let (a, b) = (pair[0], pair.get(1).copied().unwrap_or(0));
        even += weight(a);
        odd += weight(b);
        little += u64::from(a == 0x20 && b == 0);
        big += u64::from(a == 0 && b == 0x20);
    }
    little += u64::from(even > odd * 4);
    big += u64::from(odd * 4 > even);
    if little == big || data.len() % 2 == 1 {
        return None;
    }
    let unit = |p: &[u8]| {
        let pair = [p[0], p[1]];
        if little > big { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) }
    };
    char::decode_utf16(data.chunks_exact(2).map(unit)).collect::<Result<_, _>>().ok()
}

/// The decoder of a label in lower case, by Perl's names and aliases.
fn find(label: &str) -> Option<Decoder> {
    // Text declared as Latin-1 is mostly Windows-1252 (as the WHATWG standard assumes too).
    if matches!(label, "iso-8859-1" | "iso8859-1") {
        return Some(Decoder::Windows1252);
    }
    let plain: String = label.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).collect();
    if let Some(number) = plain.strip_prefix("iso8859") {
        return iso_8859(number);
    }
    let windows = plain.strip_prefix("windows").or_else(|| plain.strip_prefix("cp"));
    if let Some(number) = windows {
        let decoder = match number {
            "1252" => return Some(Decoder::Windows1252),
            "1250" => rs::WINDOWS_1250,
            "1251" => rs::WINDOWS_1251,
            "1253" => rs::WINDOWS_1253,
            "1254" => rs::WINDOWS_1254,
            "1255" => rs::WINDOWS_1255,
            "1256" => rs::WINDOWS_1256,
            "1257" => rs::WINDOWS_1257,
            "1258" => rs::WINDOWS_1258,
            "874" => rs::WINDOWS_874,
            "866" => rs::IBM866,
            "932" | "31j" => return Some(Decoder::Multibyte(rs::SHIFT_JIS)),
            "936" => return Some(Decoder::Multibyte(rs::GBK)),
            "949" => return Some(Decoder::Multibyte(rs::EUC_KR)),
            "950" => return Some(Decoder::Big5),
            _ => return None,
        };
        return Some(Decoder::Assigned(decoder));
    }
    Some(match &*plain {
        "utf8" | "utf8strict" => Decoder::Utf8,
        "ascii" | "usascii" | "iso646us" | "646" => Decoder::Ascii,
        "latin1" | "l1" => Decoder::Latin1,
        "latin2" => Decoder::Multibyte(rs::ISO_8859_2),
        "latin9" => Decoder::Multibyte(rs::ISO_8859_15),
        "koi8r" => Decoder::Multibyte(rs::KOI8_R),
        "koi8u" => Decoder::Multibyte(rs::KOI8_U),
        "macintosh" | "macroman" => Decoder::Multibyte(rs::MACINTOSH),
        "gbk" | "gb18030" => Decoder::Multibyte(rs::GBK),
        "gb2312" | "euccn" | "gb231280" => Decoder::Gb2312,
        "big5" | "big5eten" | "tcabig5" => Decoder::Big5,
        "big5hkscs" | "hkscsbig5" => Decoder::Multibyte(rs::BIG5),
        "euckr" | "ksc56011987" | "korean" | "uhc" => Decoder::Multibyte(rs::EUC_KR),
        "shiftjis" | "sjis" | "xsjis" => Decoder::Multibyte(rs::SHIFT_JIS),
        "eucjp" | "ujis" => Decoder::Multibyte(rs::EUC_JP),
        "iso2022jp" | "iso2022jp1" | "7bitjis" => Decoder::Iso2022Jp,
        "utf7" => Decoder::Utf7,
        "ibm866" => Decoder::Multibyte(rs::IBM866),
        _ => return None,
    })
}

fn iso_8859(number: &str) -> Option<Decoder> {
    Some(match number {
        "1" => Decoder::Latin1,
        "9" => Decoder::Controls(rs::WINDOWS_1254),
        "11" => Decoder::Controls(rs::WINDOWS_874),
        "2" => Decoder::Multibyte(rs::ISO_8859_2),
        "3" => Decoder::Multibyte(rs::ISO_8859_3),
        "4" => Decoder::Multibyte(rs::ISO_8859_4),
        "5" => Decoder::Multibyte(rs::ISO_8859_5),
        "6" => Decoder::Multibyte(rs::ISO_8859_6),
        "7" => Decoder::Multibyte(rs::ISO_8859_7),
        "8" => Decoder::Multibyte(rs::ISO_8859_8),
        "10" => Decoder::Multibyte(rs::ISO_8859_10),
        "13" => Decoder::Multibyte(rs::ISO_8859_13),
        "14" => Decoder::Multibyte(rs::ISO_8859_14),
        "15" => Decoder::Multibyte(rs::ISO_8859_15),
        "16" => Decoder::Multibyte(rs::ISO_8859_16),
        _ => return None,
    })
}

/// Decodes; an error is U+FFFD if `lossy`, else the whole fails.
fn run(decoder: Decoder, data: &[u8], lossy: bool) -> Option<String> {
    let bad = |c: Option<char>| if lossy { Some(c.unwrap_or('\u{fffd}')) } else { c };
    match decoder {
        Decoder::Ascii => {
            data.iter().map(|&b| bad(b.is_ascii().then_some(char::from(b)))).collect()
        }
        Decoder::Latin1 => Some(data.iter().map(|&b| char::from(b)).collect()),
        Decoder::Windows1252 => {
            let one = |&b: &u8| match b {
                0x80..=0x9f => bad(WINDOWS_1252[usize::from(b - 0x80)]),
                _ => Some(char::from(b)),
            };
            data.iter().map(one).collect()
        }
        Decoder::Utf8 if lossy => Some(lossy_utf8(data)),
        Decoder::Utf8 => strict_utf8(data).map(str::to_owned),
        Decoder::Controls(encoding) => {
            let upper: Vec<u8> = data.iter().filter(|b| **b >= 0xa0).copied().collect();
            let upper = whole(encoding, &upper, lossy)?;
            let mut upper = upper.chars();
            data.iter()
                .map(|&b| if b < 0xa0 { Some(char::from(b)) } else { upper.next() })
                .collect()
        }
        Decoder::Assigned(encoding) => {
            let text = whole(encoding, data, lossy)?;
            let control = |c: char| ('\u{80}'..='\u{9f}').contains(&c);
            match (text.contains(control), lossy) {
                (false, _) => Some(text),
                (true, true) => Some(text.replace(control, "\u{fffd}")),
                (true, false) => None,
            }
        }
        Decoder::Multibyte(encoding) => whole(encoding, data, lossy),
        Decoder::Gb2312 => gb2312(data, lossy),
        Decoder::Iso2022Jp => Some(iso_2022_jp(data)),
        Decoder::Utf7 => utf7(data, lossy),
        Decoder::Big5 if !lossy && !leads_within(data, 0xa1..=0xf9) => None,
        Decoder::Big5 => whole(rs::BIG5, data, lossy),
    }
}

fn whole(encoding: &'static Encoding, data: &[u8], lossy: bool) -> Option<String> {
    if lossy {
        return Some(encoding.decode_without_bom_handling(data).0.into_owned());
    }
    let text = encoding.decode_without_bom_handling_and_without_replacement(data)?;
    Some(text.into_owned())
}

/// Whether the first byte of every two-byte character is in the range.
fn leads_within(data: &[u8], range: std::ops::RangeInclusive<u8>) -> bool {
    let mut bytes = data.iter();
    while let Some(&byte) = bytes.next() {
        if byte >= 0x80 {
            if !range.contains(&byte) {
                return false;
            }
            bytes.next();
        }
    }
    true
}

/// GB 2312-80 in its EUC form. Two characters differ from its supersets.
fn gb2312(data: &[u8], lossy: bool) -> Option<String> {
    let mut out = String::with_capacity(data.len() * 2);
    let mut rest = data;
    while let Some(&lead) = rest.first() {
        if lead < 0x80 {
            let run = rest.iter().take_while(|b| b.is_ascii()).count();
            out.extend(rest[..run].iter().map(|&b| char::from(b)));
            rest = &rest[run..];
            continue;
        }
        let pair = rest.get(..2).filter(|p| is_gb2312(p[0], p[1]));
        let text =
            pair.and_then(|p| rs::GBK.decode_without_bom_handling_and_without_replacement(p));
        match (text, pair) {
            (_, Some(b"\xa1\xa4")) => out.push('\u{30fb}'),
            (_, Some(b"\xa1\xaa")) => out.push('\u{2015}'),
            (Some(text), _) => out.push_str(&text),
            (None, _) if lossy => out.push('\u{fffd}'),
            (None, _) => return None,
        }
        rest = &rest[if pair.is_some() { 2 } else { 1 }..];
    }
    Some(out)
}

/// Whether a character is assigned in GB 2312-80 (rows and cells of its table).
fn is_gb2312(lead: u8, trail: u8) -> bool {
    if lead < 0xa1 || !(0xa1..=0xfe).contains(&trail) {
        return false;
    }
    let (row, cell) = (lead - 0xa0, trail - 0xa0);
    match row {
        1 | 3 | 16..=54 | 56..=87 => true,
        2 => matches!(cell, 17..=66 | 69..=78 | 81..=92),
        4 => cell <= 83,
        5 => cell <= 86,
        6 => matches!(cell, 1..=24 | 33..=56),
        7 => matches!(cell, 1..=33 | 49..=81),
        8 => matches!(cell, 1..=26 | 37..=73),
        9 => matches!(cell, 4..=79),
        55 => cell <= 89,
        _ => false,
    }
}

/// ISO 2022-JP up to the first byte above 127. Of escapes in a row only the last counts.
fn iso_2022_jp(data: &[u8]) -> String {
    let end = data.iter().position(|b| !b.is_ascii()).unwrap_or(data.len());
    let mut tidy = Vec::with_capacity(end);
    let mut rest = &data[..end];
    while let Some(&byte) = rest.first() {
        let escape = matches!(rest, [0x1b, b'$' | b'(', _, ..]);
        if escape && rest.get(3) == Some(&0x1b) {
            rest = &rest[3..];
            continue;
        }
        tidy.push(byte);
        rest = &rest[1..];
    }
    rs::ISO_2022_JP.decode_without_bom_handling(&tidy).0.into_owned()
}

/// UTF-7: `+` begins base64 of UTF-16, a minus sign or anything else ends it; `+-` is a plus sign.
fn utf7(data: &[u8], lossy: bool) -> Option<String> {
    let mut out = String::with_capacity(data.len());
    let mut rest = data;
    while let Some(&byte) = rest.first() {
        rest = &rest[1..];
        if byte != b'+' {
            if !byte.is_ascii() && !lossy {
                return None;
            }
            out.push(if byte.is_ascii() { char::from(byte) } else { '\u{fffd}' });
            continue;
        }
        let digit = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
        let length = rest.iter().take_while(|b| digit(b)).count();
        if length == 0 {
            out.push('+');
        } else {
            let bytes = super::encoding::base64(&rest[..length]);
            let units = bytes.chunks_exact(2).map(|p| u16::from_be_bytes([p[0], p[1]]));
            out.extend(char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')));
        }
        rest = &rest[length..];
        rest = rest.strip_prefix(b"-").unwrap_or(rest);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf8(data: &[u8], declared: &str) -> Vec<u8> {
        normalize(data, declared.as_bytes()).bytes()
    }

    #[test]
    fn noncharacters_are_found_by_their_bytes() {
        for c in (0..=0x0010_ffff).filter_map(char::from_u32) {
            let code = u32::from(c);
            let is_none = (0xfdd0..=0xfdef).contains(&code) || code & 0xfffe == 0xfffe;
            assert_eq!(begins_with_noncharacter(c.encode_utf8(&mut [0; 4]).as_bytes()), is_none);
        }
        for at in [0, 252, 253, 254, 255, 256, 600] {
            let text = ["a".repeat(at), "\u{1f600}\u{feff}\u{fffd}b".to_owned()].concat();
            assert_eq!(strict_utf8(text.as_bytes()), Some(text.as_str()));
            for bad in ["\u{fdd0}", "\u{ffff}", "\u{2fffe}"] {
                assert_eq!(strict_utf8([&text, bad].concat().as_bytes()), None);
                assert_eq!(strict_utf8([bad, &text].concat().as_bytes()), None);
            }
        }
    }

    #[test]
    fn utf8_first_then_declared_then_windows_1252() {
        assert_eq!(utf8("é".as_bytes(), "iso-8859-1"), "é".as_bytes());
        assert_eq!(utf8(b"\xe9\x92", "iso-8859-1"), "é’".as_bytes());
        assert_eq!(utf8(b"\xf0\xf2", "koi8-r"), "ПР".as_bytes());
        assert_eq!(utf8(b"\x81", "us-ascii"), "\u{fffd}".as_bytes());
        assert!(!normalize(b"plain", b"utf-8").wide);
        assert_eq!(utf8(b"\xc4\xe3\x81\x40", "gb2312"), "Äã\u{fffd}@".as_bytes(), "not GB 2312");
        assert_eq!(utf8(b"\xc4\xe3\x81\x40", "gbk"), "你丂".as_bytes());
    }

    #[test]
    fn encoded_words_believe_their_label() {
        assert_eq!(normalize_word(b"\xc3\xa9", b"iso-8859-1"), "Ã©".as_bytes());
        assert_eq!(normalize_word(b"a\xff", b"utf-8"), "a\u{fffd}".as_bytes());
        assert_eq!(normalize_word(b"\xe2\x82(", b"utf-8"), "\u{fffd}(".as_bytes());
    }

    #[test]
    fn seven_bit_charsets() {
        assert_eq!(utf8(b"Fr+APY-sche +- a", "utf-7"), "Frösche + a".as_bytes());
        assert_eq!(utf8(b"\x1b$B$\"\x1b(B\x1b$B$\"\x1b(Bx", "iso-2022-jp"), "ああx".as_bytes());
        assert_eq!(utf8(b"a\xa4b", "iso-2022-jp"), b"a");
        assert_eq!(normalize_word(b"\xa1\xaa\x8c\xc2\xa3", b"gb2312"), "―\u{fffd}拢".as_bytes());
    }

    #[test]
    fn utf16_is_guessed_without_a_mark() {
        let text: Vec<u8> = "a b c".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(utf16(&text).as_deref(), Some("a b c"));
        assert_eq!(utf16(b"\xff\xfea\0"), None);
    }
}
