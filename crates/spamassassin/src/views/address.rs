//! Addresses of a header field as SpamAssassin's own parser reads them (RFC 5322 section 3.4, and
//! many invalid forms).
//!
//! Entries are parsed from the front: a phrase and `<address>`, or an address alone, or a phrase
//! alone; a comment may follow, then a comma, a semicolon or the end. At text of any other form
//! parsing stops, and addresses in angle brackets are extracted from the rest.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::perl::{is_space, trim, trim_end};
use crate::boundaries::is_host_name;

/// Most entries of one field.
const ENTRIES_MAX: usize = 2000;
/// Most steps of backtracking in one field, which unbalanced brackets would otherwise make many.
const STEPS_MAX: usize = 200_000;

/// One entry. Either may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Address {
    /// Display name, still encoded.
    pub phrase: Option<Vec<u8>>,
    /// `local@domain`, without angle brackets and comments.
    pub address: Option<Vec<u8>>,
}

/// Ranges of the pieces of an entry.
#[derive(Debug, Default, Clone)]
struct Entry<'t> {
    phrase: Option<&'t [u8]>,
    /// What stands between angle brackets.
    enclosed: Option<&'t [u8]>,
    alone: Option<&'t [u8]>,
    comment: Option<&'t [u8]>,
    end: usize,
}

/// Most fields of one message whose addresses are cached.
const KEPT_MAX: usize = 16;

/// Cache of parsed fields, so that each is parsed once a message however many rules need it: a list
/// that only grows, so that references into it stay valid.
#[derive(Debug, Default)]
pub(super) struct Kept(OnceCell<Box<KeptField>>);

#[derive(Debug)]
struct KeptField {
    /// Address and length of the value in memory: it lives as long as the list.
    at: (usize, usize),
    found: Vec<Address>,
    next: Kept,
}

impl Kept {
    /// The addresses of a field's value, which must be borrowed from the message.
    pub(super) fn of(&self, value: &[u8]) -> Cow<'_, [Address]> {
        let at = (value.as_ptr() as usize, value.len());
        let mut list = self;
        for _ in 0..KEPT_MAX {
            let field = list.0.get_or_init(|| {
                Box::new(KeptField { at, found: parse(value), next: Kept::default() })
            });
            if field.at == at {
                return Cow::Borrowed(&field.found);
            }
            list = &field.next;
        }
        Cow::Owned(parse(value))
    }
}

/// Reads a raw field value.
pub(super) fn parse(value: &[u8]) -> Vec<Address> {
    let text = without_pairs(trim_end(value));
    let mut found = Vec::new();
    let mut rest = &text[group_end(&text)..];
    let mut steps = STEPS_MAX;
    while !trim(rest).is_empty() && found.len() < ENTRIES_MAX {
        let Some(entry) = entry(rest, &mut steps) else { break };
        rest = &rest[entry.end..];
        found.push(finish(&entry));
    }
    let mut from = 0;
    while let Some(open) = memchr::memchr(b'<', &rest[from..]).map(|i| from + i) {
        from = open + 1;
        let Some(length) = mailbox(&rest[from..]) else { continue };
        if rest.get(from + length) == Some(&b'>') && is_sound(&rest[from..from + length]) {
            let address = up_to_second_at(&rest[from..from + length]).to_vec();
            found.push(Address { phrase: None, address: Some(address) });
            from += length;
        }
        if found.len() >= ENTRIES_MAX {
            break;
        }
    }
    found
}

/// Escaped backslashes are removed.
fn without_pairs(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut i = 0;
    while i < text.len() {
        if text[i..].starts_with(b"\\\\") {
            i += 2;
        } else {
            out.push(text[i]);
            i += 1;
        }
    }
    Cow::Owned(out)
}

/// The position after a group's name, `Name:`; an empty group takes all.
fn group_end(text: &[u8]) -> usize {
    let run = text.iter().take_while(|b| !matches!(b, b'"' | b'(' | b')' | b'<' | b'>')).count();
    let Some(colon) = memchr::memrchr(b':', &text[..run]).filter(|i| *i > 0) else { return 0 };
    let blank = text[colon + 1..].iter().take_while(|&&b| is_space(b)).count();
    let start = colon + 1 + blank;
    if text.get(start) == Some(&b';') { text.len() } else { start }
}

