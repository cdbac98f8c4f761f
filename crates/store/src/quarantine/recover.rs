//! Putting packs and database in agreement: at each start, and when the database is lost.
//!
//! The database says how far each pack is indexed. What is behind that was written and not
//! committed: the process ended in between, or the database is older than the packs (a backup).
//! Either way it is taken into the index: a message that its sender was promised nothing about is
//! still in the spool, and held again under the same id it is there once. An empty database is
//! the extreme case.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, params};

use super::entry::{CHANGES, Change, Entry};
use super::rows::set_state;
use super::rows::{Drop, drop_body, entry_of, find_state, insert, is_known, set_entry};
use super::{PACKS, Quarantine, State};
use crate::content::{BodyKeys, ContentHash};
use crate::error::StoreError;
use crate::packs::index::{self, PackRow, PackState};
use crate::packs::{Head, Kind, Location, PackOptions, PackScan, Packs};

/// What was found in packs that the index did not know.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Items that were taken into the index.
    pub items: u64,
    /// Changes of items that were made again.
    pub changes: u64,
    /// Bytes of torn writes that were cut off.
    pub torn_bytes: u64,
    /// Damaged regions that were skipped: pack and offset, and packs that are missing.
    pub damaged: Vec<String>,
    /// Where the database was put that this one replaces.
    pub aside: Option<PathBuf>,
}

/// Which changes count that the index does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changes {
    /// All, in the order in which they were written: the index knew nothing.
    InOrder,
    /// Those that are not older than what the index knows: one may be left of a write that failed.
    IfNewer,
}

/// Records that are looked at after all bodies are known.
#[derive(Debug, Default)]
struct Later {
    entries: Vec<Location>,
    changes: Vec<Location>,
    /// Bodies that were found.
    bodies: Vec<ContentHash>,
}

impl Quarantine {
    /// Makes the database again from the packs; an existing one is put aside. No other process may
    /// use the quarantine. Who read and released what (the audit log) is not in the packs. Messages
    /// that retention removed may be there again until its next round.
    ///
    /// # Errors
    /// If another process writes, or packs or database cannot be read or written.
    pub fn rebuild(
        folder: &Path,
        keys: Option<BodyKeys>,
        now_ms: i64,
    ) -> Result<Recovered, StoreError> {
        Self::rebuild_on(
            folder,
            Packs::open(&folder.join(PACKS), PackOptions::default())?,
            keys,
            now_ms,
        )
    }

    /// The same with these packs, to which nobody else writes.
    pub(crate) fn rebuild_on(
        folder: &Path,
        packs: Packs,
        keys: Option<BodyKeys>,
        now_ms: i64,
    ) -> Result<Recovered, StoreError> {
        let path = folder.join("quarantine.db");
        let aside = move_aside(&path, now_ms)?;
        let quarantine = Self::open_database(folder, packs, keys)?;
        let mut recovered = quarantine.recover(Changes::InOrder)?;
        quarantine.mark_all_noted()?;
        quarantine.reclaim()?;
        recovered.aside = aside;
        Ok(recovered)
    }

    /// Takes into the index what the packs have and it does not know, and cuts off torn writes.
    pub(super) fn recover(&self, changes: Changes) -> Result<Recovered, StoreError> {
        let mut recovered = Recovered::default();
        let rows = self.read(index::packs)?;
        self.packs.take_numbers(rows.last().map_or(0, |row| row.number));
        let rows: BTreeMap<u64, PackRow> = rows.into_iter().map(|row| (row.number, row)).collect();
        let files = self.packs.list()?;
        let mut later = Later::default();
        for number in &files {
            let row = rows.get(number);
            if row.is_some_and(|row| row.state == PackState::Dropped) {
                continue;
            }
            let indexed = row.map_or(0, |row| row.bytes);
            if self.packs.size(*number)?.is_some_and(|size| size <= indexed) {
                continue;
            }
            let Some(found) = self.packs.scan(*number, indexed)? else { continue };
            self.take_pack(*number, row, &found, &mut recovered, &mut later)?;
        }
        self.take_later(&later, changes, &mut recovered)?;
        for row in rows.values().filter(|row| row.live > 0 && !files.contains(&row.number)) {
            let path = self.packs.path(row.number);
            recovered.damaged.push(format!("{} is missing", path.display()));
        }
        for (group, row) in self.read(newest_open)? {
            self.packs.resume(row.number, &group, row.bytes)?;
        }
        Ok(recovered)
    }

