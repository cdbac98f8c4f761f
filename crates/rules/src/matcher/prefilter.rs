//! The prefilter: one pass over a text that reports which patterns may match it.
//!
//! Most patterns need one of a few rare strings, which are searched all at once. Words with gaps or
//! look-alike characters, runs of letters and numbers have none: for them a sequence of byte sets
//! is searched, all sequences at once. What is left is tried if the text has the bytes that it
//! needs. All of these are necessary conditions, so that the prefilter never changes a result.

use std::collections::BTreeMap;

use super::shift_and::ShiftAnd;
use super::strings::{StringBuffers, Strings};
use crate::pattern::frequency::{TextKind, string_frequency};
use crate::pattern::literal::prefix_limit::PrefixLimit;
use crate::pattern::sequence::{self, ByteSequence};
use crate::pattern::syntax::{ByteSet, Node};
use crate::pattern::{Pattern, literal};

/// A pattern whose strings begin at more than this share of the bytes of ordinary text is
/// not worth looking for by its strings.
const FREQUENCY_MAX: f64 = 2e-4;

/// Sequences that end at a larger share of bytes are too frequent to search for.
const SEQUENCE_FREQUENCY_MAX: f64 = 0.03;

/// Stepping fewer sequences at each byte is not worthwhile: their patterns are tried if the text
/// has the bytes they need.
const SEQUENCES_MIN: usize = 4;

/// With more patterns than this that need bytes of sets, the bytes of the text are collected first.
const REQUIRED_SETS_FEW: usize = 8;

/// Fewest repetitions that are counted: fewer occur too often by chance.
const TIMES_MIN: u32 = 3;
/// Repetitions that are counted at most.
const TIMES_MAX: u32 = 100;
/// Strings of a repeated part that begin at a larger share of bytes are not counted.
const COUNTED_FREQUENCY_MAX: f64 = 2e-3;

/// Most threads that prepare patterns.
const THREADS_MAX: usize = 8;
/// Fewest patterns for which a thread is started.
const PATTERNS_PER_THREAD_MIN: usize = 64;

/// Largest share of bytes at which second strings may begin.
const SECOND_FREQUENCY_MAX: f64 = 2e-4;
/// Flag of a string's owner: it is one of the pattern's second strings.
const SECOND_OWNER: u32 = 1 << 31;

/// Flag of a pattern: one of its strings was found.
const STRING: u8 = 1;
/// Flag: its sequence was found.
const SEQUENCE: u8 = 2;
/// Flag: one of its second strings was found.
const SECOND: u8 = 8;
/// Flag: bytes of all its sets were found, or it needs none.
const BYTES: u8 = 4;

/// The strings, sequences and sets that patterns need.
#[derive(Debug)]
pub(crate) struct Prefilter {
    strings: Strings,
    shift_and: ShiftAnd,
    /// Patterns without strings and sequences.
    required_sets: Vec<RequiredSets>,
    /// Patterns that must be tried on every text.
    always: Vec<u32>,
    /// For each pattern, the flags that must be set.
    needs: Vec<u8>,
    /// For each pattern, how many strings must be found.
    min_counts: Vec<u16>,
    /// How much of a match may stand before the first string of each pattern.
    prefix_limit: Vec<PrefixLimit>,
}

/// Start of a pattern none of whose strings was found.
const NOWHERE: u32 = u32::MAX;

/// A pattern that needs a byte of each of these sets.
#[derive(Debug)]
struct RequiredSets {
    pattern: u32,
    sets: Vec<ByteSet>,
}

/// How a pattern is prefiltered.
enum Strategy {
    Strings(Vec<Vec<u8>>),
    Sequence(ByteSequence),
    /// At least so many of the strings, and the sequence if there is one.
    Counted(Vec<Vec<u8>>, u16, Option<ByteSequence>),
    ByteSets(Vec<ByteSet>),
    Always,
}

fn strategy(node: Option<&Node>, texts: TextKind) -> Strategy {
    let Some(node) = node else { return Strategy::Always };
    if let Some(strings) = literal::required(node, FREQUENCY_MAX, texts) {
        return Strategy::Strings(strings.strings);
    }
    let sequence = sequence::rarest_sequence(node)
        .filter(|sequence| sequence.frequency <= SEQUENCE_FREQUENCY_MAX);
    if let Some((strings, times)) = literal::repeated(node, TIMES_MIN, COUNTED_FREQUENCY_MAX, texts)
    {
        return Strategy::Counted(strings.strings, times.min(TIMES_MAX) as u16, sequence);
    }
    if let Some(sequence) = sequence {
        return Strategy::Sequence(sequence);
    }
    by_bytes(node)
}

