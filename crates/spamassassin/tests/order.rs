//! The order of evaluation changes nothing, and a scan that ends early gives the same class as a
//! full one: on random rules and messages, and on the rules of an installed SpamAssassin.

use std::path::{Path, PathBuf};

use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_rules::{HitRates, LoadOptions, Outcome};
use gauntlet_spamassassin::{RulesScratch, Ruleset};

const RULES: &str = "/usr/share/spamassassin";
const SITE: &str = "/etc/spamassassin";

/// A linear congruential generator: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

const WORDS: [&str; 12] = [
    "free",
    "offer",
    "hello",
    "invoice",
    "alice",
    "meeting",
    "click",
    "prize",
    "reply",
    "account",
    "bob@gmail.com",
    "http://www.example.com/x",
];

/// A file of rules of every kind, metas among them, with points of both signs.
fn rules(random: &mut Random) -> String {
    let mut out = String::from(
        "freemail_domains gmail.com\nutil_rb_tld com org\n\
         header F0 eval:check_freemail_body()\nheader E0 eval:check_for_missing_to_header()\n\
         header __C From:addr =~ /^(?<WHO>\\w+)@/\nbody T0 /%{WHO}/\n",
    );
    let count = 4 + random.below(30);
    for number in 0..count {
        let word = random.pick(&WORDS[..10]);
        let line = match random.below(8) {
            0 => format!("header R{number} Subject =~ /{word}/i"),
            1 => format!("header R{number} X-Note !~ /{word}/"),
            2 | 3 => format!("body R{number} /{word}/i"),
            4 => format!("rawbody R{number} /{word}\\b/"),
            5 => format!("uri R{number} /{word}|example/"),
            6 => format!("full R{number} /^From:.*{word}/mi"),
            _ => format!("mimeheader R{number} Content-Type =~ /{word}|plain/"),
        };
        out.push_str(&line);
        let points = random.below(80) as f64 / 10.0 - 3.0;
        out.push_str(&format!("\nscore R{number} {points}\n"));
        if random.below(4) == 0 {
            out.push_str(&format!("tflags R{number} multiple maxhits={}\n", 1 + random.below(4)));
        }
    }
    for number in 0..random.below(12) {
        let (a, b) = (random.below(count), random.below(count));
        let text = match random.below(5) {
            0 => format!("R{a} && !R{b}"),
            1 => format!("R{a} + R{b} > 1"),
            2 => format!("!R{a} || R{b}"),
            3 if number > 0 => format!("M{} || R{a}", number - 1),
            _ => format!("R{a} && (R{b} || T0)"),
        };
        let points = random.below(90) as f64 / 10.0 - 4.0;
        out.push_str(&format!("meta M{number} {text}\nscore M{number} {points}\n"));
    }
    out
}

fn message(random: &mut Random) -> Vec<u8> {
    let mut text = format!(
        "From: alice@example.org\nSubject: {} {}\n",
        random.pick(&WORDS),
        random.pick(&WORDS)
    );
    if random.below(2) == 0 {
        text.push_str(&format!("X-Note: {}\n", random.pick(&WORDS)));
    }
    if random.below(2) == 0 {
        text.push_str("Content-Type: text/plain\n");
    }
    text.push('\n');
    for _ in 0..random.below(20) {
        text.push_str(random.pick(&WORDS));
        text.push_str(random.pick(&[" ", "\n", " wrote: ", "> "]));
    }
    text.into_bytes()
}

fn scan(ruleset: &Ruleset, raw: &[u8]) -> Outcome {
    let message = Message::parse(raw);
    let (envelope, facts) = (Envelope::default(), Facts::default());
    let mut scratch = RulesScratch::default();
    ruleset.scan(&message, &envelope, &facts, 1_700_000_000, &mut scratch)
}

fn class(score: f64, thresholds: &[f64]) -> usize {
    thresholds.iter().filter(|at| score >= **at).count()
}

/// Compares a full scan with others of the same rules; returns how many ended early.
fn compare(load: &dyn Fn() -> Ruleset, messages: &[Vec<u8>], thresholds: &[f64]) -> usize {
    let whole = load();
    let others: Vec<Ruleset> = (1..4).map(|seed| load().in_other_order(seed)).collect();
    let early = load().stop_early_at(thresholds);
    let early_other = load().in_other_order(9).stop_early_at(thresholds);
    // The day before: every other message.
    let mut rates = HitRates::default();
    for raw in messages.iter().step_by(2) {
        rates.add(scan(&whole, raw).hits.iter().map(|hit| &*hit.rule));
    }
    let by_hits = load().ordered_by(&rates);
    let early_by_hits = load().ordered_by(&rates).stop_early_at(thresholds);
    let mut stopped = 0;
    for raw in messages {
        let expected = scan(&whole, raw);
        for other in &others {
            assert_eq!(scan(other, raw), expected, "{}", String::from_utf8_lossy(raw));
        }
        assert_eq!(scan(&by_hits, raw), expected, "{}", String::from_utf8_lossy(raw));
        for early in [&early, &early_other, &early_by_hits] {
            let found = scan(early, raw);
            stopped += usize::from(found.stopped_early);
            let classes = (class(found.score, thresholds), class(expected.score, thresholds));
            assert_eq!(classes.0, classes.1, "{found:?} of {expected:?}");
            if !found.stopped_early {
                assert_eq!(found, expected);
            }
        }
    }
    stopped
}

#[test]
fn random_rules_in_any_order() {
    let mut random = Random(7);
    let mut stopped = 0;
    for _ in 0..120 {
        let text = rules(&mut random);
        let messages: Vec<Vec<u8>> = (0..12).map(|_| message(&mut random)).collect();
        let thresholds = [random.below(80) as f64 / 10.0, 8.0 + random.below(80) as f64 / 10.0];
        for subtests in [true, false] {
            let options = LoadOptions { subtests, ..LoadOptions::default() };
            let load = || Ruleset::from_bytes(text.as_bytes(), &options).expect("not strict").0;
            stopped += compare(&load, &messages, &thresholds);
        }
    }
    assert!(stopped > 600, "only {stopped} scans ended early");
}

#[test]
fn installed_rules_in_any_order() {
    if !Path::new(RULES).is_dir() || !Path::new(SITE).is_dir() {
        assert!(std::env::var_os("CI").is_none(), "SpamAssassin is not installed");
        return eprintln!("skipped: SpamAssassin 4.0.1 is not installed");
    }
    let mut random = Random(11);
    let mut messages: Vec<Vec<u8>> = (0..20).map(|_| message(&mut random)).collect();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    for entry in std::fs::read_dir(samples).expect("the samples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "eml") {
            messages.push(std::fs::read(path).expect("a sample"));
        }
    }
    messages.extend(crate::mail::of_the_corpus(MESSAGES_MAX));
    let few = &messages[..messages.len().min(40)];
    for (subtests, messages) in [(true, few), (false, &messages[..])] {
        let options =
            LoadOptions { site: vec![PathBuf::from(SITE)], subtests, ..LoadOptions::default() };
        let load = || Ruleset::load(&[PathBuf::from(RULES)], &options).expect("rules load").0;
        let stopped = compare(&load, messages, &[5.0, 15.0]);
        // Short messages are fully evaluated before the first check.
        let is_enough = subtests || messages.len() < MESSAGES_MAX || stopped > messages.len() / 2;
        assert!(is_enough, "{stopped} of {} ended early", messages.len());
    }
}

/// Most messages, evenly spread over the folder.
const MESSAGES_MAX: usize = 400;
