//! What the array has not got yet of held mail.
//!
//! While a node belongs to an array, every change of an item (it is put, released, deleted,
//! forgotten) leaves a row in `unshipped_item`, in the transaction that makes the change, and
//! whichever process makes it. A shipper reads the changes in order, sends the items as they are by
//! then, and forgets the changes up to the last one it read. Sending twice is harmless.

use std::collections::BTreeSet;

use rusqlite::{OptionalExtension, params};

use super::search::{COLUMNS, held};
use super::{Held, Quarantine};
use crate::content::{Content, ContentHash};
use crate::error::StoreError;
use crate::packs::index;

/// Changes of held mail that the array has not got, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldChanges {
    /// Number of the last change; [`Quarantine::shipped`] forgets it and all before.
    pub last: i64,
    /// Changes read.
    pub count: usize,
    /// More wait: a limit ended this list.
    pub is_full: bool,
    /// Ids of the items that changed, each once, in the order of their first change.
    pub ids: Vec<String>,
}

/// An item that changed, as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedItem {
    /// Id of the item.
    pub id: String,
    /// The item; none if retention removed it.
    pub held: Option<Held>,
    /// Hash of its body in clear; none if it has none any more.
    pub body: Option<ContentHash>,
}

/// Held mail that waits for the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldBacklog {
    /// Changes that wait.
    pub changes: u64,
    /// When the item of the oldest change was received, in Unix milliseconds; none if nothing
    /// waits, or that item was removed meanwhile.
    pub oldest_ms: Option<i64>,
}

/// A body as the node keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredBody {
    /// Encrypted with the node's key.
    Sealed(Vec<u8>),
    /// As received.
    Clear(Vec<u8>),
}

