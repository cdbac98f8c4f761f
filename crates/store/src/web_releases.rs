//! What people asked to have released of the web, and what administrators released.
//!
//! ```text
//! page of a block ─▶ ask ─▶ queue of requests ─▶ approve ─▶ exception ─▶ snapshot ─▶ proxy
//!                                            └─▶ decline               └─▶ revoke
//! ```
//!
//! One SQLite file, `releases.db`, beside the days of the web log. Exceptions in force are also in
//! memory: whoever judges requests asks the snapshot, which every change replaces at once. What is
//! asked for comes from outside and is bounded in number, by client, in length and in age.

mod rows;
mod schema;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use gauntlet_mail::date::DAY_MS;
use gauntlet_web::release::{ReleaseRequest, ReleaseTarget, ReleasedFor, WebExceptions};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use serde::Serialize;

use self::rows::{EXCEPTION_COLUMNS, REQUEST_COLUMNS, read_exception, read_request};
pub(crate) use self::schema::MIGRATIONS;
use crate::database;
use crate::error::StoreError;

/// Requests that wait for a decision; further ones are refused.
pub const OPEN_MAX: i64 = 1_000;
/// Requests of one client that wait for a decision; further ones are refused.
pub const CLIENT_OPEN_MAX: i64 = 20;
/// Exceptions that are in force; no further one is made.
pub const EXCEPTIONS_MAX: i64 = 10_000;
/// Days that what is over is kept: decided requests, exceptions that ended.
pub const KEPT_DAYS: i64 = 90;
/// Days that a request waits; nobody needs it any more then.
pub const OPEN_DAYS: i64 = 30;
/// Requests or exceptions listed at once.
pub const LISTED_MAX: usize = 500;
/// Bytes of a text that are kept.
const TEXT_BYTES_MAX: usize = 2_000;
/// Characters of a note.
const NOTE_CHARS_MAX: usize = 200;

/// A request, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoredRequest {
    /// Counts from 1; never reused.
    pub number: i64,
    /// What was asked.
    #[serde(flatten)]
    pub request: ReleaseRequest,
    /// How often: a person who asks again for the same URL is the same request.
    pub times: i64,
    /// Whether it was decided.
    pub state: RequestState,
    /// When it was decided, in milliseconds since 1970.
    pub decided_ms: Option<i64>,
    /// Who decided; empty if nobody did.
    pub decided_by: String,
    /// What they noted.
    pub note: String,
    /// The exception that was made.
    pub exception: Option<i64>,
}

/// Whether a request was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestState {
    /// It waits.
    Open,
    /// Something was released.
    Approved,
    /// It stays blocked.
    Declined,
}

impl RequestState {
    /// The name in the database and in queries.
    pub fn name(self) -> &'static str {
        match self {
            RequestState::Open => "open",
            RequestState::Approved => "approved",
            RequestState::Declined => "declined",
        }
    }

    /// The one of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        let all = [RequestState::Open, RequestState::Approved, RequestState::Declined];
        all.into_iter().find(|state| state.name() == name)
    }
}

/// An exception, as it was made and ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoredException {
    /// Counts from 1; never reused. The log has it as `release 12`.
    pub number: i64,
    /// When it was made, in milliseconds since 1970.
    pub at_ms: i64,
    /// A host, `.domain` or URL, as it was written.
    pub target: String,
    /// Address of the client that it is for; empty: it is for others, too.
    pub client: String,
    /// Login that it is for; empty: it is for others, too.
    pub user: String,
    /// Until when, in milliseconds since 1970; none: for good.
    pub until_ms: Option<i64>,
    /// Who made it.
    pub by: String,
    /// Why.
    pub note: String,
    /// The request that it answers.
    pub request: Option<i64>,
    /// When it was revoked, in milliseconds since 1970.
    pub revoked_ms: Option<i64>,
    /// Who revoked it; empty if nobody did.
    pub revoked_by: String,
}

impl StoredException {
    /// Whether it is in force.
    pub fn is_in_force(&self, now_ms: i64) -> bool {
        self.revoked_ms.is_none() && self.until_ms.is_none_or(|until| now_ms < until)
    }
}

