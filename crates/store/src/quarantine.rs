//! Messages held for review: stored by the mail path, listed, read, released, deleted, and removed
//! by retention.
//!
//! An item is durable before [`Quarantine::put`] returns: first the body, then the row. Its states
//! are
//!
//! ```text
//! held -> releasing -> released        released, deleted: the row stays until retention
//!   |         |                        removes it, so that a second attempt gets a clear answer
//!   |         +-> held (abandoned)
//!   +-> deleted
//! ```
//!
//! A release has a token; only the caller that began it finishes it. The node spools the message
//! under the token's name, then finishes the release. After a crash it resumes
//! [`Quarantine::unfinished_releases`] under the same names. So a message that is released twice is
//! delivered once.
//!
//! Every change is written in one transaction with its audit log entry.

mod audit;
mod item;
mod release;
mod retention;
mod rows;
mod schema;
mod search;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use rusqlite::{Connection, OptionalExtension, Transaction};

use crate::content::{BodyKeys, Content, ContentHash};
use crate::database;
use crate::error::StoreError;

pub use audit::AuditLine;
pub use item::{Held, QuarantineItem, State};
pub use release::{Begin, FolderRelease, Release, ReleaseOrder, ReleaseRight, USER_FOLDERS};
pub use retention::FolderLimit;
pub use search::{FolderSummary, HeldPage, HeldQuery};

use rows::{drop_body, find_state, insert, set_state};
use schema::MIGRATIONS;

/// Outcome of [`Quarantine::delete`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// The item is deleted.
    Done,
    /// It was not held any more; this is its state.
    NotHeld(State),
    /// There is no such item, or retention removed it.
    Unknown,
}

/// The quarantine of a node. Share it as `Arc<Quarantine>`; every method may be called from any
/// thread and blocks.
#[derive(Debug)]
pub struct Quarantine {
    path: PathBuf,
    content: Content,
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
    /// Read-locked while a body and its row are stored, write-locked while unreferenced bodies are
    /// removed: else a body could be removed before its row is written.
    bodies: RwLock<()>,
    /// Who may release from which folder, by configuration.
    folder_release: RwLock<FolderRelease>,
    /// Only this process stores bodies, so it may remove those that no row references. `bodies`
    /// does not lock other processes out.
    is_exclusive: bool,
}

