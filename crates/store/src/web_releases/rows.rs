//! Rows of the tables.

use std::sync::atomic::{AtomicU64, Ordering};

use gauntlet_web::release::{ReleaseRequest, ReleasedFor, WebException, WebExceptions};
use rusqlite::{Connection, Row};

use super::{RequestState, StoredException, StoredRequest};

pub(super) const REQUEST_COLUMNS: &str = "number, at_ms, reference, client, user, url, rule, reason, \
    mail, times, state, decided_ms, decided_by, note, exception";
pub(super) const EXCEPTION_COLUMNS: &str = "number, at_ms, target, client, user, until_ms, by, note, \
    request, revoked_ms, revoked_by";

/// Goes up with each set of exceptions that is made.
static VERSION: AtomicU64 = AtomicU64::new(1);

pub(super) fn read_request(row: &Row<'_>) -> rusqlite::Result<StoredRequest> {
    let state: String = row.get(10)?;
    Ok(StoredRequest {
        number: row.get(0)?,
        request: ReleaseRequest {
            at_ms: row.get(1)?,
            reference: row.get(2)?,
            client: row.get(3)?,
            user: row.get(4)?,
            url: row.get(5)?,
            rule: row.get(6)?,
            reason: row.get(7)?,
            mail: row.get(8)?,
        },
        times: row.get(9)?,
        state: RequestState::of_name(&state).unwrap_or(RequestState::Declined),
        decided_ms: row.get(11)?,
        decided_by: row.get(12)?,
        note: row.get(13)?,
        exception: row.get(14)?,
    })
}

pub(super) fn read_exception(row: &Row<'_>) -> rusqlite::Result<StoredException> {
    Ok(StoredException {
        number: row.get(0)?,
        at_ms: row.get(1)?,
        target: row.get(2)?,
        client: row.get(3)?,
        user: row.get(4)?,
        until_ms: row.get(5)?,
        by: row.get(6)?,
        note: row.get(7)?,
        request: row.get(8)?,
        revoked_ms: row.get(9)?,
        revoked_by: row.get(10)?,
    })
}

/// Exceptions that were not revoked; which of them have ended is asked when they are looked up.
pub(super) fn in_force(connection: &Connection) -> rusqlite::Result<WebExceptions> {
    let sql = format!("SELECT {EXCEPTION_COLUMNS} FROM exception WHERE revoked_ms IS NULL");
    let mut find = connection.prepare_cached(&sql)?;
    let rows = find.query_map([], read_exception)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let version = VERSION.fetch_add(1, Ordering::Relaxed);
    Ok(WebExceptions::new(rows.into_iter().filter_map(plain), version))
}

/// None if a row is not what was written: whoever changed it by hand released nothing.
fn plain(row: StoredException) -> Option<WebException> {
    let released_for = match (row.client.as_str(), row.user) {
        ("", user) if user.is_empty() => ReleasedFor::Everybody,
        ("", user) => ReleasedFor::User(user),
        (client, _) => ReleasedFor::Client(client.parse().ok()?),
    };
    let target = row.target.parse().ok()?;
    let (number, until_ms, by) = (row.number, row.until_ms, row.by);
    Some(WebException { number, target, released_for, until_ms, by })
}
