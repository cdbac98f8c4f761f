//! Opening SQLite files: write-ahead log, durable commits, schema versions.
//!
//! Each kind of file has a list of migrations; version N of the schema is what the first N of them
//! make. An older file is migrated in one transaction when it is opened for writing, a newer one is
//! refused.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::at_rest::schema_version;
use crate::error::{StoreError, is_damage};
use crate::files;

/// How long a statement waits for another connection's lock, in milliseconds.
const BUSY_MS: u64 = 10_000;
/// Between two attempts at a lock that SQLite does not wait for.
const BUSY_PAUSE: Duration = Duration::from_millis(2);
/// Prepared statements kept by a connection.
const STATEMENTS_KEPT: usize = 64;

/// Pages of 4 KB in the write-ahead log of a busy file before a checkpoint.
const WAL_PAGES: u32 = 4_000;

/// Opens or creates a file for writing and migrates its schema.
///
/// Commits are durable when they return (`synchronous = FULL`).
pub fn open_write(path: &Path, migrations: &[&str]) -> Result<Connection, StoreError> {
    let begun = Instant::now();
    loop {
        match try_open_write(path, migrations) {
            // While a new file is changed to a write-ahead log, SQLite answers another connection
            // at once and does not wait as for other locks: with nothing, a node lost the first
            // line of its day's log if somebody looked into it at that moment.
            Err(error) if error.is_busy() && begun.elapsed() < Duration::from_millis(BUSY_MS) => {
                std::thread::sleep(BUSY_PAUSE);
            }
            opened => return opened,
        }
    }
}

fn try_open_write(path: &Path, migrations: &[&str]) -> Result<Connection, StoreError> {
    let db = StoreError::db(path);
    files::prepare_database(path).map_err(StoreError::io(path, "open"))?;
    let mut connection = Connection::open(path).map_err(&db)?;
    prepare(&connection).map_err(&db)?;
    // A transaction that reads before it writes does not wait for a lock, but fails: each asks for
    // it when it begins.
    connection.set_transaction_behavior(TransactionBehavior::Immediate);
    connection
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
        .map_err(&db)?;
    migrate(&mut connection, path, migrations)?;
    Ok(connection)
}

/// The same for a file that is written all day: pages that every commit writes collect in the
/// write-ahead log (up to 16 MB), and a checkpoint writes each into the file once.
pub fn open_busy(path: &Path, migrations: &[&str]) -> Result<Connection, StoreError> {
    let connection = open_write(path, migrations)?;
    let wider = format!("PRAGMA wal_autocheckpoint = {WAL_PAGES};");
    connection.execute_batch(&wider).map_err(StoreError::db(path))?;
    Ok(connection)
}

/// Opens an existing file for reading. The schema must be current, because the writer opens it
/// first, or its reader has to ask for the [`version`].
pub fn open_read(path: &Path, migrations: &[&str]) -> Result<Connection, StoreError> {
    let db = StoreError::db(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(&db)?;
    prepare(&connection).map_err(&db)?;
    connection.execute_batch("PRAGMA query_only = ON;").map_err(&db)?;
    let found = version(&connection).map_err(&db)?;
    refuse_newer(path, found, migrations.len())?;
    Ok(connection)
}

/// Opens an existing file that nobody writes to, without making any file beside it or locking it.
/// What is still in its write-ahead log is not seen.
pub fn open_unchanging(path: &Path) -> rusqlite::Result<Connection> {
    open_by_address(path, "immutable=1")
}

/// Opens an existing file for reading, changes nothing and makes no file beside it, whether a node
/// has it open or a kill left its write-ahead log there. None where that cannot be: the log has
/// content, and its index, which SQLite would have to make, is not there.
pub fn open_looking(path: &Path) -> rusqlite::Result<Option<Connection>> {
    // SQLite follows links, and has its files beside what they lead to.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        std::fs::metadata(name).ok().map(|seen| seen.len())
    };
    match (beside("-wal"), beside("-shm")) {
        (Some(_), Some(_)) => open_by_address(&path, "mode=ro&readonly_shm=1").map(Some),
        (Some(1..), None) => Ok(None),
        _ => open_unchanging(&path).map(Some),
    }
}

/// Opens a file for reading by SQLite's address of it, with these parameters.
fn open_by_address(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    let mut escaped = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                escaped.push(char::from(*byte));
            }
            _ => escaped.push_str(&format!("%{byte:02x}")),
        }
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(format!("file:{escaped}?{parameters}"), flags)
}

/// Refuses a file that [`open_write`] would refuse, or that `read` fails on: what the store reads
/// when it is opened. Changes nothing. One that is blank is fine, it would be made. One of an
/// earlier version may have other tables, and is not given to `read`.
///
/// # Errors
/// As [`open_write`].
pub fn check(
    path: &Path,
    migrations: &[&str],
    read: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> Result<(), StoreError> {
    if is_blank(path)? {
        return Ok(());
    }
    let db = StoreError::db(path);
    let Some(connection) = open_looking(path).map_err(&db)? else {
        let found = schema_version(path)?.unwrap_or(0);
        return refuse_newer(path, found, migrations.len());
    };
    prepare(&connection).map_err(&db)?;
    let found = version(&connection).map_err(&db)?;
    refuse_newer(path, found, migrations.len())?;
    match found as usize == migrations.len() {
        true => read(&connection).map_err(&db),
        false => Ok(()),
    }
}

/// Whether there is no database here: no file, an empty one, or one without a table. Changes
/// nothing.
pub fn is_blank(path: &Path) -> Result<bool, StoreError> {
    match std::fs::metadata(path) {
        // SQLite writes the header of the file before its write-ahead log has any content.
        Ok(seen) if seen.len() == 0 => return Ok(true),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(StoreError::io(path, "read")(error)),
    }
    let tables = || {
        let Some(connection) = open_looking(path)? else { return Ok(None) };
        prepare(&connection)?;
        let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        connection.query_row("SELECT count(*) FROM sqlite_master", [], count).map(Some)
    };
    match tables() {
        Ok(Some(tables)) => Ok(tables == 0),
        Err(error) if is_damage(&error) => Err(StoreError::db(path)(error)),
        // Nobody can look without a change. Tables are made with the version, in one transaction.
        Ok(None) | Err(_) => Ok(schema_version(path)?.unwrap_or(0) == 0),
    }
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::from_millis(BUSY_MS))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;")
}

