//! The thread that writes the log.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use gauntlet_mail::date::{DAY_MS, day_name};

use super::day::{Appended, DayWriter};
use super::schema::MIGRATIONS;
use super::seq::tie_break;
use super::{LogOptions, OnLogged, day_path, dictionary, feed};
use crate::database;
use crate::error::StoreError;
use crate::inbox::{Reader, RecvError};
use crate::record::{Event, LogRecord};

/// Days kept open for writing: the current one, and those of messages that were deferred for long.
const DAYS_OPEN_MAX: usize = 4;

/// Commands of the writer thread.
pub(crate) enum Command {
    /// Make these durable; an urgent one waits only for what is queued already.
    Append { records: Vec<LogRecord>, events: Vec<Event>, done: OnLogged, urgent: bool },
    /// Delete the days before this one; `Appended::new` is how many.
    Retain { first_kept: i64, done: OnLogged },
    /// Collect changes of this day for the array; `Appended::new` is how many messages wait.
    BeginFeed { day: i64, done: OnLogged },
    /// The array has the changes of this day up to this one; `Appended::new` is how many went.
    Shipped { day: i64, change: i64, done: OnLogged },
    /// Move this day aside if it is damaged, as a reader reports.
    SetAside { day: i64, why: String },
}

impl Command {
    /// Reports that it failed.
    pub(crate) fn fail(self, error: StoreError) {
        match self {
            Command::Append { done, .. }
            | Command::Retain { done, .. }
            | Command::BeginFeed { done, .. }
            | Command::Shipped { done, .. } => done(Err(error)),
            Command::SetAside { .. } => {}
        }
    }
}

/// An append that waits for its batch.
struct PendingAppend {
    records: Vec<LogRecord>,
    events: Vec<Event>,
    done: OnLogged,
}

/// The part of a batch that belongs to one day; each record with the index of its append.
#[derive(Default)]
struct DayBatch<'a> {
    records: Vec<(usize, &'a LogRecord)>,
    events: Vec<&'a Event>,
}

/// State of the writing thread.
#[derive(Debug)]
pub(crate) struct Writer {
    folder: PathBuf,
    options: LogOptions,
    days: Arc<RwLock<BTreeSet<i64>>>,
    open: BTreeMap<i64, DayWriter>,
    /// Days that are over whose term index has many parts, and whether merging them has begun.
    unmerged: BTreeMap<i64, bool>,
    commits: Arc<AtomicU64>,
}

impl Writer {
    pub(crate) fn new(
        folder: PathBuf,
        options: LogOptions,
        days: Arc<RwLock<BTreeSet<i64>>>,
        commits: Arc<AtomicU64>,
        unmerged: BTreeSet<i64>,
    ) -> Self {
        let unmerged = unmerged.into_iter().map(|day| (day, false)).collect();
        Writer { folder, options, days, open: BTreeMap::new(), unmerged, commits }
    }

    /// Runs until the queue is closed and empty.
    pub(crate) fn run(mut self, commands: &Reader<Command>) {
        let mut next = commands.recv(Duration::MAX).ok();
        while let Some(command) = next.take() {
            match command {
                Command::Retain { first_kept, done } => done(self.retain(first_kept)),
                Command::BeginFeed { day, done } => {
                    done(self.on_day(day, |writer| writer.begin_feed()));
                }
                Command::Shipped { day, change, done } => {
                    done(self.on_day(day, |writer| writer.shipped(change)));
                }
                Command::SetAside { day, why } => {
                    self.set_aside(day, &why);
                }
                Command::Append { records, events, done, urgent } => {
                    let mut batch = vec![PendingAppend { records, events, done }];
                    next = self.gather(commands, &mut batch, urgent);
                    self.write(batch);
                }
            }
            if next.is_none() {
                next = self.next_command(commands);
            }
        }
    }

