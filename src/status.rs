//! `gauntlet status`: how the running node is.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::control::{Answer, Request};
use gauntlet_gateway::node::subsystems::ArrayStatus;

use crate::array::since;
use crate::doctor::resources::describe_room;
use crate::messages::moment;
use crate::node_args::NodeArgs;
use crate::serve::node_state;

const AFTER_HELP: &str = "\
Exit status: 0 the node takes mail; 1 it runs, but takes none; 2 no node answers.

Examples:
  gauntlet status
  gauntlet status --metrics              numbers, as Prometheus reads them
  gauntlet status --json";

/// Arguments of `gauntlet status`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    node: NodeArgs,
    /// Print the numbers of mail, as `/metrics` has them
    #[arg(long, conflicts_with = "json")]
    metrics: bool,
    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.node.load_existing()?;
    let Answer::Status(status) = args.node.ask(&Request::Status)? else {
        bail!("the node gave another answer: is it of this version?")
    };
    let (disks, routes) = (node_state::disks(&config), node_state::mail_routes(&config));
    let mut out = std::io::stdout().lock();
    if args.metrics {
        write!(out, "{}{}", status.metrics, node_state::disk_metrics(&config))?;
    } else if args.json {
        let all = serde_json::json!({ "node": status, "disks": disks, "routes": routes });
        writeln!(out, "{all}")?;
    } else {
        let takes = if status.problems.is_empty() { "yes" } else { "no" };
        let seconds = status.queue_age_ms / 1000;
        writeln!(out, "node         {}, version {}", status.name, status.version)?;
        writeln!(out, "since        {}", moment(status.started_ms))?;
        writeln!(out, "takes mail   {takes}")?;
        for problem in &status.problems {
            writeln!(out, "             {problem}")?;
        }
        for question in &status.questions {
            writeln!(out, "to decide    {question}")?;
        }
        writeln!(out, "ruleset      {}", status.ruleset)?;
        writeln!(out, "sessions     {}", status.sessions)?;
        let held = match status.queued_held {
            0 => String::new(),
            held => format!(", {held} wait for a person"),
        };
        writeln!(out, "queue        {} messages, the oldest for {seconds} s{held}", status.queued)?;
        let (waiting, most) = (status.hold_backlog, status.hold_backlog_max);
        let full = if waiting >= most { ": full, such mail gets 451" } else { "" };
        writeln!(
            out,
            "quarantine   {} packs, {} bytes; {waiting} messages wait for it (at most {most}{full})",
            status.packs, status.pack_bytes
        )?;
        if let Some(array) = &status.array {
            write_array(&mut out, array)?;
        }
        for disk in disks {
            let room = describe_room(disk.free, disk.total);
            writeln!(out, "disk         {}: {room}, {}", disk.what, disk.path)?;
        }
        for route in routes {
            let (to, tls) = (route.goes_to, route.tls);
            writeln!(out, "mail for     {}: to {to}, TLS {tls}", route.mail_for)?;
        }
    }
    Ok(if status.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn write_array(out: &mut impl Write, array: &ArrayStatus) -> std::io::Result<()> {
    let since = moment(array.since_ms);
    match (array.connected, array.since_ms) {
        (true, _) => writeln!(out, "array        {}, reached since {since}", array.server)?,
        (false, 0) => writeln!(out, "array        {}, not reached yet", array.server)?,
        (false, _) => writeln!(out, "array        {}, AWAY since {since}", array.server)?,
    }
    if let Some(problem) = &array.problem {
        writeln!(out, "             {}", problem.trim_start_matches("array: "))?;
    }
    write_editions(out, array)?;
    let (log, held) = (array.behind, array.held_behind);
    if log + held > 0 {
        writeln!(
            out,
            "             {log} changes of the log and {held} of held mail wait to be sent"
        )?;
    }
    Ok(())
}

/// What of the array the node goes by, and since when: on its disk, so without the database, too.
fn write_editions(out: &mut impl Write, array: &ArrayStatus) -> std::io::Result<()> {
    match array.policy {
        0 => write!(out, "goes by      its own policy")?,
        policy => write!(out, "goes by      policy {policy}{}", since(array.policy_since_ms))?,
    }
    match array.settings {
        0 => writeln!(out)?,
        settings => writeln!(out, ", settings {settings}{}", since(array.settings_since_ms))?,
    }
    let age = |(kind, as_of_ms): (&String, &i64)| match as_of_ms {
        0 => format!("{kind} none since the start"),
        as_of_ms => format!("{kind} {} s", (now_ms() - as_of_ms).max(0) / 1_000),
    };
    let ages: Vec<String> = array.shared_ms.iter().map(age).collect();
    if !ages.is_empty() {
        writeln!(out, "shared       all of the others, by age: {}", ages.join(", "))?;
    }
    Ok(())
}
