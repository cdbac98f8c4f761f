//! The mark of a data folder, for all files in it that have none of their own.
//!
//! State in JSON, journals of fixed records, lists, keys: dozens of small files. Whoever changes
//! one of them so that an earlier version would misread it, and does not give it another name,
//! raises [`FORMAT`]; an earlier version then refuses the folder. A folder without the mark is of
//! the first format. Fields that are added to JSON, which earlier versions pass over, need no new
//! number.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::files;

/// Name of the mark in the data folder.
pub const FILE: &str = "format.json";
/// The format that this program reads and writes.
pub const FORMAT: u32 = 1;
/// Oldest format that this program reads.
pub const OLDEST: u32 = 1;
/// Largest mark in bytes.
const BYTES_MAX: u64 = 4_096;

/// What the mark says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderFormat {
    /// Version of the format.
    pub format: u32,
    /// Version of the program that started on the folder last, e.g. `0.1.0`.
    pub version: String,
}

/// The mark of a data folder; none if there is none.
///
/// # Errors
/// If it cannot be read, or is damaged.
pub fn read(data: &Path) -> Result<Option<FolderFormat>, StoreError> {
    use std::io::Read;
    let path = data.join(FILE);
    let mut bytes = Vec::new();
    match crate::at_rest::open(&path) {
        Ok(file) => file.take(BYTES_MAX).read_to_end(&mut bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io(&path, "open")(error)),
    }
    .map_err(StoreError::io(&path, "read"))?;
    serde_json::from_slice(&bytes).map(Some).map_err(|error| StoreError::Damaged {
        path,
        what: "the mark of the data folder".to_owned(),
        cause: format!(
            "{error}; if no newer version of this program ran here, remove the file: the next \
             start writes it anew"
        ),
    })
}

/// Refuses a data folder of a newer format.
///
/// # Errors
/// As [`read`], or if it is newer.
pub fn check(data: &Path) -> Result<Option<FolderFormat>, StoreError> {
    let found = read(data)?;
    match &found {
        Some(mark) if mark.format > FORMAT => {
            Err(StoreError::Newer { path: data.join(FILE), found: mark.format, known: FORMAT })
        }
        _ => Ok(found),
    }
}

/// Marks a data folder as of this program, durably, before it writes anything else there. A folder
/// that has the mark is not changed.
///
/// # Errors
/// As [`check`], or if the mark cannot be written.
pub fn note(data: &Path) -> Result<(), StoreError> {
    let ours = FolderFormat { format: FORMAT, version: env!("CARGO_PKG_VERSION").to_owned() };
    if check(data)?.as_ref() == Some(&ours) {
        return Ok(());
    }
    let path = data.join(FILE);
    let text = serde_json::to_vec(&ours).unwrap_or_default();
    files::write_durably(&path, &text).map_err(StoreError::io(&path, "write"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_marked_once_and_a_newer_mark_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (data, path) = (folder.path(), folder.path().join(FILE));
        assert_eq!(check(data).unwrap(), None, "an old folder is of the first format");
        note(data).unwrap();
        let first = std::fs::metadata(&path).unwrap().modified().unwrap();
        note(data).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), first);
        // One of an earlier program is noted again, one of a later format is not touched.
        std::fs::write(&path, r#"{"format":1,"version":"0.0.9"}"#).unwrap();
        note(data).unwrap();
        assert_eq!(check(data).unwrap().unwrap().version, env!("CARGO_PKG_VERSION"));
        let later = r#"{"format":2,"version":"9.0.0","more":true}"#;
        std::fs::write(&path, later).unwrap();
        for error in [check(data).unwrap_err(), note(data).unwrap_err()] {
            assert!(matches!(error, StoreError::Newer { found: 2, known: 1, .. }), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), later);
        std::fs::write(&path, "{").unwrap();
        assert!(check(data).unwrap_err().to_string().contains("remove the file"));
    }
}
