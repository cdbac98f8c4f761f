//! `gauntlet rules usage`: what the rules of a node did, from its log.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::control::{Answer, Request};
use gauntlet_mail::date::DAY_MS;
use gauntlet_store::Log;
use gauntlet_store::log::TopKind;

use crate::node_args::NodeArgs;

const AFTER_HELP: &str = "\
Rules that never hit are known only of a running node. What rules cost: gauntlet rules profile.

Examples:
  gauntlet rules usage --days 7
  gauntlet rules usage --dead            rules with points that hit nothing
  gauntlet rules usage --json | jq .";

/// Arguments of `gauntlet rules usage`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    /// Days of the log that are counted, up to today
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(i64).range(1..=100))]
    days: i64,
    /// Only rules that give points and did not hit
    #[arg(long)]
    dead: bool,
    /// Print JSON, one line a rule
    #[arg(long)]
    json: bool,
}

/// A rule, its points if it is in force, and how many messages it hit.
#[derive(Debug, serde::Serialize)]
struct Usage {
    name: String,
    score: Option<f64>,
    hits: u64,
}

/// Runs `gauntlet rules usage`.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.node.load_existing()?;
    let log = Log::open(&config.node.data.join("log")).context("the message log")?;
    let now = now_ms();
    let mut hits = log.tops(TopKind::Rule, now - args.days * DAY_MS, now + DAY_MS)?;
    let in_force = match args.node.ask(&Request::Rules) {
        Ok(Answer::Rules(rules)) => rules,
        Ok(_) => Vec::new(),
        Err(error) if args.dead => return Err(error),
        Err(_no_node) => Vec::new(),
    };
    let known = |(name, score): (String, f64)| {
        let hits = hits.remove(&name).unwrap_or(0);
        Usage { name, score: Some(score), hits }
    };
    let mut all: Vec<Usage> = in_force.into_iter().map(known).collect();
    all.extend(hits.into_iter().map(|(name, hits)| Usage { name, score: None, hits }));
    if args.dead {
        all.retain(|u| u.hits == 0 && u.score.is_some_and(|score| score != 0.0));
    }
    all.sort_by(|a, b| b.hits.cmp(&a.hits).then_with(|| a.name.cmp(&b.name)));
    let mut out = std::io::stdout().lock();
    for usage in &all {
        if args.json {
            writeln!(out, "{}", serde_json::to_string(usage)?)?;
            continue;
        }
        let points = usage.score.map_or_else(|| "-".to_owned(), |score| format!("{score:.1}"));
        writeln!(out, "{:>9} {points:>6} {}", usage.hits, usage.name)?;
    }
    Ok(ExitCode::SUCCESS)
}
