//! Attempts to sign in as the user database keeps them, so that they count beyond a restart.

use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::params;
use serde::{Deserialize, Serialize};

use super::UserDatabase;
use super::attempts::{Key, Login, Network};
use crate::error::StoreError;

/// Rows that are kept at most: more than are held in memory, which what is written follows.
const ROWS_MAX: i64 = 100_000;

/// One counter of failures, or an address that is known for a login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptAttempt {
    /// What is counted: a kind, a hash of a login, the first bits of an address.
    pub what: Vec<u8>,
    /// Failures; none removes it.
    pub failures: u32,
    /// Unix time in milliseconds from which it counts.
    pub at_ms: i64,
}

/// Where attempts outlive the process.
pub(super) trait Keeper: std::fmt::Debug + Send + Sync {
    /// Everything that is kept, oldest first.
    fn attempts_kept(&self) -> Result<Vec<KeptAttempt>, StoreError>;
    /// Keeps these.
    fn keep_attempts(&self, changed: &[KeptAttempt]) -> Result<(), StoreError>;
}

impl UserDatabase {
    /// The attempts to sign in that were kept, oldest first; bounded.
    ///
    /// # Errors
    /// If the database cannot be read or written.
    pub fn attempts_kept(&self) -> Result<Vec<KeptAttempt>, StoreError> {
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
                Ok(KeptAttempt { what, failures, at_ms: row.get(2)? })
            })?;
            rows.collect()
        })
    }

    /// Keeps counters of attempts to sign in, and removes those without failures.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn keep_attempts(&self, changed: &[KeptAttempt]) -> Result<(), StoreError> {
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

impl Key {
    /// The kind's letter, then the login, then the address.
    pub(super) fn bytes(self) -> Vec<u8> {
        let (kind, login, network) = match self {
            Key::Near(network) => (b'n', None, Some(network)),
            Key::Wide(network) => (b'w', None, Some(network)),
            Key::LoginFrom(login, network) => (b'f', Some(login), Some(network)),
            Key::Login(login) => (b'l', Some(login), None),
            Key::Code(login) => (b'c', Some(login), None),
            Key::Known(login, network) => (b'k', Some(login), Some(network)),
        };
        let mut bytes = vec![kind];
        bytes.extend(login.into_iter().flatten());
        if let Some(network) = network {
            bytes.extend(network.bits.to_be_bytes());
            bytes.push(network.prefix);
        }
        bytes
    }

    /// What these bytes stand for; none if they are of another version.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let login = |bytes: &[u8]| Login::try_from(bytes).ok();
        let network = |bytes: &[u8]| {
            let (prefix, bits) = bytes.split_last()?;
            let bits = u128::from_be_bytes(bits.try_into().ok()?);
            Some(Network { bits, prefix: *prefix })
        };
        let both = || {
            let (first, second) = rest.split_at_checked(size_of::<Login>())?;
            Some((login(first)?, network(second)?))
        };
        Some(match kind {
            b'n' => Key::Near(network(rest)?),
            b'w' => Key::Wide(network(rest)?),
            b'f' => both().map(|(login, network)| Key::LoginFrom(login, network))?,
            b'l' => Key::Login(login(rest)?),
            b'c' => Key::Code(login(rest)?),
            b'k' => both().map(|(login, network)| Key::Known(login, network))?,
            _ => return None,
        })
    }
}

/// Unix time in milliseconds.
pub(super) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
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
    fn keys_are_read_as_they_were_written() {
        let (login, network) = ([7; 16], Network { bits: 5 << 100, prefix: 192 });
        for key in [
            Key::Near(network),
            Key::Wide(network),
            Key::LoginFrom(login, network),
            Key::Login(login),
            Key::Code(login),
            Key::Known(login, network),
        ] {
            assert_eq!(Key::of(&key.bytes()), Some(key));
            let bytes = key.bytes();
            assert_eq!(Key::of(&bytes[..bytes.len() - 1]), None, "{key:?}");
        }
        assert_eq!(Key::of(b""), None);
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
            // From many addresses, until the login as a whole has to pause.
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
            KeptAttempt { what, failures, at_ms: i64::from(n) }
        };
        let all: Vec<KeptAttempt> = (0..110_000).map(|n| row(n, 1)).collect();
        users.keep_attempts(&all).unwrap();
        let kept = users.attempts_kept().unwrap();
        assert_eq!(kept.len(), 100_000);
        assert_eq!((kept[0].at_ms, kept[99_999].at_ms), (10_000, 109_999), "the newest stay");
        users.keep_attempts(&[row(10_000, 0), row(109_999, 7)]).unwrap();
        let kept = users.attempts_kept().unwrap();
        assert_eq!((kept.len(), kept[0].at_ms, kept[99_998].failures), (99_999, 10_001, 7));
    }
}
