//! `gauntlet rules diff`: which verdicts change between two rulesets.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use gauntlet_inputs::messages;
use gauntlet_inputs::rules::{LoadedRules, LoadedScratch, ReadingArgs};
use gauntlet_rules::Outcome;

/// Arguments of `gauntlet rules diff`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The rules as they are: folder or file
    #[arg(value_name = "A")]
    before: PathBuf,
    /// The rules as they would be
    #[arg(value_name = "B")]
    after: PathBuf,
    /// Messages: files, folders, mailboxes, archives
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Judge as if received at this Unix time
    #[arg(long, value_name = "EPOCH", default_value_t = 1_700_000_000)]
    now: i64,
    /// Show messages whose hits or score change too, not only those whose class does
    #[arg(long)]
    all: bool,
}

/// Judges all messages by both and prints what differs.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let load = |path: &PathBuf| {
        let loaded = args.reading.load(std::slice::from_ref(path), false, false);
        loaded.map(LoadedRules::SpamAssassin)
    };
    let (before, after) = (load(&args.before)?, load(&args.after)?);
    let mut out = io::stdout().lock();
    print_rules(&mut out, &before, &after)?;
    let mut scratch = LoadedScratch::default();
    let mut changes = BTreeMap::<(&str, &str), usize>::new();
    let (mut count, mut differ) = (0usize, 0usize);
    messages::each(&args.paths, &mut |name, raw| {
        let a = messages::judge(&before, raw, args.now, &mut scratch);
        let b = messages::judge(&after, raw, args.now, &mut scratch);
        count += 1;
        let (class_a, class_b) = (class(&before, &a), class(&after, &b));
        *changes.entry((class_a, class_b)).or_default() += 1;
        let changed = changed_hits(&a, &b);
        differ += usize::from(!changed.is_empty() || a.score != b.score);
        if class_a != class_b || (args.all && (!changed.is_empty() || a.score != b.score)) {
            let (a, b) = (a.score, b.score);
            writeln!(
                out,
                "{class_a} -> {class_b}  {a:.2} -> {b:.2}  {name}  {}",
                changed.join(" ")
            )?;
        }
        Ok(())
    })?;
    writeln!(out, "{count} messages, {differ} with other hits or another score")?;
    for ((a, b), n) in &changes {
        writeln!(out, "  {a:<4} -> {b:<4} {n:>8}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn class(ruleset: &LoadedRules, outcome: &Outcome) -> &'static str {
    if outcome.score >= ruleset.required_score() { "spam" } else { "ham" }
}

/// `+RULE` for hits that come, `-RULE` for hits that go, `~RULE` for other points.
fn changed_hits(a: &Outcome, b: &Outcome) -> Vec<String> {
    let points = |o: &Outcome| -> BTreeMap<String, f64> {
        o.hits.iter().map(|h| (h.rule.to_string(), h.score)).collect()
    };
    let (a, b) = (points(a), points(b));
    let mut out = Vec::new();
    for (rule, score) in &a {
        match b.get(rule) {
            None => out.push(format!("-{rule}")),
            Some(other) if (other - score).abs() > 1e-9 => out.push(format!("~{rule}")),
            Some(_) => {}
        }
    }
    out.extend(b.keys().filter(|rule| !a.contains_key(*rule)).map(|rule| format!("+{rule}")));
    out
}

/// How many rules came, went and changed.
fn print_rules(out: &mut impl Write, before: &LoadedRules, after: &LoadedRules) -> io::Result<()> {
    let by_name = |r: &LoadedRules| -> BTreeMap<String, gauntlet_rules::Rule> {
        r.rules().iter().map(|r| (r.name.to_string(), r.clone())).collect()
    };
    let (a, b) = (by_name(before), by_name(after));
    let gone = a.keys().filter(|n| !b.contains_key(*n)).count();
    let new = b.keys().filter(|n| !a.contains_key(*n)).count();
    let same = |x: &gauntlet_rules::Rule, y: &gauntlet_rules::Rule| {
        x.test == y.test && x.scores == y.scores && x.tflags == y.tflags
    };
    let other = a.iter().filter(|(n, x)| b.get(*n).is_some_and(|y| !same(x, y))).count();
    writeln!(out, "rules: {} -> {}; {new} new, {gone} gone, {other} changed", a.len(), b.len())
}
