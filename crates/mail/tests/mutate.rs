//! A short walk of the fuzzer's kind on the stable toolchain, for the tests of any crate: mutates
//! seeds, asks a question of each result, and keeps the input that breaks a promise.
//!
//! `GAUNTLET_FUZZ_SECONDS` (default 3) says how long, `GAUNTLET_FUZZ_SEED` (default 1) which walk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest input that a walk grows.
const INPUT_BYTES_MAX: usize = 64 * 1024;
/// Results that are built upon.
const POOL_MAX: usize = 500;

/// Marsaglia's xorshift64: repeatable, and good enough to choose mutations by.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// The files of a folder, in order of their names.
#[allow(dead_code, reason = "not every walk begins with files")]
pub(crate) fn seeds(folder: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("the seeds").flatten().map(|e| e.path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    paths.iter().map(|p| std::fs::read(p).expect("a readable seed")).collect()
}

fn mutate(input: &mut Vec<u8>, other: &[u8], tokens: &[&[u8]], random: &mut Random) {
    for _ in 0..=random.below(6) {
        let at = random.below(input.len() + 1);
        let end = (at + random.below(80)).min(input.len());
        match random.below(7) {
            0 if at < input.len() => input[at] = random.next() as u8,
            1 if at < input.len() => input[at] ^= 1 << random.below(8),
            2 => drop(input.drain(at..end)),
            3 => {
                let piece = input[at..end].repeat(1 + random.below(20));
                input.splice(at..at, piece);
            }
            4 => {
                let from = random.below(other.len());
                let to = (from + random.below(400)).min(other.len());
                input.splice(at..end, other[from..to].iter().copied());
            }
            _ => {
                let token = tokens[random.below(tokens.len())];
                input.splice(at..at, token.iter().copied());
            }
        }
        input.truncate(INPUT_BYTES_MAX);
    }
}

/// Walks from `seeds`, with `tokens` that have a meaning to the parser that `ask` asks.
///
/// # Panics
/// If `ask` does, naming the file that holds the input.
pub(crate) fn walk(name: &str, seeds: Vec<Vec<u8>>, tokens: &[&[u8]], ask: impl Fn(&[u8])) {
    let mut pool = seeds;
    assert!(!pool.is_empty(), "a walk begins somewhere");
    let mut random = Random(number("GAUNTLET_FUZZ_SEED", 1).max(1));
    let until = Instant::now() + Duration::from_secs(number("GAUNTLET_FUZZ_SECONDS", 3));
    let mut runs = 0u64;
    while Instant::now() < until {
        let mut input = pool[random.below(pool.len())].clone();
        let other = random.below(pool.len());
        mutate(&mut input, &pool[other], tokens, &mut random);
        if catch_unwind(AssertUnwindSafe(|| ask(&input))).is_err() {
            let kept = std::env::temp_dir().join(format!("gauntlet-{name}-{runs}.crash"));
            std::fs::write(&kept, &input).expect("room for the input");
            panic!("run {runs} breaks a promise (see above); the input is {}", kept.display());
        }
        // Some results are built upon, so that mutations add up.
        if runs.is_multiple_of(16) && pool.len() < POOL_MAX {
            pool.push(input);
        }
        runs += 1;
    }
    eprintln!("{runs} mutated inputs of {name} kept every promise");
}
