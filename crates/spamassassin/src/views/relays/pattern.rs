//! A small pattern language for Received fields: fixed text and slots for words. It is much faster
//! than regular expressions on these short lines, and keeps the table of formats readable.
//!
//! | Token | Matches |
//! |---|---|
//! | `{h+}` `{h*}` | non-space, one or more / any number, kept as slot `h` (`_` is kept nowhere) |
//! | `{h)+}` `{h)*}` | the same of anything but `)` |
//! | `{i}` `{_i}` | an IP address, kept as slot `i` / not kept |
//! | `{.*}` `{.?}` | anything, as much / as little as possible |
//! | `{d}` | digits |
//! | `{HELO}` `{SMTP}` | `HELO` or `EHLO`; `ESMTP` or `SMTP` |
//! | `{local}` | a name or address of this host |
//! | `{b}` | a word boundary |
//! | `{$}` | the end |
//! | `{?...?}` | what is inside, if it is there |

use std::ops::Range;

use super::ip;
use super::words::{Line, Pairs};
use crate::views::perl::{self, is_space, is_word};

/// Most steps of backtracking on one line.
const STEPS_MAX: usize = 100_000;

/// The captures of a pattern: one range for each letter.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    slots: [Option<(u32, u32)>; 26],
    steps: usize,
}

impl Kept {
    /// No captures, all steps left.
    pub(super) fn new() -> Self {
        Kept { slots: [None; 26], steps: STEPS_MAX }
    }

    /// The range of a slot.
    pub(super) fn range(&self, slot: u8) -> Option<Range<usize>> {
        let (start, end) = (*self.slots.get(usize::from(slot.checked_sub(b'a')?))?)?;
        Some(start as usize..end as usize)
    }

    /// The text of a slot, if it was kept.
    pub(super) fn text<'t>(&self, slot: u8, line: &'t [u8]) -> Option<&'t [u8]> {
        self.range(slot).and_then(|r| line.get(r))
    }

    fn keep(&mut self, slot: u8, range: Range<usize>) {
        let index = usize::from(slot.wrapping_sub(b'a'));
        if let Some(place) = self.slots.get_mut(index) {
            *place = Some((range.start as u32, range.end as u32));
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Literal(Literal),
    NonSpace { slot: u8, min: usize },
    NotParen { slot: u8, min: usize },
    Address { slot: u8 },
    Any { greedy: bool },
    Digits,
    OneOf(&'static [&'static [u8]]),
    Localhost,
    Boundary,
    End,
    Optional(Vec<Piece>),
}

/// A fixed text, found by its rarest byte.
#[derive(Debug, Clone, PartialEq)]
struct Literal {
    text: Vec<u8>,
    /// Offset of its rarest byte.
    rarest: usize,
}

impl Literal {
    fn new(text: Vec<u8>) -> Self {
        let rarest = perl::rarest(&text).unwrap_or_default();
        Literal { text, rarest }
    }

    /// Its last position in a text.
    fn last_in(&self, text: &[u8]) -> Option<usize> {
        memchr::memrchr_iter(*self.text.get(self.rarest)?, text).find_map(|at| {
            let start = at.checked_sub(self.rarest)?;
            text.get(start..)?.starts_with(&self.text).then_some(start)
        })
    }
}

/// A compiled pattern; it matches at the start of a line.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pieces: Vec<Piece>,
    /// Of the texts that a line must have.
    pairs: Pairs,
}

impl Pattern {
    /// Compiles a pattern of this module's tables; an unknown token matches nothing (a test
    /// compiles them all).
    pub(super) fn new(text: &str) -> Self {
        let pieces = compile(text.as_bytes()).0;
        let pairs = pieces.iter().fold(Pairs::default(), |pairs, piece| match piece {
            Piece::Literal(literal) => pairs.and(&Pairs::of(&literal.text)),
            _ => pairs,
        });
        Pattern { pieces, pairs }
    }

