//! A pattern as a row of places that each take one byte of a set, then any bytes of another.
//!
//! The row is looser than the pattern: wherever the pattern matches, its row is found, but not the
//! other way round. What may be missing (gaps, options) joins the bytes that the place before it takes
//! on the way; a choice of different lengths becomes as many places as its shortest branch has.
//! [`crate::matcher`] looks for the rows of hundreds of patterns at once.

use super::chance::BYTE_CHANCES;
use super::syntax::{Anchor, ByteSet, Node};

/// Places of a row at most: one machine word holds it.
pub(crate) const PLACES_MAX: usize = 64;
/// Places that are made of a pattern before the best row is chosen.
const FLAT_PLACES_MAX: usize = 192;
/// A row that begins at fewer bytes of ordinary text than this is rare enough.
const CHANCE_ENOUGH: f64 = 2e-7;
/// Longest stay at one place that is reckoned with, in bytes.
const STAY_BYTES: f64 = 200.0;
/// A longer row is taken if it is found at less than this share of what a shorter one finds.
const LONGER_PAYS: f64 = 0.7;

/// One place of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The byte that must come.
    pub(crate) enter: ByteSet,
    /// Bytes that may follow before the next place.
    pub(crate) stay: ByteSet,
}

/// A row of places that is found wherever the pattern matches.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// At least one and at most [`PLACES_MAX`].
    pub(crate) places: Vec<Place>,
    /// Roughly how often it is found at a byte of ordinary text.
    pub(crate) chance: f64,
}

/// The rarest row of the pattern. Texts are to be searched with a newline before and after them, which
/// stands for their start and end.
pub(crate) fn rarest_row(node: &Node) -> Option<Row> {
    let places = places(node);
    let chances: Vec<(f64, f64)> =
        places.iter().map(|p| (set_chance(&p.enter), set_chance(&p.stay))).collect();
    let mut best: Option<(f64, std::ops::Range<usize>)> = None;
    for length in 1..=places.len().min(PLACES_MAX) {
        let rows = chances.windows(length).enumerate().map(|(at, row)| (chance(row), at));
        let (chance, at) = rows.min_by(|a, b| a.0.total_cmp(&b.0))?;
        // A longer row must pay for its places.
        if best.as_ref().is_none_or(|b| chance < b.0 * LONGER_PAYS) {
            best = Some((chance, at..at + length));
        }
        if chance <= CHANCE_ENOUGH {
            break;
        }
    }
    let (chance, range) = best?;
    Some(Row { places: places.get(range)?.to_vec(), chance })
}

/// Roughly how often a row ends at a byte of ordinary text: of each place the shares of text that
/// enter it and that stay.
fn chance(row: &[(f64, f64)]) -> f64 {
    let mut active = 1.0;
    let mut entered = 1.0;
    for (enter, stay) in row {
        entered = active * enter;
        active = f64::min(entered * (1.0 / (1.0 - stay).max(1e-9)).min(STAY_BYTES), 1.0);
    }
    entered
}

/// How likely a byte of text is one of the set. Letters come in words: the next byte after a letter
/// is a letter more often than their share says, hence the root.
fn set_chance(set: &ByteSet) -> f64 {
    let share: f64 = set.sum_of(&BYTE_CHANCES);
    if share > 0.5 { share.sqrt().min(1.0) } else { share }
}

/// All places of the pattern, with those before and after it where they tell something.
fn places(node: &Node) -> Vec<Place> {
    let items = items(node);
    let first = items.iter().position(|n| n.min_len() > 0);
    let last = items.iter().rposition(|n| n.min_len() > 0);
    let (Some(first), Some(last)) = (first, last) else { return Vec::new() };
    let mut flat = Flat::default();
    items[first..=last].iter().for_each(|item| flat.add(item));
    let Flat { lead, places: mut out } = flat;
    if out.len() >= FLAT_PLACES_MAX {
        return out;
    }
    if let Some(end) = out.last() {
        let word = side_words(&end.enter.union(&end.stay));
        let after = items[last + 1..].iter().rev();
        let after = after.fold(ByteSet::ALL, |set, item| beside(item, set, word, Side::After));
        push_beside(after, out.len(), &mut out);
    }
    if let Some(start) = out.first() {
        let word = side_words(&start.enter);
        let before = items[..first].iter();
        let before = before.fold(ByteSet::ALL, |set, item| beside(item, set, word, Side::Before));
        push_beside(before.union(&lead), 0, &mut out);
    }
    out
}

fn push_beside(set: ByteSet, at: usize, out: &mut Vec<Place>) {
    if set.len() < 256 {
        out.insert(at, Place { enter: set, stay: ByteSet::default() });
    }
}

/// The nodes of a sequence; groups around sequences are opened.
fn items(node: &Node) -> Vec<&Node> {
    match node {
        Node::Concat(nodes) => nodes.iter().flat_map(items).collect(),
        Node::Group { node, .. } | Node::Atomic(node) => items(node),
        other => vec![other],
    }
}

