//! `gauntlet bench gateway`: messages through a gateway and back, in a closed loop.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use gauntlet_bench::commands::INVALID;
use gauntlet_bench::load::Corpus;
use gauntlet_bench::load::round_trip::{self, AddressPool, GatewayShare, Plan, Report};
use gauntlet_bench::plot::{self, Axis, Line, Scale};
use gauntlet_bench::report::Chart;
use gauntlet_bench::token_bucket;

/// Share of places that held messages take, from which on that is said.
const HELD_SHARE_LOUD: f64 = 0.5;

const AFTER_HELP: &str = "\
The gateway must take mail for 1.recipient.example to 3.recipient.example and deliver it to
--listen. Messages go out in the order of their files' names, in a loop, stamped with run,
instance and number; From and To are rewritten (60,000 users a side; 94 % of messages have one
recipient, some up to 32). What comes back drives what is sent: --window messages are in flight
of each instance at most. One that has not come back within --patience (quarantined, discarded,
stuck) is counted as held and is no bottleneck.

Several gateways (nodes of an array that deliver to the same --listen) are named with commas; load
generators are dealt out to them in turn, one each at least, and each one's rate is told.

Exit codes: 0 measured; 2 nothing could be measured; 3 the client was the limit, or messages
that were accepted neither came back nor were held.

Examples:
  gauntlet bench gateway 127.0.0.1:2525 mail/ --listen 127.0.0.1:2626
  gauntlet bench gateway 127.0.0.1:2525 mail/ --instances 6 --seconds 960 --report run/
  gauntlet bench gateway 127.0.0.1:2525 mail/ --link e1
  gauntlet bench gateway 127.0.0.1:2525,127.0.0.1:3525 mail/ --instances 2";

/// Arguments of `gauntlet bench gateway`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Gateway to measure, HOST:PORT; several with commas between
    #[arg(value_name = "GATEWAY")]
    gateways: String,
    /// Folders of messages, one a file
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// Where the gateway delivers to; we listen there
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:2626")]
    listen: SocketAddr,
    /// Load generators, each with its window [default: one for each gateway]
    #[arg(long, value_name = "N")]
    instances: Option<usize>,
    /// Messages in flight of each instance at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    window: usize,
    /// Connections of each instance
    #[arg(long, short, value_name = "N", default_value_t = 10)]
    connections: usize,
    /// Seconds that are measured, after --warm-up
    #[arg(long, value_name = "N", default_value_t = 60.0)]
    seconds: f64,
    /// Seconds of load before them that are not counted
    #[arg(long, value_name = "N", default_value_t = 5.0)]
    warm_up: f64,
    /// Seconds of a sample
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    sample: f64,
    /// Seconds after which a message that has not come back counts as held
    #[arg(long, value_name = "N", default_value_t = 30.0)]
    patience: f64,
    /// Bytes/s of the link in each direction, or e1 (250,000)
    #[arg(long, value_name = "BYTES", value_parser = link)]
    link: Option<f64>,
    /// Domain below which senders are
    #[arg(long, value_name = "DOMAIN", default_value = "sender.example")]
    from_domain: String,
    /// Domain below which recipients are
    #[arg(long, value_name = "DOMAIN", default_value = "recipient.example")]
    to_domain: String,
    /// Names in each of the domains
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    names: u64,
    /// Domains of senders, and as many of recipients
    #[arg(long, value_name = "N", default_value_t = 3)]
    domains: u64,
    /// Chooses who writes to whom
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads of the client
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Load a gateway that is not on this machine (it is yours, or you were asked to)
    #[arg(long)]
    remote: bool,
    /// Write report.html, its chart and report.json into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn link(text: &str) -> Result<f64, String> {
    if text.eq_ignore_ascii_case("e1") {
        return Ok(token_bucket::E1_BYTES);
    }
    let rate = text.parse::<f64>().ok().filter(|rate| *rate >= 1.0 && rate.is_finite());
    rate.ok_or_else(|| format!("{text:?} is neither bytes/s nor e1"))
}

fn address(name: &str, remote: bool) -> anyhow::Result<SocketAddr> {
    let gateway = name
        .to_socket_addrs()
        .with_context(|| format!("{name:?} is no HOST:PORT that resolves"))?
        .next()
        .with_context(|| format!("{name} has no address"))?;
    if !remote && !gateway.ip().to_canonical().is_loopback() {
        bail!("{gateway} is not on this machine: load a gateway of yours with --remote");
    }
    Ok(gateway)
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    let gateways = args.gateways.split(',').map(|name| address(name, args.remote));
    let gateways = gateways.collect::<anyhow::Result<Vec<SocketAddr>>>()?;
    let seconds = |name: &str, value: f64| {
        Duration::try_from_secs_f64(value)
            .map_err(|error| anyhow::anyhow!("{name} {value}: {error}"))
    };
    Ok(Plan {
        instances: args.instances.unwrap_or(gateways.len()),
        gateways,
        listen: args.listen,
        window: args.window,
        connections: args.connections,
        warm_up: seconds("--warm-up", args.warm_up)?,
        time: seconds("--seconds", args.seconds)?,
        sample: seconds("--sample", args.sample.min(args.seconds))?,
        return_timeout: seconds("--patience", args.patience)?,
        link: args.link,
        people: AddressPool {
            from_domain: args.from_domain.clone(),
            to_domain: args.to_domain.clone(),
            names: args.names,
            domains: args.domains,
            seed: args.seed,
        },
        threads: args.threads,
    })
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let plan = plan(args)?;
    let corpus = Corpus::load(&args.folders)?;
    eprintln!(
        "sending to {} and listening on {} for {} s ...",
        args.gateways,
        plan.listen,
        args.warm_up + args.seconds
    );
    let report = round_trip::run(&plan, &corpus, env!("CARGO_PKG_VERSION"))?;
    if let Some(folder) = &args.report {
        write_report(folder, &report)?;
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(out, "{}", table(&report))?;
    }
    let valid = report.invalid.is_empty() && unaccounted(&report) == 0;
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::from(INVALID) })
}

