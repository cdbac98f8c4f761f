//! Where a backup is restored: nothing there, or a data folder to be replaced.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::{MARKER, Marker};
use crate::backup::error::BackupError;
use crate::backup::manifest::Backup;
use crate::error::StoreError;
use crate::files;

/// Name of the file that a node locks in its data folder.
const LOCK: &str = "lock";
/// What a new file system has in it.
const OF_FILE_SYSTEM: &str = "lost+found";
/// Bytes beside the files themselves: the last block of each, folders, the description.
const BYTES_BESIDE_EACH: u64 = 4_096;
const BYTES_BESIDE: u64 = 1 << 20;

/// The place.
#[derive(Debug)]
pub(super) enum Place {
    /// Nothing is there, not even the folder perhaps; or what an interrupted restore left.
    Empty(PathBuf),
    /// A data folder.
    Full(PathBuf),
}

impl Place {
    /// Looks at the place, through a link to it.
    pub(super) fn find(data: &Path, replaces: bool) -> Result<Self, BackupError> {
        let data = real(data)?;
        let entries = match fs::read_dir(&data) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Place::Empty(data));
            }
            Err(error) => return Err(StoreError::io(&data, "list")(error).into()),
        };
        let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        let is_empty = names.iter().all(|name| name == OF_FILE_SYSTEM || name == LOCK);
        if is_empty || names.iter().any(|name| name == MARKER) {
            let is_whole = Marker::read(&data)?.is_some_and(|marker| marker.is_whole);
            return Ok(if is_whole { Place::Full(data) } else { Place::Empty(data) });
        }
        match replaces {
            true => Ok(Place::Full(data)),
            false => Err(BackupError::NotEmpty { data }),
        }
    }

    pub(super) fn data(&self) -> &Path {
        match self {
            Place::Empty(data) | Place::Full(data) => data,
        }
    }

    /// Keeps nodes away from the folder that is there; none if there is none.
    pub(super) fn lock(&self) -> Result<Option<File>, BackupError> {
        match self {
            // Locked when something is made there.
            Place::Empty(_) => Ok(None),
            Place::Full(data) => lock_at(data).map(Some),
        }
    }

    /// Refuses a disk without room for the backup.
    pub(super) fn has_room(&self, backup: &Backup) -> Result<(), BackupError> {
        let data = self.data();
        let there = match self {
            Place::Empty(data) if data.is_dir() => data.as_path(),
            _ => data.parent().unwrap_or(data),
        };
        let files = backup.files + backup.databases + backup.folders.len() as u64;
        let needed = backup.bytes + files * BYTES_BESIDE_EACH + BYTES_BESIDE;
        let free = files::free_bytes(there).map_err(StoreError::io(there, "look at"))?;
        match free < needed {
            true => Err(BackupError::Room { data: data.to_owned(), needed, free }),
            false => Ok(()),
        }
    }
}

/// Takes the lock that a node holds while it runs.
pub(super) fn lock_at(data: &Path) -> Result<File, BackupError> {
    let path = data.join(LOCK);
    let mut options = File::options();
    options.create(true).truncate(false).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(&path).map_err(StoreError::io(&path, "open"))?;
    match files::try_lock(&file) {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(BackupError::Running { data: data.to_owned() }),
        Err(fs::TryLockError::Error(error)) => Err(StoreError::io(&path, "lock")(error).into()),
    }
}

/// The path without links; its last part may not be there yet.
fn real(data: &Path) -> Result<PathBuf, BackupError> {
    if let Ok(real) = data.canonicalize() {
        return Ok(real);
    }
    let wrong = || StoreError::Invalid {
        what: "the data folder",
        cause: format!("{}: name a folder", data.display()),
    };
    let name = data.file_name().ok_or_else(wrong)?;
    let parent = data.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = parent.canonicalize().map_err(StoreError::io(parent, "find"))?;
    Ok(parent.join(name))
}
