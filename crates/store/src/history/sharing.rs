//! What the nodes of an array share of sender history and greylisting.
//!
//! *Senders* are sums per node. The row of a key belongs to the node that counted it; it goes out
//! whole, and replaces what that node sent before. So a batch that comes twice, or after a later
//! one of another node, counts nothing twice. Numbers travel in steps of 1/64 of a message.
//!
//! *Greylist*: of two rows for a triplet the earlier first attempt, the later last one, and
//! "passed" if either is. A row that has expired here is not taken.
//!
//! Both are in `history.db`, with the number of each node's last batch, so that rows and number are
//! one transaction. What changed is noted by key, in the table `unshared`.

use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use gauntlet_mail::date::DAY_SECONDS;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::greylist::{GreylistRules, count_waiting};
use super::{FORGET_DAYS, History, KEY_BYTES_MAX, SenderHistory};
use crate::clock::Clock;
use crate::sharing::{
    BATCH_BYTES, BatchReader, Cursors, Incoming, Outgoing, SharedKind, SharedPart, SharingError,
    put_number,
};

/// The second version of the schema.
pub(super) const TABLES: &str = "
CREATE TABLE sharing (kind INTEGER PRIMARY KEY, epoch TEXT NOT NULL);
CREATE TABLE unshared (change INTEGER PRIMARY KEY AUTOINCREMENT, kind INTEGER NOT NULL,
    key BLOB NOT NULL, UNIQUE (kind, key));
CREATE INDEX unshared_by_kind ON unshared (kind, change);
CREATE TABLE taken (kind INTEGER NOT NULL, node INTEGER NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (kind, node)) WITHOUT ROWID;
CREATE TABLE elsewhere (key TEXT NOT NULL, node INTEGER NOT NULL, first_s INTEGER NOT NULL,
    last_s INTEGER NOT NULL, ham REAL NOT NULL, spam REAL NOT NULL, PRIMARY KEY (key, node))
    WITHOUT ROWID;
CREATE INDEX elsewhere_by_last ON elsewhere (last_s);";

/// Rows of other nodes that are kept; beyond, the least recently seen go.
const ELSEWHERE_MAX: i64 = 4_000_000;
/// Keys in a batch.
const KEYS_MAX: usize = 2_000;
/// Rows that are noted at once when sharing begins.
const STEP_ROWS: usize = 2_000;
/// Of so many batches one looks whether there are too many rows.
const COUNTED_EVERY: i64 = 64;
/// Version of the batches' format.
const VERSION: u8 = 1;
/// Steps of a message's count on the wire.
const STEPS: f64 = 64.0;
/// Largest count that is believed.
const COUNT_MAX: f64 = 1e9;
/// Bytes of a triplet's key.
const TRIPLET_BYTES: usize = 16;

/// A triplet that waits or has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Triplet {
    /// Hash of network, sender and recipient.
    pub key: [u8; TRIPLET_BYTES],
    /// Unix time in seconds of the first attempt.
    pub first_s: i64,
    /// Unix time in seconds of the last attempt.
    pub last_s: i64,
    /// It came again after the pause.
    pub passed: bool,
}

/// A node's own history of a sender.
#[derive(Debug, Clone, PartialEq)]
pub struct SenderRow {
    /// Its key.
    pub key: String,
    /// What the node counted.
    pub history: SenderHistory,
}

/// Sender history or greylist of a node, to be shared.
#[derive(Debug, Clone)]
pub struct SharedHistory {
    history: Arc<History>,
    clock: Clock,
    kind: SharedKind,
}

impl SharedHistory {
    /// The histories of senders.
    pub fn senders(history: Arc<History>, clock: Clock) -> Self {
        SharedHistory { history, clock, kind: SharedKind::Senders }
    }

    /// The greylist.
    pub fn greylist(history: Arc<History>, clock: Clock) -> Self {
        SharedHistory { history, clock, kind: SharedKind::Greylist }
    }
}

impl SharedPart for SharedHistory {
    fn kind(&self) -> SharedKind {
        self.kind
    }

