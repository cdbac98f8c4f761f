//! `gauntlet config`: check a file, show the effective settings.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use gauntlet_gateway::config::{Config, Loaded, mask};
use gauntlet_gateway::node::files::{self, FileProblems};

use crate::denied::is_denied;
use crate::environment::environment;
use crate::judge;
use crate::policy::warnings as policy_warnings;

/// Arguments of `gauntlet config`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Read a file and say what is wrong with it
    ///
    /// Files that it names are read, too, as a start of the node reads them: lists, keys,
    /// certificates, rules, the policy. No port is bound, nothing is written and nobody is asked.
    #[command(after_help = "Exit status: 0 if the file can be used, 2 if not.")]
    Check {
        /// The configuration file to read
        #[arg(required_unless_present = "config", conflicts_with = "config")]
        file: Option<PathBuf>,
        /// The same, as all other subcommands name it
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Read none of the files that it names: they are on another machine
        #[arg(long)]
        no_files: bool,
        /// Print one JSON object: valid, settings_changed, errors, warnings
        #[arg(long)]
        json: bool,
    },
    /// Print every setting with its effective value and where it came from
    Show {
        /// The configuration file; without one, defaults and environment
        #[arg(short, long, env = "GAUNTLET_CONFIG")]
        config: Option<PathBuf>,
        /// Print a JSON object a line, one for each setting
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.action {
        Action::Check { file, config, no_files, json } => {
            let file = file.as_deref().or(config.as_deref());
            let file = file.context("name the file that is to be checked")?;
            let found = check(file, *no_files);
            if *json { print_json(file, found) } else { print(file, found) }
        }
        Action::Show { config, json } => show(config.as_deref(), *json),
    }
}

/// What a check found.
struct Checked {
    /// Settings that differ from the defaults.
    settings_changed: usize,
    errors: Vec<String>,
    warnings: Vec<String>,
}

/// Reads the file and, unless it is another machine's, what it names, as a start does; makes and
/// binds nothing. What only another user may read is told, and no mistake.
fn check(file: &Path, no_files: bool) -> anyhow::Result<Checked> {
    let loaded = Loaded::load(Some(file), environment())?;
    let config = &loaded.config;
    crate::array_access::check(config)?;
    let mut found = FileProblems::default();
    if !no_files {
        found = files_of(config)?;
    }
    let (unread, wrong): (Vec<_>, Vec<_>) = found.errors.into_iter().partition(is_denied);
    let unread = unread.iter().map(|error| {
        let what = mask(&format!("{error:#}"));
        format!("{what}: not checked; run this as the node's user or root")
    });
    let warnings = unread.chain(found.warnings.iter().map(|warning| mask(warning))).collect();
    let errors = wrong.iter().map(|error| placed(&loaded, format!("{error:#}"))).collect();
    let settings = loaded.settings();
    let settings_changed = settings.iter().filter(|s| s.origin.to_string() != "default").count();
    Ok(Checked { settings_changed, errors, warnings })
}

/// The same with the line, or the variable, that names the file.
fn placed(loaded: &Loaded, error: String) -> String {
    match loaded.origin_of(&error) {
        Some(origin) => format!("{origin}: {error}"),
        None => error,
    }
}

fn print(file: &Path, found: anyhow::Result<Checked>) -> anyhow::Result<ExitCode> {
    let Checked { settings_changed, errors, warnings } = found?;
    let mut err = std::io::stderr().lock();
    for warning in &warnings {
        writeln!(err, "warning: {warning}")?;
    }
    if !errors.is_empty() {
        let name = file.display().to_string();
        // An error with a line begins with the file.
        let of_file = |error: &String| match error.starts_with(&format!("{name}:")) {
            true => error.clone(),
            false => format!("{name}: {error}"),
        };
        bail!("{}", errors.iter().map(of_file).collect::<Vec<_>>().join("\n"));
    }
    writeln!(
        std::io::stdout(),
        "{}: valid; {settings_changed} settings differ from the defaults",
        file.display()
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The same for programs: a file that cannot be used has the object, too.
fn print_json(file: &Path, found: anyhow::Result<Checked>) -> anyhow::Result<ExitCode> {
    let Checked { settings_changed, errors, warnings } = found.unwrap_or_else(|error| Checked {
        settings_changed: 0,
        errors: vec![mask(&format!("{error:#}"))],
        warnings: Vec::new(),
    });
    let valid = errors.is_empty();
    let line = serde_json::json!({
        "file": file, "valid": valid, "settings_changed": settings_changed, "errors": errors,
        "warnings": warnings,
    });
    writeln!(std::io::stdout(), "{line}")?;
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// What is wrong with the files that a configuration names.
fn files_of(config: &Config) -> anyhow::Result<FileProblems> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _within = runtime.enter();
    let mut found = files::problems(config);
    let policy = gauntlet_gateway::admin::policy_source::load(config).map(|policy| {
        let warnings = policy_warnings::of(&policy, config);
        found.warnings.extend(warnings.iter().map(policy_warnings::line));
    });
    let texts = crate::digest::texts(config).map(drop);
    found.errors.extend([policy, texts].into_iter().filter_map(Result::err));
    found.errors.extend(crate::web::files::problems(config));
    let judging = judge::file_problems(config);
    found.errors.extend(judging.errors);
    found.warnings.extend(judging.warnings);
    Ok(found)
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
