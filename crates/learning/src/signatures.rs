//! Known good and bad mail on disk: a table that is looked up in place, and a journal of what came
//! since.
//!
//! In the folder `signatures` of the data folder:
//!
//! * `table`: [`gauntlet_engine::signatures::table`], memory-mapped, never changed in place;
//! * `journal`: magic `GNTLSIGJ`, format version (u32), generation (u32), then entries of 64 bytes
//!   as in the table, each with its checksum. Appended and on stable storage before
//!   [`SignatureWriter::append`] returns;
//! * `lock`: one process writes at a time; readers need none.
//!
//! When the journal is long, it is merged into a new table beside the old one, without what has
//! expired; then a new journal of the next generation is begun. A table names the generation that
//! it holds, so a crash between the two counts nothing twice. A crash in the middle of an entry
//! loses that entry.

pub mod sharing;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gauntlet_engine::signatures::KnownSignatures;
use gauntlet_engine::signatures::known::is_same;
use gauntlet_engine::signatures::table::{
    self, ENTRY_BYTES, Entry, FORMAT_VERSION, Table, TableError,
};
use memmap2::{Mmap, MmapMut};

/// Name of the folder in the data folder.
pub const FOLDER_NAME: &str = "signatures";
/// Name of the table's file.
pub const TABLE_NAME: &str = "table";
/// Name of the journal's file.
pub const JOURNAL_NAME: &str = "journal";
pub(crate) const JOURNAL_MAGIC: &[u8; 8] = b"GNTLSIGJ";
const JOURNAL_HEADER_BYTES: usize = 16;
/// Entries of a journal before it is merged: 6.4 MB, read in milliseconds.
const JOURNAL_ENTRIES_MAX: usize = 100_000;

/// Why signatures cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SignaturesError {
    /// Table or journal could not be opened, read or written.
    #[error("{path}: {cause}")]
    Io {
        /// Path of the table or journal.
        path: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// Not a table that can be used.
    #[error("{path}: {cause}")]
    Table {
        /// Path of the table or journal.
        path: PathBuf,
        /// What is wrong with its bytes.
        cause: TableError,
    },
    /// Not a journal, or one of another version.
    #[error("{0} is not a journal of signatures that this program reads; move it away")]
    NotAJournal(PathBuf),
}

/// The table, and the entries of the journal that are not in it.
pub type Signatures = (Option<Arc<Table>>, Vec<Entry>);

/// Maps the table of a data folder and reads the journal; nothing if there is none.
///
/// # Errors
/// If a file is there and cannot be used.
pub fn load(data: &Path) -> Result<Signatures, SignaturesError> {
    let folder = data.join(FOLDER_NAME);
    let table = map(&folder.join(TABLE_NAME))?;
    let path = folder.join(JOURNAL_NAME);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((table, Vec::new())),
        Err(cause) => return Err(SignaturesError::Io { path, cause }),
    };
    let (generation, entries) = parse(&bytes).ok_or(SignaturesError::NotAJournal(path))?;
    let held = table.as_ref().map_or(0, |t| t.generation());
    Ok((table, if generation <= held { Vec::new() } else { entries }))
}

