//! One Received field: client and server of a hand-over (RFC 5321 section 4.4, and the formats of
//! mail programs).

/// A regular expression, compiled when first used; `None` never happens with what is written here.
macro_rules! regex {
    ($text:expr) => {{
        static REGEX: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($text).ok());
        REGEX.as_ref()
    }};
}

mod authentication;
mod found;
mod programs;

use std::sync::LazyLock;

use gauntlet_mail::date::MONTHS;
use regex::bytes::Regex;

use self::authentication::authentication;
use self::found::{Found, clean_sender, finish};
use self::programs::{Stage, after_from, bracketed, capitals, in_parentheses};
use super::Relay;
use super::words::{Line, Pairs, has, may_have};
use crate::views::perl::{find, find_no_case, is_space, is_word, starts_no_case, trim};

/// The result of parsing a field.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A relay with an address.
    Relay(Box<Relay>),
    /// A local delivery or similar; it does not count.
    Ignored,
    /// A mail fetcher's field: fields before it do not count.
    Fetched,
    /// A scanner's copy of the previous field, with the envelope sender that belongs to that.
    Scanner(Option<Vec<u8>>),
    /// No format fits: the field is counted as unparseable.
    Unknown,
}

/// Parses the value of a field.
pub(super) fn read(value: &[u8]) -> Outcome {
    let mut line = squeezed(value);
    if !starts_no_case(&line, b"from ") && !starts_no_case(&line, b"(from ") {
        return Outcome::Ignored;
    }
    let mut pairs = Pairs::of(&line);
    if local_delivery(&Line::new(&line, &pairs)) || without_address(&line) {
        return Outcome::Ignored;
    }
    line.truncate(without_date(&line));
    if let Some(i) = find(&line, b")by ") {
        line.insert(i + 1, b' ');
        pairs = Pairs::of(&line);
    }
    let line = &Line::new(&line, &pairs);
    let mut found = Found {
        id: word_after_id(line),
        helo: helo_word(line),
        by: by_word(line),
        auth: authentication(line),
        ..Found::default()
    };
    let stage = if let Some(rest) = line.after(b"from ") {
        after_from(&rest, &mut found)
    } else if let Some(rest) = line.after(b"FROM ") {
        capitals(&rest, &mut found)
    } else if let Some(rest) = line.after(b"(from ") {
        in_parentheses(&rest, &mut found)
    } else {
        Stage::Next
    };
    match stage {
        Stage::Done => {}
        Stage::Ignored => return Outcome::Ignored,
        Stage::Fetched => return Outcome::Fetched,
        Stage::Scanner => return Outcome::Scanner(found.envfrom.map(|f| clean_sender(&f))),
        Stage::Next => {
            if found.ip.is_empty()
                && let Some(address) = bracketed(line)
            {
                found.ip = address.to_vec();
            }
            if found.ip.is_empty() || found.by.is_empty() {
                return Outcome::Unknown;
            }
        }
    }
    Outcome::Relay(Box::new(finish(found)))
}

/// White space squeezed, and semicolons at the end removed.
fn squeezed(value: &[u8]) -> Vec<u8> {
    let value = trim(value);
    let mut line = Vec::with_capacity(value.len() + 1);
    if has_single_spaces(value) {
        line.extend_from_slice(value);
    } else {
        for word in value.split(|&b| is_space(b)).filter(|w| !w.is_empty()) {
            if !line.is_empty() {
                line.push(b' ');
            }
            line.extend_from_slice(word);
        }
    }
    while line.last() == Some(&b';') {
        line.pop();
        if line.last() == Some(&b' ') {
            line.pop();
        }
    }
    line
}

/// Whether all white space is single spaces, as in most fields. No branches: vectors hold many
/// bytes.
fn has_single_spaces(text: &[u8]) -> bool {
    let others = text.iter().fold(false, |any, b| any | matches!(b, b'\t'..=b'\r'));
    let next = text.get(1..).unwrap_or_default();
    let pairs = text.iter().zip(next);
    !others && !pairs.fold(false, |any, (a, b)| any | ((*a == b' ') & (*b == b' ')))
}

fn local_delivery(line: &Line<'_>) -> bool {
    let text = b"with local for";
    has!(line, "with local for")
        && memchr::memmem::find_iter(line, text).any(|i| {
            let before = i > 0 && is_word(line[i - 1]);
            !before && !line.get(i + text.len()).is_some_and(|&b| is_word(b))
        })
}

/// `from NAME by NAME;` where the first name is no address in brackets.
fn without_address(line: &[u8]) -> bool {
    if !starts_no_case(line, b"from ") {
        return false;
    }
    let rest = &line[5..];
    let name = rest.iter().take_while(|&&b| !is_space(b)).count();
    if name == 0 || !starts_no_case(&rest[name..], b" by ") {
        return false;
    }
    let by = &rest[name + 4..];
    let length = by.iter().take_while(|&&b| !is_space(b) && b != b';').count();
    let after = by[length..].strip_prefix(b" ").unwrap_or(&by[length..]);
    let literal = rest[..name].strip_prefix(b"[").and_then(|n| n.strip_suffix(b"]"));
    let digits = |n: &[u8]| !n.is_empty() && n.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    length > 0 && after.first() == Some(&b';') && !literal.is_some_and(digits)
}

