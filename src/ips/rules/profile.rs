//! `gauntlet ips rules profile`: what each rule costs on a capture.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use gauntlet_ids::replay::{ProfileReport, RuleCost, SearchCost, profile};
use serde_json::json;

use super::super::SettingsArgs;
use crate::ips::run::CLOCK;

const AFTER_HELP: &str = "\
One thread replays the capture and takes the time of each rule that is tried. A rule is tried
where its fast pattern was found; one without a pattern on every packet that has its protocol and
ports. What is searched for patterns is listed by buffer; payloads and streams are `packet`.
Taking the time costs some 50 ns a rule tried, so that the sum is above what `bench packets` says.

Exit codes: 0 measured; 1 the capture is damaged and was read as far as it goes; 2 nothing could
be measured.";

/// Exit code if a capture is damaged.
const EXIT_DAMAGED: u8 = 1;

/// Arguments of `gauntlet ips rules profile`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// A capture: pcap or pcapng, also compressed with gzip or zstd
    #[arg(value_name = "CAPTURE")]
    capture: PathBuf,
    /// A file of rules; may be repeated
    #[arg(long, value_name = "FILE", required = true)]
    rules: Vec<PathBuf>,
    /// Rules to print
    #[arg(long, value_name = "N", default_value = "20")]
    top: usize,
    /// What comes first
    #[arg(long, value_enum, default_value = "time")]
    sort: Sort,
    /// Print one JSON object, with all rules that were tried
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingsArgs,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Sort {
    /// What took longest in all
    Time,
    /// What was tried most often
    Checks,
    /// What takes longest each time
    Average,
    /// What took longest once
    Slowest,
    /// What was tried most often for nothing
    Misses,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = super::options(&args.settings, &args.rules)?;
    let mut found = profile(&args.capture, &options, CLOCK)?;
    found.rules.sort_by_key(|rule| std::cmp::Reverse(weight(rule, args.sort)));
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", as_json(&found))?;
    } else {
        write!(out, "{}", as_text(&found, args.top))?;
    }
    if let Some(damage) = &found.summary.damage {
        eprintln!("{}: {damage}; what comes before it was measured", args.capture.display());
        return Ok(ExitCode::from(EXIT_DAMAGED));
    }
    Ok(ExitCode::SUCCESS)
}

fn weight(rule: &RuleCost, sort: Sort) -> u64 {
    let cost = &rule.cost;
    match sort {
        Sort::Time => cost.nanoseconds,
        Sort::Checks => cost.checks,
        Sort::Average => cost.nanoseconds / cost.checks.max(1),
        Sort::Slowest => cost.slowest_nanoseconds,
        Sort::Misses => cost.checks - cost.matches,
    }
}

/// The rule's fast pattern, for people.
fn pattern(rule: &RuleCost) -> String {
    match rule.looked_up_in {
        Some(buffer) => format!("{buffer} \"{}\"", rule.fast_pattern.escape_ascii()),
        None => "no fast pattern".to_owned(),
    }
}

fn as_json(found: &ProfileReport) -> serde_json::Value {
    let rule = |rule: &RuleCost| {
        json!({
            "rule": rule.rule,
            "title": rule.title,
            "place": rule.place,
            "checks": rule.cost.checks,
            "matches": rule.cost.matches,
            "nanoseconds": rule.cost.nanoseconds,
            "slowest_nanoseconds": rule.cost.slowest_nanoseconds,
            "looked_up_in": rule.looked_up_in,
            "fast_pattern": rule.fast_pattern.escape_ascii().to_string(),
        })
    };
    let search = |search: &SearchCost| {
        json!({
            "buffer": search.buffer,
            "searches": search.cost.checks,
            "rules_named": search.cost.matches,
            "nanoseconds": search.cost.nanoseconds,
        })
    };
    json!({
        "frames": found.summary.frames,
        "alerts": found.summary.alerts,
        "rules": { "loaded": found.summary.rules, "left_out": found.summary.left_out },
        "never_tried": found.idle,
        "detection": {
            "packets": found.detection.checks,
            "nanoseconds": found.detection.nanoseconds,
        },
        "tried": found.rules.iter().map(rule).collect::<Vec<_>>(),
        "searches": found.searches.iter().map(search).collect::<Vec<_>>(),
        "damage": found.summary.damage,
    })
}

fn as_text(found: &ProfileReport, top: usize) -> String {
    let all = found.detection.nanoseconds.max(1);
    let share = |nanoseconds: u64| nanoseconds as f64 * 100.0 / all as f64;
    let in_rules: u64 = found.rules.iter().map(|rule| rule.cost.nanoseconds).sum();
    let in_searches: u64 = found.searches.iter().map(|search| search.cost.nanoseconds).sum();
    let mut text = format!(
        "{} frames, {} alerts; {} rules, {} of them never tried, {} left out\n",
        found.summary.frames,
        found.summary.alerts,
        found.summary.rules,
        found.idle,
        found.summary.left_out,
    );
    text.push_str(&format!(
        "detection took {:.1} ms for {} packets: searching {:.0} %, trying rules {:.0} %\n\n",
        all as f64 / 1e6,
        found.detection.checks,
        share(in_searches),
        share(in_rules),
    ));
    let cells = ["checks", "matches", "us in all", "%", "us each", "slowest"];
    let [a, b, c, d, e, f] = cells;
    text.push_str(&format!("{a:>9} {b:>9} {c:>10} {d:>5} {e:>8} {f:>8}  rule\n"));
    for rule in found.rules.iter().take(top) {
        let cost = &rule.cost;
        let micros = cost.nanoseconds as f64 / 1e3;
        text.push_str(&format!(
            "{:>9} {:>9} {micros:>10.0} {:>5.1} {:>8.2} {:>8.1}  {} {} ({})\n",
            cost.checks,
            cost.matches,
            share(cost.nanoseconds),
            micros / cost.checks.max(1) as f64,
            cost.slowest_nanoseconds as f64 / 1e3,
            rule.rule,
            rule.title,
            pattern(rule),
        ));
    }
    text.push_str(&format!("\n{:>9} {:>9} {:>10} {:>5}  buffer\n", "searches", "named", c, d));
    for search in found.searches.iter().take(top) {
        let cost = &search.cost;
        text.push_str(&format!(
            "{:>9} {:>9} {:>10.0} {:>5.1}  {}\n",
            cost.checks,
            cost.matches,
            cost.nanoseconds as f64 / 1e3,
            share(cost.nanoseconds),
            search.buffer,
        ));
    }
    text
}