    fn begin(&self, epoch: &str) -> Result<Cursors, SharingError> {
        Ok(self.history.begin_sharing(self.kind, epoch)?)
    }

    fn collect(&self) -> Result<Option<Outgoing>, SharingError> {
        Ok(self.history.unshared(self.kind)?)
    }

    fn sent(&self, mark: u64) -> Result<(), SharingError> {
        let sql = "DELETE FROM unshared WHERE kind = ?1 AND change <= ?2";
        let last = mark.cast_signed();
        self.history.database().execute(sql, params![self.kind.number(), last])?;
        Ok(())
    }

    fn take(&self, batches: &[Incoming]) -> Result<(), SharingError> {
        Ok(self.history.take_shared(self.kind, batches, self.clock.unix_s())?)
    }
}

/// Kinds that are shared, as bits, and whether there is anything of other nodes.
pub(super) fn state_of(database: &Connection) -> rusqlite::Result<(u8, bool)> {
    let mut select = database.prepare("SELECT kind FROM sharing")?;
    let kinds = select.query_map([], |row| row.get::<_, i16>(0))?;
    let mut shares = 0;
    for kind in kinds {
        shares |= SharedKind::of_number(kind?).map_or(0, bit);
    }
    let any = database.query_row("SELECT EXISTS (SELECT 1 FROM elsewhere)", [], |r| r.get(0))?;
    Ok((shares, any))
}

fn bit(kind: SharedKind) -> u8 {
    1 << kind.number()
}

impl History {
    /// Whether changes of this kind are noted.
    pub(super) fn is_shared(&self, kind: SharedKind) -> bool {
        self.shares.load(Ordering::Relaxed) & bit(kind) != 0
    }

