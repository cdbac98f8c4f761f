//! `gauntlet backup`: copy a node's data folder while the node runs.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::node_args::NodeArgs;
use anyhow::Context;
use gauntlet_gateway::clock::now_ms;
use gauntlet_store::backup::back_up;

const AFTER_HELP: &str = "\
In it: message log, quarantine with its bodies, people, what was learned, lists, keys. Not in
it: the spool (from a copy, mail in flight would be delivered twice), the Maildir, and the
configuration file. Root's backup belongs to whom the data folder belongs to. A backup is
complete when it holds `backup.json`. To go back to it, stop the node and put a copy of it in
the data folder's place, or start a node with --data.

Examples:
  gauntlet backup /var/backups/gauntlet-monday
  gauntlet backup --config gauntlet.toml /mnt/disk/today";

/// Arguments of `gauntlet backup`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Folder to make; it must be empty or not there yet
    target: PathBuf,
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.node.load()?;
    let node = &config.node;
    anyhow::ensure!(
        node.data.is_dir(),
        "node.data {}: there is no such folder; name it with --data",
        node.data.display()
    );
    let skip = [node.inside(&config.spool.path), node.inside(&config.route.maildir)];
    let made = back_up(&node.data, &args.target, &skip, now_ms())
        .with_context(|| format!("no backup was made of {}", node.data.display()))?;
    let mebibytes = made.bytes as f64 / f64::from(1 << 20);
    let (target, databases, files) = (args.target.display(), made.databases, made.files);
    writeln!(
        std::io::stdout(),
        "{target}: {databases} databases and {files} files, {mebibytes:.1} MiB"
    )?;
    Ok(ExitCode::SUCCESS)
}
