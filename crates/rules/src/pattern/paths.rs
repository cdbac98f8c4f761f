//! The first bytes of every match of a pattern, as rows of byte sets.
//!
//! What a pattern looks at without taking it is left out, and so is what follows the first bytes: a
//! match begins with one of the rows, but not every row begins a match.

use super::syntax::{Anchor, ByteSet, Node};
use crate::hash::HashMap;

/// Most rows of one pattern.
const PATHS_MAX: usize = 384;

/// Sets of the first bytes of a match. A short one says nothing of the bytes after it, nor whether there are any.
pub(super) type Path = Vec<ByteSet>;

/// Where a match can begin, apart from its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lead {
    /// At the start of the text only.
    Text,
    /// At the start of a line.
    Line,
    Anywhere,
}

/// Where matches of the node can begin.
pub(super) fn lead(node: &Node) -> Lead {
    match node {
        Node::Anchor(Anchor::Start) => Lead::Text,
        Node::Anchor(Anchor::LineStart) => Lead::Line,
        Node::Group { node, .. } | Node::Atomic(node) => lead(node),
        Node::Repeat { node, min, .. } if *min > 0 => lead(node),
        Node::Concat(nodes) => {
            // What has no width stands at the place where the match begins.
            let wide = nodes.iter().position(|node| node.max_len() != Some(0));
            let first = &nodes[..wide.map_or(nodes.len(), |at| at + 1)];
            first.iter().map(lead).find(|lead| *lead != Lead::Anywhere).unwrap_or(Lead::Anywhere)
        }
        Node::Alternate(nodes) => {
            let leads: Vec<Lead> = nodes.iter().map(lead).collect();
            if leads.contains(&Lead::Anywhere) {
                Lead::Anywhere
            } else if leads.iter().all(|l| *l == Lead::Text) {
                Lead::Text
            } else {
                Lead::Line
            }
        }
        _ => Lead::Anywhere,
    }
}

/// The rows of first bytes, each of at most `length`; none if there are too many.
pub(super) fn paths(node: &Node, length: usize) -> Option<Vec<Path>> {
    let mut walk = Walk { length, done: Vec::new() };
    let ends = walk.extend(vec![Vec::new()], node)?;
    walk.done.extend(ends);
    merge(walk.done)
}

struct Walk {
    length: usize,
    /// Rows that are full, or that nothing is known of beyond.
    done: Vec<Path>,
}

impl Walk {
    /// What the rows are behind this node.
    fn extend(&mut self, mut paths: Vec<Path>, node: &Node) -> Option<Vec<Path>> {
        match node {
            Node::Set(set) => {
                if set.len() == 0 {
                    return Some(Vec::new());
                }
                paths.iter_mut().for_each(|path| path.push(*set));
                self.keep(paths)
            }
            Node::Anchor(_) | Node::Around { .. } => Some(paths),
            Node::Concat(nodes) => {
                for node in nodes {
                    if paths.is_empty() {
                        break;
                    }
                    paths = self.extend(paths, node)?;
                }
                Some(paths)
            }
            Node::Alternate(nodes) => {
                let mut all = Vec::new();
                for node in nodes {
                    all.extend(self.extend(paths.clone(), node)?);
                }
                self.keep(all)
            }
            Node::Repeat { node, min, max, .. } => self.repeat(paths, node, *min, *max),
            Node::Group { node, .. } | Node::Atomic(node) => self.extend(paths, node),
            Node::Backreference { .. } | Node::Template { .. } => {
                self.done.extend(paths);
                Some(Vec::new())
            }
        }
    }

    fn repeat(
        &mut self,
        mut paths: Vec<Path>,
        node: &Node,
        min: u32,
        max: Option<u32>,
    ) -> Option<Vec<Path>> {
        // So many times are enough: each takes a byte, or might as well not have been.
        let enough = u32::try_from(self.length).ok()?;
        for _ in 0..min.min(enough) {
            paths = self.extend(paths, node)?;
        }
        let mut all = paths.clone();
        for _ in 0..max.map_or(enough, |max| max.saturating_sub(min).min(enough)) {
            if paths.is_empty() {
                break;
            }
            paths = self.extend(paths, node)?;
            all.extend(paths.iter().cloned());
        }
        self.keep(all)
    }

