//! Escapes: classes, anchors, references, single bytes.

use super::classes::class_escape;
use super::{Flags, ParseError, Parser, invalid, literal};
use crate::pattern::property;
use crate::pattern::syntax::{Anchor, ByteSet, Node};

impl Parser<'_> {
    /// What follows a backslash, outside of a set.
    pub(super) fn escape(&mut self, flags: &Flags) -> Result<Node, ParseError> {
        let Some(byte) = self.peek() else { return invalid("it ends in a backslash") };
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
                    _ => return invalid("\\k needs a name"),
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
            b'K' | b'G' => Err(ParseError::PcreOnly),
            b'C' => invalid("\\C is no longer Perl"),
            _ => {
                let byte = self.byte_escape()?;
                Ok(byte.map_or(Node::Set(ByteSet::default()), |b| literal(b, flags)))
            }
        }
    }

    /// An anchor; braces after it are Perl's other kinds of word boundaries.
    pub(super) fn anchor(&self, anchor: Anchor, flags: &Flags) -> Result<Node, ParseError> {
        let is_word = matches!(anchor, Anchor::Word | Anchor::NotWord);
        if is_word && self.peek() == Some(b'{') {
            return Err(ParseError::PcreOnly);
        }
        match class_escape(b'w', true) {
            Some(word) if is_word && flags.latin => Ok(word_edge(word, anchor == Anchor::Word)),
            _ => Ok(Node::Anchor(anchor)),
        }
    }

    /// `\p{Name}`, `\pL` and their negations: bytes stand for the characters U+0000 to U+00FF.
    pub(super) fn property(&mut self, flags: &Flags) -> Result<ByteSet, ParseError> {
        let negated = self.peek() == Some(b'P');
        let rest = self.text.get(self.at + 1..).unwrap_or_default();
        let (name, length) = match rest.strip_prefix(b"{") {
            Some(inner) => match memchr::memchr(b'}', inner) {
                Some(end) => (&inner[..end], end + 2),
                None => return invalid("a { after \\p is not closed"),
            },
            None => (rest.get(..1).unwrap_or_default(), 1),
        };
        let text = String::from_utf8_lossy(name);
        let (flipped, text) = match text.trim().strip_prefix('^') {
            Some(text) => (true, text),
            None => (false, text.trim()),
        };
        let Some(set) = property::of_name(text) else {
            return invalid(format!("no property is called {text:?}"));
        };
        self.at += 1 + length;
        let set = if flags.caseless { set.fold_case() } else { set };
        Ok(if negated == flipped { set } else { set.negate() })
    }

    /// `\N{U+41}`: the byte, `None` if no byte is that character.
    pub(super) fn code_point(&mut self) -> Result<Option<u8>, ParseError> {
        let rest = self.text.get(self.at + 1..).unwrap_or_default();
        let inner = rest.strip_prefix(b"{U+").and_then(|inner| {
            let end = memchr::memchr(b'}', inner)?;
            Some((std::str::from_utf8(&inner[..end]).ok()?, end))
        });
        let Some((digits, end)) = inner else {
            return invalid("\\N{ is followed by U+ and a number");
        };
        let Ok(value) = u32::from_str_radix(digits, 16) else {
            return invalid(format!("{digits:?} is no number"));
        };
        self.at += 1 + 3 + end + 1;
        Ok(u8::try_from(value).ok())
    }

    /// A back reference: `\1`, `\g1`, `\g{-1}`.
    pub(super) fn group_reference(&mut self, flags: &Flags) -> Result<Node, ParseError> {
        let braced = self.take(b"{");
        let back = self.take(b"-");
        let digits = self.text[self.at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let text = std::str::from_utf8(&self.text[self.at..self.at + digits]).unwrap_or_default();
        let Ok(number) = text.parse::<u32>() else {
            if braced && !back {
                let name = self.name(b'}')?;
                return self.named_reference(&name, flags);
            }
            return invalid("\\g needs a number or a name");
        };
        self.at += digits;
        if braced && !self.take(b"}") {
            return invalid("\\g{ is not closed");
        }
        let index = if back { (self.groups + 1).saturating_sub(number) } else { number };
        if index == 0 || index > self.total_groups {
            return invalid("it refers to a group that does not exist");
        }
        Ok(Node::Backreference { index, caseless: flags.caseless })
    }

    pub(super) fn backreference_or_octal(&mut self, flags: &Flags) -> Result<Node, ParseError> {
        let digits = self.text[self.at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let text = std::str::from_utf8(&self.text[self.at..self.at + digits]).unwrap_or_default();
        let number: u32 = text.parse().unwrap_or(u32::MAX);
        if number <= self.total_groups {
            self.at += digits;
            return Ok(Node::Backreference { index: number, caseless: flags.caseless });
        }
        if digits == 1 {
            return invalid(format!("it refers to group {number}, which does not exist"));
        }
        let byte = self.octal();
        Ok(byte.map_or(Node::Set(ByteSet::default()), |b| literal(b, flags)))
    }

    /// Up to three octal digits; `None` if the value is over a byte.
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

    /// An escape for one byte; `None` if it is a character above U+00FF, which no byte is.
    pub(super) fn byte_escape(&mut self) -> Result<Option<u8>, ParseError> {
        let Some(byte) = self.peek() else { return invalid("it ends in a backslash") };
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
                    return invalid("\\x needs two digits");
                }
                value
            }
            b'c' => {
                let Some(letter) = self.peek() else { return invalid("\\c needs a letter") };
                self.at += 1;
                letter.to_ascii_uppercase() ^ 0x40
            }
            _ if byte.is_ascii_alphanumeric() => {
                return invalid(format!("\\{} means nothing", char::from(byte)));
            }
            other => other,
        }))
    }

    /// `{digits}` in this base.
    pub(super) fn braced(&mut self, base: u32) -> Result<Option<u8>, ParseError> {
        let rest = &self.text[self.at..];
        let end = memchr::memchr(b'}', rest).filter(|_| rest.first() == Some(&b'{'));
        let Some(end) = end else { return invalid("a { after \\x or \\o is not closed") };
        let text = String::from_utf8_lossy(&rest[1..end]).replace('_', "");
        self.at += end + 1;
        let value =
            if text.trim().is_empty() { Ok(0) } else { u32::from_str_radix(text.trim(), base) };
        match value {
            Ok(value) => Ok(u8::try_from(value).ok()),
            Err(_) => invalid(format!("{text:?} is no number")),
        }
    }
}

/// The anchor of this letter after a backslash.
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

/// A boundary of words of these bytes, or with `is_edge` false its negation.
fn word_edge(word: ByteSet, is_edge: bool) -> Node {
    let look = |ahead, negated| {
        let node = Box::new(Node::Set(word));
        Node::Around { ahead, negated, node }
    };
    let side = |after: bool| Node::Concat(vec![look(false, !after), look(true, after == is_edge)]);
    Node::Alternate(vec![side(true), side(false)])
}

/// The pair, else one of the set, without backtracking.
fn pair_or(pair: Vec<Node>, set: ByteSet) -> Node {
    Node::Atomic(Box::new(Node::Alternate(vec![Node::Concat(pair), Node::Set(set)])))
}
