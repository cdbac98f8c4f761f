//! Comparison of a pattern's engines, for fuzzing.

use super::syntax::Node;
use super::{Pattern, automaton};

/// How the engines or the prefilter differ on a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    /// The automaton's answer is not PCRE2's.
    #[error("PCRE2 says {0}, the automaton does not")]
    Automaton(bool),
    /// The prefilter would not try the pattern, though it matches.
    #[error("it matches, but the prefilter rules it out")]
    Prefilter,
    /// The pattern matches before the position from which the prefilter tries it.
    #[error("it matches before {0}, where the prefilter lets it begin")]
    PrefilterStart(usize),
    /// The search by first bytes finds another match from this position on.
    #[error("from {0} on the starts lead to another match")]
    Starts(usize),
    /// The pattern matches, though its tree says that nothing can.
    #[error("it matches, but is thought to be impossible")]
    Impossible,
}

impl Pattern {
    /// Runs every engine on a text and compares their answers, with `prefilter_start` giving the
    /// position from which the prefilter lets the pattern be tried.
    pub(crate) fn compare_engines(
        &self,
        text: &[u8],
        prefilter_start: impl FnOnce() -> Option<usize>,
    ) -> Result<(), Disagreement> {
        let slow = match self.backtracker().map(|r| r.is_match(text)) {
            Ok(Ok(found)) => found,
            Ok(Err(_)) | Err(_) => return Ok(()),
        };
        let exact = self.node.as_ref().and_then(|n| automaton::hir(n, false));
        if exact.is_some()
            && let Some(fast) = self.automaton()
            && fast.is_match(text) != slow
        {
            return Err(Disagreement::Automaton(slow));
        }
        match prefilter_start() {
            None if slow => return Err(Disagreement::Prefilter),
            Some(start) if self.find(text, 0) != self.find(text, start) => {
                return Err(Disagreement::PrefilterStart(start));
            }
            _ => {}
        }
        if let Some(start) = (0..text.len())
            .find(|from| self.find(text, *from) != self.find_unanchored(text, *from, None))
        {
            return Err(Disagreement::Starts(start));
        }
        if slow && self.node.as_ref().is_some_and(Node::is_impossible) {
            return Err(Disagreement::Impossible);
        }
        Ok(())
    }
}
