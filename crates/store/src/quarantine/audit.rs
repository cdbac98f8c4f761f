//! Audit log of the quarantine.

use rusqlite::{Connection, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use super::Quarantine;
use crate::error::StoreError;

/// Most lines returned at once.
const LINES_MAX: usize = 500;

/// One entry of an audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditLine {
    /// Unix time in milliseconds.
    pub at_ms: i64,
    /// Login of the user, or `gauntlet`.
    pub who: String,
    /// `release`, `released`, `delete`, `read`, ...
    pub action: String,
    /// Id of the item.
    pub item: String,
    /// Details; may be empty.
    pub detail: String,
}

/// Adds an entry, in the transaction of the change that it records.
pub(super) fn write(
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

impl Quarantine {
    /// Records an action that changed nothing, e.g. that a user downloaded a message.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn note(
        &self,
        at_ms: i64,
        who: &str,
        action: &str,
        item: &str,
        detail: &str,
    ) -> Result<(), StoreError> {
        self.change(|batch| write(batch, at_ms, who, action, item, detail))
    }

    /// The newest entries, of one item or (with an empty id) of all.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn audit_log(&self, item: &str, limit: usize) -> Result<Vec<AuditLine>, StoreError> {
        self.read(|c| {
            let mut find = c.prepare_cached(
                "SELECT at_ms, who, action, item, detail FROM audit \
                 WHERE ?1 = '' OR item = ?1 ORDER BY seq DESC LIMIT ?2",
            )?;
            let limit = limit.min(LINES_MAX) as i64;
            find.query_map(params![item, limit], audit_line)?.collect()
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

/// The first five columns.
pub(crate) fn audit_line(row: &Row<'_>) -> rusqlite::Result<AuditLine> {
    Ok(AuditLine {
        at_ms: row.get(0)?,
        who: row.get(1)?,
        action: row.get(2)?,
        item: row.get(3)?,
        detail: row.get(4)?,
    })
}

/// Lines of the table `audit` after this number; after -1 the newest alone.
pub(crate) fn lines_after(
    c: &Connection,
    after: i64,
    limit: u64,
) -> rusqlite::Result<Vec<(i64, AuditLine)>> {
    let mut find = c.prepare_cached(match after {
        -1 => {
            "SELECT at_ms, who, action, item, detail, seq FROM audit WHERE seq > ?1 \
             ORDER BY seq DESC LIMIT 1"
        }
        _ => {
            "SELECT at_ms, who, action, item, detail, seq FROM audit WHERE seq > ?1 \
             ORDER BY seq LIMIT ?2"
        }
    })?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let line = |row: &Row<'_>| Ok((row.get(5)?, audit_line(row)?));
    match after {
        -1 => find.query_map([after], line)?.collect(),
        _ => find.query_map([after, limit], line)?.collect(),
    }
}
