//! `gauntlet`: the command line. One file a subcommand, each thin: it reads arguments, calls the
//! crates and prints.

mod scan;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs mail through a gauntlet of filters, and says why.
#[derive(Debug, Parser)]
#[command(name = "gauntlet", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Judge messages from files, folders, archives or standard input
    Scan(scan::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Scan(args) => scan::run(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("gauntlet: {error:#}");
        ExitCode::from(2)
    })
}
