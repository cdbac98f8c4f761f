//! The experiment of the paper on threat management (2012): share out messages, or patterns?
//!
//! *Flow-based*: each CPU takes a message of its own and looks for all patterns in it.
//! *Pattern-based*: all CPUs work on one message, the patterns are shared out: in equal parts
//! (static), in pieces of five to the thread that is free (dynamic), or in pieces that become
//! smaller, of two at least (guided), as OpenMP names these schedules.
//!
//! Two programs do the job: the paper's own algorithm (for every word of the list the message is
//! searched; every occurrence adds the word's probability), and our engine, in which the words are
//! rules (its pieces are rulesets of their own). The paper says 80 packets of 1,000 bytes; its list
//! is not published: words and packets here come from a generator that is the same everywhere.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use gauntlet_engine::random::Random;
use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_rules::LoadOptions;
use gauntlet_spamassassin::{RulesScratch, Ruleset};
use serde::Serialize;

use crate::load::trial::{Estimate, ROUNDS_MAX};
use crate::machine::Manifest;
use crate::topology::{Topology, run_on};

/// Messages (the paper's packets).
pub(crate) const PACKETS: usize = 80;
const PACKET_BYTES: usize = 1_000;
/// Patterns of a piece, of the paper.
const DYNAMIC_CHUNK: usize = 5;
const GUIDED_CHUNK: usize = 2;
/// Patterns at most: each piece of them is a ruleset of its own.
pub const PATTERNS_MAX: usize = 20_000;
/// CPUs that share the work, at most.
const CPUS_MAX: usize = 64;
/// Turns of a waiting thread before it lets others run.
const SPINS: u32 = 2_000;

/// How the work is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// A message a CPU.
    Flow,
    /// All CPUs on one message; the patterns in equal parts.
    Static,
    /// In pieces of five.
    Dynamic,
    /// In pieces that become smaller, of two at least.
    Guided,
}

/// All ways of sharing, in the order of the report.
pub const SHARINGS: [Sharing; 4] =
    [Sharing::Flow, Sharing::Static, Sharing::Dynamic, Sharing::Guided];

/// What does the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    /// The algorithm of the paper, without an engine around it.
    Paper,
    /// Our engine, the words as rules.
    Engine,
}

/// What is measured: patterns, time and rounds.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Number of words that are searched for.
    pub patterns: usize,
    /// Time of a run.
    pub time: Duration,
    /// Runs of each, in turn.
    pub rounds: u32,
}

/// Messages a second of one way to share out.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// The program that searched.
    pub program: Program,
    /// How the work was shared out.
    pub sharing: Sharing,
    /// CPUs that the threads ran on.
    pub cpus: usize,
    /// How they lie to each other.
    pub place: String,
    /// Messages searched a second; the paper calls them packets.
    pub messages_per_second: Estimate,
    /// Over those of static sharing with as many CPUs, by round.
    pub over_static: Option<Estimate>,
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Number of words that are searched for.
    pub patterns: usize,
    /// CPUs, cores and sockets of the machine, in words.
    pub topology: String,
    /// By program, CPUs, sharing.
    pub cells: Vec<Cell>,
    /// CPUs of different cores over CPUs of one core, by their number, flow-based, the paper's
    /// algorithm.
    pub other_cores_over_same: Vec<(usize, Estimate)>,
    /// What could not be measured, and why.
    pub missing: Vec<String>,
    /// The machine and the program that the figures are of.
    pub manifest: Manifest,
}

/// Words with their probabilities, and messages.
pub(crate) struct Job {
    pub(crate) words: Vec<(Vec<u8>, f64)>,
    pub(crate) messages: Vec<Vec<u8>>,
}

/// Makes up words to search for.
struct Vocabulary(Random);

impl Vocabulary {
    fn below(&mut self, limit: usize) -> usize {
        self.0.below(u32::try_from(limit).unwrap_or(u32::MAX)) as usize
    }

    fn word(&mut self) -> Vec<u8> {
        let (hard, soft) = (b"bcdfghklmnprstvz", b"aeiou");
        let syllables = 2 + self.below(3);
        let mut word = Vec::new();
        for _ in 0..syllables {
            word.push(hard[self.below(hard.len())]);
            word.push(soft[self.below(soft.len())]);
        }
        word
    }
}

