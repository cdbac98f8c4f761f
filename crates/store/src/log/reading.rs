//! The boundary behind which a message log is read, wherever it is kept.

use std::collections::BTreeMap;

use super::{Bucket, Counts, Feedback, Log, LoggedMessage, Page, Query, TopKind};
use crate::error::StoreError;

/// A message log to be read: a node's own, or that of an array. All methods block.
pub trait MessageLog: Send + Sync {
    /// The newest messages that match the query.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn search(&self, query: &Query) -> Result<Page, StoreError>;

    /// The message that a reference names ([`crate::reference`]); none if there is none, or its
    /// day was deleted. A node's own log knows ids alone.
    ///
    /// # Errors
    /// If the log cannot be read, or the record is damaged.
    fn get(&self, reference: &str) -> Result<Option<LoggedMessage>, StoreError>;

    /// Messages received in `[since_ms, until_ms)`, in spans of `span_minutes`: in order of time,
    /// class and disposition.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn volume(
        &self,
        since_ms: i64,
        until_ms: i64,
        span_minutes: u32,
    ) -> Result<Vec<Bucket>, StoreError>;

    /// [`MessageLog::volume`], and the most frequent names.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn counts(&self, since_ms: i64, until_ms: i64, span_minutes: u32)
    -> Result<Counts, StoreError>;

    /// Number of messages with each name, over the whole days that `[since_ms, until_ms)` touches.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn tops(
        &self,
        kind: TopKind,
        since_ms: i64,
        until_ms: i64,
    ) -> Result<BTreeMap<String, u64>, StoreError>;

    /// Number of messages for each recipient, of each day the most frequent ones.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn top_recipients(
        &self,
        since_ms: i64,
        until_ms: i64,
    ) -> Result<BTreeMap<String, u64>, StoreError>;

    /// Feedback of users on messages received in `[since_ms, until_ms)`, ordered by kind and class.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn feedback(&self, since_ms: i64, until_ms: i64) -> Result<Vec<Feedback>, StoreError>;

    /// Time of reception of the oldest message, in Unix milliseconds; none if there is none.
    ///
    /// # Errors
    /// If the log cannot be read.
    fn oldest_ms(&self) -> Result<Option<i64>, StoreError>;
}

impl MessageLog for Log {
    fn search(&self, query: &Query) -> Result<Page, StoreError> {
        Log::search(self, query)
    }

    fn get(&self, id: &str) -> Result<Option<LoggedMessage>, StoreError> {
        Log::get(self, id)
    }

    fn volume(
        &self,
        since_ms: i64,
        until_ms: i64,
        span_minutes: u32,
    ) -> Result<Vec<Bucket>, StoreError> {
        Log::volume(self, since_ms, until_ms, span_minutes)
    }

    fn counts(
        &self,
        since_ms: i64,
        until_ms: i64,
        span_minutes: u32,
    ) -> Result<Counts, StoreError> {
        Log::counts(self, since_ms, until_ms, span_minutes)
    }

    fn tops(
        &self,
        kind: TopKind,
        since_ms: i64,
        until_ms: i64,
    ) -> Result<BTreeMap<String, u64>, StoreError> {
        Log::tops(self, kind, since_ms, until_ms)
    }

    fn top_recipients(
        &self,
        since_ms: i64,
        until_ms: i64,
    ) -> Result<BTreeMap<String, u64>, StoreError> {
        Log::top_recipients(self, since_ms, until_ms)
    }

    fn feedback(&self, since_ms: i64, until_ms: i64) -> Result<Vec<Feedback>, StoreError> {
        Log::feedback(self, since_ms, until_ms)
    }

    fn oldest_ms(&self) -> Result<Option<i64>, StoreError> {
        Log::oldest_ms(self)
    }
}
