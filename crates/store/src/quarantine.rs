//! Messages held for review: stored by the mail path, listed, read, released, deleted, and removed
//! by retention.
//!
//! Bodies are in packs ([`crate::packs`]); a database says where. An item is durable before
//! [`Quarantine::put`] returns: first its records, then its row. Its states are
//!
//! ```text
//! held -> releasing -> released        released, deleted: the row stays until retention
//!   |         |                        removes it, so that a second attempt gets a clear answer
//!   |         +-> held (abandoned)
//!   +-> deleted
//! ```
//!
//! A pack has beside each body what is kept about it, and the packs of the group [`CHANGES`] have
//! what became of items: from both a lost database is made again ([`Quarantine::rebuild`]).
//!
//! A release has a token; only the caller that began it finishes it. The node spools the message
//! under the token's name, then finishes the release. After a crash it resumes
//! [`Quarantine::unfinished_releases`] under the same names. So a message that is released twice is
//! delivered once.
//!
//! Every change is written in one transaction with its audit log entry.

mod audit;
mod bodies;
mod compact;
mod entry;
mod feed;
mod held_mail;
mod item;
mod moving;
mod put;
mod recover;
mod release;
mod retention;
mod rows;
mod schema;
mod search;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::content::{BodyKeys, Content, SEAL_MAGIC};
use crate::database;
use crate::error::StoreError;
use crate::packs::index::{self, PackTotals};
use crate::packs::{PackOptions, Packs};

pub use audit::AuditLine;
pub(crate) use audit::{audit_line, lines_after};
pub use bodies::DamagedItem;
pub use entry::CHANGES;
pub use feed::{ChangedItem, HeldBacklog, HeldChanges, StoredBody};
pub use held_mail::HeldMail;
pub use item::{Held, QuarantineItem, State};
use recover::Changes;
pub use recover::Recovered;
pub use release::{Begin, FolderRelease, Release, ReleaseOrder, ReleaseRight, USER_FOLDERS};
pub use retention::FolderLimit;
pub use search::{FolderSummary, HeldPage, HeldQuery};

use rows::{Drop, drop_body, find_state, set_state};
pub(crate) use schema::MIGRATIONS;

/// What [`Quarantine::delete`] found and did.
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
    packs: Packs,
    /// Bodies in files of their own, of before the packs; and the keys of all.
    content: Content,
    /// Everything that writes holds this, and SQLite's lock for writing, from before its records
    /// are appended until their rows are committed: in any process, a pack and its index change
    /// together.
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
    /// Who may release from which folder, by configuration.
    folder_release: RwLock<FolderRelease>,
    /// Folders whose mail is kept for another time than the rest: they have packs of their own.
    own_packs: RwLock<BTreeSet<String>>,
    /// There may be bodies in files of their own.
    has_old: AtomicBool,
}