/// The length of the line without the date at its end.
fn without_date(line: &[u8]) -> usize {
    let mut words = line.rsplitn(6, |&b| b == b' ');
    let zone = words.next().unwrap_or_default();
    let (time, year, month, day) = (words.next(), words.next(), words.next(), words.next());
    let (Some(time), Some(year), Some(month), Some(day)) = (time, year, month, day) else {
        return line.len();
    };
    let number = |w: &[u8]| !w.is_empty() && w.iter().all(u8::is_ascii_digit);
    let parts = || time.split(|&b| b == b':');
    let timed = matches!(parts().count(), 2 | 3) && parts().all(number);
    if zone.is_empty()
        || !timed
        || !number(year)
        || !MONTHS.iter().any(|name| name.as_bytes() == month)
    {
        return line.len();
    }
    // The day may follow a semicolon directly, and a weekday may stand before it.
    let digits = day.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let tail = zone.len() + time.len() + year.len() + month.len() + 4;
    let mut start = line.len() - tail - digits;
    let joins = |i: usize| i > 0 && (line[i - 1] == b' ' || line[i - 1] == b';');
    if digits == 0 || !joins(start) {
        return line.len();
    }
    let weekdays: [&[u8]; 7] = [b"Mon", b"Tue", b"Thu", b"Wed", b"Fri", b"Sat", b"Sun"];
    if let Some(head) = line[..start].strip_suffix(b", ")
        && weekdays.iter().any(|d| head.ends_with(d))
        && joins(head.len() - 3)
    {
        start = head.len() - 3;
    }
    while joins(start) {
        start -= 1;
    }
    start
}

/// The message identifier: `id `, perhaps `<`, and three characters or more.
fn word_after_id(line: &[u8]) -> Vec<u8> {
    let mut after = line;
    while let Some(i) = find(after, b" id ") {
        after = &after[i + 4..];
        let rest = after.strip_prefix(b"<").unwrap_or(after);
        let end = |b: &u8| is_space(*b) || matches!(b, b'<' | b'>' | b';');
        let length = rest.iter().position(end).unwrap_or(rest.len());
        if length >= 3 {
            return rest[..length].to_vec();
        }
    }
    Vec::new()
}

fn helo_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-.^+_&:=?!@%*$\\/".contains(&b)
}

/// `helo=NAME`, or `HELO NAME`.
fn helo_word(line: &Line<'_>) -> Vec<u8> {
    if !may_have!(line, b"helo=") && !may_have!(line, b"HELO ") && !may_have!(line, b"EHLO ") {
        return Vec::new();
    }
    let named = |word: &'static [u8]| {
        memchr::memmem::find_iter(line, word).find_map(|i| {
            let rest = &line[i + word.len()..];
            let length = rest.iter().take_while(|&&b| helo_byte(b)).count();
            let bounded = i == 0 || !is_word(line[i - 1]);
            (bounded && length > 0).then_some((i, &rest[..length]))
        })
    };
    let equals = named(b"helo=").map(|f| f.1);
    let words = [named(b"HELO "), named(b"EHLO ")].into_iter().flatten().min();
    equals.or(words.map(|f| f.1)).unwrap_or_default().to_vec()
}

fn by_word(line: &[u8]) -> Vec<u8> {
    let Some(i) = find(line, b" by ") else { return Vec::new() };
    let rest = &line[i + 4..];
    rest[..rest.iter().position(|&b| is_space(b)).unwrap_or(rest.len())].to_vec()
}

/// The envelope sender: after `envelope-from` and the like, up to a word's end.
fn envelope_sender(line: &Line<'_>) -> Option<Vec<u8>> {
    if !may_have!(line, b"return-path") && !may_have!(line, b"envelope-") {
        return None;
    }
    find_no_case(line, b"return-path").or_else(|| find_no_case(line, b"envelope-"))?;
    let found = regex!(r"(?i-u)(?:return-path:? |envelope-(?:sender|from)[ =])(\S+)")?;
    let mut at = 0;
    while let Some(captures) = found.captures_at(line, at) {
        let word = captures.get(1)?;
        // The word ends where a word character and another meet.
        let edge = |i: usize| {
            let before = line.get(i.wrapping_sub(1)).is_some_and(|&b| is_word(b));
            before != line.get(i).is_some_and(|&b| is_word(b))
        };
        if let Some(end) = (word.start() + 1..=word.end()).rev().find(|&i| edge(i)) {
            return Some(line[word.start()..end].to_vec());
        }
        at = word.start();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_squeezed() {
        for (value, line) in [
            (" from a  by b ;; ", "from a by b"),
            ("from a by b; 1 Jan;", "from a by b; 1 Jan"),
            ("from a\tby\x0bb", "from a by b"),
            ("from a by\r\n b", "from a by b"),
            (" ; ", ""),
            ("", ""),
        ] {
            assert_eq!(squeezed(value.as_bytes()), line.as_bytes(), "{value:?}");
        }
        assert!(has_single_spaces(b"a b c") && !has_single_spaces(b"a  b"));
        assert!(!has_single_spaces(b"a\rb") && has_single_spaces(b""));
    }
}
