//! The shared message log: what all nodes shipped, read by managers.

mod counts;
mod search;

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use gauntlet_store::StoreError;
use gauntlet_store::log::{
    Bucket, Counts, Feedback, LoggedMessage, MessageLog, Page, Query, TopKind,
};
use tokio::runtime::Handle;

use crate::database::{Database, Session};
use crate::error::ArrayError;
use crate::nodes::NodeRow;
use crate::schema;

pub use counts::DayCounts;

/// Connections kept for the next question.
const SESSIONS_KEPT: usize = 4;

/// The log of all nodes. Its methods block, and may be called from any thread that is not one of
/// the runtime's own; every search ends within some seconds, with what it found until then.
#[derive(Debug)]
pub struct SharedLog {
    database: Database,
    runtime: Handle,
    sessions: Mutex<Vec<Session>>,
}

impl SharedLog {
    /// The log in this database. `runtime` carries its connections.
    pub fn new(database: Database, runtime: Handle) -> Self {
        SharedLog { database, runtime, sessions: Mutex::new(Vec::new()) }
    }

    /// All nodes, by name.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub fn nodes(&self) -> Result<Vec<NodeRow>, StoreError> {
        self.ask(|session| async {
            let found = crate::nodes::list(&session).await;
            (session, found)
        })
    }

    /// Asks with a connection of its own.
    fn ask<T, F>(&self, asking: impl FnOnce(Session) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = (Session, Result<T, ArrayError>)>,
    {
        let kept = self.sessions().pop().filter(|session| !session.is_closed());
        let answer = self.runtime.block_on(async {
            let session = match kept {
                Some(session) => session,
                None => schema::session(&self.database).await?,
            };
            let (session, answer) = asking(session).await;
            // One that failed may still be busy with what was asked.
            if answer.is_ok() {
                let mut sessions = self.sessions();
                if sessions.len() < SESSIONS_KEPT {
                    sessions.push(session);
                }
            }
            answer
        });
        answer.map_err(|error| match error {
            ArrayError::Store(error) => error,
            other => StoreError::Remote { message: other.to_string(), retry: true },
        })
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MessageLog for SharedLog {
    fn search(&self, query: &Query) -> Result<Page, StoreError> {
        self.ask(|session| async {
            let found = search::search(&session, query).await;
            (session, found)
        })
    }

    fn get(&self, id: &str) -> Result<Option<LoggedMessage>, StoreError> {
        self.ask(|session| async {
            let found = search::get(&session, id).await;
            (session, found)
        })
    }

    fn volume(
        &self,
        since_ms: i64,
        until_ms: i64,
        span_minutes: u32,
    ) -> Result<Vec<Bucket>, StoreError> {
        self.ask(|session| async move {
            let found = counts::volume(&session, (since_ms, until_ms), span_minutes).await;
            (session, found)
        })
    }

    fn counts(
        &self,
        since_ms: i64,
        until_ms: i64,
        span_minutes: u32,
    ) -> Result<Counts, StoreError> {
        self.ask(|session| async move {
            let found = counts::counts(&session, (since_ms, until_ms), span_minutes).await;
            (session, found)
        })
    }

    fn tops(
        &self,
        kind: TopKind,
        since_ms: i64,
        until_ms: i64,
    ) -> Result<std::collections::BTreeMap<String, u64>, StoreError> {
        self.ask(|session| async move {
            let found = counts::tops(&session, kind, (since_ms, until_ms)).await;
            (session, found)
        })
    }

    fn top_recipients(
        &self,
        since_ms: i64,
        until_ms: i64,
    ) -> Result<std::collections::BTreeMap<String, u64>, StoreError> {
        self.tops(TopKind::Recipient, since_ms, until_ms)
    }

    fn feedback(&self, since_ms: i64, until_ms: i64) -> Result<Vec<Feedback>, StoreError> {
        self.ask(|session| async move {
            let found = counts::feedback(&session, (since_ms, until_ms)).await;
            (session, found)
        })
    }

    fn oldest_ms(&self) -> Result<Option<i64>, StoreError> {
        self.ask(|session| async {
            let found = search::oldest_ms(&session).await;
            (session, found)
        })
    }
}
