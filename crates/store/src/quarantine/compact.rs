//! Keeping the packs small: noting what became of items, removing packs that nothing refers to,
//! copying what is left of packs with many holes, and sealing bodies anew.
//!
//! A pack is rewritten in steps, each of which is one append and one transaction: after a crash in
//! the middle, some records are in the new pack and the rest in the old one.

use std::collections::BTreeSet;

use rusqlite::{Connection, Transaction, params};

use super::entry::{CHANGES, Change, OwnedRecord, change_record};
use super::rows::set_entry;
use super::{Quarantine, State};
use crate::content::{Content, ContentHash};
use crate::error::StoreError;
use crate::packs::index::{self, PackRow, PackState, location, number, stored};
use crate::packs::{Kind, Location};

/// Bytes of records that are rewritten in one transaction: new mail waits for no more.
const STEP_BYTES_MAX: u64 = 8 << 20;
/// Changes that are written with one sync.
const CHANGES_SLICE: usize = 500;
/// Changes that the packs may have beyond those that are needed, before they are written anew.
const CHANGES_SPARE: u64 = if cfg!(test) { 10 } else { 10_000 };
/// A pack is compacted when at least one in so many of its bytes is a hole.
const HOLES_ONE_IN: u64 = 4;

/// A live record of a pack, and who refers to it.
#[derive(Debug, Clone, Copy)]
enum Live {
    Body(ContentHash, Location),
    /// The record of the item with this number.
    Entry(i64, Location),
}

impl Live {
    fn location(self) -> Location {
        match self {
            Live::Body(_, at) | Live::Entry(_, at) => at,
        }
    }
}

/// What is done to bodies that are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bodies {
    AsTheyAre,
    SealedAnew,
}

impl Quarantine {
    /// What is to be done from time to time: see the functions that it calls. The node calls it,
    /// nobody else.
    ///
    /// # Errors
    /// If the database or a pack cannot be read or written; what was done until then stays done.
    pub fn maintain(&self) -> Result<(), StoreError> {
        if !self.packs.is_writer() {
            return Ok(());
        }
        // First what makes room and needs none.
        self.remove_old_garbage()?;
        self.reclaim()?;
        self.note_changes()?;
        self.renew_changes()?;
        self.compact()?;
        Ok(())
    }

