//! Persistence of the counters in the user database, so that they survive a restart.

use rusqlite::params;
use serde::{Deserialize, Serialize};

use super::super::UserDatabase;
use crate::error::StoreError;

/// Most rows: more than are in memory, since writing lags behind.
const ROWS_MAX: i64 = 100_000;

/// A stored counter of failures, or address that is known for a login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAttempt {
    /// The encoded key: a kind, a hash of a login, a network prefix.
    pub what: Vec<u8>,
    /// Number of failures; 0 deletes the row.
    pub failures: u32,
    /// Time from which it counts, in Unix milliseconds.
    pub at_ms: i64,
}

/// Storage of the counters.
pub(in crate::users) trait AttemptStore: std::fmt::Debug + Send + Sync {
    /// All stored counters, oldest first.
    fn load_attempts(&self) -> Result<Vec<StoredAttempt>, StoreError>;
    /// Stores these counters and deletes those without failures.
    fn save_attempts(&self, changed: &[StoredAttempt]) -> Result<(), StoreError>;
}

impl UserDatabase {
    /// The stored counters, oldest first, at most 100,000.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn load_attempts(&self) -> Result<Vec<StoredAttempt>, StoreError> {
        self.change(|batch| {
            batch.execute(
                "DELETE FROM attempt WHERE what NOT IN \
                 (SELECT what FROM attempt ORDER BY at_ms DESC LIMIT ?1)",
                [ROWS_MAX],
            )?;
            let sql = "SELECT what, failures, at_ms FROM attempt ORDER BY at_ms";
            let mut find = batch.prepare_cached(sql)?;
            let rows = find.query_map([], |row| {
                let (what, failures) = (row.get(0)?, row.get(1)?);
                Ok(StoredAttempt { what, failures, at_ms: row.get(2)? })
            })?;
            rows.collect()
        })
    }

    /// Stores counters, and deletes those without failures.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn save_attempts(&self, changed: &[StoredAttempt]) -> Result<(), StoreError> {
        self.change(|batch| {
            let mut keep = batch.prepare_cached(
                "INSERT INTO attempt (what, failures, at_ms) VALUES (?1, ?2, ?3) \
                 ON CONFLICT DO UPDATE SET failures = ?2, at_ms = ?3",
            )?;
            let mut remove = batch.prepare_cached("DELETE FROM attempt WHERE what = ?1")?;
            for row in changed {
                match row.failures {
                    0 => remove.execute([&row.what])?,
                    _ => keep.execute(params![row.what, row.failures, row.at_ms])?,
                };
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::users::Users;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn guesses_and_known_addresses_outlive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let (home, eve) = (ip("203.0.113.5"), ip("192.0.2.1"));
        {
            let users = Users::open(folder.path()).unwrap();
            users.attempts().begin(home, "ada").unwrap();
            users.attempts().succeeded(home, "ada");
            while users.attempts().begin(eve, "ada").is_ok() {}
            while users.attempts().begin_code("ada").is_ok() {}
            // From many addresses, until the login as a whole is delayed.
            let stranger = |n: u32| IpAddr::from((0x0b00_0000 + (n << 8)).to_be_bytes());
            assert!((0..50).any(|n| users.attempts().begin(stranger(n), "ada").is_err()));
        }
        let users = Users::open(folder.path()).unwrap();
        let attempts = users.attempts();
        assert!(attempts.begin(eve, "ada").is_err(), "guessing goes on where it was");
        assert!(attempts.begin(ip("198.51.100.9"), "ada").is_err(), "from elsewhere, too");
        assert!(attempts.begin_code("ada").is_err());
        assert!(attempts.begin(home, "ada").is_ok(), "the owner still comes in from home");
        attempts.succeeded(home, "ada");
        attempts.code_succeeded("ada");
        drop(users);
        let users = Users::open(folder.path()).unwrap();
        assert!(users.attempts().begin_code("ada").is_ok(), "what was forgotten stays so");
    }

    #[test]
    fn rows_are_bounded_and_follow_what_counts() {
        let folder = tempfile::tempdir().unwrap();
        let users = UserDatabase::open(folder.path()).unwrap();
        let row = |n: u32, failures| {
            let what = [b"l", &u128::from(n).to_be_bytes()[..]].concat();
            StoredAttempt { what, failures, at_ms: i64::from(n) }
        };
        let all: Vec<StoredAttempt> = (0..110_000).map(|n| row(n, 1)).collect();
        users.save_attempts(&all).unwrap();
        let kept = users.load_attempts().unwrap();
        assert_eq!(kept.len(), 100_000);
        assert_eq!((kept[0].at_ms, kept[99_999].at_ms), (10_000, 109_999), "the newest stay");
        users.save_attempts(&[row(10_000, 0), row(109_999, 7)]).unwrap();
        let kept = users.load_attempts().unwrap();
        assert_eq!((kept.len(), kept[0].at_ms, kept[99_998].failures), (99_999, 10_001, 7));
    }
}
