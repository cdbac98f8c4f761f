//! `gauntlet restore`: put a backup in the place of a node's data folder.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::config::Config;
use gauntlet_gateway::data_formats;
use gauntlet_gateway::privileges::{self, Account};
use gauntlet_store::backup::{Backup, Owner};
use gauntlet_store::backup::restore::{Plan, Restored, restore};
use gauntlet_store::formats::{self, Places};

use crate::backup::{Progress, left_out, mebibytes, note};
use crate::node_args::NodeArgs;

const AFTER_HELP: &str = "\
The backup is verified first, file by file, and refused if a single byte is another one, or if a
newer version made it. A node that runs on the data folder is refused: stop it before. Files come
out readable by their owner only, and belong to whom the data folder belongs to.

A data folder that is not empty is moved aside with --force, whole, and its new name is printed.
The mail that waits in its spool, with the queue's records, and its Maildir are not in a backup:
they are moved into the restored folder, so that what was accepted is still delivered, once.
--without-mail leaves them where they are. A spool or Maildir outside the data folder is not
touched. Until all is copied nothing in use is changed; interrupted, the same command goes on.

Exit status: 0 restored; 2 not restored, and everything is as it was unless it says otherwise.

Examples:
  gauntlet restore /var/backups/gauntlet-monday --config /etc/gauntlet/gauntlet.toml --force
  gauntlet restore /var/backups/gauntlet-monday --data /srv/look
  gauntlet restore /var/backups/gauntlet-monday --force --without-mail";

/// Arguments of `gauntlet restore`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Folder of the backup
    backup: PathBuf,
    /// Move a data folder that is not empty aside, and restore in its place
    #[arg(long)]
    force: bool,
    /// With --force: do not bring the present spool and Maildir along
    #[arg(long, requires = "force")]
    without_mail: bool,
    #[command(flatten)]
    node: NodeArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let config = args.node.load()?;
    let data = &config.node.data;
    // A spool in the backup's folder there is none of: any name that is not there will do.
    let places = Places { data: &args.backup, spool: &args.backup.join("spool") };
    formats::refuse_newer(places, data_formats::ALL)?;
    let keep = match args.without_mail {
        true => Vec::new(),
        false => kept(&config),
    };
    refuse_newer_spool(&config, args)?;
    let stamp = (now_ms() / 1_000).to_string();
    let plan = Plan {
        backup: &args.backup,
        data,
        replaces: args.force,
        keep: &keep,
        owner: owner(&config, &args.backup)?,
        stamp: &stamp,
    };
    let mut progress = Progress::default();
    let restored = restore(&plan, &mut |step, done, total| progress.tell(step, done, total));
    progress.end();
    let restored = restored?;
    if restored.finished.is_none() {
        // The newest backup of what is there now.
        note(&restored.data, &args.backup, &Backup::read(&args.backup)?);
    }
    say(&restored, &config, args)?;
    Ok(ExitCode::SUCCESS)
}

/// What is brought along from the data folder before, as far as it is in there: the spool with the
/// queue's records of it, and the Maildir.
fn kept(config: &Config) -> Vec<PathBuf> {
    let data = &config.node.data;
    let inside = |path: PathBuf| path.strip_prefix(data).map(Path::to_owned).ok();
    let all = left_out(config).into_iter().filter_map(inside);
    all.chain([PathBuf::from("queue")]).filter(|path| !path.as_os_str().is_empty()).collect()
}

/// Mail that waits in files of a newer version would stay there, unread.
fn refuse_newer_spool(config: &Config, args: &Args) -> anyhow::Result<()> {
    if !args.force || args.without_mail || !config.node.data.is_dir() {
        return Ok(());
    }
    let _acting = privileges::act_as_owner(&config.node.data)?;
    let spool = config.node.inside(&config.spool.path);
    // Of the data folder itself only the spool is kept.
    let nothing = spool.join("nothing");
    let newer = formats::refuse_newer(Places { data: &nothing, spool: &spool }, data_formats::ALL);
    newer.map_err(|error| {
        let hint = "have the newer version deliver what waits, or leave it there (--without-mail)";
        anyhow::anyhow!("{error}; {hint}")
    })
}

/// Whom the restored folder belongs to if root restores it: to whom the one there belongs, else to
/// the node's user, else to whom the backup belongs.
fn owner(config: &Config, backup: &Path) -> anyhow::Result<Owner> {
    let data = &config.node.data;
    if let Ok(seen) = std::fs::metadata(data)
        && seen.uid() != 0
    {
        return Ok(Owner::of(data)?);
    }
    if privileges::is_root() && !config.node.user.is_empty() {
        let account = Account::find(&config.node.user)?;
        return Ok(Owner::user(account.uid(), account.gid()));
    }
    Ok(Owner::of(backup)?)
}

fn say(restored: &Restored, config: &Config, args: &Args) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let data = restored.data.display();
    match &restored.finished {
        Some(backup) => {
            let backup = backup.display();
            writeln!(out, "{data}: the interrupted restore of {backup} is finished")?;
        }
        None => {
            let (files, size) = (restored.files, mebibytes(restored.bytes));
            writeln!(out, "{data}: {files} files restored, {size}")?;
        }
    }
    if !restored.has_hashes {
        writeln!(
            out,
            "the backup has no SHA-256 (a version before made it): only numbers, lengths \
                       and databases were compared"
        )?;
    }
    if let Some(aside) = &restored.aside {
        writeln!(out, "what was there before is in {}", aside.display())?;
    }
    let outside = left_out(config).into_iter().filter(|path| !path.starts_with(&config.node.data));
    for path in outside.filter(|path| path.exists()) {
        writeln!(out, "{}: as it was; it is outside the data folder", path.display())?;
    }
    let names: Vec<String> = restored.kept.iter().map(|path| path.display().to_string()).collect();
    if !names.is_empty() {
        writeln!(out, "brought along from there: {}", names.join(", "))?;
    } else if args.without_mail && restored.aside.is_some() {
        writeln!(
            out,
            "mail that waits stays there: to deliver it, start a node on that folder (--data) with \
             other listener addresses, or `gauntlet queue adopt` it"
        )?;
    } else {
        writeln!(out, "not in a backup: the spool and the Maildir; the node begins them anew")?;
    }
    Ok(())
}
