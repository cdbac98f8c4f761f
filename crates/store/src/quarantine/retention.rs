//! Retention: removing items that are too old, and the oldest ones over a limit of bytes.

use gauntlet_mail::date::DAY_MS;
use rusqlite::{Transaction, params};

use super::rows::{Drop, drop_body};
use super::{Quarantine, audit};
use crate::error::StoreError;

/// Items removed in one transaction.
const FORGET_SLICE: usize = 200;

/// Retention of one folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderLimit {
    /// Name of the folder.
    pub folder: String,
    /// Days after which its mail is removed.
    pub retention_days: u32,
    /// Most bytes of held mail; above, the oldest of the folder is removed first.
    pub bytes_max: Option<u64>,
}

impl Quarantine {
    /// Removes items received before `before_ms`, except those being released. Then, while the held
    /// messages of all folders together have more than `bytes_max` bytes, the oldest of them.
    /// Returns how many.
    ///
    /// # Errors
    /// If the changes could not be made durable; what was removed until then stays removed.
    pub fn retain(
        &self,
        before_ms: i64,
        bytes_max: Option<u64>,
        now_ms: i64,
    ) -> Result<u64, StoreError> {
        self.retain_except(before_ms, bytes_max, &[], now_ms)
    }

    /// The same; items of these folders are not removed for their age. The byte limit includes
    /// them.
    ///
    /// # Errors
    /// As [`Quarantine::retain`].
    pub fn retain_except(
        &self,
        before_ms: i64,
        bytes_max: Option<u64>,
        folders: &[FolderLimit],
        now_ms: i64,
    ) -> Result<u64, StoreError> {
        let names: Vec<&str> = folders.iter().map(|f| f.folder.as_str()).collect();
        let names = serde_json::to_string(&names).unwrap_or_default();
        let mut forgotten = 0;
        loop {
            let slice = self.change(|batch| forget_old(batch, before_ms, &names))?;
            forgotten += slice;
            self.reclaim()?;
            if slice == 0 {
                break;
            }
        }
        let Some(bytes_max) = bytes_max else { return Ok(forgotten) };
        forgotten += self.enforce_bytes_max(bytes_max, now_ms)?;
        self.reclaim()?;
        Ok(forgotten)
    }

    /// How many held items [`Quarantine::retain_except`] and [`Quarantine::retain_folders`] would
    /// remove for their age, and how many are held in all.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn count_expired(
        &self,
        before_ms: i64,
        folders: &[FolderLimit],
        now_ms: i64,
    ) -> Result<(u64, u64), StoreError> {
        let names: Vec<&str> = folders.iter().map(|f| f.folder.as_str()).collect();
        let names = serde_json::to_string(&names).unwrap_or_default();
        let held = self.folders()?.iter().map(|f| f.items).sum();
        let expired = self.read(|c| {
            let mut rest = c.prepare_cached(
                "SELECT count(*) FROM item WHERE received_ms < ?1 AND state = 'held' \
                 AND folder NOT IN (SELECT value FROM json_each(?2))",
            )?;
            let mut expired: i64 = rest.query_row(params![before_ms, names], |row| row.get(0))?;
            let mut of_folder = c.prepare_cached(
                "SELECT count(*) FROM item WHERE folder = ?2 AND state = 'held' AND received_ms < ?1",
            )?;
            for limit in folders {
                let before = now_ms - i64::from(limit.retention_days) * DAY_MS;
                let count: i64 =
                    of_folder.query_row(params![before, limit.folder], |row| row.get(0))?;
                expired += count;
            }
            Ok(expired)
        })?;
        Ok((u64::try_from(expired).unwrap_or(0), held))
    }

    /// Removes the oldest held items of all folders until they are within the byte limit.
    fn enforce_bytes_max(&self, bytes_max: u64, now_ms: i64) -> Result<u64, StoreError> {
        let held: u64 = self.folders()?.iter().map(|f| f.bytes).sum();
        let mut over = held.saturating_sub(bytes_max);
        let mut forgotten = 0;
        while over > 0 {
            let (count, bytes) = self.change(|batch| forget_oldest(batch, None, over, now_ms))?;
            if count == 0 {
                break;
            }
            forgotten += count;
            over = over.saturating_sub(bytes);
        }
        Ok(forgotten)
    }

    /// Removes, in each of these folders, items that are too old, then the oldest held ones over
    /// its byte limit. Returns how many.
    ///
    /// # Errors
    /// As [`Quarantine::retain`].
    pub fn retain_folders(&self, limits: &[FolderLimit], now_ms: i64) -> Result<u64, StoreError> {
        let mut forgotten = 0;
        for limit in limits {
            let before = now_ms - i64::from(limit.retention_days) * DAY_MS;
            let name = &limit.folder;
            loop {
                let slice = self.change(|batch| forget_of_folder(batch, name, before))?;
                forgotten += slice;
                if slice == 0 {
                    break;
                }
            }
            let held = self.folders()?.into_iter().find(|f| f.name == *name).map_or(0, |f| f.bytes);
            let mut over = held.saturating_sub(limit.bytes_max.unwrap_or(u64::MAX));
            while over > 0 {
                let (count, bytes) =
                    self.change(|batch| forget_oldest(batch, Some(name), over, now_ms))?;
                if count == 0 {
                    break;
                }
                forgotten += count;
                over = over.saturating_sub(bytes);
            }
        }
        self.reclaim()?;
        Ok(forgotten)
    }
}