    /// Puts rows aside that are full; the rest, each once.
    fn keep(&mut self, paths: Vec<Path>) -> Option<Vec<Path>> {
        let (done, open) = paths.into_iter().partition(|path: &Path| path.len() >= self.length);
        self.done.extend::<Vec<Path>>(done);
        if self.done.len() > PATHS_MAX {
            self.done = merge(std::mem::take(&mut self.done))?;
        }
        merge(open)
    }
}

/// Joins rows that differ in their last set only; none if too many are left.
fn merge(paths: Vec<Path>) -> Option<Vec<Path>> {
    let mut last_sets: HashMap<Path, ByteSet> = HashMap::default();
    let mut out = Vec::new();
    for mut path in paths {
        match path.pop() {
            Some(last) => {
                let set = last_sets.entry(path).or_default();
                *set = set.union(&last);
            }
            None => out = vec![Vec::new()],
        }
    }
    out.extend(last_sets.into_iter().map(|(mut path, last)| {
        path.push(last);
        path
    }));
    out.sort_by_key(|path: &Path| path.iter().map(ByteSet::words).collect::<Vec<_>>());
    (out.len() <= PATHS_MAX).then_some(out)
}

/// How many bytes a match has at its beginning that are no newlines, at least.
pub(super) fn line_bytes(node: &Node) -> usize {
    /// The same, and whether what follows may still be counted.
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

    fn rows(pattern: &str, length: usize) -> Option<Vec<String>> {
        let text = |s: &ByteSet| match s.len() {
            1 => s.iter().map(char::from).collect(),
            n if n > 9 => "*".to_owned(),
            _ => format!("[{}]", s.iter().map(char::from).collect::<String>()),
        };
        let paths = paths(&parse(pattern).expect("valid").node, length)?;
        let mut rows: Vec<String> =
            paths.iter().map(|row| row.iter().map(text).collect()).collect();
        rows.sort();
        Some(rows)
    }

    #[test]
    fn rows_of_patterns() {
        let some = |rows: &[&str]| Some(rows.iter().map(|r| (*r).to_owned()).collect::<Vec<_>>());
        assert_eq!(rows("abcd", 3), some(&["abc"]));
        assert_eq!(rows("\\ba(?:b|cd)?", 3), some(&["a", "ab", "acd"]));
        assert_eq!(rows("a*b", 3), some(&["aa[ab]", "ab", "b"]));
        assert_eq!(rows("(?:a|b)c", 2), some(&["[ab]c"]));
        assert_eq!(rows("(a)\\1b", 3), some(&["a"]));
        assert_eq!(rows("(?=x)(?:ab){2,5}", 6), some(&["abab", "ababab"]));
        assert_eq!(rows("x|[^\\s\\S]", 2), some(&["x"]));
        assert_eq!(rows("", 2), some(&[""]));
        assert_eq!(rows("(?:a?){9}", 2), some(&["", "a", "aa"]));
        assert_eq!(rows(&"(?:a[ab]|b[cd]|d[ac])".repeat(12), 12), None);
    }

    #[test]
    fn where_matches_begin() {
        let lead = |pattern: &str| lead(&parse(pattern).expect("valid").node);
        for (pattern, expected) in [
            ("^a", Lead::Text),
            ("(?m)^a", Lead::Line),
            ("(?=x)^a", Lead::Text),
            ("(?:^a|^b)c", Lead::Text),
            ("(?m)(?:^a|\\Ab)c", Lead::Line),
            ("^a|b", Lead::Anywhere),
            ("a?^b", Lead::Anywhere),
            ("(?:^a)+", Lead::Text),
            ("(?:^a)*b", Lead::Anywhere),
            ("\\bx", Lead::Anywhere),
            ("", Lead::Anywhere),
        ] {
            assert_eq!(lead(pattern), expected, "{pattern}");
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
