//! Versions of the policy: every text that was in force, with author and time.
//!
//! The newest version is the one in force. A rollback makes a new version with the old text, so no
//! version is ever lost and a rollback can be undone. Several processes may open the same folder
//! (the node, the command line).

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

use crate::database;
use crate::error::StoreError;

/// Longest text of a policy, in bytes.
pub const POLICY_BYTES_MAX: usize = 512 << 10;
/// Longest note, in characters.
const NOTE_CHARS_MAX: usize = 200;
/// Most versions listed at once.
const LISTED_MAX: usize = 500;

pub(crate) const MIGRATIONS: &[&str] = &["
CREATE TABLE version (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms  INTEGER NOT NULL,
    who    TEXT NOT NULL,
    note   TEXT NOT NULL,
    text   TEXT NOT NULL
);
"];

/// A version, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Version {
    /// Counts from 1; never reused.
    pub number: i64,
    /// Unix time in milliseconds at which it came into force.
    pub at_ms: i64,
    /// Author: a login, `command line`, or the origin (`file`, `gauntlet`).
    pub who: String,
    /// Why the author saved this version; may be empty.
    pub note: String,
    /// Bytes of its text.
    pub size: u64,
}

/// A version with its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Edition {
    /// Number, time and author of the version.
    #[serde(flatten)]
    pub version: Version,
    /// The policy as written.
    pub text: String,
}

/// What [`Policies::save`] did with the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Saved {
    /// It is the newest version now.
    New(Version),
    /// It is the text in force already.
    Same(Version),
    /// A newer version than `base` exists, which is this one.
    Stale(Version),
}

/// The versions of a node's policy.
#[derive(Debug)]
pub struct Policies {
    path: PathBuf,
    database: Mutex<Connection>,
}

impl Policies {
    /// Opens or creates `policies.db` in this folder.
    ///
    /// # Errors
    /// If the folder cannot be used, or the database is damaged or newer than this program.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        crate::files::create_folder(folder).map_err(StoreError::io(folder, "create"))?;
        let path = folder.join("policies.db");
        let database = database::open_write(&path, MIGRATIONS)?;
        Ok(Policies { path, database: Mutex::new(database) })
    }

    /// Refuses a folder that [`Policies::open`] would refuse. Changes nothing.
    ///
    /// # Errors
    /// As [`Policies::open`].
    pub fn check(folder: &Path) -> Result<(), StoreError> {
        database::check(&folder.join("policies.db"), MIGRATIONS, |c| newest(c).map(drop))
    }

    /// Makes this text the newest version, unless it is in force already, or (with `base`) the
    /// newest version is not the one that the author edited. Whether it is a valid policy is up to
    /// the caller.
    ///
    /// # Errors
    /// If the text is too long, or the change could not be made durable.
    pub fn save(
        &self,
        text: &str,
        base: Option<i64>,
        who: &str,
        note: &str,
        now_ms: i64,
    ) -> Result<Saved, StoreError> {
        if text.len() > POLICY_BYTES_MAX {
            let cause = format!("{} bytes, at most {POLICY_BYTES_MAX}", text.len());
            return Err(StoreError::Invalid { what: "policy", cause });
        }
        let note: String = note.trim().chars().take(NOTE_CHARS_MAX).collect();
        let note = note.replace(char::is_control, " ");
        let mut database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let mut run = || {
            let batch =
                database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            if let Some(newest) = newest(&batch)? {
                if newest.text == text {
                    return Ok(Saved::Same(newest.version));
                }
                if base.is_some_and(|base| base != newest.version.number) {
                    return Ok(Saved::Stale(newest.version));
                }
            }
            batch.execute(
                "INSERT INTO version (at_ms, who, note, text) VALUES (?1, ?2, ?3, ?4)",
                params![now_ms, who, note, text],
            )?;
            let number = batch.last_insert_rowid();
            batch.commit()?;
            let size = text.len() as u64;
            let (who, note) = (who.to_owned(), note.clone());
            Ok(Saved::New(Version { number, at_ms: now_ms, who, note, size }))
        };
        run().map_err(StoreError::db(&self.path))
    }

    /// The version of this number.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn get(&self, number: i64) -> Result<Option<Edition>, StoreError> {
        self.read(|c| find(c, "WHERE number = ?1", [number]))
    }

    /// The newest version; none if the policy was never changed.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn newest(&self) -> Result<Option<Edition>, StoreError> {
        self.read(newest)
    }

    /// The version that was in force before this one.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn before(&self, number: i64) -> Result<Option<Edition>, StoreError> {
        self.read(|c| find(c, "WHERE number < ?1 ORDER BY number DESC LIMIT 1", [number]))
    }

    /// The newest versions, newest first; those before `before`, if it is given.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn list(&self, before: Option<i64>, limit: usize) -> Result<Vec<Version>, StoreError> {
        self.read(|c| {
            let mut all = c.prepare_cached(
                "SELECT number, at_ms, who, note, length(CAST(text AS BLOB)) FROM version \
                 WHERE number < ?1 ORDER BY number DESC LIMIT ?2",
            )?;
            let limit = limit.min(LISTED_MAX) as i64;
            all.query_map(params![before.unwrap_or(i64::MAX), limit], version)?.collect()
        })
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        read(&database).map_err(StoreError::db(&self.path))
    }
}

