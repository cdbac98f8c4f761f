//! Perl patterns, matched as Perl matches them under `/aa` on bytes.

use std::ops::Range;

/// A compiled pattern: `regex` where that is exact, PCRE2 where the pattern needs it.
#[derive(Debug)]
pub struct Pattern {
    engine: Engine,
}

#[derive(Debug)]
enum Engine {
    Backtrack(pcre2::bytes::Regex),
}

/// Why a pattern could not be compiled, or a match not be finished.
#[derive(Debug, thiserror::Error, PartialEq, Eq, Clone)]
pub enum PatternError {
    /// The pattern is not valid.
    #[error("bad pattern: {0}")]
    Syntax(String),
    /// Matching ran out of its budget.
    #[error("match budget spent")]
    Budget,
}

impl Pattern {
    /// Compiles a pattern without delimiters; flags stand in front as `(?i)`.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let mut builder = pcre2::bytes::RegexBuilder::new();
        builder.jit_if_available(true);
        let regex = builder.build(pattern).map_err(|e| PatternError::Syntax(e.to_string()))?;
        Ok(Pattern { engine: Engine::Backtrack(regex) })
    }

    /// The leftmost match at or after `from`.
    pub fn find(&self, text: &[u8], from: usize) -> Result<Option<Range<usize>>, PatternError> {
        let Engine::Backtrack(regex) = &self.engine;
        match regex.find_at(text, from.min(text.len())) {
            Ok(found) => Ok(found.map(|m| m.start()..m.end())),
            Err(_) => Err(PatternError::Budget),
        }
    }

    /// Whether it matches anywhere; a spent budget counts as no match.
    pub fn is_match(&self, text: &[u8]) -> bool {
        matches!(self.find(text, 0), Ok(Some(_)))
    }

    /// The groups of the leftmost match, the whole match first.
    pub fn captures(&self, text: &[u8]) -> Result<Option<Vec<Option<Range<usize>>>>, PatternError> {
        let Engine::Backtrack(regex) = &self.engine;
        let groups = regex.captures(text).map_err(|_| PatternError::Budget)?;
        Ok(groups.map(|g| (0..g.len()).map(|i| g.get(i).map(|m| m.start()..m.end())).collect()))
    }
}
