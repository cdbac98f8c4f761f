//! A pattern as a sequence of states that each take one byte of a set, then any bytes of another
//! set (a self-loop).
//!
//! The sequence is looser than the pattern: wherever the pattern matches, its sequence is found,
//! but not the other way round. Optional parts (gaps, options) become bytes of the self-loop of the
//! state before them; alternatives of different lengths become as many states as the shortest has.
//! Ignoring gaps instead accepted too much: "so many" contains "soma" then. The sequences of
//! hundreds of patterns are searched at once, see [`crate::matcher`].

use super::frequency::BYTE_FREQUENCIES;
use super::syntax::{Anchor, ByteSet, Node};

/// Most states of a sequence: one machine word holds it.
pub(crate) const STATES_MAX: usize = 64;
/// Most states that are made of a pattern before its best sequence is chosen.
const FLAT_STATES_MAX: usize = 192;
/// A sequence that is rarer at a byte of ordinary text than this is rare enough.
const FREQUENCY_RARE: f64 = 2e-7;
/// Most bytes in one self-loop that the estimate of a frequency assumes.
const SELF_LOOP_BYTES_MAX: f64 = 200.0;
/// A longer sequence is chosen only if its frequency is below this share of that of a shorter one.
const LONGER_GAIN_MAX: f64 = 0.7;

/// One state of a sequence: a byte of a set, then any bytes of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    /// Bytes that enter it.
    pub(crate) enter: ByteSet,
    /// Bytes that keep it active.
    pub(crate) self_loop: ByteSet,
}

/// A sequence of states that is found wherever the pattern matches.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ByteSequence {
    /// At least one and at most [`STATES_MAX`].
    pub(crate) states: Vec<State>,
    /// Roughly how often it ends at a byte of ordinary text.
    pub(crate) frequency: f64,
}

/// The rarest sequence of the pattern. Texts must be searched with a newline before and after them,
/// which stands for their start and end.
pub(crate) fn rarest_sequence(node: &Node) -> Option<ByteSequence> {
    let states = states(node);
    let frequencies: Vec<(f64, f64)> =
        states.iter().map(|p| (set_frequency(&p.enter), set_frequency(&p.self_loop))).collect();
    let mut best: Option<(f64, std::ops::Range<usize>)> = None;
    for length in 1..=states.len().min(STATES_MAX) {
        let sequences =
            frequencies.windows(length).enumerate().map(|(at, sequence)| (frequency(sequence), at));
        let (frequency, at) = sequences.min_by(|a, b| a.0.total_cmp(&b.0))?;
        // Every state costs memory and time: a longer sequence must be clearly rarer.
        if best.as_ref().is_none_or(|b| frequency < b.0 * LONGER_GAIN_MAX) {
            best = Some((frequency, at..at + length));
        }
        if frequency <= FREQUENCY_RARE {
            break;
        }
    }
    let (frequency, range) = best?;
    Some(ByteSequence { states: states.get(range)?.to_vec(), frequency })
}

/// Roughly how often a sequence ends at a byte of ordinary text, given for each state the
/// frequencies of bytes that enter it and of bytes that keep it active.
fn frequency(sequence: &[(f64, f64)]) -> f64 {
    let mut active = 1.0;
    let mut entered = 1.0;
    for (enter, self_loop) in sequence {
        entered = active * enter;
        active =
            f64::min(entered * (1.0 / (1.0 - self_loop).max(1e-9)).min(SELF_LOOP_BYTES_MAX), 1.0);
    }
    entered
}

/// The frequency of a set of bytes. Letters come in words: after a letter another one is more
/// probable than the frequency of letters says, hence the root.
fn set_frequency(set: &ByteSet) -> f64 {
    let share: f64 = set.sum_of(&BYTE_FREQUENCIES);
    if share > 0.5 { share.sqrt().min(1.0) } else { share }
}

