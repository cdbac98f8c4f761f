//! The thread that writes a log of days.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use gauntlet_mail::date::DAY_MS;
use rusqlite::Connection;

use super::{BATCH_WAIT, Counts, DayRecord, day_path, days};
use crate::database;
use crate::error::StoreError;

/// Records of a batch.
const BATCH_MAX: usize = 8_192;
/// Days kept open: what is logged when it ends may have begun the day before.
const DAYS_OPEN_MAX: usize = 2;
/// A disk that fails is told of once in this time.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Commands of the writer thread.
pub(super) enum Command<R> {
    Append(Box<R>),
    Retain { first_kept: i64 },
    Flush(SyncSender<()>),
    Stop,
}

pub(super) struct Writer<R> {
    folder: PathBuf,
    counts: Arc<Counts>,
    open: BTreeMap<i64, Connection>,
    warned: Option<Instant>,
    records: PhantomData<R>,
}

impl<R: DayRecord> Writer<R> {
    pub(super) fn new(folder: PathBuf, counts: Arc<Counts>) -> Self {
        let open = BTreeMap::new();
        Writer { folder, counts, open, warned: None, records: PhantomData }
    }

    /// Runs until it is told to stop.
    pub(super) fn run(mut self, commands: &Receiver<Command<R>>) {
        let mut batch = Vec::new();
        let mut due: Option<Instant> = None;
        loop {
            let wait = due.map(|due| due.saturating_duration_since(Instant::now()));
            let next = match wait {
                None => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(wait) => commands.recv_timeout(wait),
            };
            match next {
                Ok(Command::Append(record)) => {
                    batch.push(*record);
                    due.get_or_insert_with(|| Instant::now() + BATCH_WAIT);
                    if batch.len() < BATCH_MAX {
                        continue;
                    }
                    self.write(&mut batch);
                }
                Ok(Command::Flush(done)) => {
                    self.write(&mut batch);
                    // Who asked may have left.
                    let _ = done.send(());
                }
                Ok(Command::Retain { first_kept }) => self.retain(first_kept),
                Err(RecvTimeoutError::Timeout) => self.write(&mut batch),
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    return self.write(&mut batch);
                }
            }
            due = (!batch.is_empty()).then(|| Instant::now() + BATCH_WAIT);
        }
    }

    fn write(&mut self, batch: &mut Vec<R>) {
        let mut by_day: BTreeMap<i64, Vec<&R>> = BTreeMap::new();
        for record in batch.iter() {
            by_day.entry(record.at_ms().div_euclid(DAY_MS)).or_default().push(record);
        }
        for (day, records) in by_day {
            let count = records.len() as u64;
            match self.write_day(day, &records) {
                Ok(()) => self.counts.written.fetch_add(count, Ordering::Relaxed),
                Err(error) => {
                    // It is opened anew: its file may be gone, or the disk full for a while.
                    self.open.remove(&day);
                    self.warn(&error);
                    self.counts.dropped.fetch_add(count, Ordering::Relaxed)
                }
            };
        }
        batch.clear();
    }

    fn warn(&mut self, error: &StoreError) {
        if self.warned.is_none_or(|at| at.elapsed() > WARN_EVERY) {
            self.warned = Some(Instant::now());
            let dropped = self.counts.dropped.load(Ordering::Relaxed);
            tracing::error!(%error, dropped, log = R::LOG, "records could not be written");
        }
    }

    fn write_day(&mut self, day: i64, records: &[&R]) -> Result<(), StoreError> {
        let path = day_path(&self.folder, day);
        let db = StoreError::db(&path);
        let mut connection = match self.open.remove(&day) {
            Some(connection) => connection,
            None => {
                let connection = database::open_busy(&path, R::MIGRATIONS)?;
                // A line that a power cut takes is no lost mail: the file itself stays whole.
                connection.execute_batch("PRAGMA synchronous = NORMAL;").map_err(&db)?;
                connection
            }
        };
        R::insert(&mut connection, records).map_err(&db)?;
        self.open.insert(day, connection);
        while self.open.len() > DAYS_OPEN_MAX {
            self.open.pop_first();
        }
        Ok(())
    }

    /// Deletes days that are older.
    fn retain(&mut self, first_kept: i64) {
        let old = days(&self.folder).unwrap_or_default();
        for &day in old.range(..first_kept) {
            self.open.remove(&day);
            let path = day_path(&self.folder, day);
            for suffix in ["", "-wal", "-shm"] {
                let mut name = path.clone().into_os_string();
                name.push(suffix);
                match std::fs::remove_file(&name) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        let path = path.display();
                        tracing::warn!(%error, %path, log = R::LOG, "an old day stays");
                    }
                    _ => {}
                }
            }
        }
    }
}
