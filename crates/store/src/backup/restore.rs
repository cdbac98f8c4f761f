//! A backup put back in the place of a data folder.
//!
//! ```text
//! empty place:  marker, copy, sync, marker away
//! --force:      copy into a folder beside it, sync, marker, exchange the two (one call of the
//!               kernel), bring spool and Maildir along, marker away
//! ```
//!
//! Until the exchange the folder in use is not touched; what fails before leaves it as it was.
//! While the marker is in a folder no node starts on it ([`refuse_unfinished`]): a restore that was
//! interrupted is finished by the next one.

mod copy;
mod exchange;
mod place;

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Tell;
use super::error::BackupError;
use super::manifest::Backup;
use super::owner::Owner;
use super::verify::verify;
use crate::error::StoreError;
use crate::files;

use self::place::{Place, lock_at};

/// File in a data folder into which a restore was not finished.
pub const MARKER: &str = "restoring.json";

/// What is to be restored, and where.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    /// The backup.
    pub backup: &'a Path,
    /// The data folder.
    pub data: &'a Path,
    /// A folder that is not empty is moved aside.
    pub replaces: bool,
    /// Paths in the folder that is moved aside which are moved into the restored one, in the place
    /// of what the backup has there: mail that is under way, and what belongs to it.
    pub keep: &'a [PathBuf],
    /// Whom the restored folder belongs to, if root restores it.
    pub owner: Owner,
    /// Added to the name of the folder that is moved aside; different for each restore.
    pub stamp: &'a str,
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The data folder.
    pub data: PathBuf,
    /// Number of files of the backup.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether each file was compared with its hash.
    pub has_hashes: bool,
    /// Where the folder is now that was there before.
    pub aside: Option<PathBuf>,
    /// What was brought along from there.
    pub kept: Vec<PathBuf>,
    /// This finished a restore of that backup, which had been interrupted.
    pub finished: Option<PathBuf>,
}

/// What the marker says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Marker {
    backup: PathBuf,
    /// All is copied: what is left is to bring `keep` from `aside`.
    is_whole: bool,
    aside: Option<PathBuf>,
    keep: Vec<PathBuf>,
    owner: Owner,
}

impl Marker {
    fn read(data: &Path) -> Result<Option<Self>, StoreError> {
        let path = data.join(MARKER);
        match fs::read(&path) {
            // Written whole or not at all, so one that cannot be read is not ours to judge.
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
                let what = "the mark of an unfinished restore".to_owned();
                let cause = format!("{error}; restore with --force");
                StoreError::Damaged { path, what, cause }
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io(&path, "read")(error)),
        }
    }

    fn write(&self, data: &Path) -> Result<(), StoreError> {
        let path = data.join(MARKER);
        let text = serde_json::to_vec(self).unwrap_or_default();
        files::write_durably(&path, &text).map_err(StoreError::io(&path, "write"))
    }
}

fn remove_marker(data: &Path) -> Result<(), StoreError> {
    let path = data.join(MARKER);
    fs::remove_file(&path).map_err(StoreError::io(&path, "remove"))?;
    files::sync_folder(data).map_err(StoreError::io(data, "sync"))
}

/// Refuses a data folder into which a restore was not finished.
///
/// # Errors
/// It was not; or the marker cannot be read.
pub fn refuse_unfinished(data: &Path) -> Result<(), StoreError> {
    let Some(marker) = Marker::read(data)? else { return Ok(()) };
    let (path, backup) = (data.join(MARKER), marker.backup.display().to_string());
    Err(StoreError::Lost {
        path,
        cause: format!("a restore of {backup} into this folder was interrupted"),
        hint: format!("run `gauntlet restore {backup}` again, which finishes it"),
    })
}

/// Restores a backup, after every file of it was compared with its hash. Durable when it returns.
///
/// # Errors
/// If the backup is damaged, a node runs on the data folder, it is not empty, or it cannot be
/// written. What was there before is as it was, unless it is [`BackupError::Unfinished`].
pub fn restore(plan: &Plan<'_>, tell: &mut Tell<'_>) -> Result<Restored, BackupError> {
    let place = Place::find(plan.data, plan.replaces)?;
    let data = place.data().to_owned();
    let _old_lock = place.lock()?;
    if let Some(marker) = Marker::read(&data)?
        && marker.is_whole
    {
        return exchange::finish(&data, &marker);
    }
    // First what is known soon: a backup may take an hour to be read.
    place.has_room(&Backup::read(plan.backup)?)?;
    let verified = verify(plan.backup, false, tell)?;
    place.has_room(&verified.backup)?;
    let marker = Marker {
        backup: plan.backup.canonicalize().unwrap_or_else(|_| plan.backup.to_owned()),
        is_whole: false,
        aside: None,
        keep: Vec::new(),
        owner: plan.owner,
    };
    let mut restored = Restored {
        data: data.clone(),
        files: verified.backup.entries.len() as u64,
        bytes: verified.backup.bytes,
        has_hashes: verified.has_hashes,
        aside: None,
        kept: Vec::new(),
        finished: None,
    };
    let from = (plan.backup, &verified.backup);
    match place {
        Place::Empty(_) => {
            let copied = into_empty(&data, from, &marker, tell);
            if copied.is_err() {
                // Nothing of anybody's was there.
                copy::clear(&data, plan.owner);
            }
            copied?;
        }
        Place::Full(_) => {
            exchange::remove_stale(&data);
            let aside = exchange::new_beside(&data, plan.stamp);
            let copied = into_folder(&aside, from, &marker, tell).inspect_err(|_| {
                // What is in use was not touched.
                let _ = fs::remove_dir_all(&aside);
            });
            // Held to the end: no node starts on it before all is done.
            let _new_lock = copied?;
            let keep = plan.keep.to_vec();
            let whole = Marker { is_whole: true, aside: Some(aside.clone()), keep, ..marker };
            restored.kept = exchange::exchange(&data, &aside, &whole)?;
            restored.aside = Some(aside);
        }
    }
    Ok(restored)
}

/// Copies into the place itself; the marker keeps nodes away meanwhile.
fn into_empty(
    data: &Path,
    from: (&Path, &Backup),
    marker: &Marker,
    tell: &mut Tell<'_>,
) -> Result<(), BackupError> {
    let lock = into_folder(data, from, marker, tell)?;
    marker.owner.give_below(data)?;
    remove_marker(data)?;
    marker.owner.give_one(data)?;
    drop(lock);
    Ok(())
}

/// Copies into a folder of its own, with the marker, which stays; the folder is locked.
fn into_folder(
    folder: &Path,
    from: (&Path, &Backup),
    marker: &Marker,
    tell: &mut Tell<'_>,
) -> Result<File, BackupError> {
    files::create_folder(folder).map_err(StoreError::io(folder, "create"))?;
    marker.owner.begin(folder)?;
    copy::make_private(folder)?;
    let lock = lock_at(folder)?;
    copy::remove_content(folder)?;
    marker.write(folder)?;
    copy::copy(from, folder, tell)?;
    Ok(lock)
}

#[cfg(test)]
mod tests;
