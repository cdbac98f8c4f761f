//! Which keys changed since other nodes were told.

use rusqlite::{Connection, params};

use crate::sharing::SharedKind;

/// Keys whose changes may wait; beyond, the oldest are not sent until they change again.
const UNSHARED_MAX: i64 = 1_000_000;

/// Notes that a key changed.
pub(super) fn note(database: &Connection, kind: SharedKind, key: &[u8]) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO unshared (kind, key) VALUES (?1, ?2)";
    database.prepare_cached(sql)?.execute(params![kind.number(), key]).map(drop)
}

/// Forgets the oldest changes that wait, beyond the most that may.
pub(super) fn bound(database: &Connection) -> rusqlite::Result<()> {
    let sql = "DELETE FROM unshared WHERE change <= (SELECT max(change) FROM unshared) - ?1";
    database.prepare_cached(sql)?.execute([UNSHARED_MAX]).map(drop)
}
