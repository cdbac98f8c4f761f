//! A log with one SQLite file a day, for what comes often and may be lost one by one.
//!
//! ```text
//! append (never waits) ─▶ queue ─▶ writer thread ─▶ 2026-11-26.db ─▶ searches
//! ```
//!
//! A queue that is full drops records and counts them; rows become durable within [`BATCH_WAIT`].

mod writer;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gauntlet_mail::date::{DAY_MS, day_name};
use rusqlite::Connection;

use crate::error::StoreError;
use crate::files;

use self::writer::{Command, Writer};

/// Records that wait for the writer; beyond, they are dropped and counted.
const QUEUE_MAX: usize = 65_536;
/// How long records gather before they are written together.
pub(crate) const BATCH_WAIT: Duration = Duration::from_millis(200);
/// Bytes of a text that are kept.
const TEXT_BYTES_MAX: usize = 4_096;

/// What such a log is made of.
pub(crate) trait DayRecord: Send + 'static {
    /// Name of the log, for its thread and for what goes wrong.
    const LOG: &'static str;
    /// The tables of a day: version N of the schema is what the first N make.
    const MIGRATIONS: &'static [&'static str];

    /// Its time, in milliseconds since 1970.
    fn at_ms(&self) -> i64;

    /// Writes rows, all or none.
    fn insert(connection: &mut Connection, records: &[&Self]) -> rusqlite::Result<()>;
}

/// A log with one file a day.
#[derive(Debug)]
pub(crate) struct DayLog<R> {
    folder: PathBuf,
    queue: SyncSender<Command<R>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    counts: Arc<Counts>,
}

/// What became of records.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) written: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

impl<R: DayRecord> DayLog<R> {
    /// Opens or creates the folder, and starts the writer.
    pub(crate) fn open(folder: &Path) -> Result<Self, StoreError> {
        files::create_folder(folder).map_err(StoreError::io(folder, "create"))?;
        let (queue, commands) = mpsc::sync_channel(QUEUE_MAX);
        let counts = Arc::<Counts>::default();
        let writer = Writer::<R>::new(folder.to_owned(), Arc::clone(&counts));
        let thread = std::thread::Builder::new().name(R::LOG.to_owned());
        let thread = thread.spawn(move || writer.run(&commands));
        let thread = thread.map_err(StoreError::io(folder, "start a thread for"))?;
        let writer = Mutex::new(Some(thread));
        Ok(DayLog { folder: folder.to_owned(), queue, writer, counts })
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes a record, and does not wait: if the writer cannot keep up, it is dropped and counted.
    pub(crate) fn append(&self, record: R) {
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.queue.try_send(Command::Append(Box::new(record)))
        {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all that was appended before is written.
    pub(crate) fn flush(&self) {
        let (done, waiting) = mpsc::sync_channel(1);
        if self.queue.send(Command::Flush(done)).is_ok() {
            // The writer is gone: nothing is left to wait for.
            let _ = waiting.recv();
        }
    }

    /// Deletes the days before the one of this time, in milliseconds since 1970.
    pub(crate) fn retain(&self, since_ms: i64) {
        // A queue that is closed has no days to delete.
        let _ = self.queue.send(Command::Retain { first_kept: since_ms.div_euclid(DAY_MS) });
    }

    /// Records that were written since the start.
    pub(crate) fn written(&self) -> u64 {
        self.counts.written.load(Ordering::Relaxed)
    }

    /// Records that were dropped since the start, because the queue was full or the disk failed.
    pub(crate) fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }
}

impl<R> Drop for DayLog<R> {
    fn drop(&mut self) {
        // What is queued is written first; without a writer there is nothing to end.
        let _ = self.queue.send(Command::Stop);
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // A writer that panicked has said so.
            let _ = writer.join();
        }
    }
}

/// The file of a day.
pub(crate) fn day_path(folder: &Path, day: i64) -> PathBuf {
    folder.join(format!("{}.db", day_name(day)))
}

/// The days that there are, oldest first.
pub(crate) fn days(folder: &Path) -> Result<BTreeSet<i64>, StoreError> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries.map_err(StoreError::io(folder, "read"))?,
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.filter_map(|name| day_of(name.strip_suffix(".db")?)).collect())
}

fn day_of(name: &str) -> Option<i64> {
    gauntlet_mail::date::day_number(name)
}

/// SQLite's integers are signed.
pub(crate) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

pub(crate) fn bounded(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default()
}
