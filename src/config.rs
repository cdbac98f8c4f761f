//! `gauntlet config`: check a file, show the effective settings.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use gauntlet_gateway::config::Loaded;

/// Arguments of `gauntlet config`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Read a file and say what is wrong with it
    #[command(after_help = "Exit status: 0 if the file can be used, 2 if not.")]
    Check {
        /// The configuration file to read
        #[arg(required_unless_present = "config", conflicts_with = "config")]
        file: Option<PathBuf>,
        /// The same, as all other subcommands name it
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Print every setting with its effective value and where it came from
    Show {
        /// The configuration file; without one, defaults and environment
        #[arg(short, long, env = "GAUNTLET_CONFIG")]
        config: Option<PathBuf>,
        /// Print one JSON object instead of lines
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::Check { file, config } => {
            let file = file.as_deref().or(config.as_deref());
            check(file.context("name the file that is to be checked")?)
        }
        Action::Show { config, json } => show(config.as_deref(), *json),
    }
}

/// The process's variables. Those that are no UTF-8 are none of ours (and `std::env::vars` would
/// panic).
pub(crate) fn environment() -> impl Iterator<Item = (String, String)> {
    let text = |s: std::ffi::OsString| s.into_string().ok();
    std::env::vars_os().filter_map(move |(name, value)| Some((text(name)?, text(value)?)))
}

fn check(file: &Path) -> anyhow::Result<ExitCode> {
    let loaded = Loaded::load(Some(file), environment())?;
    crate::array_access::check(&loaded.config)?;
    let set = loaded.settings().iter().filter(|s| s.origin.to_string() != "default").count();
    gauntlet_gateway::admin::policy_source::load(&loaded.config)?;
    writeln!(
        std::io::stdout(),
        "{}: valid; {set} settings differ from the defaults",
        file.display()
    )?;
    Ok(ExitCode::SUCCESS)
}

fn show(file: Option<&Path>, json: bool) -> anyhow::Result<ExitCode> {
    let settings = crate::shared_settings::load(file, environment)?.settings();
    let mut out = std::io::stdout().lock();
    if json {
        for s in settings {
            let line = serde_json::json!({
                "key": s.key, "value": s.value, "origin": s.origin.to_string(),
            });
            writeln!(out, "{line}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let width = settings.iter().map(|s| s.key.len()).max().unwrap_or(0);
    for s in settings {
        writeln!(out, "{:width$} = {}  # {}", s.key, s.value, s.origin)?;
    }
    Ok(ExitCode::SUCCESS)
}
