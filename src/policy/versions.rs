//! `gauntlet policy apply|history|show|rollback`: the versions of a node's policy.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use crate::node_args::NodeArgs;
use anyhow::{Context, bail};
use gauntlet_gateway::admin::policy_source::{self, Wanted};
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::config::Config;
use gauntlet_gateway::control::{self, Answer, Request};
use gauntlet_mail::date;
use gauntlet_policy::{Groups, Policy, diff};
use gauntlet_store::Policies;
use gauntlet_store::policies::Version;

/// Arguments of `gauntlet policy apply`.
#[derive(Debug, clap::Args)]
pub(super) struct ApplyArgs {
    /// The policy file to put into force
    file: PathBuf,
    /// Why, for those who look at the history
    #[arg(long, default_value = "")]
    note: String,
    #[command(flatten)]
    node: NodeArgs,
}

/// Arguments of `gauntlet policy history`.
#[derive(Debug, clap::Args)]
pub(super) struct HistoryArgs {
    /// At most so many
    #[arg(long, default_value_t = 50, value_name = "N")]
    most: usize,
    /// Print JSON, one line a version
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: NodeArgs,
}

/// Arguments of `gauntlet policy show`.
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// Its number [default: the newest]
    version: Option<i64>,
    /// Print what it changed
    #[arg(long)]
    diff: bool,
    /// Print what differs from this version
    #[arg(long, value_name = "N", conflicts_with = "diff")]
    against: Option<i64>,
    #[command(flatten)]
    node: NodeArgs,
}

/// Arguments of `gauntlet policy rollback`.
#[derive(Debug, clap::Args)]
pub(super) struct RollbackArgs {
    /// The version to go back to [default: the one before the newest]
    version: Option<i64>,
    /// Why, for those who look at the history
    #[arg(long, default_value = "")]
    note: String,
    #[command(flatten)]
    node: NodeArgs,
}

/// Runs `gauntlet policy apply`.
pub(super) fn apply(args: &ApplyArgs) -> anyhow::Result<ExitCode> {
    let config = args.node.load_to_copy()?;
    let text = std::fs::read_to_string(&args.file);
    let text = text.with_context(|| args.file.display().to_string())?;
    let policy = Policy::parse(&text, &Groups::default())
        .with_context(|| args.file.display().to_string())?;
    let mut out = io::stdout().lock();
    for warning in &policy.warnings {
        writeln!(out, "line {}: rule {:?}: {}", warning.line, warning.rule, warning.message)?;
    }
    drop(out);
    put(&config, &text, &args.note)
}

/// Runs `gauntlet policy rollback`.
pub(super) fn rollback(args: &RollbackArgs) -> anyhow::Result<ExitCode> {
    let config = args.node.load_to_copy()?;
    let policies = Policies::open(&policy_source::folder(&config))?;
    // A file that was changed by hand is a version, too: the one that is left.
    policy_source::note(&config, &policies, now_ms())?;
    let edition = policy_source::earlier(&policies, args.version)?;
    let number = edition.version.number;
    let note = match args.note.trim() {
        "" => format!("back to version {number}"),
        note => format!("back to version {number}: {note}"),
    };
    put(&config, &edition.text, &note)
}

/// Puts a text into force and has the node reload it, if one runs.
fn put(config: &Config, text: &str, note: &str) -> anyhow::Result<ExitCode> {
    let policies = Policies::open(&policy_source::folder(config))?;
    let who = author();
    let wanted = Wanted { text, base: None, who: &who, note, now_ms: now_ms() };
    let version = policy_source::save(config, &policies, &wanted)?;
    let mut out = io::stdout().lock();
    writeln!(out, "version {}", version.number)?;
    match control::ask(&config.node.data, &Request::Policy) {
        Ok(Answer::Failed(why)) => bail!("kept, but not in use yet: {why}"),
        Ok(_) => writeln!(out, "applied by the running node")?,
        Err(_) => writeln!(out, "no node runs there; it applies from the next start on")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Who does this, for the history.
pub(crate) fn author() -> String {
    let user = std::env::var("USER").unwrap_or_default();
    let fit = !user.is_empty() && user.len() <= 64 && user.bytes().all(|b| b.is_ascii_graphic());
    if fit { format!("{user} (command line)") } else { "command line".to_owned() }
}

/// Runs `gauntlet policy history`.
pub(super) fn history(args: &HistoryArgs) -> anyhow::Result<ExitCode> {
    let config = args.node.load_to_copy()?;
    let policies = Policies::open(&policy_source::folder(&config))?;
    let mut out = io::stdout().lock();
    for version in policies.list(None, args.most)? {
        if args.json {
            writeln!(out, "{}", serde_json::to_string(&version)?)?;
            continue;
        }
        let (added, removed) = changed(&policies, &version)?;
        let Version { number, at_ms, who, note, .. } = version;
        let when = date::rfc5322(at_ms);
        writeln!(out, "{number:>5}  {when}  {who:<24} +{added} -{removed}  {note}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn changed(policies: &Policies, version: &Version) -> anyhow::Result<(usize, usize)> {
    let text = policies.get(version.number)?.map(|e| e.text).unwrap_or_default();
    let before = policies.before(version.number)?.map(|e| e.text).unwrap_or_default();
    Ok(diff::counts(&before, &text))
}

/// Runs `gauntlet policy show`.
pub(super) fn show(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let config = args.node.load_to_copy()?;
    let policies = Policies::open(&policy_source::folder(&config))?;
    let get = |number: i64| -> anyhow::Result<_> {
        let found = policies.get(number)?;
        found
            .with_context(|| format!("there is no version {number}; see `gauntlet policy history`"))
    };
    let mut out = io::stdout().lock();
    let edition = match args.version {
        Some(number) => get(number)?,
        None => match policies.newest()? {
            Some(newest) => newest,
            None => {
                out.write_all(policy_source::source(&config)?.text.as_bytes())?;
                return Ok(ExitCode::SUCCESS);
            }
        },
    };
    let old = match args.against {
        Some(number) => Some(get(number)?),
        None if args.diff => policies.before(edition.version.number)?,
        None => {
            out.write_all(edition.text.as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let old = old.map(|e| e.text).unwrap_or_default();
    out.write_all(diff::text(&old, &edition.text).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
