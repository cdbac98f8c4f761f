//! Sender history with exponential decay, and greylisting.
//!
//! One SQLite file in the data folder. A sender is a key such as `n 192.0.2.0/24`, `d example.org`
//! or `k example.org` (a DKIM identity). Counts halve every [`HALF_LIFE_DAYS`]. Changes are
//! collected in memory and written together; a crash loses at most [`UNWRITTEN_MAX`] of them, which
//! no decision depends on.
//!
//! In an array, what other nodes counted stands beside, by node, and is added when it is looked up
//! ([`sharing`]).

mod greylist;
mod notes;
pub mod sharing;

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gauntlet_mail::date::DAY_SECONDS;
use rusqlite::{Connection, params};

use crate::database;
use crate::error::StoreError;
use crate::sharing::SharedKind;
use greylist::{WaitingRows, count_waiting};

pub use greylist::{GreylistDecision, GreylistRules};

/// Half-life of counts, in days.
pub const HALF_LIFE_DAYS: f64 = 30.0;
/// Changed senders kept in memory before they are written.
const UNWRITTEN_MAX: usize = 500;
/// Most senders kept; beyond, the least recently seen are removed.
const SENDERS_MAX: i64 = 2_000_000;
/// Days without a message after which a sender is removed.
const FORGET_DAYS: i64 = 365;
/// Longest key, in bytes.
const KEY_BYTES_MAX: usize = 300;

pub(crate) const MIGRATIONS: [&str; 2] = [
    "CREATE TABLE sender (key TEXT PRIMARY KEY, first_s INTEGER NOT NULL, last_s INTEGER NOT NULL, \
         ham REAL NOT NULL, spam REAL NOT NULL) WITHOUT ROWID;
     CREATE INDEX sender_by_last ON sender (last_s);
     CREATE TABLE waiting (key BLOB PRIMARY KEY, first_s INTEGER NOT NULL, last_s INTEGER NOT NULL, \
         passed INTEGER NOT NULL) WITHOUT ROWID;
     CREATE INDEX waiting_by_last ON waiting (last_s);",
    sharing::TABLES,
];

/// Message counts of one sender.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SenderHistory {
    /// Unix time in seconds of the first message.
    pub first_s: i64,
    /// Unix time in seconds of the last message.
    pub last_s: i64,
    /// Messages that were ham; halves every 30 days.
    pub ham: f64,
    /// Messages that were spam; halves every 30 days.
    pub spam: f64,
}

impl SenderHistory {
    /// Messages of both kinds, halved every 30 days.
    pub fn volume(&self) -> f64 {
        self.ham + self.spam
    }

    /// Share of spam, 0 to 1.
    pub fn spam_share(&self) -> f64 {
        if self.volume() > 0.0 { self.spam / self.volume() } else { 0.0 }
    }

    /// The same, decayed to a later time.
    fn at(mut self, now_s: i64) -> Self {
        let days = (now_s - self.last_s).max(0) as f64 / DAY_SECONDS as f64;
        let factor = 0.5_f64.powf(days / HALF_LIFE_DAYS);
        self.ham *= factor;
        self.spam *= factor;
        self
    }

    /// The sum of two that are decayed to the same time.
    fn plus(self, other: Self) -> Self {
        SenderHistory {
            first_s: self.first_s.min(other.first_s),
            last_s: self.last_s.max(other.last_s),
            ham: self.ham + other.ham,
            spam: self.spam + other.spam,
        }
    }

    fn record(&mut self, spam: bool, now_s: i64) {
        *self = self.at(now_s);
        self.last_s = self.last_s.max(now_s);
        match spam {
            true => self.spam += 1.0,
            false => self.ham += 1.0,
        }
    }
}

/// Sender history and greylist of a node. Share it as `Arc<History>`.
#[derive(Debug)]
pub struct History {
    database: Mutex<Connection>,
    /// Senders that changed since the last write.
    unwritten: Mutex<HashMap<String, SenderHistory>>,
    waiting: Mutex<WaitingRows>,
    /// Kinds whose changes are noted for other nodes, as bits.
    shares: AtomicU8,
    /// There is something that other nodes counted.
    has_elsewhere: AtomicBool,
    /// The rules of greylisting that were in force last.
    rules: Mutex<GreylistRules>,
}

