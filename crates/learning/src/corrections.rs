//! Corrections of users and administrators: the journal that the site's classifier is trained on.
//!
//! One file, `corrections/corrections.journal`, appended to. A record is complete and on stable
//! storage before [`Corrections::say`] returns; a crash in the middle of a record loses that record
//! alone, which is cut off when the file is opened next. A message is named by the hash of its
//! bytes: saying the same again changes nothing, saying something else replaces it,
//! [`Corrections::forget`] takes it back. Records that no longer count are dropped when they
//! outnumber the rest: the file is written anew beside the old one and renamed.
//!
//! File, little endian: magic `GNTLCORR`, format of the features (u32), then records: length (u32),
//! CRC-32 (u32), and as many bytes.
//!
//! The file holds hashes and numbers, no text of mail. One process writes at a time (a lock on the
//! file); readers need none.

mod record;

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gauntlet_engine::classifier::model::FORMAT_VERSION;
use gauntlet_engine::corrections::{CORRECTIONS_MAX, Correction, MessageId, is_policy, voter};

use self::record::{next, number, parse, record};

/// Name of the file in the data folder.
const FILE_NAME: &str = "corrections.journal";
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
const MAGIC: &[u8; 8] = b"GNTLCORR";
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
        let (live, records, good) = replay(path, &bytes)?;
        file.set_len(good)?;
        file.seek(SeekFrom::Start(good))?;
        Ok(Corrections { path: path.to_owned(), file, live, records })
    }

    /// The current corrections in the journal of a data folder, without opening it to write; none
    /// if there are no corrections.
    pub fn read(data: &Path) -> Result<BTreeMap<MessageId, Correction>, CorrectionsError> {
        let mut path = journal_path(data);
        if !path.exists() && data.join(FILE_NAME).exists() {
            path = data.join(FILE_NAME);
        }
        let bytes = match std::fs::read(&path) {
            Ok(bytes) if bytes.len() >= HEADER_BYTES as usize => bytes,
            Ok(_) => return Ok(BTreeMap::new()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(cause) => return Err(CorrectionsError::Io { path, cause }),
        };
        Ok(replay(&path, &bytes)?.0)
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
        for (id, correction) in said {
            let known = self.live.get(&id);
            if known.is_some_and(|c| c.spam == correction.spam && c.features == correction.features)
            {
                continue;
            }
            // A policy never overrules what a person said of the message.
            if is_policy(correction.reporter) && known.is_some_and(|c| !is_policy(c.reporter)) {
                continue;
            }
            record(&mut bytes, &id, Some(&correction));
            self.live.insert(id, correction);
            self.records += 1;
            added += 1;
        }
        self.append(&bytes)?;
        make_room(&mut self.live);
        self.compact_if_due()?;
        Ok(added)
    }

    /// Takes back what was said about a message. Result: whether anything was.
    pub fn forget(&mut self, id: &MessageId) -> Result<bool, CorrectionsError> {
        if self.live.remove(id).is_none() {
            return Ok(false);
        }
        let mut bytes = Vec::new();
        record(&mut bytes, id, None);
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
        if self.records <= 2 * self.live.len() + DEAD_RECORDS_MAX {
            return Ok(());
        }
        let compact = || -> io::Result<File> {
            let mut bytes = header();
            for (id, correction) in &self.live {
                record(&mut bytes, id, Some(correction));
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
                (self.file, self.records) = (file, self.live.len());
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

/// Drops the oldest corrections over the limit. Policies together, and each reporter, have lower
/// limits of their own, so that they crowd out nobody's.
fn make_room(live: &mut BTreeMap<MessageId, Correction>) {
    let mut by_voter: BTreeMap<u64, Vec<(i64, MessageId)>> = BTreeMap::new();
    for (id, c) in live.iter().filter(|(_, c)| c.reporter != 0) {
        by_voter.entry(voter(c.reporter)).or_default().push((c.at, *id));
    }
    for (who, said) in by_voter {
        let most = match is_policy(who) {
            true => POLICY_CORRECTIONS_MAX,
            false => REPORTER_CORRECTIONS_MAX,
        };
        drop_oldest(live, said, most);
    }
    let all = live.iter().map(|(id, c)| (c.at, *id)).collect();
    drop_oldest(live, all, CORRECTIONS_MAX);
}

fn drop_oldest(
    live: &mut BTreeMap<MessageId, Correction>,
    mut said: Vec<(i64, MessageId)>,
    most: usize,
) {
    let over = said.len().saturating_sub(most);
    if over == 0 {
        return;
    }
    said.sort_unstable();
    for (_, id) in said.into_iter().take(over) {
        live.remove(&id);
    }
}

type Replayed = (BTreeMap<MessageId, Correction>, usize, u64);

/// The current corrections after all whole records, their number, and where the last of them ends.
fn replay(path: &Path, bytes: &[u8]) -> Result<Replayed, CorrectionsError> {
    if bytes.get(..MAGIC.len()) != Some(MAGIC) {
        return Err(CorrectionsError::NotAJournal(path.to_owned()));
    }
    let mut at = MAGIC.len();
    let found = number(bytes, &mut at).unwrap_or(0);
    if found != FORMAT_VERSION {
        return Err(CorrectionsError::OtherFormat { path: path.to_owned(), found });
    }
    let (mut live, mut records) = (BTreeMap::new(), 0);
    let mut good = at;
    while let Some(payload) = next(bytes, &mut at) {
        let Some((id, correction)) = parse(payload) else { break };
        match correction {
            Some(correction) => live.insert(id, correction),
            None => live.remove(&id),
        };
        (good, records) = (at, records + 1);
    }
    make_room(&mut live);
    Ok((live, records, good as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_engine::classifier::group::GROUPS;
    use gauntlet_engine::signatures::{Fingerprint, Kind};

    fn correction(spam: bool, at: i64) -> Correction {
        let features = vec![1, 2, 3];
        let sketch = std::array::from_fn(|i| i as u16);
        let fingerprints = vec![Fingerprint { kind: Kind::Text, size: 50, sketch }];
        let ends = [3; GROUPS];
        let (base, identities) = (0.5, vec![4, 5]);
        Correction { spam, reporter: 7, at, base, features, ends, identities, fingerprints }
    }

    #[test]
    fn what_was_said_is_there_after_opening_again_and_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Corrections::open(folder.path()).unwrap();
        assert_eq!(journal.say([([1; 16], correction(true, 1))]).unwrap(), 1);
        assert_eq!(journal.say([([1; 16], correction(true, 2))]).unwrap(), 0, "said before");
        assert_eq!(journal.say([([2; 16], correction(true, 3))]).unwrap(), 1);
        assert_eq!(journal.say([([1; 16], correction(false, 4))]).unwrap(), 1, "another opinion");
        assert!(journal.forget(&[2; 16]).unwrap() && !journal.forget(&[2; 16]).unwrap());
        let in_effect = journal.in_effect().clone();
        drop(journal);
        let again = Corrections::open(folder.path()).unwrap();
        assert_eq!(*again.in_effect(), in_effect);
        assert_eq!(in_effect.into_values().collect::<Vec<_>>(), [correction(false, 4)]);
    }

    #[test]
    fn a_policy_neither_overrules_people_nor_crowds_them_out() {
        let folder = tempfile::tempdir().unwrap();
        let by = |reporter, spam, at| Correction { reporter, ..correction(spam, at) };
        let rule = gauntlet_engine::corrections::policy_reporter_id("r");
        let id = |n: u32| -> MessageId {
            std::array::from_fn(|i| n.to_le_bytes().get(i).copied().unwrap_or(0))
        };
        let mut journal = Corrections::open(folder.path()).unwrap();
        assert_eq!(journal.say([(id(1), by(7, false, 1))]).unwrap(), 1);
        assert_eq!(journal.say([(id(1), by(rule, true, 2))]).unwrap(), 0, "a person said so");
        assert_eq!(journal.say([(id(2), by(rule, true, 2))]).unwrap(), 1);
        assert_eq!(journal.say([(id(2), by(7, false, 3))]).unwrap(), 1, "a person corrects it");
        let many = POLICY_CORRECTIONS_MAX as u32 + 10;
        journal.say((3..many + 3).map(|n| (id(n), by(rule, true, 10)))).unwrap();
        assert_eq!(journal.in_effect().len(), 2 + POLICY_CORRECTIONS_MAX);
        let in_effect = Corrections::read(folder.path()).unwrap();
        assert_eq!(&in_effect, journal.in_effect());
        assert!(!in_effect[&id(1)].spam && !in_effect[&id(2)].spam);
    }

    #[test]
    fn a_script_that_teaches_without_end_crowds_out_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let by = |reporter, at| Correction { reporter, ..correction(true, at) };
        let id = |n: u32, who: u8| -> MessageId {
            let mut id = [who; 16];
            id[..4].copy_from_slice(&n.to_le_bytes());
            id
        };
        let mut journal = Corrections::open(folder.path()).unwrap();
        journal.say((0..300).map(|n| (id(n, 1), by(0, 1)))).unwrap();
        journal.say((0..50).map(|n| (id(n, 2), by(7, 2)))).unwrap();
        for batch in 0..20 {
            let numbers = batch * 5_000..(batch + 1) * 5_000;
            journal.say(numbers.map(|n| (id(n, 3), by(9, 10 + i64::from(n))))).unwrap();
        }
        let of = |who: u64| journal.in_effect().values().filter(|c| c.reporter == who).count();
        assert_eq!((of(0), of(7), of(9)), (300, 50, REPORTER_CORRECTIONS_MAX));
        let size = std::fs::metadata(journal_path(folder.path())).unwrap().len();
        assert!(size < 2_000_000, "what no longer counts is dropped from the file: {size} bytes");
    }

    #[test]
    fn what_an_earlier_build_wrote_is_still_read() {
        let mut payload = vec![7; 16];
        payload.push(1);
        payload.extend_from_slice(&7_u64.to_le_bytes());
        payload.extend_from_slice(&5_i64.to_le_bytes());
        payload.extend_from_slice(&2.0_f32.to_le_bytes());
        payload.extend_from_slice(&[3; GROUPS].map(u16::to_le_bytes).concat());
        payload.extend_from_slice(&0_u32.to_le_bytes());
        payload.extend_from_slice(&[1_u32, 2, 3].map(u32::to_le_bytes).concat());
        let (id, read) = parse(&payload).unwrap();
        let read = read.unwrap();
        assert!(id == [7; 16] && read.spam && read.features == [1, 2, 3]);
        let weights = gauntlet_engine::fusion::Weights::default();
        let expected = weights.intercept + 2.0 * weights.classifier;
        assert!(read.identities.is_empty() && (f64::from(read.base) - expected).abs() < 1e-5);
    }

    #[test]
    fn a_crash_at_any_byte_loses_only_the_record_it_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = journal_path(folder.path());
        let mut journal = Corrections::open(folder.path()).unwrap();
        journal.say([([1; 16], correction(true, 1))]).unwrap();
        let first = std::fs::metadata(&path).unwrap().len();
        journal.say([([2; 16], correction(true, 2))]).unwrap();
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for cut in first as usize..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut journal = Corrections::open(folder.path()).unwrap();
            assert_eq!(journal.in_effect().len(), 1, "cut at {cut}");
            journal.say([([3; 16], correction(false, 3))]).unwrap();
            drop(journal);
            assert_eq!(Corrections::open(folder.path()).unwrap().in_effect().len(), 2);
        }
        for cut in 0..HEADER_BYTES as usize {
            std::fs::write(&path, &whole[..cut]).unwrap();
            assert!(Corrections::open(folder.path()).unwrap().in_effect().is_empty());
        }
    }

    #[test]
    fn records_that_no_longer_count_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Corrections::open(folder.path()).unwrap();
        for i in 0..1_200 {
            journal.say([([1; 16], correction(i % 2 == 0, i))]).unwrap();
        }
        drop(journal);
        let size = std::fs::metadata(journal_path(folder.path())).unwrap().len();
        assert!(size < 160_000, "{size}");
        assert_eq!(Corrections::open(folder.path()).unwrap().in_effect().len(), 1);
    }

    #[test]
    fn other_files_are_refused_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = journal_path(folder.path());
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "From: somebody\n\nhello").unwrap();
        assert!(matches!(Corrections::open(folder.path()), Err(CorrectionsError::NotAJournal(_))));
        std::fs::write(&path, [&MAGIC[..], &[99, 0, 0, 0]].concat()).unwrap();
        let error = Corrections::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("format 99"), "{error}");
        assert!(Corrections::read(&folder.path().join("none")).unwrap().is_empty());
    }
}