/// The end of a quoted string at `i`.
fn quoted(text: &[u8], i: usize) -> Option<usize> {
    if text.get(i) != Some(&b'"') {
        return None;
    }
    let mut i = i + 1;
    loop {
        match *text.get(i)? {
            b'"' => return Some(i + 1),
            b'\\' if text.get(i + 1).is_none_or(|&b| b == b'\n') => return None,
            b'\\' => i += 2,
            _ => i += 1,
        }
    }
}

/// The end of a comment at `i`; comments do not nest here.
fn comment(text: &[u8], i: usize) -> Option<usize> {
    if text.get(i) != Some(&b'(') {
        return None;
    }
    let mut i = i + 1;
    loop {
        match *text.get(i)? {
            b')' => return Some(i + 1),
            b'(' => return None,
            b'\\' if text.get(i + 1).is_none_or(|&b| b == b'\n') => return None,
            b'\\' => i += 2,
            _ => i += 1,
        }
    }
}

fn spaces(text: &[u8], mut i: usize) -> usize {
    while text.get(i).is_some_and(|&b| is_space(b)) {
        i += 1;
    }
    i
}

/// The ends of the adjacent quoted strings and plain runs at `i`.
fn phrase_ends(text: &[u8], mut i: usize) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let run = text[i..].iter().take_while(|b| !matches!(b, b'"' | b',' | b';' | b'<')).count();
        i = if run > 0 { i + run } else { quoted(text, i)? };
        Some(i)
    })
}

/// Bytes that end the parts of a mailbox: white space and what has a meaning of its own.
const SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let bytes = b"\t\n\x0b\x0c\r <>()[],:;";
    let mut i = 0;
    while i < bytes.len() {
        table[bytes[i] as usize] = true;
        i += 1;
    }
    table
};

/// Length of `local@domain` at the start of `text`.
fn mailbox(text: &[u8]) -> Option<usize> {
    let special = |b: u8| SPECIAL[usize::from(b)];
    let local = match quoted(text, 0) {
        Some(end) => end,
        None => text.iter().take_while(|&&b| b != b'@' && !special(b)).count(),
    };
    if local == 0 || text.get(local) != Some(&b'@') {
        return None;
    }
    let domain = &text[local + 1..];
    let name = domain.iter().take_while(|&&b| b != b'"' && !special(b)).count();
    if name > 0 {
        return Some(local + 1 + name);
    }
    let inner = domain.strip_prefix(b"[")?;
    let inside = inner.iter().take_while(|b| b.is_ascii_digit() || matches!(b, b':' | b'.'));
    let length = inside.count();
    (length > 0 && inner.get(length) == Some(&b']')).then_some(local + 1 + length + 2)
}

/// Whether all of `text` is `local@domain`.
fn is_mailbox(text: &[u8]) -> bool {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    mailbox(text) == Some(text.len())
}

/// A comment if there is one, and what ends an entry: the comment, and where the entry ends.
fn tail(text: &[u8], i: usize) -> Option<(Option<&[u8]>, usize)> {
    let separator = |i: usize| {
        let i = spaces(text, i);
        match text.get(i) {
            None => Some(i),
            Some(b',' | b';') => Some(i + 1),
            Some(_) => None,
        }
    };
    let start = spaces(text, i);
    if let Some(end) = comment(text, start)
        && let Some(done) = separator(end)
    {
        return Some((Some(&text[start + 1..end - 1]), done));
    }
    separator(i).map(|end| (None, end))
}