    /// Waits for the next command, and merges indexes until it comes.
    fn next_command(&mut self, commands: &Reader<Command>) -> Option<Command> {
        while let Some((&day, &is_begun)) = self.unmerged.first_key_value() {
            match commands.recv(Duration::ZERO) {
                Ok(command) => return Some(command),
                Err(RecvError::Closed) => return None,
                Err(RecvError::Timeout) => {}
            }
            let merged = self
                .day(day)
                .map_err(|error| error.to_string())
                .and_then(|writer| writer.merge_some(is_begun).map_err(|error| error.to_string()));
            match merged {
                Ok(true) => {
                    self.unmerged.insert(day, true);
                }
                Ok(false) => {
                    self.unmerged.remove(&day);
                    self.finish(day);
                }
                Err(error) => {
                    let day = day_name(day);
                    tracing::warn!(day, error, "the term index of a day cannot be merged");
                    self.unmerged.pop_first();
                }
            }
        }
        commands.recv(Duration::MAX).ok()
    }

    /// Computes the counts of a day that is over.
    fn finish(&mut self, day: i64) {
        let done = self.day(day).map_err(|error| error.to_string());
        let done = done.and_then(|writer| writer.finish().map_err(|error| error.to_string()));
        if let Err(error) = done {
            tracing::warn!(day = day_name(day), error, "the recipients of a day cannot be counted");
        }
    }

    /// Adds what is queued, and what arrives within the wait, up to a full batch. Returns a command
    /// that has to wait for the batch.
    fn gather(
        &self,
        commands: &Reader<Command>,
        batch: &mut Vec<PendingAppend>,
        urgent: bool,
    ) -> Option<Command> {
        if !urgent {
            commands.linger(self.options.batch_wait, self.options.batch_records_max);
        }
        let mut gathered = batch.iter().map(|w| w.records.len() + w.events.len()).sum::<usize>();
        while gathered < self.options.batch_records_max {
            match commands.try_recv() {
                Some(Command::Append { records, events, done, .. }) => {
                    gathered += records.len() + events.len();
                    batch.push(PendingAppend { records, events, done });
                }
                Some(other) => return Some(other),
                None => return None,
            }
        }
        None
    }

    /// Writes the batch and calls the callbacks. If it fails, each append is retried by itself, so
    /// that one that cannot be written does not block the others for ever.
    fn write(&mut self, batch: Vec<PendingAppend>) {
        match self.write_all(&batch) {
            Ok(appended) => {
                for (pending, appended) in batch.into_iter().zip(appended) {
                    (pending.done)(Ok(appended));
                }
            }
            Err(error) if batch.len() == 1 => {
                batch.into_iter().for_each(|w| (w.done)(Err(StoreError::Shared(error.clone()))));
            }
            Err(_) => {
                for pending in batch {
                    self.write(vec![pending]);
                }
            }
        }
    }

