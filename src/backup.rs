//! `gauntlet backup`: copy a node's data folder while the node runs, or verify such a copy.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::config::Config;
use gauntlet_gateway::privileges;
use gauntlet_store::backup::{Backup, BackupError, Step, back_up, note_last, verify};
use gauntlet_store::files::free_bytes;

use crate::node_args::NodeArgs;

const AFTER_HELP: &str = "\
In it: message log, quarantine with its bodies, people, what was learned, lists, keys. Not in
it: the spool (from a copy, mail in flight would be delivered twice), the Maildir, and the
configuration file. Root's backup belongs to whom the data folder belongs to. A backup is
complete when it holds `backup.json`, which has the SHA-256 of every file. `gauntlet restore`
goes back to it.

Examples:
  gauntlet backup /var/backups/gauntlet-monday
  gauntlet backup --config gauntlet.toml /mnt/disk/today
  gauntlet backup verify /var/backups/gauntlet-monday";

const VERIFY_HELP: &str = "\
Every file is compared with its SHA-256, and SQLite looks through every database. A backup of a
version before, which has no SHA-256, is compared by numbers and lengths only, which is said.

Exit status: 0 it is what was written; 1 it is not, each file by name; 2 it cannot be read.

Examples:
  gauntlet backup verify /var/backups/gauntlet-monday
  gauntlet backup verify ./verify              a folder of this name";

/// Between two lines about progress where standard error is no terminal.
const TOLD_EVERY: Duration = Duration::from_secs(30);
/// Between two changes of the line on a terminal.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// Arguments of `gauntlet backup`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = AFTER_HELP,
    subcommand_negates_reqs = true,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Args {
    /// Folder to make; it must be empty or not there yet
    #[arg(required = true)]
    target: Option<PathBuf>,
    #[command(flatten)]
    node: NodeArgs,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Compare every file of a backup with what was written
    #[command(after_help = VERIFY_HELP)]
    Verify {
        /// Folder of the backup
        backup: PathBuf,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match (&args.action, &args.target) {
        (Some(Action::Verify { backup }), _) => check(backup),
        (None, Some(target)) => make(target, &args.node),
        (None, None) => anyhow::bail!("name the folder that is to be made"),
    }
}

fn make(target: &Path, node: &NodeArgs) -> anyhow::Result<ExitCode> {
    let config = node.load()?;
    let data = &config.node.data;
    anyhow::ensure!(
        data.is_dir(),
        "node.data {}: there is no such folder; name it with --data",
        data.display()
    );
    let was_empty = is_empty(target);
    let mut progress = Progress::default();
    let made = back_up(data, target, &left_out(&config), now_ms(), &mut |s, d, t| {
        progress.tell(s, d, t);
    });
    progress.end();
    let made = made.with_context(|| not_made(data, target, was_empty))?;
    note(data, target, &made);
    let (target, size) = (target.display(), mebibytes(made.bytes));
    let (databases, files) = (made.databases, made.files);
    writeln!(std::io::stdout(), "{target}: {databases} databases and {files} files, {size}")?;
    Ok(ExitCode::SUCCESS)
}

/// What is said where no backup was made, with what this run left: the error names the file that
/// was being copied, and the disk that is full is that of the target.
fn not_made(data: &Path, target: &Path, was_empty: bool) -> String {
    let (data, shown) = (data.display(), target.display());
    if !was_empty || is_empty(target) {
        return format!("no backup was made of {data}");
    }
    let free = match free_bytes(target) {
        Ok(free) => format!(" (its disk has {} free)", mebibytes(free)),
        Err(_) => String::new(),
    };
    format!(
        "no backup was made of {data}; what was copied to {shown}{free} stays there and is no \
         backup: remove it, and name a folder with more room if that is full"
    )
}

/// Nothing is in this folder, or it is not there.
fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}

/// Folders that are not in a backup.
pub(crate) fn left_out(config: &Config) -> [PathBuf; 2] {
    [&config.spool.path, &config.route.maildir].map(|path| config.node.inside(path))
}

/// Notes a backup in the data folder, for `gauntlet upgrade check`. The backup is as good without.
pub(crate) fn note(data: &Path, target: &Path, made: &Backup) {
    let noted = privileges::act_as_owner(data).map_err(anyhow::Error::from);
    let noted = noted.and_then(|_acting| Ok(note_last(data, target, made)?));
    if let Err(error) = noted {
        eprintln!("gauntlet: the backup is not noted in the data folder: {error:#}");
    }
}

fn check(backup: &Path) -> anyhow::Result<ExitCode> {
    let mut progress = Progress::default();
    let verified = verify(backup, true, &mut |s, d, t| progress.tell(s, d, t));
    progress.end();
    let shown = backup.display();
    let mut out = std::io::stdout().lock();
    let verified = match verified {
        Ok(verified) => verified,
        Err(BackupError::Damaged { faults, .. }) => {
            for fault in &faults {
                writeln!(out, "{shown}/{fault}")?;
            }
            writeln!(out, "{shown}: damaged; go by another backup")?;
            return Ok(ExitCode::from(1));
        }
        Err(error @ BackupError::Description { .. }) => {
            writeln!(out, "{error}")?;
            return Ok(ExitCode::from(1));
        }
        Err(error) => return Err(error.into()),
    };
    let Backup { version, databases, files, bytes, .. } = &verified.backup;
    let how = match verified.has_hashes {
        true => "each as it was written",
        false => "without SHA-256 (a version before made it): numbers, lengths and databases agree",
    };
    for stranger in &verified.strangers {
        writeln!(out, "{shown}/{stranger}: not of the backup, and not restored")?;
    }
    let size = mebibytes(*bytes);
    writeln!(
        out,
        "{shown}: {databases} databases and {files} files, {size}, of version {version}: {how}"
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Bytes for people.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Progress of long work on standard error: a line that changes on a terminal, else a line every
/// half a minute.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    told: Option<Instant>,
    shows_line: bool,
}

impl Progress {
    /// What was done of what.
    pub(crate) fn tell(&mut self, step: Step, done: u64, total: u64) {
        let on_terminal = std::io::stderr().is_terminal();
        let pause = if on_terminal { SHOWN_EVERY } else { TOLD_EVERY };
        // Nothing is said of what is done within a pause.
        let told = *self.told.get_or_insert_with(Instant::now);
        if told.elapsed() < pause {
            return;
        }
        self.told = Some(Instant::now());
        let what = match step {
            Step::Copy => "copied",
            Step::Verify => "verified",
        };
        let (done, total) = (mebibytes(done), mebibytes(total));
        // Nobody reads it: the work goes on.
        let _ = match on_terminal {
            true => write!(std::io::stderr(), "\r\x1b[K{done} of {total} {what}"),
            false => writeln!(std::io::stderr(), "{done} of {total} {what}"),
        };
        self.shows_line = on_terminal;
    }

    /// Takes the line away.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.shows_line) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