/// The entry at the start of `text`.
fn entry<'t>(text: &'t [u8], steps: &mut usize) -> Option<Entry<'t>> {
    let start = spaces(text, 0);
    let after = phrase_ends(text, start).last().unwrap_or(start);
    if after > start
        && let Some(mut found) = enclosed(text, spaces(text, after), steps)
    {
        found.phrase = Some(&text[start..after]);
        return Some(found);
    }
    if let Some(found) = enclosed(text, start, steps) {
        return Some(found);
    }
    if let Some(length) = mailbox(&text[start..])
        && let Some((comment, end)) = tail(text, start + length)
    {
        let alone = Some(&text[start..start + length]);
        return Some(Entry { alone, comment, end, ..Entry::default() });
    }
    // Nothing before a comma: the last white space is the phrase.
    [Some(start), start.checked_sub(1)].into_iter().flatten().find_map(|start| {
        let ends: Vec<usize> = phrase_ends(text, start).collect();
        ends.iter().rev().find_map(|&end_of_phrase| {
            let (comment, end) = tail(text, end_of_phrase)?;
            let phrase = Some(&text[start..end_of_phrase]);
            Some(Entry { phrase, comment, end, ..Entry::default() })
        })
    })
}

/// `<address>` at `i`, perhaps several, and the entry's end.
fn enclosed<'t>(text: &'t [u8], i: usize, steps: &mut usize) -> Option<Entry<'t>> {
    if text.get(i) != Some(&b'<') {
        return None;
    }
    let start = spaces(text, i + 1);
    let run = text[start..].iter().take_while(|b| !matches!(b, b'>' | b'@')).count();
    // As long as possible without `>` and `@`, then non-space; both backtrack from the right.
    for lead in (0..=run).rev() {
        let solid = start + lead;
        let length = text[solid..].iter().take_while(|&&b| !is_space(b)).count();
        for end in (solid + 1..=solid + length).rev() {
            *steps = steps.checked_sub(1)?;
            if let Some(found) = after_enclosed(text, start, end) {
                return Some(found);
            }
        }
    }
    let end = start;
    after_enclosed(text, end, end)
}

/// White space and `>` after an enclosed text, repeated enclosures, and the entry's end.
fn after_enclosed(text: &[u8], start: usize, end: usize) -> Option<Entry<'_>> {
    let close = spaces(text, end);
    if text.get(close) != Some(&b'>') {
        return None;
    }
    let enclosed = Some(&text[start..end]);
    if repeated(text, close + 1).is_none() {
        let (comment, end) = tail(text, close + 1)?;
        return Some(Entry { enclosed, comment, end, ..Entry::default() });
    }
    let mut ends = vec![close + 1];
    while let Some(next) = ends.last().and_then(|&i| repeated(text, i)) {
        ends.push(next);
    }
    ends.iter().rev().find_map(|&i| {
        let (comment, end) = tail(text, i)?;
        Some(Entry { enclosed, comment, end, ..Entry::default() })
    })
}

/// The end of another `<...>` at `i`.
fn repeated(text: &[u8], i: usize) -> Option<usize> {
    let open = spaces(text, i);
    if text.get(open) != Some(&b'<') {
        return None;
    }
    let start = spaces(text, open + 1);
    let solid = quoted(text, start).unwrap_or(start);
    let run = text[solid..].iter().take_while(|&&b| !is_space(b)).count();
    for end in (solid + 1..=solid + run).rev() {
        let close = spaces(text, end);
        if text.get(close) == Some(&b'>') {
            return Some(close + 1);
        }
    }
    (text.get(start) == Some(&b'>')).then_some(start + 1)
}

/// No empty quoted local part, no single quotation mark.
fn is_sound(address: &[u8]) -> bool {
    !address.starts_with(b"\"\"@") && address.iter().filter(|b| **b == b'"').count() != 1
}

fn without_comments(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    while let Some(open) = memchr::memchr(b'(', &text[from..]).map(|i| from + i) {
        // Text that is no comment keeps its parenthesis.
        let end = comment(text, open);
        out.extend_from_slice(&text[from..open + usize::from(end.is_none())]);
        from = end.unwrap_or(open + 1);
    }
    out.extend_from_slice(&text[from..]);
    out
}

/// A phrase without its quotes and comments.
fn plain_phrase(phrase: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(phrase.len());
    let mut i = 0;
    while i < phrase.len() {
        if let Some(end) = quoted(phrase, i) {
            out.extend(phrase[i + 1..end - 1].iter().filter(|b| **b != b'\\'));
            i = end;
        } else if phrase[i] == b'"' {
            i += 1;
        } else {
            let run = phrase[i..].iter().take_while(|b| **b != b'"').count();
            out.extend(without_comments(&phrase[i..i + run]));
            i += run;
        }
    }
    out
}