/// Messages that were accepted, and of which it is not known that they came back or were held.
fn unaccounted(report: &Report) -> u64 {
    let a = &report.accounts;
    a.accepted.saturating_sub(a.returned + a.held)
}

/// What the rate says little about the gateway for, if it does.
fn limit(report: &Report) -> Option<String> {
    let percent = report.held_share * 100.0;
    (report.held_share > HELD_SHARE_LOUD).then(|| {
        format!(
            "the waiting: messages that were held in the end took {percent:.0} % of all places in the windows, so \
             messages/s says little about the gateway (mail without spam, a wider --window or a shorter \
             --patience do)"
        )
    })
}

/// A row for each of several gateways.
fn nodes(report: &Report) -> Vec<(&'static str, String)> {
    if report.gateways.len() < 2 {
        return Vec::new();
    }
    let row = |share: &GatewayShare| {
        let (refused, unanswered) = (share.refused, share.unanswered);
        let text = format!(
            "{}: {:.1} messages/s, {} accepted, {refused} refused, {unanswered} unanswered",
            share.gateway, share.messages_per_second, share.accepted
        );
        ("gateway", text)
    };
    report.gateways.iter().map(row).collect()
}

fn rows(report: &Report) -> Vec<(&'static str, String)> {
    let Report { accounts: a, latency: l, health, manifest, .. } = report;
    let mut rows = vec![
        ("messages/s", format!("{:.1}", report.messages_per_second)),
        ("MB/s", format!("{:.2}", report.megabytes_per_second)),
        (
            "out and back, ms",
            format!(
                "median {:.1}, 99 % {:.1}, longest {:.1}",
                l.p50_us / 1e3,
                l.p99_us / 1e3,
                l.max_us / 1e3
            ),
        ),
        (
            "sent",
            format!(
                "{}: {} accepted, {} refused, {} deferred, {} unanswered",
                a.sent, a.accepted, a.refused, a.deferred, a.unanswered
            ),
        ),
        (
            "accepted",
            format!(
                "{} came back, {} held ({} of them came late), {} unaccounted for",
                a.returned,
                a.held,
                a.returned_late,
                unaccounted(report)
            ),
        ),
        ("duplicates", format!("{} deliveries, {} without our stamp", a.duplicates, a.strange)),
        ("out of order", a.reordered.to_string()),
        (
            "load",
            format!(
                "{} instances, {} in flight each, link {}",
                report.instances,
                report.window,
                report.link.map_or("unlimited".to_owned(), |rate| format!("{rate} bytes/s"))
            ),
        ),
        (
            "messages",
            format!(
                "{}, {:.1} MB, {}",
                report.workload.messages,
                report.workload.bytes as f64 / 1e6,
                report.workload.hash
            ),
        ),
        (
            "client",
            format!(
                "busy {:.0} %, timers late {:.1} ms (99 %)",
                health.busy_share * 100.0,
                health.lag_p99_us / 1e3
            ),
        ),
        ("machine", format!("{}, {} CPUs", manifest.cpu_model, manifest.cpus)),
        ("system", format!("{}, kernel {}", manifest.system, manifest.kernel)),
        ("program", format!("{} build {}", manifest.version, manifest.build)),
    ];
    rows.extend(nodes(report));
    rows.extend(limit(report).map(|why| ("limited by", why)));
    rows.extend(report.errors.iter().map(|(error, n)| ("error", format!("{n} x {error}"))));
    rows.extend(report.invalid.iter().map(|why| ("INVALID", why.clone())));
    rows
}

fn table(report: &Report) -> String {
    rows(report).iter().map(|(name, value)| format!("{name:18} {value}\n")).collect()
}

fn write_report(folder: &Path, report: &Report) -> anyhow::Result<()> {
    let points = report.samples.iter().zip(1_u32..);
    let points = points.map(|(rate, n)| (f64::from(n) * report.sample_seconds, *rate)).collect();
    let drawing = plot::chart(
        "Messages that came back",
        Axis { name: "seconds", scale: Scale::Linear },
        Axis { name: "messages/s", scale: Scale::Linear },
        &[Line { name: format!("samples of {} s", report.sample_seconds), points }],
    );
    let mut body = format!("<figure>{}</figure>\n<table>", drawing.svg());
    for (name, value) in rows(report) {
        let _never_fails =
            writeln!(body, "<tr><th>{name}</th><td>{}</td></tr>", plot::escape(&value));
    }
    body.push_str("</table>\n");
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for (name, text) in [
        ("report.html", plot::page("Through a gateway and back", &body)),
        ("report.json", serde_json::to_string_pretty(report)?),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Chart { name: "rate".to_owned(), drawing }.write(folder)
}
