//! One pass over a text that says which patterns are worth trying on it.
//!
//! Most patterns need one of a few rare strings: these are looked for all at once. Words with
//! gaps or look-alike letters, runs of letters and numbers have none; their rows of byte sets are looked
//! for all at once. The rest is tried if the text has the bytes that it needs.

use std::collections::BTreeMap;

use super::rows::Rows;
use super::strings::{StringBuffers, Strings};
use crate::pattern::literal::{Before, Texts};
use crate::pattern::sequence::{self, Row};
use crate::pattern::syntax::{ByteSet, Node};
use crate::pattern::{Pattern, literal};

/// A pattern whose strings begin at more than this share of the bytes of ordinary text is not worth
/// looking for by its strings.
const CHANCE_MAX: f64 = 2e-4;

/// A row that is found at more than this share of bytes is not worth looking for.
const ROW_CHANCE_MAX: f64 = 0.03;

/// Fewer rows are not worth a step for each byte: their patterns are tried if the text has the bytes they need.
const ROWS_MIN: usize = 4;

/// So few patterns look for the bytes that they need each by itself.
const GATED_FEW: usize = 8;

/// Fewest repetitions that are counted: fewer are often there by chance.
const TIMES_MIN: u32 = 3;
/// More are not counted.
const TIMES_MAX: u32 = 100;
/// Strings of something repeated are not counted if they begin at more than this share of bytes.
const COUNTED_CHANCE_MAX: f64 = 2e-3;

/// Most threads that prepare patterns.
const THREADS_MAX: usize = 8;
/// Fewer patterns are not worth a thread.
const PATTERNS_PER_THREAD_MIN: usize = 64;

/// Strings that are looked for beside the rarest ones begin at no more than this share of bytes.
const SECOND_CHANCE_MAX: f64 = 2e-4;
/// Marks an owner of strings: they are the pattern's second ones.
const SECOND_OWNER: u32 = 1 << 31;

/// What was found of a pattern: one of its strings.
const STRING: u8 = 1;
/// Its row.
const ROW: u8 = 2;
/// One of its second strings.
const SECOND: u8 = 8;
/// Bytes of each of its sets, or that it needs nothing.
const BYTES: u8 = 4;

/// Looks for what patterns need.
#[derive(Debug)]
pub(crate) struct Prefilter {
    strings: Strings,
    rows: Rows,
    /// Patterns without strings and rows.
    gated: Vec<Gated>,
    /// Patterns that must be tried on every text.
    always: Vec<u32>,
    /// What of each pattern must be found, as flags.
    needs: Vec<u8>,
    /// How often strings of each pattern must be found.
    least: Vec<u16>,
    /// How much of a match may stand before the first string of each pattern.
    before: Vec<Before>,
}

/// There are no strings.
const NOWHERE: u32 = u32::MAX;

/// A pattern, and the sets of each of which it needs a byte.
#[derive(Debug)]
struct Gated {
    pattern: u32,
    sets: Vec<ByteSet>,
}

/// How a pattern is looked for.
enum Way {
    Strings(Vec<Vec<u8>>),
    Row(Row),
    /// So many of the strings, and perhaps the row.
    Counted(Vec<Vec<u8>>, u16, Option<Row>),
    Gated(Vec<ByteSet>),
    Always,
}

fn way(node: Option<&Node>, texts: Texts) -> Way {
    let Some(node) = node else { return Way::Always };
    if let Some(strings) = literal::required(node, CHANCE_MAX, texts) {
        return Way::Strings(strings.strings);
    }
    let row = sequence::rarest_row(node).filter(|row| row.chance <= ROW_CHANCE_MAX);
    if let Some((strings, times)) = literal::repeated(node, TIMES_MIN, COUNTED_CHANCE_MAX, texts) {
        return Way::Counted(strings.strings, times.min(TIMES_MAX) as u16, row);
    }
    if let Some(row) = row {
        return Way::Row(row);
    }
    by_bytes(node)
}

/// By the bytes that it needs.
fn by_bytes(node: &Node) -> Way {
    let sets = literal::required_sets(node);
    if sets.is_empty() { Way::Always } else { Way::Gated(sets) }
}

/// How a pattern is looked for.
struct Look {
    way: Way,
    /// Strings that must be there too. A pattern that is put off where it might match is seldom tried,
    /// so that they would not pay for themselves.
    second: Option<literal::Strings>,
    /// What may stand before the first string.
    before: Before,
}

