//! What is remembered of senders, and who is kept waiting: history with decay, and greylisting.
//!
//! One SQLite file in the data folder. A sender is a key such as `n 192.0.2.0/24`, `d example.org` or
//! `k example.org` (a DKIM identity). Volumes halve every [`HALF_LIFE_DAYS`]. What is seen is gathered
//! in memory and written together; at most [`WRITE_AFTER`] sightings are lost with a crash, which no
//! decision hangs on.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, params};

use crate::database;
use crate::error::StoreError;

/// Days after which a sighting counts half.
pub const HALF_LIFE_DAYS: f64 = 30.0;
/// Sightings held in memory before they are written.
const WRITE_AFTER: usize = 500;
/// Senders remembered; beyond, those not seen for longest go.
const SENDERS_MAX: i64 = 2_000_000;
/// Days without a sighting after which a sender is forgotten.
const FORGET_DAYS: i64 = 365;
/// Longest key, in bytes.
const KEY_BYTES_MAX: usize = 300;
/// Networks whose new greylist rows are counted within an hour; beyond, counting begins anew.
const NETWORKS_COUNTED_MAX: usize = 100_000;

const MIGRATIONS: [&str; 1] = [
    "CREATE TABLE sender (key TEXT PRIMARY KEY, first_s INTEGER NOT NULL, last_s INTEGER NOT NULL, \
         ham REAL NOT NULL, spam REAL NOT NULL) WITHOUT ROWID;
     CREATE INDEX sender_by_last ON sender (last_s);
     CREATE TABLE waiting (key BLOB PRIMARY KEY, first_s INTEGER NOT NULL, last_s INTEGER NOT NULL, \
         passed INTEGER NOT NULL) WITHOUT ROWID;
     CREATE INDEX waiting_by_last ON waiting (last_s);",
];

/// What is remembered of a sender.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Known {
    /// Unix time in seconds of the first message.
    pub first_s: i64,
    /// Unix time in seconds of the last message.
    pub last_s: i64,
    /// Messages that were not spam, decayed.
    pub ham: f64,
    /// Messages that were spam, decayed.
    pub spam: f64,
}

impl Known {
    /// Messages, decayed.
    pub fn volume(&self) -> f64 {
        self.ham + self.spam
    }

    /// Share of spam, 0 to 1.
    pub fn spam_share(&self) -> f64 {
        if self.volume() > 0.0 { self.spam / self.volume() } else { 0.0 }
    }

    /// The same as it stands at another time.
    fn at(mut self, now_s: i64) -> Self {
        let days = (now_s - self.last_s).max(0) as f64 / 86_400.0;
        let factor = 0.5_f64.powf(days / HALF_LIFE_DAYS);
        self.ham *= factor;
        self.spam *= factor;
        self
    }

    fn see(&mut self, spam: bool, now_s: i64) {
        *self = self.at(now_s);
        self.last_s = self.last_s.max(now_s);
        match spam {
            true => self.spam += 1.0,
            false => self.ham += 1.0,
        }
    }
}

/// Whether a client may deliver now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greylisted {
    /// It may.
    Pass,
    /// It may after so many seconds; the answer is 451.
    Wait {
        /// Seconds until a new attempt passes.
        seconds: u32,
    },
}

/// How greylisting works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GreylistRules {
    /// Seconds that an unknown client waits.
    pub wait_seconds: u32,
    /// Seconds within which it must come again.
    pub window_seconds: u32,
    /// Seconds for which a client that came again passes at once.
    pub pass_seconds: u32,
    /// Rows kept in all; beyond, those that wait longest in vain go, then those not seen for longest.
    pub rows_max: u32,
    /// New rows an hour of one network (/24, /64); further ones wait without being written down.
    pub rows_per_network_per_hour_max: u32,
}

impl Default for GreylistRules {
    fn default() -> Self {
        let day = 86_400;
        GreylistRules {
            wait_seconds: 300,
            window_seconds: 2 * day,
            pass_seconds: 36 * day,
            rows_max: 1_000_000,
            rows_per_network_per_hour_max: 1_000,
        }
    }
}

/// The memory of senders. Share it as `Arc<History>`.
#[derive(Debug)]
pub struct History {
    database: Mutex<Connection>,
    /// Senders that were seen since the last write.
    fresh: Mutex<HashMap<String, Known>>,
    waiting: Mutex<WaitingRows>,
}

/// How many rows the greylist has, and who added them of late.
#[derive(Debug, Default)]
struct WaitingRows {
    /// Rows of the table, so that an insertion need not count them.
    count: u32,
    /// The hour that `by_network` is about, in hours since 1970.
    hour: i64,
    by_network: HashMap<String, u32>,
}

