//! Header values as SpamAssassin decodes them (RFC 2047, RFC 6532, and text that conforms to
//! neither).

use std::borrow::Cow;

use super::perl::{self, is_space, starts_no_case};
use super::{charset, encoding};

/// A raw value unfolded and trimmed: a line end and the white space after it is one space.
fn unfold(raw: &[u8]) -> Vec<u8> {
    let raw = perl::trim(raw);
    // The caller adds a line end.
    let mut out = Vec::with_capacity(raw.len() + 1);
    let mut rest = raw;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let blank = rest[end + 1..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        if blank == 0 {
            out.extend_from_slice(&rest[..=end]);
        } else {
            out.extend_from_slice(&rest[..end]);
            out.push(b' ');
        }
        rest = &rest[end + 1 + blank..];
    }
    out.extend_from_slice(rest);
    out
}

/// The decoded value of a field: unfolded, trimmed, UTF-8.
pub(crate) fn value(raw: &[u8], name: &[u8]) -> Vec<u8> {
    let text = unfold(raw);
    if is_final(&text, name) { text } else { decode(&text, name) }
}

/// Where the decoded value begins in the raw one, if it is a part of it with one line end after it.
pub(crate) fn line_start(raw: &[u8], name: &[u8]) -> Option<usize> {
    let text = raw.strip_suffix(b"\n").filter(|text| !text.last().is_some_and(|b| is_space(*b)))?;
    let start = text.iter().position(|b| !is_space(*b)).unwrap_or(text.len());
    is_final(&text[start..], name).then_some(start)
}

/// Whether decoding an unfolded value would leave it as it is.
fn is_final(text: &[u8], name: &[u8]) -> bool {
    text.is_ascii()
        && memchr::memchr(b'\n', text).is_none()
        && (!may_have_words(text) || is_plain(name))
}

/// Whether an encoded word may begin somewhere: at `=?`, of which the question mark is rarer.
fn may_have_words(text: &[u8]) -> bool {
    let mut marks = memchr::memchr_iter(b'?', text);
    marks.any(|at| at.checked_sub(1).is_some_and(|before| text[before] == b'='))
}

/// Fields whose values are never decoded.
fn is_plain(name: &[u8]) -> bool {
    let tail = if starts_no_case(name, b"resent-") { &name[7..] } else { name };
    let plain: [&[u8]; 4] = [b"received", b"mime-version", b"references", b"in-reply-to"];
    tail.eq_ignore_ascii_case(b"message-id")
        || tail.eq_ignore_ascii_case(b"date")
        || plain.iter().any(|p| name.eq_ignore_ascii_case(p))
        || starts_no_case(name, b"list-")
}

/// Decodes an unfolded value.
pub(crate) fn decode(body: &[u8], name: &[u8]) -> Vec<u8> {
    let mut body = without_line_ends(body);
    if !body.is_ascii() {
        body = Cow::Owned(charset::normalize_header(&body));
    }
    if is_plain(name) || !may_have_words(&body) {
        return body.into_owned();
    }
    decode_words(&body)
}

/// Without line ends; a tab after one becomes a space.
fn without_line_ends(body: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\n', body).is_none() {
        return Cow::Borrowed(body);
    }
    let mut out: Vec<u8> = Vec::with_capacity(body.len());
    let mut after_end = false;
    for &byte in body {
        match byte {
            b'\n' => {
                if out.last() == Some(&b'\r') {
                    out.pop();
                }
            }
            b'\t' if after_end => out.push(b' '),
            _ => out.push(byte),
        }
        after_end = byte == b'\n';
    }
    Cow::Owned(out)
}

/// An encoded word at the start of `text`: its charset, encoding, payload, and length.
fn word(text: &[u8]) -> Option<(&[u8], u8, &[u8], usize)> {
    let rest = text.strip_prefix(b"=?")?;
    let label = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'*' | b'_' | b'-');
    let end = rest.iter().position(|&b| !label(b))?;
    if end == 0 {
        return None;
    }
    let (charset, rest) = rest.split_at(end);
    let [b'?', kind @ (b'b' | b'B' | b'q' | b'Q'), b'?', rest @ ..] = rest else { return None };
    let end = memchr::memchr(b'?', rest)?;
    if rest.get(end + 1) != Some(&b'=') {
        return None;
    }
    Some((charset, *kind, &rest[..end], text.len() - rest.len() + end + 2))
}

