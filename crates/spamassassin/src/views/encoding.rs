//! Transfer encodings as SpamAssassin decodes them, with its results for invalid input.

use memchr::memchr;

use super::perl::{self, is_space};

/// Value of a base64 digit.
fn digit(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// Base64: other characters are skipped; an equal sign inside counts as zeros if the input is
/// otherwise valid, else as ones.
pub(crate) fn base64(input: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(input.len());
    for line in perl::lines(input) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        clean.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
    }
    // No early exit within a block, so that the compiler vectorizes it.
    let has_space = |block: &[u8]| block.iter().fold(false, |any, &b| any | is_space(b));
    if clean.chunks(256).any(has_space) {
        clean.retain(|&b| !is_space(b));
    }
    let pad = clean.iter().rev().take_while(|&&b| b == b'=').count();
    if clean.len() % 4 == 0
        && pad <= 2
        && let Ok(decoded) = base64_simd::STANDARD.decode_to_vec(&clean)
    {
        return decoded;
    }
    let known = |b: u8| b == b'=' || digit(b).is_some();
    let whole = clean.len() % 4 == 0 && clean.iter().all(|&b| known(b));
    let fill = if whole { 0 } else { 63 };
    clean.retain(|&b| known(b));
    let end = clean.iter().rposition(|&b| b != b'=').map_or(0, |i| i + 1);
    let digits: Vec<u8> = clean[..end].iter().map(|&b| digit(b).unwrap_or(fill)).collect();
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    for group in digits.chunks(4) {
        let mut bits = [0u8; 4];
        bits[..group.len()].copy_from_slice(group);
        let word = u32::from(bits[0]) << 18
            | u32::from(bits[1]) << 12
            | u32::from(bits[2]) << 6
            | u32::from(bits[3]);
        out.extend_from_slice(&word.to_be_bytes()[1..group.len().max(1)]);
    }
    out
}

/// Quoted-printable: white space at line ends is removed, then soft line breaks, then `=XX` is
/// decoded.
pub(crate) fn quoted_printable(input: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(input.len());
    let mut rest = input;
    while let Some(end) = memchr(b'\n', rest) {
        let line = &rest[..end];
        rest = &rest[end + 1..];
        let (line, ending): (&[u8], &[u8]) = match line.strip_suffix(b"\r") {
            Some(line) => (line, b"\r\n"),
            None => (line, b"\n"),
        };
        let length = line.iter().rposition(|b| !matches!(b, b' ' | b'\t')).map_or(0, |i| i + 1);
        match line[..length].strip_suffix(b"=") {
            Some(soft) => out.extend_from_slice(soft),
            None => {
                out.extend_from_slice(&line[..length]);
                out.extend_from_slice(ending);
            }
        }
    }
    out.extend_from_slice(rest);
    unescape(&mut out);
    out
}

/// Decodes `=XX` in place.
fn unescape(text: &mut Vec<u8>) {
    let Some(first) = memchr(b'=', text) else { return };
    let hex = |b: Option<&u8>| b.and_then(|&b| char::from(b).to_digit(16)).map(|d| d as u8);
    let (mut from, mut to) = (first, first);
    while from < text.len() {
        if text[from] == b'='
            && let (Some(high), Some(low)) = (hex(text.get(from + 1)), hex(text.get(from + 2)))
        {
            text[to] = high << 4 | low;
            from += 3;
            to += 1;
            continue;
        }
        let next = memchr(b'=', &text[from + 1..]).map_or(text.len(), |i| from + 1 + i);
        text.copy_within(from..next, to);
        to += next - from;
        from = next;
    }
    text.truncate(to);
}

/// CR LF becomes LF.
pub(crate) fn unix_lines(mut text: Vec<u8>) -> Vec<u8> {
    let Some(first) = crlf_at(&text, 0) else { return text };
    let (mut from, mut to) = (first, first);
    while from < text.len() {
        let start = from;
        let next = memchr(b'\r', &text[from + 1..]).map_or(text.len(), |i| from + 1 + i);
        let skip = usize::from(text[start] == b'\r' && text.get(start + 1) == Some(&b'\n'));
        text.copy_within(start + skip..next, to);
        to += next - start - skip;
        from = next;
    }
    text.truncate(to);
    text
}

/// Appends a text whose CR LF become LF.
pub(crate) fn push_unix_lines(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len());
    let mut done = 0;
    while let Some(at) = crlf_at(text, done) {
        out.extend_from_slice(&text[done..at]);
        // Its LF begins the next piece.
        done = at + 1;
    }
    out.extend_from_slice(&text[done..]);
}

/// The first CR LF from `from` on.
pub(crate) fn crlf_at(text: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr(b'\r', text.get(at..)?)?;
        if text.get(at + 1) == Some(&b'\n') {
            return Some(at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_valid_and_invalid() {
        assert_eq!(base64(b"aGVs\r\nbG8=\n"), b"hello");
        assert_eq!(base64(b"aGV*sbG8"), b"hello");
        assert_eq!(base64(b"YQ==Yg=="), b"a\0\0b", "an inner = is zeros");
        assert_eq!(base64(b"YQ==Yg"), b"a\x0f\xffb", "and ones if the input is broken");
        assert_eq!(base64(b"aGVsb"), b"hel");
        assert_eq!(base64(b" aGV\rs\r\nb\tG8=\r"), b"hello");
        assert_eq!(base64(b""), b"");
    }

    #[test]
    fn quoted_printable_ends_breaks_and_bytes() {
        assert_eq!(quoted_printable(b"a=3D b \t\r\nc=\nd= \r\ne=zz=4"), b"a= b\r\ncde=zz=4");
        assert_eq!(quoted_printable(b"=3=\nD=e9"), b"=\xe9");
        for (text, lines) in [
            ("a\r\nb\rc\r\r\nd\r\n", "a\nb\rc\r\nd\n"),
            ("\r\n\r", "\n\r"),
            ("\ra", "\ra"),
            ("", ""),
        ] {
            assert_eq!(unix_lines(text.into()), lines.as_bytes());
            let mut out = b"x".to_vec();
            push_unix_lines(text.as_bytes(), &mut out);
            assert_eq!(out, ["x", lines].concat().as_bytes());
        }
    }
}
