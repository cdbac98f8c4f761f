//! Rows of items: inserting them, their state, and dropping their bodies.

use gauntlet_verdict::ReleasedBy;
use rusqlite::{OptionalExtension, Transaction, params};

use super::{QuarantineItem, State};
use crate::content::ContentHash;

/// Inserts the row of an item; false if it is known.
pub(super) fn insert(
    batch: &Transaction<'_>,
    item: &QuarantineItem,
    size: usize,
    hash: ContentHash,
) -> rusqlite::Result<bool> {
    let json = |e| rusqlite::Error::ToSqlConversionFailure(Box::new(e));
    let envelope = serde_json::to_string(&item.envelope).map_err(json)?;
    let recipients = serde_json::to_string(&item.recipients).map_err(json)?;
    let score = if item.score.is_finite() { item.score } else { 0.0 };
    let mut insert = batch.prepare_cached(
        "INSERT OR IGNORE INTO item (id, message, folder, state, received_ms, changed_ms, class, \
         score, size, sender, subject, recipients, rest, content, released_by) \
         VALUES (?1, ?2, ?3, 'held', ?4, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    let inserted = insert.execute(params![
        item.id,
        item.message,
        item.folder,
        item.received_ms,
        item.class.name(),
        score,
        i64::try_from(size).unwrap_or(i64::MAX),
        item.from,
        item.subject,
        recipients,
        envelope,
        hash.to_string(),
        item.release.map(ReleasedBy::name),
    ])?;
    if inserted == 0 {
        return Ok(false);
    }
    let seq = batch.last_insert_rowid();
    let mut add = batch
        .prepare_cached("INSERT OR IGNORE INTO item_recipient (recipient, seq) VALUES (?1, ?2)")?;
    for recipient in &item.recipients {
        add.execute(params![recipient.to_lowercase(), seq])?;
    }
    Ok(true)
}

pub(super) fn find_state(
    batch: &Transaction<'_>,
    id: &str,
) -> rusqlite::Result<Option<(i64, State)>> {
    let mut find = batch.prepare_cached("SELECT seq, state FROM item WHERE id = ?1")?;
    find.query_row([id], |row| Ok((row.get(0)?, State::parse(row.get_ref(1)?.as_str()?))))
        .optional()
}

pub(super) fn set_state(
    batch: &Transaction<'_>,
    seq: i64,
    state: State,
    now_ms: i64,
) -> rusqlite::Result<()> {
    let mut set =
        batch.prepare_cached("UPDATE item SET state = ?2, changed_ms = ?3 WHERE seq = ?1")?;
    set.execute(params![seq, state.name(), now_ms])?;
    Ok(())
}

/// Removes the reference to the body from the row and records the body as garbage, in the same
/// transaction.
pub(super) fn drop_body(batch: &Transaction<'_>, seq: i64) -> rusqlite::Result<()> {
    let mut note = batch.prepare_cached(
        "INSERT OR IGNORE INTO garbage SELECT content FROM item \
         WHERE seq = ?1 AND content IS NOT NULL",
    )?;
    note.execute([seq])?;
    batch.prepare_cached("UPDATE item SET content = NULL WHERE seq = ?1")?.execute([seq])?;
    Ok(())
}
