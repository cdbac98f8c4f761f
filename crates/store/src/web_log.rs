//! The web log: one row a request, one SQLite file a day.
//!
//! Unlike mail, a request is over when it is logged, so nothing is lost for its client if a line
//! is: see [`crate::day_log`].

mod listed;
mod query;
pub mod replay;
mod schema;
mod summary;
mod writer;

pub(crate) use self::schema::MIGRATIONS;

use std::path::Path;

use gauntlet_web::WebRecord;

use crate::day_log::{DayLog, day_path, days};
use crate::error::StoreError;
use crate::replay::Progress;

pub use self::query::{WebCursor, WebPage, WebQuery, WebRow};
pub use self::summary::{WebCount, WebHour, WebSummary};

/// The web log of a node.
#[derive(Debug)]
pub struct WebLog(DayLog<WebRecord>);

impl WebLog {
    /// Opens or creates the folder, and starts the writer.
    ///
    /// # Errors
    /// The folder cannot be made, or no thread be started.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        DayLog::open(folder).map(WebLog)
    }

    /// Takes a record, and does not wait: if the writer cannot keep up, it is dropped and counted.
    pub fn append(&self, record: WebRecord) {
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
        query::search(self.0.folder(), query)
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
        replay::replay(self.0.folder(), request, progress)
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
        summary::summary(self.0.folder(), since_ms, until_ms)
    }
}

#[cfg(test)]
mod tests;
