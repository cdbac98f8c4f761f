//! Content-Type and file names as SpamAssassin parses them: patterns over the whole value, not a
//! grammar.

use super::perl::{find_no_case, is_space, is_word, starts_no_case};

/// A parsed Content-Type value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ContentType {
    /// `type/subtype` in lower case, invalid characters removed; unknown text types are
    /// `text/plain`.
    pub(crate) kind: String,
    pub(crate) boundary: Option<Vec<u8>>,
    pub(crate) charset: Option<Vec<u8>>,
    pub(crate) name: Option<Vec<u8>>,
    /// There was no value, or an empty one.
    pub(crate) missing: bool,
}

/// Reads the value of the last Content-Type field.
pub(crate) fn parse(value: Option<&[u8]>) -> ContentType {
    let given = value.filter(|v| !v.is_empty() && *v != b"0");
    let value = given.unwrap_or(b"text/plain; charset=us-ascii");
    let mut name =
        parameter(value, name_at).filter(|n| !n.is_empty() && *n != b"0").map(<[u8]>::to_vec);
    if name.is_none() {
        name = continued_name(value);
    }
    let mut kind = media_type(value).to_ascii_lowercase();
    let missing = given.is_none() || kind.is_empty() || kind == b"0";
    if missing && (kind.is_empty() || kind == b"0") || is_plain_text(&kind) {
        kind = b"text/plain".to_vec();
    }
    kind.retain(|&b| {
        !matches!(b, 0..=b' ' | 0x7f..=0xff | b'"' | b'(' | b')' | b',' | b':'..=b'@' | b'['..=b']')
    });
    ContentType {
        kind: String::from_utf8_lossy(&kind).into_owned(),
        boundary: boundary(value),
        charset: parameter(value, |v, from| word_at(v, from, b"charset")).map(<[u8]>::to_vec),
        name,
        missing,
    }
}

/// `something/something` before the first semicolon.
fn media_type(value: &[u8]) -> &[u8] {
    let start = value.iter().position(|&b| !is_space(b)).unwrap_or(value.len());
    let value = &value[start..];
    let value = &value[..memchr::memchr(b';', value).unwrap_or(value.len())];
    match memchr::memchr(b'/', value) {
        // A leading slash: nothing is cut.
        Some(0) | None => value,
        Some(slash) => {
            let tail = &value[slash + 1..];
            let end = tail.iter().position(|&b| b == b'/' || is_space(b)).unwrap_or(tail.len());
            &value[..slash + 1 + end]
        }
    }
}

/// `text` types that are shown as plain text.
fn is_plain_text(kind: &[u8]) -> bool {
    let Some(rest) = kind.strip_prefix(b"text") else { return false };
    let bounded = rest.first().is_none_or(|&b| !is_word(b));
    bounded && !matches!(rest, b"/x-vcard" | b"/calendar" | b"/html")
}

/// First position from `from` on of a word (lower case) at a word boundary; returns the position
/// after it.
fn word_at(value: &[u8], from: usize, word: &[u8]) -> Option<usize> {
    let mut at = from;
    loop {
        let i = at + find_no_case(value.get(at..)?, word)?;
        if i == 0 || !is_word(value[i - 1]) {
            return Some(i + word.len());
        }
        at = i + 1;
    }
}

