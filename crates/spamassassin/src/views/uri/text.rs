//! URIs in text, found as mail programs find them: with a scheme, with `www.`, as an address, or as
//! a bare host name with a known top-level domain.

use crate::boundaries::{Boundaries, is_host_name};
use crate::views::perl::{is_word, starts_no_case};

/// Longest URI after its start, local part, and host name, in bytes.
const REST_BYTES_MAX: usize = 2048;
const ADDRESS_BYTES_MAX: usize = 251;
const HOST_BYTES_MAX: usize = 252;

/// A URI in text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// With a scheme; `http://` or `mailto:` was put in front if it had none.
    pub(super) uri: Vec<u8>,
}

/// What ends a URI.
const ENDS_URI: u8 = 1;
/// What ends an address.
const ENDS_ADDRESS: u8 = 2;
/// The same, and the `@`.
const ENDS_USER: u8 = 4;
/// Bytes that may precede a URI.
const MAY_PRECEDE: u8 = 8;
/// Bytes that may precede a bare host name.
const MAY_PRECEDE_HOST: u8 = 16;
/// A letter, a digit or an underscore.
const WORD: u8 = 32;

/// The classes of each byte.
const CLASSES: [u8; 256] = {
    let mut classes = [0u8; 256];
    let mut i = 0;
    while i < 256 {
        let b = i as u8;
        let space = matches!(b, b'\t'..=b'\r' | b' ' | 0x1b | 0xa0);
        let ends_uri =
            space || matches!(b, b'>' | b'<' | b'"' | b'`' | b'}' | b']' | b'{' | b'[' | b'|');
        let ends_address = ends_uri || matches!(b, b',' | b'(' | b'\'') || b >= 0x80;
        let may_precede = space
            || matches!(b, b'>' | b'<' | b'"' | b'\'' | b'`' | b',' | b'{' | b'[' | b'(' | b'|');
        let may_precede_host =
            space || (b.is_ascii_punctuation() && !matches!(b, b'%' | b'-' | b'.' | b'_'));
        let word = b.is_ascii_alphanumeric() || b == b'_';
        // The bits in order.
        let all = [
            ends_uri,
            ends_address,
            ends_address || b == b'@',
            may_precede,
            may_precede_host,
            word,
        ];
        let mut bit = 0;
        while bit < all.len() {
            classes[i] |= (all[bit] as u8) << bit;
            bit += 1;
        }
        i += 1;
    }
    classes
};

/// Whether a byte is of this class.
fn is(b: u8, class: u8) -> bool {
    CLASSES[usize::from(b)] & class != 0
}

/// How a match was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Scheme,
    Mail,
    /// A bare host name of so many bytes.
    Host(usize),
}

/// Every URI in a text, in order.
pub(super) fn find(text: &[u8], boundaries: &Boundaries, out: &mut Vec<Found>) {
    // Every URI contains one of these characters, and no delimiter before it.
    let mark_from = |from: usize| {
        let rest = text.get(from..)?;
        memchr::memchr3(b'.', b'@', b':', rest).map(|at| from + at)
    };
    let mut at = 0;
    let mut mark = None;
    while at < text.len() {
        if mark.is_none_or(|mark| at > mark) {
            let Some(next) = mark_from(at) else { return };
            // A URI cannot end with such a character.
            if text.get(next + 1).is_none_or(|&b| is(b, ENDS_URI)) {
                at = next + 1;
                continue;
            }
            mark = Some(next);
            let end = text[at..next].iter().rposition(|&b| is(b, ENDS_URI));
            at += end.map_or(0, |end| end + 1);
        }
        let found = may_start(text, at).then(|| match_at(text, at, boundaries)).flatten();
        let Some((kind, end)) = found else {
            at += 1;
            continue;
        };
        let host = match kind {
            Kind::Host(length) => Some(&text[at..at + length]),
            _ => None,
        };
        if let Some(uri) = tidy(&text[at..end], kind, host, boundaries) {
            out.push(Found { uri });
        }
        at = end;
    }
}

