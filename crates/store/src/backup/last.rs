//! What a data folder knows of the backup that was made of it last.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::manifest::Backup;
use crate::error::StoreError;
use crate::files;

/// Name of the note in the data folder.
pub(super) const FILE: &str = "last-backup.json";

/// The backup that was made last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastBackup {
    /// Folder that it was made in.
    pub folder: PathBuf,
    /// Unix time in milliseconds at which it was begun.
    pub begun_ms: i64,
    /// Version of the program that made it.
    pub version: String,
}

/// Notes a backup in the data folder that it is of.
///
/// # Errors
/// The system's.
pub fn note_last(data: &Path, folder: &Path, backup: &Backup) -> Result<(), StoreError> {
    let path = data.join(FILE);
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let last = LastBackup { folder, begun_ms: backup.begun_ms, version: backup.version.clone() };
    let text = serde_json::to_vec(&last).unwrap_or_default();
    files::write_durably(&path, &text).map_err(StoreError::io(&path, "write"))
}

/// The note in a data folder; none if there is none that can be read.
pub fn last(data: &Path) -> Option<LastBackup> {
    serde_json::from_slice(&std::fs::read(data.join(FILE)).ok()?).ok()
}
