//! `gauntlet size`: nodes, disk, database and links for a site's mail.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context;
use gauntlet_bench::size::array::{ArrayCosts, ArrayPlan, array_plan};
use gauntlet_bench::size::scaling::{self, Fit, Point, Prediction};
use gauntlet_bench::size::{self, Capacity, Link, Plan, Retention, Traffic};
use serde::Serialize;

const AFTER_HELP: &str = "\
Bytes and messages are decimal: 1 GB is 1,000,000,000 bytes. What a node sustains has to be
measured on mail like yours; `gauntlet bench scan` gives an upper bound (the engine alone).

Exit codes: 0 sized; 2 the figures make no sense, or the points cannot carry what was asked.

Examples:
  gauntlet size --users 100000 --sustained 32
  gauntlet size --users 22500 --sustained 32 --link e1
  gauntlet size --users 100000 --sustained 32 --keep mailmarshal
  gauntlet size --users 100000 --sustained 32 --array
  gauntlet size --users 500000 --points 1=440,2=830,4=1500,8=2600 --cpus 16";

/// Bits/s of an E1 line in each direction, rounded as the study did.
const E1_BITS: f64 = 2e6;

/// Arguments of `gauntlet size`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Users whose mail it is
    #[arg(long, value_name = "N")]
    users: f64,
    /// Messages/s that one node was measured to sustain
    #[arg(long, value_name = "N", required_unless_present = "points")]
    sustained: Option<f64>,
    /// Messages/s measured by CPUs, from which a node of --cpus is extrapolated
    #[arg(long, value_name = "CPUS=RATE,...", value_delimiter = ',', value_parser = point,
          conflicts_with = "sustained", requires = "cpus")]
    points: Vec<Point>,
    /// CPUs of a node to plan with
    #[arg(long, value_name = "N", requires = "points")]
    cpus: Option<f64>,
    /// Messages a user and day, both directions, spam included
    #[arg(long, value_name = "N", default_value_t = 20.0)]
    messages_per_user: f64,
    /// Share of a day's messages in the busy window
    #[arg(long, value_name = "SHARE", default_value_t = 0.8)]
    busy_share: f64,
    /// Hours of the busy window
    #[arg(long, value_name = "HOURS", default_value_t = 10.0)]
    busy_hours: f64,
    /// Bytes of a message on average
    #[arg(long, value_name = "BYTES", default_value_t = 30_000.0)]
    message_bytes: f64,
    /// Messages out for each message in
    #[arg(long, value_name = "N", default_value_t = 0.5)]
    out_per_in: f64,
    /// Share of what a node sustains that it is planned for
    #[arg(long, value_name = "SHARE", default_value_t = 0.625)]
    planned_share: f64,
    /// Nodes that may fail
    #[arg(long, value_name = "N", default_value_t = 1)]
    spares: u32,
    /// What is kept of a message, and how long
    #[arg(long, value_enum, default_value_t = Keep::Gauntlet)]
    keep: Keep,
    /// Days of quarantine, instead of those of --keep
    #[arg(long, value_name = "DAYS")]
    quarantine_days: Option<f64>,
    /// Days of the message log, instead of those of --keep
    #[arg(long, value_name = "DAYS")]
    log_days: Option<f64>,
    /// Disk beyond what is needed, as a share
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    headroom: f64,
    /// Say what a link carries: bits/s in each direction, or e1
    #[arg(long, value_name = "BITS", value_parser = bits)]
    link: Option<f64>,
    /// The nodes form an array: say what database and object store need
    #[arg(long)]
    array: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Keep {
    /// As this program does with its default settings
    Gauntlet,
    /// As MailMarshal SMTP 6.0 did
    Mailmarshal,
}

fn point(text: &str) -> Result<Point, String> {
    let read = |text: &str| text.trim().parse::<f64>().ok();
    let pair = text.split_once('=').and_then(|(cpus, rate)| Some((read(cpus)?, read(rate)?)));
    let (cpus, rate) = pair.ok_or_else(|| format!("{text:?} is not CPUS=RATE, e.g. 4=1500"))?;
    Ok(Point { cpus, rate })
}

fn bits(text: &str) -> Result<f64, String> {
    if text.eq_ignore_ascii_case("e1") {
        return Ok(E1_BITS);
    }
    text.parse().map_err(|_| format!("{text:?} is neither bits/s nor e1"))
}