/// Whether a URI may begin here: at a word boundary, after a delimiter or an ISO 2022 shift.
fn may_start(text: &[u8], at: usize) -> bool {
    let here = text.get(at).is_some_and(|&b| is(b, WORD));
    let before = at.checked_sub(1).map_or(0, |i| CLASSES[usize::from(text[i])]);
    (before & WORD != 0) != here
        || before & MAY_PRECEDE != 0
        || (at >= 3 && text[at - 3] == 0x1b && text[at - 2] == b'(')
}

fn match_at(text: &[u8], at: usize, boundaries: &Boundaries) -> Option<(Kind, usize)> {
    if let Some(end) = known_scheme(text, at) {
        return Some((Kind::Scheme, end));
    }
    if let Some(end) = address(text, at) {
        return Some((Kind::Mail, end));
    }
    bare_host(text, at, boundaries).map(|(host, end)| (Kind::Host(host), end))
}

/// Where bytes end that begin at `at` and are not of the class; none if there are none or too many.
fn run(text: &[u8], at: usize, max: usize, ends: u8) -> Option<usize> {
    let rest = text.get(at..)?;
    let rest = &rest[..rest.len().min(max + 1)];
    let length = rest.iter().position(|&b| is(b, ends)).unwrap_or(rest.len());
    (1..=max).contains(&length).then_some(at + length)
}

fn known_scheme(text: &[u8], at: usize) -> Option<usize> {
    let rest = &text[at..];
    let first = rest.first()?.to_ascii_lowercase();
    let start = match first {
        b'h' if starts_no_case(rest, b"https://") => 8,
        b'h' if starts_no_case(rest, b"http://") => 7,
        b'f' if starts_no_case(rest, b"ftp://") => 6,
        b'f' if starts_no_case(rest, b"ftp.") => 4,
        b'w' if starts_no_case(rest, b"www") => {
            let digits = rest[3..].iter().take(2).take_while(|b| b.is_ascii_digit()).count();
            (rest.get(3 + digits) == Some(&b'.')).then_some(digits + 4)?
        }
        _ => return None,
    };
    run(text, at + start, REST_BYTES_MAX, ENDS_URI)
}

fn address(text: &[u8], at: usize) -> Option<usize> {
    if starts_no_case(&text[at..], b"mailto:")
        && let Some(end) = run(text, at + 7, REST_BYTES_MAX, ENDS_ADDRESS)
    {
        return Some(end);
    }
    let sign = run(text, at, ADDRESS_BYTES_MAX, ENDS_USER)?;
    if text.get(sign) != Some(&b'@') {
        return None;
    }
    run(text, sign + 1, ADDRESS_BYTES_MAX, ENDS_ADDRESS)
}

/// A host name with a known top-level domain, and what may follow it: length of the name, and where
/// the whole ends.
fn bare_host(text: &[u8], at: usize, boundaries: &Boundaries) -> Option<(usize, usize)> {
    if at > 0 && !is(text[at - 1], MAY_PRECEDE_HOST) {
        return None;
    }
    let rest = &text[at..];
    let is_inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if !rest.first()?.is_ascii_alphanumeric() {
        return None;
    }
    let length = rest.iter().take(HOST_BYTES_MAX).take_while(|b| is_inner(b)).count();
    // The last dot within reach that a top-level domain follows.
    memchr::memrchr_iter(b'.', rest.get(..length + 1).unwrap_or(rest)).find_map(|dot| {
        if dot == 0 {
            return None;
        }
        let is_label = |b: &u8| b.is_ascii_alphanumeric() || *b == b'-';
        let label = rest[dot + 1..].iter().take_while(|b| is_label(b)).count();
        let end = dot + 1 + label;
        let goes_on = rest.get(end) == Some(&b'.')
            && rest.get(end + 1).is_some_and(u8::is_ascii_alphanumeric);
        if label == 0 || goes_on || !boundaries.is_top(&rest[dot + 1..end].to_ascii_lowercase()) {
            return None;
        }
        Some((end, at + after_host(rest, end)?))
    })
}