    /// Takes the bodies of what is new in a pack into the index.
    fn take_pack(
        &self,
        number: u64,
        row: Option<&PackRow>,
        found: &PackScan,
        recovered: &mut Recovered,
        later: &mut Later,
    ) -> Result<(), StoreError> {
        let path = self.packs.path(number);
        let at = |offset: &u64| format!("{}, byte {offset}", path.display());
        recovered.damaged.extend(found.damaged.iter().map(at));
        if found.torn_bytes > 0 {
            recovered.torn_bytes += found.torn_bytes;
            // Nothing at all is left of a pack without a whole head; `reclaim` removes it.
            self.packs.truncate(number, found.valid_bytes)?;
        }
        let group = found.group.clone().or_else(|| row.map(|row| row.group.clone()));
        let group = group.unwrap_or_else(|| "damaged".to_owned());
        self.commit(|batch| {
            let db = StoreError::db(&self.path);
            index::note_indexed(batch, number, &group, found.valid_bytes).map_err(&db)?;
            if found.group.is_none() || !found.damaged.is_empty() {
                index::set_state(batch, number, PackState::Closed).map_err(&db)?;
            }
            for (head, at) in &found.records {
                match head.kind {
                    Kind::Body => {
                        if self.take_body(batch, &group, head, *at)? {
                            later.bodies.push(head.hash);
                        }
                    }
                    Kind::Entry => later.entries.push(*at),
                    Kind::Change => {
                        index::note_appended(batch, CHANGES, &[*at]).map_err(&db)?;
                        later.changes.push(*at);
                    }
                }
            }
            Ok(())
        })
    }

    /// True if the index knows the body by this record from now on.
    fn take_body(
        &self,
        batch: &Transaction<'_>,
        group: &str,
        head: &Head,
        at: Location,
    ) -> Result<bool, StoreError> {
        let db = StoreError::db(&self.path);
        if let Some(known) = index::find_body(batch, head.hash).map_err(&db)? {
            if self.packs.size(known.pack)?.is_some() {
                return Ok(false);
            }
            // The index is older than the packs, and this was moved since.
            index::note_dead(batch, known).map_err(&db)?;
        }
        index::note_appended(batch, group, &[at]).map_err(&db)?;
        index::set_body(batch, head.hash, at).map_err(&db)?;
        Ok(true)
    }

