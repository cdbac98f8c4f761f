//! Comparison of the prefilter with a pattern's engines, for fuzzing.

use super::prefilter::{Buffers, Prefilter};
use crate::pattern::Pattern;
use crate::pattern::self_check::Disagreement;

impl Pattern {
    /// Runs every engine and the prefilter on a text and compares their answers. For fuzzing.
    ///
    /// # Errors
    /// If they differ.
    pub fn self_check(&self, text: &[u8]) -> Result<(), Disagreement> {
        self.compare_engines(text, || first_start(self, text))
    }
}

/// Where in this text the prefilter lets the pattern begin; `None` if it rules the pattern out.
fn first_start(pattern: &Pattern, text: &[u8]) -> Option<usize> {
    let (mut found, mut buffers) = (Vec::new(), Buffers::default());
    let filter = Prefilter::new(std::iter::once(pattern));
    filter.search(text, &mut buffers, &mut found);
    found.first().map(|pattern| filter.start(*pattern, text, &buffers))
}
