//! `gauntlet report`: what passed in some days; and the thread that mails it on schedule.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use gauntlet_array::{Duty, NodeState, SharedLog};
use gauntlet_console::report::web::{ClientsShown, WebReport};
use gauntlet_console::report::{self, Report, csv, mail, pdf};
use gauntlet_gateway::Node;
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::config::{Config, LoggedClients, ReportEvery};
use gauntlet_gateway::control::Request;
use gauntlet_mail::date::{DAY_MS, HOUR_MS, civil, day_number};
use gauntlet_store::log::MessageLog;
use gauntlet_store::{Log, Users, WebLog};

use crate::array::digests;
use crate::array::member::Membership;
use crate::array_access as access;
use crate::digest;
use crate::node_args::NodeArgs;
use crate::web::LOG_FOLDER;

const AFTER_HELP: &str = "\
Days are whole days of UTC. Accuracy is what users said: releases and corrections; what no user
looked at is not known. The node mails reports by itself if report.to names recipients.

Examples:
  gauntlet report --days 30
  gauntlet report --days 7 --until 2026-11-15 --csv week.csv --pdf week.pdf
  gauntlet report --json
  gauntlet report --array                of all nodes of the array
  gauntlet report --send                 to everybody of report.to, now";

/// Arguments of `gauntlet report`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    /// Days of the report
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(i64).range(1..=report::DAYS_MAX))]
    days: i64,
    /// The last of them, as 2026-11-21 [default: today]
    #[arg(long, value_parser = day)]
    until: Option<i64>,
    /// Write the report as CSV into this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the report as PDF into this file
    #[arg(long, value_name = "FILE")]
    pdf: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Mail it to everybody of report.to, through the running node
    #[arg(long)]
    send: bool,
    /// Of the messages of all nodes of the array
    #[arg(long)]
    array: bool,
}

/// Between two looks whether it is time.
const LOOK_PAUSE: Duration = Duration::from_secs(5);
/// Before what failed is tried again.
const FAILED_PAUSE: Duration = Duration::from_secs(30);

