//! Connections for those who ask now and then: a few are kept, a replica may stand before the
//! primary.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gauntlet_store::StoreError;
use tokio::runtime::Handle;

use crate::database::{Database, Session};
use crate::error::ArrayError;
use crate::schema;

/// Connections kept for the next question.
const SESSIONS_KEPT: usize = 4;

/// Asks the database on behalf of threads that may block.
#[derive(Debug)]
pub struct Readers {
    /// In the order in which they are tried.
    databases: Vec<Database>,
    runtime: Handle,
    sessions: Mutex<Vec<Session>>,
}

impl Readers {
    /// Asks this database. `runtime` carries the connections.
    pub fn new(database: Database, runtime: Handle) -> Self {
        Readers { databases: vec![database], runtime, sessions: Mutex::new(Vec::new()) }
    }

    /// Asks this one first, and the others when it cannot be reached.
    pub(crate) fn prefer(&mut self, database: Database) {
        self.databases.insert(0, database);
    }

    /// The runtime of the connections.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Asks with a connection of its own. Not on a thread of the runtime.
    ///
    /// # Errors
    /// Of the question, or if no database can be reached.
    pub fn ask<T, F>(&self, asking: impl FnOnce(Session) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = (Session, Result<T, ArrayError>)>,
    {
        let kept = self.sessions().pop().filter(|session| !session.is_closed());
        let answer = self.runtime.block_on(async {
            let session = match kept {
                Some(session) => session,
                None => self.connect().await?,
            };
            let (session, answer) = asking(session).await;
            // One that failed may still be busy with what was asked.
            let mut sessions = self.sessions();
            if answer.is_ok() && sessions.len() < SESSIONS_KEPT {
                sessions.push(session);
            }
            answer
        });
        answer.map_err(store_error)
    }

    async fn connect(&self) -> Result<Session, ArrayError> {
        let mut first = None;
        for database in &self.databases {
            match schema::session_to_read(database).await {
                Ok(session) => return Ok(session),
                Err(error) => {
                    if self.databases.len() > 1 {
                        tracing::warn!(%error, "a database of the array is passed over");
                    }
                    first = first.or(Some(error));
                }
            }
        }
        Err(first.unwrap_or(ArrayError::NotMade))
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error as readers of a store know it.
pub(crate) fn store_error(error: ArrayError) -> StoreError {
    match error {
        ArrayError::Store(error) => error,
        other => {
            let retry = !matches!(other, ArrayError::Damaged { .. });
            StoreError::Remote { message: other.to_string(), retry }
        }
    }
}