    /// Pairs of bytes that a line must have.
    pub(super) fn pairs(&self) -> Pairs {
        self.pairs
    }

    /// Matches at the start of `line`.
    pub(super) fn matches(&self, line: &Line<'_>, kept: &mut Kept) -> bool {
        kept.slots = [None; 26];
        line.may_have(&self.pairs) && run(&self.pieces, None, line, 0, kept)
    }

    #[cfg(test)]
    pub(super) fn has_unknown(&self) -> bool {
        self.pieces.contains(&Piece::OneOf(&[]))
    }
}

/// Compiles up to the end, or to `?}`; the rest is returned.
fn compile(mut text: &[u8]) -> (Vec<Piece>, &[u8]) {
    let mut pieces = Vec::new();
    let mut literal = Vec::new();
    while let Some(&byte) = text.first() {
        if text.starts_with(b"?}") {
            text = &text[2..];
            break;
        }
        if byte != b'{' {
            literal.push(byte);
            text = &text[1..];
            continue;
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(Literal::new(std::mem::take(&mut literal))));
        }
        if let Some(inner) = text.strip_prefix(b"{?") {
            let (optional, rest) = compile(inner);
            pieces.push(Piece::Optional(optional));
            text = rest;
            continue;
        }
        let end = memchr::memchr(b'}', text).unwrap_or(text.len() - 1);
        pieces.push(token(&text[1..end]));
        text = &text[end + 1..];
    }
    if !literal.is_empty() {
        pieces.push(Piece::Literal(Literal::new(literal)));
    }
    (pieces, text)
}

fn token(token: &[u8]) -> Piece {
    match token {
        b".*" => Piece::Any { greedy: true },
        b".?" => Piece::Any { greedy: false },
        b"HELO" => Piece::OneOf(&[b"HELO", b"EHLO"]),
        b"SMTP" => Piece::OneOf(&[b"ESMTP", b"SMTP"]),
        b"local" => Piece::Localhost,
        b"d" => Piece::Digits,
        b"b" => Piece::Boundary,
        b"$" => Piece::End,
        b"i" => Piece::Address { slot: b'i' },
        b"_i" => Piece::Address { slot: b'_' },
        &[slot, b'+'] => Piece::NonSpace { slot, min: 1 },
        &[slot, b'*'] => Piece::NonSpace { slot, min: 0 },
        &[slot, b')', b'+'] => Piece::NotParen { slot, min: 1 },
        &[slot, b')', b'*'] => Piece::NotParen { slot, min: 0 },
        _ => Piece::OneOf(&[]),
    }
}

/// The continuation of an optional part: the pieces after it, and their continuation.
type Then<'p> = Option<&'p Rest<'p>>;

struct Rest<'p> {
    pieces: &'p [Piece],
    then: Then<'p>,
}

/// Matches `pieces`, then what follows them, at `at`.
fn run(pieces: &[Piece], then: Then<'_>, line: &[u8], at: usize, kept: &mut Kept) -> bool {
    let Some((first, rest)) = pieces.split_first() else {
        return then.is_none_or(|next| run(next.pieces, next.then, line, at, kept));
    };
    if kept.steps == 0 {
        return false;
    }
    kept.steps -= 1;
    let text = &line[at..];
    let mut next = |end: usize| run(rest, then, line, end, kept);
    match first {
        Piece::Literal(literal) => text.starts_with(&literal.text) && next(at + literal.text.len()),
        Piece::NonSpace { slot, min } => {
            let most = text.iter().take_while(|&&b| !is_space(b)).count();
            longest(*slot, at, *min..most + 1, (rest, then), line, kept)
        }
        Piece::NotParen { slot, min } => {
            let most = memchr::memchr(b')', text).unwrap_or(text.len());
            longest(*slot, at, *min..most + 1, (rest, then), line, kept)
        }
        Piece::Digits => {
            let most = text.iter().take_while(|b| b.is_ascii_digit()).count();
            longest(b'_', at, 1..most + 1, (rest, then), line, kept)
        }
        Piece::Any { greedy: true } => {
            longest(b'_', at, 0..text.len() + 1, (rest, then), line, kept)
        }
        Piece::Any { greedy: false } => (at..=line.len()).any(next),
        Piece::Address { slot } => match ip::address_at(line, at) {
            Some(end) if next(end) => {
                kept.keep(*slot, at..end);
                true
            }
            _ => false,
        },
        Piece::OneOf(words) => words.iter().any(|w| text.starts_with(w) && next(at + w.len())),
        Piece::Localhost => ip::localhost_at(line, at).into_iter().any(next),
        Piece::Boundary => {
            let before = at > 0 && is_word(line[at - 1]);
            before != text.first().is_some_and(|&b| is_word(b)) && next(at)
        }
        Piece::End => text.is_empty() && next(at),
        Piece::Optional(inner) => {
            let after = Rest { pieces: rest, then };
            run(inner, Some(&after), line, at, kept) || run(rest, then, line, at, kept)
        }
    }
}

