//! A restored folder in the place of the one in use.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{MARKER, Marker, Restored, copy, remove_marker};
use crate::backup::error::BackupError;
use crate::error::StoreError;
use crate::files;

/// A folder beside a data folder that is not there yet: in it a backup is restored, and then it
/// holds what was in the data folder.
pub(super) fn new_beside(data: &Path, stamp: &str) -> PathBuf {
    let names = (1..).map(|number| match number {
        1 => beside(data, stamp),
        _ => beside(data, &format!("{stamp}-{number}")),
    });
    let mut free = names.filter(|path| path.symlink_metadata().is_err());
    free.next().unwrap_or_else(|| beside(data, stamp))
}

pub(super) fn beside(data: &Path, stamp: &str) -> PathBuf {
    let mut name = data.file_name().unwrap_or_default().to_owned();
    name.push(format!(".before-restore-{stamp}"));
    data.with_file_name(name)
}

/// Removes what an interrupted restore left beside a data folder. What was moved aside by one that
/// was finished has no marker, and stays.
pub(super) fn remove_stale(data: &Path) {
    let (Some(parent), begin) = (data.parent(), beside(data, "")) else { return };
    let begin = begin.file_name().unwrap_or_default().as_encoded_bytes().to_owned();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_beside = entry.file_name().as_encoded_bytes().starts_with(&begin);
        if is_beside
            && path.join(MARKER).is_file()
            && let Err(error) = std::fs::remove_dir_all(&path)
        {
            let path = path.display();
            tracing::warn!(%path, %error, "what an interrupted restore left cannot be removed");
        }
    }
}

/// Exchanges the data folder and the restored one, and brings along what is to be kept.
pub(super) fn exchange(
    data: &Path,
    restored: &Path,
    marker: &Marker,
) -> Result<Vec<PathBuf>, BackupError> {
    let refuse = |cause: String| {
        let _ = std::fs::remove_dir_all(restored);
        BackupError::NoExchange { data: data.to_owned(), cause }
    };
    let device = |path: &Path| std::fs::metadata(path).map(|seen| seen.dev());
    let parent = data.parent().unwrap_or(data);
    if device(data).ok() != device(parent).ok() {
        return Err(refuse("it is a file system of its own".to_owned()));
    }
    // While root writes, both are root's own.
    marker.owner.give_below(restored)?;
    marker.write(restored)?;
    marker.owner.begin(data)?;
    if let Err(error) = swap(data, restored) {
        marker.owner.give_one(data)?;
        return Err(refuse(error.to_string()));
    }
    files::sync_folder(parent).map_err(StoreError::io(parent, "sync"))?;
    finish(data, marker).map(|restored| restored.kept).map_err(|error| {
        tracing::warn!(%error, "the restored folder is not complete");
        BackupError::Unfinished { data: data.to_owned(), backup: marker.backup.clone() }
    })
}

/// Does what is left to do after the exchange. Run again after an interruption, it goes on.
pub(super) fn finish(data: &Path, marker: &Marker) -> Result<Restored, BackupError> {
    let mut kept = Vec::new();
    if let Some(aside) = &marker.aside {
        for name in &marker.keep {
            if bring(aside, data, name)? {
                kept.push(name.clone());
            }
        }
        marker.owner.give_one(aside)?;
    }
    remove_marker(data)?;
    marker.owner.give_one(data)?;
    Ok(Restored {
        data: data.to_owned(),
        files: 0,
        bytes: 0,
        has_hashes: true,
        aside: marker.aside.clone(),
        kept,
        finished: Some(marker.backup.clone()),
    })
}

/// Moves something from one folder into the other, in the place of what is there. False if there
/// is nothing.
fn bring(from: &Path, to: &Path, name: &Path) -> Result<bool, StoreError> {
    let (source, target) = (from.join(name), to.join(name));
    if source.symlink_metadata().is_err() {
        return Ok(target.symlink_metadata().is_ok());
    }
    if let Some(parent) = target.parent() {
        files::create_folder(parent).map_err(StoreError::io(parent, "create"))?;
    }
    copy::remove(&target).map_err(StoreError::io(&target, "remove"))?;
    std::fs::rename(&source, &target).map_err(StoreError::io(&source, "move"))?;
    for folder in [target.parent(), source.parent()].into_iter().flatten() {
        files::sync_folder(folder).map_err(StoreError::io(folder, "sync"))?;
    }
    Ok(true)
}

/// Exchanges two names at once (renameat2(2)): at no moment is there no data folder.
fn swap(one: &Path, other: &Path) -> io::Result<()> {
    let name = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let (one, other) = (name(one)?, name(other)?);
    // SAFETY: both names end in NUL and live through the call.
    let done = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            one.as_ptr(),
            libc::AT_FDCWD,
            other.as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
