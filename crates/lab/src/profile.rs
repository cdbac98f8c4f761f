//! `gauntlet rules profile`: what each rule costs and what it brings.

mod labels;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use gauntlet_inputs::messages;
use gauntlet_inputs::rules::{LoadedRules, LoadedScratch, ReadingArgs, report_problems};
use gauntlet_rules::Outcome;
use serde::Serialize;

use self::labels::Labels;

const AFTER_HELP: &str = "\
Cost is the time of trying the rule's pattern or function, summed over all messages; what is shared
between rules (rendering, the search for strings) is not in it. Flips are messages whose class would be
another without the rule. Dead rules did not fire and no rule that fired needs them.

Examples:
  gauntlet rules profile --rules /usr/share/spamassassin --labels labels.tsv ~/corpus";

/// Arguments of `gauntlet rules profile`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Messages: files, folders, mailboxes, archives
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Folder or file with rules, may be repeated [default: our own rules]
    #[arg(long, value_name = "DIR")]
    rules: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Lines label<TAB>file; without it messages count by their verdict
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Judge as if received at this Unix time
    #[arg(long, value_name = "EPOCH", default_value_t = 1_700_000_000)]
    now: i64,
    /// Rules shown, the costliest first; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 40)]
    top: usize,
    /// Print one JSON object a rule
    #[arg(long)]
    json: bool,
}

/// What one rule did.
#[derive(Debug, Default, Clone, Serialize)]
struct Line {
    rule: String,
    kind: &'static str,
    score: f64,
    cost_us: f64,
    tries: u64,
    hits: usize,
    by_class: BTreeMap<String, usize>,
    flips: usize,
    dead: bool,
}

/// Judges all messages and prints the rules.
///
/// # Errors
/// If rules or labels cannot be read.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (ruleset, report) = args.reading.load_or_own(&args.rules, true)?;
    report_problems(&report);
    // Engines are made when first needed, which would count as the rule's cost.
    ruleset.not_run();
    let labels = args.labels.as_deref().map(Labels::read).transpose()?;
    let mut scratch = LoadedScratch::with_costs();
    let mut lines: Vec<Line> = ruleset.rules().iter().map(|_| Line::default()).collect();
    let mut count = 0usize;
    messages::each(&args.paths, &mut |name, raw| {
        let outcome = messages::judge(&ruleset, raw, args.now, &mut scratch);
        count += 1;
        let required = ruleset.required_score();
        let verdict = if outcome.score >= required { "spam" } else { "ham" };
        let class = labels.as_ref().and_then(|l| l.of(name)).unwrap_or(verdict);
        note(&mut lines, &ruleset, &outcome, class);
        Ok(())
    })?;
    let costs = scratch.costs();
    for (at, (line, rule)) in lines.iter_mut().zip(ruleset.rules()).enumerate() {
        line.rule = rule.name.to_string();
        line.kind = rule.test.kind();
        line.score = rule.scores[ruleset.profile().score_set()];
        let (tries, nanos) = costs.get(at).copied().unwrap_or_default();
        (line.tries, line.cost_us) = (tries, nanos as f64 / 1e3);
        line.dead = line.hits == 0 && line.score != 0.0;
    }
    lines.sort_by(|a, b| b.cost_us.total_cmp(&a.cost_us).then_with(|| a.rule.cmp(&b.rule)));
    print(args, &lines, count)?;
    Ok(ExitCode::SUCCESS)
}

/// Adds one message's hits.
fn note(lines: &mut [Line], ruleset: &LoadedRules, outcome: &Outcome, class: &str) {
    let place = |name: &str| ruleset.rules().binary_search_by(|r| (*r.name).cmp(name)).ok();
    for (name, _) in &outcome.sub {
        if let Some(line) = place(name).and_then(|at| lines.get_mut(at)) {
            line.hits += 1;
            *line.by_class.entry(class.to_owned()).or_default() += 1;
        }
    }
    let required = ruleset.required_score();
    let is_spam = outcome.score >= required;
    for hit in &outcome.hits {
        let without = ((outcome.score - hit.score) * 1e3).round() / 1e3;
        if (without >= required) != is_spam
            && let Some(line) = place(&hit.rule).and_then(|at| lines.get_mut(at))
        {
            line.flips += 1;
        }
    }
}

fn print(args: &Args, lines: &[Line], count: usize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let shown = if args.top == 0 { lines.len() } else { args.top.min(lines.len()) };
    if args.json {
        for line in &lines[..shown] {
            writeln!(out, "{}", serde_json::to_string(line)?)?;
        }
        return Ok(());
    }
    writeln!(
        out,
        "{:<34} {:<10} {:>7} {:>11} {:>9} {:>7} {:>6}  hits by class",
        "rule", "kind", "score", "cost us", "tries", "hits", "flips"
    )?;
    for line in &lines[..shown] {
        let classes: Vec<String> =
            line.by_class.iter().map(|(class, n)| format!("{class} {n}")).collect();
        writeln!(
            out,
            "{:<34} {:<10} {:>7.3} {:>11.1} {:>9} {:>7} {:>6}  {}",
            line.rule,
            line.kind,
            line.score,
            line.cost_us,
            line.tries,
            line.hits,
            line.flips,
            classes.join(", ")
        )?;
    }
    let total: f64 = lines.iter().map(|l| l.cost_us).sum();
    let dead = lines.iter().filter(|l| l.dead).count();
    writeln!(
        out,
        "{count} messages, {:.1} us a message in all rules; {dead} of {} rules never fired",
        total / count.max(1) as f64,
        lines.len()
    )
}
