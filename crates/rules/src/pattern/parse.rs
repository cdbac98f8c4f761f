//! Reading Perl's pattern syntax into a [`Node`].

use super::property;
use super::sets::class_escape;
use super::syntax::{Anchor, ByteSet, Greed, Node};

/// Deepest nesting of groups.
const DEPTH_MAX: u32 = 200;
/// Largest repeat count, Perl's own.
const REPEAT_MAX: u32 = 65_534;
/// What Perl knows after `(*`.
const VERBS: [&[u8]; 21] = [
    b"ACCEPT",
    b"COMMIT",
    b"F",
    b"FAIL",
    b"MARK",
    b"PRUNE",
    b"SKIP",
    b"THEN",
    b"asr",
    b"atomic",
    b"atomic_script_run",
    b"negative_lookahead",
    b"negative_lookbehind",
    b"nla",
    b"nlb",
    b"pla",
    b"plb",
    b"positive_lookahead",
    b"positive_lookbehind",
    b"script_run",
    b"sr",
];
/// Longest pattern, in bytes.
pub(crate) const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// Why a pattern was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Perl would refuse it too.
    Wrong(String),
    /// Valid, but only PCRE2 knows it (recursion, conditionals, verbs).
    Foreign,
}

pub(super) fn wrong<T>(message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Wrong(message.into()))
}

/// A pattern that was read.
#[derive(Debug, Clone)]
pub(crate) struct Parsed {
    pub(crate) node: Node,
    /// Names of groups, with their index.
    pub(crate) names: Vec<(String, u32)>,
}

/// The place that this letter stands for behind a backslash.
fn anchor_escape(byte: u8) -> Option<Anchor> {
    match byte {
        b'A' => Some(Anchor::Start),
        b'Z' => Some(Anchor::End),
        b'z' => Some(Anchor::AbsoluteEnd),
        b'b' => Some(Anchor::Word),
        b'B' => Some(Anchor::NotWord),
        _ => None,
    }
}

/// A place where a word of these bytes begins or ends, or with `is_edge` false one where none does.
fn word_edge(word: ByteSet, is_edge: bool) -> Node {
    let look = |ahead, negated| {
        let node = Box::new(Node::Set(word));
        Node::Around { ahead, negated, node }
    };
    let side = |after: bool| Node::Concat(vec![look(false, !after), look(true, after == is_edge)]);
    Node::Alternate(vec![side(true), side(false)])
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flags {
    /// `(?u)`: bytes above 127 are the characters of Latin-1 in classes and at word boundaries.
    pub(super) latin: bool,
    pub(super) caseless: bool,
    lines: bool,
    dot_all: bool,
    spaced: bool,
    pub(super) spaced_sets: bool,
    no_captures: bool,
}

/// Reads a pattern that stands without delimiters; it must be ASCII.
pub(crate) fn parse(pattern: &str) -> Result<Parsed, Refusal> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return wrong(format!("over {PATTERN_BYTES_MAX} bytes"));
    }
    if !pattern.is_ascii() {
        return wrong("a byte above 127 must be written as \\xHH");
    }
    let mut parser = Parser {
        text: pattern.as_bytes(),
        at: 0,
        groups: 0,
        total_groups: count_groups(pattern.as_bytes()),
        names: Vec::new(),
    };
    let node = parser.alternatives(&mut Flags::default(), 0)?;
    if parser.at < parser.text.len() {
        return wrong("a ) without its (");
    }
    Ok(Parsed { node, names: parser.names })
}

