//! What this program would do with a data folder if it were started on it: `gauntlet upgrade
//! check`.
//!
//! Everything here reads. The lock of a node is tried for a moment, as a reader, which changes
//! nothing on the disk. What a start would refuse to open is asked of the stores themselves.

mod report;
mod stores;

use std::fs::{File, TryLockError};
use std::path::Path;

use gauntlet_store::StoreError;
use gauntlet_store::backup::{self, restore};
use gauntlet_store::files;
use gauntlet_store::formats::{self, Earlier, Found, Places, folder};

use crate::config::Config;
use crate::config::faults::Fault;
use crate::data_formats::ALL;

pub use self::report::{
    Action, BackupLine, FormatLine, Mark, MigrationLine, NodeLine, Outlook, Report, SettingsLine,
};

/// Bytes of a database that are brought forward in a second, at least. Measured: a list of 600,000
/// held messages (329 MB) from schema 1 to 5 in 16 s, on two CPUs that were busy with other work,
/// the file not in memory.
const MIGRATED_BYTES_PER_SECOND: u64 = 10 << 20;
/// Free bytes that a start needs beside the largest database: its journal, logs, the spool.
const FREE_BYTES_BESIDE: u64 = 64 << 20;
/// Files that are named one by one.
const NAMED_MAX: usize = 20;
const DAY_MS: i64 = 86_400_000;
/// A backup older than this is not one to go back to.
const BACKUP_DAYS_MAX: i64 = 7;

/// What is to be looked at.
#[derive(Debug)]
pub struct Subject<'a> {
    /// The configuration, or the defaults where it has faults.
    pub config: &'a Config,
    /// The configuration file, if there is one, and what this program does not take in it.
    pub file: Option<(&'a Path, Vec<Fault>)>,
    /// A backup to be looked at instead of the one that was made last.
    pub backup: Option<&'a Path>,
    /// Unix time in milliseconds.
    pub now_ms: i64,
}

/// Looks at a data folder.
///
/// # Errors
/// If a folder in it cannot be read.
pub fn look(subject: &Subject<'_>) -> Result<Report, StoreError> {
    let config = subject.config;
    let (data, spool) = (&config.node.data, config.node.inside(&config.spool.path));
    let mut report = Report::new(data);
    if let Err(error) = restore::refuse_unfinished(data) {
        report.refuse(error.to_string());
    }
    report.last_run_by = match folder::check(data) {
        Ok(mark) => mark.map(|mark| Mark { format: mark.format, version: mark.version }),
        Err(error) => {
            report.refuse(error.to_string());
            folder::read(data).ok().flatten().map(|m| Mark { format: m.format, version: m.version })
        }
    };
    let found = formats::survey(Places { data, spool: &spool }, ALL)?;
    report.formats.push(of_folder(&report));
    for found in found.iter().filter(|found| found.files() > 0) {
        add(&mut report, found);
    }
    stores::check(config, &mut report);
    for (path, why) in found.iter().flat_map(|found| found.damaged.iter().take(NAMED_MAX)) {
        let named = path.display().to_string();
        // What stops the start is said, and with what to do.
        if !report.refusals.iter().any(|refusal| refusal.contains(&named)) {
            report.attend(why.clone());
        }
    }
    report.migration = migration(data, &found, &mut report);
    report.node = NodeLine { is_running: is_running(data) };
    if report.node.is_running {
        report
            .note("a node runs on this folder: stop it before the program is replaced".to_owned());
    }
    report.backup = last_backup(subject, &mut report);
    report.settings = subject.file.as_ref().map(|(path, faults)| SettingsLine {
        file: path.display().to_string(),
        faults: faults.clone(),
    });
    for fault in subject.file.iter().flat_map(|(_, faults)| faults) {
        let path = subject.file.as_ref().map_or(String::new(), |(p, _)| p.display().to_string());
        report.refuse(format!("{path}:{}: {}", fault.line, fault.message));
    }
    Ok(report)
}

