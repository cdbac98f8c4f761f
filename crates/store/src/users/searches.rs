//! Saved searches of the message log: personal ones and shared ones.

use rusqlite::{Transaction, params};
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

/// Forgets the searches that nobody else sees of a user who goes, or who comes under the login of
/// one that went. Shared ones stay: administrators may forget them.
pub(super) fn forget_private(batch: &Transaction<'_>, login: &str) -> rusqlite::Result<()> {
    let sql = "DELETE FROM saved_search WHERE login = ?1 COLLATE NOCASE AND NOT shared";
    batch.execute(sql, [login]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::{Role, Scope, User, token_login};

    #[test]
    fn private_searches_go_with_their_owner_and_shared_ones_stay() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        let user = |login: &str| User {
            login: login.to_owned(),
            role: Role::Reviewer,
            folders: Vec::new(),
            addresses: Vec::new(),
            must_change: false,
            created_ms: 1,
        };
        let keep = |login: &str, name: &str, shared| {
            let (login, name) = (login.to_owned(), name.to_owned());
            let search = SavedSearch { login, name, query: "class=spam".to_owned(), shared };
            users.save_search(&search, 1).unwrap();
        };
        let names = |login: &str| -> Vec<String> {
            users.searches(login).unwrap().into_iter().map(|s| s.name).collect()
        };
        users.add(&user("ann"), "a long password", "test", 1).unwrap();
        keep("ann", "mine", false);
        keep("ann", "ours", true);
        keep("bob", "his", false);
        // One of a version that left them behind.
        keep("Eve", "old", false);
        users.remove("ann", "test", 2).unwrap();
        assert_eq!(
            (names("ann"), names("bob")),
            (vec!["ours".into()], vec!["his".into(), "ours".into()])
        );
        users.add(&user("eve"), "a long password", "test", 3).unwrap();
        assert_eq!((names("Eve"), names("eve")), (vec!["ours".into()], vec!["ours".into()]));
        // A token's are its own, too.
        let token = |now_ms| users.add_token("watch", &[Scope::MessagesRead], 9, "bob", now_ms);
        token(4).unwrap();
        keep(&token_login("watch"), "its", false);
        users.revoke_token("watch", "bob", 5).unwrap();
        assert_eq!(names(&token_login("watch")), ["ours"]);
    }

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
