//! Working memory of the engines, kept from one match to the next.
//!
//! Engines keep such memory in pools shared between threads, which are fast only for the thread
//! that came first (2.7 % of a scan on any other). So a ruleset hands a scan the memory of all its
//! patterns at once: one lock a message.

use std::sync::{Mutex, PoisonError};

use pcre2::bytes::{CaptureLocations, Regex};
use regex_automata::{hybrid, meta};

use super::Pattern;

/// Working memory of one pattern; each part is allocated when first needed.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Id of the pattern that it belongs to.
    of: u64,
    pub(super) unanchored: Option<CaptureLocations>,
    pub(super) anchored: Option<CaptureLocations>,
    pub(super) automaton: Option<Box<meta::Cache>>,
    pub(super) dfa_check: Option<Box<hybrid::dfa::Cache>>,
}

/// Working memory of the patterns of one ruleset, by the index of their rules, for one scan.
#[derive(Debug, Default)]
pub(crate) struct Scratches {
    slots: Vec<Option<Box<Scratch>>>,
}

impl Scratches {
    /// The memory of the rule with this index and its pattern; `None` for temporary patterns.
    pub(crate) fn of(&mut self, number: u32, pattern: &Pattern) -> Option<&mut Scratch> {
        if pattern.is_temporary {
            return None;
        }
        let at = number as usize;
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        let scratch = self.slots.get_mut(at)?.get_or_insert_default();
        if scratch.of != pattern.id {
            **scratch = Scratch { of: pattern.id, ..Scratch::default() };
        }
        Some(scratch)
    }
}

/// Working memory of a ruleset that no scan uses now; freed with the ruleset.
#[derive(Debug, Default)]
pub(crate) struct ScratchPool(Mutex<Vec<Scratches>>);

impl ScratchPool {
    /// Takes the memory for a scan.
    pub(crate) fn take(&self) -> Scratches {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Returns the memory of a scan.
    pub(crate) fn put_back(&self, scratches: Scratches) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(scratches);
    }
}

/// The leftmost match at or after `from`, with the working memory if there is any.
pub(super) fn find(
    regex: &Regex,
    text: &[u8],
    from: usize,
    slots: Option<&mut Option<CaptureLocations>>,
) -> Result<Option<std::ops::Range<usize>>, pcre2::Error> {
    let found = match slots {
        Some(slots) => {
            let slots = slots.get_or_insert_with(|| regex.capture_locations());
            regex.captures_read_at(slots, text, from)?
        }
        None => regex.find_at(text, from)?,
    };
    Ok(found.map(|found| found.start()..found.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_the_same_with_what_is_kept() {
        let patterns = ["a+b", "(?i)(?:sum|total)", "(a)\\1", "(?m)^b", "^x{1,20}y{1,20}z{1,20}"];
        let texts = ["xaab sum aa\nb", "", "the TOTAL", "xxyyzz", "xxyy"];
        let spare = ScratchPool::default();
        for _ in 0..2 {
            let mut scratches = spare.take();
            for text in texts.map(str::as_bytes) {
                // All have the same id, which does no harm.
                for pattern in patterns.map(|pattern| Pattern::new(pattern).expect("valid")) {
                    for from in 0..=text.len() {
                        let expected = pattern.find(text, from);
                        let scratch = scratches.of(3, &pattern);
                        assert_eq!(pattern.find_with(text, from, scratch), expected);
                    }
                }
            }
            spare.put_back(scratches);
        }
        assert_eq!(spare.0.lock().unwrap().len(), 1);
    }
}
