//! `gauntlet activity`: who did what, in the console, by the API and on the command line.

use std::io::Write;
use std::process::ExitCode;

use crate::messages::{moment, visible};
use crate::node_args::NodeArgs;
use crate::user;

const AFTER_HELP: &str = "\
What was done with held mail stands with each message: gauntlet trace ID.

Examples:
  gauntlet activity --limit 20
  gauntlet activity --json";

/// Arguments of `gauntlet activity`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    /// At most so many lines, newest first
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    limit: u64,
    /// Print JSON, one line each
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let users = user::open(&args.node.load_existing()?.node.data)?;
    let mut out = std::io::stdout().lock();
    for line in users.full_audit_log(args.limit)? {
        if args.json {
            writeln!(out, "{}", serde_json::to_string(&line)?)?;
            continue;
        }
        let (who, item, detail) = (visible(&line.who), visible(&line.item), visible(&line.detail));
        let text = format!("{} {who:<24} {:<20} {item} {detail}", moment(line.at_ms), line.action);
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}
