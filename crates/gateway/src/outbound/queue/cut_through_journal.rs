//! Outcomes of messages that no spool remembers (cut-through), on their way into the message log.
//!
//! The log syncs its disk before it says that a record is there, and the client would wait for
//! that. So the outcome is written down here first, without a sync: what is written outlives the
//! process, whatever ends it. What an earlier process left is logged when the node starts; the log
//! minds that it knows some of it. A power cut can cost lines of the last moment, as it can repeat
//! a delivery; it costs no mail.
//!
//! Two files take turns. When the one in use is large, and all that the other one holds is logged,
//! the other one is emptied and used. A record is a line of JSON; one that is torn is left out.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use gauntlet_store::{Log, LogRecord};

/// Bytes of a file from which on the other one is used, if it can be.
const TURN_BYTES: u64 = 1 << 20;
/// Bytes of a file from which on nothing more is written: the log takes nothing.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Names of the files, in the node's data folder.
const NAMES: [&str; 2] = ["passed-on-0.jsonl", "passed-on-1.jsonl"];

/// Which file an outcome was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Noted(usize);

/// The two files. Share it as `Arc<CutThroughJournal>`.
#[derive(Debug)]
pub struct CutThroughJournal {
    turns: Mutex<Turns>,
}

#[derive(Debug)]
struct Turns {
    files: [Half; 2],
    /// The one that is written to.
    current: usize,
}

#[derive(Debug)]
struct Half {
    file: File,
    bytes: u64,
    /// Outcomes in it that are not logged yet.
    open: u64,
}

impl Half {
    fn open(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        let file = options.create(true).read(true).append(true).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Half { file, bytes, open: 0 })
    }

    /// The records in it.
    fn read(&self) -> io::Result<Vec<LogRecord>> {
        let mut bytes = Vec::new();
        (&self.file).take(2 * FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        let lines = bytes.split(|b| *b == b'\n');
        Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }

    fn empty(&mut self) -> io::Result<()> {
        if self.bytes > 0 {
            self.file.set_len(0)?;
            self.bytes = 0;
        }
        Ok(())
    }
}

impl CutThroughJournal {
    /// Opens the files in this folder and logs what an earlier process left there. Blocks.
    ///
    /// # Errors
    /// If the files cannot be used, or the log takes nothing.
    pub fn recover(folder: &Path, log: &Log) -> anyhow::Result<Self> {
        let (notes, left) = Self::open(folder).with_context(|| folder.display().to_string())?;
        if !left.is_empty() {
            let records = left.len();
            let appended = log.append(left)?;
            tracing::info!(records, new = appended.new, "logged what was passed on before the end");
        }
        notes.tidy().with_context(|| folder.display().to_string())?;
        Ok(notes)
    }

    /// Opens the files in this folder. Also gives what an earlier process wrote.
    fn open(folder: &Path) -> io::Result<(Self, Vec<LogRecord>)> {
        let [first, second] = NAMES.map(|name| Half::open(&folder.join(name)));
        let (first, second) = (first?, second?);
        let mut left = first.read()?;
        left.extend(second.read()?);
        let turns = Turns { files: [first, second], current: 0 };
        Ok((CutThroughJournal { turns: Mutex::new(turns) }, left))
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an outcome down. None of it is lost to the end of this process from now on.
    ///
    /// # Errors
    /// If it cannot be written, or the log has taken nothing for long.
    pub fn note(&self, record: &LogRecord) -> io::Result<Noted> {
        let mut line = serde_json::to_vec(record).map_err(io::Error::other)?;
        line.push(b'\n');
        let mut turns = self.turns();
        let Turns { files: [first, second], current } = &mut *turns;
        let (mut half, other) = if *current == 0 { (first, second) } else { (second, first) };
        if half.bytes >= TURN_BYTES && other.open == 0 {
            other.empty()?;
            half = other;
            *current = 1 - *current;
        }
        if half.bytes >= FILE_BYTES_MAX {
            return Err(io::Error::other("the message log takes nothing"));
        }
        if let Err(error) = half.file.write_all(&line) {
            // Half a line would spoil the next.
            let _best_effort = half.file.set_len(half.bytes);
            return Err(error);
        }
        half.bytes += line.len() as u64;
        half.open += 1;
        Ok(Noted(*current))
    }

    /// An outcome is in the log.
    pub fn logged(&self, Noted(index): Noted) {
        if let Some(half) = self.turns().files.get_mut(index) {
            half.open = half.open.saturating_sub(1);
        }
    }

    /// Empties what holds nothing that is not logged.
    ///
    /// # Errors
    /// The system's; then the next start logs it again, which changes nothing.
    pub fn tidy(&self) -> io::Result<()> {
        let mut turns = self.turns();
        turns.files.iter_mut().filter(|half| half.open == 0).try_for_each(Half::empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u32) -> LogRecord {
        LogRecord { id: id.to_string(), subject: "x".repeat(1_000), ..LogRecord::default() }
    }

    fn left(folder: &Path) -> Vec<String> {
        let (_, left) = CutThroughJournal::open(folder).unwrap();
        left.into_iter().map(|record| record.id).collect()
    }

    #[test]
    fn what_was_noted_and_not_tidied_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let (notes, before) = CutThroughJournal::open(folder.path()).unwrap();
        assert_eq!(before, []);
        let first = notes.note(&record(1)).unwrap();
        let _not_logged = notes.note(&record(2)).unwrap();
        notes.logged(first);
        notes.tidy().unwrap();
        assert_eq!(left(folder.path()), ["1", "2"], "one is open, so the file stays");
        // The process ends in the middle of a line.
        let path = folder.path().join(NAMES[0]);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 7]).unwrap();
        let (notes, before) = CutThroughJournal::open(folder.path()).unwrap();
        assert_eq!(before.len(), 1);
        notes.tidy().unwrap();
        assert_eq!(left(folder.path()), [""; 0]);
    }

    #[test]
    fn the_files_take_turns_and_stay_small() {
        let folder = tempfile::tempdir().unwrap();
        let (notes, _) = CutThroughJournal::open(folder.path()).unwrap();
        let mut open = std::collections::VecDeque::new();
        let size = || NAMES.map(|name| folder.path().join(name).metadata().unwrap().len());
        for n in 0..10_000 {
            open.push_back((n, notes.note(&record(n)).unwrap()));
            if open.len() > 100 {
                notes.logged(open.pop_front().unwrap().1);
            }
            assert!(size().iter().all(|bytes| *bytes < TURN_BYTES + 200_000), "{:?}", size());
        }
        let found = left(folder.path());
        assert!(open.iter().all(|(n, _)| found.contains(&n.to_string())), "what is open is there");
        open.into_iter().for_each(|(_, noted)| notes.logged(noted));
        notes.tidy().unwrap();
        assert_eq!(size(), [0, 0]);
    }

    #[test]
    fn a_log_that_takes_nothing_fills_no_disk() {
        let folder = tempfile::tempdir().unwrap();
        let (notes, _) = CutThroughJournal::open(folder.path()).unwrap();
        let large = LogRecord { subject: "x".repeat(1 << 20), ..LogRecord::default() };
        let taken = (0..100).filter(|_| notes.note(&large).is_ok()).count();
        assert!((16..=40).contains(&taken), "{taken}");
    }
}