/// All states of the pattern, with one before and one after it where they restrict the adjacent
/// byte.
fn states(node: &Node) -> Vec<State> {
    let items = items(node);
    let first = items.iter().position(|n| n.min_len() > 0);
    let last = items.iter().rposition(|n| n.min_len() > 0);
    let (Some(first), Some(last)) = (first, last) else { return Vec::new() };
    let mut builder = Builder::default();
    items[first..=last].iter().for_each(|item| builder.add(item));
    let Builder { leading, states: mut out } = builder;
    if out.len() >= FLAT_STATES_MAX {
        return out;
    }
    if let Some(end) = out.last() {
        let word = edge_is_word(&end.enter.union(&end.self_loop));
        let after = items[last + 1..].iter().rev();
        let after = after.fold(ByteSet::ALL, |set, item| adjacent(item, set, word, Side::After));
        push_adjacent(after, out.len(), &mut out);
    }
    if let Some(start) = out.first() {
        let word = edge_is_word(&start.enter);
        let before = items[..first].iter();
        let before = before.fold(ByteSet::ALL, |set, item| adjacent(item, set, word, Side::Before));
        push_adjacent(before.union(&leading), 0, &mut out);
    }
    out
}

fn push_adjacent(set: ByteSet, at: usize, out: &mut Vec<State>) {
    if set.len() < 256 {
        out.insert(at, State { enter: set, self_loop: ByteSet::default() });
    }
}

/// The nodes of a concatenation; groups around concatenations are opened.
fn items(node: &Node) -> Vec<&Node> {
    match node {
        Node::Concat(nodes) => nodes.iter().flat_map(items).collect(),
        Node::Group { node, .. } | Node::Atomic(node) => items(node),
        other => vec![other],
    }
}

/// Side of the sequence on which a byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// Whether all bytes at this end of the sequence are word characters, none is, or (`None`) some
/// are.
fn edge_is_word(set: &ByteSet) -> Option<bool> {
    let words = set.intersection(&word_set()).len();
    match words {
        0 => Some(false),
        n if n == set.len() => Some(true),
        _ => None,
    }
}

fn word_set() -> ByteSet {
    ByteSet::from_bytes((0..0x80u8).filter(|b| b.is_ascii_alphanumeric() || *b == b'_'))
}

/// Which bytes may be adjacent to the sequence, given that `set` may be adjacent to this node,
/// which lies between. `word`: see [`edge_is_word`].
fn adjacent(node: &Node, set: ByteSet, word: Option<bool>, side: Side) -> ByteSet {
    let newline = ByteSet::of(b'\n');
    match node {
        Node::Set(own) => *own,
        Node::Anchor(anchor) => match (anchor, side) {
            // Start and end of the text count as a newline, which is no word character.
            (Anchor::Word, _) if word == Some(true) => set.intersection(&word_set().negate()),
            (Anchor::NotWord, _) if word == Some(true) => set.intersection(&word_set()),
            (Anchor::Start | Anchor::LineStart, Side::Before)
            | (Anchor::End | Anchor::AbsoluteEnd | Anchor::LineEnd, Side::After) => {
                set.intersection(&newline)
            }
            _ => set,
        },
        Node::Around { ahead, negated: true, node }
            if *ahead == (side == Side::After)
                && let Node::Set(not) = node.as_ref() =>
        {
            set.intersection(&not.negate().union(&newline))
        }
        Node::Around { .. } => set,
        Node::Backreference { .. } | Node::Template { .. } => ByteSet::ALL,
        Node::Concat(nodes) if side == Side::Before => {
            nodes.iter().fold(set, |set, node| adjacent(node, set, word, side))
        }
        Node::Concat(nodes) => {
            nodes.iter().rev().fold(set, |set, node| adjacent(node, set, word, side))
        }
        Node::Alternate(nodes) => nodes
            .iter()
            .map(|node| adjacent(node, set, word, side))
            .reduce(|a, b| a.union(&b))
            .unwrap_or(set),
        Node::Repeat { node, min: 0, .. } => set.union(&bytes_of(node)),
        Node::Repeat { node, .. } => adjacent(node, set.union(&bytes_of(node)), word, side),
        Node::Group { node, .. } | Node::Atomic(node) => adjacent(node, set, word, side),
    }
}

/// Every byte that a match of the node may hold.
fn bytes_of(node: &Node) -> ByteSet {
    match node {
        Node::Set(set) => *set,
        Node::Anchor(_) | Node::Around { .. } => ByteSet::default(),
        Node::Concat(nodes) | Node::Alternate(nodes) => {
            nodes.iter().fold(ByteSet::default(), |set, node| set.union(&bytes_of(node)))
        }
        Node::Repeat { max: Some(0), .. } => ByteSet::default(),
        Node::Repeat { node, .. } | Node::Group { node, .. } | Node::Atomic(node) => bytes_of(node),
        Node::Backreference { .. } | Node::Template { .. } => ByteSet::ALL,
    }
}

