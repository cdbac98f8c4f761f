//! `gauntlet rules order`: in which order rules decide soonest, and what that gains where scans end
//! early.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use gauntlet_inputs::messages;
use gauntlet_inputs::rules::{LoadedRules, LoadedScratch, ReadingArgs, report_problems};
use gauntlet_rules::{HitRates, Outcome};
use serde::Serialize;

const AFTER_HELP: &str = "\
Hits are counted on the messages of --yesterday, or are those of --hits; then the other messages are
judged three times in turns: whole, ending early in the order that points alone give, and ending
early in the order that the hits give. The class is the same each time, or the command fails.";

/// Bytes of messages that are held in memory, so that disks are not measured.
const MESSAGES_BYTES_MAX: usize = 1 << 30;

/// Arguments of `gauntlet rules order`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Messages that are judged: files, folders, mailboxes, archives
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Messages of the day before, whose hits are counted
    #[arg(long, value_name = "PATH", required_unless_present = "hits")]
    yesterday: Vec<PathBuf>,
    /// Hits that were counted already: a file of a channel's order/, or of --out
    #[arg(long, value_name = "FILE", conflicts_with = "yesterday")]
    hits: Option<PathBuf>,
    /// Write the hits that were counted, to be published in order/
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Folder or file with rules, may be repeated [default: our own rules]
    #[arg(long, value_name = "DIR")]
    rules: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Judge as if received at this Unix time
    #[arg(long, value_name = "EPOCH", default_value_t = 1_700_000_000)]
    now: i64,
    /// Times that all messages are judged in each way
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A way to judge, and what it took.
#[derive(Debug, Serialize)]
struct Way {
    way: &'static str,
    version: String,
    /// Microseconds of CPU time a message: the least of the rounds.
    us: f64,
    /// Patterns and functions that were tried, a message.
    tries: f64,
    /// Messages whose scan ended early.
    early: usize,
    #[serde(skip)]
    rules: LoadedRules,
    #[serde(skip)]
    best: Duration,
}

/// Counts, judges and prints.
///
/// # Errors
/// If something cannot be read, or a class is another at another order.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (whole, report) = args.reading.load_or_own(&args.rules, false)?;
    report_problems(&report);
    let required = whole.required_score();
    let rates = rates(args, &whole)?;
    if let Some(path) = &args.out {
        std::fs::write(path, rates.to_string()).with_context(|| path.display().to_string())?;
    }
    let load = || args.reading.load_or_own(&args.rules, false).map(|(rules, _)| rules);
    let by_points = load()?.stop_early_at(&[required]);
    let by_hits = load()?.ordered_by(&rates).stop_early_at(&[required]);
    let way = |way, rules: LoadedRules| {
        let version = rules.version().to_owned();
        Way { way, version, us: 0.0, tries: 0.0, early: 0, rules, best: Duration::MAX }
    };
    let mut ways =
        [way("whole", whole), way("early, by points", by_points), way("early, by hits", by_hits)];
    let mut all = Vec::new();
    let mut bytes = 0;
    messages::each(&args.paths, &mut |_, raw| {
        bytes += raw.len();
        ensure!(bytes <= MESSAGES_BYTES_MAX, "more than {MESSAGES_BYTES_MAX} bytes of messages");
        all.push(raw.to_vec());
        Ok(())
    })?;
    ensure!(!all.is_empty(), "no message to judge");
    check_classes(&mut ways, &all, args.now, required)?;
    for _ in 0..args.rounds {
        for way in &mut ways {
            let mut scratch = LoadedScratch::default();
            let began = cpu_time()?;
            for raw in &all {
                messages::judge(&way.rules, raw, args.now, &mut scratch);
            }
            way.best = way.best.min(cpu_time()?.saturating_sub(began));
        }
    }
    for way in &mut ways {
        way.us = way.best.as_secs_f64() * 1e6 / all.len() as f64;
    }
    print(args, &ways, &rates, all.len())?;
    Ok(ExitCode::SUCCESS)
}

/// The hits that were counted, or are counted now.
fn rates(args: &Args, whole: &LoadedRules) -> anyhow::Result<HitRates> {
    if let Some(path) = &args.hits {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        return HitRates::parse(&text).with_context(|| path.display().to_string());
    }
    let (mut rates, mut scratch) = (HitRates::default(), LoadedScratch::default());
    messages::each(&args.yesterday, &mut |_, raw| {
        let outcome = messages::judge(whole, raw, args.now, &mut scratch);
        rates.add(outcome.hits.iter().map(|hit| &*hit.rule));
        Ok(())
    })?;
    Ok(rates)
}

/// CPU time of this thread: what else the machine does counts little in it.
fn cpu_time() -> anyhow::Result<Duration> {
    const FILE: &str = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(FILE).context(FILE)?;
    let ns = text.split_ascii_whitespace().next().and_then(|ns| ns.parse().ok());
    Ok(Duration::from_nanos(ns.context(FILE)?))
}

/// Judges each message in each way, which also warms what is made when first needed.
fn check_classes(ways: &mut [Way], all: &[Vec<u8>], now: i64, required: f64) -> anyhow::Result<()> {
    let mut scratches: Vec<_> = ways.iter().map(|_| LoadedScratch::with_costs()).collect();
    let is_spam = |outcome: &Outcome| outcome.score >= required;
    for (number, raw) in all.iter().enumerate() {
        let mut expected = None;
        for (way, scratch) in ways.iter_mut().zip(&mut scratches) {
            let outcome = messages::judge(&way.rules, raw, now, scratch);
            way.early += usize::from(outcome.stopped_early);
            let expected = *expected.get_or_insert(is_spam(&outcome));
            ensure!(
                is_spam(&outcome) == expected,
                "message {number}: another class, {}, with {:.1} points",
                way.way,
                outcome.score
            );
        }
    }
    for (way, scratch) in ways.iter_mut().zip(&scratches) {
        let tries: u64 = scratch.costs().iter().map(|(tries, _)| tries).sum();
        way.tries = tries as f64 / all.len() as f64;
    }
    Ok(())
}

fn print(args: &Args, ways: &[Way], rates: &HitRates, count: usize) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if args.json {
        for way in ways {
            writeln!(out, "{}", serde_json::to_string(way)?)?;
        }
        return Ok(());
    }
    let whole = ways.first().map_or(0.0, |way| way.us);
    writeln!(out, "hits of {} messages; {count} judged, every class the same", rates.messages())?;
    writeln!(
        out,
        "{:<18} {:>9} {:>8} {:>8} {:>12}  ruleset",
        "", "us", "gain", "tries", "ended early"
    )?;
    for way in ways {
        let gain = if whole > 0.0 { 100.0 - way.us * 100.0 / whole } else { 0.0 };
        let Way { way, us, tries, early, version, .. } = way;
        writeln!(out, "{way:<18} {us:>9.1} {gain:>6.1} % {tries:>8.1} {early:>12}  {version}")?;
    }
    Ok(())
}
