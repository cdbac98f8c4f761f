//! The time of a scan by phases: views and rules, in microseconds a message, after one warm-up
//! pass.
//!
//! usage: phases RULES SITE PASSES MESSAGE...

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_rules::LoadOptions;
use gauntlet_spamassassin::views::Views;
use gauntlet_spamassassin::{RulesScratch, Ruleset};

/// The time that messages are scanned at, Unix seconds.
const NOW: i64 = 1_700_000_000;

/// Characters of a pattern that are shown.
const PATTERN_CHARS: usize = 200;

/// A measured scan; a function of its own, so that profilers can be limited to it (`valgrind
/// --tool=callgrind --toggle-collect='*counted_scan*'`).
#[inline(never)]
fn counted_scan(ruleset: &Ruleset, message: &Message<'_>, scratch: &mut RulesScratch) {
    let (envelope, facts) = (Envelope::default(), Facts::default());
    std::hint::black_box(ruleset.scan(message, &envelope, &facts, NOW, scratch));
}

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [rules, site, passes, files @ ..] = args.as_slice() else {
        eprintln!("usage: phases RULES SITE PASSES MESSAGE...");
        return std::process::ExitCode::from(2);
    };
    let options = LoadOptions { site: vec![PathBuf::from(site)], ..LoadOptions::default() };
    let start = Instant::now();
    let (ruleset, _) = Ruleset::load(&[PathBuf::from(rules)], &options).expect("rules load");
    eprintln!("load {:?}", start.elapsed());
    let passes: usize = passes.parse().expect("a number of passes");
    let raws: Vec<Vec<u8>> = files.iter().filter_map(|f| std::fs::read(f).ok()).collect();
    let (envelope, facts) = (Envelope::default(), Facts::default());
    let mut phases: Vec<(&str, f64)> = Vec::new();
    let mut scratch = RulesScratch::default();
    for pass in 0..=passes {
        let count = pass > 0;
        let mut note = |name: &'static str, start: Instant| {
            let us = start.elapsed().as_secs_f64() * 1e6;
            match phases.iter_mut().find(|p| p.0 == name) {
                Some(phase) if count => phase.1 += us,
                Some(_) => {}
                None => phases.push((name, 0.0)),
            }
        };
        for raw in &raws {
            let t = Instant::now();
            let message = Message::parse(raw);
            note("parse", t);
            let t = Instant::now();
            if count {
                counted_scan(&ruleset, &message, &mut scratch);
            } else {
                ruleset.scan(&message, &envelope, &facts, NOW, &mut scratch);
            }
            note("scan", t);
            views_of(&message, &ruleset, &mut note);
        }
    }
    let each = (passes * raws.len()).max(1) as f64;
    for (name, us) in &phases {
        eprintln!("{name:20} {:9.1}", us / each);
    }
    rules_by_cost(&ruleset, &raws, each / raws.len() as f64);
    std::process::ExitCode::SUCCESS
}

/// Makes every view, one after the other.
fn views_of(
    message: &Message<'_>,
    ruleset: &Ruleset,
    note: &mut impl FnMut(&'static str, Instant),
) {
    let (envelope, facts) = (Envelope::default(), Facts::default());
    let views = Views::new(message, &envelope, &facts, ruleset.view_settings());
    let t = Instant::now();
    views.mime();
    note("  mime", t);
    let t = Instant::now();
    views.rendered();
    note("  rendered", t);
    let t = Instant::now();
    views.body();
    note("  body", t);
    let t = Instant::now();
    views.rawbody();
    note("  rawbody", t);
    let t = Instant::now();
    views.relays();
    note("  relays", t);
    let t = Instant::now();
    views.uri_details();
    note("  uri details", t);
    let t = Instant::now();
    views.uris();
    note("  uris", t);
    let t = Instant::now();
    drop(views);
    note("  drop", t);
}

/// Runs again, with the cost of each rule.
fn rules_by_cost(ruleset: &Ruleset, raws: &[Vec<u8>], passes: f64) {
    let (envelope, facts) = (Envelope::default(), Facts::default());
    let mut scratch = RulesScratch::with_costs();
    let mut warm = Vec::new();
    for pass in 0..=passes as usize {
        for raw in raws {
            let message = Message::parse(raw);
            ruleset.scan(&message, &envelope, &facts, NOW, &mut scratch);
        }
        if pass == 0 {
            warm = scratch.costs().to_vec();
        }
    }
    let each = passes * raws.len() as f64;
    let mut kinds: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let mut all = Vec::new();
    for ((rule, cost), warm) in ruleset.rules().iter().zip(scratch.costs()).zip(&warm) {
        let (tries, us) = ((cost.0 - warm.0) as f64 / each, (cost.1 - warm.1) as f64 / 1e3 / each);
        let kind = kinds.entry(rule.test.kind()).or_default();
        (kind.0, kind.1) = (kind.0 + tries, kind.1 + us);
        all.push((us, tries, rule));
    }
    for (kind, (tries, us)) in kinds {
        eprintln!("rules: {kind:12} {us:9.1} us {tries:9.1} tries");
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (us, tries, rule) in all.iter().take(100) {
        let pattern = rule.test.pattern().unwrap_or_default();
        let start: String = pattern.chars().take(PATTERN_CHARS).collect();
        eprintln!(
            "{us:8.2} us {tries:7.2} tries  {:8} {} {} {start}",
            rule.test.kind(),
            rule.name,
            pattern.len(),
        );
    }
}