/// Collects the states of a pattern.
#[derive(Debug, Default)]
struct Builder {
    /// Bytes that may precede the first state.
    leading: ByteSet,
    states: Vec<State>,
}

impl Builder {
    /// Adds these bytes to the self-loop of the last state.
    fn absorb(&mut self, bytes: &ByteSet) {
        let set = self.states.last_mut().map_or(&mut self.leading, |last| &mut last.self_loop);
        *set = set.union(bytes);
    }

    fn is_full(&self) -> bool {
        self.states.len() >= FLAT_STATES_MAX
    }

    /// Adds the states of a node.
    fn add(&mut self, node: &Node) {
        if node.min_len() == 0 || self.is_full() {
            return self.absorb(&bytes_of(node));
        }
        match node {
            Node::Set(set) => {
                self.states.push(State { enter: *set, self_loop: ByteSet::default() });
            }
            Node::Concat(nodes) => nodes.iter().for_each(|node| self.add(node)),
            Node::Alternate(nodes) => self.alternate(nodes),
            Node::Repeat { node, min, max, .. } => {
                for _ in 0..*min {
                    if self.is_full() {
                        break;
                    }
                    self.add(node);
                }
                if self.is_full() || *max != Some(*min) {
                    self.absorb(&bytes_of(node));
                }
            }
            Node::Group { node, .. } | Node::Atomic(node) => self.add(node),
            // These have no bytes of their own.
            Node::Anchor(_) | Node::Around { .. } => {}
            Node::Backreference { .. } | Node::Template { .. } => self.absorb(&ByteSet::ALL),
        }
    }

    /// Adds the states that all branches have in common; what is longer goes into the self-loop of
    /// the last of them.
    fn alternate(&mut self, nodes: &[Node]) {
        let mut branches = Vec::with_capacity(nodes.len());
        for node in nodes {
            let mut branch = Builder::default();
            branch.add(node);
            self.absorb(&branch.leading);
            branches.push(branch.states);
        }
        let common = branches.iter().map(Vec::len).min().unwrap_or(0);
        if common == 0 {
            let bytes = nodes.iter().fold(ByteSet::default(), |set, n| set.union(&bytes_of(n)));
            return self.absorb(&bytes);
        }
        let mut merged =
            vec![State { enter: ByteSet::default(), self_loop: ByteSet::default() }; common];
        for states in &branches {
            for (at, state) in states.iter().enumerate() {
                if let Some(same) = merged.get_mut(at) {
                    same.enter = same.enter.union(&state.enter);
                    same.self_loop = same.self_loop.union(&state.self_loop);
                } else if let Some(last) = merged.last_mut() {
                    last.self_loop = last.self_loop.union(&state.enter).union(&state.self_loop);
                }
            }
        }
        self.states.extend(merged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::parse::parse;

    fn sequence(pattern: &str) -> Vec<String> {
        let states = states(&parse(pattern).expect("valid").node);
        let text = |s: &ByteSet| s.iter().map(char::from).collect::<String>();
        states.iter().map(|p| format!("{}|{}", text(&p.enter), text(&p.self_loop))).collect()
    }

    #[test]
    fn gaps_become_self_loops() {
        assert_eq!(sequence("a[-_]?b[.]{0,3}c"), ["a|-_", "b|.", "c|"]);
        assert_eq!(sequence("(?:a|bc)d"), ["ab|c", "d|"]);
        assert_eq!(sequence("a(?:bc|bde)f"), ["a|", "b|", "cd|e", "f|"]);
        assert_eq!(sequence("x(?:[-]?a|b)c"), ["x|-", "ab|", "c|"]);
        assert_eq!(sequence("^ab$"), ["\n|", "a|", "b|", "\n|"]);
        assert_eq!(sequence("a{3,}b"), ["a|", "a|", "a|a", "b|"]);
    }

    #[test]
    fn bytes_adjacent_to_the_sequence() {
        let start = |pattern: &str| states(&parse(pattern).expect("valid").node)[0].enter;
        assert!(!start("\\bsoma").contains(b'x'));
        assert!(start("\\bsoma").contains(b'\n'));
        assert!(!start("(?:\\b|\\s)[^a-z]{0,3}soma").contains(b'x'));
        assert!(start("(?:\\b|\\s)[^a-z]{0,3}soma").contains(b'.'));
        assert!(!start("(?<![-0-9])[1-9]0").contains(b'-'));
        // An option at the start may precede the sequence.
        assert!(start("^(?:x?foo){2}").contains(b'x'));
    }
}
