//! Senders that users allowed or blocked in the console, for the whole node.

use rusqlite::params;
use serde::{Deserialize, Serialize};

use super::UserDatabase;
use super::audit::audit;
use crate::error::StoreError;

const SENDERS_MAX: u64 = 10_000;

/// An entry of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedSender {
    /// Address, domain or network, in lower case.
    pub entry: String,
    /// Whether it is allowed; else it is blocked.
    pub allow: bool,
    /// Login of the user who listed it.
    pub who: String,
    /// Time of the last change, in Unix milliseconds.
    pub at_ms: i64,
}

impl UserDatabase {
    /// Allows or blocks a sender, or changes an existing entry. Whether `entry` is an address,
    /// domain or network is up to the caller.
    ///
    /// # Errors
    /// If the list is full, or it could not be made durable.
    pub fn list_sender(
        &self,
        entry: &str,
        allow: bool,
        who: &str,
        now_ms: i64,
    ) -> Result<(), StoreError> {
        let entry = entry.trim().to_lowercase();
        let done = self.change(|batch| {
            let count: i64 = batch.query_row(
                "SELECT count(*) FROM sender WHERE entry <> ?1",
                [&entry],
                |row| row.get(0),
            )?;
            if count.cast_unsigned() >= SENDERS_MAX {
                return Ok(false);
            }
            batch.execute(
                "INSERT INTO sender (entry, allow, who, at_ms) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT DO UPDATE SET allow = ?2, who = ?3, at_ms = ?4",
                params![entry, allow, who, now_ms],
            )?;
            let action = if allow { "allow sender" } else { "block sender" };
            audit(batch, now_ms, who, action, &entry, "")?;
            Ok(true)
        })?;
        let hint = "remove senders that are not needed any more";
        let what = "the list of senders".to_owned();
        if done { Ok(()) } else { Err(StoreError::Full { what, limit: SENDERS_MAX, hint }) }
    }

    /// Removes a sender from the list. False if it was not on it.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn unlist_sender(&self, entry: &str, who: &str, now_ms: i64) -> Result<bool, StoreError> {
        let entry = entry.trim().to_lowercase();
        self.change(|batch| {
            let gone = batch.execute("DELETE FROM sender WHERE entry = ?1", [&entry])? > 0;
            if gone {
                audit(batch, now_ms, who, "unlist sender", &entry, "")?;
            }
            Ok(gone)
        })
    }

    /// All entries, sorted.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn listed_senders(&self) -> Result<Vec<ListedSender>, StoreError> {
        self.read(|c| {
            let mut all =
                c.prepare_cached("SELECT entry, allow, who, at_ms FROM sender ORDER BY entry")?;
            let lines = all.query_map([], |row| {
                Ok(ListedSender {
                    entry: row.get(0)?,
                    allow: row.get(1)?,
                    who: row.get(2)?,
                    at_ms: row.get(3)?,
                })
            })?;
            lines.collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_listed_once_and_leave() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        users.list_sender(" Ann@Example.org ", true, "ada", 1).unwrap();
        users.list_sender("ann@example.org", false, "bob", 2).unwrap();
        let all = users.listed_senders().unwrap();
        let entry = "ann@example.org".to_owned();
        assert_eq!(all, [ListedSender { entry, allow: false, who: "bob".to_owned(), at_ms: 2 }]);
        assert!(users.unlist_sender("ANN@example.org", "ada", 3).unwrap());
        assert!(!users.unlist_sender("ann@example.org", "ada", 4).unwrap());
        assert_eq!(users.audit_log(9).unwrap().len(), 3);
    }
}
