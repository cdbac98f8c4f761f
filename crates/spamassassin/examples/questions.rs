//! The cost of computing the DNS questions of rules about a message, if the scan reuses what was
//! computed for them, compared with a scan from scratch.
//!
//! ```text
//! cargo run --release -p gauntlet-rules --example questions -- RULES MESSAGE ...
//! ```
#![allow(clippy::print_stdout, reason = "an example prints what it measures")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_rules::{LoadOptions, Profile};
use gauntlet_spamassassin::{RulesScratch, Ruleset};

const TURNS: u32 = 30;

fn main() {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = args.next().expect("a folder of rules");
    let options =
        LoadOptions { profile: Profile::Full, site: vec![folder.clone()], ..Default::default() };
    let (rules, _) = Ruleset::load(&[folder], &options).expect("rules");
    let files: Vec<PathBuf> = args.collect();
    let mails: Vec<Vec<u8>> = files.iter().map(|f| std::fs::read(f).expect("a message")).collect();
    let (envelope, facts) = (Envelope::default(), Facts::default());
    let mut scratch = RulesScratch::default();
    // Of each message the best of some runs: other load on the machine only adds time.
    let (mut alone, mut asked, mut both) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for mail in &mails {
        let mut best = [Duration::MAX; 3];
        for _ in 0..TURNS {
            let start = Instant::now();
            scratch.give(None);
            rules.scan(&Message::parse(mail), &envelope, &facts, 0, &mut scratch);
            let scanned = Instant::now();
            let (_, text) = rules.questions_and_text(&Message::parse(mail), &envelope, &facts);
            let known = Instant::now();
            scratch.give(text);
            rules.scan(&Message::parse(mail), &envelope, &facts, 0, &mut scratch);
            let turn = [scanned - start, known - scanned, scanned.elapsed()];
            for (best, took) in best.iter_mut().zip(turn) {
                *best = (*best).min(took);
            }
        }
        alone += best[0];
        asked += best[1];
        both += best[2];
    }
    let micros = |total: Duration| total.as_secs_f64() * 1e6 / mails.len() as f64;
    println!(
        "{} messages: a scan {:.1} us; questions by themselves {:.1} us; questions and then the scan {:.1} us: \
         questions add {:.1} us a message",
        mails.len(),
        micros(alone),
        micros(asked),
        micros(both),
        micros(both) - micros(alone)
    );
}
