//! The first bytes of every match of a pattern, as sequences of byte sets.
//!
//! Look-around is left out, and so is what follows the first bytes: every match begins with one of
//! the prefixes, but not everything that begins with a prefix matches.

use super::syntax::{Anchor, ByteSet, Node};
use crate::hash::HashMap;

/// Most prefixes of one pattern.
const PREFIXES_MAX: usize = 384;

/// Sets of the first bytes of a match. A short prefix says nothing of the bytes after it, nor
/// whether there are any.
pub(super) type Prefix = Vec<ByteSet>;

/// Where a match can begin, whatever its bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchoring {
    /// At the start of the text only.
    Text,
    /// At the start of a line.
    Line,
    Anywhere,
}

/// Where matches of the node can begin.
pub(super) fn anchoring(node: &Node) -> Anchoring {
    match node {
        Node::Anchor(Anchor::Start) => Anchoring::Text,
        Node::Anchor(Anchor::LineStart) => Anchoring::Line,
        Node::Group { node, .. } | Node::Atomic(node) => anchoring(node),
        Node::Repeat { node, min, .. } if *min > 0 => anchoring(node),
        Node::Concat(nodes) => {
            // Nodes without width are at the position where the match begins.
            let wide = nodes.iter().position(|node| node.max_len() != Some(0));
            let first = &nodes[..wide.map_or(nodes.len(), |at| at + 1)];
            first
                .iter()
                .map(anchoring)
                .find(|anchoring| *anchoring != Anchoring::Anywhere)
                .unwrap_or(Anchoring::Anywhere)
        }
        Node::Alternate(nodes) => {
            let anchorings: Vec<Anchoring> = nodes.iter().map(anchoring).collect();
            if anchorings.contains(&Anchoring::Anywhere) {
                Anchoring::Anywhere
            } else if anchorings.iter().all(|l| *l == Anchoring::Text) {
                Anchoring::Text
            } else {
                Anchoring::Line
            }
        }
        _ => Anchoring::Anywhere,
    }
}

/// The prefixes of all matches, each of at most `length` bytes; `None` if there are too many.
pub(super) fn prefixes(node: &Node, length: usize) -> Option<Vec<Prefix>> {
    let mut walk = Walk { length, done: Vec::new() };
    let ends = walk.extend(vec![Vec::new()], node)?;
    walk.done.extend(ends);
    let mut merged = merge(walk.done)?;
    merged.sort_unstable_by(|prefix, other| {
        prefix.iter().map(ByteSet::words).cmp(other.iter().map(ByteSet::words))
    });
    Some(merged)
}

struct Walk {
    length: usize,
    /// Rows that are full, or that nothing is known of beyond.
    done: Vec<Prefix>,
}

impl Walk {
    /// Extends each prefix by what this node may match.
    fn extend(&mut self, mut prefixes: Vec<Prefix>, node: &Node) -> Option<Vec<Prefix>> {
        match node {
            Node::Set(set) => {
                if set.len() == 0 {
                    return Some(Vec::new());
                }
                prefixes.iter_mut().for_each(|prefix| prefix.push(*set));
                self.keep(prefixes)
            }
            Node::Anchor(_) | Node::Around { .. } => Some(prefixes),
            Node::Concat(nodes) => {
                for node in nodes {
                    if prefixes.is_empty() {
                        break;
                    }
                    prefixes = self.extend(prefixes, node)?;
                }
                Some(prefixes)
            }
            Node::Alternate(nodes) => {
                let mut all = Vec::new();
                for node in nodes {
                    all.extend(self.extend(prefixes.clone(), node)?);
                }
                self.keep(all)
            }
            Node::Repeat { node, min, max, .. } => self.repeat(prefixes, node, *min, *max),
            Node::Group { node, .. } | Node::Atomic(node) => self.extend(prefixes, node),
            Node::Backreference { .. } | Node::Template { .. } => {
                self.done.extend(prefixes);
                Some(Vec::new())
            }
        }
    }

    fn repeat(
        &mut self,
        mut prefixes: Vec<Prefix>,
        node: &Node,
        min: u32,
        max: Option<u32>,
    ) -> Option<Vec<Prefix>> {
        // More repetitions cannot matter: each takes at least one byte, or none at all.
        let enough = u32::try_from(self.length).ok()?;
        for _ in 0..min.min(enough) {
            prefixes = self.extend(prefixes, node)?;
        }
        let mut all = prefixes.clone();
        for _ in 0..max.map_or(enough, |max| max.saturating_sub(min).min(enough)) {
            if prefixes.is_empty() {
                break;
            }
            prefixes = self.extend(prefixes, node)?;
            all.extend(prefixes.iter().cloned());
        }
        self.keep(all)
    }

    /// Sets completed prefixes aside; returns the others, each once.
    fn keep(&mut self, prefixes: Vec<Prefix>) -> Option<Vec<Prefix>> {
        let (done, open) =
            prefixes.into_iter().partition(|prefix: &Prefix| prefix.len() >= self.length);
        self.done.extend::<Vec<Prefix>>(done);
        if self.done.len() > PREFIXES_MAX {
            self.done = merge(std::mem::take(&mut self.done))?;
        }
        merge(open)
    }
}