/// What an administrator releases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// What may pass, as it was written; it reads as a [`ReleaseTarget`].
    pub target: String,
    /// For whom.
    pub released_for: ReleasedFor,
    /// Until when, in milliseconds since 1970; none: for good.
    pub until_ms: Option<i64>,
    /// Why.
    pub note: String,
}

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskOutcome {
    /// It is a new request of this number.
    New(i64),
    /// The same client waits for the same URL already, under this number.
    Known(i64),
    /// [`OPEN_MAX`] or [`CLIENT_OPEN_MAX`] wait.
    Full,
}

/// Why nothing was released, declined or revoked.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// There is no such request, or it is decided.
    #[error("no such request waits for a decision")]
    NotOpen,
    /// The target is none.
    #[error(transparent)]
    Target(#[from] gauntlet_web::release::TargetError),
    /// [`EXCEPTIONS_MAX`] are in force.
    #[error("{EXCEPTIONS_MAX} exceptions are in force; revoke some, or change the policy")]
    Full,
    /// The end is over.
    #[error("the exception would have ended already")]
    Over,
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Requests and exceptions of a node.
#[derive(Debug)]
pub struct WebReleases {
    path: PathBuf,
    database: Mutex<Connection>,
    in_force: RwLock<Arc<WebExceptions>>,
}

impl WebReleases {
    /// Opens or creates `releases.db` in this folder.
    ///
    /// # Errors
    /// If the folder cannot be used, or the database is damaged or newer than this program.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        crate::files::create_folder(folder).map_err(StoreError::io(folder, "create"))?;
        let path = Self::path_in(folder);
        let database = Mutex::new(database::open_write(&path, MIGRATIONS)?);
        let releases = WebReleases { path, database, in_force: RwLock::default() };
        releases.refresh()?;
        Ok(releases)
    }

    /// Refuses a folder that [`WebReleases::open`] would refuse. Changes nothing.
    ///
    /// # Errors
    /// As [`WebReleases::open`].
    pub fn check(folder: &Path) -> Result<(), StoreError> {
        database::check(&Self::path_in(folder), MIGRATIONS, |c| in_force(c).map(drop))
    }

    /// The exceptions of the file in this folder; none if there is no file. For commands: the node
    /// has its own.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn read_exceptions(folder: &Path) -> Result<WebExceptions, StoreError> {
        let path = Self::path_in(folder);
        if database::is_blank(&path)? {
            return Ok(WebExceptions::default());
        }
        let connection = database::open_read(&path, MIGRATIONS)?;
        in_force(&connection).map_err(StoreError::db(&path))
    }

    fn path_in(folder: &Path) -> PathBuf {
        folder.join("releases.db")
    }

    /// The exceptions as they are now.
    pub fn exceptions(&self) -> Arc<WebExceptions> {
        Arc::clone(&self.in_force.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn refresh(&self) -> Result<(), StoreError> {
        let found = self.read(in_force)?;
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(found);
        Ok(())
    }

    /// Takes a request from outside. Texts are cut at their limits.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn ask(&self, asked: &ReleaseRequest) -> Result<AskOutcome, StoreError> {
        self.change(|batch| {
            delete_old(batch, asked.at_ms)?;
            let known = batch.query_row(
                "UPDATE request SET times = times + 1 WHERE state = 'open' AND client = ?1 \
                 AND user = ?2 AND url = ?3 RETURNING number",
                params![asked.client, asked.user, bounded(&asked.url)],
                |row| row.get(0),
            );
            match known {
                Ok(number) => return Ok(AskOutcome::Known(number)),
                Err(rusqlite::Error::QueryReturnedNoRows) => {}
                Err(error) => return Err(error),
            }
            let (all, own): (i64, i64) = batch.query_row(
                "SELECT count(*), coalesce(sum(client = ?1 AND user = ?2), 0) FROM request \
                 WHERE state = 'open'",
                params![asked.client, asked.user],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            // Where clients are not kept, one limit is for all.
            let is_known = !asked.client.is_empty();
            if all >= OPEN_MAX || (is_known && own >= CLIENT_OPEN_MAX) {
                return Ok(AskOutcome::Full);
            }
            batch.execute(
                "INSERT INTO request (at_ms, reference, client, user, url, rule, reason, mail) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    asked.at_ms,
                    bounded(&asked.reference),
                    bounded(&asked.client),
                    bounded(&asked.user),
                    bounded(&asked.url),
                    bounded(&asked.rule),
                    bounded(&asked.reason),
                    bounded(&asked.mail),
                ],
            )?;
            Ok(AskOutcome::New(batch.last_insert_rowid()))
        })
    }

    /// Requests of a state, or of all, newest first; before this number if one is given.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn requests(
        &self,
        state: Option<RequestState>,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<StoredRequest>, StoreError> {
        let sql = format!(
            "SELECT {REQUEST_COLUMNS} FROM request WHERE (?1 IS NULL OR state = ?1) \
             AND (?2 IS NULL OR number < ?2) ORDER BY number DESC LIMIT ?3"
        );
        let limit = limit.min(LISTED_MAX) as i64;
        self.read(|c| {
            let mut find = c.prepare_cached(&sql)?;
            let state = state.map(RequestState::name);
            find.query_map(params![state, before, limit], read_request)?.collect()
        })
    }

    /// How many requests wait.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn open_requests(&self) -> Result<u64, StoreError> {
        let count = "SELECT count(*) FROM request WHERE state = 'open'";
        let n: i64 = self.read(|c| c.query_row(count, [], |row| row.get(0)))?;
        Ok(u64::try_from(n).unwrap_or(0))
    }

    /// Releases something, in answer to a request or without one. From then on it may pass.
    ///
    /// # Errors
    /// The request is decided already, the terms cannot be, or it could not be made durable.
    pub fn approve(
        &self,
        request: Option<i64>,
        terms: &Terms,
        who: &str,
        now_ms: i64,
    ) -> Result<StoredException, ReleaseError> {
        terms.target.parse::<ReleaseTarget>()?;
        if terms.until_ms.is_some_and(|until| until <= now_ms) {
            return Err(ReleaseError::Over);
        }
        let made = self.change(|batch| {
            delete_old(batch, now_ms)?;
            if exceptions_in_force(batch, now_ms)? >= EXCEPTIONS_MAX {
                return Ok(Err(ReleaseError::Full));
            }
            let number = insert(batch, request, terms, who, now_ms)?;
            let decided = request.map(|request| {
                let state = RequestState::Approved;
                decide(batch, request, (state, Some(number)), (who, &terms.note), now_ms)
            });
            match decided.transpose()? {
                Some(false) => Ok(Err(ReleaseError::NotOpen)),
                _ => exception(batch, number).map(Ok),
            }
        })?;
        self.refresh()?;
        made
    }

    /// Leaves what was asked for blocked.
    ///
    /// # Errors
    /// The request is decided already, or it could not be made durable.
    pub fn decline(
        &self,
        request: i64,
        who: &str,
        note: &str,
        now_ms: i64,
    ) -> Result<(), ReleaseError> {
        let decision = (RequestState::Declined, None);
        match self.change(|batch| decide(batch, request, decision, (who, note), now_ms))? {
            true => Ok(()),
            false => Err(ReleaseError::NotOpen),
        }
    }

    /// Exceptions, newest first; all, or those in force alone; before this number if one is given.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn list(
        &self,
        in_force_at_ms: Option<i64>,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<StoredException>, StoreError> {
        let sql = format!(
            "SELECT {EXCEPTION_COLUMNS} FROM exception WHERE (?1 IS NULL OR (revoked_ms IS NULL \
             AND (until_ms IS NULL OR until_ms > ?1))) AND (?2 IS NULL OR number < ?2) \
             ORDER BY number DESC LIMIT ?3"
        );
        let limit = limit.min(LISTED_MAX) as i64;
        self.read(|c| {
            let mut find = c.prepare_cached(&sql)?;
            find.query_map(params![in_force_at_ms, before, limit], read_exception)?.collect()
        })
    }

    /// Ends an exception; the one that was ended, none if there is no such one in force.
    ///
    /// # Errors
    /// If it could not be made durable.
    pub fn revoke(
        &self,
        number: i64,
        who: &str,
        now_ms: i64,
    ) -> Result<Option<StoredException>, StoreError> {
        let ended = self.change(|batch| {
            let sql = "UPDATE exception SET revoked_ms = ?2, revoked_by = ?3 WHERE number = ?1 \
                       AND revoked_ms IS NULL AND (until_ms IS NULL OR until_ms > ?2)";
            match batch.execute(sql, params![number, now_ms, who])? {
                0 => Ok(None),
                _ => exception(batch, number).map(Some),
            }
        })?;
        self.refresh()?;
        Ok(ended)
    }

    fn read<T>(
        &self,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        run(&database).map_err(StoreError::db(&self.path))
    }

    /// Changes something, if what is done says so: an error of its own changes nothing.
    fn change<T: Changes>(
        &self,
        run: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut database = self.database.lock().unwrap_or_else(PoisonError::into_inner);
        let change = || {
            let batch = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = run(&batch)?;
            if done.is_kept() {
                batch.commit()?;
            }
            Ok(done)
        };
        change().map_err(StoreError::db(&self.path))
    }
}

