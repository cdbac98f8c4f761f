//! Holding messages: many with one sync and one transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use rusqlite::Transaction;

use super::entry::{OwnedRecord, entry_record, group_of};
use super::rows::{entry_of, insert, is_known, set_entry};
use super::{Quarantine, QuarantineItem};
use crate::content::ContentHash;
use crate::error::StoreError;
use crate::packs::index;
use crate::packs::{Kind, Location};

/// What is appended to the packs of one group.
#[derive(Debug, Default)]
struct Planned<'a> {
    records: Vec<OwnedRecord<'a>>,
    /// What each of them is.
    what: Vec<What>,
}

#[derive(Debug, Clone, Copy)]
enum What {
    /// A body, in place of the record there, which cannot be read.
    Body(Option<Location>),
    /// The record of the item with this number in the batch.
    Item(usize),
}

impl Quarantine {
    /// Holds a message; durable when it returns. False if an item of this id is known already.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn put(&self, item: &QuarantineItem, raw: &[u8]) -> Result<bool, StoreError> {
        Ok(self.put_many(&[(item, raw)])? == 1)
    }

    /// Holds several messages with one sync for each group of packs, and one commit. Returns how
    /// many were new.
    ///
    /// # Errors
    /// If they could not all be made durable; then none of the new ones is held.
    pub fn put_many(&self, items: &[(&QuarantineItem, &[u8])]) -> Result<u64, StoreError> {
        self.packs.lock_writer()?;
        let hashes: Vec<ContentHash> = items.iter().map(|(_, raw)| ContentHash::of(raw)).collect();
        let mut appended = Vec::new();
        let done = self.commit(|batch| {
            let planned = self.plan(batch, items, &hashes)?;
            let mut new = 0;
            for (group, Planned { records, what }) in planned {
                let records: Vec<_> = records.iter().map(OwnedRecord::as_new).collect();
                let locations = self.packs.append(&group, &records)?;
                appended.push(locations.clone());
                index::note_appended(batch, &group, &locations)
                    .map_err(StoreError::db(&self.path))?;
                let written = what.iter().zip(&records).zip(&locations);
                let written = written.map(|((what, record), at)| (*what, record.hash, *at));
                new += self.write_rows(batch, written, items, &hashes)?;
            }
            Ok(new)
        });
        if done.is_err() {
            appended.iter().for_each(|locations| self.packs.retract(locations));
        }
        done
    }

    /// What is to be appended: the bodies that are in no pack yet, and a record of each new item.
    fn plan<'a>(
        &self,
        batch: &Transaction<'_>,
        items: &[(&'a QuarantineItem, &'a [u8])],
        hashes: &[ContentHash],
    ) -> Result<BTreeMap<String, Planned<'a>>, StoreError> {
        let db = StoreError::db(&self.path);
        let own_packs = self.own_packs.read().unwrap_or_else(PoisonError::into_inner);
        let mut planned: BTreeMap<String, Planned<'a>> = BTreeMap::new();
        let (mut bodies, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for (number, ((item, raw), hash)) in items.iter().zip(hashes).enumerate() {
            if !ids.insert(&item.id) || self.is_held_whole(batch, &item.id, *hash)? {
                continue;
            }
            let own = own_packs.get(&item.folder).map(String::as_str);
            let group = planned.entry(group_of(item.received_ms, own)).or_default();
            let known = index::find_body(batch, *hash).map_err(&db)?;
            // What cannot be read any more is no reason to let go of what was received.
            let is_stored =
                || known.is_some_and(|at| matches!(self.body_at(*hash, at), Ok(Some(_))));
            if bodies.insert(*hash) && !is_stored() {
                let payload = self.content.encode(*hash, raw)?;
                group.records.push(OwnedRecord { kind: Kind::Body, hash: *hash, payload });
                group.what.push(What::Body(known));
            }
            group.records.push(entry_record(&self.content, item, raw.len() as u64, *hash)?);
            group.what.push(What::Item(number));
        }
        Ok(planned)
    }

    /// Whether an item is known, and what its row refers to can be read. A commit that failed may
    /// be there after a crash all the same (SQLite's log had it, only its sync failed); its records
    /// were taken back. The spool still has the message, and it is stored again.
    fn is_held_whole(
        &self,
        batch: &Transaction<'_>,
        id: &str,
        hash: ContentHash,
    ) -> Result<bool, StoreError> {
        let db = StoreError::db(&self.path);
        if !is_known(batch, id).map_err(&db)? {
            return Ok(false);
        }
        // One without a record is deleted, or of before the packs.
        let Some((_, entry)) = entry_of(batch, id).map_err(&db)? else { return Ok(true) };
        let Some(body) = index::find_body(batch, hash).map_err(&db)? else { return Ok(true) };
        Ok(matches!(self.packs.read(entry), Ok(Some(_)))
            && matches!(self.body_at(hash, body), Ok(Some(_))))
    }

    /// Writes the rows of records that are durable. Returns how many items are new.
    fn write_rows(
        &self,
        batch: &Transaction<'_>,
        written: impl Iterator<Item = (What, ContentHash, Location)>,
        items: &[(&QuarantineItem, &[u8])],
        hashes: &[ContentHash],
    ) -> Result<u64, StoreError> {
        let mut new = 0;
        let write = || -> rusqlite::Result<()> {
            for (what, hash, at) in written {
                match what {
                    What::Body(unreadable) => {
                        if let Some(unreadable) = unreadable {
                            index::note_dead(batch, unreadable)?;
                        }
                        index::set_body(batch, hash, at)?;
                    }
                    What::Item(number) => {
                        let Some(((item, raw), body)) = items.get(number).zip(hashes.get(number))
                        else {
                            continue;
                        };
                        let is_new = insert(batch, item, raw.len() as u64, *body, at)?;
                        if !is_new && let Some((seq, before)) = entry_of(batch, &item.id)? {
                            index::note_dead(batch, before)?;
                            set_entry(batch, seq, at)?;
                        }
                        new += u64::from(is_new);
                    }
                }
            }
            Ok(())
        };
        write().map_err(StoreError::db(&self.path))?;
        Ok(new)
    }
}