    /// Notes in the packs what became of items, as far as they do not know it yet: a list that is
    /// made again from them brings no deleted item back and releases none twice. What another
    /// process deletes is noted by the node.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub(super) fn note_changes(&self) -> Result<(), StoreError> {
        if !self.packs.is_writer() {
            return Ok(());
        }
        let any = "SELECT 1 FROM item WHERE state <> noted LIMIT 1";
        while self.read(|c| c.prepare_cached(any)?.exists([]))? {
            self.commit(|batch| {
                let changes = unnoted(batch).map_err(StoreError::db(&self.path))?;
                let records: Vec<Change> = changes.iter().map(|(_, c)| c.clone()).collect();
                self.append_changes(batch, &records)?;
                let noted = || -> rusqlite::Result<()> {
                    let mut set =
                        batch.prepare_cached("UPDATE item SET noted = ?2 WHERE seq = ?1")?;
                    for (seq, change) in &changes {
                        set.execute(params![seq, change.state.name()])?;
                    }
                    Ok(())
                };
                noted().map_err(StoreError::db(&self.path))
            })?;
        }
        Ok(())
    }

    fn append_changes(
        &self,
        batch: &Transaction<'_>,
        changes: &[Change],
    ) -> Result<(), StoreError> {
        let records: Vec<OwnedRecord<'_>> =
            changes.iter().map(|c| change_record(&self.content, c)).collect::<Result<_, _>>()?;
        if records.is_empty() {
            return Ok(());
        }
        let new: Vec<_> = records.iter().map(OwnedRecord::as_new).collect();
        let locations = self.packs.append(CHANGES, &new)?;
        index::note_appended(batch, CHANGES, &locations).map_err(StoreError::db(&self.path))
    }

    /// Writes the changes anew that still matter, when most do not.
    fn renew_changes(&self) -> Result<(), StoreError> {
        let of_changes = |row: &PackRow| row.group == CHANGES && row.state != PackState::Dropped;
        let rows = self.read(index::packs)?;
        let old: Vec<PackRow> = rows.into_iter().filter(of_changes).collect();
        let written: u64 = old.iter().map(|row| row.live).sum();
        let needed = self.read(|c| {
            let sql = "SELECT (SELECT count(*) FROM item WHERE state <> 'held') + \
                       (SELECT count(*) FROM gone)";
            c.query_row(sql, [], |row| number(row, 0))
        })?;
        if written <= 2 * needed + CHANGES_SPARE {
            return Ok(());
        }
        self.rewrite_changes(&old)
    }

    /// Writes the changes that matter anew, in place of those in these packs.
    fn rewrite_changes(&self, old: &[PackRow]) -> Result<(), StoreError> {
        self.commit(|batch| {
            let db = StoreError::db(&self.path);
            old.iter().for_each(|row| self.packs.close(row.number));
            let changes = needed_changes(batch).map_err(&db)?;
            for slice in changes.chunks(CHANGES_SLICE) {
                self.append_changes(batch, slice)?;
            }
            let mut clear = batch
                .prepare_cached("UPDATE pack SET live = 0, live_bytes = 0 WHERE number = ?1")
                .map_err(&db)?;
            for row in old {
                clear.execute([stored(row.number)]).map_err(&db)?;
            }
            Ok(())
        })
    }

    /// Removes packs that nothing refers to any more. While a backup reads them they stay until the
    /// next call.
    ///
    /// # Errors
    /// If one cannot be removed.
    pub(super) fn reclaim(&self) -> Result<(), StoreError> {
        let any = "SELECT 1 FROM pack WHERE live <= 0 LIMIT 1";
        if !self.packs.is_writer() || !self.read(|c| c.prepare_cached(any)?.exists([]))? {
            return Ok(());
        }
        // Marked first: one that comes back after a power failure is known for what it is.
        let dropped = self.change(|batch| {
            let unused = index::packs(batch)?.into_iter().filter(|row| row.live == 0);
            let unused: Vec<u64> = unused.map(|row| row.number).collect();
            for number in &unused {
                self.packs.close(*number);
                index::set_state(batch, *number, PackState::Dropped)?;
            }
            Ok(unused)
        })?;
        if !self.packs.remove(&dropped)? {
            return Ok(());
        }
        self.change(|batch| {
            for number in &dropped {
                batch.execute("DELETE FROM gone WHERE pack = ?1", [stored(*number)])?;
                index::forget_pack(batch, *number)?;
            }
            Ok(())
        })
    }

    /// Copies what is left of packs with many holes. Returns how many packs.
    ///
    /// # Errors
    /// If one cannot be read or written, e.g. on a full disk; nothing is lost by that.
    pub fn compact(&self) -> Result<u64, StoreError> {
        let has_holes = |row: &PackRow| {
            let holes = row.bytes.saturating_sub(row.live_bytes + index::EMPTY_BYTES);
            let is_usable = matches!(row.state, PackState::Open | PackState::Closed);
            row.group != CHANGES && is_usable && row.live > 0 && holes * HOLES_ONE_IN >= row.bytes
        };
        let mut compacted = 0;
        for row in self.read(index::packs)?.into_iter().filter(has_holes) {
            self.rewrite(&row, Bodies::AsTheyAre)?;
            compacted += 1;
        }
        self.reclaim()?;
        Ok(compacted)
    }

    /// Encrypts every body with the first key, or decrypts all permanently if the keys do not
    /// encrypt. Returns how many were rewritten. Packs with holes are rewritten, too: what was
    /// deleted does not stay behind in clear.
    ///
    /// # Errors
    /// If one cannot be read, decrypted or written, or another process writes the packs; those
    /// before it are done.
    pub fn reencrypt(&self) -> Result<u64, StoreError> {
        if self.has_old_bodies() {
            self.move_old(|| true)?;
        }
        let mut written = 0;
        let mut changes = Vec::new();
        for row in self.read(index::packs)?.into_iter().filter(|row| row.live > 0) {
            if row.group == CHANGES {
                changes.push(row);
                continue;
            }
            let (bodies, all) = self.unwanted(&row)?;
            let has_holes = row.bytes > row.live_bytes + index::EMPTY_BYTES;
            if all > 0 || (has_holes && self.packs.is_writer()) {
                self.packs.lock_writer()?;
                self.rewrite(&row, Bodies::SealedAnew)?;
                written += bodies;
            }
        }
        let mut unwanted = 0;
        for row in &changes {
            let found = self.packs.scan(row.number, 0)?;
            for (_, at) in found.map(|found| found.records).unwrap_or_default() {
                unwanted += u64::from(!self.is_as_wanted(at)?);
            }
        }
        if unwanted > 0 {
            self.packs.lock_writer()?;
            self.note_changes()?;
            self.rewrite_changes(&changes)?;
        }
        self.reclaim()?;
        Ok(written)
    }

    /// How many bodies, and records in all, of a pack are not sealed as they are to be.
    fn unwanted(&self, pack: &PackRow) -> Result<(u64, u64), StoreError> {
        let (mut bodies, mut all) = (0, 0);
        for one in self.read(|c| live_records(c, pack.number))? {
            let is_unwanted = u64::from(!self.is_as_wanted(one.location())?);
            bodies += if matches!(one, Live::Body(..)) { is_unwanted } else { 0 };
            all += is_unwanted;
        }
        Ok((bodies, all))
    }

    /// Whether a record is sealed as it is to be, or is somebody else's work meanwhile.
    fn is_as_wanted(&self, at: Location) -> Result<bool, StoreError> {
        let read = self.packs.read(at)?;
        read.map_or(Ok(true), |(head, raw)| self.content.is_as_wanted(head.hash, &raw))
    }

    /// Copies the live records of a pack to another one of its group.
    fn rewrite(&self, pack: &PackRow, bodies: Bodies) -> Result<(), StoreError> {
        let db = StoreError::db(&self.path);
        let mut unreadable = BTreeSet::new();
        loop {
            let rest = self.commit(|batch| {
                self.packs.close(pack.number);
                index::set_state(batch, pack.number, PackState::Closed).map_err(&db)?;
                let live = live_records(batch, pack.number).map_err(&db)?;
                let is_left = |l: &Live| !unreadable.contains(&l.location());
                let left: Vec<Live> = live.into_iter().filter(is_left).collect();
                let mut live = left.into_iter();
                let (mut moved, mut records, mut bytes) = (Vec::new(), Vec::new(), 0);
                for one in live.by_ref() {
                    bytes += one.location().bytes;
                    match self.copy_of(one, bodies) {
                        Ok(record) => {
                            moved.push(one);
                            records.push(record);
                        }
                        // Keys that seal all anew must not be forgotten while one needs them.
                        Err(error) if error.is_unreadable() && bodies == Bodies::AsTheyAre => {
                            tracing::error!(%error, "a record of held mail cannot be copied");
                            unreadable.insert(one.location());
                        }
                        Err(error) => return Err(error),
                    }
                    if bytes >= STEP_BYTES_MAX {
                        break;
                    }
                }
                self.move_records(batch, &pack.group, &moved, &records)?;
                if live.next().is_some() {
                    return Ok(true);
                }
                if !unreadable.is_empty() {
                    index::set_state(batch, pack.number, PackState::Damaged).map_err(&db)?;
                }
                Ok(false)
            })?;
            if !rest {
                return Ok(());
            }
        }
    }

    fn copy_of(&self, one: Live, bodies: Bodies) -> Result<OwnedRecord<'static>, StoreError> {
        let at = one.location();
        let read = self.packs.read(at)?;
        let (head, payload) = read.ok_or_else(|| StoreError::Damaged {
            path: self.packs.path(at.pack),
            what: "the pack".to_owned(),
            cause: "the file is missing".to_owned(),
        })?;
        let (kind, hash) = match one {
            Live::Body(hash, _) => (Kind::Body, hash),
            Live::Entry(..) => (Kind::Entry, head.hash),
        };
        let kept = bodies == Bodies::AsTheyAre || self.content.is_as_wanted(hash, &payload)?;
        let payload = match kept {
            true => {
                if !Content::is_sealed(&payload) {
                    self.content.decode(hash, &self.packs.path(at.pack), payload.clone())?;
                }
                payload
            }
            false => {
                let clear = self.content.decode(hash, &self.packs.path(at.pack), payload)?;
                self.content.encode(hash, &clear)?.into_owned()
            }
        };
        Ok(OwnedRecord { kind, hash, payload: payload.into() })
    }

    /// Appends copies, and says that they count from now on.
    fn move_records(
        &self,
        batch: &Transaction<'_>,
        group: &str,
        moved: &[Live],
        records: &[OwnedRecord<'_>],
    ) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let new: Vec<_> = records.iter().map(OwnedRecord::as_new).collect();
        let locations = self.packs.append(group, &new)?;
        let swap = || -> rusqlite::Result<()> {
            index::note_appended(batch, group, &locations)?;
            for (one, at) in moved.iter().zip(&locations) {
                match one {
                    Live::Body(hash, _) => index::set_body(batch, *hash, *at)?,
                    Live::Entry(seq, _) => set_entry(batch, *seq, *at)?,
                }
                index::note_dead(batch, one.location())?;
            }
            Ok(())
        };
        let swapped = swap().map_err(StoreError::db(&self.path));
        if swapped.is_err() {
            self.packs.retract(&locations);
        }
        swapped
    }
}