impl Job {
    pub(crate) fn new(patterns: usize) -> Self {
        let mut numbers = Vocabulary(Random::new(1));
        let mut vocabulary: Vec<Vec<u8>> = Vec::new();
        let mut known = std::collections::BTreeSet::new();
        // Every other word of what is written is one that is looked for.
        while vocabulary.len() < patterns * 2 {
            let word = numbers.word();
            let word =
                if known.insert(word.clone()) { word } else { [word, numbers.word()].concat() };
            known.insert(word.clone());
            vocabulary.push(word);
        }
        let words = vocabulary.iter().step_by(2).cloned();
        let words = words.map(|word| (word, (1 + numbers.below(99)) as f64 / 100.0)).collect();
        let mut message = || {
            let mut text = Vec::with_capacity(PACKET_BYTES);
            while text.len() < PACKET_BYTES {
                text.extend_from_slice(&vocabulary[numbers.below(vocabulary.len())]);
                text.push(if text.len() % 60 > 50 { b'\n' } else { b' ' });
            }
            text.truncate(PACKET_BYTES);
            text
        };
        let messages = (0..PACKETS).map(|_| message()).collect();
        Job { words, messages }
    }
}

/// Pieces of the patterns, by number: from, to.
pub(crate) fn pieces(sharing: Sharing, patterns: usize, cpus: usize) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    let mut from = 0;
    while from < patterns {
        let left = patterns - from;
        let size = match sharing {
            Sharing::Flow => left,
            Sharing::Static => left.div_ceil(cpus - out.len().min(cpus - 1)),
            Sharing::Dynamic => DYNAMIC_CHUNK,
            Sharing::Guided => left.div_ceil(cpus).max(GUIDED_CHUNK),
        };
        let to = (from + size).min(patterns);
        out.push((from, to));
        from = to;
    }
    out
}

/// Looks for a piece of the patterns in a message.
pub(crate) trait Search: Sync {
    /// What a thread keeps.
    type Scratch: Default;
    /// All begin with the next message.
    fn begin(&self) {}
    /// The sum of what was found.
    fn search(&self, message: usize, piece: usize, scratch: &mut Self::Scratch) -> f64;
    fn pieces(&self) -> usize;
}

/// The paper's algorithm: each piece of patterns is searched on its own.
pub(crate) struct Words<'a> {
    pub(crate) job: &'a Job,
    pub(crate) messages: &'a [Vec<u8>],
    pub(crate) pieces: Vec<(usize, usize)>,
}

impl Search for Words<'_> {
    type Scratch = ();

    fn search(&self, message: usize, piece: usize, (): &mut ()) -> f64 {
        let text = self.messages.get(message).map_or(&[][..], Vec::as_slice);
        let (from, to) = self.pieces.get(piece).copied().unwrap_or_default();
        let words = self.job.words.get(from..to).unwrap_or_default();
        let found = |(word, probability): &(Vec<u8>, f64)| {
            memchr::memmem::find_iter(text, word).count() as f64 * probability
        };
        words.iter().map(found).sum()
    }

    fn pieces(&self) -> usize {
        self.pieces.len()
    }
}

/// Our engine: a ruleset for each piece.
struct Rules<'a> {
    messages: &'a [Vec<u8>],
    rulesets: Vec<Ruleset>,
}

impl<'a> Rules<'a> {
    fn new(job: &Job, messages: &'a [Vec<u8>], pieces: &[(usize, usize)]) -> anyhow::Result<Self> {
        let ruleset = |(from, to): &(usize, usize)| {
            let mut text = String::new();
            let words = job.words.get(*from..*to).unwrap_or_default();
            for (number, (word, probability)) in words.iter().enumerate() {
                let (name, word) = (from + number, String::from_utf8_lossy(word));
                text.push_str(&format!("body W{name} /{word}/\nscore W{name} {probability}\n"));
            }
            let loaded = Ruleset::from_bytes(text.as_bytes(), &LoadOptions::default());
            Ok(loaded.context("the words are no rules")?.0)
        };
        let rulesets = pieces.iter().map(ruleset).collect::<anyhow::Result<_>>()?;
        Ok(Rules { messages, rulesets })
    }
}

