//! `gauntlet bench store`: spool and message log alone.

use std::path::PathBuf;
use std::process::ExitCode;

use gauntlet_bench::commands::seconds;
use gauntlet_bench::store::{self, Backend, Case, Measured, Options, Part};

use super::finish;

const AFTER_HELP: &str = "\
Every combination of the settings is a case. Writers hand over a message, wait until it is
durable, mark it done and take the next; cases are measured in turn, round after round, each in
an empty store. First the same writers are measured against a store that only answers: a case
near that is INVALID.

Exit codes: 0 measured; 2 nothing could be measured; 3 measured, but INVALID.

Examples:
  gauntlet bench store
  gauntlet bench store --backend disk --batch 1,16,256 --writers 1,64
  gauntlet bench store --part log --writers 1,8,64 --rounds 5 --report store/
  gauntlet bench store --folder /var/lib/gauntlet --bytes 5000,30000 --json";

/// Arguments of `gauntlet bench store`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Folder on the disk to measure; what is written there is removed again
    #[arg(long, value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Folder of a memory file system, for the log with --backend ram
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
    /// What it is kept on
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "NAME,...",
        default_value = "disk,ram,null"
    )]
    backend: Vec<BackendName>,
    /// Parts that are measured: spool, log, or one after the other
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "NAME,...",
        default_value = "spool,log,both"
    )]
    part: Vec<PartName>,
    /// Most messages that one sync makes durable
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "256")]
    batch: Vec<usize>,
    /// Bytes of a message
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "30000")]
    bytes: Vec<usize>,
    /// Messages under way at once
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,16,64")]
    writers: Vec<usize>,
    /// Seconds of a run
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    seconds: f64,
    /// Runs of each case, in turn
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Write report.html, its charts and report.json into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum BackendName {
    /// Files in a new folder below --folder
    Disk,
    /// Memory alone, nothing on disk
    Ram,
    /// Nothing is kept, and no log
    Null,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum PartName {
    /// The spool alone: accept, then done
    Spool,
    /// The message log alone
    Log,
    /// Spooled, then logged, then done
    Both,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let backend = |name: &BackendName| match name {
        BackendName::Disk => Backend::Disk,
        BackendName::Ram => Backend::Ram,
        BackendName::Null => Backend::Null,
    };
    let part = |name: &PartName| match name {
        PartName::Spool => Part::Spool,
        PartName::Log => Part::Log,
        PartName::Both => Part::Both,
    };
    let options = Options {
        folder: args.folder.clone(),
        memory: args.memory.clone(),
        backends: args.backend.iter().map(backend).collect(),
        parts: args.part.iter().map(part).collect(),
        batches: args.batch.clone(),
        bytes: args.bytes.clone(),
        writers: args.writers.clone(),
        time: seconds("--seconds", args.seconds)?,
        rounds: args.rounds,
    };
    let mut progress = |case: &Case, run: &Measured| {
        let mark = if run.invalid.is_empty() { "" } else { ", INVALID" };
        eprintln!("{}: {:.0} messages/s{mark}", case.name(), run.messages_per_second);
    };
    let report = store::run(&options, env!("CARGO_PKG_VERSION"), &mut progress)?;
    let sheet = store::page::sheet(&report);
    finish((&sheet, &report), args.report.as_deref(), args.json, report.valid)
}
