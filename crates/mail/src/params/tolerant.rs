//! File names that tolerant programs read in a field: those that know nothing of quotes, escapes or
//! comments, that take what has no `=` for more of the value, or glue what stands apart.
//!
//! They are only looked for in a field that is not written as nearly all are.

use crate::header::decode_words;

use super::is_file_name;

/// Places with `name` that are looked at. A field has few; with more it is a defect.
const OCCURRENCES_MAX: usize = 256;

/// Bytes of the longest name of a parameter.
const PARAMETER_BYTES_MAX: usize = 64;

/// Whether all programs read the field alike: `head; name=token; name="text"`, nothing escaped, no
/// semicolon in quotes, no comment and nothing else between.
pub(super) fn is_plain(value: &[u8]) -> bool {
    let Some(semicolon) = memchr::memchr(b';', value) else {
        return !value.iter().any(|b| b"=\"(".contains(b));
    };
    if value[..semicolon].iter().any(|b| b"=\"(,".contains(b)) {
        return false;
    }
    let mut rest = value[semicolon + 1..].trim_ascii();
    while !rest.is_empty() {
        let is_name = |b: &u8| b.is_ascii_alphanumeric() || b"-_.*".contains(b);
        let name = rest.iter().take_while(|b| is_name(b)).count();
        if name == 0 || rest.get(name) != Some(&b'=') {
            return false;
        }
        // No client reads `filename0=` as a continuation of RFC 2231; it is judged all the same.
        if rest[name - 1].is_ascii_digit() && !rest[..name].contains(&b'*') {
            return false;
        }
        rest = &rest[name + 1..];
        let end = if let Some(text) = rest.strip_prefix(b"\"") {
            let end = text.iter().position(|b| b"\"\\;".contains(b)).filter(|i| text[*i] == b'"');
            let Some(end) = end else { return false };
            end + 2
        } else {
            memchr::memchr(b';', rest).unwrap_or(rest.len())
        };
        let (text, after) = rest.split_at(end);
        let is_token = |b: &u8| b.is_ascii_graphic() && !b"\"(\\,".contains(b);
        if !text.starts_with(b"\"") && !text.trim_ascii_end().iter().all(is_token) {
            return false;
        }
        rest = after.trim_ascii_start();
        match rest.strip_prefix(b";") {
            Some(next) => rest = next.trim_ascii_start(),
            None if rest.is_empty() => {}
            None => return false,
        }
    }
    true
}

/// Every value that may be meant for a parameter that is called like a file name, until `found` has
/// enough and says so by false. False if there may be more.
pub(super) fn names(value: &[u8], mut found: impl FnMut(String) -> bool) -> bool {
    let mut numbered: Vec<(&[u8], Vec<u8>)> = Vec::new();
    let (mut at, mut occurrences) = (0, 0);
    while let Some(start) = find_name(value, at) {
        at = start + 4;
        occurrences += 1;
        if occurrences > OCCURRENCES_MAX {
            return false;
        }
        let Some((base, number, text)) = parameter(value, start) else { continue };
        // A continuation says little alone; those that only have a number are joined below.
        if number.contains(&b'*') {
            continue;
        }
        let values = spans(text).into_iter().flat_map(values);
        for name in values.map(|value| decode_words(value.trim_ascii()).0.into_owned()) {
            if !name.is_empty() && !found(name) {
                return false;
            }
        }
        if !number.is_empty() {
            let end = memchr::memchr(b';', text).unwrap_or(text.len());
            let continuation = without(text[..end].trim_ascii(), b"\"");
            match numbered.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(base)) {
                Some((_, joined)) => joined.extend_from_slice(&continuation),
                None => numbered.push((base, continuation)),
            }
        }
    }
    numbered.into_iter().all(|(_, joined)| found(decode_words(&joined).0.into_owned()))
}

/// What programs make of the text behind a `=`.
fn values(text: &[u8]) -> [Vec<u8>; 4] {
    let text = text.trim_ascii();
    let bare = without(text, b"\"");
    let first = match text.strip_prefix(b"\"") {
        Some(quoted) => quoted.split(|b| *b == b'"').next(),
        // A token ends at what no token has.
        None => text.split(|b| b" \t,()<>[]\"".contains(b)).next(),
    };
    let first = first.unwrap_or_default().to_vec();
    [without_comments(&bare), without(text, b"\" \t"), first, bare]
}

/// Where `name` stands next, from `at` on.
fn find_name(value: &[u8], at: usize) -> Option<usize> {
    let rest = value.get(at..)?;
    rest.windows(4).position(|w| w.eq_ignore_ascii_case(b"name")).map(|i| at + i)
}

