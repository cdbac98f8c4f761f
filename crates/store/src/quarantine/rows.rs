//! Rows of items: inserting them, their state, and dropping their bodies.

use gauntlet_verdict::ReleasedBy;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::{QuarantineItem, State};
use crate::content::ContentHash;
use crate::packs::Location;
use crate::packs::index::{self, location, stored};

/// Inserts the row of an item; false if it is known.
pub(super) fn insert(
    batch: &Transaction<'_>,
    item: &QuarantineItem,
    size: u64,
    hash: ContentHash,
    entry: Location,
) -> rusqlite::Result<bool> {
    let json = |e| rusqlite::Error::ToSqlConversionFailure(Box::new(e));
    let envelope = serde_json::to_string(&item.envelope).map_err(json)?;
    let recipients = serde_json::to_string(&item.recipients).map_err(json)?;
    let score = if item.score.is_finite() { item.score } else { 0.0 };
    let mut insert = batch.prepare_cached(
        "INSERT OR IGNORE INTO item (id, message, folder, state, received_ms, changed_ms, class, \
         score, size, sender, subject, recipients, rest, content, released_by, pack, entry_offset, \
         entry_bytes) \
         VALUES (?1, ?2, ?3, 'held', ?4, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
    )?;
    let inserted = insert.execute(params![
        item.id,
        item.message,
        item.folder,
        item.received_ms,
        item.class.name(),
        score,
        stored(size),
        item.from,
        item.subject,
        recipients,
        envelope,
        hash.to_string(),
        item.release.map(ReleasedBy::name),
        stored(entry.pack),
        stored(entry.offset),
        stored(entry.bytes),
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

/// Whether an item is known.
pub(super) fn is_known(connection: &Connection, id: &str) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM item WHERE id = ?1")?.exists([id])
}

/// Number and location of an item's record, if it has one.
pub(super) fn entry_of(
    connection: &Connection,
    id: &str,
) -> rusqlite::Result<Option<(i64, Location)>> {
    let mut find = connection.prepare_cached(
        "SELECT seq, pack, entry_offset, entry_bytes FROM item WHERE id = ?1 AND pack IS NOT NULL",
    )?;
    find.query_row([id], |row| Ok((row.get(0)?, location(row, 1)?))).optional()
}

/// Says where the record of an item is, from now on.
pub(super) fn set_entry(batch: &Transaction<'_>, seq: i64, at: Location) -> rusqlite::Result<()> {
    let mut set = batch.prepare_cached(
        "UPDATE item SET pack = ?2, entry_offset = ?3, entry_bytes = ?4 WHERE seq = ?1",
    )?;
    set.execute(params![seq, stored(at.pack), stored(at.offset), stored(at.bytes)])?;
    Ok(())
}

/// Why an item loses its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drop {
    /// A person deleted it.
    Deleted,
    /// It is older than the folder keeps.
    Forgotten,
}

/// Removes the reference to the body from the row, in the same transaction. Records that nothing
/// refers to any more are holes of their packs from now on.
pub(super) fn drop_body(batch: &Transaction<'_>, seq: i64, why: Drop) -> rusqlite::Result<()> {
    let mut find = batch.prepare_cached(
        "SELECT id, state, content, pack, entry_offset, entry_bytes FROM item WHERE seq = ?1",
    )?;
    let found = find.query_row([seq], |row| {
        let entry = row.get::<_, Option<i64>>(3)?.map(|_| location(row, 3)).transpose()?;
        let state = State::parse(row.get_ref(1)?.as_str()?);
        Ok((row.get::<_, String>(0)?, state, row.get::<_, Option<String>>(2)?, entry))
    });
    let Some((id, state, content, entry)) = found.optional()? else { return Ok(()) };
    let mut clear =
        batch.prepare_cached("UPDATE item SET content = NULL, pack = NULL WHERE seq = ?1")?;
    clear.execute([seq])?;
    if let Some(entry) = entry {
        index::note_dead(batch, entry)?;
        // What retention takes would be old, and be taken again.
        if why == Drop::Deleted || state != State::Held {
            let mut note =
                batch.prepare_cached("INSERT OR IGNORE INTO gone (pack, id) VALUES (?1, ?2)")?;
            note.execute(params![stored(entry.pack), id])?;
        }
    }
    let Some(content) = content else { return Ok(()) };
    let mut shared = batch.prepare_cached("SELECT 1 FROM item WHERE content = ?1 LIMIT 1")?;
    if shared.exists([&content])? {
        return Ok(());
    }
    let is_in_pack = match ContentHash::parse(&content) {
        Some(hash) => index::forget_body(batch, hash)?,
        None => false,
    };
    if !is_in_pack {
        // A file of its own, of before the packs.
        let mut note = batch.prepare_cached("INSERT OR IGNORE INTO garbage VALUES (?1)")?;
        note.execute([&content])?;
    }
    Ok(())
}
