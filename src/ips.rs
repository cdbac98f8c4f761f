//! `gauntlet ips`: Suricata's rules on captured and live packets.

pub(crate) mod gate;
pub(crate) mod inspection;
pub(crate) mod node;
mod policy;
mod replay;
mod rules;
mod run;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use gauntlet_ids::config::Settings;

const AFTER_HELP: &str = "\
Rules are Suricata's, unchanged; settings are those of suricata.yaml by their names. Without
--suricata-yaml those of Suricata's stock file hold. Rules that are not understood are left
out: `gauntlet ips rules check` names them.

Exit codes: 0 all was read; 1 the capture is damaged and was read as far as it goes, or frames
of it are of a link type that is not decoded, or `rules check` met a rule that cannot be used; 2
wrong usage, or a file that cannot be read.";

/// Arguments of `gauntlet ips`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Run a capture file through the rules
    Replay(Box<replay::Args>),
    /// Run live packets through the rules, and drop what they drop
    Run(Box<run::Args>),
    /// Check rules
    Rules(rules::Args),
    /// Check and explain rules for packets ([[ips.rule]])
    Policy(policy::Args),
}

/// Settings as suricata.yaml has them.
#[derive(Debug, clap::Args)]
pub(crate) struct SettingsArgs {
    /// A configuration of Suricata; what it does not say has Suricata's built-in value
    #[arg(long, value_name = "FILE")]
    suricata_yaml: Option<PathBuf>,
    /// One setting by its name in suricata.yaml; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    assignments: Vec<String>,
}

impl SettingsArgs {
    /// Where files are that the settings name: beside the configuration.
    pub(crate) fn directory(&self) -> PathBuf {
        let folder = self.suricata_yaml.as_deref().and_then(Path::parent);
        folder.map(Path::to_owned).unwrap_or_default()
    }

    pub(crate) fn read(&self) -> anyhow::Result<Settings> {
        let mut settings = match &self.suricata_yaml {
            Some(file) => Settings::read(file).context("no settings were read")?,
            None => Settings::stock(),
        };
        for assignment in &self.assignments {
            settings.assign(assignment)?;
        }
        Ok(settings)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::Replay(args) => replay::run(args),
        Action::Run(args) => run::run(args),
        Action::Rules(args) => rules::run(args),
        Action::Policy(args) => policy::run(args),
    }
}
