//! `gauntlet ips rules parity`: our alerts of a capture beside Suricata's.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use gauntlet_ids::replay::{Key, Parity, parity};
use serde_json::json;

use super::super::SettingsArgs;

/// Exit code if alerts differ.
const EXIT_DIFFER: u8 = 1;

const AFTER_HELP: &str = "\
FILE of --eve is the eve.json that Suricata wrote about the same capture with the same rules and
settings: suricata -r CAPTURE -S RULES -k none --runmode=single -l FOLDER. Alerts are the same if
rule, packet number, time, both ends, action, application protocol and transaction are; if no
alert of the file has a packet number (live traffic), rule, time and both ends.

Exit codes: 0 all alerts are the same; 1 some differ; 2 nothing could be compared.";

/// Arguments of `gauntlet ips rules parity`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// A capture: pcap or pcapng, also compressed with gzip or zstd
    #[arg(value_name = "CAPTURE")]
    capture: PathBuf,
    /// A file of rules; may be repeated
    #[arg(long, value_name = "FILE", required = true)]
    rules: Vec<PathBuf>,
    /// What Suricata wrote about the capture (EVE JSON)
    #[arg(long, value_name = "FILE")]
    eve: PathBuf,
    /// Segments with a wrong checksum are left out, as Suricata does without -k none
    #[arg(long)]
    validate_checksums: bool,
    /// Drops are carried out, as with --simulate-ips
    #[arg(long)]
    inline: bool,
    /// Rules to print
    #[arg(long, value_name = "N", default_value = "20")]
    top: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut options = super::options(&args.settings, &args.rules)?;
    options.inline = args.inline;
    options.checksums = Some(args.validate_checksums);
    let found = parity(&args.capture, &options, &args.eve).context("nothing was compared")?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", as_json(&found, args.top))?;
    } else {
        write!(out, "{}", as_text(&found, args.top))?;
    }
    Ok(ExitCode::from(if found.is_equal() { 0 } else { EXIT_DIFFER }))
}

fn key(key: Key) -> &'static str {
    match key {
        Key::Packet => "packet",
        Key::Time => "time",
    }
}

fn as_json(found: &Parity, top: usize) -> serde_json::Value {
    let rules = found.differing.iter().take(top).map(|rule| {
        json!({
            "rule": rule.rule,
            "title": rule.title,
            "missing": rule.missing,
            "ours_alone": rule.ours_alone,
            "example": rule.example,
        })
    });
    json!({
        "compared_by": key(found.key),
        "expected": found.expected,
        "found": found.found,
        "same": found.same,
        "rules": { "loaded": found.summary.rules, "left_out": found.summary.left_out },
        "damage": found.summary.damage,
        "differing_rules": found.differing.len(),
        "differing": rules.collect::<Vec<_>>(),
    })
}

fn as_text(found: &Parity, top: usize) -> String {
    let (expected, ours, same) = (found.expected, found.found, found.same);
    let (rules, left_out) = (found.summary.rules, found.summary.left_out);
    let by = key(found.key);
    let mut text =
        format!("{rules} rules, {left_out} left out (`gauntlet ips rules check` says why)\n");
    text.push_str(&format!(
        "{expected} alerts of Suricata, {ours} of ours, {same} are the same (compared by {by})\n"
    ));
    if !found.differing.is_empty() {
        text.push_str(&format!("{:>8} {:>10}  rule\n", "missing", "ours alone"));
    }
    for rule in found.differing.iter().take(top) {
        text.push_str(&format!(
            "{:>8} {:>10}  {} {}\n                     first: {}\n",
            rule.missing, rule.ours_alone, rule.rule, rule.title, rule.example
        ));
    }
    let more = found.differing.len().saturating_sub(top);
    if more > 0 {
        text.push_str(&format!("and {more} rules more (--top)\n"));
    }
    if let Some(damage) = &found.summary.damage {
        text.push_str(&format!("the capture is damaged: {damage}\n"));
    }
    text
}
