//! Errors of the stores: which file, why, and what to do about it.

use std::path::{Path, PathBuf};

/// An error of a store. It names the file and how to repair it; [`StoreError::may_retry`] says
/// whether to retry.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An operation of the file system failed.
    #[error("{path}: cannot {what}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The attempted operation, e.g. `write`.
        what: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// An operation of SQLite failed.
    #[error("{path}: {source}{hint}", path = path.display(), hint = hint_for(source))]
    Database {
        /// Path as the program opened it.
        path: PathBuf,
        /// SQLite's own error, with its code.
        source: rusqlite::Error,
    },
    /// The file was written by a newer version of this program.
    #[error(
        "{path}: its format is version {found}, newer than {known}, the newest that this program \
         ({program}) knows; run the version that wrote it, or go back to a backup that was made \
         before (`gauntlet restore`)",
        program = env!("CARGO_PKG_VERSION"),
        path = path.display()
    )]
    Newer {
        /// Path as the program opened it.
        path: PathBuf,
        /// Version of the file.
        found: u32,
        /// Newest version that this program knows.
        known: u32,
    },
    /// Stored data is damaged.
    #[error("{path}: {what} is damaged: {cause}", path = path.display())]
    Damaged {
        /// Path as the program opened it.
        path: PathBuf,
        /// Description of the damaged entry.
        what: String,
        /// Cause of the damage.
        cause: String,
    },
    /// A file is missing or empty, although the files beside it show that it had content.
    #[error("{path}: {cause}; {hint}", path = path.display())]
    Lost {
        /// Path as the program opened it.
        path: PathBuf,
        /// Description of the error.
        cause: String,
        /// How to repair it.
        hint: String,
    },
    /// A value is not valid for a store.
    #[error("{what}: {cause}")]
    Invalid {
        /// Name of the value.
        what: &'static str,
        /// Why it is invalid, and what is valid.
        cause: String,
    },
    /// A limit is reached.
    #[error("{what}: the limit of {limit} is reached; {hint}")]
    Full {
        /// Description of what is full.
        what: String,
        /// The limit that is reached.
        limit: u64,
        /// What to do about it.
        hint: &'static str,
    },
    /// The store was closed, or its writer thread ended.
    #[error("{path}: the store is closed", path = path.display())]
    Closed {
        /// Path as the program opened it.
        path: PathBuf,
    },
    /// An error of the process that has the file.
    #[error("{message}")]
    Remote {
        /// Message of that process, with the file and what to do.
        message: String,
        /// Whether a retry may succeed.
        retry: bool,
    },
    /// The error of a failed batch, shared by all its callers.
    #[error("{0}")]
    Shared(std::sync::Arc<StoreError>),
}

impl StoreError {
    /// Whether a retry may succeed (disk full, busy, closed).
    pub fn may_retry(&self) -> bool {
        match self {
            StoreError::Io { .. } | StoreError::Closed { .. } | StoreError::Full { .. } => true,
            StoreError::Database { source, .. } => !is_damage(source),
            StoreError::Remote { retry, .. } => *retry,
            StoreError::Shared(inner) => inner.may_retry(),
            StoreError::Newer { .. }
            | StoreError::Damaged { .. }
            | StoreError::Lost { .. }
            | StoreError::Invalid { .. } => false,
        }
    }

    /// Whether the file is damaged, and not only busy or inaccessible.
    pub fn is_damage(&self) -> bool {
        match self {
            StoreError::Database { source, .. } => is_damage(source),
            StoreError::Shared(inner) => inner.is_damage(),
            _ => false,
        }
    }

    /// Whether another connection holds a lock of the file.
    pub(crate) fn is_busy(&self) -> bool {
        match self {
            StoreError::Database { source, .. } => {
                source.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
            }
            StoreError::Shared(inner) => inner.is_busy(),
            _ => false,
        }
    }

    /// Whether stored bytes are damaged, or cannot be decrypted: reading them again would not help.
    pub(crate) fn is_unreadable(&self) -> bool {
        matches!(self, StoreError::Damaged { .. } | StoreError::Invalid { .. })
    }

    /// Makes an [`StoreError::Io`] of this path.
    pub fn io(path: &Path, what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| StoreError::Io { path, what, source }
    }

    /// Makes a [`StoreError::Database`] of this path.
    pub(crate) fn db(path: &Path) -> impl Fn(rusqlite::Error) -> Self {
        let path = path.to_owned();
        move |source| StoreError::Database { path: path.clone(), source }
    }
}

/// Whether SQLite reports that the file is damaged.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt))
}

/// How to repair a database that is damaged; empty for most other errors.
fn hint_for(error: &rusqlite::Error) -> &'static str {
    if is_damage(error) {
        ". The file is damaged: stop the node, move the file away together with its -wal and -shm, \
         and restore it from a backup (`gauntlet backup`), or save what is readable with \
         `sqlite3 FILE .recover`"
    } else if matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DiskFull | rusqlite::ErrorCode::SystemIoFailure)
    ) {
        ". Check whether the disk is full (`df`), and the system's log for disk errors"
    } else {
        ""
    }
}
