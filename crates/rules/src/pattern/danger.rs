//! Patterns on which a backtracking engine may take very long.

use super::syntax::{Greed, Node};

/// Why matching may take exponential or high polynomial time in a backtracking engine: a repetition
/// inside a repetition whose pieces overlap. `None` if nothing like it is seen.
pub(crate) fn backtracking_danger(node: &Node) -> Option<&'static str> {
    let mut danger = None;
    node.walk(&mut |n| {
        let Node::Repeat { node: inner, max: None, greed, .. } = n else { return };
        if *greed == Greed::Possessive {
            return;
        }
        inner.walk(&mut |m| {
            if let Node::Repeat { max: None, greed, node: once, .. } = m
                && *greed != Greed::Possessive
                && is_only_repeat(inner, once)
            {
                danger = Some("a repetition is repeated, as in (a+)+");
            }
        });
        if let Node::Alternate(branches) = strip(inner)
            && overlapping(branches)
        {
            danger = danger.or(Some("a repeated choice has branches that overlap, as in (a|aa)+"));
        }
    });
    danger
}

/// Whether the outer repetition has nothing mandatory besides the inner one.
fn is_only_repeat(outer: &Node, once: &Node) -> bool {
    outer.min_len() <= once.min_len()
}

fn strip(node: &Node) -> &Node {
    match node {
        Node::Group { node, .. } => strip(node),
        _ => node,
    }
}

/// Whether one branch is a prefix of another.
fn overlapping(branches: &[Node]) -> bool {
    let word = |node: &Node| -> Option<Vec<u8>> {
        match node {
            Node::Set(set) => set.single().map(|b| vec![b]),
            Node::Concat(nodes) => nodes
                .iter()
                .map(|n| if let Node::Set(set) = n { set.single() } else { None })
                .collect(),
            _ => None,
        }
    };
    let words: Vec<Vec<u8>> = branches.iter().filter_map(word).collect();
    words.iter().enumerate().any(|(i, a)| {
        words.iter().enumerate().any(|(j, b)| i != j && !a.is_empty() && b.starts_with(a))
    })
}