impl Quarantine {
    /// Opens or creates the quarantine in this folder: `quarantine.db` and `packs/`. What a crash
    /// left in the packs is put in order.
    ///
    /// # Errors
    /// If the folder cannot be used or another process writes there, or the database is damaged or
    /// newer than this program.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::open_with(folder, None)
    }

    /// The same, with keys of encrypted bodies.
    ///
    /// # Errors
    /// As [`Quarantine::open`].
    pub fn open_with(folder: &Path, keys: Option<BodyKeys>) -> Result<Self, StoreError> {
        check_not_lost(folder)?;
        let packs = Packs::open(&folder.join(PACKS), PackOptions::default())?;
        Self::open_on(folder, packs, keys)
    }

    /// Refuses a folder that [`Quarantine::open`] would refuse for its list. Changes nothing.
    ///
    /// # Errors
    /// That the list is lost, damaged or newer than this program.
    pub fn check(folder: &Path) -> Result<(), StoreError> {
        check_not_lost(folder)?;
        let path = folder.join("quarantine.db");
        database::check(&path, MIGRATIONS, |c| index::packs(c).map(drop))
    }

    /// [`Quarantine::open_with`] with these packs, to which nobody else writes.
    pub(crate) fn open_on(
        folder: &Path,
        packs: Packs,
        keys: Option<BodyKeys>,
    ) -> Result<Self, StoreError> {
        let quarantine = Self::open_database(folder, packs, keys)?;
        let recovered = quarantine.recover(Changes::IfNewer)?;
        if recovered != Recovered::default() {
            tracing::warn!(?recovered, "the packs of held mail were put in order");
        }
        quarantine.note_changes()?;
        quarantine.remove_old_garbage()?;
        quarantine.reclaim()?;
        Ok(quarantine)
    }

    /// The same, while another process may be storing mail in it.
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
        check_not_lost(folder)?;
        let packs = Packs::open_shared(&folder.join(PACKS), PackOptions::default())?;
        Self::open_database(folder, packs, keys)
    }

    fn open_database(
        folder: &Path,
        packs: Packs,
        keys: Option<BodyKeys>,
    ) -> Result<Self, StoreError> {
        let path = folder.join("quarantine.db");
        let content = Content::existing(&folder.join(OLD_BODIES))?.with_keys(keys);
        let writer = database::open_busy(&path, MIGRATIONS)?;
        let cache = format!("PRAGMA cache_size = -{CACHE_KB};");
        writer.execute_batch(&cache).map_err(StoreError::db(&path))?;
        let reader = database::open_read(&path, MIGRATIONS)?;
        Ok(Quarantine {
            path,
            packs,
            content,
            writer: Mutex::new(writer),
            reader: Mutex::new(reader),
            folder_release: RwLock::default(),
            own_packs: RwLock::default(),
            has_old: AtomicBool::new(folder.join(OLD_BODIES).exists()),
        })
    }

    /// Says which folders are kept for another time than the rest.
    pub fn set_own_packs(&self, folders: impl IntoIterator<Item = String>) {
        let folders = folders.into_iter().collect();
        *self.own_packs.write().unwrap_or_else(PoisonError::into_inner) = folders;
    }

    /// Totals of the packs.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn pack_totals(&self) -> Result<PackTotals, StoreError> {
        self.read(index::totals)
    }

    /// Whether bodies of before the packs may still be in files of their own.
    fn has_old_bodies(&self) -> bool {
        self.has_old.load(Ordering::Relaxed)
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
            drop_body(batch, seq, Drop::Deleted)?;
            set_state(batch, seq, State::Deleted, now_ms)?;
            audit::write(batch, now_ms, who, "delete", id, "")?;
            Ok(Deletion::Done)
        })?;
        // On a full disk there is room for no note; the node's next round makes it.
        if let Err(error) = self.note_changes() {
            tracing::warn!(%error, "a deletion could not be noted in the packs");
        }
        self.reclaim()?;
        Ok(deletion)
    }

    /// The keys of encrypted bodies.
    pub fn keys(&self) -> Option<&BodyKeys> {
        self.content.keys()
    }

    /// Runs `change` in one durable transaction.
    fn change<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.commit(|batch| change(batch).map_err(StoreError::db(&self.path)))
    }

    /// Runs `change` in one durable transaction that nobody else writes beside, from its beginning
    /// on: what it appends to packs is committed with it.
    fn commit<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let db = StoreError::db(&self.path);
        let batch =
            writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&db)?;
        let value = change(&batch)?;
        batch.commit().map_err(&db)?;
        Ok(value)
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

/// Memory for pages of the list, at most, in KiB. Hashes of bodies come in no order: with SQLite's
/// 2 MB a day of a hundred thousand items is read again and again while it is written.
const CACHE_KB: u32 = 16 << 10;

/// Folder of the packs.
pub const PACKS: &str = "packs";
/// Folder of bodies in files of their own, of before the packs.
const OLD_BODIES: &str = "bodies";

/// Refuses a folder with held mail, but without the list of it.
fn check_not_lost(folder: &Path) -> Result<(), StoreError> {
    let path = folder.join("quarantine.db");
    if !database::is_blank(&path)? || !has_any_body(folder)? {
        return Ok(());
    }
    Err(lost_error(path, Packs::has_any(&folder.join(PACKS))?))
}

/// Whether a quarantine's folder holds any message.
///
/// # Errors
/// If it cannot be listed.
pub fn has_any_body(folder: &Path) -> Result<bool, StoreError> {
    Ok(Packs::has_any(&folder.join(PACKS))? || Content::has_any(&folder.join(OLD_BODIES))?)
}

/// Whether any body in a quarantine's folder is sealed, as far as the beginnings of its packs say.
///
/// # Errors
/// If the packs cannot be listed or read.
pub fn has_sealed_bodies(folder: &Path) -> Result<bool, StoreError> {
    Packs::any_begins_with(&folder.join(PACKS), |bytes| {
        bytes.windows(SEAL_MAGIC.len()).any(|window| window == SEAL_MAGIC)
    })
}

/// Bodies without the database, which new mail would hide.
fn lost_error(path: PathBuf, has_packs: bool) -> StoreError {
    let hint = match has_packs {
        true => {
            "stop the node and make the list again from the packs (`gauntlet quarantine rebuild`), or \
             restore it from a backup (`gauntlet backup`); or, to start with an empty quarantine, move \
             the folder `quarantine` away"
        }
        false => {
            "restore it from a backup (`gauntlet backup`); or, to start with an empty quarantine, move \
             the folder `quarantine` away: each file in its `bodies` is one message as received"
        }
    };
    StoreError::Lost {
        path,
        cause:
            "the list of held mail is empty or gone, but there are bodies of held mail beside it. \
                Nothing was changed"
                .to_owned(),
        hint: hint.to_owned(),
    }
}

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod pack_tests;
#[cfg(test)]
mod tests;
