//! Saved searches of the message log: personal ones and shared ones.

use rusqlite::params;
use serde::{Deserialize, Serialize};

use super::UserDatabase;
use super::audit::audit;
use crate::error::StoreError;

/// Most saved searches of one user.
pub const SEARCHES_MAX: u64 = 100;
/// Longest name, in characters.
const NAME_CHARS_MAX: usize = 60;
/// Longest query, in bytes.
const QUERY_BYTES_MAX: usize = 4_000;

/// A query of the message log that a user keeps by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSearch {
    /// Login of the owner.
    pub login: String,
    /// Name of the search; unique for its owner.
    pub name: String,
    /// The query string of the page: `class=spam&sender=%40example.org`.
    pub query: String,
    /// Whether other users see it, too.
    pub shared: bool,
}

impl UserDatabase {
    /// Saves a search, or replaces the one of the same name.
    ///
    /// # Errors
    /// If name or query are invalid, the user has too many, or it could not be made durable.
    pub fn save_search(&self, search: &SavedSearch, now_ms: i64) -> Result<(), StoreError> {
        let SavedSearch { login, name, query, shared } = search;
        let name_fits = !name.trim().is_empty()
            && name.chars().count() <= NAME_CHARS_MAX
            && !name.chars().any(char::is_control);
        if !name_fits {
            let cause = format!("{name:?} is not 1 to {NAME_CHARS_MAX} visible characters");
            return Err(StoreError::Invalid { what: "name", cause });
        }
        if query.is_empty() || query.len() > QUERY_BYTES_MAX {
            let cause = format!("a search is 1 to {QUERY_BYTES_MAX} bytes; fill in a field first");
            return Err(StoreError::Invalid { what: "search", cause });
        }
        let done = self.change(|batch| {
            let count: i64 = batch.query_row(
                "SELECT count(*) FROM saved_search WHERE login = ?1 AND name <> ?2",
                [login, name],
                |row| row.get(0),
            )?;
            if count.cast_unsigned() >= SEARCHES_MAX {
                return Ok(false);
            }
            batch.execute(
                "INSERT INTO saved_search (login, name, query, shared) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT DO UPDATE SET query = ?3, shared = ?4",
                params![login, name, query, shared],
            )?;
            audit(batch, now_ms, login, "save search", name, query)?;
            Ok(true)
        })?;
        let what = "your list of searches".to_owned();
        let hint = "remove searches that are not needed any more";
        if done { Ok(()) } else { Err(StoreError::Full { what, limit: SEARCHES_MAX, hint }) }
    }

    /// Deletes a search; false if there is none of this name.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn remove_search(&self, login: &str, name: &str) -> Result<bool, StoreError> {
        self.change(|batch| {
            let sql = "DELETE FROM saved_search WHERE login = ?1 AND name = ?2";
            Ok(batch.execute(sql, [login, name])? > 0)
        })
    }

    /// The searches that a user sees: their own by name, then those that others share.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn searches(&self, login: &str) -> Result<Vec<SavedSearch>, StoreError> {
        self.read(|c| {
            let mut find = c.prepare_cached(
                "SELECT login, name, query, shared FROM saved_search \
                 WHERE login = ?1 OR shared ORDER BY login <> ?1, name, login",
            )?;
            let rows = find.query_map([login], |row| {
                Ok(SavedSearch {
                    login: row.get(0)?,
                    name: row.get(1)?,
                    query: row.get(2)?,
                    shared: row.get(3)?,
                })
            })?;
            rows.collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_are_their_owners_unless_shared() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        let search = |login: &str, name: &str, query: &str, shared| SavedSearch {
            login: login.to_owned(),
            name: name.to_owned(),
            query: query.to_owned(),
            shared,
        };
        users.save_search(&search("ada", "spam of today", "class=spam", false), 1).unwrap();
        users.save_search(&search("bob", "bills", "subject=invoice", true), 1).unwrap();
        users.save_search(&search("ada", "spam of today", "class=phishing", false), 2).unwrap();
        let seen = users.searches("ada").unwrap();
        let seen: Vec<&str> = seen.iter().map(|s| s.query.as_str()).collect();
        assert_eq!(seen, ["class=phishing", "subject=invoice"]);
        assert_eq!(users.searches("bob").unwrap().len(), 1);
        assert!(!users.remove_search("ada", "bills").unwrap(), "not hers");
        assert!(users.remove_search("bob", "bills").unwrap());
        for (name, query) in [("", "a=b"), ("x\n", "a=b"), ("x", "")] {
            assert!(users.save_search(&search("ada", name, query, false), 1).is_err(), "{name:?}");
        }
    }
}
