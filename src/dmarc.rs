//! `gauntlet dmarc`: the reports that domains get about mail in their name.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use gauntlet_gateway::clock::Day;
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::control::{Answer, Request};
use gauntlet_gateway::net::resolver::Resolver;
use gauntlet_gateway::reports::round::{Ready, Reported, reports};
use gauntlet_gateway::reports::{Reporter, dmarc};
use gauntlet_store::Log;

use crate::node_args::NodeArgs;

const AFTER_HELP: &str = "\
The node sends reports by itself at dmarc_reports.hour, if dmarc_reports.enabled. `report` sends
nothing.

Exit codes: 0 done; 1 an address that should have got a report did not; 2 the log cannot be
read, or no node answers.

Examples:
  gauntlet dmarc report                              yesterday's reports, and where they would go
  gauntlet dmarc report --domain example.org --xml   one report as it would be sent
  gauntlet dmarc send --day 2026-11-20               send a day's reports through the running node";

/// Arguments of `gauntlet dmarc`.
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
    /// Make a day's reports from the message log, and say where they would go
    Report(ReportArgs),
    /// Send a day's reports now
    Send(SendArgs),
}

#[derive(Debug, clap::Args)]
struct ReportArgs {
    /// The day, UTC [default: yesterday]
    #[arg(long, value_name = "YYYY-MM-DD")]
    day: Option<String>,
    /// About this domain alone
    #[arg(long)]
    domain: Option<String>,
    /// Print the reports themselves
    #[arg(long, conflicts_with = "json")]
    xml: bool,
    /// Print a JSON line for each domain
    #[arg(long)]
    json: bool,
    /// Resolver to ask, with or without a port; repeat for more [default: the configuration's]
    #[arg(long, value_name = "SERVER")]
    dns: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct SendArgs {
    /// The day, UTC [default: yesterday]
    #[arg(long, value_name = "YYYY-MM-DD")]
    day: Option<String>,
    /// Print a JSON line for each domain
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match &args.action {
        Action::Report(given) => report(&mut out, &args.node, given),
        Action::Send(given) => send(&mut out, &args.node, given),
    }
}

/// The day that was named, else yesterday.
pub(crate) fn day_of(given: Option<&str>, now_ms: i64) -> anyhow::Result<Day> {
    match given {
        Some(text) => {
            Day::parse(text).with_context(|| format!("{text:?} is no day such as 2026-11-21"))
        }
        None => Ok(Day::of(now_ms).before()),
    }
}

fn send(out: &mut impl Write, node: &NodeArgs, args: &SendArgs) -> anyhow::Result<ExitCode> {
    let day = day_of(args.day.as_deref(), now_ms())?;
    match node.ask(&Request::DmarcReports { day: day.name() })? {
        Answer::Reports(all) => {
            for reported in &all {
                say(out, reported, args.json, ("messages", "lines"), "sent to")?;
            }
            if all.is_empty() && !args.json {
                writeln!(out, "no mail of {} came under anybody's DMARC policy", day.name())?;
            }
            let failed = all.iter().any(|r| !r.refused.is_empty());
            Ok(if failed { ExitCode::from(1) } else { ExitCode::SUCCESS })
        }
        answer => bail!("the node gave an answer to another question: {answer:?}"),
    }
}

fn report(out: &mut impl Write, node: &NodeArgs, args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let mut config = node.load_existing()?;
    if !args.dns.is_empty() {
        config.dns.servers.clone_from(&args.dns);
    }
    let day = day_of(args.day.as_deref(), now_ms())?;
    let folder = config.node.data.join("log");
    let settings = &config.dmarc_reports;
    let mut collected =
        dmarc::collect(&Log::open(&folder)?, day, settings.messages_max, settings.rows_max)?;
    if let Some(domain) = &args.domain {
        collected.domains.retain(|name, _| name.eq_ignore_ascii_case(domain));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ready = runtime.block_on(async {
        let resolver = Arc::new(Resolver::new(&config.dns)?);
        let reporter = Reporter::of(&config, settings);
        reports(&resolver, &reporter, settings, day, &collected).await
    })?;
    for Ready { reported, xml, .. } in &ready {
        match args.xml {
            true => out.write_all(xml.as_bytes())?,
            false => say(out, reported, args.json, ("messages", "lines"), "would go to")?,
        }
    }
    if ready.is_empty() && !args.json && !args.xml {
        writeln!(out, "no mail of {} came under such a DMARC policy", day.name())?;
    }
    if collected.cut {
        let messages = collected.messages;
        eprintln!("gauntlet: only {messages} messages were looked at (dmarc_reports.messages_max)");
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what became of a report; `(what, rows)` are the words for what it counts.
pub(crate) fn say(
    out: &mut impl Write,
    reported: &Reported,
    json: bool,
    (what, lines): (&str, &str),
    to: &str,
) -> anyhow::Result<()> {
    if json {
        writeln!(out, "{}", serde_json::to_string(reported)?)?;
        return Ok(());
    }
    let Reported { domain, messages, rows, bytes, .. } = reported;
    writeln!(out, "{domain}  {messages} {what}, {rows} {lines}, {bytes} bytes compressed")?;
    for address in &reported.to {
        writeln!(out, "  {to} {address}")?;
    }
    for (address, why) in &reported.refused {
        writeln!(out, "  not to {address}: {why}")?;
    }
    if let Some(why) = &reported.none {
        writeln!(out, "  no report: {why}")?;
    }
    Ok(())
}