/// On which side of the row a byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// Whether all bytes of the row's end are letters, digits or `_`, none is, or some are.
fn side_words(set: &ByteSet) -> Option<bool> {
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

/// Which bytes may stand next to the row, given that `set` may stand next to this node, which lies
/// between. `word`: what the row's end is, see [`side_words`].
fn beside(node: &Node, set: ByteSet, word: Option<bool>, side: Side) -> ByteSet {
    let newline = ByteSet::of(b'\n');
    match node {
        Node::Set(own) => *own,
        Node::Anchor(anchor) => match (anchor, side) {
            // Start and end of the text count as a newline, which is no word.
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
            nodes.iter().fold(set, |set, node| beside(node, set, word, side))
        }
        Node::Concat(nodes) => {
            nodes.iter().rev().fold(set, |set, node| beside(node, set, word, side))
        }
        Node::Alternate(nodes) => nodes
            .iter()
            .map(|node| beside(node, set, word, side))
            .reduce(|a, b| a.union(&b))
            .unwrap_or(set),
        Node::Repeat { node, min: 0, .. } => set.union(&bytes_of(node)),
        Node::Repeat { node, .. } => beside(node, set.union(&bytes_of(node)), word, side),
        Node::Group { node, .. } | Node::Atomic(node) => beside(node, set, word, side),
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

/// Places in the making.
#[derive(Debug, Default)]
struct Flat {
    /// Bytes that may come before the first place.
    lead: ByteSet,
    places: Vec<Place>,
}

impl Flat {
    /// Lets the last place take these bytes on the way.
    fn absorb(&mut self, bytes: &ByteSet) {
        let set = self.places.last_mut().map_or(&mut self.lead, |last| &mut last.stay);
        *set = set.union(bytes);
    }

    fn is_full(&self) -> bool {
        self.places.len() >= FLAT_PLACES_MAX
    }

    /// Adds the places of a node.
    fn add(&mut self, node: &Node) {
        if node.min_len() == 0 || self.is_full() {
            return self.absorb(&bytes_of(node));
        }
        match node {
            Node::Set(set) => {
                self.places.push(Place { enter: *set, stay: ByteSet::default() });
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

    /// Adds the places that all branches have in common; what is longer stays at the last of them.
    fn alternate(&mut self, nodes: &[Node]) {
        let mut branches = Vec::with_capacity(nodes.len());
        for node in nodes {
            let mut branch = Flat::default();
            branch.add(node);
            self.absorb(&branch.lead);
            branches.push(branch.places);
        }
        let common = branches.iter().map(Vec::len).min().unwrap_or(0);
        if common == 0 {
            let bytes = nodes.iter().fold(ByteSet::default(), |set, n| set.union(&bytes_of(n)));
            return self.absorb(&bytes);
        }
        let mut merged =
            vec![Place { enter: ByteSet::default(), stay: ByteSet::default() }; common];
        for places in &branches {
            for (at, place) in places.iter().enumerate() {
                if let Some(same) = merged.get_mut(at) {
                    same.enter = same.enter.union(&place.enter);
                    same.stay = same.stay.union(&place.stay);
                } else if let Some(last) = merged.last_mut() {
                    last.stay = last.stay.union(&place.enter).union(&place.stay);
                }
            }
        }
        self.places.extend(merged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::parse::parse;

    fn row(pattern: &str) -> Vec<String> {
        let places = places(&parse(pattern).expect("valid").node);
        let text = |s: &ByteSet| s.iter().map(char::from).collect::<String>();
        places.iter().map(|p| format!("{}|{}", text(&p.enter), text(&p.stay))).collect()
    }

    #[test]
    fn gaps_are_taken_on_the_way() {
        assert_eq!(row("a[-_]?b[.]{0,3}c"), ["a|-_", "b|.", "c|"]);
        assert_eq!(row("(?:a|bc)d"), ["ab|c", "d|"]);
        assert_eq!(row("a(?:bc|bde)f"), ["a|", "b|", "cd|e", "f|"]);
        assert_eq!(row("x(?:[-]?a|b)c"), ["x|-", "ab|", "c|"]);
        assert_eq!(row("^ab$"), ["\n|", "a|", "b|", "\n|"]);
        assert_eq!(row("a{3,}b"), ["a|", "a|", "a|a", "b|"]);
    }

    #[test]
    fn bytes_beside_the_row() {
        let start = |pattern: &str| places(&parse(pattern).expect("valid").node)[0].enter;
        assert!(!start("\\bsoma").contains(b'x'));
        assert!(start("\\bsoma").contains(b'\n'));
        assert!(!start("(?:\\b|\\s)[^a-z]{0,3}soma").contains(b'x'));
        assert!(start("(?:\\b|\\s)[^a-z]{0,3}soma").contains(b'.'));
        assert!(!start("(?<![-0-9])[1-9]0").contains(b'-'));
        // An option at the start may stand before the row.
        assert!(start("^(?:x?foo){2}").contains(b'x'));
    }
}
