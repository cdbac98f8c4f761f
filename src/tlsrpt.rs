//! `gauntlet tlsrpt`: the reports that domains get about TLS to their mail exchangers.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use gauntlet_gateway::clock::Day;
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::control::{Answer, Request};
use gauntlet_gateway::outbound::tls_outcomes::TlsOutcomes;
use gauntlet_gateway::reports::Reporter;
use gauntlet_gateway::reports::tls::document;

use crate::dmarc::{day_of, say};
use crate::node_args::NodeArgs;

const AFTER_HELP: &str = "\
A node counts connections while tls_reports.enabled, and sends reports by itself at
tls_reports.hour. `report` sends nothing; it reads what the node wrote down, at most half a
minute late.

Exit codes: 0 done; 1 an address that should have got a report did not; 2 there is nothing to
read, or no node answers.

Examples:
  gauntlet tlsrpt report --day 2026-11-21     today's counts, as the reports have them
  gauntlet tlsrpt send                        send yesterday's reports through the running node";

/// Arguments of `gauntlet tlsrpt`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print a day's reports, one JSON line a domain
    Report {
        /// The day, UTC [default: yesterday]
        #[arg(long, value_name = "YYYY-MM-DD")]
        day: Option<String>,
    },
    /// Send a day's reports now
    Send {
        /// The day, UTC [default: yesterday]
        #[arg(long, value_name = "YYYY-MM-DD")]
        day: Option<String>,
        /// Print a JSON line for each domain
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match &args.action {
        Action::Report { day } => {
            let day = day_of(day.as_deref(), now_ms())?;
            let config = args.node.load_existing()?;
            let path = config.node.data.join("tls-outcomes.json");
            if !path.is_file() {
                bail!("{}: nothing was counted; set tls_reports.enabled", path.display());
            }
            let reporter = Reporter::of(&config, &config.tls_reports);
            for (domain, counted) in TlsOutcomes::open(&path, false).of(day) {
                writeln!(out, "{}", document(&reporter, &domain, day, &counted))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Action::Send { day, json } => {
            let day = day_of(day.as_deref(), now_ms())?;
            send(&mut out, &args.node, day, *json)
        }
    }
}

fn send(out: &mut impl Write, node: &NodeArgs, day: Day, json: bool) -> anyhow::Result<ExitCode> {
    match node.ask(&Request::TlsReports { day: day.name() })? {
        Answer::Reports(all) => {
            for reported in &all {
                say(out, reported, json, ("connections", "failures"), "sent to")?;
            }
            if all.is_empty() && !json {
                writeln!(out, "no connection of {} was counted", day.name())?;
            }
            let failed = all.iter().any(|r| !r.refused.is_empty());
            Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
        }
        answer => bail!("the node gave an answer to another question: {answer:?}"),
    }
}
