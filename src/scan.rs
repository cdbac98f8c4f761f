//! `gauntlet scan`: judge messages from files.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use gauntlet_engine::{Scratch, Snapshot, Thresholds, scan};
use gauntlet_mail::{Envelope, Facts, Message};

/// Arguments of `gauntlet scan`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files to judge
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

/// Judges every file and prints one line each.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let snapshot =
        Snapshot { version: "none".into(), thresholds: Thresholds::default(), filters: Vec::new() };
    let mut scratch = Scratch::default();
    for path in &args.paths {
        let raw = std::fs::read(path).with_context(|| path.display().to_string())?;
        let message = Message::parse(&raw);
        let verdict =
            scan(&message, &Envelope::default(), &Facts::default(), &snapshot, &mut scratch);
        writeln!(std::io::stdout(), "{} {} {}", path.display(), verdict.class, verdict.score)?;
    }
    Ok(ExitCode::SUCCESS)
}
