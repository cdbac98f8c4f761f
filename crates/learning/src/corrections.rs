//! Corrections of users and administrators: the journal that the site's classifier is trained on.
//!
//! One file, `corrections/corrections.journal`, appended to. A record is complete and on stable
//! storage before [`Corrections::say`] returns; a crash in the middle of a record loses that record
//! alone, which is cut off when the file is opened next. Damage in the middle loses the records
//! that it hit: those after it are found again, and the log says so. A message is named by the
//! hash of its bytes: saying the same again changes nothing, saying something else replaces it,
//! [`Corrections::forget`] takes it back. What nodes of an array said is merged by one order
//! ([`Corrections::merge`]), so that all end with the same. Records that no longer count are
//! dropped when they outnumber the rest: the file is written anew beside the old one and renamed.
//!
//! File, little endian: magic `GNTLCORR`, format of the features (u32), then records: length (u32),
//! CRC-32 (u32), and as many bytes.
//!
//! The file holds hashes and numbers, no text of mail. One process writes at a time (a lock on the
//! file); readers need none.

mod merging;
mod record;
pub mod sharing;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gauntlet_engine::classifier::model::FORMAT_VERSION;
use gauntlet_engine::corrections::{Correction, MessageId, is_policy};

use self::merging::{make_room, make_room_for_forgotten};
pub use self::record::Stated;
use self::record::{Said, next, number, parse, record};

/// Name of the file in the data folder.
pub(crate) const FILE_NAME: &str = "corrections.journal";
/// The journal's folder in the data folder. The file is replaced when it is compacted, and a
/// sandboxed node may read a replaced file by the rights of its folder only.
pub const FOLDER_NAME: &str = "corrections";

/// The journal of a data folder.
#[must_use]
pub fn journal_path(data: &Path) -> PathBuf {
    data.join(FOLDER_NAME).join(FILE_NAME)
}

/// Earlier builds kept the journal in the data folder itself: it moves to its folder once.
///
/// # Errors
/// The system's.
pub fn move_old_journal(data: &Path) -> io::Result<()> {
    let (old, new) = (data.join(FILE_NAME), journal_path(data));
    gauntlet_store::files::create_folder(&data.join(FOLDER_NAME))?;
    if new.exists() {
        return Ok(());
    }
    match std::fs::rename(&old, &new) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved.and_then(|()| sync_folder(&new)).and_then(|()| sync_folder(&old)),
    }
}
/// Corrections by rules of the policy (`learn`), all of them together, that are kept.
pub const POLICY_CORRECTIONS_MAX: usize = 2_000;
/// Corrections of one reporter that are kept, the administrator's apart: a script that teaches
/// without end crowds out its own words, not those of others.
pub const REPORTER_CORRECTIONS_MAX: usize = 2_000;
pub(crate) const MAGIC: &[u8; 8] = b"GNTLCORR";
const HEADER_BYTES: u64 = 12;
/// Records that no longer count, beyond as many that do, before the file is written anew.
const DEAD_RECORDS_MAX: usize = 1_000;

/// Why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CorrectionsError {
    /// The journal could not be opened, read or written.
    #[error("{path}: {cause}")]
    Io {
        /// Path of the journal.
        path: PathBuf,
        /// The operating system's error.
        cause: io::Error,
    },
    /// The file does not begin as a journal of corrections does.
    #[error("{0} is not a journal of corrections; move it away")]
    NotAJournal(PathBuf),
    /// Features of another version of the program.
    #[error(
        "{path} holds features of format {found}, this program has format {FORMAT_VERSION}; move it \
         away and learn the messages again"
    )]
    OtherFormat {
        /// Path of the journal.
        path: PathBuf,
        /// The version of the format that the file says it has.
        found: u32,
    },
}

/// The current corrections, and the file that keeps them.
#[derive(Debug)]
pub struct Corrections {
    path: PathBuf,
    file: File,
    live: BTreeMap<MessageId, Correction>,
    /// Messages of which something was taken back, and when.
    forgotten: BTreeMap<MessageId, i64>,
    records: usize,
}

