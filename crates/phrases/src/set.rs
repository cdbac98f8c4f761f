//! Lists compiled: one automaton for all phrases.

use std::collections::BTreeMap;
use std::sync::Arc;

use aho_corasick::MatchKind;
use aho_corasick::nfa::contiguous::NFA;

use crate::line::Weight;
use crate::list::{Kind, Lists};

/// Why lists cannot be compiled.
#[derive(Debug, thiserror::Error)]
#[error("the phrases cannot be compiled: {0}")]
pub struct CompileError(#[from] aho_corasick::BuildError);

/// A phrase or a combination, by the numbers of its patterns.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) patterns: Box<[u32]>,
    pub(crate) kind: Kind,
    pub(crate) category: u32,
    pub(crate) file: u32,
    pub(crate) line: u32,
}

/// Phrases that texts are searched for, all at once.
#[derive(Debug)]
pub struct PhraseSet {
    pub(crate) automaton: NFA,
    pub(crate) patterns: Vec<Box<str>>,
    pub(crate) entries: Vec<Compiled>,
    pub(crate) categories: Vec<Arc<str>>,
    pub(crate) files: Vec<Arc<str>>,
}

impl PhraseSet {
    /// Compiles what was read.
    ///
    /// # Errors
    /// If the automaton would be too large; [`crate::limits`] prevents it.
    pub fn compile(lists: &Lists) -> Result<Self, CompileError> {
        let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
        let mut patterns: Vec<Box<str>> = Vec::new();
        let mut number_of = |part| {
            *numbers.entry(part).or_insert_with(|| {
                patterns.push(Box::from(part));
                // PHRASES_MAX * PARTS_MAX fits.
                u32::try_from(patterns.len() - 1).unwrap_or_default()
            })
        };
        let compiled = lists.entries.iter().map(|entry| Compiled {
            patterns: entry.parts.iter().map(|part| number_of(part.as_str())).collect(),
            kind: entry.kind,
            category: entry.category,
            file: entry.file,
            line: entry.line,
        });
        let entries = compiled.collect();
        let mut builder = NFA::builder();
        builder.match_kind(MatchKind::Standard);
        let automaton = builder.build(patterns.iter().map(|pattern| pattern.as_bytes()))?;
        let categories = lists.categories.iter().map(|name| Arc::from(name.as_str())).collect();
        let files = lists.files.iter().map(|file| Arc::from(file.path.as_str())).collect();
        Ok(PhraseSet { automaton, patterns, entries, categories, files })
    }

    /// Phrases and combinations.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Without a phrase.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of the automaton in memory.
    pub fn memory_bytes(&self) -> usize {
        use aho_corasick::automaton::Automaton;
        self.automaton.memory_usage()
    }

    /// How many phrases are banned, exceptions, add points and take points.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for entry in &self.entries {
            match entry.kind {
                Kind::Banned => counts.banned += 1,
                Kind::Exception => counts.exceptions += 1,
                Kind::Weighted(Weight::Points(n) | Weight::Percent(n)) if n < 0 => {
                    counts.negative += 1;
                }
                Kind::Weighted(_) => counts.positive += 1,
            }
            counts.combinations += u64::from(entry.patterns.len() > 1);
        }
        counts
    }
}

/// Phrases by what they do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Weights of zero or more.
    pub positive: u64,
    /// Weights below zero.
    pub negative: u64,
    /// Without a weight, in a list of banned phrases.
    pub banned: u64,
    /// Without a weight, in a list of exceptions.
    pub exceptions: u64,
    /// Those of them all that have several phrases.
    pub combinations: u64,
}
