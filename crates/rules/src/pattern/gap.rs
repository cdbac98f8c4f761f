//! Patterns that need a string anywhere in a line whose first bytes are of some set: `^[^>].*?<a
//! href=`.
//!
//! A backtracking engine steps through each line byte by byte. Here the string is searched with
//! vector instructions, and then the beginning of its line is checked.

use std::ops::Range;

use super::characters::{self, Alternatives};
use super::starts::Starts;
use super::syntax::{Anchor, ByteSet, Greed, Node};

/// Most bytes of the string.
const STRING_BYTES_MAX: usize = 12;

/// The beginning of a line and a string after it.
#[derive(Debug)]
pub(super) struct Gap {
    /// The first bytes of the line (a newline among them begins the next line).
    head: Vec<ByteSet>,
    /// Search for the first byte of the string, and the alternatives of the string.
    starts: Starts,
    strings: Alternatives,
}

impl Gap {
    /// The matcher of a pattern; `None` if it is of another form.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let Node::Concat(nodes) = node else { return None };
        let [Node::Anchor(Anchor::LineStart), nodes @ ..] = nodes.as_slice() else { return None };
        let set = |node: &Node| if let Node::Set(set) = node { Some(*set) } else { None };
        let head: Vec<ByteSet> = nodes.iter().map_while(set).collect();
        let [gap, string @ ..] = nodes.get(head.len()..)? else { return None };
        let Node::Repeat { node: any, min: 0, max: None, greed: Greed::Lazy } = gap else {
            return None;
        };
        if set(any)? != ByteSet::of(b'\n').negate() {
            return None;
        }
        let string = Node::Concat(string.to_vec());
        let strings = characters::alternatives(&string, STRING_BYTES_MAX)?;
        // If one string is a prefix of another, the first alternative wins in Perl, not the
        // shortest.
        let length = strings.first().map(Vec::len).filter(|length| *length > 0)?;
        if strings.iter().any(|string| string.len() != length) {
            return None;
        }
        Some(Gap { head, starts: Starts::of(&string)?, strings })
    }

    /// The leftmost match at or after `from`.
    pub(super) fn find(&self, text: &[u8], from: usize) -> Option<Range<usize>> {
        // Start of the line of the string that was found last.
        let mut line = None;
        let mut done = from;
        self.starts.find(text, from + self.head.len(), |at| {
            let end = self.end_of_string(text, at)?;
            // There may be a newline after the string that was found last.
            let between = text.get(done..at).unwrap_or_default();
            if let Some(newline) = memchr::memrchr(b'\n', between) {
                line = Some(done + newline + 1);
            }
            done = at;
            let start = *line.get_or_insert_with(|| line_start(text, from));
            let first = start.saturating_sub(self.head.len()).max(from);
            let found = (first..=start).find(|begin| self.fits(text, *begin, at))?;
            Some(found..end)
        })
    }

    /// Whether the line at `line` begins as required and the string at `at` comes after that.
    fn fits(&self, text: &[u8], begin: usize, at: usize) -> bool {
        let is_line = begin.checked_sub(1).is_none_or(|before| text.get(before) == Some(&b'\n'));
        let head = text.get(begin..at).and_then(|bytes| bytes.get(..self.head.len()));
        is_line && head.is_some_and(|head| self.head.iter().zip(head).all(|(s, b)| s.contains(*b)))
    }

    /// End of the string that begins here.
    fn end_of_string(&self, text: &[u8], at: usize) -> Option<usize> {
        let rest = text.get(at..)?;
        let is_here = |string: &&Vec<ByteSet>| {
            string.len() <= rest.len() && string.iter().zip(rest).all(|(set, b)| set.contains(*b))
        };
        Some(at + self.strings.iter().find(is_here)?.len())
    }
}

/// Start of the line of this byte.
fn line_start(text: &[u8], at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Pattern;

    #[test]
    fn matches_are_those_of_an_engine() {
        let patterns = [
            "(?im)^[^>].*?<a b=",
            "(?m)^[^>].*?<(?:a b|A B)=",
            "(?m)^.*?ab",
            "(?m)^[^>][^<].*?aa",
            "(?m)^\\n.*?a",
        ];
        let mut seed = 5u32;
        let mut found = 0;
        for pattern in patterns.map(|pattern| Pattern::new(pattern).expect("valid")) {
            let gap = pattern.node().and_then(Gap::of).expect("it is one");
            for length in 0..300 {
                let mut next = || {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let pieces: [&[u8]; 8] =
                        [b"\n", b">", b"<a b=", b"<A B=", b"aa", b"b", b"x", b"\n\n"];
                    pieces[(seed >> 16) as usize % 8]
                };
                let text: Vec<u8> = (0..length % 40).flat_map(|_| next().to_vec()).collect();
                for from in 0..=text.len() {
                    let expected = pattern.find_unanchored(&text, from, None);
                    assert_eq!(Ok(gap.find(&text, from)), expected, "{pattern:?} {text:?} {from}");
                    found += usize::from(expected != Ok(None));
                }
            }
        }
        assert!(found > 10_000, "{found}");
    }

    #[test]
    fn other_patterns_are_left_to_the_engines() {
        let others =
            ["^a.*?b", "(?m)^a.*b", "(?m)^a.+?b", "(?m)^a[^x]*?b", "(?m)^a.*?b+", "(?m)^a.*?"];
        for pattern in others.into_iter().chain(["(?m)^a.*?(?:b|bc)", "(?m)a.*?b", "(?s)(?m)^.*?a"])
        {
            assert!(Pattern::new(pattern).expect("valid").node().and_then(Gap::of).is_none());
        }
    }
}
