//! Damaged days. The node moves their files aside, so that the other days can be read and logging
//! continues; other processes leave them out. The administrator is told of them until the files are
//! gone.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use gauntlet_mail::date::day_name;

use super::{day_path, days_of};
use crate::error::StoreError;
use crate::{database, files};

/// Suffix of a damaged file.
const SUFFIX: &str = "damaged";

/// Moves the file of a day to a name that the log does not read.
///
/// # Errors
/// If it cannot be renamed.
pub(super) fn set_aside(folder: &Path, day: i64, why: &str) -> Result<(), StoreError> {
    let path = day_path(folder, day);
    let with = |path: &Path, end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let named = |n: u32| match n {
        1 => with(&path, &format!(".{SUFFIX}")),
        n => with(&path, &format!(".{SUFFIX}-{n}")),
    };
    let Some(aside) = (1..=u32::MAX).map(named).find(|to| !to.exists()) else { return Ok(()) };
    // SQLite's own files first: beside a new file of the same name it would take them for that
    // one's.
    for suffix in ["-wal", "-shm", ""] {
        let from = with(&path, suffix);
        match std::fs::rename(&from, with(&aside, suffix)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            renamed => renamed.map_err(StoreError::io(&from, "set aside"))?,
        }
    }
    files::sync_folder(folder).map_err(StoreError::io(folder, "sync"))?;
    tracing::error!(why, folder = %folder.display(), "{}", describe(&aside));
    Ok(())
}

/// Message for the administrator. Without the folder, since `/healthz` shows it to everyone.
fn describe(path: &Path) -> String {
    format!(
        "a day of the message log is damaged and was set aside as log/{}; the other days are not \
         affected. Stop the node and restore the day from a backup under its old name, save what is \
         readable with `sqlite3 FILE .recover`, or remove the file",
        path.file_name().unwrap_or_default().display()
    )
}

/// Message for the administrator on a day that this process leaves out, since the node that may
/// move it aside does not run, or has not read the day yet.
pub(super) fn describe_left_out(day: i64) -> String {
    format!(
        "a day of the message log is damaged and left out: log/{}.db; the other days are not \
         affected. Stop the node and restore the day from a backup under this name, save what is \
         readable with `sqlite3 FILE .recover`, or start the node, which sets it aside",
        day_name(day)
    )
}

/// Messages on the damaged days of a log that no process has open: what was set aside, and days
/// that SQLite cannot read. Changes nothing, and reads little of each day: damage in the midst of a
/// day is found by whoever reads it.
///
/// # Errors
/// If the folder cannot be listed.
pub(super) fn examine(folder: &Path) -> Result<Vec<String>, StoreError> {
    let is_damaged = |day: &i64| {
        let read = database::open_unchanging(&day_path(folder, *day)).and_then(|connection| {
            connection.query_row("SELECT min(seq), max(seq) FROM message", [], |_| Ok(()))
        });
        read.is_err_and(|error| crate::error::is_damage(&error))
    };
    let days = days_of(folder)?;
    let damaged = days.iter().filter(|day| is_damaged(day)).map(|day| describe_left_out(*day));
    Ok(list(folder).into_iter().chain(damaged).collect())
}

/// Messages on the damaged files that are still there, sorted by name.
pub(super) fn list(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let end = name.split_once(".db.").map(|(_, end)| end).unwrap_or_default();
            let number = end.strip_prefix(SUFFIX).map(|rest| rest.trim_start_matches('-'));
            number.is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
        })
        .collect();
    found.sort();
    found.iter().map(|path| describe(path)).collect()
}

