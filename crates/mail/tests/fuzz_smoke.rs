//! A short walk of the fuzzer's kind on the stable toolchain: mutates the nasty messages and checks
//! every promise on the results. The target for `cargo fuzz` is `fuzz/fuzz_targets/message.rs`.
//!
//! `GAUNTLET_FUZZ_SECONDS` (default 3) says how long, `GAUNTLET_FUZZ_SEED` (default 1) which walk.

mod everything;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

use gauntlet_mail::Limits;

/// Longest input that a walk grows.
const INPUT_BYTES_MAX: usize = 64 * 1024;

/// Pieces that have a meaning to some parser.
const TOKENS: [&[u8]; 34] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b"--",
    b"--x",
    b"--x--",
    b"Content-Type: ",
    b"multipart/mixed; boundary=x",
    b"text/html",
    b"message/rfc822",
    b"; charset=utf-7",
    b"Content-Transfer-Encoding: base64\n",
    b"Content-Transfer-Encoding: quoted-printable\n",
    b"=?",
    b"?=",
    b"?utf-8?q?",
    b"=3D",
    b"=\n",
    b"+AOk-",
    b"<a href=\"",
    b"http://",
    b"www.a.com/",
    b"<!--",
    b"-->",
    b"</",
    b"style='display:none",
    b"&#x",
    b"url(",
    b"\xc2\xa0",
    b"\xff\xfe",
    b"filename*0*=utf-8''%",
    b"PK\x05\x06",
];

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

fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
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
                let token = TOKENS[random.below(TOKENS.len())];
                input.splice(at..at, token.iter().copied());
            }
        }
        input.truncate(INPUT_BYTES_MAX);
    }
}

#[test]
fn mutated_nasty_messages() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nasty");
    let mut paths: Vec<_> =
        fs::read_dir(folder).expect("the seeds").flatten().map(|e| e.path()).collect();
    paths.sort();
    let mut pool: Vec<Vec<u8>> =
        paths.iter().map(|p| fs::read(p).expect("a readable seed")).collect();
    let mut random = Random(number("GAUNTLET_FUZZ_SEED", 1).max(1));
    let until = Instant::now() + Duration::from_secs(number("GAUNTLET_FUZZ_SECONDS", 3));
    let mut runs = 0u64;
    while Instant::now() < until {
        let mut input = pool[random.below(pool.len())].clone();
        let other = random.below(pool.len());
        mutate(&mut input, &pool[other], &mut random);
        let asked = catch_unwind(AssertUnwindSafe(|| everything::ask(&input, &Limits::default())));
        if asked.is_err() {
            let kept = std::env::temp_dir().join(format!("gauntlet-mail-crash-{runs}.eml"));
            fs::write(&kept, &input).expect("room for the input");
            panic!("run {runs} breaks a promise (see above); the input is {}", kept.display());
        }
        // Some results are built upon, so that mutations add up.
        if runs.is_multiple_of(16) && pool.len() < 500 {
            pool.push(input);
        }
        runs += 1;
    }
    eprintln!("{runs} mutated messages kept every promise");
}