/// What the command answers.
#[derive(Debug, Serialize)]
struct Answer {
    traffic: Traffic,
    capacity: Capacity,
    retention: Retention,
    plan: Plan,
    #[serde(skip_serializing_if = "Option::is_none")]
    fit: Option<Fit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<Prediction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<Link>,
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<ArrayPlan>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let answer = answer(args)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
    } else {
        write!(out, "{}", table(&answer))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(args: &Args) -> anyhow::Result<Answer> {
    let traffic = Traffic {
        users: args.users,
        messages_per_user: args.messages_per_user,
        busy_share: args.busy_share,
        busy_hours: args.busy_hours,
        message_bytes: args.message_bytes,
        out_per_in: args.out_per_in,
    };
    let (fit, prediction) = match args.cpus {
        Some(cpus) => {
            let fit = scaling::fit(&args.points).context("--points cannot carry a fit")?;
            let at = fit.predict(cpus).with_context(|| format!("--cpus {cpus}"))?;
            (Some(fit), Some(at))
        }
        None => (None, None),
    };
    // Planned with the lower end: hardware is bought once.
    let sustained = prediction.map(|p| p.low).or(args.sustained).unwrap_or_default();
    let capacity = Capacity { sustained, planned_share: args.planned_share, spares: args.spares };
    let mut retention = match args.keep {
        Keep::Gauntlet => Retention::ours(),
        Keep::Mailmarshal => Retention::mailmarshal(),
    };
    retention.headroom = args.headroom;
    retention.quarantine_days = args.quarantine_days.unwrap_or(retention.quarantine_days);
    retention.database_days = args.log_days.unwrap_or(retention.database_days);
    let plan = size::plan(&traffic, &capacity, &retention)?;
    let link = args.link.map(|bits| size::link(bits, &traffic)).transpose()?;
    let costs = ArrayCosts::measured();
    let array = args.array.then(|| array_plan(&traffic, &retention, &plan, &costs));
    Ok(Answer { traffic, capacity, retention, plan, fit, prediction, link, array })
}

fn table(answer: &Answer) -> String {
    let Answer { capacity, plan, .. } = answer;
    let gb = |bytes: f64| format!("{:.1} GB", bytes / 1e9);
    let drain = plan.drain_seconds_after_hour.map_or_else(
        || "never works off a backlog: no capacity is left in the busy window".to_owned(),
        |s| format!("an hour's outage is worked off in {:.0} minutes of the busy window", s / 60.0),
    );
    let spares = if capacity.spares == 1 {
        "1 node".to_owned()
    } else {
        format!("{} nodes", capacity.spares)
    };
    let mut rows = vec![
        ("busy window", format!("{:.1} messages/s", plan.busy_rate)),
        (
            "a node",
            format!(
                "sustains {:.1} messages/s, planned for {:.1}",
                capacity.sustained,
                capacity.sustained * capacity.planned_share
            ),
        ),
        ("nodes", format!("{} ({} carry it without a spare)", plan.nodes, plan.nodes_min)),
        (
            "load of each",
            format!(
                "{:.1} messages/s; {:.1} after the failure of {spares}",
                plan.node_rate, plan.node_rate_after_failure
            ),
        ),
        ("backlog", drain),
        (
            "disk of the nodes",
            format!(
                "{} together ({:.0} KB a user)",
                gb(plan.node_bytes),
                plan.node_bytes_per_user / 1e3
            ),
        ),
        ("message log", gb(plan.database_bytes)),
        (
            "disk in all",
            format!("{}, with headroom {}", gb(plan.disk_bytes), gb(plan.disk_bytes_with_headroom)),
        ),
        (
            "bandwidth",
            format!("{:.1} Mbit/s in the busier direction", plan.link_bits_per_second / 1e6),
        ),
    ];
    if let Some(link) = &answer.link {
        let Link { rate_in, rate_out, users } = link;
        rows.push((
            "the link carries",
            format!("{rate_in:.1} messages/s in and {rate_out:.1} out: {users:.0} users"),
        ));
    }
    rows.extend(answer.array.iter().flat_map(array_rows));
    let mut text: String = rows.iter().map(|(n, value)| format!("{n:20} {value}\n")).collect();
    text.push_str(&law(answer));
    text
}

/// What database and object store of an array need.
fn array_rows(array: &ArrayPlan) -> [(&'static str, String); 4] {
    [
        (
            "database traffic",
            format!(
                "{:.1} KB/s with the nodes, {:.1} KB/s of write-ahead log ({:.2} GB a day)",
                array.database_bytes_per_second / 1e3,
                array.wal_bytes_per_second / 1e3,
                array.wal_bytes_per_day / 1e9
            ),
        ),
        ("database disk", format!("{:.1} GB", array.database_bytes / 1e9)),
        (
            "object store",
            format!(
                "{:.1} GB, {:.1} KB/s in the busy window",
                array.object_bytes / 1e9,
                array.object_bytes_per_second / 1e3
            ),
        ),
        (
            "its requests",
            format!(
                "{:.2} PUT/s, {:.0} thousand a month",
                array.puts_per_second,
                array.puts_per_month / 1e3
            ),
        ),
    ]
}

/// Lines on the law that a node was predicted by, if it was.
fn law(answer: &Answer) -> String {
    let (Some(fit), Some(at)) = (&answer.fit, &answer.prediction) else {
        return String::new();
    };
    let kind = if at.extrapolated { "EXTRAPOLATED" } else { "between measured points" };
    format!(
        "{:20} {kind}: {:.1} to {:.1} messages/s on {} CPUs (law: {:.1}), measured up to {}\n\
         {:20} one CPU {:.1} messages/s, contention {:.4}, coherency {:.6}, error {:.1} %\n",
        "node by the law",
        at.low,
        at.high,
        at.cpus,
        at.rate,
        fit.measured_max,
        "",
        fit.lambda,
        fit.sigma,
        fit.kappa,
        fit.error * 100.0
    )
}
