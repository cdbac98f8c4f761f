//! Looks at every file whose format is known.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Earlier, Format, Mark};
use crate::at_rest::{open, read_start, schema_version};
use crate::error::StoreError;

/// Folder of the spool in the table of formats; the configuration may have it elsewhere.
pub(super) const SPOOL: &str = "spool";
/// Files of a format that a start looks at, by name from the newest on: a newer program that wrote
/// anything wrote there.
const NEWEST_FILES: usize = 8;

/// Where a node's files are.
#[derive(Debug, Clone, Copy)]
pub struct Places<'a> {
    /// The data folder.
    pub data: &'a Path,
    /// The spool's folder.
    pub spool: &'a Path,
}

impl Places<'_> {
    fn folder_of(&self, format: &Format) -> PathBuf {
        match format.folder {
            SPOOL => self.spool.to_owned(),
            folder => self.data.join(folder),
        }
    }
}

/// The files of a format in a data folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Their format.
    pub format: Format,
    /// How many files there are of each version. Empty files, which have none, are not counted.
    pub versions: BTreeMap<u32, u64>,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes of those that the first start brings forward.
    pub to_migrate_bytes: u64,
    /// Bytes of the largest of those.
    pub to_migrate_largest: u64,
    /// Files that this program does not read, and their version.
    pub refused: Vec<(PathBuf, u32)>,
    /// Files whose version cannot be told, and why.
    pub damaged: Vec<(PathBuf, String)>,
}

impl Found {
    /// Number of files.
    pub fn files(&self) -> u64 {
        self.versions.values().sum::<u64>() + self.damaged.len() as u64
    }

    fn add(&mut self, path: &Path, version: u32) {
        let bytes = std::fs::symlink_metadata(path).map_or(0, |seen| seen.len());
        self.bytes += bytes;
        *self.versions.entry(version).or_default() += 1;
        if self.format.reads(version) {
            let migrated = self.format.earlier == Earlier::Migrated && version < self.format.known;
            let bytes = if migrated { bytes } else { 0 };
            self.to_migrate_bytes += bytes;
            self.to_migrate_largest = self.to_migrate_largest.max(bytes);
        } else {
            self.refused.push((path.to_owned(), version));
        }
    }
}

impl Format {
    /// Whether this program reads a file of this version.
    pub fn reads(&self, version: u32) -> bool {
        (self.oldest..=self.known).contains(&version)
            // A database without a table yet is made when it is opened.
            || (self.mark == Mark::Schema && version == 0)
    }

    /// The version of a file; none if it has no content yet.
    fn version_of(&self, path: &Path) -> Result<Option<u32>, StoreError> {
        let Mark::Number(magic) = self.mark else { return schema_version(path) };
        let mut file = open(path).map_err(StoreError::io(path, "open"))?;
        let mut head = [0; 12];
        let filled = read_start(&mut file, &mut head).map_err(StoreError::io(path, "read"))?;
        let (start, number) = head.split_at(magic.len());
        if filled == head.len() && start == magic {
            let version = number.try_into().map_or(0, u32::from_le_bytes);
            // The spool's first files had 0 there.
            return Ok(Some(version.max(1)));
        }
        // A crash came before its first bytes were written whole.
        if filled < head.len() && magic.starts_with(start.get(..filled.min(8)).unwrap_or_default())
        {
            return Ok(None);
        }
        let cause = "its first bytes are not those of the format".to_owned();
        Err(StoreError::Damaged { path: path.to_owned(), what: self.name.to_owned(), cause })
    }

    /// The format's files in a folder, by name.
    fn files_in(&self, folder: &Path, others: &[&[Format]]) -> Result<Vec<PathBuf>, StoreError> {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io(folder, "list")(error)),
        };
        // A file with a name of its own is not one of those that end like it.
        let named = |name: &str| {
            let mut all = others.iter().flat_map(|formats| formats.iter());
            all.any(|f| f.folder == self.folder && f.name != self.name && f.files.contains(&name))
        };
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_plain = || path.symlink_metadata().is_ok_and(|seen| seen.is_file());
            self.has(name) && !named(name) && is_plain()
        };
        let mut found: Vec<_> = entries.flatten().map(|e| e.path()).filter(is_ours).collect();
        found.sort();
        Ok(found)
    }
}