fn newest(connection: &Connection) -> rusqlite::Result<Option<Edition>> {
    find(connection, "ORDER BY number DESC LIMIT 1", [])
}

fn find(
    connection: &Connection,
    which: &str,
    values: impl rusqlite::Params,
) -> rusqlite::Result<Option<Edition>> {
    let sql = format!(
        "SELECT number, at_ms, who, note, length(CAST(text AS BLOB)), text FROM version {which}"
    );
    let edition = |row: &Row<'_>| Ok(Edition { version: version(row)?, text: row.get(5)? });
    connection.prepare_cached(&sql)?.query_row(values, edition).optional()
}

fn version(row: &Row<'_>) -> rusqlite::Result<Version> {
    Ok(Version {
        number: row.get(0)?,
        at_ms: row.get(1)?,
        who: row.get(2)?,
        note: row.get(3)?,
        size: u64::try_from(row.get::<_, i64>(4)?).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_kept_and_no_author_overwrites_another() {
        let folder = tempfile::tempdir().unwrap();
        let policies = Policies::open(folder.path()).unwrap();
        assert_eq!(policies.newest().unwrap(), None);
        let save = |text: &str, base, who: &str| policies.save(text, base, who, "why\n", 7);
        let Saved::New(first) = save("a", None, "ada").unwrap() else { panic!() };
        assert_eq!((first.number, first.note.as_str(), first.size), (1, "why", 1));
        assert_eq!(save("a", Some(9), "bob").unwrap(), Saved::Same(first.clone()));
        let Saved::New(second) = save("ä", Some(1), "bob").unwrap() else { panic!() };
        assert_eq!((second.number, second.size), (2, 2));
        assert_eq!(save("c", Some(1), "ada").unwrap(), Saved::Stale(second.clone()));
        assert_eq!(policies.newest().unwrap().unwrap().version, second);
        assert_eq!(policies.before(2).unwrap().unwrap().text, "a");
        assert_eq!(policies.get(3).unwrap(), None);
        // A second process, like the command line.
        let other = Policies::open(folder.path()).unwrap();
        let Saved::New(third) = other.save("a", None, "command line", "", 8).unwrap() else {
            panic!()
        };
        assert_eq!(policies.list(None, 9).unwrap(), [third, second.clone(), first]);
        assert_eq!(policies.list(Some(3), 1).unwrap(), [second]);
        assert!(policies.save(&"x".repeat(POLICY_BYTES_MAX + 1), None, "ada", "", 9).is_err());
    }
}