fn look((pattern, is_tried): (&Pattern, bool), texts: Texts) -> Look {
    let way = way(pattern.node(), texts);
    let before = match (&way, pattern.node()) {
        (Way::Strings(strings), Some(node)) => Before::of(node, strings, texts),
        _ => Before::Any,
    };
    let second = match (&way, pattern.node()) {
        (Way::Strings(first), Some(node)) if is_tried => {
            literal::second(node, first, SECOND_CHANCE_MAX, texts)
        }
        _ => None,
    };
    Look { way, second, before }
}

/// How each pattern is looked for. Large patterns take a while, so the CPUs share them.
fn looks(patterns: &[(&Pattern, bool)], texts: Texts) -> Vec<Look> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let share = patterns.len().div_ceil(threads).max(PATTERNS_PER_THREAD_MIN);
    std::thread::scope(|scope| {
        let work = |part: &[(&Pattern, bool)]| -> Vec<_> {
            part.iter().map(|p| look(*p, texts)).collect()
        };
        let threads: Vec<_> =
            patterns.chunks(share).map(|part| scope.spawn(move || work(part))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<_>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let mut looks: Vec<Look> = threads.into_iter().flat_map(join).collect();
        without_few_rows(&mut looks, patterns);
        looks
    })
}

/// Gives up rows if there are but a few.
fn without_few_rows(looks: &mut [Look], patterns: &[(&Pattern, bool)]) {
    let has_row = |look: &&Look| matches!(look.way, Way::Row(_) | Way::Counted(_, _, Some(_)));
    if looks.iter().filter(has_row).count() >= ROWS_MIN {
        return;
    }
    for (look, (pattern, _)) in looks.iter_mut().zip(patterns) {
        match (&mut look.way, pattern.node()) {
            (Way::Counted(_, _, row), _) => *row = None,
            (Way::Row(_), Some(node)) => look.way = by_bytes(node),
            _ => {}
        }
    }
}

