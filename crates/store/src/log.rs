//! The message log: what came, what it was, what became of it. Searched by people.
//!
//! One SQLite file a day (UTC, by the time the message was received). So the log of a day is
//! forgotten by removing a file, which stalls nobody; a search runs from the newest day back and
//! stops when the page is full; and the same message always meets the same unique key, so that a
//! disposition is logged once however often a crash makes the gateway write it again.
//!
//! One thread writes. It takes what has gathered in its queue, writes it in one transaction and
//! makes it durable, then tells those who wait: many small appends cost one sync together. Until it
//! has told them, the record is not logged, and the caller keeps the message in its spool.

mod calendar;
mod counts;
mod damage;
mod day;
mod dictionary;
mod index;
mod pack;
mod people;
mod report;
mod schema;
mod search;
mod terms;
mod tops;
mod writer;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

pub use calendar::{civil, day_name, day_number};
pub use counts::{Bucket, Counts, Top};
pub use day::Appended;
pub use report::{Said, TopKind};
pub use search::{Cursor, Logged, Page, Query, RecipientSummary, Summary};

use crate::database;
use crate::error::StoreError;
use crate::inbox::{Inbox, inbox};
use crate::record::{Event, LogRecord};
use day::DAY_MS;
use writer::{Command, Writer};

/// Latest time of reception that the log takes: the end of the year 9999, in milliseconds.
const RECEIVED_MS_MAX: i64 = 253_402_300_799_999;
/// Read connections kept open.
const READERS_KEPT: usize = 128;

/// Limits of a log.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// Most records in one transaction.
    pub batch_records_max: usize,
    /// How long the writer waits for more records before it commits a batch that is not full.
    pub batch_wait: Duration,
    /// Appends that wait for the writer; a further one waits for room.
    pub queue_appends_max: usize,
    /// A day that is damaged is set aside: for the node, whose log it is. Else it is left out.
    pub sets_aside: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            batch_records_max: 1024,
            batch_wait: Duration::from_millis(5),
            queue_appends_max: 1024,
            sets_aside: false,
        }
    }
}

/// Called with the outcome when records are durable, or cannot be.
pub type OnLogged = Box<dyn FnOnce(Result<Appended, StoreError>) + Send>;

/// An open log. Share it as `Arc<Log>`; every method may be called from any thread.
///
/// Dropping it writes what is queued and waits for that.
#[derive(Debug)]
pub struct Log {
    folder: PathBuf,
    queue: Option<Inbox<Command>>,
    writer: Option<JoinHandle<()>>,
    days: Arc<RwLock<BTreeSet<i64>>>,
    commits: Arc<AtomicU64>,
    readers: Mutex<Vec<(i64, Connection)>>,
    sets_aside: bool,
}