/// What there is of these formats.
///
/// # Errors
/// If a folder cannot be listed.
pub fn survey(places: Places<'_>, formats: &[&[Format]]) -> Result<Vec<Found>, StoreError> {
    let mut all = Vec::new();
    for format in formats.iter().flat_map(|formats| formats.iter()) {
        let mut found = Found {
            format: *format,
            versions: BTreeMap::new(),
            bytes: 0,
            to_migrate_bytes: 0,
            to_migrate_largest: 0,
            refused: Vec::new(),
            damaged: Vec::new(),
        };
        for path in format.files_in(&places.folder_of(format), formats)? {
            match format.version_of(&path) {
                Ok(Some(version)) => found.add(&path, version),
                Ok(None) => {}
                // Removed meanwhile, by a node that runs.
                Err(StoreError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => found.damaged.push((path, error.to_string())),
            }
        }
        all.push(found);
    }
    Ok(all)
}

/// Refuses a data folder if a newer version of this program wrote anything there, before anything
/// is opened. What is damaged is left to whoever opens it.
///
/// # Errors
/// If something is newer, with its file and both versions.
pub fn refuse_newer(places: Places<'_>, formats: &[&[Format]]) -> Result<(), StoreError> {
    super::folder::check(places.data)?;
    for format in formats.iter().flat_map(|formats| formats.iter()) {
        // What stands in the place of a folder is named by whoever opens it.
        let files = format.files_in(&places.folder_of(format), formats).unwrap_or_default();
        for path in files.into_iter().rev().take(NEWEST_FILES) {
            match format.version_of(&path) {
                Ok(Some(found)) if found > format.known => {
                    return Err(StoreError::Newer { path, found, known: format.known });
                }
                _ => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::FORMATS;
    use super::*;

    #[test]
    fn files_are_told_by_name_and_version_and_nothing_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (data, spool) = (folder.path(), folder.path().join("elsewhere"));
        for name in ["log", "web", "quarantine/packs", "elsewhere"] {
            std::fs::create_dir_all(data.join(name)).unwrap();
        }
        let make = |name: &str, version: u32| {
            let db = rusqlite::Connection::open(data.join(name)).unwrap();
            db.execute_batch(&format!("CREATE TABLE t(x); PRAGMA user_version = {version};"))
                .unwrap();
        };
        make("log/2026-11-01.db", 3);
        make("log/2026-11-02.db", 5);
        make("web/2026-11-01.db", 1);
        make("web/releases.db", 1);
        std::fs::write(data.join("quarantine/packs/1.pack"), b"GNTLPACK\x02\0\0\0").unwrap();
        std::fs::write(data.join("quarantine/packs/2.pack"), b"GNTL").unwrap();
        std::fs::write(spool.join("1.seg"), b"GNTSPOOL\0\0\0\0\0\0\0\0").unwrap();
        std::fs::write(spool.join("2.seg"), b"garbage, not a spool").unwrap();
        let places = Places { data, spool: &spool };
        let all = survey(places, &[FORMATS]).unwrap();
        let of = |name: &str| all.iter().find(|f| f.format.name == name).unwrap().clone();
        assert_eq!(of("message log").versions, BTreeMap::from([(3, 1), (5, 1)]));
        assert!(of("message log").to_migrate_bytes > 0);
        assert_eq!((of("web log").files(), of("releases of the web").files()), (1, 1));
        let packs = of("packs of held mail");
        assert_eq!((packs.refused.len(), packs.damaged.len(), packs.files()), (1, 0, 1));
        assert_eq!(of("spool").versions, BTreeMap::from([(1, 1)]));
        assert_eq!(of("spool").damaged.len(), 1);
        let error = refuse_newer(places, &[FORMATS]).unwrap_err();
        assert!(matches!(error, StoreError::Newer { found: 2, known: 1, .. }), "{error}");
        std::fs::remove_file(data.join("quarantine/packs/1.pack")).unwrap();
        refuse_newer(places, &[FORMATS]).unwrap();
    }
}