    /// What other nodes counted for a key, each as it sent it.
    pub(super) fn elsewhere(&self, database: &Connection, key: &str) -> Vec<SenderHistory> {
        if !self.has_elsewhere.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let read = || {
            let sql = "SELECT first_s, last_s, ham, spam FROM elsewhere WHERE key = ?1";
            let mut select = database.prepare_cached(sql)?;
            let rows = select.query_map([key], |row| {
                let (first_s, last_s) = (row.get(0)?, row.get(1)?);
                Ok(SenderHistory { first_s, last_s, ham: row.get(2)?, spam: row.get(3)? })
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        // A file that cannot be read: the node goes by what it has in memory.
        read().unwrap_or_default()
    }

    fn begin_sharing(&self, kind: SharedKind, epoch: &str) -> rusqlite::Result<Cursors> {
        let number = kind.number();
        // First, so that nothing that changes meanwhile is missed.
        self.shares.fetch_or(bit(kind), Ordering::Relaxed);
        let known: Option<String> = self
            .database()
            .query_row("SELECT epoch FROM sharing WHERE kind = ?1", [number], |row| row.get(0))
            .optional()?;
        if known.as_deref() != Some(epoch) {
            self.begin_anew(kind)?;
            let sql = "INSERT OR REPLACE INTO sharing VALUES (?1, ?2)";
            self.database().execute(sql, params![number, epoch])?;
        }
        let database = self.database();
        let mut select = database.prepare("SELECT node, number FROM taken WHERE kind = ?1")?;
        let rows = select.query_map([number], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    }

    /// Forgets what came from other nodes, and notes all that there is. In small steps: mail asks
    /// the same file meanwhile. One that was cut short is done again.
    fn begin_anew(&self, kind: SharedKind) -> rusqlite::Result<()> {
        let number = kind.number();
        let database = self.database();
        database.execute("DELETE FROM sharing WHERE kind = ?1", [number])?;
        database.execute("DELETE FROM taken WHERE kind = ?1", [number])?;
        if kind == SharedKind::Senders {
            database.execute("DELETE FROM elsewhere", [])?;
        }
        drop(database);
        let mut last = None;
        loop {
            let mut database = self.database();
            let steps = database.transaction()?;
            let keys = keys_after(&steps, kind, last.as_ref())?;
            for key in &keys {
                let sql =
                    "INSERT OR IGNORE INTO unshared (kind, key) VALUES (?1, CAST(?2 AS BLOB))";
                steps.prepare_cached(sql)?.execute(params![number, key])?;
            }
            steps.commit()?;
            if keys.len() < STEP_ROWS {
                return Ok(());
            }
            last = keys.into_iter().next_back();
        }
    }

    /// Notes no more changes of this kind. What other nodes counted stays, and fades.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn end_sharing(&self, kind: SharedKind) -> rusqlite::Result<()> {
        if !self.is_shared(kind) {
            return Ok(());
        }
        self.shares.fetch_and(!bit(kind), Ordering::Relaxed);
        let database = self.database();
        for table in ["unshared", "taken", "sharing"] {
            database.execute(&format!("DELETE FROM {table} WHERE kind = ?1"), [kind.number()])?;
        }
        Ok(())
    }

    /// Keys of this kind whose changes wait.
    pub fn unshared_keys(&self, kind: SharedKind) -> u64 {
        let sql = "SELECT count(*) FROM unshared WHERE kind = ?1";
        let asked = self.database().query_row(sql, [kind.number()], |row| row.get::<_, i64>(0));
        asked.map_or(0, i64::cast_unsigned)
    }

    fn unshared(&self, kind: SharedKind) -> rusqlite::Result<Option<Outgoing>> {
        let database = self.database();
        let sql = "SELECT change, key FROM unshared WHERE kind = ?1 ORDER BY change LIMIT ?2";
        let mut select = database.prepare_cached(sql)?;
        let mut rows = select.query(params![kind.number(), KEYS_MAX as i64])?;
        let (mut last, mut count, mut bytes) = (0_i64, 0_usize, 0_usize);
        let (mut senders, mut triplets) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next()? {
            let key: Vec<u8> = row.get(1)?;
            if bytes > BATCH_BYTES {
                break;
            }
            (last, count, bytes) = (row.get(0)?, count + 1, bytes + key.len() + 8);
            match kind {
                SharedKind::Senders => senders.extend(sender_row(&database, key)),
                _ => triplets.extend(triplet_row(&database, &key)?),
            }
        }
        if count == 0 {
            return Ok(None);
        }
        let body = match kind {
            SharedKind::Senders => encode_senders(senders),
            _ => encode_triplets(&triplets),
        };
        let is_full = count >= KEYS_MAX || bytes > BATCH_BYTES;
        Ok(Some(Outgoing { body, mark: last.cast_unsigned(), is_full }))
    }

    fn take_shared(
        &self,
        kind: SharedKind,
        batches: &[Incoming],
        now_s: i64,
    ) -> rusqlite::Result<()> {
        let rules = *self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        for batch in batches {
            // Each by itself: mail asks the same file meanwhile.
            let mut database = self.database();
            let steps = database.transaction()?;
            let is_read = match kind {
                SharedKind::Senders => match decode_senders(&batch.body) {
                    Some(rows) => take_senders(&steps, batch.node, &rows).map(|()| true)?,
                    None => false,
                },
                _ => match decode_triplets(&batch.body) {
                    Some(rows) => take_triplets(&steps, &rules, &rows, now_s).map(|()| true)?,
                    None => false,
                },
            };
            if !is_read {
                let (kind, node, number) = (kind.name(), batch.node, batch.number);
                tracing::warn!(kind, node, number, "a batch of another node is not understood");
            }
            if kind == SharedKind::Senders && batch.number % COUNTED_EVERY == 0 {
                forget_elsewhere(&steps, now_s)?;
            }
            steps.execute(
                "INSERT OR REPLACE INTO taken VALUES (?1, ?2, ?3)",
                params![kind.number(), batch.node, batch.number],
            )?;
            steps.commit()?;
        }
        if kind == SharedKind::Senders {
            self.has_elsewhere.store(true, Ordering::Relaxed);
        } else {
            let count = count_waiting(&self.database())?;
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).count = count;
        }
        Ok(())
    }
}

/// The next keys of this kind, in order.
fn keys_after(
    steps: &Transaction<'_>,
    kind: SharedKind,
    last: Option<&Value>,
) -> rusqlite::Result<Vec<Value>> {
    let table = if kind == SharedKind::Senders { "sender" } else { "waiting" };
    let after = if last.is_some() { "WHERE key > ?2" } else { "WHERE ?2 IS NULL" };
    let sql = format!("SELECT key FROM {table} {after} ORDER BY key LIMIT ?1");
    let mut select = steps.prepare_cached(&sql)?;
    let rows = select.query_map(params![STEP_ROWS as i64, last], |row| row.get(0))?;
    rows.collect()
}

fn sender_row(database: &Connection, key: Vec<u8>) -> Option<SenderRow> {
    let key = String::from_utf8(key).ok()?;
    let history = super::read(database, &key)?;
    Some(SenderRow { key, history })
}

fn triplet_row(database: &Connection, key: &[u8]) -> rusqlite::Result<Option<Triplet>> {
    let sql = "SELECT first_s, last_s, passed FROM waiting WHERE key = ?1";
    let Ok(bytes) = key.try_into() else { return Ok(None) };
    let row = |row: &rusqlite::Row<'_>| {
        let (first_s, last_s) = (row.get(0)?, row.get(1)?);
        Ok(Triplet { key: bytes, first_s, last_s, passed: row.get(2)? })
    };
    database.prepare_cached(sql)?.query_row([key], row).optional()
}

fn take_senders(steps: &Transaction<'_>, node: i16, rows: &[SenderRow]) -> rusqlite::Result<()> {
    let mut put = steps.prepare_cached(
        "INSERT OR REPLACE INTO elsewhere (key, node, first_s, last_s, ham, spam) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for SenderRow { key, history } in rows {
        put.execute(params![
            key,
            node,
            history.first_s,
            history.last_s,
            history.ham,
            history.spam
        ])?;
    }
    Ok(())
}

fn forget_elsewhere(steps: &Transaction<'_>, now_s: i64) -> rusqlite::Result<()> {
    let before = now_s - FORGET_DAYS * DAY_SECONDS;
    steps.execute("DELETE FROM elsewhere WHERE last_s < ?1", [before])?;
    let count: i64 = steps.query_row("SELECT count(*) FROM elsewhere", [], |row| row.get(0))?;
    if count > ELSEWHERE_MAX {
        // A tenth at once, so that not every batch has to.
        let surplus = count - ELSEWHERE_MAX + ELSEWHERE_MAX / 10;
        steps.execute(
            "DELETE FROM elsewhere WHERE (key, node) IN \
             (SELECT key, node FROM elsewhere ORDER BY last_s LIMIT ?1)",
            [surplus],
        )?;
    }
    Ok(())
}

fn take_triplets(
    steps: &Transaction<'_>,
    rules: &GreylistRules,
    rows: &[Triplet],
    now_s: i64,
) -> rusqlite::Result<()> {
    let mut count = count_waiting(steps)?;
    let mut put = steps.prepare_cached(
        "INSERT INTO waiting (key, first_s, last_s, passed) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT DO UPDATE SET first_s = excluded.first_s, last_s = excluded.last_s, \
         passed = excluded.passed",
    )?;
    let is_over = |row: &Triplet| match row.passed {
        true => now_s - row.last_s > i64::from(rules.pass_seconds),
        false => now_s - row.first_s > i64::from(rules.window_seconds),
    };
    for row in rows {
        // A clock that is ahead elsewhere makes nobody wait longer here.
        let row =
            Triplet { first_s: row.first_s.min(now_s), last_s: row.last_s.min(now_s), ..*row };
        if is_over(&row) {
            continue;
        }
        let merged = match triplet_row(steps, &row.key)? {
            Some(own) if !is_over(&own) => merge(own, row),
            Some(_) => row,
            None if count >= rules.rows_max => continue,
            None => {
                count += 1;
                row
            }
        };
        put.execute(params![merged.key, merged.first_s, merged.last_s, merged.passed])?;
    }
    Ok(())
}

/// Two nodes' rows of a triplet as one.
fn merge(a: Triplet, b: Triplet) -> Triplet {
    Triplet {
        key: a.key,
        first_s: a.first_s.min(b.first_s),
        last_s: a.last_s.max(b.last_s),
        passed: a.passed || b.passed,
    }
}

/// Column by column, keys in order: that compresses best.
fn encode_senders(mut rows: Vec<SenderRow>) -> Vec<u8> {
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    let newest = rows.iter().map(|row| row.history.last_s).max().unwrap_or(0);
    let mut out = vec![VERSION];
    put_number(&mut out, newest.max(0).cast_unsigned());
    put_number(&mut out, rows.len() as u64);
    for row in &rows {
        put_number(&mut out, row.key.len() as u64);
        out.extend_from_slice(row.key.as_bytes());
    }
    let seconds = |later: i64, earlier: i64| (later - earlier).max(0).cast_unsigned();
    let steps = |count: f64| (count.clamp(0.0, COUNT_MAX) * STEPS).round() as u64;
    let columns: [&dyn Fn(&SenderHistory) -> u64; 4] = [
        &|h| seconds(newest, h.last_s),
        &|h| seconds(h.last_s, h.first_s),
        &|h| steps(h.ham),
        &|h| steps(h.spam),
    ];
    for column in columns {
        rows.iter().for_each(|row| put_number(&mut out, column(&row.history)));
    }
    out
}

/// The senders of a batch; none if it is damaged, or of another version.
pub fn decode_senders(bytes: &[u8]) -> Option<Vec<SenderRow>> {
    let mut reader = BatchReader::of_version(bytes, VERSION)?;
    let newest = i64::try_from(reader.number()?).ok()?;
    let count = reader.count(5)?;
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        let length = reader.count(1).filter(|length| *length <= KEY_BYTES_MAX)?;
        let key = std::str::from_utf8(reader.bytes(length)?).ok()?.to_owned();
        let history = SenderHistory { first_s: 0, last_s: 0, ham: 0.0, spam: 0.0 };
        rows.push(SenderRow { key, history });
    }
    let mut seconds = || i64::try_from(reader.number()?).ok();
    for row in &mut rows {
        row.history.last_s = newest.checked_sub(seconds()?)?;
    }
    for row in &mut rows {
        row.history.first_s = row.history.last_s.checked_sub(seconds()?)?;
    }
    let mut counted = || Some((reader.number()? as f64 / STEPS).min(COUNT_MAX));
    for row in &mut rows {
        row.history.ham = counted()?;
    }
    for row in &mut rows {
        row.history.spam = counted()?;
    }
    reader.rest().is_empty().then_some(rows)
}

