//! Whether a backup is what was written.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::{BackupError, Fault};
use super::manifest::{Backup, Entry, MANIFEST, hashed};
use super::reading::{open_below, parts};
use super::{Step, Tell};
use crate::database;
use crate::error::StoreError;

/// Faults that are told; more of them say nothing new.
const FAULTS_MAX: usize = 100;
/// Folders nested deeper than this are not of a backup.
const DEPTH_MAX: usize = 32;

/// What a backup was found to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Its description; that of a backup without hashes has the files that are there.
    pub backup: Backup,
    /// Whether each file was compared with its hash.
    pub has_hashes: bool,
    /// Files in the folder that are not of the backup; the first of them.
    pub strangers: Vec<String>,
}

/// Compares every file of a backup with its description, and has SQLite check each database if
/// `checks_databases` or if there are no hashes.
///
/// # Errors
/// If it is no complete backup, or anything in it is not what was written: each file by name.
pub fn verify(
    folder: &Path,
    checks_databases: bool,
    tell: &mut Tell<'_>,
) -> Result<Verified, BackupError> {
    let mut backup = Backup::read(folder)?;
    let has_hashes = backup.format > 1;
    let there = walk(folder)?;
    let mut faults = Vec::new();
    let mut fault = |path: &str, what: String| {
        if faults.len() < FAULTS_MAX {
            faults.push(Fault { path: path.to_owned(), what });
        }
    };
    if has_hashes {
        counted(&backup).into_iter().for_each(|what| fault(MANIFEST, what));
    } else {
        (backup.folders, backup.entries) = (there.folders, there.files.clone());
        old_counted(&backup).into_iter().for_each(|what| fault(MANIFEST, what));
    }
    let total = backup.bytes;
    let mut done = 0;
    for entry in &backup.entries {
        let mut piece = |bytes| {
            done += bytes;
            tell(Step::Verify, done, total);
        };
        let looked = compare(folder, entry, &mut piece).and_then(|()| {
            let is_looked_into = checks_databases || !has_hashes;
            match is_looked_into && entry.path.ends_with(".db") {
                true => check_database(&folder.join(&entry.path)),
                false => Ok(()),
            }
        });
        if let Err(what) = looked {
            fault(&entry.path, what);
        }
    }
    if !faults.is_empty() {
        return Err(BackupError::Damaged { folder: folder.to_owned(), faults });
    }
    let known: std::collections::BTreeSet<&str> =
        backup.entries.iter().map(|entry| entry.path.as_str()).collect();
    let is_stranger = |path: &String| !known.contains(path.as_str());
    let paths = there.files.into_iter().map(|entry| entry.path);
    let strangers = paths.filter(is_stranger).take(FAULTS_MAX).collect();
    Ok(Verified { backup, has_hashes, strangers })
}

/// What the numbers of a description contradict.
fn counted(backup: &Backup) -> Option<String> {
    let entries = backup.databases + backup.files;
    let bytes: u64 = backup.entries.iter().map(|entry| entry.bytes).sum();
    let is_right = entries == backup.entries.len() as u64 && bytes == backup.bytes;
    (!is_right).then(|| "its numbers contradict its list of files".to_owned())
}

/// The same of a description without a list: what is there must be as much as was written.
fn old_counted(backup: &Backup) -> Option<String> {
    let databases = backup.entries.iter().filter(|e| e.path.ends_with(".db")).count() as u64;
    let files = backup.entries.len() as u64 - databases;
    let bytes: u64 = backup.entries.iter().map(|entry| entry.bytes).sum();
    let is_right = (databases, files, bytes) == (backup.databases, backup.files, backup.bytes);
    (!is_right).then(|| {
        format!(
            "{} databases and {} files of {} bytes were written, {databases} and {files} of {bytes} \
             are there",
            backup.databases, backup.files, backup.bytes
        )
    })
}

fn compare(folder: &Path, entry: &Entry, tell: &mut dyn FnMut(u64)) -> Result<(), String> {
    let mut file = open_below(folder, &entry.path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "it is missing".to_owned(),
        _ => format!("it cannot be opened: {error}"),
    })?;
    let read = hashed(&mut file, tell, |_| Ok(()));
    let (bytes, sha256) = read.map_err(|error| format!("it cannot be read: {error}"))?;
    if bytes != entry.bytes {
        return Err(format!("it has {bytes} bytes, {} were written", entry.bytes));
    }
    match entry.sha256.is_empty() || sha256 == entry.sha256 {
        true => Ok(()),
        false => Err("its content is not what was written (SHA-256)".to_owned()),
    }
}

/// Has SQLite look through a database, without making any file beside it.
fn check_database(path: &Path) -> Result<(), String> {
    let opened = database::open_unchanging(path);
    let said: rusqlite::Result<String> =
        opened.and_then(|db| db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)));
    match said {
        Ok(said) if said == "ok" => Ok(()),
        Ok(said) => Err(format!("SQLite finds it damaged: {said}")),
        Err(error) => Err(format!("SQLite cannot read it: {error}")),
    }
}

/// What is in a folder.
#[derive(Debug, Default)]
struct There {
    folders: Vec<String>,
    files: Vec<Entry>,
}

fn walk(root: &Path) -> Result<There, BackupError> {
    let mut there = There::default();
    let mut folders: Vec<(PathBuf, usize)> = vec![(root.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(StoreError::io(&folder, "list"))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let Ok(seen) = path.symlink_metadata() else { continue };
            let below = path.strip_prefix(root).ok().and_then(Path::to_str);
            let Some(below) = below.filter(|below| parts(below).is_some()) else { continue };
            if seen.is_dir() && depth < DEPTH_MAX {
                there.folders.push(below.to_owned());
                folders.push((path, depth + 1));
            } else if seen.is_file() && below != MANIFEST {
                let (path, sha256) = (below.to_owned(), String::new());
                there.files.push(Entry { path, bytes: seen.len(), sha256 });
            }
        }
    }
    there.folders.sort();
    there.files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(there)
}
