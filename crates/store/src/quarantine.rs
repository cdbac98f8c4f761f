//! Messages held for a person: put in by the mail path, listed, read, released, deleted, forgotten.
//!
//! An item is on stable storage before [`Quarantine::put`] returns: first the body, then the row.
//! Its states are
//!
//! ```text
//! held -> releasing -> released        released, deleted: the row stays until retention forgets it,
//!   |         |                        so that a second attempt gets a clear answer
//!   |         +-> held (abandoned)
//!   +-> deleted
//! ```
//!
//! Whoever begins a release gets a token and alone may finish it; the node hands the message to its
//! spool under the token's name, then finishes. After a crash it takes up
//! [`Quarantine::unfinished_releases`] under the same names. So releasing twice delivers once.
//!
//! Every change is written together with its line of the audit log.

mod audit;
mod release;
mod search;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use gauntlet_engine::Class;
use gauntlet_mail::Envelope;
use gauntlet_policy::ReleasedBy;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

use crate::content::{BodyKeys, Content, ContentHash};
use crate::database;
use crate::error::StoreError;

pub use audit::AuditLine;
pub use release::{Begin, FolderRelease, Release, ReleaseOrder, ReleaseRight, USER_FOLDERS};
pub use search::{FolderSummary, HeldPage, HeldQuery};

/// Items forgotten in one transaction of [`Quarantine::retain`].
const FORGET_SLICE: usize = 200;

const MIGRATIONS: &[&str] = &["
CREATE TABLE item (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT NOT NULL UNIQUE,
    message     TEXT NOT NULL,
    folder      TEXT NOT NULL,
    state       TEXT NOT NULL,
    received_ms INTEGER NOT NULL,
    changed_ms  INTEGER NOT NULL,
    class       TEXT NOT NULL,
    score       REAL NOT NULL,
    size        INTEGER NOT NULL,
    sender      TEXT NOT NULL,
    subject     TEXT NOT NULL,
    recipients  TEXT NOT NULL,
    rest        TEXT NOT NULL,
    content     TEXT,
    token       TEXT UNIQUE,
    release     TEXT
);
CREATE INDEX item_folder ON item (folder, state, received_ms);
CREATE INDEX item_received ON item (received_ms);
CREATE INDEX item_message ON item (message);
CREATE INDEX item_content ON item (content) WHERE content IS NOT NULL;
CREATE TABLE item_recipient (
    recipient TEXT NOT NULL,
    seq       INTEGER NOT NULL REFERENCES item (seq) ON DELETE CASCADE,
    PRIMARY KEY (recipient, seq)
) WITHOUT ROWID;
CREATE INDEX item_recipient_seq ON item_recipient (seq);
CREATE TABLE garbage (content TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE audit (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms  INTEGER NOT NULL,
    who    TEXT NOT NULL,
    action TEXT NOT NULL,
    item   TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX audit_item ON audit (item);
",
    // What each folder holds, kept up as items change: counting a million rows for each page of the console would
    // cost the mail path more than all else of the page. No upsert: its conflict clause would be that of the
    // statement which caused it.
    "
CREATE TABLE folder_total (
    folder TEXT PRIMARY KEY,
    items  INTEGER NOT NULL,
    bytes  INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO folder_total SELECT folder, count(*), sum(size) FROM item WHERE state = 'held' GROUP BY folder;
CREATE TRIGGER item_put AFTER INSERT ON item WHEN new.state = 'held' BEGIN
    INSERT OR IGNORE INTO folder_total VALUES (new.folder, 0, 0);
    UPDATE folder_total SET items = items + 1, bytes = bytes + new.size WHERE folder = new.folder;
END;
CREATE TRIGGER item_held_no_more AFTER UPDATE OF state ON item WHEN old.state = 'held' AND new.state <> 'held' BEGIN
    UPDATE folder_total SET items = items - 1, bytes = bytes - old.size WHERE folder = old.folder;
END;
CREATE TRIGGER item_held_again AFTER UPDATE OF state ON item WHEN old.state <> 'held' AND new.state = 'held' BEGIN
    UPDATE folder_total SET items = items + 1, bytes = bytes + new.size WHERE folder = new.folder;
END;
CREATE TRIGGER item_forgotten AFTER DELETE ON item WHEN old.state = 'held' BEGIN
    UPDATE folder_total SET items = items - 1, bytes = bytes - old.size WHERE folder = old.folder;
END;
",
    // What the rule that held it says about releasing it: 'user', 'admin', or NULL for the folder's.
    "ALTER TABLE item ADD COLUMN released_by TEXT;",
];

/// A message to be held, for some or all of its recipients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuarantineItem {
    /// Names the item; one that is known already is left as it is.
    pub id: String,
    /// The message's id in the log.
    pub message: String,
    /// Folder, e.g. `suspect`.
    pub folder: String,
    /// Recipients it is held for; a release goes to them.
    pub recipients: Vec<String>,
    /// The whole envelope.
    pub envelope: Envelope,
    /// Unix time in milliseconds at which the message was received.
    pub received_ms: i64,
    /// Class.
    pub class: Class,
    /// Rule points.
    pub score: f64,
    /// Decoded Subject.
    pub subject: String,
    /// Decoded From field.
    pub from: String,
    /// Who may release it according to the rules that hold it; none leaves it to the folder.
    /// [`Quarantine::released_by`] is what counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleasedBy>,
}

/// Where an item is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waiting for a person.
    Held,
    /// On its way to the spool.
    Releasing,
    /// Handed to the spool.
    Released,
    /// Deleted by a person.
    Deleted,
}

impl State {
    /// Name in the database, in JSON and on pages.
    pub fn name(self) -> &'static str {
        match self {
            State::Held => "held",
            State::Releasing => "releasing",
            State::Released => "released",
            State::Deleted => "deleted",
        }
    }

    fn parse(name: &str) -> Self {
        let all = [State::Held, State::Releasing, State::Released];
        all.into_iter().find(|s| s.name() == name).unwrap_or(State::Deleted)
    }
}

