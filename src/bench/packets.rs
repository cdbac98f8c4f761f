//! `gauntlet bench packets`: a capture through the packet path, with and without rules.

mod experiment;

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use gauntlet_bench::commands::seconds;
use gauntlet_bench::usage;
use gauntlet_ids::replay::{Options, Replayer, Summary};
use serde::Serialize;

use crate::ips::SettingsArgs;

const AFTER_HELP: &str = "\
Rules are loaded first, and that is not counted in what the packets cost. The capture is read
from its file, as often as --rounds says, each time from a fresh state; the first of several
rounds fills the system's cache and is not counted. CPU time is user and system time of all
threads.

--experiment repeats the experiment of the 2012 paper on threat management instead, with captures
that it composes: 80 packets of 1,000 bytes through a URL filter and a filter of weighted words, on
1 to all CPUs, beside the paper's own algorithm here (packets or patterns shared out) and the
paper's figures. --threads and --rules do not matter to it.

Exit codes: 0 measured; 1 the capture is damaged; 2 nothing could be measured.";

/// Rounds of the experiment.
const EXPERIMENT_ROUNDS: usize = 3;

/// Arguments of `gauntlet bench packets`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A capture: pcap or pcapng, also compressed with gzip or zstd
    #[arg(value_name = "FILE", required_unless_present = "experiment")]
    capture: Option<PathBuf>,
    /// A file of rules; may be repeated; without any, all layers run but detection finds nothing
    #[arg(long, value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// Threads that inspect, beside the one that reads; with one, the reader inspects
    #[arg(long, value_name = "N", default_value = "1")]
    threads: NonZeroUsize,
    /// How often the capture is replayed [default: 1; of the experiment 3]
    #[arg(long, value_name = "N")]
    rounds: Option<NonZeroUsize>,
    /// Repeat the paper's experiment on captures that are composed
    #[arg(long, conflicts_with_all = ["capture", "rules"])]
    experiment: bool,
    /// URLs of the experiment's list
    #[arg(long, value_name = "N", default_value_t = 80_000, requires = "experiment")]
    entries: u64,
    /// Words of the experiment
    #[arg(long, value_name = "N", default_value_t = 1_000, requires = "experiment")]
    patterns: usize,
    /// Seconds of a run of the paper's algorithm
    #[arg(long, value_name = "N", default_value_t = 1.0, requires = "experiment")]
    seconds: f64,
    /// Write the experiment's report.html and report.json into this folder
    #[arg(long, value_name = "DIR", requires = "experiment")]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: SettingsArgs,
}

#[derive(Debug, Serialize)]
struct Report {
    rules: usize,
    loading_seconds: f64,
    loading_cpu_seconds: f64,
    threads: usize,
    frames: u64,
    bytes: u64,
    alerts: u64,
    seconds: f64,
    cpu_seconds: f64,
    frames_per_second: f64,
    frames_per_cpu_second: f64,
    gigabits_per_second: f64,
    peak_rss_bytes: u64,
    damage: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Some(capture) = &args.capture else {
        let rounds = args.rounds.map_or(EXPERIMENT_ROUNDS, NonZeroUsize::get);
        let options = gauntlet_bench::packets::Options {
            entries: args.entries,
            patterns: args.patterns,
            time: seconds("--seconds", args.seconds)?,
            rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
            folder: std::env::temp_dir(),
        };
        return experiment::run(&options, args.report.as_ref(), args.json);
    };
    let options = Options {
        settings: args.settings.read()?,
        directory: args.settings.directory(),
        rules: args.rules.clone(),
        inline: false,
        checksums: None,
    };
    let (cpu, clock) = (usage::cpu_seconds(), Instant::now());
    let replayer = Replayer::new(&options)?.on_threads(args.threads);
    let loading_cpu_seconds = usage::cpu_seconds() - cpu;
    let loading_seconds = clock.elapsed().as_secs_f64();
    let rounds = args.rounds.map_or(1, NonZeroUsize::get);
    let (mut elapsed, mut cpu_seconds, mut counted) = (0.0, 0.0, 0);
    let mut summary = Summary::default();
    for round in 0..rounds {
        let (cpu, clock) = (usage::cpu_seconds(), Instant::now());
        summary = replayer.run(capture, &mut |_| {})?;
        if round > 0 || rounds == 1 {
            elapsed += clock.elapsed().as_secs_f64();
            cpu_seconds += usage::cpu_seconds() - cpu;
            counted += 1;
        }
    }
    let frames = summary.frames * counted;
    let bytes = summary.bytes * counted;
    let report = Report {
        rules: summary.rules,
        loading_seconds,
        loading_cpu_seconds,
        threads: args.threads.get(),
        frames,
        bytes,
        alerts: summary.alerts,
        seconds: elapsed,
        cpu_seconds,
        frames_per_second: frames as f64 / elapsed,
        frames_per_cpu_second: frames as f64 / cpu_seconds,
        gigabits_per_second: bytes as f64 * 8.0 / 1e9 / elapsed,
        peak_rss_bytes: usage::peak_rss_bytes(),
        damage: summary.damage,
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(out, "{}", table(&report))?;
    }
    Ok(ExitCode::from(u8::from(report.damage.is_some())))
}

fn table(report: &Report) -> String {
    let (cpu, frames) = (report.cpu_seconds, report.frames as f64);
    let rows = [
        ("rules", report.rules.to_string()),
        (
            "loading",
            format!("{:.2} s, CPU {:.2} s", report.loading_seconds, report.loading_cpu_seconds),
        ),
        ("frames", format!("{frames} in {:.2} s, CPU {cpu:.2} s", report.seconds)),
        ("threads", report.threads.to_string()),
        ("alerts a round", report.alerts.to_string()),
        ("frames/s", format!("{:.0}", report.frames_per_second)),
        ("frames/s of CPU", format!("{:.0}", report.frames_per_cpu_second)),
        ("CPU us a frame", format!("{:.3}", cpu / frames * 1e6)),
        ("Gbit/s", format!("{:.2}", report.gigabits_per_second)),
        ("peak memory MB", format!("{:.1}", report.peak_rss_bytes as f64 / 1e6)),
    ];
    let rows = rows.iter().map(|(name, value)| format!("{name:20} {value}\n"));
    let damage = report.damage.iter().map(|damage| format!("damaged: {damage}\n"));
    rows.chain(damage).collect()
}
