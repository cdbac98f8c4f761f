//! `gauntlet bench scan`: the engine alone, on messages in memory.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use gauntlet_bench::scan::{self, Report, Workload};

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
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    ruleset: RulesetArgs,
}

/// Measures and prints.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let time = Duration::try_from_secs_f64(args.seconds)
        .map_err(|error| anyhow::anyhow!("--seconds {}: {error}", args.seconds))?;
    let threads = args.threads.or_else(|| std::thread::available_parallelism().ok());
    let workload = Workload::load(&args.folder)?;
    let snapshot = args.ruleset.load()?;
    let threads = threads.map_or(1, usize::from);
    let report = scan::run(&workload, &snapshot, threads, time, env!("CARGO_PKG_VERSION"))?;
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
                "{} messages, {:.1} MB, {}",
                report.workload_messages,
                report.workload_bytes as f64 / 1e6,
                report.workload_hash
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
    rows.iter().map(|(name, value)| format!("{name:20} {value}\n")).collect()
}