/// The name of the parameter around `start`, what follows it before `=`, and the rest behind that.
/// None if no parameter is called so there.
fn parameter(value: &[u8], start: usize) -> Option<(&[u8], &[u8], &[u8])> {
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || b"-_.".contains(b);
    let before = value[..start].iter().rev().take(PARAMETER_BYTES_MAX);
    let before = before.take_while(|b| is_name(b)).count();
    let base = &value[start - before..start + 4];
    let rest = &value[start + 4..];
    let number = rest.iter().take_while(|b| b.is_ascii_digit() || **b == b'*').count();
    let (number, rest) = rest.split_at(number);
    let mut rest = rest.trim_ascii_start();
    while rest.first() == Some(&b'(') {
        let end = memchr::memchr(b')', rest)?;
        rest = rest[end + 1..].trim_ascii_start();
    }
    let text = rest.strip_prefix(b"=")?;
    let lower = String::from_utf8_lossy(base).to_ascii_lowercase();
    is_file_name(&lower).then_some((base, number, text))
}

/// How far a value may go: to the next semicolon; over sections without `=` and to the end of the
/// one before the next parameter; to the end of its quotes.
fn spans(text: &[u8]) -> Vec<&[u8]> {
    let first = memchr::memchr(b';', text).unwrap_or(text.len());
    let mut end = first;
    while end < text.len() {
        let next = memchr::memchr(b';', &text[end + 1..]).map_or(text.len(), |i| end + 1 + i);
        if text[end + 1..next].contains(&b'=') {
            break;
        }
        end = next;
    }
    let quoted = text.trim_ascii_start().strip_prefix(b"\"").and_then(|inner| {
        let start = text.len() - inner.len();
        memchr::memchr(b'"', inner).map(|i| &text[start..start + i])
    });
    let mut all = vec![&text[..first]];
    all.extend((end > first).then(|| &text[..end]));
    all.extend(quoted);
    all
}

fn without(text: &[u8], left_out: &[u8]) -> Vec<u8> {
    text.iter().copied().filter(|b| !left_out.contains(b)).collect()
}

/// The text without what stands between parentheses.
fn without_comments(text: &[u8]) -> Vec<u8> {
    let (mut out, mut depth) = (Vec::with_capacity(text.len()), 0usize);
    for &byte in text {
        match byte {
            b'(' => depth += 1,
            b')' if depth > 0 => depth -= 1,
            _ if depth == 0 => out.push(byte),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(value: &str) -> Vec<String> {
        let mut found = Vec::new();
        assert!(names(value.as_bytes(), |name| {
            found.push(name);
            true
        }));
        found
    }

    #[test]
    fn fields_as_nearly_all_are() {
        for plain in [
            "attachment",
            "text/plain; charset=utf-8; format=flowed",
            "attachment; filename=\"a b (1), c.pdf\"; size=12;",
            "application/pdf; name*0*=utf-8''a%20; name*1*=b.pdf",
            "multipart/mixed; boundary=\"----=_Part_1\"",
        ] {
            assert!(is_plain(plain.as_bytes()), "{plain}");
        }
    }

    #[test]
    fn whatever_the_quotes_say_the_name_is_found() {
        for malformed in [
            "attachment; x=\"a\\\"; filename=\"setup.exe\"",
            "attachment; x=\"a; filename=setup.exe",
            "attachment; x=a\"b; filename=setup.exe; y=c\"d",
            "attachment; filename(x)=\"setup.exe\"",
            "attachment; filename0=\"setup.e\"; filename1=\"xe\"",
            "attachment; filename=setup.exe,.txt",
            "attachment; filename=\"setup.e\" \"xe\"",
            "attachment; x=y filename=setup.exe",
            "attachment; x=y, filename = \"setup.exe\" z",
            "filename=\"setup.exe\"",
            "attachment; filename=\"a\"; x-mac-name (y) =setup.exe (z)",
        ] {
            assert!(!is_plain(malformed.as_bytes()), "{malformed}");
            assert!(
                all(malformed).contains(&"setup.exe".to_owned()),
                "{malformed}: {:?}",
                all(malformed)
            );
        }
        let malformed = "attachment; filename=a;setup.exe";
        assert!(
            !is_plain(malformed.as_bytes()) && all(malformed).contains(&"a;setup.exe".to_owned())
        );
        let endless = "name=".repeat(1_000);
        let mut count = 0;
        assert!(!names(endless.as_bytes(), |_| {
            count += 1;
            count < 64
        }));
        assert!(!names(endless.as_bytes(), |_| true));
        assert!(all("attachment; filenames=a.exe; hostname").is_empty());
    }
}