impl History {
    /// Opens or creates `history.db` in a folder.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join("history.db");
        let database = database::open_write(&path, &MIGRATIONS)?;
        // Losing a count in a power failure is harmless; a sync per batch would be expensive.
        database.execute_batch("PRAGMA synchronous = NORMAL;").map_err(StoreError::db(&path))?;
        let count = count_waiting(&database).map_err(StoreError::db(&path))?;
        let waiting = Mutex::new(WaitingRows { count, ..WaitingRows::default() });
        let (shares, has_elsewhere) =
            sharing::state_of(&database).map_err(StoreError::db(&path))?;
        Ok(History {
            database: Mutex::new(database),
            unwritten: Mutex::default(),
            waiting,
            shares: AtomicU8::new(shares),
            has_elsewhere: AtomicBool::new(has_elsewhere),
            rules: Mutex::default(),
        })
    }

    /// Refuses a folder that [`History::open`] would refuse. Changes nothing.
    ///
    /// # Errors
    /// As [`History::open`].
    pub fn check(folder: &Path) -> Result<(), StoreError> {
        database::check(&folder.join("history.db"), &MIGRATIONS, |c| {
            count_waiting(c).and_then(|_| sharing::state_of(c)).map(drop)
        })
    }

    fn database(&self) -> MutexGuard<'_, Connection> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unwritten(&self) -> MutexGuard<'_, HashMap<String, SenderHistory>> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The history of a sender, decayed to this time; in an array the sum over its nodes.
    pub fn lookup(&self, key: &str, now_s: i64) -> Option<SenderHistory> {
        let own = self.unwritten().get(key).copied();
        if own.is_some() && !self.has_elsewhere.load(Ordering::Relaxed) {
            return own.map(|known| known.at(now_s));
        }
        let database = self.database();
        let own = own.or_else(|| read(&database, key));
        let all = own.into_iter().chain(self.elsewhere(&database, key));
        all.map(|known| known.at(now_s)).reduce(SenderHistory::plus)
    }

    /// Counts a message for these senders.
    pub fn record(&self, keys: &[String], spam: bool, now_s: i64) {
        let mut full = false;
        for key in keys.iter().filter(|key| key.len() <= KEY_BYTES_MAX) {
            let mut unwritten = self.unwritten();
            if !unwritten.contains_key(key) {
                drop(unwritten);
                let empty = SenderHistory { first_s: now_s, last_s: now_s, ham: 0.0, spam: 0.0 };
                let known = read(&self.database(), key).unwrap_or(empty);
                unwritten = self.unwritten();
                unwritten.entry(key.clone()).or_insert(known);
            }
            if let Some(known) = unwritten.get_mut(key) {
                known.record(spam, now_s);
            }
            full |= unwritten.len() >= UNWRITTEN_MAX;
        }
        if full {
            // A failed write stays in memory and is retried.
            let _tried_again_later = self.write(now_s);
        }
    }

    /// Remembers that somebody here wrote to these addresses, or released mail of theirs.
    pub fn know(&self, addresses: &[String], now_s: i64) {
        let keys: Vec<String> = addresses.iter().map(|a| correspondent_key(a)).collect();
        self.record(&keys, false, now_s);
    }

    /// Days since somebody here last wrote to this address, or released mail of theirs; none if
    /// nobody did.
    pub fn known_days(&self, address: &str, now_s: i64) -> Option<u32> {
        let key = correspondent_key(address);
        let last_s = self.lookup(&key, now_s)?.last_s;
        u32::try_from((now_s - last_s).max(0) / DAY_SECONDS).ok()
    }

    /// Writes what changed, and removes senders not seen for long.
    ///
    /// # Errors
    /// If the file cannot be written; the changes stay in memory.
    pub fn write(&self, now_s: i64) -> Result<(), rusqlite::Error> {
        let unwritten: Vec<(String, SenderHistory)> =
            self.unwritten().iter().map(|(key, known)| (key.clone(), *known)).collect();
        let mut database = self.database();
        let batch = database.transaction()?;
        {
            let mut upsert = batch.prepare_cached(
                "INSERT INTO sender (key, first_s, last_s, ham, spam) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT DO UPDATE SET last_s = excluded.last_s, ham = excluded.ham, \
                 spam = excluded.spam",
            )?;
            for (key, known) in &unwritten {
                upsert.execute(params![key, known.first_s, known.last_s, known.ham, known.spam])?;
            }
            if self.is_shared(SharedKind::Senders) {
                for (key, _) in &unwritten {
                    notes::note(&batch, SharedKind::Senders, key.as_bytes())?;
                }
                notes::bound(&batch)?;
            }
        }
        let before = now_s - FORGET_DAYS * DAY_SECONDS;
        batch.execute("DELETE FROM sender WHERE last_s < ?1", [before])?;
        let count: i64 = batch.query_row("SELECT count(*) FROM sender", [], |row| row.get(0))?;
        if count > SENDERS_MAX {
            batch.execute(
                "DELETE FROM sender WHERE key IN (SELECT key FROM sender ORDER BY last_s LIMIT ?1)",
                [count - SENDERS_MAX],
            )?;
        }
        batch.commit()?;
        drop(database);
        let mut left = self.unwritten();
        for (key, written) in unwritten {
            // Changed again meanwhile: written next time.
            if left.get(&key) == Some(&written) {
                left.remove(&key);
            }
        }
        Ok(())
    }
}

fn read(database: &Connection, key: &str) -> Option<SenderHistory> {
    let mut select = database
        .prepare_cached("SELECT first_s, last_s, ham, spam FROM sender WHERE key = ?1")
        .ok()?;
    let row = select.query_row([key], |row| {
        let (first_s, last_s) = (row.get(0)?, row.get(1)?);
        Ok(SenderHistory { first_s, last_s, ham: row.get(2)?, spam: row.get(3)? })
    });
    row.ok()
}

/// The key of an address that somebody here knows.
fn correspondent_key(address: &str) -> String {
    format!("w {}", address.trim().to_lowercase())
}

/// The key of a client's network: /24 of IPv4, /64 of IPv6.
pub fn network_key(client: IpAddr) -> String {
    match client.to_canonical() {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            format!("n {a}.{b}.{c}.0/24")
        }
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            format!("n {a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
    }
}

#[cfg(test)]
mod tests;
