//! Greylisting: deferring unknown clients until they retry.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::PoisonError;

use gauntlet_mail::date::DAY_SECONDS;
use rusqlite::{Connection, OptionalExtension, params};

use super::{History, network_key};
use crate::sharing::SharedKind;

/// Most networks whose new greylist rows are counted within an hour; beyond, counting restarts.
const NETWORKS_COUNTED_MAX: usize = 100_000;

/// Decision of greylisting for a delivery attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GreylistDecision {
    /// The sender has come back after the pause, or is known: accept.
    Pass,
    /// Defer it with 451.
    Wait {
        /// Seconds until a retry is accepted.
        seconds: u32,
    },
}

/// How long an unknown client waits, and how long it is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GreylistRules {
    /// Seconds that an unknown client has to wait.
    pub wait_seconds: u32,
    /// Seconds within which it must retry.
    pub window_seconds: u32,
    /// Seconds for which a client that retried is accepted at once.
    pub pass_seconds: u32,
    /// Most rows; beyond, the rows waiting longest without a retry are removed, then the least
    /// recently seen.
    pub rows_max: u32,
    /// Most new rows of one network (/24, /64) in an hour; further attempts are deferred without a
    /// row.
    pub rows_per_network_per_hour_max: u32,
}

impl Default for GreylistRules {
    fn default() -> Self {
        let day = DAY_SECONDS as u32;
        GreylistRules {
            wait_seconds: 300,
            window_seconds: 2 * day,
            pass_seconds: 36 * day,
            rows_max: 1_000_000,
            rows_per_network_per_hour_max: 1_000,
        }
    }
}

/// Number of greylist rows, and which networks added them in this hour.
#[derive(Debug, Default)]
pub(super) struct WaitingRows {
    /// Number of rows in the table, so that an insertion need not count them.
    pub(super) count: u32,
    /// The hour that `by_network` counts, in hours since 1970.
    pub(super) hour: i64,
    pub(super) by_network: HashMap<String, u32>,
}

impl WaitingRows {
    /// Counts a new row; false if the network is over its limit of the hour.
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
    /// Whether this client may deliver from this sender to this recipient now: an unknown one has
    /// to wait, one that retries within the window is accepted from then on. Clients count by
    /// network (/24, /64), so that a sender with many servers waits once. If the file cannot be
    /// used, mail is accepted. The table is bounded ([`GreylistRules::rows_max`]), and so are the
    /// rows that one network adds: a flood of forged senders can neither fill the disk nor evict
    /// legitimate ones.
    pub fn greylist(
        &self,
        rules: &GreylistRules,
        client: IpAddr,
        sender: &str,
        recipient: &str,
        now_s: i64,
    ) -> GreylistDecision {
        let network = network_key(client);
        let text = format!("{network}\0{sender}\0{recipient}").to_lowercase();
        let digest = blake3::hash(text.as_bytes());
        let key = digest.as_bytes().get(..16).unwrap_or_default();
        self.greylist_key(rules, key, &network, now_s).unwrap_or(GreylistDecision::Pass)
    }

    fn greylist_key(
        &self,
        rules: &GreylistRules,
        key: &[u8],
        network: &str,
        now_s: i64,
    ) -> rusqlite::Result<GreylistDecision> {
        let database = self.database();
        let found = database
            .prepare_cached("SELECT first_s, last_s, passed FROM waiting WHERE key = ?1")?
            .query_row([key], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, bool>(2)?))
            })
            .optional()?;
        if found.is_none() && !self.make_room(&database, rules, network, now_s)? {
            return Ok(GreylistDecision::Wait { seconds: rules.wait_seconds });
        }
        let age = |since: i64| now_s.saturating_sub(since);
        let (first_s, passed, answer) = match found {
            Some((first, last, true)) if age(last) <= i64::from(rules.pass_seconds) => {
                (first, true, GreylistDecision::Pass)
            }
            Some((first, _, false)) if age(first) <= i64::from(rules.window_seconds) => {
                let left = i64::from(rules.wait_seconds) - age(first);
                match u32::try_from(left) {
                    Ok(seconds @ 1..) => (first, false, GreylistDecision::Wait { seconds }),
                    _ => (first, true, GreylistDecision::Pass),
                }
            }
            _ => (now_s, false, GreylistDecision::Wait { seconds: rules.wait_seconds }),
        };
        database
            .prepare_cached(
                "INSERT INTO waiting (key, first_s, last_s, passed) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT DO UPDATE SET first_s = excluded.first_s, last_s = excluded.last_s, \
                 passed = excluded.passed",
            )?
            .execute(params![key, first_s, now_s, passed])?;
        // Other nodes need to know who waits and who passed, and once a day that they still come.
        let is_news = found.is_none_or(|(first, last, was_passed)| {
            first != first_s || was_passed != passed || (passed && age(last) > DAY_SECONDS)
        });
        if is_news && self.is_shared(SharedKind::Greylist) {
            super::notes::note(&database, SharedKind::Greylist, key)?;
        }
        Ok(answer)
    }

    /// Makes room for one more row, and counts it. False if the network is over its limit of the
    /// hour.
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

    /// Removes rows that got no retry in time, or were not seen for long.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn forget_waiting(&self, rules: &GreylistRules, now_s: i64) -> rusqlite::Result<usize> {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = *rules;
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

/// Number of greylist rows.
pub(super) fn count_waiting(database: &Connection) -> rusqlite::Result<u32> {
    database.query_row("SELECT count(*) FROM waiting", [], |row| row.get(0))
}
