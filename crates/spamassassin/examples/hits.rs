//! The hits of rules in messages, one JSON object a line: score, hits with their evidence,
//! sub-rules. So two builds of the program can be compared byte by byte. Each message is scanned a
//! second time with deferred sub-rules: if that finds anything else, the line says so.
//!
//! usage: hits RULES SITE MESSAGE...

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_rules::LoadOptions;
use gauntlet_spamassassin::{RulesScratch, Ruleset};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [rules, site, files @ ..] = args.as_slice() else {
        eprintln!("usage: hits RULES SITE MESSAGE...");
        return ExitCode::from(2);
    };
    let site = vec![PathBuf::from(site)];
    let load = |subtests| {
        let options = LoadOptions { site: site.clone(), subtests, ..LoadOptions::default() };
        Ruleset::load(&[PathBuf::from(rules)], &options).expect("rules load").0
    };
    let (ruleset, putting_off) = (load(true), load(false));
    let (envelope, facts) = (Envelope::default(), Facts::default());
    let mut scratch = RulesScratch::default();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for file in files {
        let Ok(raw) = std::fs::read(file) else { continue };
        let message = Message::parse(&raw);
        let found = ruleset.scan(&message, &envelope, &facts, 1_700_000_000, &mut scratch);
        let other = putting_off.scan(&message, &envelope, &facts, 1_700_000_000, &mut scratch);
        if (other.score, &other.hits) != (found.score, &found.hits) {
            eprintln!("{file}: deferring finds {:?} instead of {:?}", other.hits, found.hits);
        }
        let sub: std::collections::BTreeMap<_, _> = found.sub.into_iter().collect();
        let line = serde_json::json!({
            "file": file, "score": found.score, "hits": found.hits, "sub": sub,
            "defects": found.defects.iter().map(|d| &d.detail).collect::<Vec<_>>(),
        });
        if writeln!(out, "{line}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
