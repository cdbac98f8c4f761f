//! Bodies in files of their own, as versions before the packs wrote them: read in place, and moved
//! into packs while the node runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use rusqlite::{Transaction, params};

use super::entry::{OwnedRecord, entry_record, group_of};
use super::rows::set_entry;
use super::{Held, Quarantine, search};
use crate::content::ContentHash;
use crate::error::StoreError;
use crate::packs::Kind;
use crate::packs::index;

/// Items that are moved in one transaction.
const SLICE: usize = 256;
/// Bytes of bodies that are moved in one transaction: new mail waits for no more.
const SLICE_BYTES_MAX: u64 = 8 << 20;

/// One transaction's worth of moving.
#[derive(Debug, Default)]
struct Slice {
    /// Number of the last item that was looked at.
    last: Option<i64>,
    /// Bodies whose files are of no use any more.
    moved: Vec<ContentHash>,
    items: u64,
}

/// A record that is moved: the item that it is of, if it is not a body.
type Moving = (Option<i64>, OwnedRecord<'static>);

impl Quarantine {
    /// Moves bodies of before the packs into packs, until all are there or `go_on` says no. Returns
    /// how many items were moved. Damaged ones stay where they are.
    ///
    /// # Errors
    /// If a pack or the database cannot be written; those before are moved.
    pub fn move_old(&self, mut go_on: impl FnMut() -> bool) -> Result<u64, StoreError> {
        if !self.has_old_bodies() {
            return Ok(0);
        }
        self.packs.lock_writer()?;
        let (mut after, mut items) = (0, 0);
        while go_on() {
            let slice = self.commit(|batch| self.move_slice(batch, after))?;
            for hash in slice.moved {
                self.content.remove(hash)?;
            }
            items += slice.items;
            let Some(last) = slice.last else {
                self.clear_old()?;
                break;
            };
            after = last;
        }
        Ok(items)
    }

    fn move_slice(&self, batch: &Transaction<'_>, after: i64) -> Result<Slice, StoreError> {
        let db = StoreError::db(&self.path);
        let find = || -> rusqlite::Result<Vec<(Held, String)>> {
            let columns = search::COLUMNS;
            let mut find = batch.prepare_cached(&format!(
                "SELECT {columns}, content FROM item WHERE item.seq > ?1 AND content IS NOT NULL \
                 AND pack IS NULL ORDER BY item.seq LIMIT ?2"
            ))?;
            let rows = find.query_map(params![after, SLICE as i64], |row| {
                Ok((search::held(row)?, row.get(search::COLUMNS_COUNT)?))
            })?;
            rows.collect()
        };
        let mut slice = Slice::default();
        let (mut planned, mut bytes) = (BTreeMap::<String, Vec<Moving>>::new(), 0);
        for (held, content) in find().map_err(&db)? {
            slice.last = Some(held.seq);
            let Some(hash) = ContentHash::parse(&content) else { continue };
            // Days, not folders: what is old is gone before that matters.
            let records = planned.entry(group_of(held.item.received_ms, None)).or_default();
            if index::find_body(batch, hash).map_err(&db)?.is_none() && !slice.moved.contains(&hash)
            {
                let payload = match self.content.stored(hash) {
                    Ok(Some(raw)) => raw,
                    Ok(None) => continue,
                    Err(error) => {
                        tracing::error!(%error, item = held.item.id, "a held message cannot be moved into a pack");
                        continue;
                    }
                };
                bytes += payload.len() as u64;
                records
                    .push((None, OwnedRecord { kind: Kind::Body, hash, payload: payload.into() }));
            }
            slice.moved.push(hash);
            records
                .push((Some(held.seq), entry_record(&self.content, &held.item, held.size, hash)?));
            slice.items += 1;
            if bytes >= SLICE_BYTES_MAX {
                break;
            }
        }
        for (group, moving) in planned.iter().filter(|(_, moving)| !moving.is_empty()) {
            let new: Vec<_> = moving.iter().map(|(_, record)| record.as_new()).collect();
            let locations = self.packs.append(group, &new)?;
            index::note_appended(batch, group, &locations).map_err(&db)?;
            for ((seq, record), at) in moving.iter().zip(&locations) {
                match seq {
                    Some(seq) => set_entry(batch, *seq, *at),
                    None => index::set_body(batch, record.hash, *at),
                }
                .map_err(&db)?;
            }
        }
        Ok(slice)
    }

    /// Every item has its body in a pack, or cannot be moved: removes what is left of the old
    /// files, but not what nobody knows.
    fn clear_old(&self) -> Result<(), StoreError> {
        let mut left = 0;
        for hash in self.content.all()? {
            match self.read(|c| index::find_body(c, hash))? {
                Some(_) => {
                    self.content.remove(hash)?;
                }
                None => left += 1,
            }
        }
        let folder = self.path.with_file_name(super::OLD_BODIES);
        if left == 0 {
            remove_empty(&folder, 0);
        }
        self.has_old.store(folder.exists(), Ordering::Relaxed);
        if left > 0 {
            tracing::warn!(
                files = left,
                folder = %folder.display(),
                "files of held mail are left that no message needs, or that are damaged"
            );
        }
        Ok(())
    }

    /// Removes files of bodies that were deleted.
    pub(super) fn remove_old_garbage(&self) -> Result<(), StoreError> {
        let any = "SELECT 1 FROM garbage LIMIT 1";
        if !self.packs.is_writer() || !self.read(|c| c.prepare_cached(any)?.exists([]))? {
            return Ok(());
        }
        let unused: Vec<String> = self.read(|c| {
            let mut find = c.prepare_cached(
                "SELECT content FROM garbage WHERE NOT EXISTS \
                 (SELECT 1 FROM item WHERE item.content = garbage.content AND item.pack IS NULL)",
            )?;
            find.query_map([], |row| row.get(0))?.collect()
        })?;
        for hash in unused.iter().filter_map(|h| ContentHash::parse(h)) {
            self.content.remove(hash)?;
        }
        self.change(|batch| {
            for hash in &unused {
                batch.execute("DELETE FROM garbage WHERE content = ?1", [hash])?;
            }
            Ok(())
        })
    }
}

/// Removes folders without files, and partial files of a crash, three levels deep.
fn remove_empty(folder: &Path, depth: usize) {
    let is_partial = folder.file_name().is_some_and(|name| name == "incoming");
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && depth < 3 {
            remove_empty(&path, depth + 1);
        } else if is_partial {
            let _stays_if_it_must = fs::remove_file(&path);
        }
    }
    let _stays_unless_empty = fs::remove_dir(folder);
}