    /// Writes day by day. Returns what each append changed.
    fn write_all(&mut self, batch: &[PendingAppend]) -> Result<Vec<Appended>, Arc<StoreError>> {
        let mut by_day: BTreeMap<i64, DayBatch<'_>> = BTreeMap::new();
        for (i, pending) in batch.iter().enumerate() {
            for record in &pending.records {
                let day = record.received_ms.div_euclid(DAY_MS);
                by_day.entry(day).or_default().records.push((i, record));
            }
            for event in &pending.events {
                let day = event.received_ms.div_euclid(DAY_MS);
                by_day.entry(day).or_default().events.push(event);
            }
        }
        let mut appended = vec![Appended::default(); batch.len()];
        for (day, mut part) in by_day {
            // The term index expects ascending keys within a batch.
            part.records.sort_by_key(|(_, r)| (r.received_ms, tie_break(&r.id)));
            let before = appended.clone();
            if let Err(error) = self.write_day(day, &part, &mut appended) {
                // New records of a damaged day can still be stored, in a new file.
                if !error.is_damage() || !self.set_aside(day, &error.to_string()) {
                    return Err(error.into());
                }
                appended = before;
                self.write_day(day, &part, &mut appended)?;
            }
            self.commits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(appended)
    }

    fn write_day(
        &mut self,
        day: i64,
        part: &DayBatch<'_>,
        appended: &mut [Appended],
    ) -> Result<(), StoreError> {
        let path = day_path(&self.folder, day);
        let written = self.day(day)?.write(&part.records, &part.events, appended);
        written.map_err(StoreError::db(&path))
    }

    /// Runs this on a day that exists; what it returns is in `Appended::new`.
    fn on_day(
        &mut self,
        day: i64,
        run: impl FnOnce(&mut DayWriter) -> rusqlite::Result<u64>,
    ) -> Result<Appended, StoreError> {
        if !self.days.read().unwrap_or_else(PoisonError::into_inner).contains(&day) {
            return Ok(Appended::default());
        }
        let path = day_path(&self.folder, day);
        let new = run(self.day(day)?).map_err(StoreError::db(&path))?;
        Ok(Appended { new, known: 0 })
    }

    /// Moves a day aside that is reported as damaged; false if it is not damaged, or this process
    /// may not.
    fn set_aside(&mut self, day: i64, why: &str) -> bool {
        if !self.options.sets_damaged_days_aside {
            return false;
        }
        // The open connection may be the one with the error.
        self.open.remove(&day);
        self.unmerged.remove(&day);
        if !super::damage::is_damaged(&self.folder, day) {
            return false;
        }
        self.days.write().unwrap_or_else(PoisonError::into_inner).remove(&day);
        let set_aside = super::damage::set_aside(&self.folder, day, why);
        if let Err(error) = &set_aside {
            tracing::error!(%error, "a damaged day of the message log cannot be moved aside");
        }
        set_aside.is_ok()
    }

    fn day(&mut self, day: i64) -> Result<&mut DayWriter, StoreError> {
        if !self.open.contains_key(&day) {
            if self.open.len() >= DAYS_OPEN_MAX {
                self.open.pop_first();
            }
            let path = day_path(&self.folder, day);
            let before = if path.exists() { None } else { self.previous_dictionary(day) };
            let writer = DayWriter::open(&path, before.as_deref(), self.options.feeds_array)?;
            let over = self.open.keys().copied().filter(|&open| open < day);
            self.unmerged.extend(over.map(|day| (day, false)));
            self.days.write().unwrap_or_else(PoisonError::into_inner).insert(day);
            self.open.insert(day, writer);
        }
        self.open.get_mut(&day).ok_or_else(|| StoreError::Closed { path: self.folder.clone() })
    }

    /// The newest dictionary of the last day before this one. None if that has none, or cannot be
    /// read.
    fn previous_dictionary(&self, day: i64) -> Option<Vec<u8>> {
        let days = self.days.read().unwrap_or_else(PoisonError::into_inner);
        let before = days.range(..day).next_back().copied()?;
        let connection = database::open_read(&day_path(&self.folder, before), MIGRATIONS).ok()?;
        dictionary::load(&connection, None).ok().flatten()
    }

    fn retain(&mut self, first_kept: i64) -> Result<Appended, StoreError> {
        self.unmerged.retain(|day, _| *day >= first_kept);
        self.open.retain(|day, _| *day >= first_kept);
        let mut days = self.days.write().unwrap_or_else(PoisonError::into_inner);
        let mut removed = Appended::default();
        let old: Vec<i64> = days.range(..first_kept).copied().collect();
        for day in old {
            let path = day_path(&self.folder, day);
            if self.options.feeds_array && feed::waits(&path) {
                let day = day_name(day);
                tracing::warn!(day, "a day of the log is kept: the array has not got all of it");
                continue;
            }
            std::fs::remove_file(&path).map_err(StoreError::io(&path, "remove"))?;
            for suffix in ["-wal", "-shm"] {
                let mut beside = path.clone().into_os_string();
                beside.push(suffix);
                let _mostly_not_there = std::fs::remove_file(beside);
            }
            days.remove(&day);
            removed.new += 1;
        }
        Ok(removed)
    }
}
