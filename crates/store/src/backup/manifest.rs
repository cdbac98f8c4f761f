//! What a backup says of itself: its files with their hashes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use ring::digest::{Context, Digest, SHA256};
use serde::{Deserialize, Serialize};

use super::error::BackupError;
use super::reading::open_below;

/// File that marks a backup as complete and describes it.
pub const MANIFEST: &str = "backup.json";
/// Format of backups that this program makes; newer ones are refused. The first had no hashes.
pub const FORMAT: u32 = 2;
/// Largest manifest in bytes: some 10 million files.
const BYTES_MAX: u64 = 2 << 30;

/// What a backup holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// Format of the backup; 1 has neither `folders` nor `entries`.
    #[serde(default = "first_format")]
    pub format: u32,
    /// Version of the program that made it.
    pub version: String,
    /// Unix time in milliseconds at which it was begun; everything that was durable then is in it.
    pub begun_ms: i64,
    /// Number of databases copied.
    pub databases: u64,
    /// Number of other files copied.
    pub files: u64,
    /// Bytes of all copied files.
    pub bytes: u64,
    /// Folders, relative to the backup, parents first.
    #[serde(default)]
    pub folders: Vec<String>,
    /// Every file but this one.
    #[serde(default)]
    pub entries: Vec<Entry>,
    /// SHA-256 of this description with an empty text here, as hexadecimal digits.
    #[serde(default)]
    pub sha256: String,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its path, relative to the backup.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its content as hexadecimal digits; empty if nobody noted it.
    pub sha256: String,
}

fn first_format() -> u32 {
    1
}

impl Backup {
    /// The description of a backup that was begun.
    pub(super) fn begun(begun_ms: i64) -> Self {
        Backup {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            begun_ms,
            databases: 0,
            files: 0,
            bytes: 0,
            folders: Vec::new(),
            entries: Vec::new(),
            sha256: String::new(),
        }
    }

    /// Adds the hash of the description itself.
    pub(super) fn sealed(mut self) -> Self {
        self.sha256 = self.own_hash();
        self
    }

    fn own_hash(&self) -> String {
        let without = Backup { sha256: String::new(), ..self.clone() };
        hex(&ring::digest::digest(&SHA256, &serde_json::to_vec(&without).unwrap_or_default()))
    }

    /// Reads the description of a backup.
    ///
    /// # Errors
    /// If there is none, it is damaged, or of a newer format.
    pub fn read(folder: &Path) -> Result<Self, BackupError> {
        let path = folder.join(MANIFEST);
        let file = open_below(folder, MANIFEST).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => BackupError::Incomplete { folder: folder.to_owned() },
            _ => BackupError::Read { path: path.clone(), source },
        })?;
        let mut bytes = Vec::new();
        let read = file.take(BYTES_MAX).read_to_end(&mut bytes);
        read.map_err(|source| BackupError::Read { path: path.clone(), source })?;
        let damaged =
            |cause: &str| BackupError::Description { path: path.clone(), cause: cause.to_owned() };
        // A newer format may have other fields: its number is looked at first.
        let value: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|error| damaged(&error.to_string()))?;
        let found = value.get("format").map_or(Some(1), serde_json::Value::as_u64);
        let found = found.ok_or_else(|| damaged("its format is no number"))?;
        if found > u64::from(FORMAT) {
            return Err(BackupError::Newer { path, found, known: FORMAT });
        }
        let backup: Backup =
            serde_json::from_value(value).map_err(|error| damaged(&error.to_string()))?;
        if backup.format > 1 && backup.sha256 != backup.own_hash() {
            return Err(damaged("it is not what was written: its own SHA-256 is another"));
        }
        Ok(backup)
    }
}

/// A digest as hexadecimal digits.
pub(super) fn hex(digest: &Digest) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a file to its end: its length and SHA-256. `tell` hears of each piece's bytes, `take` gets
/// the piece.
pub(super) fn hashed(
    file: &mut File,
    tell: &mut dyn FnMut(u64),
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<(u64, String)> {
    let (mut hash, mut bytes) = (Context::new(&SHA256), 0);
    let mut piece = vec![0; 1 << 18];
    loop {
        let read = match file.read(&mut piece) {
            Ok(0) => return Ok((bytes, hex(&hash.finish()))),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let read = piece.get(..read).unwrap_or_default();
        hash.update(read);
        take(read)?;
        bytes += read.len() as u64;
        tell(read.len() as u64);
    }
}
