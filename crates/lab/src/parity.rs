//! `gauntlet rules parity`: our hits beside SpamAssassin's.

mod reference;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use gauntlet_inputs::rules::ReadingArgs;
use gauntlet_mail::{Facts, Message, trace};
use gauntlet_rules::Outcome;
use gauntlet_spamassassin::{RulesScratch, Ruleset};
use serde::Serialize;

use self::reference::Answer;

/// Scores that differ by no more than this agree.
const SCORE_TOLERANCE: f64 = 0.01;
/// Example files kept for each rule that differs.
const EXAMPLES_MAX: usize = 3;

const AFTER_HELP: &str = "\
ORACLE.jsonl has a line {\"file\",\"score\",\"hits\":{rule:score},\"sub\":{rule:count}} for each message, as
SpamAssassin answered; it may be compressed with zstd. A hit agrees if both have it; missed and extra
hits are counted against the hits that SpamAssassin has. A message is complete if all its scored hits
agree and its score does so within 0.01.

Examples:
  gauntlet rules parity hits.jsonl.zst --corpus ~/corpus --rules /usr/share/spamassassin --site site";

/// Arguments of `gauntlet rules parity`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// SpamAssassin's answers
    #[arg(value_name = "ORACLE.jsonl")]
    oracle: PathBuf,
    /// Folder that the answers' file names are relative to
    #[arg(long, value_name = "DIR", env = "GAUNTLET_CORPUS")]
    corpus: PathBuf,
    /// Folder or file with rules (may be repeated)
    #[arg(long, value_name = "DIR", default_value = "/usr/share/spamassassin")]
    rules: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// Judge as if received at this Unix time
    #[arg(long, value_name = "EPOCH", default_value_t = 1_700_000_000)]
    now: i64,
    /// Rules shown that differ most
    #[arg(long, value_name = "N", default_value_t = 40)]
    top: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Fail (exit code 1) if fewer scored hits agree, in percent
    #[arg(long, value_name = "PERCENT")]
    at_least: Option<f64>,
}

/// Agreement over one kind of rule.
#[derive(Debug, Default, Clone, Serialize)]
struct Kind {
    /// Hits that SpamAssassin has.
    theirs: usize,
    missed: usize,
    extra: usize,
    /// Both hit, but the counts differ.
    other_count: usize,
}

impl Kind {
    fn percent(&self) -> f64 {
        100.0 - 100.0 * (self.missed + self.extra) as f64 / self.theirs.max(1) as f64
    }

    fn add(&mut self, other: &Kind) {
        self.theirs += other.theirs;
        self.missed += other.missed;
        self.extra += other.extra;
        self.other_count += other.other_count;
    }
}

/// How one rule differs.
#[derive(Debug, Default, Clone, Serialize)]
struct Difference {
    #[serde(flatten)]
    hits: Kind,
    examples: Vec<String>,
}

/// What came out of some messages.
#[derive(Debug, Default)]
struct Comparison {
    messages: usize,
    complete: usize,
    same_score: usize,
    scored: Kind,
    by_rule: BTreeMap<String, Difference>,
    unreadable: Vec<String>,
}