impl WaitingRows {
    /// One more row of this network is within its share of the hour.
    fn admit(&mut self, network: &str, rules: &GreylistRules, now_s: i64) -> bool {
        let hour = now_s.div_euclid(3_600);
        if hour != self.hour || self.by_network.len() >= NETWORKS_COUNTED_MAX {
            (self.hour, self.by_network) = (hour, HashMap::new());
        }
        let count = self.by_network.entry(network.to_owned()).or_default();
        *count = count.saturating_add(1);
        *count <= rules.rows_per_network_per_hour_max
    }
}

impl History {
    /// Opens or makes `history.db` in a folder.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join("history.db");
        let database = database::open_write(&path, &MIGRATIONS)?;
        // A sighting lost with the machine is no harm, a sync a batch would be.
        database.execute_batch("PRAGMA synchronous = NORMAL;").map_err(StoreError::db(&path))?;
        let count = count_waiting(&database).map_err(StoreError::db(&path))?;
        let waiting = Mutex::new(WaitingRows { count, ..WaitingRows::default() });
        Ok(History { database: Mutex::new(database), fresh: Mutex::default(), waiting })
    }

    fn database(&self) -> MutexGuard<'_, Connection> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fresh(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered of a sender, as it stands at this time.
    pub fn known(&self, key: &str, now_s: i64) -> Option<Known> {
        if let Some(known) = self.fresh().get(key) {
            return Some(known.at(now_s));
        }
        read(&self.database(), key).map(|known| known.at(now_s))
    }

    /// Remembers a message of these senders.
    pub fn see(&self, keys: &[String], spam: bool, now_s: i64) {
        let mut full = false;
        for key in keys.iter().filter(|key| key.len() <= KEY_BYTES_MAX) {
            let mut fresh = self.fresh();
            if !fresh.contains_key(key) {
                drop(fresh);
                let empty = Known { first_s: now_s, last_s: now_s, ham: 0.0, spam: 0.0 };
                let known = read(&self.database(), key).unwrap_or(empty);
                fresh = self.fresh();
                fresh.entry(key.clone()).or_insert(known);
            }
            if let Some(known) = fresh.get_mut(key) {
                known.see(spam, now_s);
            }
            full |= fresh.len() >= WRITE_AFTER;
        }
        if full {
            // What cannot be written stays in memory until it can.
            let _tried_again_later = self.write(now_s);
        }
    }

    /// Writes what was seen, and forgets whom nobody has seen for long.
    ///
    /// # Errors
    /// If the file cannot be written; what was seen stays in memory.
    pub fn write(&self, now_s: i64) -> Result<(), rusqlite::Error> {
        let fresh: Vec<(String, Known)> =
            self.fresh().iter().map(|(key, known)| (key.clone(), *known)).collect();
        let mut database = self.database();
        let batch = database.transaction()?;
        {
            let mut upsert = batch.prepare_cached(
                "INSERT INTO sender (key, first_s, last_s, ham, spam) VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT DO UPDATE SET last_s = excluded.last_s, ham = excluded.ham, \
                 spam = excluded.spam",
            )?;
            for (key, known) in &fresh {
                upsert.execute(params![key, known.first_s, known.last_s, known.ham, known.spam])?;
            }
        }
        let before = now_s - FORGET_DAYS * 86_400;
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
        let mut left = self.fresh();
        for (key, written) in fresh {
            // Seen again meanwhile: that is written next time.
            if left.get(&key) == Some(&written) {
                left.remove(&key);
            }
        }
        Ok(())
    }

    /// Whether this client may deliver from this sender to this recipient now: one that is unknown
    /// waits, one that comes again within the window passes from then on. Clients count by network
    /// (/24, /64), so that a sender with many servers waits once. If the file cannot be used, mail
    /// passes. The table is bounded ([`GreylistRules::rows_max`]), and so is what one network adds to it:
    /// a flood of invented senders can neither fill the disk nor push out who waits honestly.
    pub fn greylist(
        &self,
        rules: &GreylistRules,
        client: IpAddr,
        sender: &str,
        recipient: &str,
        now_s: i64,
    ) -> Greylisted {
        let network = network_key(client);
        let text = format!("{network}\0{sender}\0{recipient}").to_lowercase();
        let digest = blake3::hash(text.as_bytes());
        let key = digest.as_bytes().get(..16).unwrap_or_default();
        self.greylist_key(rules, key, &network, now_s).unwrap_or(Greylisted::Pass)
    }

    fn greylist_key(
        &self,
        rules: &GreylistRules,
        key: &[u8],
        network: &str,
        now_s: i64,
    ) -> rusqlite::Result<Greylisted> {
        let database = self.database();
        let found = database
            .prepare_cached("SELECT first_s, last_s, passed FROM waiting WHERE key = ?1")?
            .query_row([key], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, bool>(2)?))
            })
            .optional()?;
        if found.is_none() && !self.make_room(&database, rules, network, now_s)? {
            return Ok(Greylisted::Wait { seconds: rules.wait_seconds });
        }
        let age = |since: i64| now_s.saturating_sub(since);
        let (first_s, passed, answer) = match found {
            Some((first, last, true)) if age(last) <= i64::from(rules.pass_seconds) => {
                (first, true, Greylisted::Pass)
            }
            Some((first, _, false)) if age(first) <= i64::from(rules.window_seconds) => {
                let left = i64::from(rules.wait_seconds) - age(first);
                match u32::try_from(left) {
                    Ok(seconds @ 1..) => (first, false, Greylisted::Wait { seconds }),
                    _ => (first, true, Greylisted::Pass),
                }
            }
            _ => (now_s, false, Greylisted::Wait { seconds: rules.wait_seconds }),
        };
        database
            .prepare_cached(
                "INSERT INTO waiting (key, first_s, last_s, passed) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT DO UPDATE SET first_s = excluded.first_s, last_s = excluded.last_s, \
                 passed = excluded.passed",
            )?
            .execute(params![key, first_s, now_s, passed])?;
        Ok(answer)
    }

    /// Makes room for one more row, and books it. False if the network has had its share of this hour.
    fn make_room(
        &self,
        database: &Connection,
        rules: &GreylistRules,
        network: &str,
        now_s: i64,
    ) -> rusqlite::Result<bool> {
        let mut rows = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !rows.admit(network, rules, now_s) {
            return Ok(false);
        }
        if rows.count >= rules.rows_max.max(1) {
            // A tenth at once, so that not every new row has to delete an old one.
            let surplus = rows.count - rules.rows_max.max(1) + rules.rows_max.max(1).div_ceil(10);
            for (column, passed) in [("first_s", false), ("last_s", true)] {
                let left = surplus.saturating_sub(rows.count - count_waiting(database)?);
                let text = format!(
                    "DELETE FROM waiting WHERE key IN (SELECT key FROM waiting \
                     WHERE passed = ?1 ORDER BY {column} LIMIT ?2)"
                );
                database.execute(&text, params![passed, left])?;
            }
            rows.count = count_waiting(database)?;
        }
        rows.count += 1;
        Ok(true)
    }

    /// Forgets whoever waited in vain or has not come for long.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn forget_waiting(&self, rules: &GreylistRules, now_s: i64) -> rusqlite::Result<usize> {
        let (passed, waited) =
            (now_s - i64::from(rules.pass_seconds), now_s - i64::from(rules.window_seconds));
        let database = self.database();
        let gone = database.execute(
            "DELETE FROM waiting WHERE last_s < ?1 OR (passed = 0 AND first_s < ?2)",
            params![passed, waited],
        )?;
        if gone > 0 {
            let count = count_waiting(&database)?;
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).count = count;
        }
        Ok(gone)
    }
}