/// Items whose state the packs do not know, with their numbers.
fn unnoted(connection: &Connection) -> rusqlite::Result<Vec<(i64, Change)>> {
    let mut find = connection.prepare_cached(
        "SELECT seq, id, state, changed_ms, token, release FROM item WHERE state <> noted LIMIT ?1",
    )?;
    let rows = find.query_map([CHANGES_SLICE as i64], |row| {
        Ok((
            row.get(0)?,
            Change {
                id: row.get(1)?,
                state: State::parse(row.get_ref(2)?.as_str()?),
                changed_ms: row.get(3)?,
                token: row.get(4)?,
                release: row.get(5)?,
            },
        ))
    })?;
    rows.collect()
}

/// All changes that a list made again has to know.
fn needed_changes(connection: &Connection) -> rusqlite::Result<Vec<Change>> {
    let mut find = connection.prepare_cached(
        "SELECT id, state, changed_ms, token, release FROM item WHERE state <> 'held' \
         UNION ALL SELECT id, 'deleted', 0, NULL, NULL FROM gone \
         WHERE NOT EXISTS (SELECT 1 FROM item WHERE item.id = gone.id)",
    )?;
    let rows = find.query_map([], |row| {
        Ok(Change {
            id: row.get(0)?,
            state: State::parse(row.get_ref(1)?.as_str()?),
            changed_ms: row.get(2)?,
            token: row.get(3)?,
            release: row.get(4)?,
        })
    })?;
    rows.collect()
}

/// The live records of a pack, in their order.
fn live_records(connection: &Connection, pack: u64) -> rusqlite::Result<Vec<Live>> {
    let bodies = index::bodies_of(connection, pack)?;
    let mut live: Vec<Live> = bodies.into_iter().map(|(hash, at)| Live::Body(hash, at)).collect();
    let mut find = connection.prepare_cached(
        "SELECT seq, pack, entry_offset, entry_bytes FROM item WHERE pack = ?1 ORDER BY entry_offset",
    )?;
    let rows =
        find.query_map([stored(pack)], |row| Ok(Live::Entry(row.get(0)?, location(row, 1)?)))?;
    for row in rows {
        live.push(row?);
    }
    live.sort_by_key(|one| one.location());
    Ok(live)
}