/// Decodes the encoded words; adjacent ones of one charset are concatenated before they are
/// decoded.
fn decode_words(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len());
    let mut section: Vec<u8> = Vec::new();
    let mut section_charset: Vec<u8> = Vec::new();
    let mut i = 0;
    while i < body.len() {
        let Some((charset, kind, payload, length)) = word(&body[i..]) else {
            flush(&mut section, &mut section_charset, &mut out);
            let next = memchr::memchr(b'=', &body[i + 1..]).map_or(body.len(), |n| i + 1 + n);
            out.extend_from_slice(&body[i..next]);
            i = next;
            continue;
        };
        if !charset.eq_ignore_ascii_case(&section_charset) {
            flush(&mut section, &mut section_charset, &mut out);
            section_charset = charset.to_ascii_lowercase();
        }
        section.extend_from_slice(&payload_bytes(kind, payload));
        i += length;
        // White space between two encoded words does not count.
        let space = body[i..].iter().take_while(|&&b| is_space(b)).count();
        if space > 0 && word(&body[i + space..]).is_some() {
            i += space;
        }
    }
    flush(&mut section, &mut section_charset, &mut out);
    out
}

fn payload_bytes(kind: u8, payload: &[u8]) -> Vec<u8> {
    if kind.eq_ignore_ascii_case(&b'b') {
        return encoding::base64(payload);
    }
    let mut spaced = Vec::with_capacity(payload.len());
    for &byte in payload {
        match byte {
            b'_' => spaced.extend_from_slice(b"=20"),
            _ => spaced.push(byte),
        }
    }
    encoding::quoted_printable(&spaced)
}

fn flush(section: &mut Vec<u8>, charset: &mut Vec<u8>, out: &mut Vec<u8>) {
    if !charset.is_empty() {
        // A language may follow the charset after an asterisk (RFC 2231 section 5).
        let end = memchr::memchr(b'*', charset).unwrap_or(charset.len());
        if end == 0 {
            out.extend_from_slice(section);
        } else {
            out.extend_from_slice(&charset::normalize_word(section, &charset[..end]));
        }
    }
    section.clear();
    charset.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_final_is_not_changed_by_decoding() {
        let texts = ["a b", "a\nb", "a =?utf-8?Q?b?=", "a =?", "\u{e9}", "a\r\n\tb", ""];
        for (text, name) in texts.iter().flat_map(|t| [(t, "Subject"), (t, "References")]) {
            let (text, name) = (text.as_bytes(), name.as_bytes());
            assert!(!is_final(text, name) || decode(text, name) == text, "{text:?}");
        }
        assert!(is_final(b"a =?utf-8?Q?b?=", b"References") && is_final(b"a b", b"Subject"));
        let raws =
            ["\n", " \n", "", " a", " a b\n", "a\n", " a\r\n", " a \n", " a\n b\n", "\ta\n\n"];
        let raws = raws.iter().chain(&[" =?utf-8?Q?b?=\n", " \u{e9}\n", " a\0\r\x1b\n"]);
        let mut lent = 0;
        for (raw, name) in raws.flat_map(|raw| [(raw, "Subject"), (raw, "References")]) {
            let (raw, name) = (raw.as_bytes(), name.as_bytes());
            let Some(start) = line_start(raw, name) else { continue };
            assert_eq!(raw[start..], [value(raw, name).as_slice(), b"\n"].concat(), "{raw:?}");
            lent += 1;
        }
        assert!(lent > 6);
        assert_eq!(unfold(b" a\n\tb \n c\nd \n"), b"a b  c\nd");
    }

    #[test]
    fn encoded_words() {
        let text = |s: &str| String::from_utf8(value(s.as_bytes(), b"subject")).unwrap();
        assert_eq!(text(" =?utf-8?Q?a_b=C3?=\n =?UTF-8?B?qQ==?= c\n"), "a bé c");
        assert_eq!(text("=?iso-8859-1?Q?=E9?= =?utf-8*en?Q?x?="), "éx");
        assert_eq!(text("=?utf-8?x?y?= =?utf-8?Q?z"), "=?utf-8?x?y?= =?utf-8?Q?z");
        assert_eq!(text("a\n\tb\n  c "), "a b c");
        assert_eq!(value(b"x \xe9", b"subject"), "x é".as_bytes());
        assert_eq!(value(b"<=?utf-8?Q?a?=>", b"Message-Id"), b"<=?utf-8?Q?a?=>");
    }
}
