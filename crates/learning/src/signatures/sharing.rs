//! Signatures as the nodes of an array share them: what each node's probe accounts saw, added up.
//!
//! Entries of the node's own journal go out under their place in it (generation and index). Those
//! of other nodes are kept apart, in `array/signatures` of the data folder, in the same form, so
//! that nothing goes out twice. Each counts once: of a batch only what lies beyond the place that
//! was reached in its node's journal is taken, and before it is written the intent is, so that
//! whoever dies in between finds out how much of it is on disk.
//!
//! What a node's table already holds when it joins, and entries beyond a full journal while the
//! database was away (`JOURNAL_ENTRIES_MAX`), stay with that node.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gauntlet_engine::signatures::table::{ENTRY_BYTES, Entry};
use gauntlet_mail::date::DAY_SECONDS;
use gauntlet_store::sharing::{
    BATCH_BYTES, BatchReader, Cursors, Incoming, Outgoing, SharedKind, SharedPart, SharingError,
    put_number,
};
use gauntlet_store::{Clock, files};
use serde::{Deserialize, Serialize};

use super::{FOLDER_NAME, JOURNAL_NAME, SignatureWriter, Signatures, SignaturesError, load};

/// Version of the batches' format.
const VERSION: u8 = 1;
/// Entries in a batch.
const ENTRIES_MAX: usize = BATCH_BYTES / ENTRY_BYTES;
/// Folder of a data folder that has what came from other nodes.
const ARRAY_FOLDER: &str = "array";

/// A place in a journal: its generation, and the number of entries before.
type Place = (u32, u32);

/// A batch that is being written.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Intent {
    node: i16,
    /// Where it begins in its node's journal.
    source: Place,
    entries: u32,
    /// Where it begins in the journal here.
    target: Place,
}

/// What was sent and taken.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Marks {
    epoch: String,
    cursors: Cursors,
    /// Up to where the own journal was sent.
    sent: Place,
    /// Up to where other nodes' journals were taken.
    reached: BTreeMap<i16, Place>,
    intent: Option<Intent>,
}

#[derive(Debug, Default)]
struct Shared {
    marks: Marks,
    /// Where the last batch ends.
    pending: Place,
    /// The own journal when all of it was sent: file, length and time of change.
    seen: Option<(u64, u64, i64, i64)>,
}

/// The signatures of a data folder, to be shared.
#[derive(Debug)]
pub struct SharedSignatures {
    data: PathBuf,
    days: u16,
    clock: Clock,
    shared: Mutex<Shared>,
}

/// What a batch has.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryBatch {
    /// Generation of its node's journal.
    pub generation: u32,
    /// Entries of that journal before it.
    pub start: u32,
    /// The entries.
    pub entries: Vec<Entry>,
}

/// The signatures that other nodes of an array sent; nothing if there are none.
///
/// # Errors
/// As [`load`].
pub fn load_elsewhere(data: &Path) -> Result<Signatures, SignaturesError> {
    load(&data.join(ARRAY_FOLDER))
}

/// The files of [`load_elsewhere`].
#[must_use]
pub fn elsewhere_folder(data: &Path) -> PathBuf {
    data.join(ARRAY_FOLDER).join(FOLDER_NAME)
}

impl SharedSignatures {
    /// Those of a data folder; `days` is how long a report is believed.
    pub fn new(data: &Path, days: u16, clock: Clock) -> Self {
        SharedSignatures { data: data.to_owned(), days, clock, shared: Mutex::default() }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self) -> PathBuf {
        self.data.join(ARRAY_FOLDER).join("signatures.shared")
    }

    fn write(&self, marks: &Marks) -> Result<(), SharingError> {
        files::create_folder(&self.data.join(ARRAY_FOLDER))?;
        Ok(files::write_durably(&self.path(), &serde_json::to_vec(marks)?)?)
    }

    fn writer(&self) -> Result<SignatureWriter, SignaturesError> {
        SignatureWriter::open(&self.data.join(ARRAY_FOLDER), self.days)
    }

    /// Finds out what became of a batch that was being written.
    fn recover(&self, marks: &mut Marks) -> Result<(), SharingError> {
        let Some(intent) = marks.intent.clone() else { return Ok(()) };
        let (generation, entries) = self.writer()?.position();
        let (target, before) = intent.target;
        let written = match generation == target {
            true => u32::try_from(entries)?.saturating_sub(before).min(intent.entries),
            // It was written, and the journal with it merged.
            false => intent.entries,
        };
        let (source, start) = intent.source;
        marks.reached.insert(intent.node, (source, start + written));
        marks.intent = None;
        self.write(marks)
    }

