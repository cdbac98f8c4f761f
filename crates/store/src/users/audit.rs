//! The audit log of the user database: changes of accounts, sign-ins and failed sign-ins.

use rusqlite::{Transaction, params};

use super::UserDatabase;
use crate::error::StoreError;
use crate::quarantine::{AuditLine, audit_line, lines_after};

/// Most entries returned at once.
const LINES_MAX: usize = 500;

/// Prefix of the actions of failed sign-ins.
pub(super) const FAILED: &str = "sign-in failed";
/// Failed sign-ins that are kept: a botnet must not fill the disk with them.
pub const FAILURES_KEPT_MAX: i64 = 10_000;
/// Entries after which old failed sign-ins are deleted.
pub(super) const FAILURES_PRUNED_EVERY: i64 = 1_000;

impl UserDatabase {
    /// Records a sign-in, its failure, or the like. Of failures, which anyone can cause, the newest
    /// [`FAILURES_KEPT_MAX`] are kept.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn note(
        &self,
        at_ms: i64,
        who: &str,
        action: &str,
        detail: &str,
    ) -> Result<(), StoreError> {
        self.change(|batch| {
            audit(batch, at_ms, who, action, "", detail)?;
            // Rarely, since it reads the whole table.
            if action.starts_with(FAILED) && batch.last_insert_rowid() % FAILURES_PRUNED_EVERY == 0
            {
                batch.execute(
                    "DELETE FROM audit WHERE substr(action, 1, length(?1)) = ?1 AND seq NOT IN \
                     (SELECT seq FROM audit WHERE substr(action, 1, length(?1)) = ?1 \
                      ORDER BY seq DESC LIMIT ?2)",
                    params![FAILED, FAILURES_KEPT_MAX],
                )?;
            }
            Ok(())
        })
    }

    /// The newest entries of the audit log; failed sign-ins, which anyone can cause, are at most a
    /// quarter, so that they do not displace the actions of users.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn audit_log(&self, limit: usize) -> Result<Vec<AuditLine>, StoreError> {
        let limit = limit.min(LINES_MAX);
        self.read(|c| {
            let mut find = c.prepare_cached(
                "SELECT at_ms, who, action, item, detail FROM audit WHERE seq IN \
                 (SELECT seq FROM audit WHERE substr(action, 1, length(?1)) <> ?1 \
                  ORDER BY seq DESC LIMIT ?2) OR seq IN \
                 (SELECT seq FROM audit WHERE substr(action, 1, length(?1)) = ?1 \
                  ORDER BY seq DESC LIMIT ?3) ORDER BY seq DESC LIMIT ?2",
            )?;
            let (all, failed) = (limit as i64, limit.div_ceil(4) as i64);
            find.query_map(params![FAILED, all, failed], audit_line)?.collect()
        })
    }

    /// The newest entries, at most `limit`, failed sign-ins included.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn full_audit_log(&self, limit: u64) -> Result<Vec<AuditLine>, StoreError> {
        self.read(|c| {
            let mut find = c.prepare_cached(
                "SELECT at_ms, who, action, item, detail FROM audit ORDER BY seq DESC LIMIT ?1",
            )?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            find.query_map([limit], audit_line)?.collect()
        })
    }

    /// Entries after this number, oldest first, each with its number; after -1 the newest alone.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn audit_after(&self, after: i64, limit: u64) -> Result<Vec<(i64, AuditLine)>, StoreError> {
        self.read(|c| lines_after(c, after, limit))
    }
}

pub(super) fn audit(
    batch: &Transaction<'_>,
    at_ms: i64,
    who: &str,
    action: &str,
    item: &str,
    detail: &str,
) -> rusqlite::Result<()> {
    let mut insert = batch.prepare_cached(
        "INSERT INTO audit (at_ms, who, action, item, detail) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    insert.execute(params![at_ms, who, action, item, detail])?;
    Ok(())
}