impl Search for Rules<'_> {
    type Scratch = RulesScratch;

    fn search(&self, message: usize, piece: usize, scratch: &mut RulesScratch) -> f64 {
        let raw = self.messages.get(message).map_or(&[][..], Vec::as_slice);
        let message = Message::parse(raw);
        let (envelope, facts) = (Envelope::default(), Facts::default());
        let Some(rules) = self.rulesets.get(piece) else { return 0.0 };
        rules.scan(&message, &envelope, &facts, 0, scratch).score
    }

    fn pieces(&self) -> usize {
        self.rulesets.len()
    }
}

/// Measures. `progress` hears what is done.
///
/// # Errors
/// Settings that make no sense, or sharings whose sums differ, which would make the figures
/// worthless.
pub fn run(
    options: &Options,
    version: &str,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Report> {
    if options.patterns == 0 || options.patterns > PATTERNS_MAX || options.time.is_zero() {
        bail!("1 to {PATTERNS_MAX} patterns, and more than no time");
    }
    let topology = Topology::here()?;
    let job = Job::new(options.patterns);
    let head = b"From: a@paper.example\r\nSubject: x\r\n\r\n";
    let mails: Vec<Vec<u8>> = job.messages.iter().map(|text| [&head[..], text].concat()).collect();
    let (mut cells, mut missing) = (Vec::new(), Vec::new());
    let most = topology.cpus.len().min(CPUS_MAX);
    for program in [Program::Paper, Program::Engine] {
        for cpus in 1..=most {
            progress(&format!("{program:?}, {cpus} CPUs"));
            let place = topology.numbers().into_iter().take(cpus).collect::<Vec<_>>();
            cells.extend(row(options, &job, &mails, program, &place)?);
        }
    }
    if most < PAPER.len() {
        missing.push(format!("{} CPUs and more: {}", most + 1, topology.describe()));
    }
    let other_cores_over_same = places(options, &job, &topology, &mut missing)?;
    Ok(Report {
        patterns: options.patterns,
        topology: topology.describe(),
        cells,
        other_cores_over_same,
        missing,
        manifest: Manifest::here(version),
    })
}

/// All ways to share out on these CPUs.
fn row(
    options: &Options,
    job: &Job,
    mails: &[Vec<u8>],
    program: Program,
    cpus: &[usize],
) -> anyhow::Result<Vec<Cell>> {
    let count = cpus.len();
    let pieces = SHARINGS.map(|sharing| pieces(sharing, options.patterns, count));
    let mut rates: BTreeMap<Sharing, Vec<f64>> = BTreeMap::new();
    let mut sums: Vec<f64> = Vec::new();
    match program {
        Program::Paper => {
            let messages = job.messages.as_slice();
            let searches = pieces.map(|pieces| Words { job, messages, pieces });
            measure(options, &searches, cpus, &mut rates, &mut sums)?;
        }
        Program::Engine => {
            let searches = pieces.iter().map(|pieces| Rules::new(job, mails, pieces));
            let searches: Vec<_> = searches.collect::<anyhow::Result<_>>()?;
            measure(options, &searches, cpus, &mut rates, &mut sums)?;
        }
    }
    let first = sums.first().copied().unwrap_or(0.0);
    if let Some(other) = sums.iter().find(|sum| (**sum - first).abs() > 1e-6 * first.abs().max(1.0))
    {
        bail!("sharings disagree about a message: {first} and {other}");
    }
    let equal = rates.get(&Sharing::Static).cloned().unwrap_or_default();
    let cell = |(sharing, rates): (Sharing, Vec<f64>)| {
        let pairs: Vec<_> = rates.iter().copied().zip(equal.iter().copied()).collect();
        Ok(Cell {
            program,
            sharing,
            cpus: count,
            place: format!("{cpus:?}"),
            messages_per_second: Estimate::of(&rates).context("no run was made")?,
            over_static: Estimate::ratio(&pairs).filter(|_| sharing > Sharing::Static),
        })
    };
    rates.into_iter().map(cell).collect()
}

/// Round after round, each sharing once; `sums` are those of the first message.
fn measure<S: Search>(
    options: &Options,
    searches: &[S],
    cpus: &[usize],
    rates: &mut BTreeMap<Sharing, Vec<f64>>,
    sums: &mut Vec<f64>,
) -> anyhow::Result<()> {
    for search in searches {
        let mut scratch = S::Scratch::default();
        sums.push((0..search.pieces()).map(|piece| search.search(0, piece, &mut scratch)).sum());
    }
    rates.extend(SHARINGS.into_iter().zip(self::rates(
        options.time,
        options.rounds,
        searches,
        cpus,
    )?));
    Ok(())
}

/// Messages a second, by round, of each of [`SHARINGS`].
pub(crate) fn rates<S: Search>(
    time: Duration,
    rounds: u32,
    searches: &[S],
    cpus: &[usize],
) -> anyhow::Result<Vec<Vec<f64>>> {
    let mut rates = vec![Vec::new(); SHARINGS.len()];
    for _ in 0..rounds.clamp(1, ROUNDS_MAX) {
        for ((sharing, search), rates) in SHARINGS.iter().zip(searches).zip(&mut rates) {
            let count = match sharing {
                Sharing::Flow => flow(search, cpus, time)?,
                _ => together(search, *sharing == Sharing::Static, cpus, time)?,
            };
            rates.push(count as f64 / time.as_secs_f64());
        }
    }
    Ok(rates)
}

/// Each CPU takes messages of its own; how many there were.
fn flow<S: Search>(search: &S, cpus: &[usize], time: Duration) -> anyhow::Result<u64> {
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let start = Instant::now();
    let worker = |cpu: usize| -> anyhow::Result<()> {
        run_on(&[cpu])?;
        let mut scratch = S::Scratch::default();
        while start.elapsed() < time {
            let message = next.fetch_add(1, Ordering::Relaxed) % PACKETS;
            for piece in 0..search.pieces() {
                std::hint::black_box(search.search(message, piece, &mut scratch));
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    on_each(cpus, &worker)?;
    Ok(done.load(Ordering::Relaxed))
}

/// All CPUs work on one message after the other; how many there were. `equal`: a part for each CPU,
/// else the thread that is free takes the next.
fn together<S: Search>(
    search: &S,
    equal: bool,
    cpus: &[usize],
    time: Duration,
) -> anyhow::Result<u64> {
    let barrier = Barrier::new(cpus.len());
    let (next, done, stop) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let leader = cpus.first().copied();
    let start = Instant::now();
    let worker = |cpu: usize| -> anyhow::Result<()> {
        // Who cannot be pinned works where it is: to leave would keep the others waiting for ever.
        let pinned = run_on(&[cpu]);
        let own = cpus.iter().position(|c| *c == cpu).unwrap_or(0);
        let mut scratch = S::Scratch::default();
        loop {
            barrier.wait();
            if stop.load(Ordering::Acquire) {
                return Ok(pinned?);
            }
            let message = (done.load(Ordering::Relaxed) % PACKETS as u64) as usize;
            let mut piece = if equal { own } else { next.fetch_add(1, Ordering::Relaxed) };
            while piece < search.pieces() {
                std::hint::black_box(search.search(message, piece, &mut scratch));
                piece = if equal { usize::MAX } else { next.fetch_add(1, Ordering::Relaxed) };
            }
            barrier.wait();
            if Some(cpu) == leader {
                search.begin();
                next.store(0, Ordering::Relaxed);
                done.fetch_add(1, Ordering::Relaxed);
                stop.store(start.elapsed() >= time, Ordering::Release);
            }
        }
    };
    on_each(cpus, &worker)?;
    Ok(done.load(Ordering::Relaxed))
}

fn on_each(
    cpus: &[usize],
    worker: &(dyn Fn(usize) -> anyhow::Result<()> + Sync),
) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = cpus.iter().map(|cpu| scope.spawn(|| worker(*cpu))).collect();
        for thread in threads {
            thread.join().map_err(|_| anyhow::anyhow!("a thread of the experiment failed"))??;
        }
        Ok(())
    })
}

/// Where all wait for the last, as OpenMP's threads do: turning, then letting others run.
struct Barrier {
    count: usize,
    waiting: AtomicUsize,
    generation: AtomicUsize,
}

impl Barrier {
    fn new(count: usize) -> Self {
        Barrier { count, waiting: AtomicUsize::new(0), generation: AtomicUsize::new(0) }
    }

    fn wait(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.count {
            self.waiting.store(0, Ordering::Relaxed);
            self.generation.store(generation.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut spins = 0;
        while self.generation.load(Ordering::Acquire) == generation {
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}

/// CPUs of different cores beside CPUs of one core, where this machine has both.
fn places(
    options: &Options,
    job: &Job,
    topology: &Topology,
    missing: &mut Vec<String>,
) -> anyhow::Result<Vec<(usize, Estimate)>> {
    let mut found = Vec::new();
    for count in 2..=4 {
        let (same, other) = match (topology.same_core(count), topology.other_cores(count)) {
            (Ok(same), Ok(other)) => (same, other),
            (Err(why), _) | (_, Err(why)) => {
                missing.push(format!("{count} CPUs of one core beside different cores: {why}"));
                continue;
            }
        };
        let pieces = pieces(Sharing::Flow, options.patterns, count);
        let search = Words { job, messages: &job.messages, pieces };
        let mut pairs = Vec::new();
        for _ in 0..options.rounds.clamp(1, ROUNDS_MAX) {
            let other = flow(&search, &other.cpus, options.time)? as f64;
            pairs.push((other, flow(&search, &same.cpus, options.time)? as f64));
        }
        found.extend(Estimate::ratio(&pairs).map(|ratio| (count, ratio)));
    }
    Ok(found)
}

/// The paper's packets/s by CPUs: flow-based, pattern-based.
pub const PAPER: [(f64, f64); 6] = [
    (440.92, 475.70),
    (733.68, 747.58),
    (900.39, 791.56),
    (935.67, 828.92),
    (1_248.05, 951.85),
    (1_471.67, 992.97),
];

/// The paper's gain of CPUs of different cores over CPUs of one core (URL filter), by their number.
pub const PAPER_PLACES: [(usize, f64); 3] = [(2, 1.05), (3, 1.12), (4, 1.24)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_all_patterns_once() {
        for sharing in SHARINGS {
            for patterns in [1, 2, 7, 100] {
                for cpus in [1, 2, 3, 6] {
                    let pieces = pieces(sharing, patterns, cpus);
                    let all: Vec<usize> = pieces.iter().flat_map(|(a, b)| *a..*b).collect();
                    assert_eq!(all, (0..patterns).collect::<Vec<_>>(), "{sharing:?}");
                    match sharing {
                        Sharing::Flow => assert_eq!(pieces.len(), 1),
                        Sharing::Static => assert!(pieces.len() <= cpus, "{pieces:?}"),
                        Sharing::Dynamic => assert!(pieces.iter().all(|(a, b)| b - a <= 5)),
                        Sharing::Guided => {
                            let sizes: Vec<usize> = pieces.iter().map(|(a, b)| b - a).collect();
                            assert!(sizes.windows(2).all(|w| w[1] <= w[0]), "{sizes:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_sharing_finds_the_same() {
        let options = Options { patterns: 60, time: Duration::from_millis(30), rounds: 2 };
        let report = run(&options, "0", &mut |_| {}).unwrap();
        let cpus = Topology::here().unwrap().cpus.len().min(CPUS_MAX);
        assert_eq!(report.cells.len(), 2 * 4 * cpus);
        for cell in &report.cells {
            assert!(cell.messages_per_second.mean > 0.0, "{cell:?}");
            assert_eq!(cell.over_static.is_some(), cell.sharing > Sharing::Static);
        }
        assert!(run(&Options { patterns: 0, ..options }, "0", &mut |_| {}).is_err());
    }

    #[test]
    fn a_barrier_lets_nobody_ahead() {
        let (barrier, step) = (Barrier::new(4), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..50 {
                        step.fetch_add(1, Ordering::SeqCst);
                        barrier.wait();
                        assert_eq!(step.load(Ordering::SeqCst), (round + 1) * 4);
                        barrier.wait();
                    }
                });
            }
        });
    }
}
