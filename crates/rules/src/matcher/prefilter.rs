//! One pass over a text that says which patterns are worth trying on it.

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::pattern::Pattern;
use crate::pattern::literal;

/// A pattern whose strings begin at more than this share of the bytes of ordinary text is tried on
/// every text instead.
const CHANCE_MAX: f64 = 2e-3;

/// The strings of many patterns in one automaton.
#[derive(Debug)]
pub(crate) struct Prefilter {
    automaton: Option<AhoCorasick>,
    /// For each string, the patterns it belongs to.
    owners: Vec<Vec<u32>>,
    /// Patterns that must be tried on every text.
    pub(crate) always: Vec<u32>,
}

impl Prefilter {
    /// Collects the strings of these patterns, numbered in order.
    pub(crate) fn new<'p>(patterns: impl Iterator<Item = &'p Pattern>) -> Self {
        let mut strings: std::collections::BTreeMap<Vec<u8>, Vec<u32>> =
            std::collections::BTreeMap::new();
        let mut always = Vec::new();
        let mut count = 0;
        for (number, pattern) in (0u32..).zip(patterns) {
            count = number + 1;
            match pattern.node().and_then(|n| literal::required(n, CHANCE_MAX)) {
                Some(found) => {
                    for string in found {
                        strings.entry(string).or_default().push(number);
                    }
                }
                None => always.push(number),
            }
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(strings.keys())
            .ok()
            .filter(|_| !strings.is_empty());
        if automaton.is_none() && !strings.is_empty() {
            always = (0..count).collect();
        }
        Prefilter { automaton, owners: strings.into_values().collect(), always }
    }

    /// Adds to `found` the patterns whose strings occur in `text`, each once, in order; not those of
    /// `always`.
    pub(crate) fn search(&self, text: &[u8], marks: &mut Marks, found: &mut Vec<u32>) {
        found.clear();
        let Some(automaton) = &self.automaton else { return };
        for hit in automaton.find_overlapping_iter(text) {
            for owner in self.owners.get(hit.pattern().as_usize()).into_iter().flatten() {
                if marks.mark(*owner) {
                    found.push(*owner);
                }
            }
        }
        found.iter().for_each(|owner| marks.clear(*owner));
        found.sort_unstable();
    }
}

/// Which patterns were seen in the present text.
#[derive(Debug, Default)]
pub(crate) struct Marks(Vec<bool>);

impl Marks {
    fn mark(&mut self, number: u32) -> bool {
        let at = number as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, false);
        }
        !std::mem::replace(&mut self.0[at], true)
    }

    fn clear(&mut self, number: u32) {
        if let Some(mark) = self.0.get_mut(number as usize) {
            *mark = false;
        }
    }
}
