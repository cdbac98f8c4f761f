//! Patterns that match one of a few characters: `e`, `[\x80-\xff]`, `(?:e|\xc3[\xa8-\xab])`. They
//! match often, sometimes hundreds of times in a text, where comparing bytes with vector
//! instructions is quicker than calling an engine for each match.

use std::ops::Range;

use super::syntax::{ByteSet, Node};

/// Most alternatives of a pattern; nested choices multiply.
const CHOICES_MAX: usize = 32;
/// Most bytes of an alternative.
const BYTES_MAX: usize = 4;

/// Alternatives of a few bytes, at least one of which is a single byte.
#[derive(Debug)]
pub(super) struct Characters {
    /// For each byte whether a match may begin with it.
    first: Box<[bool; 256]>,
    /// The byte, if the pattern matches only one.
    single: Option<u8>,
    /// No match begins with an ASCII byte.
    is_high: bool,
    /// The bytes that match in ASCII text, if they are single bytes only.
    ascii: Option<ByteSet>,
    choices: Alternatives,
}

/// Alternatives, each a sequence of byte sets, in the order in which they are tried.
pub(super) type Alternatives = Vec<Vec<ByteSet>>;

/// The alternatives of a pattern without anchors and repetitions, in order; `None` if there are too
/// many or one may have more bytes.
pub(super) fn alternatives(node: &Node, bytes_max: usize) -> Option<Alternatives> {
    match node {
        Node::Set(set) => Some(vec![vec![*set]]),
        Node::Group { node, .. } => alternatives(node, bytes_max),
        Node::Alternate(nodes) => {
            let mut all = Vec::new();
            for node in nodes {
                all.extend(alternatives(node, bytes_max)?);
                if all.len() > CHOICES_MAX {
                    return None;
                }
            }
            Some(all)
        }
        Node::Concat(nodes) => {
            let mut all = vec![Vec::new()];
            for node in nodes {
                let next = alternatives(node, bytes_max)?;
                let is_small = all.len() * next.len() <= CHOICES_MAX
                    && all.iter().all(|way: &Vec<ByteSet>| way.len() < bytes_max);
                if !is_small {
                    return None;
                }
                let with = |way: &Vec<ByteSet>| -> Vec<Vec<ByteSet>> {
                    next.iter().map(|end| [way.as_slice(), end].concat()).collect()
                };
                all = all.iter().flat_map(with).collect();
            }
            Some(all)
        }
        _ => None,
    }
}

impl Characters {
    /// The matcher of a pattern; `None` if it is no choice of characters.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let choices = alternatives(node, BYTES_MAX)?;
        // Patterns that match the empty string are left to the engines.
        if !choices.iter().any(|way| way.len() == 1) || choices.iter().any(Vec::is_empty) {
            return None;
        }
        let begins = choices.iter().filter_map(|way| way.first());
        let begins = begins.fold(ByteSet::default(), |all, set| all.union(set));
        let mut first = Box::new([false; 256]);
        begins.iter().for_each(|byte| first[usize::from(byte)] = true);
        let single = begins.single().filter(|_| choices.len() == 1);
        let ascii = ByteSet::from_bytes(0..0x80);
        let in_ascii = |way: &&Vec<ByteSet>| way.iter().all(|set| set.meets(&ascii));
        let ascii = choices.iter().filter(in_ascii).try_fold(ByteSet::default(), |all, way| {
            let [only] = way.as_slice() else { return None };
            Some(all.union(&only.intersection(&ascii)))
        });
        let is_high = begins.iter().all(|b| !b.is_ascii());
        Some(Characters { first, single, is_high, ascii, choices })
    }

    /// Number of matches from `from` on, at most `most`, and the first of them; `None` if there is
    /// none, or if matches may be longer than a byte and must be found one after the other.
    pub(super) fn count(&self, text: &[u8], from: usize, most: u32) -> Option<(u32, Range<usize>)> {
        let set = self.ascii?;
        let rest = text.get(from..).filter(|_| most > 0)?;
        let count = match (self.single, set.single()) {
            (Some(byte), _) => memchr::memchr_iter(byte, rest).count(),
            _ if !rest.is_ascii() => return None,
            (None, Some(byte)) => memchr::memchr_iter(byte, rest).count(),
            (None, None) => rest.iter().filter(|byte| set.contains(**byte)).count(),
        };
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(most);
        Some((count, self.find(text, from)?))
    }

    /// The leftmost match at or after `from`.
    pub(super) fn find(&self, text: &[u8], from: usize) -> Option<Range<usize>> {
        let rest = text.get(from..)?;
        if let Some(byte) = self.single {
            return memchr::memchr(byte, rest).map(|at| from + at..from + at + 1);
        }
        if self.is_high && rest.is_ascii() {
            return None;
        }
        let mut at = 0;
        loop {
            at += rest.get(at..)?.iter().position(|byte| self.first[usize::from(*byte)])?;
            let here = rest.get(at..)?;
            let fits = |way: &&Vec<ByteSet>| {
                way.len() <= here.len() && way.iter().zip(here).all(|(set, b)| set.contains(*b))
            };
            if let Some(way) = self.choices.iter().find(fits) {
                return Some(from + at..from + at + way.len());
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::parse::parse;
    use crate::pattern::{Pattern, automaton};

    #[test]
    fn letters_are_found_as_an_automaton_finds_them() {
        let patterns =
            ["e", "(?i)e", "[\\x80-\\xff]", "(?:e|\\xc3[\\xa8-\\xab]|ef)", "a|(b|cd)x|d"];
        let texts: [&[u8]; 8] = [
            b"",
            b"eE",
            b"no",
            b"\xc3\xa8 \xc3 \xc3\xac \xff",
            b"efe",
            b"cdx bx dx a",
            b"xb\xe9",
            b"plain ascii text that is longer than one vector of the CPU",
        ];
        let mut counted = 0;
        for pattern in patterns {
            let node = parse(pattern).unwrap().node;
            let characters = Characters::of(&node).expect(pattern);
            let hir = automaton::hir(&node, false).unwrap();
            let regex = regex_automata::meta::Builder::new().build_from_hir(&hir).unwrap();
            for text in texts {
                for from in 0..=text.len() {
                    let input = regex_automata::Input::new(text).range(from..);
                    let found = regex.search(&input).map(|m| m.range());
                    assert_eq!(characters.find(text, from), found, "{pattern} {text:?} {from}");
                    let input = regex_automata::Input::new(text).range(from..);
                    let all = regex.find_iter(input).count() as u32;
                    for most in [0, 1, 2, u32::MAX] {
                        let Some((count, first)) = characters.count(text, from, most) else {
                            continue;
                        };
                        counted += 1;
                        assert_eq!(
                            (count, Some(first)),
                            (all.min(most), found.clone()),
                            "{pattern}"
                        );
                    }
                }
            }
        }
        assert!(counted > 300, "{counted}");
    }

    #[test]
    fn words_are_left_to_the_engines() {
        for pattern in ["viagra", "ab|cd", "e+", "^e", "[a-z][a-z]", "", "e|", "(?:|e)"] {
            assert!(Characters::of(&parse(pattern).unwrap().node).is_none(), "{pattern}");
        }
        assert!(Pattern::new("e").unwrap().is_match(b"yes"));
    }
}
