//! `gauntlet upgrade`: what this program would do with a data folder.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::config::faults::{Fault, faults};
use gauntlet_gateway::config::{Config, Loaded};
use gauntlet_gateway::upgrade::{Action as What, FormatLine, Outlook, Report, Subject, look};

use crate::backup::mebibytes;
use crate::node_args::{NodeArgs, become_owner, must_exist};

const CHECK_HELP: &str = "\
Run it with the new program while the old one runs. It reads and changes nothing. It says for
each format of the data folder which versions there are and what the first start does with them,
what that costs, which databases a start refuses to open (damaged, emptied, or gone), whether a
backup is known, and every setting of the configuration file that this version does not take. docs/data-formats.md has the promise behind it, and describes the JSON.

Exit status: 0 fine; 1 something should be done before; 2 this program would not start there.

Examples:
  gauntlet upgrade check --config /etc/gauntlet/gauntlet.toml
  gauntlet upgrade check /var/lib/gauntlet --json
  gauntlet upgrade check --backup /mnt/disk/monday";

/// Arguments of `gauntlet upgrade`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Look at a data folder and a configuration with this program, and change nothing
    #[command(after_help = CHECK_HELP)]
    Check(CheckArgs),
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// The data folder, if it is not the configuration's
    #[arg(value_name = "DATA")]
    folder: Option<PathBuf>,
    /// A backup that could be gone back to, instead of the one that was made last
    #[arg(long, value_name = "DIR")]
    backup: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Action::Check(args) = &args.action;
    let (config, wrong) = settings(args)?;
    must_exist(&config.node.data)?;
    become_owner(&config.node.data)?;
    let file = args.node.file().zip(wrong);
    let backup = args.backup.as_deref();
    let report = look(&Subject { config: &config, file, backup, now_ms: now_ms() })?;
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string(&report)?)?,
        false => show(&mut out, &report)?,
    }
    Ok(match report.outlook {
        Outlook::Fine => ExitCode::SUCCESS,
        Outlook::Attention => ExitCode::from(1),
        Outlook::Refused => ExitCode::from(2),
    })
}

/// The settings, and what is wrong with the file. Where anything is, only the places of data and
/// spool are taken from it.
fn settings(args: &CheckArgs) -> anyhow::Result<(Config, Option<Vec<Fault>>)> {
    let environment: Vec<(String, String)> = crate::environment::environment().collect();
    let wrong = args.node.file().map(|file| faults(file, &environment)).transpose()?;
    let mut config = match wrong.as_ref().is_none_or(Vec::is_empty) {
        true => args.node.load()?,
        false => places(args, environment)?,
    };
    if let Some(folder) = args.folder.as_ref().or(args.node.data()) {
        config.node.data.clone_from(folder);
    }
    Ok((config, wrong))
}

/// Where data and spool are by a file that has mistakes.
fn places(args: &CheckArgs, environment: Vec<(String, String)>) -> anyhow::Result<Config> {
    let mut config = Loaded::load(None, environment)?.config;
    let path = args.node.file().context("there is no configuration file")?;
    let Ok(table) = std::fs::read_to_string(path)?.parse::<toml::Table>() else {
        return Ok(config);
    };
    let text = |section: &str, key: &str| table.get(section)?.get(key)?.as_str().map(PathBuf::from);
    if let Some(data) = text("node", "data") {
        config.node.data = data;
    }
    if let Some(spool) = text("spool", "path") {
        config.spool.path = spool;
    }
    Ok(config)
}

fn show(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let before = match &report.last_run_by {
        Some(mark) => format!("version {} was started here last", mark.version),
        None => "no version that marks data folders was started here".to_owned(),
    };
    writeln!(out, "{}: {before}, this is {}\n", report.data, report.program)?;
    let width = report.formats.iter().map(|line| line.name.len()).max().unwrap_or(0);
    for line in &report.formats {
        writeln!(out, "  {:width$}  {}", line.name, described(line))?;
    }
    writeln!(out)?;
    if let Some(backup) = &report.backup {
        let hours = backup.age_seconds / 3_600;
        let verified = if backup.has_hashes { "" } else { ", without SHA-256" };
        writeln!(out, "  backup {}: {hours} h old{verified}", backup.folder)?;
    }
    if let Some(settings) = report.settings.as_ref().filter(|s| s.faults.is_empty()) {
        writeln!(out, "  configuration {}: valid", settings.file)?;
    }
    for note in &report.notes {
        writeln!(out, "  {note}")?;
    }
    for what in &report.attention {
        writeln!(out, "attention: {what}")?;
    }
    for why in &report.refusals {
        writeln!(out, "refused: {why}")?;
    }
    let end = match report.outlook {
        Outlook::Fine => "fine: nothing is in the way",
        Outlook::Attention => "this program would start, but see `attention` first",
        Outlook::Refused => "this program would not start here",
    };
    writeln!(out, "{end}")
}

fn described(line: &FormatLine) -> String {
    let versions: Vec<String> = line.versions.keys().map(u32::to_string).collect();
    let versions = versions.join(", ");
    let what = match line.action {
        What::Nothing => String::new(),
        What::Read => ", read as they are".to_owned(),
        What::Migrate => format!(", brought forward to {}", line.known),
        What::Refuse => format!(", this program reads {} to {}", line.oldest, line.known),
    };
    match line.files {
        0 => format!("version {versions}{what}"),
        1 => format!("1 file, {}, version {versions}{what}", mebibytes(line.bytes)),
        files => format!("{files} files, {}, version {versions}{what}", mebibytes(line.bytes)),
    }
}
