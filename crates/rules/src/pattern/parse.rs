//! Parser of Perl's pattern syntax, which makes a [`Node`].

mod classes;
mod escapes;
mod groups;
mod sets;

use super::syntax::{Anchor, ByteSet, Greed, Node};

/// Deepest nesting of groups.
const DEPTH_MAX: u32 = 200;
/// Largest repeat count, Perl's own.
const REPEAT_MAX: u32 = 65_534;
/// Longest pattern, in bytes.
pub(crate) const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// Why a pattern was not parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ParseError {
    /// Not valid in Perl either.
    Invalid(String),
    /// Valid, but only PCRE2 supports it (recursion, conditionals, verbs).
    PcreOnly,
}

fn invalid<T>(message: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError::Invalid(message.into()))
}

/// A pattern's syntax tree, and the names of its groups.
#[derive(Debug, Clone)]
pub(crate) struct Parsed {
    pub(crate) node: Node,
    /// Names of groups, with their index.
    pub(crate) names: Vec<(String, u32)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Flags {
    /// `(?u)`: bytes above 127 are the characters of Latin-1 in classes and at word boundaries.
    latin: bool,
    caseless: bool,
    lines: bool,
    dot_all: bool,
    spaced: bool,
    spaced_sets: bool,
    no_captures: bool,
}

/// Parses a pattern without delimiters; it must be ASCII.
pub(crate) fn parse(pattern: &str) -> Result<Parsed, ParseError> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return invalid(format!("over {PATTERN_BYTES_MAX} bytes"));
    }
    if !pattern.is_ascii() {
        return invalid("a byte above 127 must be written as \\xHH");
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
        return invalid("a ) without its (");
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

struct Parser<'p> {
    text: &'p [u8],
    at: usize,
    groups: u32,
    total_groups: u32,
    names: Vec<(String, u32)>,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, bytes: &[u8]) -> bool {
        let found = self.text[self.at..].starts_with(bytes);
        self.at += if found { bytes.len() } else { 0 };
        found
    }

    /// Alternatives up to `)` or the end.
    fn alternatives(&mut self, flags: &mut Flags, depth: u32) -> Result<Node, ParseError> {
        if depth > DEPTH_MAX {
            return invalid(format!("groups nested deeper than {DEPTH_MAX}"));
        }
        let mut branches = Vec::new();
        loop {
            let branch = self.sequence(flags, depth)?;
            // Alternatives of single bytes are one set.
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

    fn sequence(&mut self, flags: &mut Flags, depth: u32) -> Result<Node, ParseError> {
        let mut nodes = Vec::new();
        // Position where a `{` that begins no count may be unescaped.
        let mut brace_at = self.at;
        loop {
            self.skip_space(flags);
            match self.peek() {
                None | Some(b'|' | b')') => break,
                Some(b'{') if self.at != brace_at && self.counts(self.at).is_none() => {
                    return invalid("a { that begins no count must be written as \\{");
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

    /// One atom; `None` for a flag setting such as `(?i)`.
    fn atom(&mut self, flags: &mut Flags, depth: u32) -> Result<Option<Node>, ParseError> {
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
            b'*' | b'+' | b'?' => return invalid("a quantifier follows nothing"),
            b'{' if self.counts(self.at - 1).is_some() => {
                return invalid("a quantifier follows nothing");
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

    fn quantified(&mut self, node: Node, flags: &Flags) -> Result<Node, ParseError> {
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
            return invalid(format!("a repeat count is over {REPEAT_MAX}"));
        }
        self.at += length;
        if max.is_some_and(|m| m < min) {
            return invalid("a repeat count runs from more to less");
        }
        if max == Some(min) && length > 1 && self.peek() == Some(b'?') {
            return invalid("a ? after an exact count does nothing");
        }
        if max.is_none() && !has_width(&node) {
            return invalid("it repeats what matches nothing");
        }
        let greed = if self.take(b"?") {
            Greed::Lazy
        } else if self.take(b"+") {
            Greed::Possessive
        } else {
            Greed::Greedy
        };
        if matches!(self.peek(), Some(b'*' | b'+' | b'?')) {
            return invalid("a quantifier follows a quantifier");
        }
        Ok(Node::Repeat { node: Box::new(node), min, max, greed })
    }

    fn close(&mut self) -> Result<(), ParseError> {
        if self.take(b")") { Ok(()) } else { invalid("a ( without its )") }
    }
}

/// Whether a match may have bytes as far as Perl's parser sees, for its warning about repetitions
/// of nothing: every branch must have something with a width.
fn has_width(node: &Node) -> bool {
    match node {
        Node::Set(_) | Node::Backreference { .. } | Node::Template { .. } => true,
        // Perl counts `(?!)` as having a width.
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

fn literal(byte: u8, flags: &Flags) -> Node {
    let set = ByteSet::of(byte);
    Node::Set(if flags.caseless { set.fold_case() } else { set })
}
