//! Recipients in an external SQLite file, by a configured query.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::error::StoreError;

/// How long to wait for a lock of the file's writer.
const BUSY_WAIT: Duration = Duration::from_secs(2);
/// Most rows of a result.
const ROWS_MAX: usize = 5_000_000;

/// A recipient table. Share it as `Arc<Table>`.
#[derive(Debug)]
pub struct Table {
    path: PathBuf,
    query: String,
    database: Mutex<Connection>,
}

impl Table {
    /// Opens the file for reading. The query has one parameter, the address in lower case, and
    /// returns a row if there is such a recipient, as `SELECT 1 FROM users WHERE mail = ?1`.
    ///
    /// # Errors
    /// If the file cannot be opened, or the query is not valid for it.
    pub fn open(path: &Path, query: &str) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(path, flags).map_err(StoreError::db(path))?;
        database.busy_timeout(BUSY_WAIT).map_err(StoreError::db(path))?;
        let parameters = {
            let statement = database.prepare(query).map_err(StoreError::db(path))?;
            statement.parameter_count()
        };
        if parameters != 1 {
            let cause = format!("{query:?} has {parameters} parameters; it needs one, ?1");
            return Err(StoreError::Invalid { what: "query", cause });
        }
        let database = Mutex::new(database);
        Ok(Table { path: path.to_owned(), query: query.to_owned(), database })
    }

    /// Whether there is such a recipient. Blocks.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn contains(&self, address: &str) -> Result<bool, StoreError> {
        let database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement =
            database.prepare_cached(&self.query).map_err(StoreError::db(&self.path))?;
        statement.exists([address]).map_err(StoreError::db(&self.path))
    }
}

/// The first column of all rows of a query in an external SQLite file, as text: e.g. the members of
/// a group.
///
/// # Errors
/// If the file cannot be opened or read, or the query is not valid for it.
pub fn first_column(path: &Path, query: &str) -> Result<Vec<String>, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let database = Connection::open_with_flags(path, flags).map_err(StoreError::db(path))?;
    database.busy_timeout(BUSY_WAIT).map_err(StoreError::db(path))?;
    let read = || -> rusqlite::Result<Vec<String>> {
        let mut statement = database.prepare(query)?;
        let rows = statement.query_map([], |row| row.get::<_, Option<String>>(0))?;
        let found: rusqlite::Result<Vec<Option<String>>> = rows.take(ROWS_MAX).collect();
        Ok(found?.into_iter().flatten().collect())
    };
    read().map_err(StoreError::db(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn their_query_decides() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.db");
        let theirs = Connection::open(&path).unwrap();
        theirs
            .execute_batch(
                "CREATE TABLE users (mail TEXT, off INTEGER);
                 INSERT INTO users VALUES ('bob@b.example', 0), ('old@b.example', 1);",
            )
            .unwrap();
        let query = "SELECT 1 FROM users WHERE mail = ?1 AND off = 0";
        let table = Table::open(&path, query).unwrap();
        assert!(table.contains("bob@b.example").unwrap());
        assert!(!table.contains("old@b.example").unwrap());
        assert!(!table.contains("'; DROP TABLE users; --").unwrap());
        theirs.execute_batch("INSERT INTO users VALUES ('new@b.example', 0)").unwrap();
        assert!(table.contains("new@b.example").unwrap(), "changes count at once");
        for (query, why) in [("SELECT 1", "0 parameters"), ("SELECT other FROM x", "no such")] {
            let error = Table::open(&path, query).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(Table::open(&folder.path().join("none.db"), query).is_err());
    }
}
