//! From a [`Node`] to the `regex` engines, for patterns whose matches they find exactly.

use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, Look, Repetition};

use super::syntax::{Anchor, ByteSet, Greed, Node};

/// The pattern as the `regex` engines read it; none if they cannot match it exactly (look-around,
/// references, atomic groups, `$` before a final newline in the middle of a pattern).
pub(crate) fn hir(node: &Node) -> Option<Hir> {
    convert(node, true, false)
}

/// `last`: nothing that has width follows. `more`: something that has width certainly follows.
fn convert(node: &Node, last: bool, more: bool) -> Option<Hir> {
    Some(match node {
        Node::Set(set) => match set.single() {
            Some(byte) => Hir::literal([byte]),
            None => class(set),
        },
        Node::Anchor(anchor) => match anchor {
            Anchor::Start => Hir::look(Look::Start),
            Anchor::AbsoluteEnd => Hir::look(Look::End),
            Anchor::LineEnd => Hir::look(Look::EndLF),
            Anchor::Word => Hir::look(Look::WordAscii),
            Anchor::NotWord => Hir::look(Look::WordAsciiNegate),
            // Theirs also matches after a newline that ends the text.
            Anchor::LineStart if more => Hir::look(Look::StartLF),
            // The newline is matched too; that nothing follows makes it harmless.
            Anchor::End if last => {
                let newline = Hir::literal([b'\n']);
                Hir::concat(vec![repeat(newline, 0, Some(1), Greed::Greedy), Hir::look(Look::End)])
            }
            Anchor::LineStart | Anchor::End => return None,
        },
        Node::Concat(nodes) => {
            let mut parts = Vec::with_capacity(nodes.len());
            for (i, node) in nodes.iter().enumerate() {
                let after = &nodes[i + 1..];
                let is_last = last && after.is_empty();
                let has_more = more || after.iter().any(|n| n.min_len() > 0);
                parts.push(convert(node, is_last, has_more)?);
            }
            Hir::concat(parts)
        }
        Node::Alternate(nodes) => {
            let parts: Option<Vec<Hir>> = nodes.iter().map(|n| convert(n, last, more)).collect();
            Hir::alternation(parts?)
        }
        Node::Repeat { node, min, max, greed } => {
            if *greed == Greed::Possessive {
                return None;
            }
            let once = *max == Some(1);
            repeat(convert(node, last && once, more)?, *min, *max, *greed)
        }
        Node::Group { node, .. } => convert(node, last, more)?,
        Node::Atomic(_) | Node::Around { .. } | Node::Backreference { .. } | Node::Template(_) => {
            return None;
        }
    })
}

fn repeat(sub: Hir, min: u32, max: Option<u32>, greed: Greed) -> Hir {
    Hir::repetition(Repetition { min, max, greedy: greed == Greed::Greedy, sub: Box::new(sub) })
}

fn class(set: &ByteSet) -> Hir {
    let ranges = set.ranges().into_iter().map(|(low, high)| ClassBytesRange::new(low, high));
    Hir::class(Class::Bytes(ClassBytes::new(ranges)))
}
