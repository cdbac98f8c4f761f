//! `gauntlet rules`: look into SpamAssassin rules and what they do.

mod check;
mod diff;
mod test;
mod usage;

use std::process::ExitCode;

use clap::Subcommand;
use gauntlet_lab::{fit, order, parity, profile};

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
    /// Say what each rule costs and what it brings, over a set of messages
    Profile(profile::Args),
    /// Say what it gains to try first what hit often yesterday, where scans end early
    Order(order::Args),
    /// Say which verdicts change between two sets of rules
    Diff(diff::Args),
    /// Set the points of our own rules by labelled mail
    Fit(fit::Args),
    /// Say what the rules of a node did, and which never hit
    Usage(usage::Args),
    /// Prove rules by messages that must hit and messages that must not
    Test(test::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Check(args) => check::run(args),
        Command::Parity(args) => parity::run(args),
        Command::Profile(args) => profile::run(args),
        Command::Order(args) => order::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Fit(args) => fit::run(args),
        Command::Test(args) => test::run(args),
        Command::Usage(args) => usage::run(args),
    }
}
