//! `gauntlet ips rules`: what is understood of rule files, what rules cost, and whether their
//! alerts are Suricata's.

mod check;
mod parity;
mod profile;

use std::path::PathBuf;
use std::process::ExitCode;

use gauntlet_ids::replay::Options;

use super::SettingsArgs;

/// Arguments of `gauntlet ips rules`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Read rules and say which cannot be used, with file, line, keyword and reason
    Check(check::Args),
    /// Replay a capture and say what each rule costs
    Profile(profile::Args),
    /// Replay a capture and compare its alerts with those that Suricata wrote about it
    Parity(parity::Args),
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::Check(args) => check::run(args),
        Action::Profile(args) => profile::run(args),
        Action::Parity(args) => parity::run(args),
    }
}

/// What rules are read with.
fn options(settings: &SettingsArgs, rules: &[PathBuf]) -> anyhow::Result<Options> {
    Ok(Options {
        settings: settings.read()?,
        directory: settings.directory(),
        rules: rules.to_vec(),
        inline: false,
        checksums: None,
    })
}
