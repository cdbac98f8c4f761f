//! `gauntlet bench disk`: reads by size of the buffer, and how long it takes until a write is
//! durable.

use std::path::PathBuf;
use std::process::ExitCode;

use gauntlet_bench::commands::seconds;
use gauntlet_bench::disk::{self, Options};

use super::finish;

const AFTER_HELP: &str = "\
A file is written, then read through with each size of buffer: from the system's cache, and
cold. Beside it stand reads of /dev/zero: what system calls alone do at most. Then pieces are
appended, each made durable by fdatasync, as the spool does. Sizes are measured in turn, round
after round.

Exit codes: 0 measured; 2 nothing could be measured; 3 measured, but INVALID (the cold reads
were not the disk's, or the machine was disturbed).

Examples:
  gauntlet bench disk
  gauntlet bench disk --folder /var/lib/gauntlet --file-mb 2048 --report disk/
  gauntlet bench disk --buffer 4096,65536,1048576 --write 4096,32768 --rounds 5 --json";

/// Arguments of `gauntlet bench disk`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Folder on the disk to measure; what is written there is removed again
    #[arg(long, value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Size of the file that is read, in MB (2^20 bytes)
    #[arg(long, value_name = "N", default_value_t = 256)]
    file_mb: u64,
    /// Sizes of the buffer of reads, in bytes
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "512,4096,16384,65536,262144,1048576,4194304"
    )]
    buffer: Vec<usize>,
    /// Sizes of writes that are each made durable, in bytes
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "512,4096,32768,262144,1048576"
    )]
    write: Vec<usize>,
    /// Longest time of each run, in seconds
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    seconds: f64,
    /// Runs of each size, in turn
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Write report.html, its charts and report.json into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        folder: args.folder.clone(),
        file_bytes: args.file_mb.saturating_mul(1 << 20),
        buffers: args.buffer.clone(),
        writes: args.write.clone(),
        time: seconds("--seconds", args.seconds)?,
        rounds: args.rounds,
    };
    let report = disk::run(&options, env!("CARGO_PKG_VERSION"), &mut |what| eprintln!("{what}"))?;
    let sheet = disk::sheet(&report);
    finish((&sheet, &report), args.report.as_deref(), args.json, report.invalid.is_empty())
}
