//! Where bodies are: two tables in the database of whoever keeps them.
//!
//! Everything here runs in a transaction of the owner. A row of `pack` says how far the pack is
//! indexed and what of it is alive; live bytes are those of records that something refers to.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::Location;
use crate::content::ContentHash;

/// The tables, as a literal for the migrations of an owner's schema.
macro_rules! pack_tables {
    () => {
        "
CREATE TABLE pack (
    number     INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    bytes      INTEGER NOT NULL,
    live       INTEGER NOT NULL,
    live_bytes INTEGER NOT NULL,
    state      TEXT NOT NULL DEFAULT 'open'
);
CREATE TABLE body (
    content TEXT PRIMARY KEY,
    pack    INTEGER NOT NULL,
    offset  INTEGER NOT NULL,
    bytes   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX body_pack ON body (pack);
"
    };
}
pub(crate) use pack_tables;

/// Bytes of a pack without records.
pub const EMPTY_BYTES: u64 = super::record::FILE_HEAD_BYTES;

/// State of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackState {
    /// It may be appended to.
    Open,
    /// It is complete: nothing is appended any more.
    Closed,
    /// It is complete, and something in it cannot be read: it is kept as it is.
    Damaged,
    /// Nothing refers to it any more; its file is about to be removed.
    Dropped,
}

impl PackState {
    fn name(self) -> &'static str {
        match self {
            PackState::Open => "open",
            PackState::Closed => "closed",
            PackState::Damaged => "damaged",
            PackState::Dropped => "dropped",
        }
    }

    fn parse(name: &str) -> Self {
        let all = [PackState::Open, PackState::Closed, PackState::Dropped];
        all.into_iter().find(|s| s.name() == name).unwrap_or(PackState::Damaged)
    }
}

/// What the index knows of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackRow {
    /// Number of the pack, which orders packs and is never used again.
    pub number: u64,
    /// A day and whatever else retention needs, so that a pack goes as a whole.
    pub group: String,
    /// How far it is indexed, in bytes.
    pub bytes: u64,
    /// Number of live records.
    pub live: u64,
    /// Bytes of live records.
    pub live_bytes: u64,
    /// Whether it may be appended to, read or removed.
    pub state: PackState,
}

/// Totals of all packs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PackTotals {
    /// Number of packs, open ones included.
    pub packs: u64,
    /// Bytes of all packs.
    pub bytes: u64,
    /// Bytes of live records.
    pub live_bytes: u64,
}

/// Reads an unsigned number.
pub(crate) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

/// An unsigned number as SQLite stores it.
pub(crate) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Notes records that were appended to packs of this group, all alive.
pub fn note_appended(
    batch: &Transaction<'_>,
    group: &str,
    locations: &[Location],
) -> rusqlite::Result<()> {
    let mut note = batch.prepare_cached(
        "INSERT INTO pack (number, name, bytes, live, live_bytes) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT (number) DO UPDATE SET bytes = max(bytes, excluded.bytes), \
         live = live + excluded.live, live_bytes = live_bytes + excluded.live_bytes",
    )?;
    // One row a pack, not a record: a batch is in one pack, as a rule.
    for appended in locations.chunk_by(|a, b| a.pack == b.pack) {
        let Some(first) = appended.first() else { continue };
        let end = appended.iter().map(|at| at.offset + at.bytes).max().unwrap_or(0);
        let bytes: u64 = appended.iter().map(|at| at.bytes).sum();
        let live = stored(appended.len() as u64);
        note.execute(params![stored(first.pack), group, stored(end), live, stored(bytes)])?;
    }
    Ok(())
}

/// Notes that a pack is indexed up to here.
pub fn note_indexed(
    batch: &Transaction<'_>,
    pack: u64,
    group: &str,
    bytes: u64,
) -> rusqlite::Result<()> {
    let mut note = batch.prepare_cached(
        "INSERT INTO pack (number, name, bytes, live, live_bytes) VALUES (?1, ?2, ?3, 0, 0) \
         ON CONFLICT (number) DO UPDATE SET bytes = max(bytes, excluded.bytes)",
    )?;
    note.execute(params![stored(pack), group, stored(bytes)])?;
    Ok(())
}