    fn take_batch(
        &self,
        marks: &mut Marks,
        node: i16,
        mut batch: EntryBatch,
    ) -> Result<(), SharingError> {
        let (generation, reached) = marks.reached.get(&node).copied().unwrap_or_default();
        let known = match batch.generation.cmp(&generation) {
            std::cmp::Ordering::Less => return Ok(()),
            std::cmp::Ordering::Equal => reached.saturating_sub(batch.start) as usize,
            std::cmp::Ordering::Greater => 0,
        };
        batch.entries.drain(..known.min(batch.entries.len()));
        if batch.entries.is_empty() {
            return Ok(());
        }
        let entries = u32::try_from(batch.entries.len())?;
        let source = (batch.generation, batch.start + u32::try_from(known)?);
        let mut writer = self.writer()?;
        let (target, before) = writer.position();
        let target = (target, u32::try_from(before)?);
        marks.intent = Some(Intent { node, source, entries, target });
        self.write(marks)?;
        let today = u16::try_from(self.clock.unix_s().max(0) / DAY_SECONDS).unwrap_or(u16::MAX);
        writer.append(&batch.entries, today)?;
        marks.reached.insert(node, (source.0, source.1 + entries));
        marks.intent = None;
        Ok(())
    }
}

impl SharedPart for SharedSignatures {
    fn kind(&self) -> SharedKind {
        SharedKind::Signatures
    }

    fn begin(&self, epoch: &str) -> Result<Cursors, SharingError> {
        let mut shared = self.shared();
        let mut marks: Marks = match std::fs::read(self.path()) {
            // A damaged file is begun anew; what other nodes sent, too, or it would count twice.
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Marks::default(),
            Err(error) => return Err(error.into()),
        };
        if marks.epoch != epoch {
            match std::fs::remove_dir_all(elsewhere_folder(&self.data)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
            marks = Marks { epoch: epoch.to_owned(), ..Marks::default() };
            self.write(&marks)?;
        }
        self.recover(&mut marks)?;
        let cursors = marks.cursors.clone();
        *shared = Shared { marks, ..Shared::default() };
        Ok(cursors)
    }

    fn collect(&self) -> Result<Option<Outgoing>, SharingError> {
        let mut shared = self.shared();
        let path = self.data.join(FOLDER_NAME).join(JOURNAL_NAME);
        let Ok(about) = std::fs::metadata(path) else { return Ok(None) };
        let mark = Some((about.ino(), about.len(), about.mtime(), about.mtime_nsec()));
        if mark == shared.seen {
            return Ok(None);
        }
        let (generation, entries) = super::read_journal(&self.data)?;
        let (sent_of, sent) = shared.marks.sent;
        let start = if sent_of == generation { sent as usize } else { 0 };
        let new = entries.get(start..).unwrap_or_default();
        if new.is_empty() {
            shared.seen = mark;
            return Ok(None);
        }
        let is_full = new.len() > ENTRIES_MAX;
        let new = &new[..new.len().min(ENTRIES_MAX)];
        shared.pending = (generation, u32::try_from(start + new.len())?);
        let body = encode(generation, u32::try_from(start)?, new);
        Ok(Some(Outgoing { body, mark: 0, is_full }))
    }

    fn sent(&self, _mark: u64) -> Result<(), SharingError> {
        let mut shared = self.shared();
        shared.marks.sent = shared.pending;
        self.write(&shared.marks)
    }

    fn take(&self, batches: &[Incoming]) -> Result<(), SharingError> {
        let mut shared = self.shared();
        let marks = &mut shared.marks;
        self.recover(marks)?;
        for batch in batches {
            match decode(&batch.body) {
                Some(entries) => self.take_batch(marks, batch.node, entries)?,
                None => {
                    let (node, number) = (batch.node, batch.number);
                    tracing::warn!(node, number, "signatures of another node are not understood");
                }
            }
            marks.cursors.insert(batch.node, batch.number);
            self.write(marks)?;
        }
        Ok(())
    }
}

fn encode(generation: u32, start: u32, entries: &[Entry]) -> Vec<u8> {
    let mut out = vec![VERSION];
    put_number(&mut out, u64::from(generation));
    put_number(&mut out, u64::from(start));
    entries.iter().for_each(|entry| out.extend_from_slice(&entry.to_bytes()));
    out
}

/// The entries of a batch; none if it is damaged, or of another version.
pub fn decode(bytes: &[u8]) -> Option<EntryBatch> {
    let mut reader = BatchReader::of_version(bytes, VERSION)?;
    let generation = u32::try_from(reader.number()?).ok()?;
    // Far from where adding to it could overflow.
    let start = u32::try_from(reader.number()?).ok().filter(|start| *start < u32::MAX / 2)?;
    let (entries, []) = reader.rest().as_chunks::<ENTRY_BYTES>() else { return None };
    let entries = entries.iter().map(|entry| Entry::from_bytes(entry)).collect::<Option<_>>()?;
    Some(EntryBatch { generation, start, entries })
}

#[cfg(test)]
mod tests;