/// An item as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Held {
    /// Order of arrival; of a page's last item, where the next page goes on.
    pub seq: i64,
    /// What was put in.
    pub item: QuarantineItem,
    /// Where it is in its life.
    pub state: State,
    /// Unix time in milliseconds of the last change of state.
    pub changed_ms: i64,
    /// Bytes of the message.
    pub size: u64,
}

/// How long one folder keeps mail, and how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderLimit {
    /// The folder.
    pub folder: String,
    /// Days that its mail is kept.
    pub retention_days: u32,
    /// Bytes of held mail; above, the oldest of the folder goes first.
    pub bytes_max: Option<u64>,
}

/// What became of a request to delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// It is deleted now.
    Done,
    /// It was not held any more; its state says why.
    NotHeld(State),
    /// There is no such item, or it is forgotten.
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
    /// Held for reading while a body and its row are put in, for writing while bodies that no row
    /// names are removed: else a body could vanish between the two.
    bodies: RwLock<()>,
    /// Who may release what is held in single folders, as the settings say.
    folder_release: RwLock<FolderRelease>,
    /// Nobody else puts bodies in: ours is the process that removes those which no row names. `bodies`
    /// does not keep other processes out.
    alone: bool,
}

impl Quarantine {
    /// Opens or creates the quarantine in this folder: `quarantine.db` and `bodies/`.
    ///
    /// # Errors
    /// If the folder cannot be used, or the database is damaged or newer than this program.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::open_with(folder, None)
    }

    /// The same, with keys for bodies that are sealed.
    ///
    /// # Errors
    /// As [`Quarantine::open`].
    pub fn open_with(folder: &Path, keys: Option<BodyKeys>) -> Result<Self, StoreError> {
        let content = Content::open(&folder.join("bodies"))?.with_keys(keys);
        let quarantine = Self::open_content(folder, content, true)?;
        quarantine.collect_garbage()?;
        Ok(quarantine)
    }

    /// The same, while another process may be holding mail in it: what that has put down and not
    /// yet named is left alone.
    ///
    /// # Errors
    /// As [`Quarantine::open`].
    pub fn open_beside(folder: &Path) -> Result<Self, StoreError> {
        Self::open_beside_with(folder, None)
    }

    /// The same, with keys for bodies that are sealed.
    ///
    /// # Errors
    /// As [`Quarantine::open`].
    pub fn open_beside_with(folder: &Path, keys: Option<BodyKeys>) -> Result<Self, StoreError> {
        let content = Content::open_beside(&folder.join("bodies"))?.with_keys(keys);
        Self::open_content(folder, content, false)
    }

    fn open_content(folder: &Path, content: Content, alone: bool) -> Result<Self, StoreError> {
        let path = folder.join("quarantine.db");
        if database::is_blank(&path)? && Content::has_any(&folder.join("bodies"))? {
            return Err(lost(path));
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
            alone,
        })
    }

    /// Holds a message; durable when it returns. False if an item of this id is known already.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn put(&self, item: &QuarantineItem, raw: &[u8]) -> Result<bool, StoreError> {
        Ok(self.put_many(&[(item, raw)])? == 1)
    }

    /// Holds several messages with one commit. Returns how many were not known already.
    ///
    /// # Errors
    /// If they could not all be made durable; then none is held that was not before.
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

    /// When the newest item was received, Unix milliseconds; none if there is none.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn newest_ms(&self) -> Result<Option<i64>, StoreError> {
        self.read(|c| c.query_row("SELECT max(received_ms) FROM item", [], |row| row.get(0)))
    }

    /// The item; none if there is none, or it is forgotten.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn get(&self, id: &str) -> Result<Option<Held>, StoreError> {
        self.read(|c| {
            let sql = format!("SELECT {} FROM item WHERE id = ?1", search::COLUMNS);
            c.prepare_cached(&sql)?.query_row([id], search::held).optional()
        })
    }

    /// The message's bytes as received; none if the item is unknown or its body is gone.
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

    /// Deletes a held item: its body goes, its row stays until retention forgets it.
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

    /// Forgets items received before `before_ms`, but none that is being released. Then, while the
    /// held messages of all folders together have more than `bytes_max` bytes, the oldest of them.
    /// Returns how many.
    ///
    /// # Errors
    /// If the changes could not be made durable; what was forgotten until then stays forgotten.
    pub fn retain(
        &self,
        before_ms: i64,
        bytes_max: Option<u64>,
        now_ms: i64,
    ) -> Result<u64, StoreError> {
        self.retain_except(before_ms, bytes_max, &[], now_ms)
    }

    /// The same; items of these folders are not too old, whatever their age. The cap counts for them.
    ///
    /// # Errors
    /// As [`Quarantine::retain`].
    pub fn retain_except(
        &self,
        before_ms: i64,
        bytes_max: Option<u64>,
        folders: &[FolderLimit],
        now_ms: i64,
    ) -> Result<u64, StoreError> {
        let names: Vec<&str> = folders.iter().map(|f| f.folder.as_str()).collect();
        let names = serde_json::to_string(&names).unwrap_or_default();
        let mut forgotten = 0;
        loop {
            let slice = self.change(|batch| forget_old(batch, before_ms, &names))?;
            forgotten += slice;
            self.collect_garbage()?;
            if slice == 0 {
                break;
            }
        }
        let Some(bytes_max) = bytes_max else { return Ok(forgotten) };
        forgotten += self.shrink(bytes_max, now_ms)?;
        self.collect_garbage()?;
        Ok(forgotten)
    }

    /// How many held items [`Quarantine::retain_except`] and [`Quarantine::retain_folders`] would forget for
    /// their age, and how many are held in all.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn count_expired(
        &self,
        before_ms: i64,
        folders: &[FolderLimit],
        now_ms: i64,
    ) -> Result<(u64, u64), StoreError> {
        let names: Vec<&str> = folders.iter().map(|f| f.folder.as_str()).collect();
        let names = serde_json::to_string(&names).unwrap_or_default();
        let held = self.folders()?.iter().map(|f| f.items).sum();
        let expired = self.read(|c| {
            let mut rest = c.prepare_cached(
                "SELECT count(*) FROM item WHERE received_ms < ?1 AND state = 'held' \
                 AND folder NOT IN (SELECT value FROM json_each(?2))",
            )?;
            let mut expired: i64 = rest.query_row(params![before_ms, names], |row| row.get(0))?;
            let mut of_folder = c.prepare_cached(
                "SELECT count(*) FROM item WHERE folder = ?2 AND state = 'held' AND received_ms < ?1",
            )?;
            for limit in folders {
                let before = now_ms - i64::from(limit.retention_days) * 86_400_000;
                let count: i64 =
                    of_folder.query_row(params![before, limit.folder], |row| row.get(0))?;
                expired += count;
            }
            Ok(expired)
        })?;
        Ok((u64::try_from(expired).unwrap_or(0), held))
    }

    /// Forgets the oldest held items, whatever their folder, until all together are under the cap.
    fn shrink(&self, bytes_max: u64, now_ms: i64) -> Result<u64, StoreError> {
        let held: u64 = self.folders()?.iter().map(|f| f.bytes).sum();
        let mut over = held.saturating_sub(bytes_max);
        let mut forgotten = 0;
        while over > 0 {
            let (count, bytes) = self.change(|batch| forget_oldest(batch, None, over, now_ms))?;
            if count == 0 {
                break;
            }
            forgotten += count;
            over = over.saturating_sub(bytes);
        }
        Ok(forgotten)
    }

    /// Forgets, in each of these folders, items older than the folder keeps them, then the oldest held
    /// ones over its cap. Returns how many.
    ///
    /// # Errors
    /// As [`Quarantine::retain`].
    pub fn retain_folders(&self, limits: &[FolderLimit], now_ms: i64) -> Result<u64, StoreError> {
        let mut forgotten = 0;
        for limit in limits {
            let before = now_ms - i64::from(limit.retention_days) * 86_400_000;
            let name = &limit.folder;
            loop {
                let slice = self.change(|batch| forget_of_folder(batch, name, before))?;
                forgotten += slice;
                if slice == 0 {
                    break;
                }
            }
            let held = self.folders()?.into_iter().find(|f| f.name == *name).map_or(0, |f| f.bytes);
            let mut over = held.saturating_sub(limit.bytes_max.unwrap_or(u64::MAX));
            while over > 0 {
                let (count, bytes) =
                    self.change(|batch| forget_oldest(batch, Some(name), over, now_ms))?;
                if count == 0 {
                    break;
                }
                forgotten += count;
                over = over.saturating_sub(bytes);
            }
        }
        self.collect_garbage()?;
        Ok(forgotten)
    }

    /// Seals every body with the first key, or opens all for good if the keys do not seal. Returns how
    /// many were written anew.
    ///
    /// # Errors
    /// If one cannot be read, opened or written; those before it are done.
    pub fn seal_anew(&self) -> Result<u64, StoreError> {
        let mut written = 0;
        for hash in self.content.all()? {
            // A body that is removed meanwhile must not come back.
            let _keep_bodies = self.bodies.write().unwrap_or_else(PoisonError::into_inner);
            written += u64::from(self.content.seal_anew(hash)?);
        }
        Ok(written)
    }

    /// The keys of sealed bodies.
    pub fn keys(&self) -> Option<&BodyKeys> {
        self.content.keys()
    }

    /// Removes the bodies that no row names any more.
    fn collect_garbage(&self) -> Result<(), StoreError> {
        if !self.alone {
            // The node does, with its next round of retention.
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

/// Bodies without a list of what they are: whom they are for and why they are held nobody could tell, and
/// new mail would hide that they are there.
fn lost(path: PathBuf) -> StoreError {
    StoreError::Lost {
        path,
        cause: "the list of held mail is empty or gone, but there are bodies of held mail beside it. \
                Nothing was changed"
            .to_owned(),
        mend: "put it back from a backup (`gauntlet backup` makes one); or, to begin anew, move the folder \
               `quarantine` away: each file in its `bodies` is one message as it came"
            .to_owned(),
    }
}

/// Inserts the row of an item; false if it is known.
fn insert(
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

fn find_state(batch: &Transaction<'_>, id: &str) -> rusqlite::Result<Option<(i64, State)>> {
    let mut find = batch.prepare_cached("SELECT seq, state FROM item WHERE id = ?1")?;
    find.query_row([id], |row| Ok((row.get(0)?, State::parse(row.get_ref(1)?.as_str()?))))
        .optional()
}

fn set_state(batch: &Transaction<'_>, seq: i64, state: State, now_ms: i64) -> rusqlite::Result<()> {
    let mut set =
        batch.prepare_cached("UPDATE item SET state = ?2, changed_ms = ?3 WHERE seq = ?1")?;
    set.execute(params![seq, state.name(), now_ms])?;
    Ok(())
}

/// Takes the body from the row and notes it as garbage, in the same transaction.
fn drop_body(batch: &Transaction<'_>, seq: i64) -> rusqlite::Result<()> {
    let mut note = batch.prepare_cached(
        "INSERT OR IGNORE INTO garbage SELECT content FROM item \
         WHERE seq = ?1 AND content IS NOT NULL",
    )?;
    note.execute([seq])?;
    batch.prepare_cached("UPDATE item SET content = NULL WHERE seq = ?1")?.execute([seq])?;
    Ok(())
}

/// Forgets one slice of the items that are too old, of all folders but these (a JSON list).
fn forget_old(batch: &Transaction<'_>, before_ms: i64, except: &str) -> rusqlite::Result<u64> {
    let mut find = batch.prepare_cached(
        "SELECT seq FROM item WHERE received_ms < ?1 AND state <> 'releasing' \
         AND folder NOT IN (SELECT value FROM json_each(?3)) ORDER BY received_ms LIMIT ?2",
    )?;
    let rows = find.query_map(params![before_ms, FORGET_SLICE as i64, except], |row| row.get(0))?;
    let found: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
    forget(batch, &found)
}

/// Forgets one slice of the items of a folder that are too old.
fn forget_of_folder(batch: &Transaction<'_>, name: &str, before_ms: i64) -> rusqlite::Result<u64> {
    let mut find = batch.prepare_cached(
        "SELECT seq FROM item WHERE folder = ?3 AND received_ms < ?1 AND state <> 'releasing' \
         ORDER BY received_ms LIMIT ?2",
    )?;
    let rows = find.query_map(params![before_ms, FORGET_SLICE as i64, name], |row| row.get(0))?;
    let found: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
    forget(batch, &found)
}

/// Forgets these items.
fn forget(batch: &Transaction<'_>, found: &[i64]) -> rusqlite::Result<u64> {
    for seq in found {
        drop_body(batch, *seq)?;
        batch.prepare_cached("DELETE FROM item WHERE seq = ?1")?.execute([seq])?;
    }
    Ok(found.len() as u64)
}

/// Forgets the oldest held items (of one folder, if it is named), one slice of them at most, until `over`
/// bytes are gone. Returns how many items and bytes it were.
fn forget_oldest(
    batch: &Transaction<'_>,
    folder: Option<&str>,
    over: u64,
    now_ms: i64,
) -> rusqlite::Result<(u64, u64)> {
    let mut find = batch.prepare_cached(
        "SELECT seq, size, id FROM item WHERE state = 'held' AND (?2 IS NULL OR folder = ?2) \
         ORDER BY received_ms LIMIT ?1",
    )?;
    let found: Vec<(i64, i64, String)> = find
        .query_map(params![FORGET_SLICE as i64, folder], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let (mut count, mut bytes) = (0, 0);
    for (seq, size, id) in found {
        if bytes >= over {
            break;
        }
        drop_body(batch, seq)?;
        batch.prepare_cached("DELETE FROM item WHERE seq = ?1")?.execute([seq])?;
        let why = if folder.is_some() { "folder over its cap" } else { "quarantine over its cap" };
        audit::write(batch, now_ms, "gauntlet", "forget", &id, why)?;
        count += 1;
        bytes += u64::try_from(size).unwrap_or(0).max(1);
    }
    Ok((count, bytes))
}

#[cfg(test)]
mod tests;