/// Whether what was done is to be kept.
trait Changes {
    fn is_kept(&self) -> bool {
        true
    }
}

impl Changes for AskOutcome {}
impl Changes for bool {}
impl Changes for Option<StoredException> {}

impl Changes for Result<StoredException, ReleaseError> {
    fn is_kept(&self) -> bool {
        self.is_ok()
    }
}

fn insert(
    batch: &Transaction<'_>,
    request: Option<i64>,
    terms: &Terms,
    who: &str,
    now_ms: i64,
) -> rusqlite::Result<i64> {
    let (client, user) = match &terms.released_for {
        ReleasedFor::Everybody => (String::new(), String::new()),
        ReleasedFor::Client(client) => (client.to_string(), String::new()),
        ReleasedFor::User(user) => (String::new(), user.clone()),
    };
    batch.execute(
        "INSERT INTO exception (at_ms, target, client, user, until_ms, by, note, request) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            now_ms,
            terms.target.trim(),
            client,
            bounded(&user),
            terms.until_ms,
            who,
            noted(&terms.note),
            request
        ],
    )?;
    Ok(batch.last_insert_rowid())
}

/// Decides a request that waits; whether there was one.
fn decide(
    batch: &Transaction<'_>,
    request: i64,
    (state, exception): (RequestState, Option<i64>),
    (who, note): (&str, &str),
    now_ms: i64,
) -> rusqlite::Result<bool> {
    let changed = batch.execute(
        "UPDATE request SET state = ?2, exception = ?3, decided_by = ?4, note = ?5, \
         decided_ms = ?6 WHERE number = ?1 AND state = 'open'",
        params![request, state.name(), exception, who, noted(note), now_ms],
    )?;
    Ok(changed > 0)
}