/// The strategy for a pattern without strings and sequence.
fn by_bytes(node: &Node) -> Strategy {
    let sets = literal::sets::required_sets(node);
    if sets.is_empty() { Strategy::Always } else { Strategy::ByteSets(sets) }
}

/// How a pattern is prefiltered.
struct Plan {
    strategy: Strategy,
    /// Strings that must be there too. A deferred pattern is seldom matched in the end, so that
    /// they would cost more than they save: it has none.
    second: Option<literal::Strings>,
    /// What may stand before the first string.
    prefix_limit: PrefixLimit,
}

fn plan((pattern, is_tried): (&Pattern, bool), texts: TextKind) -> Plan {
    let strategy = strategy(pattern.node(), texts);
    let prefix_limit = match (&strategy, pattern.node()) {
        (Strategy::Strings(strings), Some(node)) => PrefixLimit::of(node, strings, texts),
        _ => PrefixLimit::Unlimited,
    };
    let second = match (&strategy, pattern.node()) {
        (Strategy::Strings(first), Some(node)) if is_tried => {
            literal::second(node, first, SECOND_FREQUENCY_MAX, texts)
        }
        _ => None,
    };
    Plan { strategy, second, prefix_limit }
}

/// How each pattern is prefiltered. Analysing large patterns takes a while, so it is spread over
/// the CPUs.
fn plans(patterns: &[(&Pattern, bool)], texts: TextKind) -> Vec<Plan> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let share = patterns.len().div_ceil(threads).max(PATTERNS_PER_THREAD_MIN);
    std::thread::scope(|scope| {
        let work = |part: &[(&Pattern, bool)]| -> Vec<_> {
            part.iter().map(|p| plan(*p, texts)).collect()
        };
        let threads: Vec<_> =
            patterns.chunks(share).map(|part| scope.spawn(move || work(part))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<_>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let mut plans: Vec<Plan> = threads.into_iter().flat_map(join).collect();
        drop_few_sequences(&mut plans, patterns);
        plans
    })
}

/// Drops the sequences if there are few of them: a step at each byte costs more than trying a few
/// patterns.
fn drop_few_sequences(plans: &mut [Plan], patterns: &[(&Pattern, bool)]) {
    let has_sequence = |plan: &&Plan| {
        matches!(plan.strategy, Strategy::Sequence(_) | Strategy::Counted(_, _, Some(_)))
    };
    if plans.iter().filter(has_sequence).count() >= SEQUENCES_MIN {
        return;
    }
    for (plan, (pattern, _)) in plans.iter_mut().zip(patterns) {
        match (&mut plan.strategy, pattern.node()) {
            (Strategy::Counted(_, _, sequence), _) => *sequence = None,
            (Strategy::Sequence(_), Some(node)) => plan.strategy = by_bytes(node),
            _ => {}
        }
    }
}