/// A final dot, a port and a path may follow a bare host name, then it must end.
fn after_host(rest: &[u8], mut end: usize) -> Option<usize> {
    if rest.get(end) == Some(&b'.') {
        end += 1;
    }
    if rest.get(end) == Some(&b':') {
        let digits = rest[end + 1..].iter().take(5).take_while(|b| b.is_ascii_digit()).count();
        if digits > 0 {
            end += 1 + digits;
        }
    }
    if rest.get(end) == Some(&b'/')
        && let Some(path) = run(rest, end + 1, REST_BYTES_MAX, ENDS_URI)
    {
        end = path;
    }
    rest.get(end).is_none_or(|&b| is(b, ENDS_URI)).then_some(end)
}

/// The URI without the punctuation of the sentence around it, with a scheme; `None` if it is none.
fn tidy(raw: &[u8], kind: Kind, host: Option<&[u8]>, boundaries: &Boundaries) -> Option<Vec<u8>> {
    // A closing parenthesis that none opens before it ends the URI.
    let open = memchr::memchr(b'(', raw).unwrap_or(raw.len());
    let raw = memchr::memrchr(b')', &raw[..open]).map_or(raw, |close| &raw[..close]);
    let end = raw.iter().rposition(|b| !b"-~!@#^&*()_+=:;'?,.".contains(b));
    let raw = &raw[..end.map_or(0, |last| last + 1)];
    let has = |b: u8| memchr::memchr(b, raw);
    if (kind == Kind::Mail && has(b'@').is_none()) || host.is_some_and(|h| !is_host_name(h)) {
        return None;
    }
    if starts_no_case(raw, b"cid:") || starts_no_case(raw, b"mid:") || is_only_scheme(raw) {
        return None;
    }
    let schemes: [&[u8]; 4] = [b"http:", b"https:", b"ftp:", b"mailto:"];
    let uri = if schemes.iter().any(|s| starts_no_case(raw, s)) {
        raw.to_vec()
    } else {
        with_scheme(raw)?
    };
    if starts_no_case(&uri, b"mailto:") {
        return mail_uri(uri, boundaries);
    }
    Some(uri)
}

fn is_only_scheme(raw: &[u8]) -> bool {
    let word = raw.iter().take_while(|&&b| is_word(b)).count();
    let rest = raw[word..].strip_prefix(b":");
    word > 0 && rest.is_some_and(|r| matches!(r, b"" | b"/" | b"//"))
}

fn with_scheme(raw: &[u8]) -> Option<Vec<u8>> {
    let www = starts_no_case(raw, b"www") && {
        let digits = raw[3..].iter().take(2).take_while(|b| b.is_ascii_digit()).count();
        raw.get(3 + digits) == Some(&b'.')
    };
    if starts_no_case(raw, b"ftp.") {
        return Some([b"ftp://", raw].concat());
    }
    let sign = memchr::memrchr(b'@', raw);
    // `/.+@`: something between a slash and the last `@`.
    let slash_first =
        sign.zip(memchr::memchr(b'/', raw)).is_some_and(|(sign, slash)| slash + 1 < sign);
    if www || slash_first {
        return Some([b"http://", raw].concat());
    }
    if let Some(first) = memchr::memchr(b'@', raw) {
        // A dot must follow, with something between.
        memchr::memchr(b'.', raw.get(first + 2..)?)?;
        if memchr::memmem::find(raw, b"&nbsp;").is_some() {
            return None;
        }
        return Some([b"mailto:", without_misread(raw)].concat());
    }
    memchr::memchr(b'.', raw)?;
    Some([b"http://", raw].concat())
}

/// The address without a preceding word that was taken for a part of it.
fn without_misread(raw: &[u8]) -> &[u8] {
    let prefixes: [&[u8]; 4] = [b"skype", b"e-mail", b"email", b"mail"];
    let word = prefixes.iter().find(|p| starts_no_case(raw, p) && raw.get(p.len()) == Some(&b':'));
    let rest = &raw[word.map_or(0, |p| p.len())..];
    let colons = rest.iter().take_while(|&&b| b == b':').count();
    if colons == 0 { raw } else { &rest[colons..] }
}