/// Capturing groups in the whole pattern, roughly: decides whether `\12` is a group or an octal.
fn count_groups(text: &[u8]) -> u32 {
    let mut count = 0;
    let mut at = 0;
    let mut in_set = false;
    while let Some(&b) = text.get(at) {
        match b {
            b'\\' => at += 1,
            b'[' if !in_set => {
                in_set = true;
                at += usize::from(text.get(at + 1) == Some(&b'^'));
                at += usize::from(text.get(at + 1) == Some(&b']'));
            }
            b']' => in_set = false,
            b'(' if !in_set => {
                let next = (text.get(at + 1), text.get(at + 2), text.get(at + 3));
                let named = matches!(next, (Some(b'?'), Some(b'<' | b'\''), Some(c)) if !b"=!".contains(c))
                    || matches!(next, (Some(b'?'), Some(b'P'), Some(b'<')));
                count += u32::from(next.0 != Some(&b'?') || named);
            }
            _ => {}
        }
        at += 1;
    }
    count
}

pub(super) struct Parser<'p> {
    pub(super) text: &'p [u8],
    pub(super) at: usize,
    groups: u32,
    total_groups: u32,
    names: Vec<(String, u32)>,
}

impl Parser<'_> {
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn take(&mut self, bytes: &[u8]) -> bool {
        let found = self.text[self.at..].starts_with(bytes);
        self.at += if found { bytes.len() } else { 0 };
        found
    }

    /// Alternatives up to `)` or the end.
    fn alternatives(&mut self, flags: &mut Flags, depth: u32) -> Result<Node, Refusal> {
        if depth > DEPTH_MAX {
            return wrong(format!("groups nested deeper than {DEPTH_MAX}"));
        }
        let mut branches = Vec::new();
        loop {
            let branch = self.sequence(flags, depth)?;
            // Single bytes side by side are one set.
            match (branches.last_mut(), branch) {
                (Some(Node::Set(set)), Node::Set(more)) => *set = set.union(&more),
                (_, branch) => branches.push(branch),
            }
            if !self.take(b"|") {
                break;
            }
        }
        let one = if branches.len() == 1 { branches.pop() } else { None };
        Ok(one.unwrap_or(Node::Alternate(branches)))
    }

    fn sequence(&mut self, flags: &mut Flags, depth: u32) -> Result<Node, Refusal> {
        let mut nodes = Vec::new();
        // Where a `{` that begins no count may stand unescaped.
        let mut brace_at = self.at;
        loop {
            self.skip_space(flags);
            match self.peek() {
                None | Some(b'|' | b')') => break,
                Some(b'{') if self.at != brace_at && self.counts(self.at).is_none() => {
                    return wrong("a { that begins no count must be written as \\{");
                }
                Some(_) => {}
            }
            let is_start = self.peek() == Some(b'^');
            let Some(node) = self.atom(flags, depth)? else { continue };
            let after_atom = self.at;
            nodes.push(self.quantified(node, flags)?);
            brace_at = if is_start || self.at > after_atom { self.at } else { usize::MAX };
        }
        let one = if nodes.len() == 1 { nodes.pop() } else { None };
        Ok(one.unwrap_or(Node::Concat(nodes)))
    }

    /// Skips white space and comments where `/x` allows them, and `(?#...)`.
    fn skip_space(&mut self, flags: &Flags) {
        loop {
            if self.text[self.at..].starts_with(b"(?#") {
                let end = memchr::memchr(b')', &self.text[self.at..]);
                self.at = end.map_or(self.text.len(), |e| self.at + e + 1);
                continue;
            }
            match self.peek() {
                Some(b' ' | b'\t'..=b'\r') if flags.spaced => self.at += 1,
                Some(b'#') if flags.spaced => {
                    let end = memchr::memchr(b'\n', &self.text[self.at..]);
                    self.at = end.map_or(self.text.len(), |e| self.at + e + 1);
                }
                _ => return,
            }
        }
    }

    /// One atom; none for a flag setting such as `(?i)`.
    fn atom(&mut self, flags: &mut Flags, depth: u32) -> Result<Option<Node>, Refusal> {
        let Some(byte) = self.peek() else { return Ok(None) };
        self.at += 1;
        let node = match byte {
            b'(' => return self.group(flags, depth),
            b'[' => Node::Set(self.set(flags)?),
            b'.' if flags.dot_all => Node::Set(ByteSet::default().negate()),
            b'.' => Node::Set(ByteSet::of(b'\n').negate()),
            b'^' if flags.lines => Node::Anchor(Anchor::LineStart),
            b'^' => Node::Anchor(Anchor::Start),
            b'$' if flags.lines => Node::Anchor(Anchor::LineEnd),
            b'$' => Node::Anchor(Anchor::End),
            b'\\' => self.escape(flags)?,
            b'*' | b'+' | b'?' => return wrong("a quantifier follows nothing"),
            b'{' if self.counts(self.at - 1).is_some() => {
                return wrong("a quantifier follows nothing");
            }
            b'%' => match self.template() {
                Some(tag) => Node::Template { tag, caseless: flags.caseless },
                None => literal(byte, flags),
            },
            _ => literal(byte, flags),
        };
        Ok(Some(node))
    }

    /// `{NAME}` after a `%`: letters, digits and `_`, perhaps with `(arguments)`.
    fn template(&mut self) -> Option<String> {
        let rest = self.text[self.at..].strip_prefix(b"{")?;
        let end = memchr::memchr(b'}', rest)?;
        let name = &rest[..end];
        let head = name.split(|b| *b == b'(').next()?;
        let word = |w: &[u8]| {
            !w.is_empty() && w.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
        };
        let named = head.split(|b| *b == b'_').all(word) && head.first()?.is_ascii_uppercase();
        let tail = &name[head.len()..];
        let whole =
            tail.is_empty() || (tail.ends_with(b")") && !tail[..tail.len() - 1].contains(&b')'));
        if !named || !whole {
            return None;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        self.at += end + 2;
        Some(name)
    }

    /// The quantifier counts at `at`, and their length: `{2}`, `{2,}`, `{,2}`, `{2,3}`.
    fn counts(&self, at: usize) -> Option<(u32, Option<u32>, usize)> {
        let rest = self.text.get(at..)?.strip_prefix(b"{")?;
        let end = memchr::memchr(b'}', rest)?;
        let inner = std::str::from_utf8(&rest[..end]).ok()?;
        let (low, high) = match inner.split_once(',') {
            Some((low, high)) => (low.trim(), Some(high.trim())),
            None => (inner.trim(), None),
        };
        let number = |text: &str| -> Option<u32> {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            if digits { text.parse().ok() } else { None }
        };
        let (min, max) = match (low, high) {
            ("", None | Some("")) => return None,
            ("", Some(high)) => (0, Some(number(high)?)),
            (low, None) => (number(low)?, Some(number(low)?)),
            (low, Some("")) => (number(low)?, None),
            (low, Some(high)) => (number(low)?, Some(number(high)?)),
        };
        Some((min, max, end + 2))
    }

    fn quantified(&mut self, node: Node, flags: &Flags) -> Result<Node, Refusal> {
        self.skip_space(flags);
        let (min, max, length) = match self.peek() {
            Some(b'*') => (0, None, 1),
            Some(b'+') => (1, None, 1),
            Some(b'?') => (0, Some(1), 1),
            Some(b'{') => match self.counts(self.at) {
                Some(counts) => counts,
                None => return Ok(node),
            },
            _ => return Ok(node),
        };
        if min > REPEAT_MAX || max.is_some_and(|m| m > REPEAT_MAX) {
            return wrong(format!("a repeat count is over {REPEAT_MAX}"));
        }
        self.at += length;
        if max.is_some_and(|m| m < min) {
            return wrong("a repeat count runs from more to less");
        }
        if max == Some(min) && length > 1 && self.peek() == Some(b'?') {
            return wrong("a ? after an exact count does nothing");
        }
        if max.is_none() && !has_width(&node) {
            return wrong("it repeats what matches nothing");
        }
        let greed = if self.take(b"?") {
            Greed::Lazy
        } else if self.take(b"+") {
            Greed::Possessive
        } else {
            Greed::Greedy
        };
        if matches!(self.peek(), Some(b'*' | b'+' | b'?')) {
            return wrong("a quantifier follows a quantifier");
        }
        Ok(Node::Repeat { node: Box::new(node), min, max, greed })
    }

    fn close(&mut self) -> Result<(), Refusal> {
        if self.take(b")") { Ok(()) } else { wrong("a ( without its )") }
    }

    /// What follows a `(`.
    fn group(&mut self, flags: &mut Flags, depth: u32) -> Result<Option<Node>, Refusal> {
        if self.peek() == Some(b'*') {
            return self.verb();
        }
        if !self.take(b"?") {
            let captures = !flags.no_captures;
            return self.captured(None, captures, flags, depth).map(Some);
        }
        for (opening, ahead, negated) in [
            (b"=".as_slice(), true, false),
            (b"!", true, true),
            (b"<=", false, false),
            (b"<!", false, true),
        ] {
            if self.take(opening) {
                let node = Box::new(self.alternatives(&mut flags.clone(), depth + 1)?);
                self.close()?;
                return Ok(Some(Node::Around { ahead, negated, node }));
            }
        }
        if self.take(b">") {
            let node = self.alternatives(&mut flags.clone(), depth + 1)?;
            self.close()?;
            return Ok(Some(Node::Atomic(Box::new(node))));
        }
        if self.take(b"P=") {
            let name = self.name(b')')?;
            return self.named_reference(&name, flags).map(Some);
        }
        if self.take(b"P<") || self.take(b"<") {
            let name = self.name(b'>')?;
            return self.captured(Some(name), true, flags, depth).map(Some);
        }
        if self.take(b"'") {
            let name = self.name(b'\'')?;
            return self.captured(Some(name), true, flags, depth).map(Some);
        }
        self.flag_group(flags, depth)
    }

    /// `(*NAME...`: what Perl knows is left to PCRE2, but for `(*FAIL)`, which is another way to write
    /// `(?!)`.
    fn verb(&mut self) -> Result<Option<Node>, Refusal> {
        if self.take(b"*FAIL)") || self.take(b"*F)") {
            let node = Box::new(Node::Concat(Vec::new()));
            return Ok(Some(Node::Around { ahead: true, negated: true, node }));
        }
        let rest = self.text.get(self.at + 1..).unwrap_or_default();
        let end = rest.iter().position(|b| !(b.is_ascii_alphabetic() || *b == b'_'));
        let name = &rest[..end.unwrap_or(rest.len())];
        if VERBS.contains(&name) || (name.is_empty() && rest.first() == Some(&b':')) {
            return Err(Refusal::Foreign);
        }
        wrong(format!("(*{} is no verb", String::from_utf8_lossy(name)))
    }

    fn captured(
        &mut self,
        name: Option<String>,
        captures: bool,
        flags: &Flags,
        depth: u32,
    ) -> Result<Node, Refusal> {
        let index = self.groups + 1;
        self.groups += u32::from(captures);
        if let Some(name) = &name {
            self.names.push((name.clone(), index));
        }
        let node = self.alternatives(&mut flags.clone(), depth + 1)?;
        self.close()?;
        Ok(if captures { Node::Group { node: Box::new(node), index, name } } else { node })
    }

    /// A group's name up to `end`, which is taken too.
    fn name(&mut self, end: u8) -> Result<String, Refusal> {
        let rest = &self.text[self.at..];
        let Some(length) = memchr::memchr(end, rest) else { return wrong("a name is not closed") };
        let name = &rest[..length];
        let first = name.first().is_some_and(|b| *b == b'_' || b.is_ascii_alphabetic());
        if !first || !name.iter().all(|b| *b == b'_' || b.is_ascii_alphanumeric()) {
            return wrong("a group's name has odd characters");
        }
        self.at += length + 1;
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    fn named_reference(&self, name: &str, flags: &Flags) -> Result<Node, Refusal> {
        match self.names.iter().find(|(n, _)| n == name) {
            Some((_, index)) => Ok(Node::Backreference { index: *index, caseless: flags.caseless }),
            None => wrong(format!("no group is called {name:?}")),
        }
    }

    /// `(?i)`, `(?i:...)`, `(?^x-i:...)`, `(?:...)`.
    fn flag_group(&mut self, flags: &mut Flags, depth: u32) -> Result<Option<Node>, Refusal> {
        let mut inner = *flags;
        let mut on = true;
        loop {
            let Some(byte) = self.peek() else { return wrong("a ( without its )") };
            self.at += 1;
            match byte {
                b'^' => inner = Flags::default(),
                b'-' => on = false,
                b'i' => inner.caseless = on,
                b'm' => inner.lines = on,
                b's' => inner.dot_all = on,
                b'x' => {
                    inner.spaced_sets = on && self.text.get(self.at - 2) == Some(&b'x');
                    inner.spaced = on;
                }
                b'n' => inner.no_captures = on,
                // Every pattern is read as /aa, which all others leave as it is for bytes.
                b'u' => inner.latin = true,
                b'a' | b'd' => inner.latin = false,
                b'l' | b'p' => {}
                b')' => {
                    *flags = inner;
                    return Ok(None);
                }
                b':' => {
                    let node = self.alternatives(&mut inner, depth + 1)?;
                    self.close()?;
                    return Ok(Some(node));
                }
                b'|' | b'(' | b'R' | b'&' | b'P' | b'+' | b'0'..=b'9' => {
                    return Err(Refusal::Foreign);
                }
                _ => return wrong(format!("(?{} is no group", char::from(byte))),
            }
        }
    }

    /// What follows a backslash, outside of a set.
    fn escape(&mut self, flags: &Flags) -> Result<Node, Refusal> {
        let Some(byte) = self.peek() else { return wrong("it ends in a backslash") };
        if let Some(set) = class_escape(byte, flags.latin) {
            self.at += 1;
            return Ok(Node::Set(set));
        }
        if let Some(anchor) = anchor_escape(byte) {
            self.at += 1;
            return self.anchor(anchor, flags);
        }
        match byte {
            b'1'..=b'9' => self.backreference_or_octal(flags),
            b'R' => {
                self.at += 1;
                let pair = [b'\r', b'\n'].map(|b| Node::Set(ByteSet::of(b)));
                Ok(pair_or(pair.to_vec(), ByteSet::from_bytes([b'\n', 0x0b, 0x0c, b'\r', 0x85])))
            }
            b'k' => {
                self.at += 1;
                let end = match self.peek() {
                    Some(b'<') => b'>',
                    Some(b'{') => b'}',
                    Some(b'\'') => b'\'',
                    _ => return wrong("\\k needs a name"),
                };
                self.at += 1;
                let name = self.name(end)?;
                self.named_reference(&name, flags)
            }
            b'g' => {
                self.at += 1;
                self.group_reference(flags)
            }
            b'N' if self.text.get(self.at + 1) != Some(&b'{') => {
                self.at += 1;
                Ok(Node::Set(ByteSet::of(b'\n').negate()))
            }
            b'p' | b'P' => Ok(Node::Set(self.property(flags)?)),
            b'N' => {
                let byte = self.code_point()?;
                Ok(byte.map_or(Node::Set(ByteSet::default()), |b| literal(b, flags)))
            }
            b'X' => {
                self.at += 1;
                let pair = [b'\r', b'\n'].map(|b| Node::Set(ByteSet::of(b)));
                Ok(pair_or(pair.to_vec(), ByteSet::ALL))
            }
            b'K' | b'G' => Err(Refusal::Foreign),
            b'C' => wrong("\\C is no longer Perl"),
            _ => {
                let byte = self.byte_escape()?;
                Ok(byte.map_or(Node::Set(ByteSet::default()), |b| literal(b, flags)))
            }
        }
    }

    /// What stands for a place; braces behind it are Perl's finer kinds of boundaries.
    fn anchor(&self, anchor: Anchor, flags: &Flags) -> Result<Node, Refusal> {
        let is_word = matches!(anchor, Anchor::Word | Anchor::NotWord);
        if is_word && self.peek() == Some(b'{') {
            return Err(Refusal::Foreign);
        }
        match class_escape(b'w', true) {
            Some(word) if is_word && flags.latin => Ok(word_edge(word, anchor == Anchor::Word)),
            _ => Ok(Node::Anchor(anchor)),
        }
    }

    /// `\p{Name}`, `\pL` and their negations: bytes stand for the characters U+0000 to U+00FF.
    pub(super) fn property(&mut self, flags: &Flags) -> Result<ByteSet, Refusal> {
        let negated = self.peek() == Some(b'P');
        let rest = self.text.get(self.at + 1..).unwrap_or_default();
        let (name, length) = match rest.strip_prefix(b"{") {
            Some(inner) => match memchr::memchr(b'}', inner) {
                Some(end) => (&inner[..end], end + 2),
                None => return wrong("a { after \\p is not closed"),
            },
            None => (rest.get(..1).unwrap_or_default(), 1),
        };
        let text = String::from_utf8_lossy(name);
        let (flipped, text) = match text.trim().strip_prefix('^') {
            Some(text) => (true, text),
            None => (false, text.trim()),
        };
        let Some(set) = property::of_name(text) else {
            return wrong(format!("no property is called {text:?}"));
        };
        self.at += 1 + length;
        let set = if flags.caseless { set.fold_case() } else { set };
        Ok(if negated == flipped { set } else { set.negate() })
    }

    /// `\N{U+41}`: the byte, none if no byte is that character.
    pub(super) fn code_point(&mut self) -> Result<Option<u8>, Refusal> {
        let rest = self.text.get(self.at + 1..).unwrap_or_default();
        let inner = rest.strip_prefix(b"{U+").and_then(|inner| {
            let end = memchr::memchr(b'}', inner)?;
            Some((std::str::from_utf8(&inner[..end]).ok()?, end))
        });
        let Some((digits, end)) = inner else {
            return wrong("\\N{ is followed by U+ and a number");
        };
        let Ok(value) = u32::from_str_radix(digits, 16) else {
            return wrong(format!("{digits:?} is no number"));
        };
        self.at += 1 + 3 + end + 1;
        Ok(u8::try_from(value).ok())
    }

    /// `\1`, `\g1`, `\g{-1}`.
    fn group_reference(&mut self, flags: &Flags) -> Result<Node, Refusal> {
        let braced = self.take(b"{");
        let back = self.take(b"-");
        let digits = self.text[self.at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let text = std::str::from_utf8(&self.text[self.at..self.at + digits]).unwrap_or_default();
        let Ok(number) = text.parse::<u32>() else {
            if braced && !back {
                let name = self.name(b'}')?;
                return self.named_reference(&name, flags);
            }
            return wrong("\\g needs a number or a name");
        };
        self.at += digits;
        if braced && !self.take(b"}") {
            return wrong("\\g{ is not closed");
        }
        let index = if back { (self.groups + 1).saturating_sub(number) } else { number };
        if index == 0 || index > self.total_groups {
            return wrong("it refers to a group that does not exist");
        }
        Ok(Node::Backreference { index, caseless: flags.caseless })
    }

    fn backreference_or_octal(&mut self, flags: &Flags) -> Result<Node, Refusal> {
        let digits = self.text[self.at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let text = std::str::from_utf8(&self.text[self.at..self.at + digits]).unwrap_or_default();
        let number: u32 = text.parse().unwrap_or(u32::MAX);
        if number <= self.total_groups {
            self.at += digits;
            return Ok(Node::Backreference { index: number, caseless: flags.caseless });
        }
        if digits == 1 {
            return wrong(format!("it refers to group {number}, which does not exist"));
        }
        let byte = self.octal();
        Ok(byte.map_or(Node::Set(ByteSet::default()), |b| literal(b, flags)))
    }

    /// Up to three octal digits; none if the value is over a byte.
    pub(super) fn octal(&mut self) -> Option<u8> {
        let mut value = 0u32;
        for _ in 0..3 {
            match self.peek() {
                Some(b @ b'0'..=b'7') => {
                    value = value * 8 + u32::from(b - b'0');
                    self.at += 1;
                }
                _ => break,
            }
        }
        u8::try_from(value).ok()
    }

    /// An escape that stands for one byte; none if it is a character above U+00FF, which no byte is.
    pub(super) fn byte_escape(&mut self) -> Result<Option<u8>, Refusal> {
        let Some(byte) = self.peek() else { return wrong("it ends in a backslash") };
        self.at += 1;
        Ok(Some(match byte {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'f' => 0x0c,
            b'e' => 0x1b,
            b'a' => 0x07,
            b'0' => {
                self.at -= 1;
                return Ok(self.octal());
            }
            b'o' => return self.braced(8),
            b'x' if self.peek() == Some(b'{') => return self.braced(16),
            b'x' => {
                let (mut value, mut digits) = (0u8, 0);
                for _ in 0..2 {
                    let digit = self.peek().and_then(|b| char::from(b).to_digit(16));
                    let Some(digit) = digit else { break };
                    value = value << 4 | digit as u8;
                    self.at += 1;
                    digits += 1;
                }
                if digits < 2 {
                    return wrong("\\x needs two digits");
                }
                value
            }
            b'c' => {
                let Some(letter) = self.peek() else { return wrong("\\c needs a letter") };
                self.at += 1;
                letter.to_ascii_uppercase() ^ 0x40
            }
            _ if byte.is_ascii_alphanumeric() => {
                return wrong(format!("\\{} means nothing", char::from(byte)));
            }
            other => other,
        }))
    }

    /// `{digits}` in this base.
    fn braced(&mut self, base: u32) -> Result<Option<u8>, Refusal> {
        let rest = &self.text[self.at..];
        let end = memchr::memchr(b'}', rest).filter(|_| rest.first() == Some(&b'{'));
        let Some(end) = end else { return wrong("a { after \\x or \\o is not closed") };
        let text = String::from_utf8_lossy(&rest[1..end]).replace('_', "");
        self.at += end + 1;
        let value =
            if text.trim().is_empty() { Ok(0) } else { u32::from_str_radix(text.trim(), base) };
        match value {
            Ok(value) => Ok(u8::try_from(value).ok()),
            Err(_) => wrong(format!("{text:?} is no number")),
        }
    }
}

/// Whether a match may have bytes as far as Perl's reader sees, for its warning about repetitions of
/// nothing: every branch must have something that may.
fn has_width(node: &Node) -> bool {
    match node {
        Node::Set(_) | Node::Backreference { .. } | Node::Template { .. } => true,
        // Perl takes `(?!)` for something.
        Node::Around { ahead: true, negated: true, node } if is_empty(node) => true,
        Node::Anchor(_) | Node::Around { .. } => false,
        Node::Concat(nodes) => nodes.iter().any(has_width),
        Node::Alternate(nodes) => nodes.iter().all(has_width),
        Node::Repeat { node, max, .. } => *max != Some(0) && has_width(node),
        Node::Group { node, .. } | Node::Atomic(node) => has_width(node),
    }
}

fn is_empty(node: &Node) -> bool {
    matches!(node, Node::Concat(nodes) if nodes.is_empty())
}

/// The pair, else one of the set, and no going back.
fn pair_or(pair: Vec<Node>, set: ByteSet) -> Node {
    Node::Atomic(Box::new(Node::Alternate(vec![Node::Concat(pair), Node::Set(set)])))
}

fn literal(byte: u8, flags: &Flags) -> Node {
    let set = ByteSet::of(byte);
    Node::Set(if flags.caseless { set.fold_case() } else { set })
}
