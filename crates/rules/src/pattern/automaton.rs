//! Translates a [`Node`] for the `regex` engines, for patterns whose matches they find exactly.

use regex_automata::meta;
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, Hir, Look, Repetition};

use super::syntax::{Anchor, ByteSet, Greed, Node};

/// The pattern for the `regex` engines; `None` if they cannot match it exactly (look-around,
/// references, atomic groups, `$` before a final newline in the middle of a pattern).
///
/// With `relaxed`, atomic groups and possessive repetitions are taken as plain ones: the pattern
/// then matches wherever it should, and in rare cases where backtracking makes a difference also
/// elsewhere. That is for patterns too large for PCRE2.
pub(crate) fn hir(node: &Node, relaxed: bool) -> Option<Hir> {
    Converter { relaxed }.convert(node, true, false)
}

/// Largest automaton of one pattern, in bytes.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// Lazy DFA states cached for one pattern and thread, in bytes. On thousands of real messages the
/// largest of the stock rules fill 4 to 6 MB; with less room, states are built over and over.
const CACHE_BYTES: usize = 8 * 1024 * 1024;

/// The engines for a pattern; `None` if it is too large.
pub(super) fn regex(hir: &Hir) -> Option<meta::Regex> {
    let config = meta::Config::new()
        .utf8_empty(false)
        .nfa_size_limit(Some(BYTES_MAX))
        .hybrid_cache_capacity(CACHE_BYTES);
    meta::Builder::new().configure(config).build_from_hir(hir).ok()
}

struct Converter {
    relaxed: bool,
}

impl Converter {
    /// `last`: nothing that has width follows. `more`: something that has width certainly follows.
    fn convert(&self, node: &Node, last: bool, more: bool) -> Option<Hir> {
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
                // Their `$` with `/m` also matches after a newline that ends the text.
                Anchor::LineStart if more => Hir::look(Look::StartLF),
                // The newline is consumed too, which is harmless because nothing follows.
                Anchor::End if last => {
                    let newline = Hir::literal([b'\n']);
                    Hir::concat(vec![
                        repeat(newline, 0, Some(1), Greed::Greedy),
                        Hir::look(Look::End),
                    ])
                }
                Anchor::LineStart | Anchor::End => return None,
            },
            Node::Concat(nodes) => {
                let mut parts = Vec::with_capacity(nodes.len());
                for (i, node) in nodes.iter().enumerate() {
                    let after = &nodes[i + 1..];
                    let is_last = last && after.is_empty();
                    let has_more = more || after.iter().any(|n| n.min_len() > 0);
                    parts.push(self.convert(node, is_last, has_more)?);
                }
                Hir::concat(parts)
            }
            Node::Alternate(nodes) => {
                let parts: Option<Vec<Hir>> =
                    nodes.iter().map(|n| self.convert(n, last, more)).collect();
                Hir::alternation(parts?)
            }
            Node::Repeat { node, min, max, greed } => {
                if *greed == Greed::Possessive && !self.relaxed {
                    return None;
                }
                let once = *max == Some(1);
                repeat(self.convert(node, last && once, more)?, *min, *max, *greed)
            }
            Node::Group { node, .. } => self.convert(node, last, more)?,
            Node::Atomic(node) if self.relaxed => self.convert(node, last, more)?,
            Node::Atomic(_)
            | Node::Around { .. }
            | Node::Backreference { .. }
            | Node::Template { .. } => {
                return None;
            }
        })
    }
}

fn repeat(sub: Hir, min: u32, max: Option<u32>, greed: Greed) -> Hir {
    Hir::repetition(Repetition { min, max, greedy: greed == Greed::Greedy, sub: Box::new(sub) })
}

fn class(set: &ByteSet) -> Hir {
    let ranges = set.ranges().into_iter().map(|(low, high)| ClassBytesRange::new(low, high));
    Hir::class(Class::Bytes(ClassBytes::new(ranges)))
}
