//! `gauntlet rules`: look into SpamAssassin rules and what they do.

mod check;
mod oracle;
mod parity;

use std::process::ExitCode;

use clap::Subcommand;

/// Arguments of `gauntlet rules`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read rule files and say what is in them and what is wrong with them
    Check(check::Args),
    /// Compare hits with those that SpamAssassin itself found
    Parity(parity::Args),
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Check(args) => check::run(args),
        Command::Parity(args) => parity::run(args),
    }
}