fn day(text: &str) -> Result<i64, String> {
    day_number(text).ok_or_else(|| format!("{text:?} is no day; write 2026-11-21"))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // A manager may be no node.
    let config = if args.array { args.node.load()? } else { args.node.load_to_copy()? };
    let until = args.until.map_or_else(now_ms, |day| day * DAY_MS);
    let mut host = config.node.host_name();
    let made = if args.array {
        let runtime = access::runtime(1)?;
        let log = access::shared_log(&config, &runtime)?;
        host = named(&log)?;
        of_node(&*log, &config, args.days, until)?
    } else {
        let log = Log::open(&config.node.data.join("log")).context("the message log")?;
        of_node(&log, &config, args.days, until)?
    };
    let texts = digest::texts(&config)?;
    for (path, bytes) in [
        (&args.csv, csv::csv(&made).into_bytes()),
        (&args.pdf, if args.pdf.is_some() { pdf::pdf(&made, &host, &texts) } else { Vec::new() }),
    ] {
        if let Some(path) = path {
            std::fs::write(path, bytes).with_context(|| path.display().to_string())?;
        }
    }
    let mut out = std::io::stdout().lock();
    if args.send {
        for to in &config.report.to {
            let message = mail::mail(&made, &host, (&from(&config), to), now_ms(), &texts);
            args.node.ask(&Request::Submit { to: to.clone(), message })?;
            writeln!(out, "sent to {to}")?;
        }
        anyhow::ensure!(!config.report.to.is_empty(), "report.to names no recipient");
    } else if args.json {
        writeln!(out, "{}", serde_json::to_string(&made)?)?;
    } else if args.csv.is_none() && args.pdf.is_none() {
        write!(out, "{}", mail::summary(&made, &texts).replace("\r\n", "\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The report of mail, and of web requests if the node has a log of them.
fn of_node(log: &dyn MessageLog, config: &Config, days: i64, until: i64) -> anyhow::Result<Report> {
    let mut made = report::report(log, days, until)?;
    let folder = config.node.data.join(LOG_FOLDER);
    if folder.is_dir() {
        let (since_ms, end_ms) = report::span(days, until);
        let summary = WebLog::read_summary(&folder, since_ms, end_ms).context("the web log")?;
        let clients = match config.web.log_clients {
            LoggedClients::Address => ClientsShown::Address,
            LoggedClients::Network => ClientsShown::Network,
            LoggedClients::None => ClientsShown::None,
        };
        made.web = Some(WebReport::new(summary, clients));
    }
    Ok(made)
}

fn from(config: &Config) -> String {
    match config.report.from.as_str() {
        "" => format!("postmaster@{}", config.node.host_name()),
        from => from.to_owned(),
    }
}

/// A report that is due: since when, and over which days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Due {
    at_ms: i64,
    days: i64,
}

impl Due {
    /// The time whose day is the last of the report.
    fn until_ms(self) -> i64 {
        self.at_ms.div_euclid(DAY_MS) * DAY_MS - DAY_MS
    }
}

/// The newest report that is due.
fn due(every: ReportEvery, hour: u8, now: i64) -> Due {
    // Before the hour, yesterday counts.
    let day = (now - i64::from(hour) * HOUR_MS).div_euclid(DAY_MS);
    let (day, days) = match every {
        ReportEvery::Day => (day, 1),
        // The first day of all was a Thursday: day 4 was a Monday.
        ReportEvery::Week => (day - (day - 4).rem_euclid(7), 7),
        ReportEvery::Month => {
            let first = day - civil(day).2 + 1;
            (first, civil(first - 1).2)
        }
    };
    Due { at_ms: day * DAY_MS + i64::from(hour) * HOUR_MS, days }
}

/// Mails reports on schedule, on a thread of its own, until the process ends.
pub(crate) fn watch(
    node: &Arc<Node>,
    users: Arc<Users>,
    array: Option<Arc<Membership>>,
) -> anyhow::Result<()> {
    let node = Arc::downgrade(node);
    std::thread::Builder::new()
        .name("reports".to_owned())
        .spawn(move || {
            loop {
                let Some(node) = node.upgrade() else { return };
                let done = round(&node, &users, array.as_deref(), now_ms());
                drop(node);
                std::thread::sleep(match done {
                    Ok(()) => LOOK_PAUSE,
                    Err(error) => {
                        let error = format!("{error:#}");
                        tracing::error!(error, "reports could not be sent");
                        FAILED_PAUSE
                    }
                });
            }
        })
        .context("cannot start the reports' thread")?;
    Ok(())
}

/// Sends what is due and was not sent. Of the nodes of an array that are to send a report to the
/// same recipient, one does, about all of them.
///
/// Before it sends, a node settles with the array that the report is its own; whether it then sent
/// it, the node itself knows. So one that stood still for long finds that another has sent it, and
/// one that was killed in between sends it when it is back.
fn round(node: &Node, users: &Users, array: Option<&Membership>, now: i64) -> anyhow::Result<()> {
    let config = node.config();
    let due = due(config.report.every, config.report.hour, now);
    let mut round = Round { node, users, array, config: &config, due, now, made: None };
    // One that cannot be sent does not keep others from theirs.
    let mut failed = None;
    for to in &config.report.to {
        if let Err(error) = round.send(to) {
            failed.get_or_insert(error.context(format!("the report to {to}")));
        }
    }
    failed.map_or(Ok(()), Err)
}

/// A round of reports.
struct Round<'r> {
    node: &'r Node,
    users: &'r Users,
    array: Option<&'r Membership>,
    config: &'r Config,
    due: Due,
    now: i64,
    /// The report that is due, and whose it is.
    made: Option<(Report, String)>,
}

impl Round<'_> {
    /// Sends this recipient's, if it is due and this node's to send.
    fn send(&mut self, to: &str) -> anyhow::Result<()> {
        // Marks of reports stand among those of digests, under names that no address has. They have
        // no time, since that shows when digests went out.
        let (mark, due_ms, now) = (format!("report to {to}"), self.due.at_ms, self.now);
        let sent = |users: &Users| users.set_digest_mark(&mark, due_ms, 0);
        if self.users.digest_mark(&mark)? >= due_ms {
            return Ok(());
        }
        let array = match self.array.map(|array| (array, array.away_since_ms())) {
            // For the last report that was missed a node waits as long as for a new one.
            Some((_, Some(away))) if now < digest::alone_at(due_ms, away) => return Ok(()),
            Some((array, None)) if !array.state().is_connected => return Ok(()),
            Some((array, None)) => Some(array),
            _ => None,
        };
        match array.map_or(Ok(Duty::Ours), |array| take(array, &mark, due_ms))? {
            Duty::Ours => {}
            Duty::Theirs => return Ok(()),
            Duty::Done => return Ok(sent(self.users)?),
        }
        let (report, name) = match &mut self.made {
            Some(made) => made,
            none => none.insert(report_of(self.node, self.config, array, self.due)?),
        };
        let texts = digest::texts(self.config)?;
        let message = mail::mail(report, name, (&from(self.config), to), now, &texts);
        if let Some(array) = array
            && !array.duties.settle(&mark, due_ms)?
        {
            return Ok(());
        }
        self.node.send_own(to, message.into_bytes())?;
        sent(self.users)?;
        tracing::info!(to, "report sent");
        Ok(())
    }
}

/// Takes a report of the array that this node did not send; what this node took before is still its
/// own.
fn take(array: &Membership, mark: &str, due_ms: i64) -> anyhow::Result<Duty> {
    let taken = array.duties.take(mark, due_ms, Some(digests::AGAIN_AFTER))?;
    let is_ours = taken == Duty::Ours || array.duties.is_ours(mark, due_ms)?;
    Ok(if is_ours { Duty::Ours } else { taken })
}

/// The report that is due, and whose it is: all nodes' of the array, or this node's.
fn report_of(
    node: &Node,
    config: &Config,
    array: Option<&Membership>,
    due: Due,
) -> anyhow::Result<(Report, String)> {
    let until = due.until_ms();
    match array {
        Some(array) => {
            let name = named(&array.log)?;
            Ok((of_node(&*array.log, config, due.days, until)?, name))
        }
        None => Ok((of_node(&*node.log, config, due.days, until)?, config.node.host_name())),
    }
}

/// Nodes that a report names one by one.
const NAMED_MAX: usize = 3;

/// What to call the nodes of an array.
fn named(log: &SharedLog) -> anyhow::Result<String> {
    let nodes = log.nodes()?;
    let active = nodes.iter().filter(|node| node.state == NodeState::Active);
    let names: Vec<&str> = active.map(|node| node.name.as_str()).collect();
    Ok(match names.len() > NAMED_MAX {
        true => format!("{} nodes", names.len()),
        false => names.join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_mail::date::day_name;

    #[test]
    fn reports_are_due_after_their_hour() {
        let at = |day: &str, hour: i64| day_number(day).unwrap() * DAY_MS + hour * HOUR_MS;
        let covered = |every, day: &str, hour| {
            let due = due(every, 6, at(day, hour));
            let last = due.until_ms().div_euclid(DAY_MS);
            (day_name(last - due.days + 1), day_name(last))
        };
        let days = |first: &str, last: &str| (first.to_owned(), last.to_owned());
        use ReportEvery::{Day, Month, Week};
        assert_eq!(covered(Day, "2026-11-21", 6), days("2026-11-20", "2026-11-20"));
        assert_eq!(covered(Day, "2026-11-21", 5), days("2026-11-19", "2026-11-19"));
        // 2026-11-21 is a Saturday.
        assert_eq!(covered(Week, "2026-11-21", 7), days("2026-11-09", "2026-11-15"));
        assert_eq!(covered(Week, "2026-11-23", 6), days("2026-11-16", "2026-11-22"));
        assert_eq!(covered(Week, "2026-11-23", 5), days("2026-11-09", "2026-11-15"));
        assert_eq!(covered(Month, "2026-03-01", 6), days("2026-02-01", "2026-02-28"));
        assert_eq!(covered(Month, "2026-03-01", 5), days("2026-01-01", "2026-01-31"));
    }
}
