//! `gauntlet bench scan`: the engine alone, on messages in memory.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use gauntlet_bench::compare::peers::SpamdRules;
use gauntlet_bench::scan::{self, FilterTime, Report, Workload};
use gauntlet_inputs::source;

use crate::ruleset::RulesetArgs;

/// Arguments of `gauntlet bench scan`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder of messages, one a file
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Seconds to measure, after one pass over all messages that is not counted
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    seconds: f64,
    /// Scan threads [default: the CPUs that the process may use]
    #[arg(long, value_name = "N")]
    threads: Option<std::num::NonZeroUsize>,
    /// Measure this peer in the same run too, on the same messages and rules
    #[arg(long, value_name = "PEER", requires = "rules")]
    peer: Option<Peer>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    ruleset: RulesetArgs,
}

/// Programs that can be measured beside the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Peer {
    /// SpamAssassin's spamd, a private one on loopback
    Spamd,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let time = Duration::try_from_secs_f64(args.seconds)
        .map_err(|error| anyhow::anyhow!("--seconds {}: {error}", args.seconds))?;
    let threads = args.threads.or_else(|| std::thread::available_parallelism().ok());
    let workload = Workload::load(&args.folder)?;
    let snapshot = args.ruleset.load()?;
    let threads = threads.map_or(1, usize::from);
    let version = env!("CARGO_PKG_VERSION");
    let report = match args.peer {
        None => scan::run(&workload, &snapshot, threads, time, version)?,
        Some(Peer::Spamd) => {
            let rules = SpamdRules {
                rules: args.ruleset.rules.first().cloned(),
                site: args.ruleset.reading.site.first().cloned(),
            };
            scan::run_beside(&workload, &snapshot, threads, time, version, &rules)?
        }
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(out, "{}", table(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(report: &Report) -> String {
    let manifest = &report.manifest;
    let rows = [
        ("messages/s", format!("{:.0}", report.messages_per_second)),
        ("MB/s", format!("{:.1}", report.megabytes_per_second)),
        ("CPU us a message", format!("{:.1}", report.cpu_us_per_message)),
        ("median us", format!("{:.1}", report.p50_us)),
        ("99th percentile us", format!("{:.1}", report.p99_us)),
        ("peak memory MB", format!("{:.1}", report.peak_rss_bytes as f64 / 1e6)),
        ("messages scanned", format!("{} in {:.2} s", report.messages, report.seconds)),
        ("threads", format!("{} of {} CPUs", report.threads, manifest.cpus)),
        (
            "workload",
            format!(
                "{} messages, {:.1} MB, {}{}",
                report.workload_messages,
                report.workload_bytes as f64 / 1e6,
                report.workload_hash,
                source::passed_over(report.files_skipped as u64)
            ),
        ),
        ("ruleset", report.ruleset.clone()),
        ("machine", format!("{}, {}", manifest.cpu_model, manifest.system)),
        (
            "program",
            format!(
                "{}{}",
                manifest.version,
                if manifest.optimised { "" } else { " (debug build)" }
            ),
        ),
    ];
    let peer = report.spamd.as_ref().map(|spamd| {
        let rest = format!(
            "CPU us a message, {} messages: {:.1} times ours ({})",
            spamd.messages, spamd.times_the_engine, spamd.version
        );
        ("spamd", format!("{:.1} {rest}", spamd.cpu_us_per_message))
    });
    let of_filter = |filter: &FilterTime| {
        format!("{:20} {:.1} us a message\n", format!("  {}", filter.filter), filter.us_per_message)
    };
    let rows = rows.iter().chain(&peer).map(|(name, value)| format!("{name:20} {value}\n"));
    let filters = report.filters.iter().map(of_filter);
    rows.chain(["filters (wall time)\n".to_owned()]).chain(filters).collect()
}
