//! Locks beside the packs: one process writes them; a backup keeps them from being removed.
//!
//! Both are locks of the kernel (`flock`) on files of their own: they end with the process that
//! holds them, however it ends.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::files;

/// Who holds this file writes the packs.
const WRITER: &str = "lock";
/// Who holds this file removes packs, or keeps others from it.
const REMOVER: &str = "remove.lock";

/// The right to write the packs of a folder, until it is dropped.
#[derive(Debug)]
pub(super) struct WriterLock(#[expect(dead_code, reason = "held, not read")] File);

impl WriterLock {
    /// Takes the right; none if another process has it.
    pub(super) fn take(folder: &Path) -> Result<Option<Self>, StoreError> {
        let (file, path) = open(folder, WRITER)?;
        locked(files::try_lock(&file), &path).map(|is_ours| is_ours.then_some(WriterLock(file)))
    }
}

/// Packs are not removed from a folder while this exists.
#[derive(Debug)]
pub struct Keep(#[expect(dead_code, reason = "held, not read")] File);

impl Keep {
    /// Keeps other processes from removing packs of this folder; waits while one is at it, which
    /// takes milliseconds.
    ///
    /// # Errors
    /// If the lock cannot be had.
    pub fn packs(folder: &Path) -> Result<Self, StoreError> {
        let (file, path) = open(folder, REMOVER)?;
        file.lock_shared().map_err(StoreError::io(&path, "lock"))?;
        Ok(Keep(file))
    }
}

/// The right to remove packs; none while somebody keeps them.
pub(super) fn may_remove(folder: &Path) -> Result<Option<File>, StoreError> {
    let (file, path) = open(folder, REMOVER)?;
    locked(file.try_lock(), &path).map(|is_ours| is_ours.then_some(file))
}

fn open(folder: &Path, name: &str) -> Result<(File, PathBuf), StoreError> {
    let path = folder.join(name);
    files::create_folder(folder).map_err(StoreError::io(folder, "create"))?;
    let mut options = File::options();
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.create(true).truncate(false).write(true).open(&path);
    Ok((file.map_err(StoreError::io(&path, "open"))?, path))
}

fn locked(tried: Result<(), TryLockError>, path: &Path) -> Result<bool, StoreError> {
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(source)) => Err(StoreError::io(path, "lock")(source)),
    }
}
