//! The message log: every message, its verdict and its deliveries, with full search.
//!
//! One SQLite file per day (UTC, by the time of reception). So a day is deleted by removing its
//! file, which blocks no other operation; a search runs from the newest day back and stops when the
//! page is full; and a message always has the same unique key, so that a disposition is logged once
//! however often a crash makes the gateway write it again.
//!
//! One thread writes. It takes all queued appends, writes them in one transaction, makes it
//! durable, then calls their callbacks: many small appends share one sync. Until its callback is
//! called, a record is not logged, and the caller keeps the message in its spool.

mod addresses;
mod backlog;
mod counts;
mod damage;
mod day;
mod dictionary;
mod feed;
mod index;
mod lookup;
mod matching;
mod pack;
mod query;
mod reading;
mod report;
mod schema;
mod search;
mod seq;
mod terms;
mod tops;
mod writer;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use gauntlet_mail::date::{DAY_MS, day_name, day_number};
use rusqlite::Connection;

pub use backlog::{Backlog, Changes};
pub use counts::{Bucket, Counts, Top};
pub use day::Appended;
pub use matching::{Matcher, id_term, terms_of};
pub use query::{Cursor, LoggedMessage, Page, Query, RecipientSummary, Summary, check_address};
pub use reading::MessageLog;
pub use report::{Feedback, TopKind};

use crate::database;
use crate::error::StoreError;
use crate::inbox::{Inbox, inbox};
use crate::record::{Event, LogRecord};
pub(crate) use schema::MIGRATIONS;
use writer::{Command, Writer};

/// Latest time of reception that is accepted: the end of the year 9999, in milliseconds.
const RECEIVED_MS_MAX: i64 = 253_402_300_799_999;
/// Most read connections kept open.
const READERS_KEPT: usize = 128;

/// Limits and behaviour of a log.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// Most records in one transaction.
    pub batch_records_max: usize,
    /// How long the writer waits for more records before it commits a batch that is not full.
    pub batch_wait: Duration,
    /// Appends in the queue of the writer; a further one blocks.
    pub queue_appends_max: usize,
    /// Move a damaged day aside. Only for the node, which owns the log; other processes skip it.
    pub sets_damaged_days_aside: bool,
    /// Collect every change until the array's database has it ([`Log::unshipped`]). Only for the
    /// node, which owns the log.
    pub feeds_array: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            batch_records_max: 1024,
            batch_wait: Duration::from_millis(5),
            queue_appends_max: 1024,
            sets_damaged_days_aside: false,
            feeds_array: false,
        }
    }
}

/// Called with the result when records are durable, or failed.
pub type OnLogged = Box<dyn FnOnce(Result<Appended, StoreError>) + Send>;

/// Sees the records that are appended. It must be quick, and must not append.
pub type Observe = Box<dyn Fn(&LogRecord) + Send + Sync>;