/// Version of a file's schema.
pub fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn refuse_newer(path: &Path, found: u32, known: usize) -> Result<(), StoreError> {
    let known = known as u32;
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    Ok(())
}

fn migrate(
    connection: &mut Connection,
    path: &Path,
    migrations: &[&str],
) -> Result<(), StoreError> {
    let db = StoreError::db(path);
    let found = version(connection).map_err(&db)?;
    refuse_newer(path, found, migrations.len())?;
    if found as usize == migrations.len() {
        return Ok(());
    }
    // Of two programs that open an old file at once, one migrates it and the other finds it done.
    let steps =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&db)?;
    let found = version(&steps).map_err(&db)?;
    let missing = migrations.get(found as usize..).unwrap_or_default();
    for step in missing {
        steps.execute_batch(step).map_err(&db)?;
    }
    steps.pragma_update(None, "user_version", migrations.len() as u32).map_err(&db)?;
    steps.commit().map_err(&db)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A node and a command that make the same file at once found it locked, or made twice.
    #[test]
    fn many_may_open_a_new_file_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let steps = ["CREATE TABLE a(x);", "ALTER TABLE a ADD COLUMN y;"];
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    open_write(&path, &steps).unwrap().execute("INSERT INTO a VALUES (1, 2)", [])
                });
            }
        });
        let count = open_read(&path, &steps).unwrap();
        let rows: i64 = count.query_row("SELECT count(*) FROM a", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 8);
    }

    /// Names and bytes of all files, but for the index of a log that this process has open: it
    /// shares the index with the look, which another process would not write to.
    fn content(folder: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let paths = paths.filter(|path| !path.ends_with("a b.db-shm"));
        paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    }

    #[test]
    fn a_look_changes_nothing_and_sees_what_is_in_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let [path, copy] = ["a b.db", "copy.db"].map(|name| folder.path().join(name));
        let steps = ["CREATE TABLE a(x);"];
        let rows = |c: &Connection| c.query_row("SELECT count(*) FROM a", [], |row| row.get(0));
        let look = |path: &Path| {
            let (before, mut count) = (content(folder.path()), None);
            let checked = check(path, &steps, |c| rows(c).map(|rows: i64| count = Some(rows)));
            assert!(content(folder.path()) == before, "{}", path.display());
            checked.map(|()| count)
        };
        assert_eq!(look(&path).unwrap(), None, "it would be made");
        let open = open_write(&path, &steps).unwrap();
        open.execute("INSERT INTO a VALUES (1)", []).unwrap();
        assert_eq!(look(&path).unwrap(), Some(1), "another has it open");
        // As a kill leaves it, with and without the index of the log.
        for suffix in ["", "-wal", "-shm"] {
            let beside = |path: &Path| format!("{}{suffix}", path.display());
            std::fs::copy(beside(&path), beside(&copy)).unwrap();
        }
        assert_eq!((look(&copy).unwrap(), is_blank(&copy).unwrap()), (Some(1), false));
        std::fs::remove_file(folder.path().join("copy.db-shm")).unwrap();
        assert_eq!((look(&copy).unwrap(), is_blank(&copy).unwrap()), (None, false));
        drop(open);
        assert_eq!(look(&path).unwrap(), Some(1), "closed");
        assert!(matches!(check(&path, &[], |_| Ok(())), Err(StoreError::Newer { .. })));
        std::fs::File::options().write(true).open(&path).unwrap().set_len(4_096).unwrap();
        let error = look(&path).unwrap_err();
        assert!(error.is_damage(), "{error}");
        std::fs::write(&path, [7; 4_096]).unwrap();
        assert!(look(&path).unwrap_err().is_damage());
    }

    #[test]
    fn migrates_forward_and_refuses_newer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let one = ["CREATE TABLE a(x);"];
        let two = ["CREATE TABLE a(x);", "ALTER TABLE a ADD COLUMN y;"];
        open_write(&path, &one).unwrap().execute("INSERT INTO a VALUES (1)", []).unwrap();
        let later = open_write(&path, &two).unwrap();
        assert_eq!(later.execute("UPDATE a SET y = 2", []).unwrap(), 1);
        let error = open_write(&path, &one).unwrap_err();
        assert!(matches!(error, StoreError::Newer { found: 2, known: 1, .. }), "{error}");
        assert!(!error.may_retry());
        assert!(open_read(&path, &one).is_err());
        assert!(open_read(&path, &two).unwrap().execute("DELETE FROM a", []).is_err());
    }
}
