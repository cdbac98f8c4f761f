//! `gauntlet rules check`: what is in rule files, and what is wrong with them.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use gauntlet_inputs::rules::{LoadedRules, ReadingArgs};
use gauntlet_rules::{LoadReport, Problem, Severity};
use serde::Serialize;

/// Rules named in a list of the summary.
const NAMES_MAX: usize = 12;

/// Arguments of `gauntlet rules check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folders with rules, or single .cf files [default: our own rules]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Fail (exit code 1) on warnings too, not on errors alone
    #[arg(long)]
    strict: bool,
    /// Show notes: what is as it should be but worth knowing
    #[arg(long)]
    notes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What `--json` prints about all files together.
#[derive(Serialize)]
struct Summary<'a> {
    rules: usize,
    kinds: &'a std::collections::BTreeMap<&'static str, usize>,
    files: usize,
    patterns: usize,
    backtracking: usize,
    unfiltered: Vec<&'a str>,
    errors: usize,
    warnings: usize,
    load_ms: f64,
    version: &'a str,
    problems: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    severity: &'static str,
    file: &'a str,
    line: u32,
    rule: Option<&'a str>,
    message: &'a str,
}

/// Reads the files and prints the summary.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let (ruleset, mut report) = args.reading.load_or_own(&args.paths, true)?;
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let not_run = ruleset.not_run().into_iter().map(|(rule, cause)| Problem {
        severity: Severity::Error,
        at: rule.at.clone(),
        rule: Some(rule.name.clone()),
        message: format!("no engine runs the pattern: {cause}; write it shorter"),
    });
    report.problems.extend(not_run);
    let least = if args.notes { Severity::Note } else { Severity::Warning };
    let count = |s| report.problems.iter().filter(|p| p.severity == s).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let mut out = io::stdout().lock();
    if args.json {
        let summary = summary(&ruleset, &report, least, load_ms);
        serde_json::to_writer(&mut out, &summary)?;
        writeln!(out)?;
    } else {
        print(&mut out, &ruleset, &report, least, load_ms)?;
    }
    let bad = errors > 0 || (args.strict && warnings > 0);
    Ok(if bad { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn summary<'a>(
    ruleset: &'a LoadedRules,
    report: &'a LoadReport,
    least: Severity,
    load_ms: f64,
) -> Summary<'a> {
    let count = |s| report.problems.iter().filter(|p| p.severity == s).count();
    let (backtracking, patterns) = ruleset.backtracking_patterns();
    let problems = report.problems.iter().filter(|p| p.severity >= least).map(|p| Shown {
        severity: p.severity.name(),
        file: &p.at.file,
        line: p.at.line,
        rule: p.rule.as_deref(),
        message: &p.message,
    });
    Summary {
        rules: ruleset.rules().len(),
        kinds: &report.kinds,
        files: report.files.len(),
        patterns,
        backtracking,
        unfiltered: ruleset.unfiltered().iter().map(|(_, r)| &*r.name).collect(),
        errors: count(Severity::Error),
        warnings: count(Severity::Warning),
        load_ms,
        version: ruleset.version(),
        problems: problems.collect(),
    }
}

fn print(
    out: &mut impl Write,
    ruleset: &LoadedRules,
    report: &LoadReport,
    least: Severity,
    load_ms: f64,
) -> io::Result<()> {
    for problem in report.problems.iter().filter(|p| p.severity >= least) {
        writeln!(out, "{problem}")?;
    }
    let summary = summary(ruleset, report, least, load_ms);
    let subs = ruleset.rules().iter().filter(|r| r.is_sub()).count();
    writeln!(
        out,
        "{} rules ({subs} sub-rules) from {} files, loaded in {load_ms:.0} ms, version {}",
        summary.rules, summary.files, summary.version
    )?;
    for (kind, count) in summary.kinds {
        writeln!(out, "  {kind:<11} {count:>6}")?;
    }
    writeln!(
        out,
        "{} patterns, {} of them need backtracking (look-around, references)",
        summary.patterns, summary.backtracking
    )?;
    let mut by_view = std::collections::BTreeMap::<&str, Vec<&str>>::new();
    for (view, rule) in ruleset.unfiltered() {
        by_view.entry(view).or_default().push(&rule.name);
    }
    for (view, names) in by_view {
        let more = names.len().saturating_sub(NAMES_MAX);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let shown = names[..names.len().min(NAMES_MAX)].join(", ");
        writeln!(out, "tried on every {view} string, for want of a rare word: {shown}{more}")?;
    }
    writeln!(out, "{} errors, {} warnings", summary.errors, summary.warnings)
}