fn up_to_second_at(address: &[u8]) -> &[u8] {
    let second = memchr::memchr_iter(b'@', address).nth(1);
    &address[..second.unwrap_or(address.len())]
}

fn finish(entry: &Entry<'_>) -> Address {
    let enclosed = entry.enclosed.map(without_comments).filter(|a| is_mailbox(a));
    let alone = entry.alone.filter(|_| entry.enclosed.is_none()).map(<[u8]>::to_vec);
    let mut address = enclosed.or(alone).filter(|a| is_sound(a));
    let mut phrase = entry.phrase.map(plain_phrase);
    if let Some(text) = &phrase {
        let host = text.split(|&b| b == b'@').nth(1).unwrap_or_default();
        if address.is_none() && is_mailbox(text) && is_sound(text) && is_host_name(host) {
            address = phrase.take();
        } else if text.is_empty() || address.as_ref() == Some(text) {
            phrase = None;
        }
    }
    let phrase = phrase.or_else(|| entry.comment.map(<[u8]>::to_vec));
    if let Some(address) = &mut address {
        address.truncate(up_to_second_at(address).len());
    }
    Address { phrase, address }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Vec<(String, String)> {
        let text = |t: Option<Vec<u8>>| t.map_or("-".to_owned(), |t| String::from_utf8(t).unwrap());
        parse(value.as_bytes()).into_iter().map(|a| (text(a.phrase), text(a.address))).collect()
    }

    fn one(value: &str) -> (String, String) {
        let all = read(value);
        assert_eq!(all.len(), 1, "{value}: {all:?}");
        all[0].clone()
    }

    fn pair(phrase: &str, address: &str) -> (String, String) {
        (phrase.to_owned(), address.to_owned())
    }

    #[test]
    fn usual_forms() {
        assert_eq!(one("a@b.com"), pair("-", "a@b.com"));
        assert_eq!(one(" \"A, B\" <a@b.com>\n"), pair("A, B ", "a@b.com"));
        assert_eq!(one("A B <a@b.com>"), pair("A B ", "a@b.com"));
        assert_eq!(one("a@b.com (A B)"), pair("A B", "a@b.com"));
        assert_eq!(read("a@b.com, C <c@d.com>; e@f.com").len(), 3);
        assert_eq!(one("undisclosed: a@b.com"), pair("-", "a@b.com"));
        assert_eq!(one("\"a@b.com\" <a@b.com>"), pair("a@b.com ", "a@b.com"));
    }

    #[test]
    fn comments_and_escapes_go() {
        for (text, bare) in
            [("a(b)c", "ac"), ("a(b", "a(b"), ("((a)b", "(b"), ("()", ""), ("a", "a")]
        {
            assert_eq!(without_comments(text.as_bytes()), bare.as_bytes(), "{text}");
        }
        assert_eq!(*without_pairs(br"a\\b\"), *br"ab\");
        assert_eq!(one("A <a@b.com> <c@d.com>"), pair("A ", "a@b.com"));
    }

    #[test]
    fn nothing_before_a_comma() {
        let entries = read(" , a@b.com,  ; c@d.com");
        let addresses: Vec<&str> = entries.iter().map(|e| e.1.as_str()).collect();
        assert_eq!(addresses, ["-", "a@b.com", "-", "c@d.com"]);
        assert_eq!(entries[0].0, " ");
    }

    #[test]
    fn broken_forms() {
        assert_eq!(one("\"a@b.com\""), pair("-", "a@b.com"));
        assert_eq!(one("nobody"), pair("nobody", "-"));
        assert_eq!(one("A <>"), pair("A ", "-"));
        assert_eq!(one("A <<a@b.com>>"), pair("A ", "-"));
        assert_eq!(one("=?x?Q?\"A\"?=<a@b.com>"), pair("=?x?Q?A?=", "a@b.com"));
        assert_eq!(read("\"A <a@b.com>"), [pair("-", "a@b.com")]);
        assert_eq!(read("undisclosed-recipients:;"), []);
    }
}