/// Tries lengths from the longest down; the continuation decides. A literal that comes next is
/// searched first.
fn longest(
    slot: u8,
    at: usize,
    lengths: Range<usize>,
    (rest, then): (&[Piece], Then<'_>),
    line: &[u8],
    kept: &mut Kept,
) -> bool {
    let mut end = lengths.end;
    while end > lengths.start && kept.steps > 0 {
        let mut length = end - 1;
        if let Some(Piece::Literal(literal)) = rest.first() {
            let window = at + lengths.start..(at + length + literal.text.len()).min(line.len());
            let found = line.get(window).and_then(|text| literal.last_in(text));
            let Some(found) = found else { return false };
            length = lengths.start + found;
        }
        if run(rest, then, line, at + length, kept) {
            kept.keep(slot, at..at + length);
            return true;
        }
        end = length;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(pattern: &str, line: &str) -> Option<String> {
        let mut kept = Kept::new();
        let line = line.as_bytes();
        let pairs = Pairs::of(line);
        if !Pattern::new(pattern).matches(&Line::new(line, &pairs), &mut kept) {
            return None;
        }
        let slots = (b'a'..=b'z').filter_map(|s| Some((s, kept.text(s, line)?)));
        let texts =
            slots.map(|(s, t)| format!("{}={} ", char::from(s), String::from_utf8_lossy(t)));
        Some(texts.collect())
    }

    #[test]
    fn the_last_place_of_a_text() {
        for (text, word, place) in [
            ("a) by b) by c", ") by ", Some(7)),
            ("a) by", ") by ", None),
            ("((", "(", Some(1)),
            ("", " (", None),
            (" ( (", " (", Some(2)),
        ] {
            assert_eq!(Literal::new(word.into()).last_in(text.as_bytes()), place, "{text} {word}");
        }
    }

    #[test]
    fn words_addresses_and_backtracking() {
        let found = kept("{h+} ({r+} [{i}]{.*}) by {b+} (", "a (b [1.2.3.4]) (x) by c (d)");
        assert_eq!(found.as_deref(), Some("b=c h=a i=1.2.3.4 r=b "));
        assert_eq!(kept("{h+} ({t*}@{i})", "a (@1.2.3.4)").as_deref(), Some("h=a i=1.2.3.4 t= "));
        assert_eq!(kept("({?[?}{i}{?]?}) by", "([1.2.3.4]) by").as_deref(), Some("i=1.2.3.4 "));
        assert_eq!(kept("({?[?}{i}{?]?}) by", "(1.2.3.4) by").as_deref(), Some("i=1.2.3.4 "));
        assert_eq!(kept("{h+}({i}", "nodns(1.2.3.4)").as_deref(), Some("h=nodns i=1.2.3.4 "));
        assert_eq!(kept("{h+}{b}", "abc..").as_deref(), Some("h=abc "));
        assert_eq!(kept("{h+}{$}", "ab c"), None);
    }
}
