//! `gauntlet bench urls`: lists of URLs, compiled, opened and asked.

use std::path::PathBuf;
use std::process::ExitCode;

use gauntlet_bench::commands::seconds;
use gauntlet_bench::urls::{self, Options};

use super::finish;

const AFTER_HELP: &str = "\
Lists of each size are made with a fixed seed (half domains, the rest hosts and URLs), compiled,
opened and asked on one thread: URLs that they have and others. Beside it stands what others do:
the search for each line of the text in the URL, halving a sorted list, and squidGuard itself if
it is installed. --list measures your own list or folder of lists as well.

Exit codes: 0 measured; 2 nothing could be measured; 3 measured, but INVALID (the machine was
disturbed).

Examples:
  gauntlet bench urls
  gauntlet bench urls --entries 80000,10000000 --report urls/
  gauntlet bench urls --entries 80000 --list /srv/blacklists --json";

/// Arguments of `gauntlet bench urls`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Sizes of composed lists, in entries
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "80000,1000000")]
    entries: Vec<u64>,
    /// A list or a folder of lists to measure as well
    #[arg(long, value_name = "PATH")]
    list: Option<PathBuf>,
    /// Folder for the lists; what is written there is removed again [default: the system's]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Longest time of each run, in seconds
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    seconds: f64,
    /// Runs of each case
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Write report.html and report.json into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        folder: args.folder.clone().unwrap_or_else(std::env::temp_dir),
        entries: args.entries.clone(),
        list: args.list.clone(),
        time: seconds("--seconds", args.seconds)?,
        rounds: args.rounds,
    };
    let report = urls::run(&options, env!("CARGO_PKG_VERSION"), &mut |what| eprintln!("{what}"))?;
    let sheet = urls::sheet(&report);
    finish((&sheet, &report), args.report.as_deref(), args.json, report.invalid.is_empty())
}