/// Whether the file of a day is damaged now: a reader that reports damage may have had another file
/// open.
pub(super) fn is_damaged(folder: &Path, day: i64) -> bool {
    let path = day_path(folder, day);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let checked = Connection::open_with_flags(&path, flags).and_then(|connection| {
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
    });
    match checked {
        Ok(said) => said != "ok",
        Err(error) => crate::error::is_damage(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{DAY, ids, record};
    use super::super::{DAY_MS, Log, LogOptions, Query};
    use super::*;

    fn open(folder: &Path) -> Log {
        Log::open_with(
            folder,
            LogOptions { sets_damaged_days_aside: true, ..LogOptions::default() },
        )
        .unwrap()
    }

    fn two_days(folder: &Path) -> PathBuf {
        let log = open(folder);
        // More than the pages that are read when a file is opened.
        let records = (0..400).map(|n| record(n, DAY + n)).collect();
        log.append(records).unwrap();
        log.append(vec![record(1_000, DAY + DAY_MS), record(1_001, DAY + 2 * DAY_MS)]).unwrap();
        day_path(folder, DAY / DAY_MS)
    }

    fn corrupt(path: &Path, from: usize) {
        let mut bytes = std::fs::read(path).unwrap();
        bytes.iter_mut().skip(from).for_each(|byte| *byte = 0x5a);
        std::fs::write(path, bytes).unwrap();
    }

    const OTHERS: [&str; 2] = ["id-1001", "id-1000"];

    #[test]
    fn a_damaged_day_is_set_aside_and_the_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = two_days(folder.path());
        for from in [0, 100] {
            corrupt(&path, from);
            // A command that runs beside the node skips it and moves nothing.
            let seen = Log::examine(folder.path()).unwrap();
            let beside = Log::open(folder.path()).unwrap();
            assert_eq!(ids(&beside, &Query::default()), OTHERS);
            // It says which day that is, and so does who looks at the files alone.
            let name = format!("left out: log/{}.db", day_name(DAY / DAY_MS));
            for said in [seen, beside.damaged_days()] {
                assert_eq!(said.iter().filter(|line| line.contains(&name)).count(), 1, "{said:?}");
            }
            drop(beside);
            assert!(path.exists());
            let log = open(folder.path());
            assert!(!path.exists());
            assert_eq!(ids(&log, &Query::default()), OTHERS);
            // A late record of that day goes into a new file.
            assert_eq!(log.append(vec![record(7, DAY + 7)]).unwrap().new, 2);
            assert_eq!(log.get("id-7").unwrap().unwrap().record.id, "id-7");
        }
        let messages = open(folder.path()).damaged_days();
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert!(
            messages.iter().all(|line| line.contains(".db.damaged") && line.contains("backup"))
        );
        for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
            if entry.file_name().to_string_lossy().contains("damaged") {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        assert!(open(folder.path()).damaged_days().is_empty());
    }

    #[test]
    fn damage_that_is_met_later_is_set_aside_by_a_reader_and_by_the_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = two_days(folder.path());
        let log = open(folder.path());
        let beside = Log::open(folder.path()).unwrap();
        assert_eq!(beside.damaged_days(), Vec::<String>::new());
        let size = std::fs::metadata(&path).unwrap().len();
        // The first page is intact, so that the file opens; its tables are damaged.
        corrupt(&path, 4_096);
        assert!(size > 40_000, "{size}");
        assert_eq!(ids(&beside, &Query::default()), OTHERS);
        assert_eq!(beside.damaged_days().len(), 1);
        drop(beside);
        assert_eq!(ids(&log, &Query::default()), OTHERS);
        log.append(vec![record(7, DAY + 7)]).unwrap();
        assert_eq!(log.damaged_days().len(), 1);
        assert_eq!(log.get("id-7").unwrap().unwrap().record.id, "id-7");
        // A reader's report on a file that was moved aside already does not affect the new file.
        log.leave_out(DAY / DAY_MS, &StoreError::Closed { path: path.clone() });
        log.append(vec![record(8, DAY + 8)]).unwrap();
        assert_eq!(log.get("id-7").unwrap().unwrap().record.id, "id-7");
        drop(log);
        corrupt(&path, 4_096);
        let log = open(folder.path());
        log.append(vec![record(9, DAY + 9)]).unwrap();
        assert_eq!(log.get("id-9").unwrap().unwrap().record.id, "id-9");
        assert_eq!(log.damaged_days().len(), 2);
        assert_eq!(log.newest_ms().unwrap(), Some(DAY + 2 * DAY_MS));
    }
}