    /// Takes items and changes into the index, now that all bodies are known.
    fn take_later(
        &self,
        later: &Later,
        rule: Changes,
        recovered: &mut Recovered,
    ) -> Result<(), StoreError> {
        const SLICE: usize = 1_000;
        for slice in later.entries.chunks(SLICE) {
            recovered.items += self.commit(|batch| {
                let mut items = 0;
                for at in slice {
                    items += u64::from(self.take_entry(batch, *at, &mut recovered.damaged)?);
                }
                Ok(items)
            })?;
        }
        for slice in later.changes.chunks(SLICE) {
            recovered.changes += self.commit(|batch| {
                let mut changes = 0;
                for at in slice {
                    changes +=
                        u64::from(self.take_change(batch, *at, rule, &mut recovered.damaged)?);
                }
                Ok(changes)
            })?;
        }
        // Bodies without an item: their write was torn, or the item was deleted.
        for slice in later.bodies.chunks(SLICE) {
            self.change(|batch| {
                for hash in slice {
                    let mut find =
                        batch.prepare_cached("SELECT 1 FROM item WHERE content = ?1 LIMIT 1")?;
                    if !find.exists([hash.to_string()])? {
                        index::forget_body(batch, *hash)?;
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// True if the item was not known.
    fn take_entry(
        &self,
        batch: &Transaction<'_>,
        at: Location,
        damaged: &mut Vec<String>,
    ) -> Result<bool, StoreError> {
        let db = StoreError::db(&self.path);
        let Some(entry) = self.payload::<Entry<'_>>(at, damaged)? else { return Ok(false) };
        if is_known(batch, &entry.item.id).map_err(&db)? {
            let known = entry_of(batch, &entry.item.id).map_err(&db)?;
            // Where the index is older than the packs: the item was moved since.
            if let Some((seq, before)) = known
                && self.packs.size(before.pack)?.is_none()
            {
                index::note_dead(batch, before).map_err(&db)?;
                index::note_appended(batch, &self.group_at(batch, at)?, &[at]).map_err(&db)?;
                set_entry(batch, seq, at).map_err(&db)?;
            }
            return Ok(false);
        }
        let Some(hash) = ContentHash::parse(&entry.content) else { return Ok(false) };
        if index::find_body(batch, hash).map_err(&db)?.is_none() {
            // Removed before, and its record is in a hole.
            return Ok(false);
        }
        index::note_appended(batch, &self.group_at(batch, at)?, &[at]).map_err(&db)?;
        insert(batch, &entry.item, entry.size, hash, at).map_err(&db)
    }

    fn group_at(&self, batch: &Transaction<'_>, at: Location) -> Result<String, StoreError> {
        let find = || -> rusqlite::Result<String> {
            let mut find = batch.prepare_cached("SELECT name FROM pack WHERE number = ?1")?;
            find.query_row([index::stored(at.pack)], |row| row.get(0))
        };
        find().map_err(StoreError::db(&self.path))
    }

    /// True if the item was in another state.
    fn take_change(
        &self,
        batch: &Transaction<'_>,
        at: Location,
        rule: Changes,
        damaged: &mut Vec<String>,
    ) -> Result<bool, StoreError> {
        let Some(change) = self.payload::<Change>(at, damaged)? else { return Ok(false) };
        let apply = || -> rusqlite::Result<bool> {
            let Some((seq, state)) = find_state(batch, &change.id)? else { return Ok(false) };
            let sql = "SELECT changed_ms, changed_ms = received_ms FROM item WHERE seq = ?1";
            let (known_ms, is_new): (i64, bool) = batch
                .prepare_cached(sql)?
                .query_row([seq], |row| Ok((row.get(0)?, row.get(1)?)))?;
            // Of an item that was forgotten only its deletion is known, without a time.
            let (has_time, is_new) = (change.changed_ms != 0, is_new && state == State::Held);
            let is_older = has_time && !is_new && change.changed_ms < known_ms;
            if state == State::Deleted || (rule == Changes::IfNewer && is_older) {
                return Ok(false);
            }
            if change.state == State::Deleted {
                drop_body(batch, seq, Drop::Deleted)?;
            }
            let changed_ms = if has_time { change.changed_ms } else { known_ms };
            set_state(batch, seq, change.state, changed_ms)?;
            let mut set = batch.prepare_cached(
                "UPDATE item SET token = ?2, release = ?3, noted = state WHERE seq = ?1",
            )?;
            set.execute(params![seq, change.token, change.release])?;
            Ok(state != change.state)
        };
        apply().map_err(StoreError::db(&self.path))
    }

    /// What a record holds; none, and noted as damaged, if it cannot be read.
    fn payload<T: serde::de::DeserializeOwned>(
        &self,
        at: Location,
        damaged: &mut Vec<String>,
    ) -> Result<Option<T>, StoreError> {
        let read = self.packs.read(at).and_then(|read| {
            let Some((head, raw)) = read else { return Ok(None) };
            let json = self.content.decode(head.hash, &self.packs.path(at.pack), raw)?;
            serde_json::from_slice(&json).map(Some).map_err(|e| StoreError::Invalid {
                what: "a record of held mail",
                cause: e.to_string(),
            })
        });
        match read {
            Ok(value) => Ok(value),
            Err(error) if error.is_unreadable() => {
                damaged.push(format!(
                    "{}, byte {}: {error}",
                    self.packs.path(at.pack).display(),
                    at.offset
                ));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn mark_all_noted(&self) -> Result<(), StoreError> {
        self.change(|batch| batch.execute("UPDATE item SET noted = state", []).map(|_| ()))
    }
}

/// Of each group the newest pack, if it may be appended to.
fn newest_open(connection: &Connection) -> rusqlite::Result<BTreeMap<String, PackRow>> {
    let rows = index::packs(connection)?.into_iter();
    let newest: BTreeMap<String, PackRow> = rows.map(|row| (row.group.clone(), row)).collect();
    Ok(newest.into_iter().filter(|(_, row)| row.state == PackState::Open).collect())
}

/// Moves a database aside with what belongs to it. None if there is none, or an empty one.
fn move_aside(path: &Path, now_ms: i64) -> Result<Option<PathBuf>, StoreError> {
    let beside = |path: &Path, suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let aside = beside(path, &format!(".before-rebuild-{now_ms}"));
    let mut found = None;
    for suffix in ["", "-wal", "-shm"] {
        let (from, to) = (beside(path, suffix), beside(&aside, suffix));
        match std::fs::rename(&from, &to) {
            Ok(()) => found = Some(aside.clone()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::io(&from, "put aside")(error)),
        }
    }
    Ok(found)
}
