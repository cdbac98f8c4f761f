//! `gauntlet tune`: which settings help on this machine, measured.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use gauntlet_bench::commands::{INVALID, seconds};
use gauntlet_bench::tune::{self, Options, page, parallel};

const AFTER_HELP: &str = "\
Private nodes on loopback take the messages of DIR and pass them on to a sink.
One setting after the other is varied: threads, placement, allocator, automata,
batch, sync-interval. Each candidate runs in turn with the best so far
(A B A B); it is kept if it is faster beyond noise, which is measured first by
the state out of the box beside itself. At the end the tuned state and that out
of the box are measured beside each other. Neither touches a node that runs, or
its configuration: --write makes a file of its own.

Then the experiment of the 2012 paper on threat management is repeated: is it
better to share out messages or patterns? Its table stands beside ours.

Exit codes: 0 measured; 2 nothing could be measured; 3 measured, but INVALID.

Examples:
  gauntlet tune mail/ --dry-run
  gauntlet tune mail/ --write tuned.toml --rounds 7 --report tuning/
  gauntlet tune mail/ --only batch,sync-interval --no-experiment
  gauntlet tune --experiment --patterns 5000";

/// Arguments of `gauntlet tune`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Folders of messages, one a file
    #[arg(value_name = "DIR", required_unless_present = "experiment")]
    folders: Vec<PathBuf>,
    /// Write the settings that helped into this file
    #[arg(long, value_name = "FILE", conflicts_with = "experiment")]
    write: Option<PathBuf>,
    /// Print the settings that helped, and write nothing
    #[arg(long, conflicts_with = "write")]
    dry_run: bool,
    /// Vary these settings alone
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = SETTINGS)]
    only: Vec<String>,
    /// Connections at once
    #[arg(long, short, value_name = "N", default_value_t = 16)]
    connections: usize,
    /// Hand messages on inside the session, as out of the box; else all are spooled, so that the
    /// settings of the spool count
    #[arg(long)]
    cut_through: bool,
    /// Seconds of a run
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    seconds: f64,
    /// Runs of each of two, in turn
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: u32,
    /// Do the experiment alone
    #[arg(long, conflicts_with_all = ["folders", "only"])]
    experiment: bool,
    /// Leave the experiment out
    #[arg(long, conflicts_with = "experiment")]
    no_experiment: bool,
    /// Words of the experiment
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    patterns: usize,
    /// Write report.html and report.json into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const SETTINGS: [&str; 6] =
    ["threads", "placement", "allocator", "automata", "batch", "sync-interval"];

#[derive(serde::Serialize)]
struct Both {
    tuning: Option<tune::Report>,
    experiment: Option<parallel::Report>,
}

/// Measures, prints, and writes the settings. The code is [`INVALID`] if a figure says nothing.
///
/// # Errors
/// If nothing can be measured, or a file is there already or cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let version = env!("CARGO_PKG_VERSION");
    let mut progress = |what: &str| eprintln!("{what}");
    let time = seconds("--seconds", args.seconds)?;
    if let Some(file) = args.write.as_ref().filter(|file| file.exists()) {
        bail!("{} is there already: name a new file", file.display());
    }
    let tuning = if args.experiment {
        None
    } else {
        let options = Options {
            program: std::env::current_exe().context("cannot find this program")?,
            folders: args.folders.clone(),
            connections: args.connections,
            time,
            rounds: args.rounds,
            cut_through: args.cut_through,
            only: args.only.clone(),
        };
        Some(tune::run(&options, version, &mut progress)?)
    };
    let experiment = if args.no_experiment {
        None
    } else {
        let options =
            parallel::Options { patterns: args.patterns, time: time / 4, rounds: args.rounds };
        Some(parallel::run(&options, version, &mut progress)?)
    };
    let sheet = page::sheet(tuning.as_ref(), experiment.as_ref());
    let both = Both { tuning, experiment };
    if let (Some(folder), Some(sheet)) = (&args.report, &sheet) {
        sheet.write(folder, &both)?;
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&both)?)?;
    } else if let Some(sheet) = &sheet {
        write!(out, "{}", sheet.text())?;
    }
    let Some(tuning) = &both.tuning else { return Ok(ExitCode::SUCCESS) };
    let settings = page::settings(tuning);
    if let Some(file) = &args.write {
        let mode = std::fs::metadata(file).map_or(0o600, |old| old.permissions().mode() & 0o777);
        gauntlet_store::files::write_durably_as(file, settings.as_bytes(), mode)
            .with_context(|| format!("cannot write {}", file.display()))?;
        eprintln!("wrote {}", file.display());
    } else if args.dry_run && !args.json {
        write!(out, "\n{settings}")?;
    }
    Ok(if tuning.invalid.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(INVALID) })
}