/// The line for all files without a version of their own.
fn of_folder(report: &Report) -> FormatLine {
    let format = report.last_run_by.as_ref().map_or(folder::OLDEST, |mark| mark.format);
    FormatLine {
        name: "files without a version of their own".to_owned(),
        files: 0,
        bytes: 0,
        versions: [(format, 0)].into(),
        oldest: folder::OLDEST,
        known: folder::FORMAT,
        action: if format > folder::FORMAT { Action::Refuse } else { Action::Nothing },
    }
}

fn add(report: &mut Report, found: &Found) {
    let format = found.format;
    let older = found.versions.keys().any(|version| *version < format.known);
    let action = match (found.refused.is_empty(), older, format.earlier) {
        (false, _, _) => Action::Refuse,
        (true, true, Earlier::Migrated) => Action::Migrate,
        (true, true, _) => Action::Read,
        (true, false, _) => Action::Nothing,
    };
    report.formats.push(FormatLine {
        name: format.name.to_owned(),
        files: found.files(),
        bytes: found.bytes,
        versions: found.versions.clone(),
        oldest: format.oldest,
        known: format.known,
        action,
    });
    for (path, version) in found.refused.iter().take(NAMED_MAX) {
        let path = path.display();
        let known = format.known;
        report.refuse(match *version > known {
            true => format!(
                "{path}: version {version} is newer than {known}, the newest that this program \
                 knows; run the version that wrote it, or go back to a backup from before"
            ),
            false => format!(
                "{path}: version {version} is older than {}, the oldest that this program reads; \
                 move it away, what is in it is learned anew",
                format.oldest
            ),
        });
    }
}

fn migration(data: &Path, found: &[Found], report: &mut Report) -> MigrationLine {
    let bytes: u64 = found.iter().map(|found| found.to_migrate_bytes).sum();
    let largest = found.iter().map(|found| found.to_migrate_largest).max().unwrap_or(0);
    // One after the other; SQLite keeps what it changes twice until the change is whole.
    let free_bytes_needed = largest + FREE_BYTES_BESIDE;
    let free_bytes = files::free_bytes(data).ok();
    if let Some(free) = free_bytes.filter(|free| *free < free_bytes_needed) {
        report.attend(format!(
            "{}: {free} bytes are free, the first start needs {free_bytes_needed}; make room",
            data.display()
        ));
    }
    let seconds_estimated = bytes.div_ceil(MIGRATED_BYTES_PER_SECOND);
    if bytes > 0 {
        report.note(format!(
            "the first start brings {bytes} bytes of databases forward, in an estimated {seconds_estimated} s; \
             a program of the version before does not read them any more"
        ));
    }
    MigrationLine { bytes, seconds_estimated, free_bytes_needed, free_bytes }
}

/// A node holds the folder's lock.
fn is_running(data: &Path) -> bool {
    let Ok(lock) = File::open(data.join("lock")) else { return false };
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
}

fn last_backup(subject: &Subject<'_>, report: &mut Report) -> Option<BackupLine> {
    let data = &subject.config.node.data;
    let noted = backup::last(data).map(|last| last.folder);
    let folder = subject.backup.map(Path::to_owned).or(noted);
    let Some(folder) = folder else {
        let hint = "no backup is known of; make one (`gauntlet backup`), or name one (--backup)";
        report.attend(hint.to_owned());
        return None;
    };
    let shown = folder.display().to_string();
    let found = match backup::Backup::read(&folder) {
        Ok(found) => found,
        Err(error) => {
            report.attend(format!("{error} (the backup that is known of)"));
            return None;
        }
    };
    let age_ms = subject.now_ms.saturating_sub(found.begun_ms).max(0);
    if age_ms > BACKUP_DAYS_MAX * DAY_MS {
        let days = age_ms / DAY_MS;
        report.attend(format!("{shown}: the backup is {days} days old; make a new one"));
    }
    let has_hashes = found.format > 1;
    Some(BackupLine {
        folder: shown,
        begun_ms: found.begun_ms,
        age_seconds: age_ms / 1_000,
        has_hashes,
    })
}