impl Prefilter {
    /// Collects what these patterns need; they are numbered in order.
    pub(crate) fn new<'p>(patterns: impl Iterator<Item = &'p Pattern>) -> Self {
        Self::on(Texts::Mail, patterns.map(|pattern| (pattern, true)))
    }

    /// The same for texts of this kind; beside each pattern stands whether it is tried wherever it may
    /// match.
    pub(crate) fn on<'p>(
        texts: Texts,
        patterns: impl Iterator<Item = (&'p Pattern, bool)>,
    ) -> Self {
        let patterns: Vec<(&Pattern, bool)> = patterns.collect();
        let (mut strings, mut rows) = (BTreeMap::new(), Vec::new());
        let mut needs = Vec::with_capacity(patterns.len());
        let mut least = vec![1; patterns.len()];
        let (mut gated, mut always) = (Vec::new(), Vec::new());
        let mut before = Vec::with_capacity(patterns.len());
        for (look, number) in looks(&patterns, texts).into_iter().zip(0u32..) {
            let Look { way, second, before: of_this } = look;
            before.push(of_this);
            let (mut need, found, row) = match way {
                Way::Strings(found) => (STRING, found, None),
                Way::Counted(found, times, row) => {
                    if let Some(least) = least.get_mut(number as usize) {
                        *least = times;
                    }
                    let need = if row.is_some() { STRING | ROW } else { STRING };
                    (need, found, row)
                }
                Way::Row(row) => (ROW, Vec::new(), Some(row)),
                Way::Gated(sets) => {
                    gated.push(Gated { pattern: number, sets });
                    (BYTES, Vec::new(), None)
                }
                Way::Always => {
                    always.push(number);
                    (BYTES, Vec::new(), None)
                }
            };
            for string in second.into_iter().flatten() {
                need |= SECOND;
                strings.entry(string).or_insert_with(Vec::new).push(number | SECOND_OWNER);
            }
            needs.push(need);
            rows.extend(row.map(|row| (row, number)));
            for string in found {
                strings.entry(string).or_insert_with(Vec::new).push(number);
            }
        }
        let times = |owner: u32| match owner & SECOND_OWNER {
            0 => least.get(owner as usize).copied().unwrap_or(1),
            _ => 1,
        };
        let chance = |bytes: &[u8]| literal::string_chance(bytes, texts);
        let (strings, too_short) = Strings::new(strings, chance, times);
        for number in too_short {
            // Not all of its strings are looked for: those that are do not say where it begins.
            if let Some(before) = before.get_mut(number as usize & !(SECOND_OWNER as usize)) {
                *before = Before::Any;
            }
            if let Some(need) = needs.get_mut(number as usize)
                && *need & STRING != 0
            {
                *need = BYTES;
                always.push(number);
            }
        }
        Prefilter { strings, rows: Rows::new(rows), gated, always, needs, least, before }
    }

    /// Puts into `found` the patterns that may match `text`, each once, in order.
    pub(crate) fn search(&self, text: &[u8], buffers: &mut Buffers, found: &mut Vec<u32>) {
        found.clear();
        self.always.iter().for_each(|pattern| buffers.mark(*pattern, BYTES, found));
        let mut strings = std::mem::take(&mut buffers.strings);
        buffers.forget_starts();
        self.strings.search(text, &mut strings, |pattern, start| {
            if pattern & SECOND_OWNER != 0 {
                return buffers.mark(pattern & !SECOND_OWNER, SECOND, found);
            }
            buffers.begin(pattern, start);
            let least = self.least.get(pattern as usize).copied().unwrap_or(1);
            if least <= 1 || buffers.count(pattern) >= least {
                buffers.mark(pattern, STRING, found);
            }
        });
        buffers.forget_counts();
        buffers.strings = strings;
        self.rows.search(text, |pattern| buffers.mark(pattern, ROW, found));
        // What a pattern needs often stands at the beginning.
        let bytes = (self.gated.len() > GATED_FEW).then(|| ByteSet::of_text(text));
        for gated in &self.gated {
            let has = |set: &ByteSet| bytes.map_or_else(|| set.is_in(text), |all| set.meets(&all));
            if gated.sets.iter().all(has) {
                buffers.mark(gated.pattern, BYTES, found);
            }
        }
        found.retain(|pattern| {
            let need = self.needs.get(*pattern as usize).copied().unwrap_or(BYTES);
            buffers.take(*pattern) & need == need
        });
        found.sort_unstable();
    }

    /// Where in the text, which was searched last, the first match of a pattern that was found may begin.
    pub(crate) fn start(&self, pattern: u32, text: &[u8], buffers: &Buffers) -> usize {
        let first = buffers.starts.get(pattern as usize).copied().unwrap_or(NOWHERE);
        let before = self.before.get(pattern as usize).copied().unwrap_or(Before::Any);
        // Only strings that must be there say where.
        if first == NOWHERE { 0 } else { before.start(text, first as usize) }
    }

    /// Patterns without a string of their own.
    pub(crate) fn without_strings(&self) -> impl Iterator<Item = u32> + '_ {
        self.always.iter().copied().chain(self.gated.iter().map(|g| g.pattern))
    }
}

/// What was found in a text, of one thread.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// Flags by pattern.
    seen: Vec<u8>,
    /// How often strings were found, by pattern; and the patterns with a count.
    counts: Vec<u16>,
    counted: Vec<u32>,
    /// Where the first string of each pattern begins, and the patterns with one.
    starts: Vec<u32>,
    started: Vec<u32>,
    strings: StringBuffers,
}

impl Buffers {
    /// Notes a flag of a pattern, which joins `found` with its first.
    fn mark(&mut self, pattern: u32, flag: u8, found: &mut Vec<u32>) {
        let at = pattern as usize;
        if self.seen.len() <= at {
            self.seen.resize(at + 1, 0);
        }
        if self.seen[at] == 0 {
            found.push(pattern);
        }
        self.seen[at] |= flag;
    }

    /// Notes where a string of a pattern begins.
    fn begin(&mut self, pattern: u32, start: usize) {
        let at = pattern as usize;
        if self.starts.len() <= at {
            self.starts.resize(at + 1, NOWHERE);
        }
        if self.starts[at] == NOWHERE {
            self.started.push(pattern);
        }
        self.starts[at] = self.starts[at].min(u32::try_from(start).unwrap_or(NOWHERE - 1));
    }

    fn forget_starts(&mut self) {
        for pattern in self.started.drain(..) {
            self.starts[pattern as usize] = NOWHERE;
        }
    }

    /// Counts a string of a pattern: how many there are now.
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

    fn forget_counts(&mut self) {
        for pattern in self.counted.drain(..) {
            self.counts[pattern as usize] = 0;
        }
    }

    /// The flags of a pattern, which are forgotten.
    fn take(&mut self, pattern: u32) -> u8 {
        self.seen.get_mut(pattern as usize).map_or(0, std::mem::take)
    }
}