/// Compares every message and prints. The code is 1 if fewer hits agree than `--at-least` asks for.
///
/// # Errors
/// If the answers or rules cannot be read.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let answers = reference::read(&args.oracle)?;
    let ruleset = args.reading.load(&args.rules, true, false)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let parts: Vec<Comparison> = std::thread::scope(|scope| {
        let work = || compare_some(args, &answers, &ruleset, &next);
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles
            .into_iter()
            .map(|h| h.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut all = Comparison::default();
    parts.into_iter().for_each(|part| all.merge(part));
    if all.messages == 0 {
        anyhow::bail!("none of the answers' files is in {}", args.corpus.display());
    }
    all.print(args, &ruleset).context("standard output")?;
    let failed = args.at_least.is_some_and(|least| all.scored.percent() < least);
    Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn compare_some(
    args: &Args,
    answers: &[Answer],
    ruleset: &Ruleset,
    next: &AtomicUsize,
) -> Comparison {
    let mut comparison = Comparison::default();
    let mut scratch = RulesScratch::default();
    while let Some(answer) = answers.get(next.fetch_add(1, Ordering::Relaxed)) {
        match std::fs::read(args.corpus.join(&answer.file)) {
            Err(_) => comparison.unreadable.push(answer.file.clone()),
            Ok(raw) => {
                let message = Message::parse(&raw);
                let envelope = trace::of_trace(&message, args.now);
                let facts = Facts::default();
                let outcome = ruleset.scan(&message, &envelope, &facts, args.now, &mut scratch);
                comparison.add(answer, &outcome);
            }
        }
    }
    comparison
}

impl Comparison {
    fn add(&mut self, answer: &Answer, outcome: &Outcome) {
        self.messages += 1;
        let ours: BTreeMap<&str, f64> = outcome.sub.iter().map(|(r, c)| (&**r, *c)).collect();
        let theirs = if answer.sub.is_empty() { &answer.hits } else { &answer.sub };
        let counted = !answer.sub.is_empty();
        let mut same_hits = true;
        let names = theirs.keys().map(String::as_str).chain(ours.keys().copied());
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            if !counted && name.starts_with("__") {
                continue;
            }
            let (a, b) = (theirs.get(name), ours.get(name));
            let one = Kind {
                theirs: usize::from(a.is_some()),
                missed: usize::from(a.is_some() && b.is_none()),
                extra: usize::from(a.is_none() && b.is_some()),
                other_count: usize::from(
                    counted && matches!((a, b), (Some(a), Some(b)) if (a - b).abs() > 1e-6),
                ),
            };
            if !name.starts_with("__") {
                self.scored.add(&one);
                same_hits &= one.missed + one.extra == 0;
            }
            let entry = self.by_rule.entry(name.to_owned()).or_default();
            entry.hits.add(&one);
            let differs = one.missed + one.extra + one.other_count > 0;
            if differs && entry.examples.len() < EXAMPLES_MAX {
                let sign = match (one.missed, one.extra) {
                    (1, _) => "-",
                    (_, 1) => "+",
                    _ => "#",
                };
                entry.examples.push(format!("{sign}{}", answer.file));
            }
        }
        let same_score = (answer.score - outcome.score).abs() <= SCORE_TOLERANCE;
        self.same_score += usize::from(same_score);
        self.complete += usize::from(same_hits && same_score);
    }

    fn merge(&mut self, other: Comparison) {
        self.messages += other.messages;
        self.complete += other.complete;
        self.same_score += other.same_score;
        self.scored.add(&other.scored);
        self.unreadable.extend(other.unreadable);
        for (rule, difference) in other.by_rule {
            let entry = self.by_rule.entry(rule).or_default();
            entry.hits.add(&difference.hits);
            entry.examples.extend(difference.examples);
            entry.examples.sort();
            entry.examples.truncate(EXAMPLES_MAX);
        }
    }

    /// Agreement of sub-rules by the kind of rule.
    fn by_kind(&self, ruleset: &Ruleset) -> BTreeMap<&'static str, Kind> {
        let mut kinds = BTreeMap::<&'static str, Kind>::new();
        for (name, difference) in &self.by_rule {
            if name.starts_with("__") {
                let rule = ruleset.rules().iter().find(|r| *r.name == **name);
                let kind = rule.map_or("unknown", |r| r.test.kind());
                kinds.entry(kind).or_default().add(&difference.hits);
            }
        }
        kinds
    }

    /// Rules that differ, most first.
    fn worst(&self, top: usize) -> Vec<(&str, &Difference)> {
        let weight = |d: &Difference| (d.hits.missed + d.hits.extra, d.hits.other_count);
        let mut rules: Vec<(&str, &Difference)> = self
            .by_rule
            .iter()
            .filter(|(_, d)| weight(d) != (0, 0))
            .map(|(n, d)| (n.as_str(), d))
            .collect();
        rules.sort_by_key(|(name, d)| (std::cmp::Reverse(weight(d)), *name));
        rules.truncate(top);
        rules
    }

    fn print(&self, args: &Args, ruleset: &Ruleset) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let share = |n: usize| 100.0 * n as f64 / self.messages.max(1) as f64;
        let kinds = self.by_kind(ruleset);
        if args.json {
            let object = serde_json::json!({
                "messages": self.messages,
                "unreadable": self.unreadable.len(),
                "scored": self.scored,
                "scored_percent": self.scored.percent(),
                "complete_percent": share(self.complete),
                "score_percent": share(self.same_score),
                "sub_rules": kinds,
                "rules": self.worst(args.top).into_iter().collect::<BTreeMap<_, _>>(),
            });
            return writeln!(out, "{object}");
        }
        writeln!(out, "{} messages, {} files missing", self.messages, self.unreadable.len())?;
        let scored = &self.scored;
        writeln!(
            out,
            "scored hits       {:8.3} %  of {}; {} missed, {} extra",
            scored.percent(),
            scored.theirs,
            scored.missed,
            scored.extra
        )?;
        writeln!(out, "messages complete {:8.3} %", share(self.complete))?;
        writeln!(out, "score within 0.01 {:8.3} %", share(self.same_score))?;
        writeln!(out, "sub-rules by kind   agree %      hits  missed   extra  other count")?;
        for (kind, hits) in &kinds {
            writeln!(
                out,
                "  {kind:<15} {:9.3} {:9} {:7} {:7} {:7}",
                hits.percent(),
                hits.theirs,
                hits.missed,
                hits.extra,
                hits.other_count
            )?;
        }
        writeln!(out, "rules that differ most (missed, extra, other count)")?;
        for (name, difference) in self.worst(args.top) {
            let Kind { theirs, missed, extra, other_count } = difference.hits;
            let kind =
                ruleset.rules().iter().find(|r| *r.name == *name).map_or("?", |r| r.test.kind());
            writeln!(
                out,
                "  {name:<34} {kind:<10} {missed:5} {extra:5} {other_count:5} of {theirs:5}  {}",
                difference.examples.join(" ")
            )?;
        }
        Ok(())
    }
}
