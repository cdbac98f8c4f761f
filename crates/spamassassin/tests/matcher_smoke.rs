//! A short run of the matcher's fuzzer on the stable toolchain: random patterns, matched by every
//! engine and by PCRE2 on the pattern as written. The target for `cargo fuzz` is
//! `fuzz/fuzz_targets/rules_matcher.rs`.
//!
//! `GAUNTLET_FUZZ_SECONDS` (default 3) is the duration, `GAUNTLET_FUZZ_SEED` (default 1) the seed.

use std::time::{Duration, Instant};

use gauntlet_rules::{LoadOptions, Pattern};
use gauntlet_spamassassin::Ruleset;

/// Marsaglia's xorshift64: reproducible, and random enough.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[(self.next() % list.len() as u64) as usize]
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

const ATOMS: [&str; 40] = [
    "a",
    "b",
    "c",
    "ab",
    "abc",
    "A",
    "[a-c]",
    "[^a]",
    ".",
    "\\w",
    "\\W",
    "\\s",
    "\\d",
    "x",
    "\\n",
    "^",
    "$",
    "\\b",
    "\\B",
    "\\A",
    "\\z",
    "\\Z",
    "\\x61",
    "\\141",
    "[[:alpha:]]",
    "\\.",
    "foo",
    "\\S",
    "(?i:a)",
    "(?=a)",
    "(?!a)",
    "(?<=a)",
    "(?<!a)",
    "(?>a+)",
    "[\\x80-\\xff]",
    "\\xe9",
    "_",
    " ",
    "[b_\\W]?",
    "wizard",
];
const QUANTIFIERS: [&str; 10] = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "*?", "+?", "", "++"];
const LETTERS: [u8; 20] = *b"aabbccABC  \n\nx_1.fo\xe9";

fn pattern(random: &mut Random, depth: u32) -> String {
    let mut out = String::new();
    for _ in 0..1 + random.next() % 4 {
        match random.next() % 8 {
            0 if depth < 3 => {
                let inner = pattern(random, depth + 1);
                let open = *random.pick(&["(", "(?:", "(?i:", "(?s:", "(?m:", "(?=", "(?!"]);
                out.push_str(&format!("{open}{inner})"));
            }
            1 if depth < 3 => {
                let (left, right) = (pattern(random, depth + 1), pattern(random, depth + 1));
                out.push_str(&format!("(?:{left}|{right})"));
            }
            _ => {
                let atom = *random.pick(&ATOMS);
                out.push_str(atom);
                if !matches!(atom, "^" | "$" | "\\b" | "\\B" | "\\A" | "\\z" | "\\Z") {
                    let quantifier = *random.pick(&QUANTIFIERS);
                    match atom.len() > 1 && atom.chars().all(char::is_alphabetic) {
                        true => {}
                        false => out.push_str(quantifier),
                    }
                }
            }
        }
    }
    out
}

fn text(random: &mut Random) -> Vec<u8> {
    let length = random.next() % 24;
    let mut text: Vec<u8> = (0..length).map(|_| *random.pick(&LETTERS)).collect();
    if random.next().is_multiple_of(6) {
        text.extend_from_slice(b"wizard");
    }
    text
}

#[test]
fn every_engine_says_the_same() {
    let seconds = setting("GAUNTLET_FUZZ_SECONDS", 3);
    let mut random =
        Random(setting("GAUNTLET_FUZZ_SEED", 1).max(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut compared = 0u64;
    while Instant::now() < end {
        let written = pattern(&mut random, 0);
        let Ok(theirs) = pcre2::bytes::Regex::new(&written) else { continue };
        let ours = match Pattern::new(&written) {
            Ok(ours) => ours,
            // Perl warns of these, and a pattern with a warning is no rule.
            Err(error) if error.to_string().contains("repeats what matches nothing") => continue,
            Err(error) => panic!("{written:?} is valid, but: {error}"),
        };
        for _ in 0..16 {
            let text = text(&mut random);
            let Ok(expected) = theirs.is_match(&text) else { continue };
            let found = ours.matches(&text);
            assert_eq!(found, Ok(expected), "{written:?} on {:?}", text.escape_ascii().to_string());
            if let Err(difference) = ours.self_check(&text) {
                panic!("{written:?} on {:?}: {difference}", text.escape_ascii().to_string());
            }
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared} comparisons");
}

const WORDS: [&str; 48] = [
    "header",
    "body",
    "rawbody",
    "full",
    "uri",
    "meta",
    "mimeheader",
    "score",
    "describe",
    "tflags",
    "priority",
    "if",
    "ifplugin",
    "else",
    "endif",
    "lang",
    "de",
    "replace_tag",
    "replace_rules",
    "include",
    "require_version",
    "loadplugin",
    "A",
    "B",
    "__C",
    "Subject",
    "=~",
    "!~",
    "/a+/i",
    "/(?<T>x)/",
    "/%{T}/",
    "m{x}",
    "exists:From",
    "eval:f('a', 1)",
    "(version >= 3.004)",
    "1",
    "-2.5",
    "(0.5)",
    "1 2 3 4",
    "A && B",
    "rules_matching(__*)",
    "multiple maxhits=3",
    "[if-unset: x]",
    "\\#",
    "#",
    "\n",
    "\u{e9}",
    "  ",
];

#[test]
fn any_text_can_be_read_as_rules() {
    let seconds = setting("GAUNTLET_FUZZ_SECONDS", 3);
    let mut random =
        Random(setting("GAUNTLET_FUZZ_SEED", 1).max(1).wrapping_mul(0x2545_f491_4f6c_dd1d));
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let mut rules = String::new();
        for _ in 0..random.next() % 60 {
            let word: &str = random.pick::<&str>(&WORDS);
            rules.push_str(word);
            rules.push(if random.next().is_multiple_of(5) { '\n' } else { ' ' });
        }
        let loaded = Ruleset::from_bytes(rules.as_bytes(), &LoadOptions::default());
        let (_, report) = loaded.expect("not strict");
        assert!(report.problems.iter().all(|p| !p.message.is_empty()));
    }
}