impl Prefilter {
    /// The prefilter of these patterns, which are numbered in order.
    pub(crate) fn new<'p>(patterns: impl Iterator<Item = &'p Pattern>) -> Self {
        Self::on(TextKind::Mail, patterns.map(|pattern| (pattern, true)))
    }

    /// The same for texts of this kind; the flag of a pattern is false if its matching may be
    /// deferred.
    pub(crate) fn on<'p>(
        texts: TextKind,
        patterns: impl Iterator<Item = (&'p Pattern, bool)>,
    ) -> Self {
        let patterns: Vec<(&Pattern, bool)> = patterns.collect();
        let (mut strings, mut sequences) = (BTreeMap::new(), Vec::new());
        let mut needs = Vec::with_capacity(patterns.len());
        let mut min_counts = vec![1; patterns.len()];
        let (mut required_sets, mut always) = (Vec::new(), Vec::new());
        let mut prefix_limit = Vec::with_capacity(patterns.len());
        for (plan, number) in plans(&patterns, texts).into_iter().zip(0u32..) {
            let Plan { strategy, second, prefix_limit: of_this } = plan;
            prefix_limit.push(of_this);
            let (mut need, found, sequence) = match strategy {
                Strategy::Strings(found) => (STRING, found, None),
                Strategy::Counted(found, times, sequence) => {
                    if let Some(min_counts) = min_counts.get_mut(number as usize) {
                        *min_counts = times;
                    }
                    let need = if sequence.is_some() { STRING | SEQUENCE } else { STRING };
                    (need, found, sequence)
                }
                Strategy::Sequence(sequence) => (SEQUENCE, Vec::new(), Some(sequence)),
                Strategy::ByteSets(sets) => {
                    required_sets.push(RequiredSets { pattern: number, sets });
                    (BYTES, Vec::new(), None)
                }
                Strategy::Always => {
                    always.push(number);
                    (BYTES, Vec::new(), None)
                }
            };
            for string in second.into_iter().flatten() {
                need |= SECOND;
                strings.entry(string).or_insert_with(Vec::new).push(number | SECOND_OWNER);
            }
            needs.push(need);
            sequences.extend(sequence.map(|sequence| (sequence, number)));
            for string in found {
                strings.entry(string).or_insert_with(Vec::new).push(number);
            }
        }
        let times = |owner: u32| match owner & SECOND_OWNER {
            0 => min_counts.get(owner as usize).copied().unwrap_or(1),
            _ => 1,
        };
        let frequency = |bytes: &[u8]| string_frequency(bytes, texts);
        let (strings, too_short) = Strings::new(strings, frequency, times);
        for number in too_short {
            // Some of its strings are too short to be searched, so that the others do not say where
            // it begins.
            let owner = number as usize & !(SECOND_OWNER as usize);
            prefix_limit.get_mut(owner).into_iter().for_each(|l| *l = PrefixLimit::Unlimited);
            if let Some(need) = needs.get_mut(number as usize)
                && *need & STRING != 0
            {
                *need = BYTES;
                always.push(number);
            }
        }
        Prefilter {
            strings,
            shift_and: ShiftAnd::new(sequences),
            required_sets,
            always,
            needs,
            min_counts,
            prefix_limit,
        }
    }

    /// Collects in `found` the patterns that may match `text`, each once, in order.
    pub(crate) fn search(&self, text: &[u8], buffers: &mut Buffers, found: &mut Vec<u32>) {
        found.clear();
        self.always.iter().for_each(|pattern| buffers.set_flag(*pattern, BYTES, found));
        let mut strings = std::mem::take(&mut buffers.strings);
        buffers.reset_starts();
        self.strings.search(text, &mut strings, |pattern, start| {
            if pattern & SECOND_OWNER != 0 {
                return buffers.set_flag(pattern & !SECOND_OWNER, SECOND, found);
            }
            buffers.record_start(pattern, start);
            let min_counts = self.min_counts.get(pattern as usize).copied().unwrap_or(1);
            if min_counts <= 1 || buffers.count(pattern) >= min_counts {
                buffers.set_flag(pattern, STRING, found);
            }
        });
        buffers.reset_counts();
        buffers.strings = strings;
        self.shift_and.search(text, |pattern| buffers.set_flag(pattern, SEQUENCE, found));
        // With few patterns it is quicker to search for each set: its bytes are often near the
        // beginning.
        let bytes = (self.required_sets.len() > REQUIRED_SETS_FEW).then(|| ByteSet::of_text(text));
        for required_sets in &self.required_sets {
            let has = |set: &ByteSet| bytes.map_or_else(|| set.is_in(text), |all| set.meets(&all));
            if required_sets.sets.iter().all(has) {
                buffers.set_flag(required_sets.pattern, BYTES, found);
            }
        }
        found.retain(|pattern| {
            let need = self.needs.get(*pattern as usize).copied().unwrap_or(BYTES);
            buffers.take(*pattern) & need == need
        });
        // Strings, sequences and sets are found in an order of their own; hits are in that of
        // rules.
        found.sort_unstable();
    }

    /// The first position where a match of this pattern may begin, in the text that was searched
    /// last.
    pub(crate) fn start(&self, pattern: u32, text: &[u8], buffers: &Buffers) -> usize {
        let first = buffers.starts.get(pattern as usize).copied().unwrap_or(NOWHERE);
        let prefix_limit =
            self.prefix_limit.get(pattern as usize).copied().unwrap_or(PrefixLimit::Unlimited);
        // Only strings that must be there bound the start.
        if first == NOWHERE { 0 } else { prefix_limit.start(text, first as usize) }
    }

    /// Patterns without a string or sequence of their own.
    pub(crate) fn without_strings(&self) -> impl Iterator<Item = u32> + '_ {
        self.always.iter().copied().chain(self.required_sets.iter().map(|g| g.pattern))
    }
}

/// What was found in a text; one for each thread.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// For each pattern, what of it was found: [`STRING`] and the other flags.
    flags: Vec<u8>,
    /// Number of strings found, by pattern; and the patterns with a count.
    counts: Vec<u16>,
    counted: Vec<u32>,
    /// Start of the first string of each pattern, and the patterns with one.
    starts: Vec<u32>,
    started: Vec<u32>,
    strings: StringBuffers,
}

