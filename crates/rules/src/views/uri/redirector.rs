//! Sites that lead on to a URI inside theirs, by the `redirector_pattern` lines.

use memchr::memmem::Finder;

use crate::pattern::Pattern;
use crate::pattern::literal::{self, Texts};

/// More strings are not looked for.
const STRINGS_MAX: usize = 8;

/// One pattern, whose first group is where it leads.
#[derive(Debug)]
pub(in crate::views) struct Redirector {
    pattern: Pattern,
    /// One of these, in lower case, is in each URI that it matches; none if that is not known.
    strings: Vec<Finder<'static>>,
}

impl Redirector {
    pub(in crate::views) fn new(pattern: Pattern) -> Self {
        let required = pattern.node().and_then(|node| literal::required(node, 1.0, Texts::Mail));
        let strings = required.map(|found| found.strings).filter(|all| all.len() <= STRINGS_MAX);
        let finder = |string: Vec<u8>| Finder::new(&literal::bytes_of(&string)).into_owned();
        let strings = strings.unwrap_or_default().into_iter().map(finder).collect();
        Redirector { pattern, strings }
    }

    /// Where a URI leads; `lower` is the same in lower case. Most URIs are no redirector's.
    pub(super) fn target<'u>(&self, uri: &'u [u8], lower: &[u8]) -> Option<&'u [u8]> {
        let may = self.strings.is_empty() || self.strings.iter().any(|s| s.find(lower).is_some());
        // Only a match needs room for its groups.
        if !may || !self.pattern.is_match(uri) {
            return None;
        }
        let groups = self.pattern.captures(uri, 0).ok()??;
        uri.get(groups.get(1)?.clone()?)
    }
}