impl Log {
    /// Opens or creates the log in this folder with the default limits.
    ///
    /// # Errors
    /// If the folder cannot be used, or a day's file is newer than this program.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::open_with(folder, LogOptions::default())
    }

    /// Opens or creates the log in this folder.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn open_with(folder: &Path, options: LogOptions) -> Result<Self, StoreError> {
        crate::files::create_folder(folder).map_err(StoreError::io(folder, "create"))?;
        let (mut found, mut unmerged) = (BTreeSet::new(), BTreeSet::new());
        let entries = std::fs::read_dir(folder).map_err(StoreError::io(folder, "list"))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            let day = name.to_str().and_then(|n| n.strip_suffix(".db")).and_then(day_number);
            if let Some(day) = day {
                let in_parts = database::open_write(&entry.path(), schema::MIGRATIONS)
                    .and_then(|c| day::is_in_parts(&c).map_err(StoreError::db(&entry.path())));
                match in_parts {
                    Ok(in_parts) => {
                        found.insert(day);
                        unmerged.extend(in_parts.then_some(day));
                    }
                    Err(error) if !error.is_damage() => return Err(error),
                    Err(error) if options.sets_aside => {
                        damage::set_aside(folder, day, &error.to_string())?;
                    }
                    Err(error) => tracing::warn!(%error, "a day of the message log is left out"),
                }
            }
        }
        // The newest day still grows.
        unmerged.retain(|day| Some(day) != found.last());
        let days = Arc::new(RwLock::new(found));
        let (queue, commands) = inbox(options.queue_appends_max);
        let commits = Arc::new(AtomicU64::new(0));
        let writer =
            Writer::new(folder.to_owned(), options, days.clone(), commits.clone(), unmerged);
        let writer = std::thread::Builder::new()
            .name("log-writer".to_owned())
            .spawn(move || writer.run(&commands))
            .map_err(StoreError::io(folder, "start the writer of"))?;
        Ok(Log {
            folder: folder.to_owned(),
            queue: Some(queue),
            writer: Some(writer),
            days,
            commits,
            readers: Mutex::new(Vec::new()),
            sets_aside: options.sets_aside,
        })
    }

    /// Logs these records and waits until they are durable.
    ///
    /// A recipient whose disposition is logged already is left as it is: writing again after a
    /// crash is safe. Records for more recipients of a known message are added to it.
    ///
    /// # Errors
    /// If they could not be made durable; then nothing may be assumed, and the call repeated.
    pub fn append(&self, records: Vec<LogRecord>) -> Result<Appended, StoreError> {
        self.wait(|done| self.append_then(records, Vec::new(), done))
    }

    /// Adds events to messages that are in the log, and waits until they are durable. An event of
    /// an unknown message is dropped; one that is there already is not doubled.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append_events(&self, events: Vec<Event>) -> Result<Appended, StoreError> {
        self.wait(|done| self.append_then(Vec::new(), events, done))
    }

    /// Queues records and events; `done` is called on the writer's thread when they are durable or
    /// cannot be. It must be quick, and must not append. Waits only when the queue is full.
    pub fn append_then(&self, records: Vec<LogRecord>, events: Vec<Event>, done: OnLogged) {
        self.queue_append(records, events, done, false);
    }

    /// As [`Log::append_then`] for somebody who waits: the writer gathers what is queued already and
    /// commits at once. Those who wait at the same time still share one sync.
    pub fn append_now(&self, records: Vec<LogRecord>, events: Vec<Event>, done: OnLogged) {
        self.queue_append(records, events, done, true);
    }

    fn queue_append(
        &self,
        records: Vec<LogRecord>,
        events: Vec<Event>,
        done: OnLogged,
        urgent: bool,
    ) {
        let times =
            records.iter().map(|r| r.received_ms).chain(events.iter().map(|e| e.received_ms));
        if let Some(wrong) = times.into_iter().find(|t| !(0..=RECEIVED_MS_MAX).contains(t)) {
            let cause = format!("{wrong} is not between 1970 and 9999");
            return done(Err(StoreError::Invalid { what: "received_ms", cause }));
        }
        self.send(Command::Append { records, events, done, urgent });
    }

    fn send(&self, command: Command) {
        let urgent = !matches!(command, Command::Append { urgent: false, .. });
        let unsent = match &self.queue {
            Some(queue) => queue.send(command, urgent).err(),
            None => Some(command),
        };
        if let Some(command) = unsent {
            command.fail(StoreError::Closed { path: self.folder.clone() });
        }
    }

    fn wait(&self, start: impl FnOnce(OnLogged)) -> Result<Appended, StoreError> {
        let (sender, outcome) = sync_channel(1);
        start(Box::new(move |result| {
            let _the_caller_waits = sender.send(result);
        }));
        let closed = || StoreError::Closed { path: self.folder.clone() };
        outcome.recv().unwrap_or_else(|_| Err(closed()))
    }

    /// Forgets the days that ended more than `days_kept` days before `now_ms`. Returns how many.
    /// Removes files, so it stalls neither writers nor readers.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn retain(&self, now_ms: i64, days_kept: u32) -> Result<u64, StoreError> {
        let first_kept = now_ms.div_euclid(DAY_MS) - i64::from(days_kept);
        self.readers().retain(|(day, _)| *day >= first_kept);
        self.wait(|done| self.send(Command::Retain { first_kept, done })).map(|a| a.new)
    }

    /// Looks for what nobody sent, through all days: the files are open then and their indexes known, so
    /// that the first search of a person need not wait for it. Takes some milliseconds a day; for a
    /// thread of its own.
    pub fn warm(&self) {
        let nobody = Query { sender: "nobody@nowhere.invalid".to_owned(), ..Query::default() };
        // A day that cannot be read is an error of the search that needs it.
        let _ = self.search(&nobody);
    }

    /// Transactions since it was opened: each waited for the disk once (checkpoints apart).
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Where the log is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The days that have a file, newest first.
    pub fn days(&self) -> Vec<i64> {
        let days = self.days.read().unwrap_or_else(PoisonError::into_inner);
        days.iter().rev().copied().collect()
    }

    /// Days that are damaged and were set aside, for people: where they are, and what to do.
    pub fn damaged(&self) -> Vec<String> {
        damage::standing(&self.folder)
    }

    /// When the newest message that is logged was received, Unix milliseconds; none if there is none.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn newest_ms(&self) -> Result<Option<i64>, StoreError> {
        let newest = |c: &Connection| {
            c.query_row("SELECT max(seq) FROM message", [], |row| row.get::<_, Option<i64>>(0))
        };
        for day in self.days() {
            if let Some(Some(seq)) = self.read_day(day, newest)? {
                return Ok(Some(day::ms_of(seq)));
            }
        }
        Ok(None)
    }

    /// A day that is damaged does not keep the others from being read.
    fn leave_out(&self, day: i64, error: &StoreError) {
        tracing::error!(%error, "a day of the message log cannot be read");
        self.readers().retain(|(open, _)| *open != day);
        if self.sets_aside {
            self.send(Command::SetAside { day, why: error.to_string() });
        }
    }

    fn readers(&self) -> std::sync::MutexGuard<'_, Vec<(i64, Connection)>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `read` on a connection to this day. None if the day was forgotten meanwhile.
    fn read_day<T>(
        &self,
        day: i64,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        let path = day_path(&self.folder, day);
        let kept = {
            let mut readers = self.readers();
            let place = readers.iter().rposition(|(d, _)| *d == day);
            place.map(|i| readers.swap_remove(i).1)
        };
        let opened = match kept {
            Some(connection) => Ok(connection),
            None if !path.exists() => return Ok(None),
            None => database::open_read(&path, schema::MIGRATIONS),
        };
        let done = opened.and_then(|connection| {
            read(&connection).map(|value| (value, connection)).map_err(StoreError::db(&path))
        });
        let (value, connection) = match done {
            Ok(done) => done,
            Err(error) if error.is_damage() => {
                self.leave_out(day, &error);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut readers = self.readers();
        if readers.len() >= READERS_KEPT {
            readers.remove(0);
        }
        readers.push((day, connection));
        Ok(Some(value))
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(writer) = self.writer.take() {
            let _a_panic_was_reported_by_the_thread = writer.join();
        }
    }
}

/// The file of a day.
fn day_path(folder: &Path, day: i64) -> PathBuf {
    folder.join(format!("{}.db", day_name(day)))
}

#[cfg(test)]
mod tests;