impl Quarantine {
    /// Opens or creates the quarantine in this folder: `quarantine.db` and `bodies/`.
    ///
    /// # Errors
    /// If the folder cannot be used, or the database is damaged or newer than this program.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::open_with(folder, None)
    }

    /// The same, with keys of encrypted bodies.
    ///
    /// # Errors
    /// As [`Quarantine::open`].
    pub fn open_with(folder: &Path, keys: Option<BodyKeys>) -> Result<Self, StoreError> {
        let content = Content::open(&folder.join("bodies"))?.with_keys(keys);
        let quarantine = Self::open_content(folder, content, true)?;
        quarantine.collect_garbage()?;
        Ok(quarantine)
    }

    /// The same, while another process may be storing mail in it: its bodies that no row references
    /// yet are not removed.
    ///
    /// # Errors
    /// As [`Quarantine::open`].
    pub fn open_shared(folder: &Path) -> Result<Self, StoreError> {
        Self::open_shared_with(folder, None)
    }

    /// The same, with keys of encrypted bodies.
    ///
    /// # Errors
    /// As [`Quarantine::open`].
    pub fn open_shared_with(folder: &Path, keys: Option<BodyKeys>) -> Result<Self, StoreError> {
        let content = Content::open_shared(&folder.join("bodies"))?.with_keys(keys);
        Self::open_content(folder, content, false)
    }

    fn open_content(
        folder: &Path,
        content: Content,
        is_exclusive: bool,
    ) -> Result<Self, StoreError> {
        let path = folder.join("quarantine.db");
        if database::is_blank(&path)? && Content::has_any(&folder.join("bodies"))? {
            return Err(lost_error(path));
        }
        let writer = database::open_write(&path, MIGRATIONS)?;
        let reader = database::open_read(&path, MIGRATIONS)?;
        Ok(Quarantine {
            path,
            content,
            writer: Mutex::new(writer),
            reader: Mutex::new(reader),
            bodies: RwLock::new(()),
            folder_release: RwLock::default(),
            is_exclusive,
        })
    }

    /// Holds a message; durable when it returns. False if an item of this id is known already.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn put(&self, item: &QuarantineItem, raw: &[u8]) -> Result<bool, StoreError> {
        Ok(self.put_many(&[(item, raw)])? == 1)
    }

    /// Holds several messages with one commit. Returns how many were new.
    ///
    /// # Errors
    /// If they could not all be made durable; then none of the new ones is held.
    pub fn put_many(&self, items: &[(&QuarantineItem, &[u8])]) -> Result<u64, StoreError> {
        let _keep_bodies = self.bodies.read().unwrap_or_else(PoisonError::into_inner);
        let mut hashes = Vec::with_capacity(items.len());
        for (_, raw) in items {
            hashes.push(self.content.put(raw)?);
        }
        self.change(|batch| {
            let mut new = 0;
            for ((item, raw), hash) in items.iter().zip(&hashes) {
                new += u64::from(insert(batch, item, raw.len(), *hash)?);
            }
            Ok(new)
        })
    }

    /// Time of reception of the newest item, in Unix milliseconds; none if there is none.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn newest_ms(&self) -> Result<Option<i64>, StoreError> {
        self.read(|c| c.query_row("SELECT max(received_ms) FROM item", [], |row| row.get(0)))
    }

    /// The item; none if it does not exist, or retention removed it.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn get(&self, id: &str) -> Result<Option<Held>, StoreError> {
        self.read(|c| {
            let sql = format!("SELECT {} FROM item WHERE id = ?1", search::COLUMNS);
            c.prepare_cached(&sql)?.query_row([id], search::held).optional()
        })
    }

    /// The message as received; none if the item is unknown or its body is deleted.
    ///
    /// # Errors
    /// If the body cannot be read, or is damaged.
    pub fn body(&self, id: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let hash = self.read(|c| {
            let mut find = c.prepare_cached("SELECT content FROM item WHERE id = ?1")?;
            find.query_row([id], |row| row.get::<_, Option<String>>(0)).optional()
        })?;
        match hash.flatten().as_deref().and_then(ContentHash::parse) {
            Some(hash) => self.content.get(hash),
            None => Ok(None),
        }
    }

    /// Deletes a held item: its body is removed, its row stays until retention removes it.
    ///
    /// # Errors
    /// If the change could not be made durable.
    pub fn delete(&self, id: &str, who: &str, now_ms: i64) -> Result<Deletion, StoreError> {
        let deletion = self.change(|batch| {
            let Some((seq, state)) = find_state(batch, id)? else { return Ok(Deletion::Unknown) };
            if state != State::Held {
                return Ok(Deletion::NotHeld(state));
            }
            drop_body(batch, seq)?;
            set_state(batch, seq, State::Deleted, now_ms)?;
            audit::write(batch, now_ms, who, "delete", id, "")?;
            Ok(Deletion::Done)
        })?;
        self.collect_garbage()?;
        Ok(deletion)
    }

    /// Encrypts every body with the first key, or decrypts all permanently if the keys do not
    /// encrypt. Returns how many were rewritten.
    ///
    /// # Errors
    /// If one cannot be read, decrypted or written; those before it are done.
    pub fn reencrypt(&self) -> Result<u64, StoreError> {
        self.collect_garbage()?;
        let mut written = 0;
        for hash in self.content.all()? {
            // A body that is removed meanwhile must not be written again.
            let _keep_bodies = self.bodies.write().unwrap_or_else(PoisonError::into_inner);
            if self.is_garbage(hash)? {
                continue;
            }
            written += u64::from(self.content.reencrypt(hash)?);
        }
        Ok(written)
    }

    /// The keys of encrypted bodies.
    pub fn keys(&self) -> Option<&BodyKeys> {
        self.content.keys()
    }

    /// A body that was deleted and waits for the node to remove it.
    fn is_garbage(&self, hash: ContentHash) -> Result<bool, StoreError> {
        self.read(|c| {
            let mut find = c.prepare_cached(
                "SELECT 1 FROM garbage WHERE content = ?1 AND NOT EXISTS \
                 (SELECT 1 FROM item WHERE item.content = garbage.content)",
            )?;
            find.exists([hash.to_string()])
        })
    }

    /// Removes the bodies that no row references any more.
    fn collect_garbage(&self) -> Result<(), StoreError> {
        if !self.is_exclusive {
            // The node does so in its next round of retention.
            return Ok(());
        }
        let any = self.read(|c| c.prepare_cached("SELECT 1 FROM garbage LIMIT 1")?.exists([]))?;
        if !any {
            return Ok(());
        }
        let _no_new_bodies = self.bodies.write().unwrap_or_else(PoisonError::into_inner);
        let unused: Vec<String> = self.read(|c| {
            let mut find = c.prepare_cached(
                "SELECT content FROM garbage WHERE NOT EXISTS \
                 (SELECT 1 FROM item WHERE item.content = garbage.content)",
            )?;
            find.query_map([], |row| row.get(0))?.collect()
        })?;
        for hash in unused.iter().filter_map(|h| ContentHash::parse(h)) {
            self.content.remove(hash)?;
        }
        self.change(|batch| {
            batch.execute("DELETE FROM garbage", [])?;
            Ok(())
        })
    }

    /// Runs `change` in one durable transaction.
    fn change<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let run = || {
            let batch = writer.transaction()?;
            let value = change(&batch)?;
            batch.commit()?;
            Ok(value)
        };
        run().map_err(StoreError::db(&self.path))
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let reader: MutexGuard<'_, Connection> =
            self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        read(&reader).map_err(StoreError::db(&self.path))
    }
}

/// Bodies without the database: recipients and reasons are lost, and new mail would hide that
/// the old is there.
fn lost_error(path: PathBuf) -> StoreError {
    StoreError::Lost {
        path,
        cause: "the list of held mail is empty or gone, but there are bodies of held mail beside it. \
                Nothing was changed"
            .to_owned(),
        hint: "restore it from a backup (`gauntlet backup`); or, to start with an empty quarantine, move \
               the folder `quarantine` away: each file in its `bodies` is one message as received"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests;