impl Quarantine {
    /// Begins to note changes for the array; the first time all items wait. Call it at each start
    /// of a node that belongs to an array. Returns how many changes wait.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn begin_feed(&self) -> Result<u64, StoreError> {
        self.change(|batch| {
            let began = batch.query_row("SELECT 1 FROM feed", [], |_| Ok(())).optional()?;
            if began.is_none() {
                batch.execute_batch(
                    "DELETE FROM unshipped_item; \
                     INSERT INTO unshipped_item (id) SELECT id FROM item ORDER BY seq; \
                     INSERT INTO feed VALUES (1);",
                )?;
            }
            batch.query_row("SELECT count(*) FROM unshipped_item", [], |row| index::number(row, 0))
        })
    }

    /// Notes no more changes: the node belongs to no array. The next feed begins with all items.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn end_feed(&self) -> Result<(), StoreError> {
        let feeds = self.read(|c| c.query_row("SELECT 1 FROM feed", [], |_| Ok(())).optional())?;
        match feeds {
            Some(()) => self.change(|batch| {
                batch.execute_batch("DELETE FROM unshipped_item; DELETE FROM feed;")
            }),
            None => Ok(()),
        }
    }

    /// Has these items wait again: the array does not know them any more.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn ship_again(&self, ids: &[String]) -> Result<(), StoreError> {
        self.change(|batch| {
            let mut wait = batch.prepare_cached("INSERT INTO unshipped_item (id) VALUES (?1)")?;
            ids.iter().try_for_each(|id| wait.execute([id]).map(drop))
        })
    }

    /// The first changes that the array has not got; none if it has all. At most `limit` changes,
    /// and items of at most `bytes_max` bytes together, but one in any case.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn unshipped(
        &self,
        limit: usize,
        bytes_max: u64,
    ) -> Result<Option<HeldChanges>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self.read(|c| {
            let mut find = c.prepare_cached(
                "SELECT change, u.id, coalesce(item.size, 0) FROM unshipped_item AS u \
                 LEFT JOIN item ON item.id = u.id ORDER BY change LIMIT ?1",
            )?;
            let rows = find.query_map([limit], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, index::number(row, 2)?))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        let mut changes =
            HeldChanges { last: 0, count: 0, is_full: rows.len() as i64 == limit, ids: Vec::new() };
        let (mut seen, mut bytes) = (BTreeSet::new(), 0_u64);
        for (change, id, size) in rows {
            if !seen.contains(&id) {
                bytes = bytes.saturating_add(size);
                if changes.count > 0 && bytes > bytes_max {
                    changes.is_full = true;
                    break;
                }
                seen.insert(id.clone());
                changes.ids.push(id);
            }
            changes.last = change;
            changes.count += 1;
        }
        Ok((changes.count > 0).then_some(changes))
    }

    /// The items of these changes as they are now.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn changed(&self, changes: &HeldChanges) -> Result<Vec<ChangedItem>, StoreError> {
        self.read(|c| {
            let sql = format!("SELECT {COLUMNS}, content FROM item WHERE id = ?1");
            let mut find = c.prepare_cached(&sql)?;
            let item = |id: &String| {
                let found = find.query_row([id], |row| {
                    let content: Option<String> = row.get(super::search::COLUMNS_COUNT)?;
                    Ok((held(row)?, content.as_deref().and_then(ContentHash::parse)))
                });
                let found = found.optional()?;
                let (held, body) = found.map_or((None, None), |(held, body)| (Some(held), body));
                Ok(ChangedItem { id: id.clone(), held, body })
            };
            changes.ids.iter().map(item).collect()
        })
    }

    /// A body as it is kept here, encrypted or not; none if it was removed meanwhile. What is in
    /// clear is verified.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub fn stored_body(&self, hash: ContentHash) -> Result<Option<StoredBody>, StoreError> {
        let Some(raw) = self.raw_content_of(hash)? else { return Ok(None) };
        let is_sealed = Content::is_sealed(&raw) && ContentHash::of(&raw) != hash;
        Ok(Some(if is_sealed { StoredBody::Sealed(raw) } else { StoredBody::Clear(raw) }))
    }

    /// The array has these changes: forgets them.
    ///
    /// # Errors
    /// If the database cannot be written; then they are sent again.
    pub fn shipped(&self, changes: &HeldChanges) -> Result<(), StoreError> {
        self.change(|batch| {
            let mut forget =
                batch.prepare_cached("DELETE FROM unshipped_item WHERE change <= ?1")?;
            forget.execute(params![changes.last])?;
            Ok(())
        })
    }

    /// Whether a change of this item waits for the array.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn waits_for_array(&self, id: &str) -> Result<bool, StoreError> {
        self.read(|c| c.prepare_cached("SELECT 1 FROM unshipped_item WHERE id = ?1")?.exists([id]))
    }

    /// When any item changed last, in Unix milliseconds; none if there is none.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn last_change_ms(&self) -> Result<Option<i64>, StoreError> {
        self.read(|c| c.query_row("SELECT max(changed_ms) FROM item", [], |row| row.get(0)))
    }

    /// What waits for the array.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn backlog(&self) -> Result<HeldBacklog, StoreError> {
        self.read(|c| {
            let mut find = c.prepare_cached(
                "SELECT (SELECT count(*) FROM unshipped_item), \
                 (SELECT received_ms FROM item WHERE id = \
                  (SELECT id FROM unshipped_item ORDER BY change LIMIT 1))",
            )?;
            find.query_row([], |row| {
                Ok(HeldBacklog { changes: index::number(row, 0)?, oldest_ms: row.get(1)? })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{begin, item};
    use super::super::{Deletion, State};
    use super::*;

    fn waiting(q: &Quarantine) -> Vec<(String, Option<State>, bool)> {
        let Some(changes) = q.unshipped(1000, u64::MAX).unwrap() else { return Vec::new() };
        let items = q.changed(&changes).unwrap().into_iter();
        items.map(|i| (i.id, i.held.map(|h| h.state), i.body.is_some())).collect()
    }

    fn ship(q: &Quarantine) {
        while let Some(changes) = q.unshipped(1000, u64::MAX).unwrap() {
            q.shipped(&changes).unwrap();
        }
    }

    #[test]
    fn every_change_waits_until_it_is_shipped() {
        let folder = tempfile::tempdir().unwrap();
        let q = Quarantine::open(folder.path()).unwrap();
        assert_eq!(q.begin_feed().unwrap(), 0);
        for n in 1..=4 {
            q.put(&item(n), format!("body {n}").as_bytes()).unwrap();
        }
        let expect = |id: &str, state, body| (id.to_owned(), state, body);
        let held = Some(State::Held);
        let all = [1, 2, 3, 4].map(|n| expect(&format!("q{n}"), held, true));
        assert_eq!(waiting(&q), all);
        assert_eq!(q.backlog().unwrap(), HeldBacklog { changes: 4, oldest_ms: Some(1000) });
        let first = q.unshipped(2, u64::MAX).unwrap().unwrap();
        assert!(first.is_full);
        // One of them changes while it is on its way.
        assert_eq!(q.delete("q1", "ada", 5).unwrap(), Deletion::Done);
        q.shipped(&first).unwrap();
        let gone = expect("q1", Some(State::Deleted), false);
        assert_eq!(waiting(&q), [all[2].clone(), all[3].clone(), gone]);
        ship(&q);
        assert_eq!(q.backlog().unwrap(), HeldBacklog::default());
        let release = begin(&q, "q2", 10);
        assert_eq!(waiting(&q), [expect("q2", Some(State::Releasing), true)]);
        q.finish_release(&release.token, 11).unwrap();
        assert_eq!(waiting(&q), [expect("q2", Some(State::Released), true)]);
        ship(&q);
        q.maintain().unwrap();
        assert_eq!(waiting(&q), [], "what is kept in packs is nobody else's affair");
        assert_eq!(q.retain(3_500, None, 12).unwrap(), 3);
        assert_eq!(waiting(&q), ["q1", "q2", "q3"].map(|id| expect(id, None, false)));
    }

    #[test]
    fn a_batch_has_a_limit_of_bytes_but_never_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let q = Quarantine::open(folder.path()).unwrap();
        q.begin_feed().unwrap();
        for n in 0..5 {
            q.put(&item(n), &vec![b'x'; 100 + usize::try_from(n).unwrap()]).unwrap();
        }
        let ids = |bytes_max| q.unshipped(1000, bytes_max).unwrap().unwrap().ids;
        assert_eq!(ids(10), ["q0"]);
        assert_eq!(ids(250), ["q0", "q1"]);
        let all = q.unshipped(1000, 10_000).unwrap().unwrap();
        assert_eq!((all.ids.len(), all.is_full), (5, false));
    }

    /// A stand-alone node joins an array, leaves it, and joins again; commands beside it take part.
    #[test]
    fn a_feed_begins_with_what_was_held_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let q = Quarantine::open(folder.path()).unwrap();
        q.put(&item(1), b"one").unwrap();
        assert_eq!(q.backlog().unwrap().changes, 0, "a node alone notes nothing");
        assert_eq!(q.begin_feed().unwrap(), 1);
        q.put(&item(2), b"two").unwrap();
        ship(&q);
        drop(q);
        let q = Quarantine::open(folder.path()).unwrap();
        q.put(&item(3), b"three").unwrap();
        assert_eq!(q.begin_feed().unwrap(), 1, "a restart sends nothing again");
        let beside = Quarantine::open_shared(folder.path()).unwrap();
        beside.delete("q1", "ada", 5).unwrap();
        let ids: Vec<String> = waiting(&q).into_iter().map(|(id, ..)| id).collect();
        assert_eq!(ids, ["q3", "q1"]);
        q.end_feed().unwrap();
        q.put(&item(4), b"four").unwrap();
        assert_eq!(waiting(&q), []);
        assert_eq!(q.begin_feed().unwrap(), 4);
    }

    #[test]
    fn bodies_are_handed_out_as_they_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let keys = crate::BodyKeys::open(&folder.path().join("keys"), true).unwrap();
        let sealed = Quarantine::open_with(&folder.path().join("sealed"), Some(keys)).unwrap();
        let clear = Quarantine::open(&folder.path().join("clear")).unwrap();
        let hash = ContentHash::of(b"a secret");
        for q in [&sealed, &clear] {
            q.put(&item(1), b"a secret").unwrap();
            assert_eq!(q.stored_body(ContentHash::of(b"unknown")).unwrap(), None);
        }
        assert_eq!(clear.stored_body(hash).unwrap(), Some(StoredBody::Clear(b"a secret".to_vec())));
        let Some(StoredBody::Sealed(raw)) = sealed.stored_body(hash).unwrap() else {
            panic!("not sealed")
        };
        assert!(!raw.windows(6).any(|w| w == b"secret"));
        let opened = Content::open_sealed(sealed.keys(), hash, "here", &raw).unwrap();
        assert_eq!(opened, b"a secret");
        let error = Content::open_sealed(None, hash, "here", &raw).unwrap_err().to_string();
        assert!(error.contains("quarantine.key_file"), "{error}");
    }
}