fn exception(batch: &Transaction<'_>, number: i64) -> rusqlite::Result<StoredException> {
    let sql = format!("SELECT {EXCEPTION_COLUMNS} FROM exception WHERE number = ?1");
    batch.query_row(&sql, [number], read_exception)
}

fn exceptions_in_force(batch: &Transaction<'_>, now_ms: i64) -> rusqlite::Result<i64> {
    let sql = "SELECT count(*) FROM exception WHERE revoked_ms IS NULL \
               AND (until_ms IS NULL OR until_ms > ?1)";
    batch.query_row(sql, [now_ms], |row| row.get(0))
}

/// Deletes what is over for long.
fn delete_old(batch: &Transaction<'_>, now_ms: i64) -> rusqlite::Result<()> {
    let (kept, open) = (now_ms - KEPT_DAYS * DAY_MS, now_ms - OPEN_DAYS * DAY_MS);
    batch.execute(
        "DELETE FROM request WHERE decided_ms < ?1 OR (state = 'open' AND at_ms < ?2)",
        params![kept, open],
    )?;
    batch.execute("DELETE FROM exception WHERE revoked_ms < ?1 OR until_ms < ?1", [kept])?;
    Ok(())
}

fn in_force(connection: &Connection) -> rusqlite::Result<WebExceptions> {
    rows::in_force(connection)
}

fn bounded(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or_default()
}

fn noted(note: &str) -> String {
    note.trim().replace(char::is_control, " ").chars().take(NOTE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