/// The position after the first `name` or `filename` at a word boundary.
fn name_at(value: &[u8], from: usize) -> Option<usize> {
    let name = word_at(value, from, b"name");
    let file = word_at(value, from, b"filename");
    match (name, file) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn skip_space(value: &[u8], mut i: usize) -> usize {
    while value.get(i).is_some_and(|&b| is_space(b)) {
        i += 1;
    }
    i
}

/// `NAME = value`, the value up to a semicolon, without quotes around it. `find` gives the position
/// after the name.
fn parameter(value: &[u8], find: impl Fn(&[u8], usize) -> Option<usize>) -> Option<&[u8]> {
    let mut at = 0;
    loop {
        at = find(value, at)?;
        let equals = skip_space(value, at);
        if value.get(equals) == Some(&b'=') {
            return Some(unquoted(value, skip_space(value, equals + 1)));
        }
    }
}

/// The value at `start`: up to a semicolon or the end, quotes at both ends removed.
fn unquoted(value: &[u8], start: usize) -> &[u8] {
    let quote = |i: usize| matches!(value.get(i), Some(b'"' | b'\''));
    let start = start + usize::from(quote(start));
    let stop = |i: usize| matches!(value.get(i), None | Some(b';'));
    let end = (start..=value.len()).find(|&i| stop(i) || quote(i) && stop(i + 1));
    value.get(start..end.unwrap_or(value.len())).unwrap_or_default()
}

/// `boundary=`: quoted (the end quote may be missing), or up to white space or a semicolon.
fn boundary(value: &[u8]) -> Option<Vec<u8>> {
    let mut at = 0;
    loop {
        at = word_at(value, at, b"boundary")?;
        let equals = skip_space(value, at);
        if value.get(equals) != Some(&b'=') {
            continue;
        }
        let rest = &value[skip_space(value, equals + 1)..];
        let end = |stop: &dyn Fn(u8) -> bool, s: &[u8]| {
            s.iter().position(|&b| stop(b)).unwrap_or(s.len())
        };
        if let Some(quoted) = rest.strip_prefix(b"\"") {
            let length = end(&|b| b == b'"', quoted);
            if length > 0 {
                return Some(quoted[..length].to_vec());
            }
            continue;
        }
        let length = end(&|b| is_space(b) || b == b';' || b == b'"', rest);
        if length > 0 && rest.get(length) != Some(&b'"') {
            return Some(rest[..length].to_vec());
        }
    }
}

/// RFC 2231 section 3: `name*0=`, `name*1=` and so on, concatenated.
fn continued_name(value: &[u8]) -> Option<Vec<u8>> {
    /// Most pieces of one name.
    const PIECES_MAX: usize = 1000;
    let mut pieces: Vec<(usize, &[u8])> = Vec::new();
    let (mut at, mut first) = (0, false);
    while let Some(after) = name_at(value, at) {
        at = after;
        let Some(rest) = value[after..].strip_prefix(b"*") else { continue };
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let equals = skip_space(rest, digits);
        if digits == 0 || digits > 4 || rest.get(equals) != Some(&b'=') {
            continue;
        }
        first |= &rest[..digits] == b"0";
        let number = std::str::from_utf8(&rest[..digits]).ok().and_then(|n| n.parse().ok());
        let piece = unquoted(rest, skip_space(rest, equals + 1));
        if let Some(number) = number
            && pieces.len() < PIECES_MAX
        {
            pieces.retain(|p| p.0 != number);
            pieces.push((number, piece));
        }
    }
    if !first {
        return None;
    }
    pieces.sort_by_key(|p| p.0);
    let name: Vec<u8> = pieces.into_iter().flat_map(|p| p.1.to_vec()).collect();
    (!name.is_empty()).then_some(name)
}

/// The name in a Content-Disposition.
pub(crate) fn disposition_name(value: &[u8]) -> Option<Vec<u8>> {
    let mut at = 0;
    loop {
        let i = at + find_no_case(value.get(at..)?, b"name=")?;
        at = i + 1;
        let mut start = skip_space(value, i + 5);
        start += usize::from(value.get(start) == Some(&b'"'));
        let rest = value.get(start..).unwrap_or_default();
        let end = rest.iter().position(|b| matches!(b, b'"' | b';')).unwrap_or(rest.len());
        if end > 0 {
            return Some(rest[..end].to_vec());
        }
    }
}

/// Whether a file of this name is shown as HTML.
pub(crate) fn is_html_name(name: &[u8]) -> bool {
    let name = name.strip_suffix(b"\n").unwrap_or(name);
    let ends = |suffix: &[u8]| {
        name.len() >= suffix.len() && starts_no_case(&name[name.len() - suffix.len()..], suffix)
    };
    [&b".html"[..], b".htm", b".shtml", b".shtm"].iter().any(|s| ends(s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_parameters() {
        let ct = parse(Some(b"Multipart/Mixed; boundary = \"a b\"; charset='x'"));
        assert_eq!((&*ct.kind, ct.boundary.as_deref()), ("multipart/mixed", Some(&b"a b"[..])));
        assert_eq!(ct.charset.as_deref(), Some(&b"x"[..]));
        assert_eq!(parse(Some(b"text/enriched")).kind, "text/plain");
        assert_eq!(parse(Some(b"text/calendar")).kind, "text/calendar");
        assert_eq!(parse(Some(b"text/html charset=utf-8")).kind, "text/html");
        assert!(parse(None).missing && parse(Some(b"")).missing);
        assert_eq!(parse(None).charset.as_deref(), Some(&b"us-ascii"[..]));
        assert_eq!(parse(Some(b"a/b; boundary=x\"y")).boundary, None);
        assert_eq!(
            parse(Some(b"a/b; filename*0=\"x.\"; filename*1=\"htm\"")).name.as_deref(),
            Some(&b"x.htm"[..])
        );
        assert_eq!(disposition_name(b"attachment; filename=\"x y\"").as_deref(), Some(&b"x y"[..]));
        assert!(is_html_name(b"A.SHTML") && !is_html_name(b"html"));
    }
}