/// Who sees what is appended, if somebody does.
#[derive(Default)]
struct Observer(OnceLock<Observe>);

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Observer").field(&self.0.get().is_some()).finish()
    }
}

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
    sets_damaged_days_aside: bool,
    /// Damaged days that this process may not move aside.
    left_out: Mutex<BTreeSet<i64>>,
    observer: Observer,
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
        let mut left_out = BTreeSet::new();
        for day in days_of(folder)? {
            let path = day_path(folder, day);
            let in_parts = database::open_write(&path, schema::MIGRATIONS)
                .and_then(|c| day::is_in_parts(&c).map_err(StoreError::db(&path)));
            match in_parts {
                Ok(in_parts) => {
                    found.insert(day);
                    unmerged.extend(in_parts.then_some(day));
                }
                Err(error) if !error.is_damage() => return Err(error),
                Err(error) if options.sets_damaged_days_aside => {
                    damage::set_aside(folder, day, &error.to_string())?;
                }
                Err(error) => {
                    tracing::warn!(%error, "a damaged day of the message log is skipped");
                    left_out.insert(day);
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
            sets_damaged_days_aside: options.sets_damaged_days_aside,
            left_out: Mutex::new(left_out),
            observer: Observer::default(),
        })
    }

    /// From now on this sees every record that is appended, before it is durable. The first one
    /// that is set stays.
    pub fn observe(&self, observe: Observe) {
        let _the_first_stays = self.observer.0.set(observe);
    }

    /// Logs these records and waits until they are durable.
    ///
    /// A recipient whose disposition is logged already is not changed: writing again after a crash
    /// is safe. Further recipients of a known message are added to it.
    ///
    /// # Errors
    /// If they could not be made durable; then it is unknown what was written, and the call must be
    /// repeated.
    pub fn append(&self, records: Vec<LogRecord>) -> Result<Appended, StoreError> {
        self.wait(|done| self.append_then(records, Vec::new(), done))
    }

    /// Adds events to messages of the log, and waits until they are durable. An event of an unknown
    /// message is dropped; a known event is not added twice.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append_events(&self, events: Vec<Event>) -> Result<Appended, StoreError> {
        self.wait(|done| self.append_then(Vec::new(), events, done))
    }

    /// Queues records and events; `done` is called on the writer's thread when they are durable or
    /// failed. It must be quick, and must not append. Blocks only when the queue is full.
    pub fn append_then(&self, records: Vec<LogRecord>, events: Vec<Event>, done: OnLogged) {
        self.queue_append(records, events, done, false);
    }

    /// As [`Log::append_then`] for a caller that can do nothing about a failure: it is an error in
    /// the text log, with the messages whose lines are missing.
    pub fn append_or_tell(&self, records: Vec<LogRecord>, events: Vec<Event>) {
        let ids = records.iter().map(|r| r.id.as_str()).chain(events.iter().map(|e| e.id.as_str()));
        let ids = ids.collect::<Vec<_>>().join(" ");
        let tell = move |result: Result<Appended, StoreError>| {
            if let Err(error) = result {
                tracing::error!(%error, ids, "lines are missing in the message log");
            }
        };
        self.append_then(records, events, Box::new(tell));
    }

    /// As [`Log::append_then`] for a caller that waits: the writer takes what is queued already and
    /// commits at once. Concurrent callers still share one sync.
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
        if let Some(observe) = self.observer.0.get() {
            records.iter().for_each(observe);
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
            let _caller_stopped_waiting = sender.send(result);
        }));
        let closed = || StoreError::Closed { path: self.folder.clone() };
        outcome.recv().unwrap_or_else(|_| Err(closed()))
    }

    /// Deletes the days that ended more than `days_kept` days before `now_ms`. Returns how many.
    /// Removes files, so it blocks neither writers nor readers.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn retain(&self, now_ms: i64, days_kept: u32) -> Result<u64, StoreError> {
        let first_kept = now_ms.div_euclid(DAY_MS) - i64::from(days_kept);
        self.readers().retain(|(day, _)| *day >= first_kept);
        self.wait(|done| self.send(Command::Retain { first_kept, done })).map(|a| a.new)
    }

    /// Runs a search without results over all days, which opens their files and caches their
    /// indexes, so that the first search of a user is fast. Takes some milliseconds per day; run it
    /// on its own thread.
    pub fn warm(&self) {
        let no_match = Query { sender: "nobody@nowhere.invalid".to_owned(), ..Query::default() };
        // A day that cannot be read is an error of the search that needs it.
        let _ = self.search(&no_match);
    }

    /// Transactions since the log was opened: each synced once (checkpoints apart).
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// The folder of the log.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The days that have a file, newest first, as days since 1970.
    pub fn days(&self) -> Vec<i64> {
        let days = self.days.read().unwrap_or_else(PoisonError::into_inner);
        days.iter().rev().copied().collect()
    }

    /// Messages for the administrator on damaged days that were moved aside, or that this process
    /// has left out so far: where they are, and what to do.
    pub fn damaged_days(&self) -> Vec<String> {
        let left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        let left_out = left_out.iter().map(|day| damage::describe_left_out(*day));
        damage::list(&self.folder).into_iter().chain(left_out).collect()
    }

    /// The same of a log that no process has open. Changes nothing.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    pub fn examine(folder: &Path) -> Result<Vec<String>, StoreError> {
        damage::examine(folder)
    }

    /// Time of reception of the newest logged message, in Unix milliseconds; none if there is none.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn newest_ms(&self) -> Result<Option<i64>, StoreError> {
        let newest = |c: &Connection| {
            c.query_row("SELECT max(seq) FROM message", [], |row| row.get::<_, Option<i64>>(0))
        };
        for day in self.days() {
            if let Some(Some(seq)) = self.read_day(day, newest)? {
                return Ok(Some(seq::ms_of(seq)));
            }
        }
        Ok(None)
    }

    /// Skips a damaged day, so that the others can be read.
    fn leave_out(&self, day: i64, error: &StoreError) {
        tracing::error!(%error, "a day of the message log cannot be read");
        self.readers().retain(|(open, _)| *open != day);
        if self.sets_damaged_days_aside {
            self.send(Command::SetAside { day, why: error.to_string() });
        } else {
            self.left_out.lock().unwrap_or_else(PoisonError::into_inner).insert(day);
        }
    }

    fn readers(&self) -> std::sync::MutexGuard<'_, Vec<(i64, Connection)>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `read` on a connection to this day. None if the day was deleted meanwhile.
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

/// The days that have a file in this folder.
fn days_of(folder: &Path) -> Result<BTreeSet<i64>, StoreError> {
    let entries = std::fs::read_dir(folder).map_err(StoreError::io(folder, "list"))?;
    let day = |name: &str| name.strip_suffix(".db").and_then(day_number);
    Ok(entries.flatten().filter_map(|e| day(e.file_name().to_str()?)).collect())
}

/// The path of a day's file.
fn day_path(folder: &Path, day: i64) -> PathBuf {
    folder.join(format!("{}.db", day_name(day)))
}

#[cfg(test)]
mod shared_tests;
#[cfg(test)]
mod tests;
