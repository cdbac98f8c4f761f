//! What can go wrong in a store: which file, why, and what to do.

use std::path::{Path, PathBuf};

/// An error of a store. It names the file and says what mends it; whether to try again is
/// [`StoreError::may_retry`].
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system refused.
    #[error("{path}: cannot {what}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, e.g. `write`.
        what: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// SQLite refused.
    #[error("{path}: {source}{mend}", path = path.display(), mend = mend_of(source))]
    Database {
        /// The database file.
        path: PathBuf,
        /// SQLite's answer.
        source: rusqlite::Error,
    },
    /// The file was written by a newer version of this program.
    #[error(
        "{path}: schema version {found} is newer than {known}, the newest this program knows; \
         run the version that wrote it, or restore an older backup",
        path = path.display()
    )]
    Newer {
        /// The database file.
        path: PathBuf,
        /// Version in the file.
        found: u32,
        /// Newest version known here.
        known: u32,
    },
    /// Stored bytes that cannot be read back.
    #[error("{path}: {what} is damaged: {cause}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which entry.
        what: String,
        /// Why.
        cause: String,
    },
    /// A file is gone or empty, and what lies beside it says that it was not always so.
    #[error("{path}: {cause}; {mend}", path = path.display())]
    Lost {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: String,
        /// What to do.
        mend: String,
    },
    /// A value that a store does not take.
    #[error("{what}: {cause}")]
    Invalid {
        /// Which value.
        what: &'static str,
        /// Why not, and what would do.
        cause: String,
    },
    /// A limit is reached.
    #[error("{what}: the limit of {limit} is reached; {mend}")]
    Full {
        /// What is full.
        what: String,
        /// The limit.
        limit: u64,
        /// What to do.
        mend: &'static str,
    },
    /// The store was closed, or its writer ended.
    #[error("{path}: the store is closed", path = path.display())]
    Closed {
        /// The store's folder.
        path: PathBuf,
    },
    /// The process that has the file says why not.
    #[error("{message}")]
    Elsewhere {
        /// What it says, with the file and what to do.
        message: String,
        /// Whether the same call may succeed later.
        retry: bool,
    },
    /// A failed batch, told to each who had a part in it.
    #[error("{0}")]
    Shared(std::sync::Arc<StoreError>),
}

impl StoreError {
    /// The same call may succeed later (disk full, busy, closed); else it never will.
    pub fn may_retry(&self) -> bool {
        match self {
            StoreError::Io { .. } | StoreError::Closed { .. } | StoreError::Full { .. } => true,
            StoreError::Database { source, .. } => !is_damage(source),
            StoreError::Elsewhere { retry, .. } => *retry,
            StoreError::Shared(inner) => inner.may_retry(),
            StoreError::Newer { .. }
            | StoreError::Damaged { .. }
            | StoreError::Lost { .. }
            | StoreError::Invalid { .. } => false,
        }
    }

    /// The file is damaged, and not just busy or away.
    pub fn is_damage(&self) -> bool {
        match self {
            StoreError::Database { source, .. } => is_damage(source),
            StoreError::Shared(inner) => inner.is_damage(),
            _ => false,
        }
    }

    /// An [`StoreError::Io`] of this path.
    pub(crate) fn io(path: &Path, what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| StoreError::Io { path, what, source }
    }

    /// A [`StoreError::Database`] of this path.
    pub(crate) fn db(path: &Path) -> impl Fn(rusqlite::Error) -> Self {
        let path = path.to_owned();
        move |source| StoreError::Database { path: path.clone(), source }
    }
}

/// SQLite says that the file is damaged.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt))
}

/// What to do about a database that is damaged; nothing for any other error.
fn mend_of(error: &rusqlite::Error) -> &'static str {
    if is_damage(error) {
        ". The file is damaged: stop the node, move it away together with its -wal and -shm, and put \
         it back from a backup (`gauntlet backup`), or save what can be read with `sqlite3 FILE .recover`"
    } else if matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::DiskFull | rusqlite::ErrorCode::SystemIoFailure)
    ) {
        ". See whether the disk is full (`df`), and whether the system's log tells of errors of the disk"
    } else {
        ""
    }
}
