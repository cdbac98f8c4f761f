//! The log of alerts: what rules for packets said, and what was found in what packets carry; one
//! row each, one SQLite file a day. See [`crate::day_log`] for what becomes of rows that come too
//! fast.

mod query;
mod record;
mod rules;
mod schema;

use std::path::Path;

use crate::day_log::{DayLog, day_path, days};
use crate::error::StoreError;

pub use self::query::{AlertCursor, AlertPage, AlertQuery, AlertRow};
pub use self::record::AlertRecord;
pub use self::rules::{AlertCount, AlertSummary, RuleCount};
pub(crate) use self::schema::MIGRATIONS;

/// The log of alerts of a node.
#[derive(Debug)]
pub struct AlertLog(DayLog<AlertRecord>);

impl AlertLog {
    /// Opens or creates the folder, and starts the writer.
    ///
    /// # Errors
    /// The folder cannot be made, or no thread be started.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        DayLog::open(folder).map(AlertLog)
    }

    /// Takes a record, and does not wait: if the writer cannot keep up, it is dropped and counted.
    pub fn append(&self, record: AlertRecord) {
        self.0.append(record);
    }

    /// Waits until all that was appended before is written.
    pub fn flush(&self) {
        self.0.flush();
    }

    /// Deletes the days before the one of this time, in milliseconds since 1970.
    pub fn retain(&self, since_ms: i64) {
        self.0.retain(since_ms);
    }

    /// Records that were written since the start.
    pub fn written(&self) -> u64 {
        self.0.written()
    }

    /// Records that were dropped since the start, because the queue was full or the disk failed.
    pub fn dropped(&self) -> u64 {
        self.0.dropped()
    }

    /// Finds alerts in a log that another process writes.
    ///
    /// # Errors
    /// A day cannot be read.
    pub fn read(folder: &Path, query: &AlertQuery) -> Result<AlertPage, StoreError> {
        query::search(folder, query)
    }

    /// Finds alerts, newest first.
    ///
    /// # Errors
    /// A day cannot be read.
    pub fn search(&self, query: &AlertQuery) -> Result<AlertPage, StoreError> {
        query::search(self.0.folder(), query)
    }

    /// One alert; none if it is not there any more.
    ///
    /// # Errors
    /// Its day cannot be read.
    pub fn get(&self, cursor: AlertCursor) -> Result<Option<AlertRow>, StoreError> {
        query::get(self.0.folder(), cursor)
    }

    /// All alerts of a flow on the day of one of them, oldest first, so many at most.
    ///
    /// # Errors
    /// The day cannot be read.
    pub fn of_flow(&self, of: &AlertRow, max: usize) -> Result<Vec<AlertRow>, StoreError> {
        query::of_flow(self.0.folder(), of, max)
    }

    /// Counts alerts of a span of time, in milliseconds since 1970.
    ///
    /// # Errors
    /// A day cannot be read.
    pub fn summary(&self, since_ms: i64, until_ms: i64) -> Result<AlertSummary, StoreError> {
        rules::summary(self.0.folder(), since_ms, until_ms)
    }
}

#[cfg(test)]
mod tests;
