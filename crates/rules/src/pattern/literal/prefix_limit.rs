//! How much of a match may precede the strings that it must contain.

use super::{analyse, better, concat};
use crate::pattern::frequency::TextKind;
use crate::pattern::syntax::Node;

/// How much of a match may precede the first of its required strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrefixLimit {
    /// At most so many bytes.
    Bytes(u32),
    /// At most so many newlines, among any number of bytes.
    Lines(u32),
    /// There is no bound.
    Unlimited,
}

impl PrefixLimit {
    /// The limit for a pattern and its strings, which are those of [`super::required`].
    pub(crate) fn of(node: &Node, strings: &[Vec<u8>], texts: TextKind) -> Self {
        let bound = |most| limit_of(node, strings, texts, most)?.try_into().ok();
        let lines = || bound(&newlines_max).map(PrefixLimit::Lines);
        bound(&Node::max_len)
            .map(PrefixLimit::Bytes)
            .or_else(lines)
            .unwrap_or(PrefixLimit::Unlimited)
    }

    /// Where the first match in a text may begin whose first required string is at `at`.
    pub(crate) fn start(self, text: &[u8], at: usize) -> usize {
        match self {
            PrefixLimit::Bytes(bytes) => at.saturating_sub(bytes as usize),
            PrefixLimit::Lines(lines) => {
                let before = text.get(..at).unwrap_or_default();
                let newline = memchr::memrchr_iter(b'\n', before).nth(lines as usize);
                newline.map_or(0, |newline| newline + 1)
            }
            PrefixLimit::Unlimited => 0,
        }
    }
}

/// Most newlines that a match has; none if there is no bound.
fn newlines_max(node: &Node) -> Option<usize> {
    match node {
        Node::Set(set) => Some(usize::from(set.contains(b'\n'))),
        Node::Anchor(_) | Node::Around { .. } => Some(0),
        Node::Backreference { .. } | Node::Template { .. } => None,
        Node::Concat(nodes) => {
            nodes.iter().try_fold(0usize, |sum, node| Some(sum.saturating_add(newlines_max(node)?)))
        }
        Node::Alternate(nodes) => {
            nodes.iter().try_fold(0usize, |most, node| Some(most.max(newlines_max(node)?)))
        }
        Node::Repeat { node, max, .. } => match newlines_max(node)? {
            0 => Some(0),
            lines => Some(lines.saturating_mul((*max)? as usize)),
        },
        Node::Group { node, .. } | Node::Atomic(node) => newlines_max(node),
    }
}

/// How much of a match, by this measure, may precede the end of the first of these strings; `None`
/// if there is no limit.
fn limit_of(
    node: &Node,
    strings: &[Vec<u8>],
    texts: TextKind,
    most: &dyn Fn(&Node) -> Option<usize>,
) -> Option<usize> {
    if let Some(all) = most(node) {
        return Some(all);
    }
    let nodes = match node {
        Node::Group { node, .. } | Node::Atomic(node) => {
            return limit_of(node, strings, texts, most);
        }
        Node::Concat(nodes) => nodes,
        _ => return None,
    };
    // The shortest beginning of the concatenation that must contain one of them.
    let bounded = nodes.iter().take_while(|node| most(node).is_some()).count();
    let holds = |length: usize| {
        let parts = nodes.iter().take(length).map(|node| analyse(node, texts));
        let found = concat(parts, texts);
        let mut best = found.best;
        if let Some(exact) = found.exact {
            better(&mut best, exact, texts);
        }
        let has = |string: &Vec<u8>| {
            strings.iter().any(|one| memchr::memmem::find(string, one).is_some())
        };
        best.is_some_and(|best| best.strings.iter().all(has))
    };
    if !holds(bounded) {
        return None;
    }
    let (mut less, mut enough) = (0, bounded);
    while enough - less > 1 {
        let middle = less.midpoint(enough);
        if holds(middle) { enough = middle } else { less = middle }
    }
    let mut beginning = nodes.iter().take(enough);
    beginning.try_fold(0usize, |sum, node| Some(sum.saturating_add(most(node)?)))
}