fn count_waiting(database: &Connection) -> rusqlite::Result<u32> {
    database.query_row("SELECT count(*) FROM waiting", [], |row| row.get(0))
}

fn read(database: &Connection, key: &str) -> Option<Known> {
    let mut select = database
        .prepare_cached("SELECT first_s, last_s, ham, spam FROM sender WHERE key = ?1")
        .ok()?;
    let row = select.query_row([key], |row| {
        let (first_s, last_s) = (row.get(0)?, row.get(1)?);
        Ok(Known { first_s, last_s, ham: row.get(2)?, spam: row.get(3)? })
    });
    row.ok()
}

/// The client's network as a key: /24 of IPv4, /64 of IPv6.
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
mod tests {
    use super::*;

    const DAY: i64 = 86_400;

    #[test]
    fn sightings_decay_and_survive() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path()).unwrap();
        let keys = [network_key("192.0.2.77".parse().unwrap()), "d example.org".to_owned()];
        assert_eq!(keys[0], "n 192.0.2.0/24");
        for n in 0..10 {
            history.see(&keys, n < 8, 1_000_000);
        }
        let known = history.known("d example.org", 1_000_000).unwrap();
        assert_eq!((known.ham, known.spam, known.first_s), (2.0, 8.0, 1_000_000));
        assert!((known.spam_share() - 0.8).abs() < 1e-9);
        history.write(1_000_000).unwrap();
        drop(history);
        let history = History::open(folder.path()).unwrap();
        let later = 1_000_000 + 30 * DAY;
        let known = history.known(&keys[0], later).unwrap();
        assert!((known.volume() - 5.0).abs() < 1e-9, "{known:?}");
        assert_eq!(history.known("d other.org", later), None);
        history.see(&keys[1..], false, later);
        let known = history.known("d example.org", later).unwrap();
        assert!((known.ham - 2.0).abs() < 1e-9 && known.first_s == 1_000_000, "{known:?}");
        // A year without mail, and it is forgotten.
        history.write(later).unwrap();
        history.write(later + 400 * DAY).unwrap();
        assert_eq!(history.known("d example.org", later), None);
    }

    #[test]
    fn many_senders_are_written_by_and_by() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path()).unwrap();
        for n in 0..2_000 {
            history.see(&[format!("d {n}.example")], false, 5);
        }
        assert!(history.fresh().len() < WRITE_AFTER);
        assert!(history.known("d 3.example", 5).is_some());
        history.see(&["d ".repeat(400)], true, 5);
        assert_eq!(history.known(&"d ".repeat(400), 5), None);
    }

    #[test]
    fn strangers_wait_once() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path()).unwrap();
        let rules = GreylistRules::default();
        let ask = |client: &str, sender: &str, now_s: i64| {
            history.greylist(&rules, client.parse().unwrap(), sender, "bob@b.example", now_s)
        };
        assert_eq!(ask("192.0.2.1", "a@a.example", 0), Greylisted::Wait { seconds: 300 });
        assert_eq!(ask("192.0.2.9", "A@a.example", 100), Greylisted::Wait { seconds: 200 });
        assert_eq!(ask("192.0.2.1", "a@a.example", 300), Greylisted::Pass);
        assert_eq!(ask("192.0.2.1", "a@a.example", 301), Greylisted::Pass);
        assert_eq!(ask("192.0.3.1", "a@a.example", 301), Greylisted::Wait { seconds: 300 });
        assert_eq!(ask("192.0.2.1", "c@a.example", 301), Greylisted::Wait { seconds: 300 });
        // Who comes too late begins anew, who comes regularly never waits again.
        assert_eq!(ask("192.0.2.1", "c@a.example", 3 * DAY), Greylisted::Wait { seconds: 300 });
        assert_eq!(ask("192.0.2.1", "a@a.example", 30 * DAY), Greylisted::Pass);
        assert_eq!(ask("192.0.2.1", "a@a.example", 60 * DAY), Greylisted::Pass);
        assert_eq!(ask("192.0.2.1", "a@a.example", 100 * DAY), Greylisted::Wait { seconds: 300 });
        assert_eq!(history.forget_waiting(&rules, 103 * DAY).unwrap(), 3);
    }

    #[test]
    fn a_flood_of_invented_senders_neither_fills_the_table_nor_pushes_others_out() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::open(folder.path()).unwrap();
        let rules = GreylistRules {
            rows_max: 500,
            rows_per_network_per_hour_max: 100,
            ..GreylistRules::default()
        };
        let ask = |client: IpAddr, sender: &str, now_s: i64| {
            history.greylist(&rules, client, sender, "bob@b.example", now_s)
        };
        let rows = |history: &History| count_waiting(&history.database()).unwrap();
        let honest: IpAddr = "198.51.100.7".parse().unwrap();
        assert_eq!(ask(honest, "ann@a.example", 0), Greylisted::Wait { seconds: 300 });
        for n in 0..2_000 {
            let asked = ask("192.0.2.1".parse().unwrap(), &format!("{n}@x.example"), 1);
            assert_eq!(asked, Greylisted::Wait { seconds: 300 });
        }
        assert_eq!(rows(&history), 101, "one network adds its share and no more");
        assert_eq!(ask(honest, "ann@a.example", 300), Greylisted::Pass);
        // Many networks: who has passed stays, who waits longest in vain goes.
        for n in 0..2_000_u16 {
            let [a, b] = n.to_be_bytes();
            let stranger = IpAddr::from([10, a, b, 1]);
            ask(stranger, &format!("{n}@x.example"), 301 + i64::from(n));
            assert!(rows(&history) <= 500);
        }
        assert_eq!(ask(honest, "ann@a.example", 3_000), Greylisted::Pass);
        drop(history);
        let history = History::open(folder.path()).unwrap();
        assert!(history.waiting.lock().unwrap().count <= 500);
    }
}
