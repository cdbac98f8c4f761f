//! `gauntlet bench`: what it costs, measured here. One file a measurement.

mod scan;

use std::process::ExitCode;

/// Arguments of `gauntlet bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Scan messages from memory: messages/s, CPU time and latency of the engine alone
    Scan(scan::Args),
}

/// Runs the measurement.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Scan(args) => scan::run(args),
    }
}