fn encode_triplets(rows: &[Triplet]) -> Vec<u8> {
    let newest = rows.iter().map(|row| row.last_s).max().unwrap_or(0);
    let mut out = vec![VERSION];
    put_number(&mut out, newest.max(0).cast_unsigned());
    put_number(&mut out, rows.len() as u64);
    for row in rows {
        out.extend_from_slice(&row.key);
        put_number(&mut out, (newest - row.last_s).max(0).cast_unsigned());
        let waited = (row.last_s - row.first_s).max(0).cast_unsigned();
        put_number(&mut out, (waited << 1) | u64::from(row.passed));
    }
    out
}

/// The triplets of a batch; none if it is damaged, or of another version.
pub fn decode_triplets(bytes: &[u8]) -> Option<Vec<Triplet>> {
    let mut reader = BatchReader::of_version(bytes, VERSION)?;
    let newest = i64::try_from(reader.number()?).ok()?;
    let count = reader.count(TRIPLET_BYTES + 2)?;
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        let key = reader.bytes(TRIPLET_BYTES)?.try_into().ok()?;
        let last_s = newest.checked_sub(i64::try_from(reader.number()?).ok()?)?;
        let waited = reader.number()?;
        let first_s = last_s.checked_sub(i64::try_from(waited >> 1).ok()?)?;
        rows.push(Triplet { key, first_s, last_s, passed: waited & 1 == 1 });
    }
    reader.rest().is_empty().then_some(rows)
}

#[cfg(test)]
mod tests;
