//! `gauntlet queue adopt`: takes over the mail of a dead node from its disk.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use gauntlet_gateway::adopt::{self, Destination, Line, Options, Source, Total};
use gauntlet_gateway::config::Config;
use gauntlet_store::files;

use super::counted;
use crate::messages::visible;
use crate::node_args::NodeArgs;

const AFTER_HELP: &str = "\
Every message that waits there is taken over once, with its envelope, verdict, disposition for each
recipient and the deliveries so far: who has it does not get it again. It keeps its id unless that
names another message here. The node here may run or be stopped. Interrupted, even by a power cut,
the same command again goes on: nothing is lost, nothing taken twice.

DIR is the data folder of the dead node, mounted for writing, or its spool's folder. A node that
runs is refused. Adopt the disk itself, never a backup of it: what was delivered since the backup
would be delivered again. Held mail (quarantine), users, the log and DKIM keys stay there; mail that
waits is signed with the keys of the node here.

Exit status: 0 everything is here; 1 something stays there (damaged, refused, on its way to another
node); 2 it could not be done, or not to the end.

Examples:
  gauntlet queue adopt /mnt/mx1/gauntlet-data --dry-run
  gauntlet queue adopt /mnt/mx1/gauntlet-data
  gauntlet queue adopt /mnt/mx1-spool --json";

/// Arguments of `gauntlet queue adopt`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Data folder of the dead node, or its spool's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Only list what waits there; nothing is changed, there or here
    #[arg(long)]
    dry_run: bool,
    /// Take also what was on its way to another node, which must never have had it
    #[arg(long)]
    also_leaving: bool,
    /// Print JSON: one line a message, then the totals
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, node: &NodeArgs) -> anyhow::Result<ExitCode> {
    let config = node.load_to_copy()?;
    refuse_own(&args.folder, &config)?;
    let from = args.folder.display().to_string();
    let to = config.node.host_name();
    let options = Options { to: &to, from: &from, also_leaving: args.also_leaving };
    let mut out = std::io::stdout().lock();
    let mut written = Ok(());
    let tell = |line: &Line| {
        // A reader who goes away must not stop what has begun.
        if written.is_ok() {
            written = show(&mut out, line, args.json);
        }
    };
    let source = Source::open(&args.folder, args.dry_run)?;
    let total = match args.dry_run {
        true => adopt::look(&source, options, tell),
        false => {
            let destination = Destination::open(&config)?;
            refuse_root(&destination, &config)?;
            adopt::adopt(&source, &destination, options, tell)?
        }
    };
    written?;
    sum_up(&mut out, &total, args)?;
    Ok(if total.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// A node does not adopt its own mail.
fn refuse_own(folder: &Path, config: &Config) -> anyhow::Result<()> {
    let theirs = folder.canonicalize().with_context(|| folder.display().to_string())?;
    let own = [config.node.data.clone(), config.node.inside(&config.spool.path)];
    if own.iter().any(|own| own.canonicalize().is_ok_and(|own| own == theirs)) {
        bail!("{}: that is this node's own; it delivers it when it runs", folder.display());
    }
    Ok(())
}

/// Files that root made in the stores of a stopped node could not be read by its user.
fn refuse_root(destination: &Destination, config: &Config) -> anyhow::Result<()> {
    let data = &config.node.data;
    let owner = files::owner(data).with_context(|| data.display().to_string())?;
    let us = files::effective_user();
    if matches!(destination, Destination::Stopped(_)) && owner != us {
        bail!(
            "{}: the node here is stopped, and its files belong to user id {owner}: start it, or run this \
             as that user",
            data.display()
        );
    }
    Ok(())
}

fn show(out: &mut impl Write, line: &Line, json: bool) -> std::io::Result<()> {
    if json {
        serde_json::to_writer(&mut *out, line)?;
        return writeln!(out);
    }
    let Line { id, what, new_id, why } = line;
    write!(out, "{id}  {what}")?;
    if let Some(new) = new_id {
        write!(out, " as {new}")?;
    }
    if !why.is_empty() {
        write!(out, ": {}", visible(why))?;
    }
    writeln!(out)
}

fn sum_up(out: &mut impl Write, total: &Total, args: &Args) -> anyhow::Result<()> {
    if args.json {
        writeln!(out, "{}", serde_json::json!({ "total": total }))?;
        return Ok(());
    }
    let found = usize::try_from(total.found).unwrap_or(usize::MAX);
    let Total { adopted, known, renamed, left, damaged_regions, .. } = total;
    write!(out, "{} waited there", counted(found))?;
    if !args.dry_run {
        write!(out, "; {adopted} adopted, {known} were here already")?;
        if *renamed > 0 {
            write!(out, ", {renamed} have a new id")?;
        }
    }
    if *left > 0 {
        write!(out, "; {left} stay there")?;
    }
    writeln!(out)?;
    if *damaged_regions > 0 {
        writeln!(
            out,
            "{damaged_regions} damaged regions of its files: what was in them is lost unless a copy of the \
             disk has it; its senders may have to send again"
        )?;
    }
    Ok(())
}
