//! One pass over a text that says which patterns are worth trying on it.
//!
//! Most patterns need one of a few rare strings: these are in one Aho-Corasick automaton. Words that
//! patterns find in spite of gaps are looked for in the text without its gaps; words that they find in
//! spite of look-alike letters have ordinary letters in a text of ASCII alone. The rest is tried if the
//! text has the bytes that it needs.

use std::collections::BTreeMap;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::pattern::syntax::{ByteSet, Node};
use crate::pattern::{Pattern, literal};

/// A pattern whose strings begin at more than this share of the bytes of ordinary text is not worth
/// looking for by its strings.
const CHANCE_MAX: f64 = 2e-3;

/// Most threads that prepare patterns.
const THREADS_MAX: usize = 8;
/// Fewer patterns are not worth a thread.
const PATTERNS_PER_THREAD_MIN: usize = 64;

/// Looks for what patterns need.
#[derive(Debug)]
pub(crate) struct Prefilter {
    /// Strings in the text itself.
    strings: Strings,
    /// Strings in the text without its gaps.
    squeezed: Strings,
    /// Patterns whose strings are told only for texts of ASCII alone: others may match anyhow.
    beyond_ascii: Vec<Gated>,
    /// Patterns without strings.
    gated: Vec<Gated>,
    /// Patterns that must be tried on every text.
    always: Vec<u32>,
}

/// A pattern, and the sets of each of which it needs a byte.
#[derive(Debug)]
struct Gated {
    pattern: u32,
    sets: Vec<ByteSet>,
}

/// How a pattern is looked for.
enum Way {
    Strings(Vec<Vec<u8>>),
    AsciiStrings(Vec<Vec<u8>>, Vec<ByteSet>),
    Squeezed(Vec<Vec<u8>>),
    Gated(Vec<ByteSet>),
    Always,
}

fn way(node: Option<&Node>) -> Way {
    let Some(node) = node else { return Way::Always };
    if let Some(strings) = literal::required(node, CHANCE_MAX) {
        return Way::Strings(strings);
    }
    if let Some(strings) = literal::required(&literal::squeezed(node), CHANCE_MAX) {
        return Way::Squeezed(strings);
    }
    let sets = literal::required_sets(node);
    if let Some(strings) = literal::required(&literal::ascii_only(node), CHANCE_MAX) {
        return Way::AsciiStrings(strings, sets);
    }
    if sets.is_empty() { Way::Always } else { Way::Gated(sets) }
}

/// How each pattern is looked for. Large patterns take a while, so the CPUs share them.
fn ways(patterns: &[&Pattern]) -> Vec<Way> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let share = patterns.len().div_ceil(threads).max(PATTERNS_PER_THREAD_MIN);
    std::thread::scope(|scope| {
        let work = |part: &[&Pattern]| part.iter().map(|p| way(p.node())).collect::<Vec<_>>();
        let threads: Vec<_> =
            patterns.chunks(share).map(|part| scope.spawn(move || work(part))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<Way>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(join).collect()
    })
}

impl Prefilter {
    /// Collects what these patterns need; they are numbered in order.
    pub(crate) fn new<'p>(patterns: impl Iterator<Item = &'p Pattern>) -> Self {
        let (mut strings, mut squeezed) = (BTreeMap::new(), BTreeMap::new());
        let mut filter = Prefilter {
            strings: Strings::default(),
            squeezed: Strings::default(),
            beyond_ascii: Vec::new(),
            gated: Vec::new(),
            always: Vec::new(),
        };
        let patterns: Vec<&Pattern> = patterns.collect();
        for (way, number) in ways(&patterns).into_iter().zip(0u32..) {
            let (map, found) = match way {
                Way::Strings(found) => (&mut strings, found),
                Way::Squeezed(found) => (&mut squeezed, found),
                Way::AsciiStrings(found, sets) => {
                    filter.beyond_ascii.push(Gated { pattern: number, sets });
                    (&mut strings, found)
                }
                Way::Gated(sets) => {
                    filter.gated.push(Gated { pattern: number, sets });
                    continue;
                }
                Way::Always => {
                    filter.always.push(number);
                    continue;
                }
            };
            for string in found {
                map.entry(string).or_insert_with(Vec::new).push(number);
            }
        }
        filter.strings = Strings::new(strings, &mut filter.always);
        filter.squeezed = Strings::new(squeezed, &mut filter.always);
        filter
    }

    /// Puts into `found` the patterns that may match `text`, each once, in order.
    pub(crate) fn search(&self, text: &[u8], buffers: &mut Buffers, found: &mut Vec<u32>) {
        found.clear();
        found.extend(&self.always);
        for pattern in found.iter() {
            buffers.mark(*pattern);
        }
        self.strings.search(text, buffers, found);
        if self.squeezed.automaton.is_some() {
            let mut kept = std::mem::take(&mut buffers.squeezed);
            kept.clear();
            kept.extend(text.iter().filter(|b| b.is_ascii_alphanumeric()));
            self.squeezed.search(&kept, buffers, found);
            buffers.squeezed = kept;
        }
        if !self.gated.is_empty() || !self.beyond_ascii.is_empty() {
            let bytes = ByteSet::of_text(text);
            let beyond: &[Gated] = if bytes.is_ascii() { &[] } else { &self.beyond_ascii };
            for gated in self.gated.iter().chain(beyond) {
                if gated.sets.iter().all(|set| set.meets(&bytes)) && buffers.mark(gated.pattern) {
                    found.push(gated.pattern);
                }
            }
        }
        found.iter().for_each(|pattern| buffers.clear(*pattern));
        found.sort_unstable();
    }

    /// Patterns without a string of their own.
    pub(crate) fn without_strings(&self) -> impl Iterator<Item = u32> + '_ {
        self.always.iter().copied().chain(self.gated.iter().map(|g| g.pattern))
    }
}

/// Strings of many patterns in one automaton.
#[derive(Debug, Default)]
struct Strings {
    automaton: Option<AhoCorasick>,
    /// For each string, the patterns it belongs to.
    owners: Vec<Vec<u32>>,
}

impl Strings {
    /// Builds the automaton; if that cannot be, its patterns go to `always`.
    fn new(strings: BTreeMap<Vec<u8>, Vec<u32>>, always: &mut Vec<u32>) -> Self {
        if strings.is_empty() {
            return Strings::default();
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(strings.keys());
        match automaton {
            Ok(automaton) => {
                Strings { automaton: Some(automaton), owners: strings.into_values().collect() }
            }
            Err(_) => {
                always.extend(strings.values().flatten());
                always.sort_unstable();
                always.dedup();
                Strings::default()
            }
        }
    }

    fn search(&self, text: &[u8], buffers: &mut Buffers, found: &mut Vec<u32>) {
        let Some(automaton) = &self.automaton else { return };
        for hit in automaton.find_overlapping_iter(text) {
            for owner in self.owners.get(hit.pattern().as_usize()).into_iter().flatten() {
                if buffers.mark(*owner) {
                    found.push(*owner);
                }
            }
        }
    }
}

/// What searching needs, of one thread.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    seen: Vec<bool>,
    squeezed: Vec<u8>,
}

impl Buffers {
    /// Whether the pattern was not seen yet in this text.
    fn mark(&mut self, number: u32) -> bool {
        let at = number as usize;
        if self.seen.len() <= at {
            self.seen.resize(at + 1, false);
        }
        !std::mem::replace(&mut self.seen[at], true)
    }

    fn clear(&mut self, number: u32) {
        if let Some(mark) = self.seen.get_mut(number as usize) {
            *mark = false;
        }
    }
}