/// Joins prefixes that differ only in their last set, in no order; `None` if too many are left.
fn merge(prefixes: Vec<Prefix>) -> Option<Vec<Prefix>> {
    // Most nodes follow one prefix.
    if prefixes.len() <= 1 {
        return Some(prefixes);
    }
    let mut last_sets: HashMap<Prefix, ByteSet> = HashMap::default();
    last_sets.reserve(prefixes.len());
    let mut out = Vec::new();
    for mut prefix in prefixes {
        match prefix.pop() {
            Some(last) => {
                let set = last_sets.entry(prefix).or_default();
                *set = set.union(&last);
            }
            None => out = vec![Vec::new()],
        }
    }
    out.extend(last_sets.into_iter().map(|(mut prefix, last)| {
        prefix.push(last);
        prefix
    }));
    (out.len() <= PREFIXES_MAX).then_some(out)
}

/// Fewest bytes at the beginning of a match that are no newlines.
pub(super) fn line_bytes(node: &Node) -> usize {
    /// The same, and whether the nodes that follow count too.
    fn count(node: &Node) -> (usize, bool) {
        match node {
            Node::Set(set) if set.contains(b'\n') => (0, false),
            Node::Set(_) => (1, true),
            Node::Anchor(_) | Node::Around { .. } => (0, true),
            Node::Group { node, .. } | Node::Atomic(node) => count(node),
            Node::Concat(nodes) => {
                let mut sum = 0usize;
                for node in nodes {
                    let (bytes, more) = count(node);
                    sum = sum.saturating_add(bytes);
                    if !more {
                        return (sum, false);
                    }
                }
                (sum, true)
            }
            Node::Repeat { node, min, .. } => match count(node) {
                (bytes, true) => (bytes.saturating_mul(*min as usize), true),
                (bytes, false) => (if *min > 0 { bytes } else { 0 }, false),
            },
            Node::Alternate(nodes) => nodes
                .iter()
                .map(count)
                .reduce(|a, b| (a.0.min(b.0), a.1 && b.1))
                .unwrap_or((0, false)),
            Node::Backreference { .. } | Node::Template { .. } => (0, false),
        }
    }
    count(node).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::parse::parse;

    fn text_of(pattern: &str, length: usize) -> Option<Vec<String>> {
        let text = |s: &ByteSet| match s.len() {
            1 => s.iter().map(char::from).collect(),
            n if n > 9 => "*".to_owned(),
            _ => format!("[{}]", s.iter().map(char::from).collect::<String>()),
        };
        let found = prefixes(&parse(pattern).expect("valid").node, length)?;
        let mut prefixes: Vec<String> =
            found.iter().map(|prefix| prefix.iter().map(text).collect()).collect();
        prefixes.sort();
        Some(prefixes)
    }

    #[test]
    fn prefixes_of_patterns() {
        let some =
            |prefixes: &[&str]| Some(prefixes.iter().map(|r| (*r).to_owned()).collect::<Vec<_>>());
        assert_eq!(text_of("abcd", 3), some(&["abc"]));
        assert_eq!(text_of("\\ba(?:b|cd)?", 3), some(&["a", "ab", "acd"]));
        assert_eq!(text_of("a*b", 3), some(&["aa[ab]", "ab", "b"]));
        assert_eq!(text_of("(?:a|b)c", 2), some(&["[ab]c"]));
        assert_eq!(text_of("(a)\\1b", 3), some(&["a"]));
        assert_eq!(text_of("(?=x)(?:ab){2,5}", 6), some(&["abab", "ababab"]));
        assert_eq!(text_of("x|[^\\s\\S]", 2), some(&["x"]));
        assert_eq!(text_of("", 2), some(&[""]));
        assert_eq!(text_of("(?:a?){9}", 2), some(&["", "a", "aa"]));
        assert_eq!(text_of(&"(?:a[ab]|b[cd]|d[ac])".repeat(12), 12), None);
    }

    #[test]
    fn where_matches_begin() {
        let anchoring = |pattern: &str| anchoring(&parse(pattern).expect("valid").node);
        for (pattern, expected) in [
            ("^a", Anchoring::Text),
            ("(?m)^a", Anchoring::Line),
            ("(?=x)^a", Anchoring::Text),
            ("(?:^a|^b)c", Anchoring::Text),
            ("(?m)(?:^a|\\Ab)c", Anchoring::Line),
            ("^a|b", Anchoring::Anywhere),
            ("a?^b", Anchoring::Anywhere),
            ("(?:^a)+", Anchoring::Text),
            ("(?:^a)*b", Anchoring::Anywhere),
            ("\\bx", Anchoring::Anywhere),
            ("", Anchoring::Anywhere),
        ] {
            assert_eq!(anchoring(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn bytes_before_a_line_can_end() {
        let bytes = |pattern: &str| line_bytes(&parse(pattern).expect("valid").node);
        assert_eq!(bytes("(?m)^[^\\r\\n]{998}"), 998);
        assert_eq!(bytes("a.*b\\sc"), 2);
        assert_eq!(bytes("(?:ab|c)d?\\s"), 1);
        assert_eq!(bytes("(?:ab\\s)*c"), 0);
        assert_eq!(bytes("(?:ab\\s)+c"), 2);
        assert_eq!(bytes("\\s"), 0);
    }
}