impl Corrections {
    /// Opens the journal in a data folder to write to it; makes it if it is not there. Waits for
    /// another process that has it open.
    pub fn open(data: &Path) -> Result<Self, CorrectionsError> {
        let path = journal_path(data);
        move_old_journal(data)
            .map_err(|cause| CorrectionsError::Io { path: path.clone(), cause })?;
        Self::open_file(&path).map_err(|cause| match cause {
            OpenError::Io(cause) => CorrectionsError::Io { path, cause },
            OpenError::Other(error) => error,
        })
    }

    fn open_file(path: &Path) -> Result<Self, OpenError> {
        let mut file = locked(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        if bytes.len() < HEADER_BYTES as usize {
            // New, or the crash came before the first record.
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(&header())?;
            file.sync_all()?;
            sync_folder(path)?;
            bytes = header();
        }
        let Replayed { live, forgotten, records, good } = replay(path, &bytes)?;
        file.set_len(good)?;
        file.seek(SeekFrom::Start(good))?;
        Ok(Corrections { path: path.to_owned(), file, live, forgotten, records })
    }

    /// The current corrections in the journal of a data folder, without opening it to write; none
    /// if there are no corrections.
    pub fn read(data: &Path) -> Result<BTreeMap<MessageId, Correction>, CorrectionsError> {
        Ok(Self::read_all(data)?.live)
    }

    /// The same, with what was taken back.
    fn read_all(data: &Path) -> Result<Replayed, CorrectionsError> {
        let mut path = journal_path(data);
        if !path.exists() && data.join(FILE_NAME).exists() {
            path = data.join(FILE_NAME);
        }
        let bytes = match std::fs::read(&path) {
            Ok(bytes) if bytes.len() >= HEADER_BYTES as usize => bytes,
            Ok(_) => return Ok(Replayed::default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Replayed::default());
            }
            Err(cause) => return Err(CorrectionsError::Io { path, cause }),
        };
        replay(&path, &bytes)
    }

    /// The current corrections, by message.
    pub fn in_effect(&self) -> &BTreeMap<MessageId, Correction> {
        &self.live
    }

    /// Writes down corrections, durably, all with one flush. Result: how many were added.
    pub fn say(
        &mut self,
        said: impl IntoIterator<Item = (MessageId, Correction)>,
    ) -> Result<usize, CorrectionsError> {
        let mut bytes = Vec::new();
        let mut added = 0;
        for (id, mut correction) in said {
            let known = self.live.get(&id);
            if known.is_some_and(|c| c.spam == correction.spam && c.features == correction.features)
            {
                continue;
            }
            // A policy never overrules what a person said of the message.
            let forgotten_at = self.forgotten.get(&id).copied();
            let is_persons = known.map_or(forgotten_at.is_some(), |c| !is_policy(c.reporter));
            if is_policy(correction.reporter) && is_persons {
                continue;
            }
            // What is said here comes after what is known here, whatever another node's clock says.
            if let Some(at) = known.map(|c| c.at).max(forgotten_at) {
                correction.at = correction.at.max(at.saturating_add(1));
            }
            record(&mut bytes, &id, Said::Correction(&correction));
            self.forgotten.remove(&id);
            self.live.insert(id, correction);
            self.records += 1;
            added += 1;
        }
        self.append(&bytes)?;
        make_room(&mut self.live);
        self.compact_if_due()?;
        Ok(added)
    }

    /// Takes back what was said about a message, at this Unix time in seconds. Result: whether
    /// anything was.
    pub fn forget(&mut self, id: &MessageId, at: i64) -> Result<bool, CorrectionsError> {
        let Some(known) = self.live.remove(id) else { return Ok(false) };
        let at = at.max(known.at.saturating_add(1));
        let mut bytes = Vec::new();
        record(&mut bytes, id, Said::Forgotten(at));
        self.forgotten.insert(*id, at);
        make_room_for_forgotten(&mut self.forgotten);
        self.records += 1;
        self.append(&bytes)?;
        self.compact_if_due()?;
        Ok(true)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), CorrectionsError> {
        let written = self.file.write_all(bytes).and_then(|()| self.file.sync_data());
        written.map_err(|cause| CorrectionsError::Io { path: self.path.clone(), cause })
    }