/// Generation and entries of the journal of a data folder.
fn read_journal(data: &Path) -> Result<(u32, Vec<Entry>), SignaturesError> {
    let path = data.join(FOLDER_NAME).join(JOURNAL_NAME);
    match std::fs::read(&path) {
        Ok(bytes) => parse(&bytes).ok_or(SignaturesError::NotAJournal(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((0, Vec::new())),
        Err(cause) => Err(SignaturesError::Io { path, cause }),
    }
}

/// Opens a file of signatures by itself, as channels have them: a table, or a journal.
///
/// # Errors
/// If it cannot be read, or is neither.
pub fn open_file(path: &Path) -> Result<Signatures, SignaturesError> {
    let failed = |cause| SignaturesError::Io { path: path.to_owned(), cause };
    let mut magic = [0; table::MAGIC.len()];
    let mut file = File::open(path).map_err(failed)?;
    if file.read_exact(&mut magic).is_ok() && magic == *table::MAGIC {
        return Ok((map(path)?, Vec::new()));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    let read = parse(&bytes).filter(|_| bytes.len() >= JOURNAL_HEADER_BYTES);
    let (_, entries) = read.ok_or_else(|| SignaturesError::NotAJournal(path.to_owned()))?;
    Ok((None, entries))
}

/// Writes entries as a journal by itself, for [`open_file`].
///
/// # Errors
/// The system's.
pub fn write_file(path: &Path, entries: &[Entry]) -> io::Result<()> {
    let mut bytes = JOURNAL_MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    // Of the first generation: no table holds it.
    bytes.extend_from_slice(&1u32.to_le_bytes());
    entries.iter().for_each(|entry| bytes.extend_from_slice(&entry.to_bytes()));
    gauntlet_store::files::write_durably(path, &bytes)
}

fn map(path: &Path) -> Result<Option<Arc<Table>>, SignaturesError> {
    let failed = |cause| SignaturesError::Io { path: path.to_owned(), cause };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed(cause)),
    };
    // SAFETY: a table is never changed or cut after it has its name (`SignatureWriter::merge`
    // renames a finished file over it), so the mapping stays as it is. A process that may write to
    // the data folder can harm the process anyway.
    let mapped = unsafe { Mmap::map(&file) }.map_err(failed)?;
    let table = Table::new(Box::new(mapped))
        .map_err(|cause| SignaturesError::Table { path: path.to_owned(), cause })?;
    Ok(Some(Arc::new(table)))
}

/// Generation and whole entries of a journal; damaged ones are left out. None if it is no journal.
fn parse(bytes: &[u8]) -> Option<(u32, Vec<Entry>)> {
    if bytes.len() < JOURNAL_HEADER_BYTES {
        // The crash came before the header.
        return Some((0, Vec::new()));
    }
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if bytes.get(..8)? != JOURNAL_MAGIC || number(8)? != FORMAT_VERSION {
        return None;
    }
    let entries = bytes.get(JOURNAL_HEADER_BYTES..)?.chunks_exact(ENTRY_BYTES);
    Some((number(12)?, entries.filter_map(Entry::from_bytes).collect()))
}

/// Appends to the journal, and merges it into the table.
#[derive(Debug)]
pub struct SignatureWriter {
    folder: PathBuf,
    journal: File,
    generation: u32,
    entries: usize,
    days: u16,
    _lock: File,
}

impl SignatureWriter {
    /// Opens the signatures of a data folder to write; makes them if they are not there. Waits for
    /// another process that has them open. `days` is how long a report is believed.
    ///
    /// # Errors
    /// If the folder cannot be written, or holds something else.
    pub fn open(data: &Path, days: u16) -> Result<Self, SignaturesError> {
        let folder = data.join(FOLDER_NAME);
        let failed = |cause| SignaturesError::Io { path: folder.clone(), cause };
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        let lock = options.open(folder.join("lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let held = map(&folder.join(TABLE_NAME))?.map_or(0, |t| t.generation());
        let path = folder.join(JOURNAL_NAME);
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(cause) => return Err(failed(cause)),
        };
        let (generation, entries) =
            parse(&bytes).ok_or_else(|| SignaturesError::NotAJournal(path.clone()))?;
        if generation <= held {
            let journal = begin(&path, held + 1).map_err(failed)?;
            let generation = held + 1;
            return Ok(Self { folder, journal, generation, entries: 0, days, _lock: lock });
        }
        let whole = (bytes.len() - JOURNAL_HEADER_BYTES) / ENTRY_BYTES;
        let length = (JOURNAL_HEADER_BYTES + whole * ENTRY_BYTES) as u64;
        let journal = OpenOptions::new().append(true).open(&path).map_err(failed)?;
        journal.set_len(length).map_err(failed)?;
        Ok(Self { folder, journal, generation, entries: entries.len(), days, _lock: lock })
    }

    /// Generation of the journal, and its entries.
    pub fn position(&self) -> (u32, usize) {
        (self.generation, self.entries)
    }

    /// Writes entries down, durably, and merges the journal when it is long. `today` is the day
    /// from 1970, for what has expired.
    ///
    /// # Errors
    /// On I/O errors; entries may then be lost, never the table.
    pub fn append(&mut self, entries: &[Entry], today: u16) -> Result<(), SignaturesError> {
        let bytes: Vec<u8> = entries.iter().flat_map(Entry::to_bytes).collect();
        let written = self.journal.write_all(&bytes).and_then(|()| self.journal.sync_data());
        written.map_err(|cause| self.failed(cause))?;
        self.entries += entries.len();
        if self.entries >= JOURNAL_ENTRIES_MAX {
            self.merge(today)?;
        }
        Ok(())
    }

    /// Makes a new table of table and journal, without what has expired, and begins a new journal.
    ///
    /// # Errors
    /// On I/O errors; the old table and journal then stay.
    pub fn merge(&mut self, today: u16) -> Result<(), SignaturesError> {
        let data = self.folder.parent().unwrap_or(&self.folder).to_owned();
        let (old, entries) = load(&data)?;
        let lives = |e: &Entry| u32::from(e.day) + u32::from(self.days) >= u32::from(today);
        let (mut changed, mut new) = (BTreeMap::<u32, Entry>::new(), Vec::new());
        for entry in KnownSignatures::new(None, &entries, &[], self.days).recent() {
            match old.as_deref().and_then(|table| same_in(table, &entry)) {
                Some((number, known)) => {
                    let sum = changed.entry(number).or_insert(known);
                    sum.bad = sum.bad.saturating_add(entry.bad);
                    sum.good = sum.good.saturating_add(entry.good);
                    sum.day = sum.day.max(entry.day);
                }
                None => new.push(entry),
            }
        }
        let numbers = 0..old.as_ref().map_or(0, |t| t.len());
        let kept = || {
            let known = numbers.clone().filter_map(|n| {
                changed.get(&n).copied().or_else(|| old.as_ref().and_then(|t| t.entry(n)))
            });
            known.chain(new.iter().copied()).filter(lives)
        };
        let count = u32::try_from(kept().count()).unwrap_or(u32::MAX);
        let path = self.folder.join(TABLE_NAME);
        let written = write_table(&path, (count, self.generation), &mut kept());
        written.map_err(|cause| self.failed(cause))?;
        let journal = begin(&self.folder.join(JOURNAL_NAME), self.generation + 1);
        self.journal = journal.map_err(|cause| self.failed(cause))?;
        self.generation += 1;
        self.entries = 0;
        Ok(())
    }

    fn failed(&self, cause: io::Error) -> SignaturesError {
        SignaturesError::Io { path: self.folder.clone(), cause }
    }
}

/// Number and entry of the table that an entry is the same as.
fn same_in(table: &Table, entry: &Entry) -> Option<(u32, Entry)> {
    let mut found = None;
    table.candidates(&entry.fingerprint, &mut |number, known| {
        if found.is_none() && is_same(&known.fingerprint, &entry.fingerprint) {
            found = Some((number, known));
        }
    });
    found
}

/// Writes a table beside the one of this name, and puts it in its place.
///
/// # Errors
/// On I/O errors; the old table then stays.
pub fn write_table(
    path: &Path,
    (count, generation): (u32, u32),
    entries: &mut dyn Iterator<Item = Entry>,
) -> io::Result<()> {
    let beside = path.with_extension("new");
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&beside)?;
    file.set_len(table::room_for(count).1)?;
    // SAFETY: the file was just made under a name that only the holder of the lock uses, and
    // no other process opens it before it is finished and renamed.
    let mut out = unsafe { MmapMut::map_mut(&file) }?;
    table::write(&mut out, (count, generation), entries);
    out.flush()?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// An empty journal of this generation, in place of the one there was.
fn begin(path: &Path, generation: u32) -> io::Result<File> {
    let beside = path.with_extension("new");
    let mut bytes = JOURNAL_MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&generation.to_le_bytes());
    let mut file = gauntlet_store::files::create(&beside)?;
    file.write_all(&bytes)?;
    let file = OpenOptions::new().append(true).open(&beside)?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_engine::random::Random;
    use gauntlet_engine::signatures::fingerprint::{Fingerprint, Found, Kind};

    const TODAY: u16 = 20_000;

    fn text(seed: u64) -> Fingerprint {
        let mut random = Random::new(seed);
        let sketch = std::array::from_fn(|_| random.next_u64() as u16);
        Fingerprint { kind: Kind::Text, size: 80, sketch }
    }

    fn bad(seed: u64, day: u16) -> Entry {
        Entry { fingerprint: text(seed), bad: 1, good: 0, day }
    }

    /// How often the text of this seed was bad.
    fn times(data: &Path, seed: u64) -> u32 {
        let (table, entries) = load(data).unwrap();
        let found = Found { fingerprint: text(seed), part: 0 };
        let known = KnownSignatures::new(table, &entries, &[], 90).resembles(&[found], TODAY);
        known.first().map_or(0, |like| like.bad)
    }

    #[test]
    fn what_was_appended_is_known_before_and_after_merging() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
        assert_eq!(times(data, 1), 0, "nothing there");
        let mut writer = SignatureWriter::open(data, 90).unwrap();
        writer.append(&[bad(1, TODAY), bad(2, TODAY), bad(3, TODAY - 91)], TODAY).unwrap();
        writer.append(&[bad(1, TODAY)], TODAY).unwrap();
        assert_eq!((times(data, 1), times(data, 2), times(data, 4)), (2, 1, 0));
        writer.merge(TODAY).unwrap();
        assert_eq!((times(data, 1), times(data, 2)), (2, 1));
        let (table, journal) = load(data).unwrap();
        assert_eq!((table.unwrap().len(), journal.len()), (2, 0), "one had expired");
        writer.append(&[bad(1, TODAY)], TODAY).unwrap();
        assert_eq!(times(data, 1), 3, "table and journal together");
        drop(writer);
        let mut writer = SignatureWriter::open(data, 90).unwrap();
        writer.merge(TODAY).unwrap();
        assert_eq!((times(data, 1), times(data, 2)), (3, 1));
    }

    #[test]
    fn a_crash_at_any_byte_of_the_journal_loses_only_the_entry_it_cut() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
        let mut writer = SignatureWriter::open(data, 90).unwrap();
        writer.append(&[bad(1, TODAY), bad(2, TODAY)], TODAY).unwrap();
        drop(writer);
        let path = data.join(FOLDER_NAME).join(JOURNAL_NAME);
        let whole = std::fs::read(&path).unwrap();
        for cut in (0..whole.len()).step_by(7) {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let before = cut.saturating_sub(JOURNAL_HEADER_BYTES) / ENTRY_BYTES;
            assert_eq!(load(data).unwrap().1.len(), before, "cut at {cut}");
            let mut writer = SignatureWriter::open(data, 90).unwrap();
            writer.append(&[bad(3, TODAY)], TODAY).unwrap();
            assert_eq!((times(data, 3), load(data).unwrap().1.len()), (1, before + 1));
        }
    }

    #[test]
    fn a_crash_between_table_and_journal_counts_nothing_twice() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
        let mut writer = SignatureWriter::open(data, 90).unwrap();
        writer.append(&[bad(1, TODAY)], TODAY).unwrap();
        let path = data.join(FOLDER_NAME).join(JOURNAL_NAME);
        let journal = std::fs::read(&path).unwrap();
        writer.merge(TODAY).unwrap();
        drop(writer);
        std::fs::write(&path, journal).unwrap();
        assert_eq!(times(data, 1), 1, "the journal is in the table");
        let mut writer = SignatureWriter::open(data, 90).unwrap();
        writer.append(&[bad(1, TODAY)], TODAY).unwrap();
        assert_eq!(times(data, 1), 2);
    }

    #[test]
    fn other_files_are_refused_with_a_reason() {
        let data = tempfile::tempdir().unwrap();
        let folder = data.path().join(FOLDER_NAME);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join(JOURNAL_NAME), "From: somebody\n\nhello").unwrap();
        assert!(matches!(load(data.path()), Err(SignaturesError::NotAJournal(_))));
        assert!(SignatureWriter::open(data.path(), 90).is_err());
        std::fs::write(folder.join(TABLE_NAME), "From: somebody").unwrap();
        let error = load(data.path()).unwrap_err().to_string();
        assert!(error.contains("table") && error.contains("GNTLSIGS"), "{error}");
    }
}
