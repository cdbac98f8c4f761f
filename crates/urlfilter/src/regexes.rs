//! Regular expressions of lists: bounded in number and size, and all tried at once.

use regex::bytes::{RegexBuilder, RegexSet, RegexSetBuilder};

use crate::limits::{REGEX_BYTES_MAX, REGEX_SET_BYTES_MAX};
use crate::problem::Fault;

/// Memory of the automaton that is made while it runs, in bytes, for each thread.
const LAZY_BYTES_MAX: usize = 16 << 20;

/// Whether this expression can be used.
pub(crate) fn check(text: &str) -> Result<(), Fault> {
    let built = RegexBuilder::new(text).unicode(false).size_limit(REGEX_BYTES_MAX).build();
    match built {
        Ok(_) => Ok(()),
        Err(regex::Error::CompiledTooBig(_)) => Err(Fault::bad(
            "regular expression too large",
            "write it shorter, without large counted repetitions",
        )),
        Err(_) => Err(Fault::bad(
            "no regular expression",
            "it is read as the crate regex does: no look-around, no back-references",
        )),
    }
}

/// All expressions of a list as one automaton.
///
/// # Errors
/// If they are too large together.
pub(crate) fn set<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<RegexSet, regex::Error> {
    RegexSetBuilder::new(texts)
        .unicode(false)
        .size_limit(REGEX_SET_BYTES_MAX)
        .dfa_size_limit(LAZY_BYTES_MAX)
        .build()
}