/// A `mailto:` whose encoded characters are decoded, if its host is one.
fn mail_uri(uri: Vec<u8>, boundaries: &Boundaries) -> Option<Vec<u8>> {
    let uri =
        if super::canonical::has_escape(&uri) { super::canonical::unescape(&uri) } else { uri };
    let sign = memchr::memchr(b'@', &uri)?;
    let stop = |b: &u8| matches!(b, b'?' | b'&' | b'>');
    let length = uri[sign + 1..].iter().take_while(|b| !stop(b)).count();
    let mut host = &uri[sign + 1..sign + 1 + length];
    while let Some(rest) = host.strip_suffix(b"%20") {
        host = rest;
    }
    boundaries.is_valid(host).then_some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_bytes() {
        for b in 0..=u8::MAX {
            let space = crate::views::perl::is_space(b);
            let ends_uri = space || b"><\"`}]{[|\x1b\xa0".contains(&b);
            assert_eq!(is(b, ENDS_URI), ends_uri, "{b}");
            let ends_address = ends_uri || b",('".contains(&b) || b >= 0x80;
            assert_eq!(is(b, ENDS_ADDRESS), ends_address, "{b}");
            assert_eq!(is(b, ENDS_USER), ends_address || b == b'@', "{b}");
            assert_eq!(is(b, MAY_PRECEDE), space || b"><\"'`,{[(|\x1b\xa0".contains(&b), "{b}");
            let before_host = b"!\"#$&'()*+,/:;<=>?@[\\]^`{|}~\x1b\xa0";
            assert_eq!(is(b, MAY_PRECEDE_HOST), space || before_host.contains(&b), "{b}");
            assert_eq!(is(b, WORD), is_word(b), "{b}");
        }
    }

    #[test]
    fn marks_miss_no_uri() {
        let boundaries = Boundaries::default();
        let pieces = [
            "http:", "//", "www", ".", "@", ":", "a", "b.com", " ", "\n", ",", "mailto:", "(", ")",
            "ftp", "\u{1b}", "/", "-", "com", "8",
        ];
        let mut seed = 11u32;
        for _ in 0..30_000 {
            let mut text = String::new();
            for _ in 0..8 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text.push_str(pieces[(seed >> 16) as usize % pieces.len()]);
            }
            let bytes = text.as_bytes();
            let (mut expected, mut at) = (Vec::new(), 0);
            while at < bytes.len() {
                match may_start(bytes, at).then(|| match_at(bytes, at, &boundaries)).flatten() {
                    Some((kind, end)) => {
                        let host = match kind {
                            Kind::Host(length) => Some(&bytes[at..at + length]),
                            _ => None,
                        };
                        let uri = tidy(&bytes[at..end], kind, host, &boundaries);
                        expected.extend(uri.map(|uri| Found { uri }));
                        at = end;
                    }
                    None => at += 1,
                }
            }
            let mut found = Vec::new();
            find(bytes, &boundaries, &mut found);
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn uris_in_text() {
        let boundaries = Boundaries::default();
        for (text, uris) in [
            (
                "see http://example.com/a, or (www.example.com).",
                "http://example.com/a http://www.example.com",
            ),
            ("write to joe@example.com!", "mailto:joe@example.com"),
            ("go to example.com/path now", "http://example.com/path"),
            ("file.nonsense and v1.2.3", ""),
            ("mail:joe@example.com", "mailto:joe@example.com"),
            ("http://a.com/x_(y)z", "http://a.com/x_(y)z"),
            ("[cid:image001.png@01D4986E.E3459640]", ""),
            ("no uri here", ""),
            ("https://", ""),
        ] {
            let mut found = Vec::new();
            find(text.as_bytes(), &boundaries, &mut found);
            let all: Vec<String> =
                found.iter().map(|f| String::from_utf8_lossy(&f.uri).into_owned()).collect();
            assert_eq!(all.join(" "), uris, "{text}");
        }
    }
}
