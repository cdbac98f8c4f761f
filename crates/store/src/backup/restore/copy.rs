//! The files of a backup, copied and compared on the way.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::MARKER;
use crate::backup::error::{BackupError, Fault};
use crate::backup::manifest::{Backup, Entry, hashed};
use crate::backup::owner::Owner;
use crate::backup::reading::{open_below, parts};
use crate::backup::{Step, Tell};
use crate::error::StoreError;
use crate::files;

/// Copies all files of a verified backup; durable when it returns.
pub(super) fn copy(
    (backup, description): (&Path, &Backup),
    to: &Path,
    tell: &mut Tell<'_>,
) -> Result<(), BackupError> {
    let (mut done, total) = (0, description.bytes);
    let folders = || description.folders.iter().filter(|folder| parts(folder).is_some());
    for folder in folders() {
        let folder = to.join(folder);
        files::create_folder(&folder).map_err(StoreError::io(&folder, "create"))?;
    }
    for entry in &description.entries {
        let mut piece = |bytes| {
            done += bytes;
            tell(Step::Copy, done, total);
        };
        copy_one(backup, entry, to, &mut piece)?;
    }
    for folder in folders().map(|folder| to.join(folder)).chain([to.to_owned()]) {
        files::sync_folder(&folder).map_err(StoreError::io(&folder, "sync"))?;
    }
    Ok(())
}

fn copy_one(
    backup: &Path,
    entry: &Entry,
    to: &Path,
    tell: &mut dyn FnMut(u64),
) -> Result<(), BackupError> {
    let (from, to) = (backup.join(&entry.path), to.join(&entry.path));
    let mut source = open_below(backup, &entry.path).map_err(StoreError::io(&from, "open"))?;
    let mut copy = files::create(&to).map_err(StoreError::io(&to, "create"))?;
    let (bytes, sha256) = hashed(&mut source, tell, |piece| copy.write_all(piece))
        .map_err(StoreError::io(&to, "write"))?;
    // It was whole when it was verified: the disk, or somebody, changed it since.
    let is_same = entry.sha256.is_empty() || entry.sha256 == sha256;
    if bytes != entry.bytes || !is_same {
        let what = "its content changed while it was restored".to_owned();
        let faults = vec![Fault { path: entry.path.clone(), what }];
        return Err(BackupError::Damaged { folder: backup.to_owned(), faults });
    }
    copy.sync_all().map_err(StoreError::io(&to, "sync"))?;
    Ok(())
}

/// Closes a folder to all but its owner.
pub(super) fn make_private(folder: &Path) -> Result<(), StoreError> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))
        .map_err(StoreError::io(folder, "restrict"))
}

/// Removes what an interrupted restore left in a folder; the marker goes last.
pub(super) fn remove_content(folder: &Path) -> Result<(), StoreError> {
    if !folder.join(MARKER).exists() {
        return Ok(());
    }
    let entries = fs::read_dir(folder).map_err(StoreError::io(folder, "list"))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let kept = ["lock", "lost+found", MARKER].iter().any(|name| path.ends_with(name));
        if !kept {
            remove(&path).map_err(StoreError::io(&path, "remove"))?;
        }
    }
    Ok(())
}

/// Leaves a place as it was, after a restore into it failed. Best effort: the marker stays if
/// anything does.
pub(super) fn clear(folder: &Path, owner: Owner) {
    let cleared = remove_content(folder).and_then(|()| {
        let marker = folder.join(MARKER);
        match fs::remove_file(&marker) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io(&marker, "remove")(error))
            }
            _ => owner.give(folder),
        }
    });
    if let Err(error) = cleared {
        tracing::warn!(%error, "what was restored in part could not be removed");
    }
}

/// Removes a file or a folder with all in it; links are not followed.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(seen) if seen.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