    fn compact_if_due(&mut self) -> Result<(), CorrectionsError> {
        let counting = self.live.len() + self.forgotten.len();
        if self.records <= 2 * counting + DEAD_RECORDS_MAX {
            return Ok(());
        }
        let compact = || -> io::Result<File> {
            let mut bytes = header();
            for (id, correction) in &self.live {
                record(&mut bytes, id, Said::Correction(correction));
            }
            for (id, at) in &self.forgotten {
                record(&mut bytes, id, Said::Forgotten(*at));
            }
            let beside = self.path.with_extension("new");
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&beside)?;
            file.lock()?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            std::fs::rename(&beside, &self.path)?;
            sync_folder(&self.path)?;
            Ok(file)
        };
        match compact() {
            Ok(file) => {
                (self.file, self.records) = (file, counting);
                Ok(())
            }
            Err(cause) => Err(CorrectionsError::Io { path: self.path.clone(), cause }),
        }
    }
}

/// The file, locked. The previous holder of the lock may have put a new file in its place
/// meanwhile: a lock on a file that has no name any more is worth nothing, so it is opened again.
fn locked(path: &Path) -> io::Result<File> {
    loop {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        file.lock()?;
        let (ours, named) = (file.metadata()?, std::fs::metadata(path)?);
        if (ours.dev(), ours.ino()) == (named.dev(), named.ino()) {
            return Ok(file);
        }
    }
}

/// What can go wrong inside, before the path is known to matter.
enum OpenError {
    Io(io::Error),
    Other(CorrectionsError),
}

impl From<io::Error> for OpenError {
    fn from(cause: io::Error) -> Self {
        OpenError::Io(cause)
    }
}

impl From<CorrectionsError> for OpenError {
    fn from(error: CorrectionsError) -> Self {
        OpenError::Other(error)
    }
}

fn header() -> Vec<u8> {
    [&MAGIC[..], &FORMAT_VERSION.to_le_bytes()].concat()
}

fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// What a journal says.
#[derive(Debug, Default)]
struct Replayed {
    live: BTreeMap<MessageId, Correction>,
    forgotten: BTreeMap<MessageId, i64>,
    /// Number of its whole records.
    records: usize,
    /// Where the last of them ends.
    good: u64,
}

/// The current corrections after all whole records.
fn replay(path: &Path, bytes: &[u8]) -> Result<Replayed, CorrectionsError> {
    if bytes.get(..MAGIC.len()) != Some(MAGIC) {
        return Err(CorrectionsError::NotAJournal(path.to_owned()));
    }
    let mut at = MAGIC.len();
    let found = number(bytes, &mut at).unwrap_or(0);
    if found != FORMAT_VERSION {
        return Err(CorrectionsError::OtherFormat { path: path.to_owned(), found });
    }
    let mut all = Replayed { good: at as u64, ..Replayed::default() };
    let mut damaged = 0;
    while let Some((start, (id, said))) = next_good(bytes, &mut at) {
        damaged += start as u64 - all.good;
        match said {
            Stated::Correction(correction) => {
                all.forgotten.remove(&id);
                all.live.insert(id, correction);
            }
            Stated::Forgotten(forgotten_at) => {
                all.live.remove(&id);
                all.forgotten.insert(id, forgotten_at);
            }
        }
        (all.good, all.records) = (at as u64, all.records + 1);
    }
    if damaged > 0 {
        tracing::error!(
            path = %path.display(),
            bytes = damaged,
            "corrections in the middle of the journal are damaged and count no more: restore them \
             from a backup, or say them again"
        );
    }
    make_room(&mut all.live);
    make_room_for_forgotten(&mut all.forgotten);
    Ok(all)
}

/// The next record that is whole, and where it starts; what is damaged before it is passed over.
fn next_good(bytes: &[u8], at: &mut usize) -> Option<(usize, (MessageId, Stated))> {
    (*at..bytes.len()).find_map(|start| {
        let mut end = start;
        let said = parse(next(bytes, &mut end)?)?;
        *at = end;
        Some((start, said))
    })
}

#[cfg(test)]
mod tests;