impl Buffers {
    /// Sets a flag of a pattern; with its first flag it is added to `found`.
    fn set_flag(&mut self, pattern: u32, flag: u8, found: &mut Vec<u32>) {
        let at = pattern as usize;
        if self.flags.len() <= at {
            self.flags.resize(at + 1, 0);
        }
        if self.flags[at] == 0 {
            found.push(pattern);
        }
        self.flags[at] |= flag;
    }

    /// Records where a string of a pattern begins.
    fn record_start(&mut self, pattern: u32, start: usize) {
        let at = pattern as usize;
        if self.starts.len() <= at {
            self.starts.resize(at + 1, NOWHERE);
        }
        if self.starts[at] == NOWHERE {
            self.started.push(pattern);
        }
        self.starts[at] = self.starts[at].min(u32::try_from(start).unwrap_or(NOWHERE - 1));
    }

    fn reset_starts(&mut self) {
        for pattern in self.started.drain(..) {
            self.starts[pattern as usize] = NOWHERE;
        }
    }

    /// Counts a string of a pattern and returns the count.
    fn count(&mut self, pattern: u32) -> u16 {
        let at = pattern as usize;
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        if self.counts[at] == 0 {
            self.counted.push(pattern);
        }
        self.counts[at] = self.counts[at].saturating_add(1);
        self.counts[at]
    }

    fn reset_counts(&mut self) {
        for pattern in self.counted.drain(..) {
            self.counts[pattern as usize] = 0;
        }
    }

    /// Takes the flags of a pattern, which are cleared.
    fn take(&mut self, pattern: u32) -> u8 {
        self.flags.get_mut(pattern as usize).map_or(0, std::mem::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One for each strategy: strings, counted strings, sequences, sets of bytes, none.
    const PATTERNS: [&str; 18] = [
        r"\bwire\s+transfer\b",
        r"(?i)viagra|cialis",
        r"(?i)\bv.{0,2}i.{0,2}a.{0,2}g.{0,2}r.{0,2}a\b",
        r"(?:free!\s*){3,}",
        r"\d{3}-\d{4}",
        r"\$[\d,]{5,}",
        r"[A-Z]{7,}",
        r"^dear (?:friend|winner)",
        r"unsubscribe.{0,40}here",
        r"(?i)[a@]cc[o0]unt",
        r"(?<!no )refund",
        r"(\w)\1\1\1",
        r"x*",
        r"winner$",
        r"(?i)click\W+here",
        r"[\x80-\xff]{3}",
        r"https?://\d+\.\d+",
        r"a|b",
    ];
    const WORDS: [&str; 22] = [
        "wire",
        "transfer",
        "Viagra",
        "v-i-a-g-r-a",
        "free! ",
        "free!free! free!",
        "555-1234",
        "$1,000,000",
        "URGENTLY",
        "dear friend",
        "dear winner",
        "unsubscribe",
        "here",
        "ACC0UNT",
        "no refund",
        "refund",
        "aaaa",
        "winner",
        "CLICK - here",
        "\u{20ac}uro",
        "http://192.0",
        "\n",
    ];

    /// xorshift64*: small, and the same everywhere.
    fn below(state: &mut u64, n: usize) -> usize {
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }

    #[test]
    fn with_and_without_the_prefilter_the_same_matches_are_found() {
        let patterns: Vec<Pattern> =
            PATTERNS.iter().map(|text| Pattern::new(text).expect("a good pattern")).collect();
        let (mut state, mut buffers, mut found) = (1, Buffers::default(), Vec::new());
        let mut matches = vec![0; patterns.len()];
        for texts in [TextKind::Mail, TextKind::Raw] {
            for is_tried in [true, false] {
                let filter = Prefilter::on(texts, patterns.iter().map(|p| (p, is_tried)));
                for _ in 0..500 {
                    let words = (0..below(&mut state, 12)).map(|_| {
                        let space = ["", " ", "  "][below(&mut state, 3)];
                        format!("{}{space}", WORDS[below(&mut state, WORDS.len())])
                    });
                    let text = words.collect::<String>().into_bytes();
                    filter.search(&text, &mut buffers, &mut found);
                    for (number, pattern) in (0..).zip(&patterns) {
                        let without = pattern.find_with(&text, 0, None).expect("in the budget");
                        let with = found.contains(&number).then(|| {
                            let start = filter.start(number, &text, &buffers);
                            pattern.find_with(&text, start, None).expect("in the budget")
                        });
                        let shown = String::from_utf8_lossy(&text);
                        assert_eq!(
                            with.flatten(),
                            without,
                            "{} in {shown:?}",
                            PATTERNS[number as usize]
                        );
                        matches[number as usize] += usize::from(without.is_some());
                    }
                }
            }
        }
        assert!(matches.iter().all(|n| *n > 0), "each pattern matched some text: {matches:?}");
    }
}
