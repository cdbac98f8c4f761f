//! The thread that writes the web log.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use gauntlet_mail::date::DAY_MS;
use gauntlet_web::WebRecord;
use rusqlite::{Connection, params};

use super::listed::write_listed;
use super::schema::MIGRATIONS;
use super::{BATCH_WAIT, Counts, day_path, days};
use crate::database;
use crate::error::StoreError;

/// Records of a batch.
const BATCH_MAX: usize = 8_192;
/// Days kept open: requests are logged when they end, and some began the day before.
const DAYS_OPEN_MAX: usize = 2;
/// Bytes of a text that are kept.
const TEXT_BYTES_MAX: usize = 4_096;
/// A disk that fails is told of once in this time.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Commands of the writer thread.
pub(super) enum Command {
    Append(Box<WebRecord>),
    Retain { first_kept: i64 },
    Flush(SyncSender<()>),
    Stop,
}

pub(super) struct Writer {
    folder: PathBuf,
    counts: Arc<Counts>,
    open: BTreeMap<i64, Connection>,
    warned: Option<Instant>,
}

impl Writer {
    pub(super) fn new(folder: PathBuf, counts: Arc<Counts>) -> Self {
        Writer { folder, counts, open: BTreeMap::new(), warned: None }
    }

    /// Runs until it is told to stop.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
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

    fn write(&mut self, batch: &mut Vec<WebRecord>) {
        let mut by_day: BTreeMap<i64, Vec<&WebRecord>> = BTreeMap::new();
        for record in batch.iter() {
            by_day.entry(record.at_ms.div_euclid(DAY_MS)).or_default().push(record);
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
            tracing::error!(%error, dropped, "requests could not be written to the web log");
        }
    }

    fn write_day(&mut self, day: i64, records: &[&WebRecord]) -> Result<(), StoreError> {
        let path = day_path(&self.folder, day);
        let db = StoreError::db(&path);
        let mut connection = match self.open.remove(&day) {
            Some(connection) => connection,
            None => {
                let connection = database::open_busy(&path, MIGRATIONS)?;
                // A line that a power cut takes is no lost mail: the file itself stays whole.
                connection.execute_batch("PRAGMA synchronous = NORMAL;").map_err(&db)?;
                connection
            }
        };
        insert(&mut connection, records).map_err(&db)?;
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
                        tracing::warn!(%error, %path, "an old day of the web log stays");
                    }
                    _ => {}
                }
            }
        }
    }
}

fn insert(connection: &mut Connection, records: &[&WebRecord]) -> rusqlite::Result<()> {
    let batch = connection.transaction()?;
    let mut statement = batch.prepare_cached(
        "INSERT INTO request (at_ms, took_ms, reference, client, user, method, host, url, status, \
         outcome, rule, category, evidence, content_type, bytes_in, bytes_out, action, listed, \
         bytes_declared) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, \
         ?19)",
    )?;
    for r in records {
        let listed = r.listed.as_deref().map(write_listed);
        statement.execute(params![
            r.at_ms,
            signed(r.took_ms),
            bounded(&r.reference),
            bounded(&r.client),
            bounded(&r.user),
            bounded(&r.method),
            bounded(&r.host),
            bounded(&r.url),
            r.status,
            r.outcome.name(),
            bounded(&r.rule),
            bounded(&r.category),
            bounded(&r.evidence),
            bounded(&r.content_type),
            signed(r.bytes_in),
            signed(r.bytes_out),
            r.action.as_deref().map(bounded),
            listed.as_deref().map(bounded),
            r.bytes_declared.map(signed),
        ])?;
    }
    drop(statement);
    batch.commit()
}

/// SQLite's integers are signed.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn bounded(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default()
}
