//! What a node opens in its data folder before anything else: the lock, the spool, the Maildir.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use gauntlet_store::spool::{Disk, Medium, Ram};
use gauntlet_store::{Spool, SpoolOptions};

use crate::clock::Clock;
use crate::config::{Config, SpoolBackend};
use crate::outbound::maildir::Maildir;

/// Opens or makes the Maildir.
pub(super) fn open_maildir(path: &Path) -> anyhow::Result<Maildir> {
    Maildir::open(path).with_context(|| format!("route.maildir {}", path.display()))
}

/// Locks the data folder for this process; makes it if it is not there.
pub(super) fn lock(data: &Path) -> anyhow::Result<File> {
    std::fs::create_dir_all(data).with_context(|| format!("node.data {}", data.display()))?;
    let path = data.join("lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.with_context(|| path.display().to_string())?;
    match gauntlet_store::files::try_lock(&file) {
        Ok(()) => {
            // Before anything is written there that an earlier version could not read.
            gauntlet_store::backup::restore::refuse_unfinished(data)?;
            gauntlet_store::formats::folder::note(data)?;
            Ok(file)
        }
        Err(std::fs::TryLockError::WouldBlock) => {
            anyhow::bail!(
                "node.data {}: another node uses this folder; stop it, or name another folder \
                 there or with --data",
                data.display()
            )
        }
        Err(std::fs::TryLockError::Error(error)) => Err(error).context(path.display().to_string()),
    }
}

/// Locks a spool's folder for this process, wherever it is: whoever takes over the mail of a dead
/// node may be given that folder alone.
pub(super) fn lock_spool(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join("lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.with_context(|| path.display().to_string())?;
    match gauntlet_store::files::try_lock(&file) {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => anyhow::bail!(
            "spool.path {}: another process uses this folder: a node, or `gauntlet queue adopt`",
            folder.display()
        ),
        Err(std::fs::TryLockError::Error(error)) => Err(error).context(path.display().to_string()),
    }
}

/// A spool that was opened, what was read back of it, and the lock on its folder.
pub(super) type OpenSpool = (Arc<Spool>, gauntlet_store::spool::Recovery, Option<File>);

/// Opens the spool and reads back what is in it.
pub(super) fn open_spool(config: &Config, clock: Clock) -> anyhow::Result<OpenSpool> {
    let settings = &config.spool;
    let mut lock = None;
    let medium: Arc<dyn Medium> = match settings.backend {
        SpoolBackend::Disk => {
            let path = config.node.inside(&settings.path);
            let disk = Disk::open(&path);
            let disk = disk.with_context(|| format!("spool.path {}", path.display()))?;
            lock = Some(lock_spool(&path)?);
            Arc::new(disk)
        }
        SpoolBackend::Ram | SpoolBackend::Null => Arc::new(Ram::default()),
    };
    let options = SpoolOptions {
        segment_bytes_max: settings.segment_bytes_max,
        batch_messages_max: settings.batch_messages_max,
        batch_wait: Duration::from_millis(settings.batch_wait_ms),
        free_bytes_min: settings.free_bytes_min,
        bytes_max: settings.bytes_max,
        ..SpoolOptions::default()
    };
    let (spool, recovery) = Spool::open_with_clock(medium, options, clock)?;
    let (torn_bytes, damaged) = (recovery.torn_bytes, recovery.damaged);
    if torn_bytes > 0 || damaged > 0 {
        tracing::warn!(torn_bytes, damaged, "the spool was not closed cleanly");
    }
    if damaged > 0 {
        let folder = config.node.inside(&settings.path);
        let hint = "the damaged parts stay in its files; put the folder back from a backup while the node \
                    is stopped, or have what is missing sent again";
        tracing::error!(damaged, folder = %folder.display(), hint, "the spool is damaged");
    }
    Ok((Arc::new(spool), recovery, lock))
}
