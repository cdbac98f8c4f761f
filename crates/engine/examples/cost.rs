//! What a scan costs with a folder of rules: scans messages over and over in a function of its own,
//! so that a profiler can be set to count nothing else, and prints the verdicts of the first pass,
//! so that two builds can be compared byte by byte.
//!
//! ```text
//! valgrind --tool=callgrind --toggle-collect='*counted_scan*' cost RULES SITE PASSES MESSAGE...
//! ```

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use gauntlet_engine::{Scratch, Snapshot, scan};
use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_rules::LoadOptions;
use gauntlet_spamassassin::Ruleset;
use gauntlet_verdict::Verdict;

/// The time that messages are scanned at, Unix seconds.
const NOW: i64 = 1_700_000_000;

/// A message from its bytes to its verdict.
#[inline(never)]
fn counted_scan(raw: &[u8], envelope: &Envelope, on: &Snapshot, scratch: &mut Scratch) -> Verdict {
    let message = Message::parse(raw);
    scan(&message, envelope, &Facts::default(), on, scratch)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [rules, site, passes, files @ ..] = args.as_slice() else {
        eprintln!("usage: cost RULES SITE PASSES MESSAGE...");
        return ExitCode::from(2);
    };
    let options = LoadOptions { site: vec![PathBuf::from(site)], ..LoadOptions::default() };
    let (ruleset, _) = Ruleset::load(&[PathBuf::from(rules)], &options).expect("rules load");
    let snapshot = Snapshot::of_rules(Arc::new(ruleset));
    let raws: Vec<Vec<u8>> = files.iter().filter_map(|f| std::fs::read(f).ok()).collect();
    let envelope = Envelope { received_at: NOW, ..Envelope::default() };
    let mut scratch = Scratch::default();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for raw in &raws {
        let mut verdict =
            scan(&Message::parse(raw), &envelope, &Facts::default(), &snapshot, &mut scratch);
        // Times differ from run to run.
        verdict.costs.clear();
        if writeln!(out, "{verdict:?}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    for _ in 0..passes.parse().expect("a number of passes") {
        for raw in &raws {
            std::hint::black_box(counted_scan(raw, &envelope, &snapshot, &mut scratch));
        }
    }
    ExitCode::SUCCESS
}