/// Notes that nothing refers to a record any more.
pub fn note_dead(batch: &Transaction<'_>, location: Location) -> rusqlite::Result<()> {
    let mut note = batch.prepare_cached(
        "UPDATE pack SET live = live - 1, live_bytes = live_bytes - ?2 WHERE number = ?1",
    )?;
    note.execute(params![stored(location.pack), stored(location.bytes)])?;
    Ok(())
}

/// Where a body is; none if it is in no pack.
pub fn find_body(connection: &Connection, hash: ContentHash) -> rusqlite::Result<Option<Location>> {
    let mut find =
        connection.prepare_cached("SELECT pack, offset, bytes FROM body WHERE content = ?1")?;
    find.query_row([hash.to_string()], |row| location(row, 0)).optional()
}

/// Reads pack, offset and length from three columns.
pub(crate) fn location(row: &Row<'_>, from: usize) -> rusqlite::Result<Location> {
    Ok(Location {
        pack: number(row, from)?,
        offset: number(row, from + 1)?,
        bytes: number(row, from + 2)?,
    })
}

/// Says where a body is, from now on.
pub fn set_body(batch: &Transaction<'_>, hash: ContentHash, at: Location) -> rusqlite::Result<()> {
    let mut set = batch.prepare_cached(
        "INSERT OR REPLACE INTO body (content, pack, offset, bytes) VALUES (?1, ?2, ?3, ?4)",
    )?;
    let (pack, offset, bytes) = (stored(at.pack), stored(at.offset), stored(at.bytes));
    set.execute(params![hash.to_string(), pack, offset, bytes])?;
    Ok(())
}

/// Forgets a body: its record is a hole from now on. False if it is in no pack.
pub fn forget_body(batch: &Transaction<'_>, hash: ContentHash) -> rusqlite::Result<bool> {
    let Some(location) = find_body(batch, hash)? else { return Ok(false) };
    batch.prepare_cached("DELETE FROM body WHERE content = ?1")?.execute([hash.to_string()])?;
    note_dead(batch, location)?;
    Ok(true)
}

/// The bodies in a pack, in the order of their records.
pub fn bodies_of(
    connection: &Connection,
    pack: u64,
) -> rusqlite::Result<Vec<(ContentHash, Location)>> {
    let mut find = connection.prepare_cached(
        "SELECT content, pack, offset, bytes FROM body WHERE pack = ?1 ORDER BY offset",
    )?;
    let rows = find.query_map([stored(pack)], |row| {
        Ok((ContentHash::parse(row.get_ref(0)?.as_str()?), location(row, 1)?))
    })?;
    let rows: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
    Ok(rows.into_iter().filter_map(|(hash, location)| Some((hash?, location))).collect())
}

/// All packs in ascending order of their numbers.
pub fn packs(connection: &Connection) -> rusqlite::Result<Vec<PackRow>> {
    let mut find = connection.prepare_cached(
        "SELECT number, name, bytes, live, live_bytes, state FROM pack ORDER BY number",
    )?;
    let rows = find.query_map([], |row| {
        Ok(PackRow {
            number: number(row, 0)?,
            group: row.get(1)?,
            bytes: number(row, 2)?,
            live: number(row, 3)?,
            live_bytes: number(row, 4)?,
            state: PackState::parse(row.get_ref(5)?.as_str()?),
        })
    })?;
    rows.collect()
}

/// Sets the state of a pack.
pub fn set_state(batch: &Transaction<'_>, pack: u64, state: PackState) -> rusqlite::Result<()> {
    let mut set = batch.prepare_cached("UPDATE pack SET state = ?2 WHERE number = ?1")?;
    set.execute(params![stored(pack), state.name()])?;
    Ok(())
}

/// Forgets a pack whose file is gone.
pub fn forget_pack(batch: &Transaction<'_>, pack: u64) -> rusqlite::Result<()> {
    batch.prepare_cached("DELETE FROM pack WHERE number = ?1")?.execute([stored(pack)])?;
    Ok(())
}

/// Totals of all packs.
pub fn totals(connection: &Connection) -> rusqlite::Result<PackTotals> {
    let sql = "SELECT count(*), coalesce(sum(bytes), 0), coalesce(sum(live_bytes), 0) FROM pack";
    connection.prepare_cached(sql)?.query_row([], |row| {
        Ok(PackTotals {
            packs: number(row, 0)?,
            bytes: number(row, 1)?,
            live_bytes: number(row, 2)?,
        })
    })
}
