//! What engines write to while they match, kept from one match to the next.
//!
//! Engines keep such memory in pools that they share between threads. A pool is quick for the thread that
//! came first, and each other pays at every match. So a set of rules lends a scan all that its patterns
//! need, at once.

use std::sync::{Mutex, PoisonError};

use pcre2::bytes::{CaptureLocations, Regex};
use regex_automata::{hybrid, meta};

use super::Pattern;

/// Of one pattern. Each is made when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// The pattern's own number: a rule may have had another.
    of: u64,
    pub(super) anywhere: Option<CaptureLocations>,
    pub(super) here: Option<CaptureLocations>,
    pub(super) automaton: Option<Box<meta::Cache>>,
    pub(super) sieve: Option<Box<hybrid::dfa::Cache>>,
}

/// Of the patterns of one set of rules, by their numbers, for one scan.
#[derive(Debug, Default)]
pub(crate) struct Scratches {
    kept: Vec<Option<Box<Scratch>>>,
}

impl Scratches {
    /// Of a pattern with this number; none if the pattern does not last.
    pub(crate) fn of(&mut self, number: u32, pattern: &Pattern) -> Option<&mut Scratch> {
        if pattern.is_of_one_message {
            return None;
        }
        let at = number as usize;
        if self.kept.len() <= at {
            self.kept.resize_with(at + 1, || None);
        }
        let scratch = self.kept.get_mut(at)?.get_or_insert_default();
        if scratch.of != pattern.id {
            **scratch = Scratch { of: pattern.id, ..Scratch::default() };
        }
        Some(scratch)
    }
}

/// Those of a set of rules that no scan has at the moment: they end with the rules.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<Scratches>>);

impl Spare {
    /// Lends some to a scan.
    pub(crate) fn lend(&self) -> Scratches {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Takes them back.
    pub(crate) fn take_back(&self, scratches: Scratches) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(scratches);
    }
}

/// The leftmost match at or after `from`, with the memory that is kept for that, if there is any.
pub(super) fn find(
    regex: &Regex,
    text: &[u8],
    from: usize,
    kept: Option<&mut Option<CaptureLocations>>,
) -> Result<Option<std::ops::Range<usize>>, pcre2::Error> {
    let found = match kept {
        Some(kept) => {
            let kept = kept.get_or_insert_with(|| regex.capture_locations());
            regex.captures_read_at(kept, text, from)?
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
        let spare = Spare::default();
        for _ in 0..2 {
            let mut scratches = spare.lend();
            for text in texts.map(str::as_bytes) {
                // All have the same number, which is no harm.
                for pattern in patterns.map(|pattern| Pattern::new(pattern).expect("valid")) {
                    for from in 0..=text.len() {
                        let expected = pattern.find(text, from);
                        let scratch = scratches.of(3, &pattern);
                        assert_eq!(pattern.find_with(text, from, scratch), expected);
                    }
                }
            }
            spare.take_back(scratches);
        }
        assert_eq!(spare.0.lock().unwrap().len(), 1);
    }
}
