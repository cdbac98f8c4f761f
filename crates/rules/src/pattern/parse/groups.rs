//! What begins with `(`: groups, assertions, flags, verbs.

use super::{Flags, ParseError, Parser, invalid};
use crate::pattern::syntax::Node;

/// Perl's verbs after `(*`.
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

impl Parser<'_> {
    /// What follows a `(`.
    pub(super) fn group(
        &mut self,
        flags: &mut Flags,
        depth: u32,
    ) -> Result<Option<Node>, ParseError> {
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

    /// `(*NAME...`: verbs are left to PCRE2, except `(*FAIL)`, which is another form of `(?!)`.
    pub(super) fn verb(&mut self) -> Result<Option<Node>, ParseError> {
        if self.take(b"*FAIL)") || self.take(b"*F)") {
            let node = Box::new(Node::Concat(Vec::new()));
            return Ok(Some(Node::Around { ahead: true, negated: true, node }));
        }
        let rest = self.text.get(self.at + 1..).unwrap_or_default();
        let end = rest.iter().position(|b| !(b.is_ascii_alphabetic() || *b == b'_'));
        let name = &rest[..end.unwrap_or(rest.len())];
        if VERBS.contains(&name) || (name.is_empty() && rest.first() == Some(&b':')) {
            return Err(ParseError::PcreOnly);
        }
        invalid(format!("(*{} is no verb", String::from_utf8_lossy(name)))
    }

    pub(super) fn captured(
        &mut self,
        name: Option<String>,
        captures: bool,
        flags: &Flags,
        depth: u32,
    ) -> Result<Node, ParseError> {
        let index = self.groups + 1;
        self.groups += u32::from(captures);
        if let Some(name) = &name {
            self.names.push((name.clone(), index));
        }
        let node = self.alternatives(&mut flags.clone(), depth + 1)?;
        self.close()?;
        Ok(if captures { Node::Group { node: Box::new(node), index, name } } else { node })
    }

    /// A group's name up to `end`, which is consumed too.
    pub(super) fn name(&mut self, end: u8) -> Result<String, ParseError> {
        let rest = &self.text[self.at..];
        let Some(length) = memchr::memchr(end, rest) else {
            return invalid("a name is not closed");
        };
        let name = &rest[..length];
        let first = name.first().is_some_and(|b| *b == b'_' || b.is_ascii_alphabetic());
        if !first || !name.iter().all(|b| *b == b'_' || b.is_ascii_alphanumeric()) {
            return invalid("a group's name has invalid characters");
        }
        self.at += length + 1;
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    pub(super) fn named_reference(&self, name: &str, flags: &Flags) -> Result<Node, ParseError> {
        match self.names.iter().find(|(n, _)| n == name) {
            Some((_, index)) => Ok(Node::Backreference { index: *index, caseless: flags.caseless }),
            None => invalid(format!("no group is called {name:?}")),
        }
    }

    /// `(?i)`, `(?i:...)`, `(?^x-i:...)`, `(?:...)`.
    pub(super) fn flag_group(
        &mut self,
        flags: &mut Flags,
        depth: u32,
    ) -> Result<Option<Node>, ParseError> {
        let mut inner = *flags;
        let mut on = true;
        loop {
            let Some(byte) = self.peek() else { return invalid("a ( without its )") };
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
                // Every pattern has the flag /aa; for bytes the other character set flags do not
                // change it.
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
                    return Err(ParseError::PcreOnly);
                }
                _ => return invalid(format!("(?{} is no group", char::from(byte))),
            }
        }
    }
}