/// Removes one slice of the items that are too old, of all folders but these (a JSON list).
fn forget_old(batch: &Transaction<'_>, before_ms: i64, except: &str) -> rusqlite::Result<u64> {
    let mut find = batch.prepare_cached(
        "SELECT seq FROM item WHERE received_ms < ?1 AND state <> 'releasing' \
         AND folder NOT IN (SELECT value FROM json_each(?3)) ORDER BY received_ms LIMIT ?2",
    )?;
    let rows = find.query_map(params![before_ms, FORGET_SLICE as i64, except], |row| row.get(0))?;
    let found: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
    forget(batch, &found)
}

/// Removes one slice of a folder's items that are too old.
fn forget_of_folder(batch: &Transaction<'_>, name: &str, before_ms: i64) -> rusqlite::Result<u64> {
    let mut find = batch.prepare_cached(
        "SELECT seq FROM item WHERE folder = ?3 AND received_ms < ?1 AND state <> 'releasing' \
         ORDER BY received_ms LIMIT ?2",
    )?;
    let rows = find.query_map(params![before_ms, FORGET_SLICE as i64, name], |row| row.get(0))?;
    let found: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
    forget(batch, &found)
}

fn forget(batch: &Transaction<'_>, found: &[i64]) -> rusqlite::Result<u64> {
    for seq in found {
        drop_body(batch, *seq, Drop::Forgotten)?;
        batch.prepare_cached("DELETE FROM item WHERE seq = ?1")?.execute([seq])?;
    }
    Ok(found.len() as u64)
}

/// Removes the oldest held items (of one folder, if it is named), one slice at most, until `over`
/// bytes are removed. Returns how many items and bytes.
fn forget_oldest(
    batch: &Transaction<'_>,
    folder: Option<&str>,
    over: u64,
    now_ms: i64,
) -> rusqlite::Result<(u64, u64)> {
    let mut find = batch.prepare_cached(
        "SELECT seq, size, id FROM item WHERE state = 'held' AND (?2 IS NULL OR folder = ?2) \
         ORDER BY received_ms LIMIT ?1",
    )?;
    let found: Vec<(i64, i64, String)> = find
        .query_map(params![FORGET_SLICE as i64, folder], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let (mut count, mut bytes) = (0, 0);
    for (seq, size, id) in found {
        if bytes >= over {
            break;
        }
        drop_body(batch, seq, Drop::Forgotten)?;
        batch.prepare_cached("DELETE FROM item WHERE seq = ?1")?.execute([seq])?;
        let why = if folder.is_some() { "folder over its cap" } else { "quarantine over its cap" };
        audit::write(batch, now_ms, "gauntlet", "forget", &id, why)?;
        count += 1;
        bytes += u64::try_from(size).unwrap_or(0).max(1);
    }
    Ok((count, bytes))
}
