//! The web log: one row a request, one SQLite file a day.
//!
//! ```text
//! proxy ─▶ append (never waits) ─▶ queue ─▶ writer thread ─▶ web/2026-11-26.db ─▶ search, summary
//! ```
//!
//! Unlike mail, a request is over when it is logged, so nothing is lost for its client if a line
//! is: a queue that is full drops lines and counts them, and rows become durable within
//! [`BATCH_WAIT`].

mod listed;
mod query;
pub mod replay;
mod schema;
mod summary;
mod writer;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use gauntlet_mail::date::{DAY_MS, day_name};
use gauntlet_web::WebRecord;

use crate::error::StoreError;
use crate::files;
use crate::replay::Progress;

pub use self::query::{WebCursor, WebPage, WebQuery, WebRow};
pub use self::summary::{WebCount, WebHour, WebSummary};
use self::writer::{Command, Writer};

/// Records that wait for the writer; beyond, they are dropped and counted.
const QUEUE_MAX: usize = 65_536;
/// How long records gather before they are written together.
pub const BATCH_WAIT: Duration = Duration::from_millis(200);

/// The web log of a node.
#[derive(Debug)]
pub struct WebLog {
    folder: PathBuf,
    queue: SyncSender<Command>,
    writer: Mutex<Option<JoinHandle<()>>>,
    counts: Arc<Counts>,
}

/// What became of records.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) written: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

impl WebLog {
    /// Opens or creates the folder, and starts the writer.
    ///
    /// # Errors
    /// The folder cannot be made, or no thread be started.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        files::create_folder(folder).map_err(StoreError::io(folder, "create"))?;
        let (queue, commands) = mpsc::sync_channel(QUEUE_MAX);
        let counts = Arc::<Counts>::default();
        let writer = Writer::new(folder.to_owned(), Arc::clone(&counts));
        let thread = std::thread::Builder::new().name("web-log".to_owned());
        let thread = thread.spawn(move || writer.run(&commands));
        let thread = thread.map_err(StoreError::io(folder, "start a thread for"))?;
        let writer = Mutex::new(Some(thread));
        Ok(WebLog { folder: folder.to_owned(), queue, writer, counts })
    }

    /// Takes a record, and does not wait: if the writer cannot keep up, it is dropped and counted.
    pub fn append(&self, record: WebRecord) {
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.queue.try_send(Command::Append(Box::new(record)))
        {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all that was appended before is written.
    pub fn flush(&self) {
        let (done, waiting) = mpsc::sync_channel(1);
        if self.queue.send(Command::Flush(done)).is_ok() {
            // The writer is gone: nothing is left to wait for.
            let _ = waiting.recv();
        }
    }

    /// Deletes the days before the one of this time, in milliseconds since 1970.
    pub fn retain(&self, since_ms: i64) {
        // A queue that is closed has no days to delete.
        let _ = self.queue.send(Command::Retain { first_kept: since_ms.div_euclid(DAY_MS) });
    }

    /// Records that were written since the start.
    pub fn written(&self) -> u64 {
        self.counts.written.load(Ordering::Relaxed)
    }

    /// Records that were dropped since the start, because the queue was full or the disk failed.
    pub fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }

    /// Opens a log for reading that another process writes.
    ///
    /// # Errors
    /// See [`search`].
    pub fn read(folder: &Path, query: &WebQuery) -> Result<WebPage, StoreError> {
        query::search(folder, query)
    }

    /// Finds requests, newest first.
    ///
    /// # Errors
    /// A day cannot be read.
    pub fn search(&self, query: &WebQuery) -> Result<WebPage, StoreError> {
        query::search(&self.folder, query)
    }

    /// Tries another policy on requests of the log.
    ///
    /// # Errors
    /// See [`replay::replay`].
    pub fn replay(
        &self,
        request: &replay::WebReplayRequest<'_>,
        progress: impl FnMut(Progress) -> bool,
    ) -> Result<replay::WebReplayReport, StoreError> {
        replay::replay(&self.folder, request, progress)
    }

    /// Counts requests of a log that another process writes.
    ///
    /// # Errors
    /// A day cannot be read.
    pub fn read_summary(
        folder: &Path,
        since_ms: i64,
        until_ms: i64,
    ) -> Result<WebSummary, StoreError> {
        summary::summary(folder, since_ms, until_ms)
    }

    /// Counts requests of a span of time, in milliseconds since 1970.
    ///
    /// # Errors
    /// A day cannot be read.
    pub fn summary(&self, since_ms: i64, until_ms: i64) -> Result<WebSummary, StoreError> {
        summary::summary(&self.folder, since_ms, until_ms)
    }
}

impl Drop for WebLog {
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
fn day_path(folder: &Path, day: i64) -> PathBuf {
    folder.join(format!("{}.db", day_name(day)))
}

/// The days that there are, oldest first.
fn days(folder: &Path) -> Result<BTreeSet<i64>, StoreError> {
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

#[cfg(test)]
mod tests;
