//! Errors of backups and of restoring them.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::error::StoreError;

/// Something wrong with a file of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its path, relative to the backup.
    pub path: String,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

/// Why a backup cannot be used, or not be restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The folder has no description.
    #[error(
        "{folder}: no complete backup: it has no backup.json, which is written last; name a folder \
         that `gauntlet backup` finished",
        folder = folder.display()
    )]
    Incomplete {
        /// The folder that was named.
        folder: PathBuf,
    },
    /// A file cannot be read.
    #[error("{path}: cannot read: {source}", path = path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The description is damaged.
    #[error(
        "{path}: the description of the backup is damaged: {cause}; use another backup",
        path = path.display()
    )]
    Description {
        /// Path of the description.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// A newer version of this program made the backup.
    #[error(
        "{path}: the backup's format is {found}, newer than {known}, the newest that this program \
         knows; restore it with the version that made it",
        path = path.display()
    )]
    Newer {
        /// Path of the description.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest that this program knows.
        known: u32,
    },
    /// Files of the backup are not what was written.
    #[error(
        "{folder}: {count} of the backup's files cannot be used, first {first}; nothing was \
         restored: use another backup",
        folder = folder.display(), count = faults.len(),
        first = faults.first().map_or(String::new(), ToString::to_string)
    )]
    Damaged {
        /// The backup.
        folder: PathBuf,
        /// What is wrong, by name; the first hundred.
        faults: Vec<Fault>,
    },
    /// There is something in the data folder.
    #[error(
        "{data}: the data folder is not empty; --force moves it aside and restores in its place, \
         --data names another folder",
        data = data.display()
    )]
    NotEmpty {
        /// The data folder.
        data: PathBuf,
    },
    /// A node runs on the data folder.
    #[error(
        "{data}: a node runs on this folder; stop it first (`systemctl stop gauntlet`)",
        data = data.display()
    )]
    Running {
        /// The data folder.
        data: PathBuf,
    },
    /// There is not enough space.
    #[error(
        "{data}: {needed} bytes are needed and {free} are free; make room, or name a folder on \
         another disk with --data",
        data = data.display()
    )]
    Room {
        /// The data folder.
        data: PathBuf,
        /// Bytes that the restored files need.
        needed: u64,
        /// Bytes that are free there.
        free: u64,
    },
    /// The data folder cannot be exchanged by another one.
    #[error(
        "{data}: cannot be moved aside ({cause}); move what is in it into a folder beside it, and \
         restore into the empty folder without --force",
        data = data.display()
    )]
    NoExchange {
        /// The data folder.
        data: PathBuf,
        /// Why.
        cause: String,
    },
    /// A restore was interrupted.
    #[error(
        "{data}: a restore of {backup} into this folder was interrupted; run `gauntlet restore` \
         again, which finishes it",
        data = data.display(), backup = backup.display()
    )]
    Unfinished {
        /// The data folder.
        data: PathBuf,
        /// The backup that was being restored.
        backup: PathBuf,
    },
    /// Anything else.
    #[error(transparent)]
    Store(#[from] StoreError),
}
