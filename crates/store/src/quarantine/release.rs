//! Releasing a held message, once.

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::{Held, Quarantine, State, audit, find_state, search, set_state};
use crate::error::StoreError;

/// What a person asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReleaseOrder {
    /// Login of the person.
    pub who: String,
    /// Addresses to send it to instead of the recipients; empty for the recipients.
    pub to: Vec<String>,
    /// Teach the classifier that the message is wanted.
    pub learn: bool,
}

/// A release that was begun and must be finished or abandoned by whoever holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Release {
    /// Names this release; use it as the spool's name for the message, so that after a crash the
    /// same release is not delivered again. Unique for ever.
    pub token: String,
    /// The item.
    pub held: Held,
    /// What was asked for.
    pub order: ReleaseOrder,
    /// Where to send it: the order's addresses, else the item's recipients.
    pub recipients: Vec<String>,
}

/// What became of a request to release.
#[derive(Debug, Clone, PartialEq)]
pub enum Begin {
    /// The caller holds the release now.
    Started(Box<Release>),
    /// It is not held any more; its state says why.
    NotHeld(State),
    /// There is no such item, or it is forgotten.
    Unknown,
}

impl Quarantine {
    /// Begins a release: the item is nobody else's from now on.
    ///
    /// # Errors
    /// If the change could not be made durable.
    pub fn begin_release(
        &self,
        id: &str,
        order: &ReleaseOrder,
        now_ms: i64,
    ) -> Result<Begin, StoreError> {
        let json = |e| rusqlite::Error::ToSqlConversionFailure(Box::new(e));
        let begun = self.change(|batch| {
            let Some((seq, state)) = find_state(batch, id)? else { return Ok(Err(None)) };
            if state != State::Held {
                return Ok(Err(Some(state)));
            }
            // `seq` is never used again and an item is released at most once unless a release is
            // abandoned, which nothing was spooled for: the name is unique.
            let token = format!("release-{seq}-{now_ms}");
            set_state(batch, seq, State::Releasing, now_ms)?;
            let order_json = serde_json::to_string(order).map_err(json)?;
            batch
                .prepare_cached("UPDATE item SET token = ?2, release = ?3 WHERE seq = ?1")?
                .execute(params![seq, token, order_json])?;
            audit::write(batch, now_ms, &order.who, "release", id, &order.to.join(", "))?;
            Ok(Ok(seq))
        })?;
        match begun {
            Err(None) => Ok(Begin::Unknown),
            Err(Some(state)) => Ok(Begin::NotHeld(state)),
            Ok(seq) => {
                let release = self.read(|c| read_release(c, "seq = ?1", seq))?;
                Ok(release
                    .into_iter()
                    .next()
                    .map_or(Begin::Unknown, |r| Begin::Started(Box::new(r))))
            }
        }
    }

    /// The message is in the spool: the item is released. False if this release is not under way.
    ///
    /// # Errors
    /// If the change could not be made durable; then finish again.
    pub fn finish_release(&self, token: &str, now_ms: i64) -> Result<bool, StoreError> {
        self.end_release(token, State::Released, "released", "", now_ms)
    }

    /// The message could not be spooled: the item is held again. False if this release is not
    /// under way.
    ///
    /// # Errors
    /// If the change could not be made durable.
    pub fn abandon_release(
        &self,
        token: &str,
        cause: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        self.end_release(token, State::Held, "release failed", cause, now_ms)
    }

    fn end_release(
        &self,
        token: &str,
        state: State,
        action: &str,
        detail: &str,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        self.change(|batch| {
            let mut find = batch.prepare_cached(
                "SELECT seq, id FROM item WHERE token = ?1 AND state = 'releasing'",
            )?;
            let found: Option<(i64, String)> =
                find.query_row([token], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
            let Some((seq, id)) = found else { return Ok(false) };
            set_state(batch, seq, state, now_ms)?;
            audit::write(batch, now_ms, "gauntlet", action, &id, detail)?;
            Ok(true)
        })
    }

    /// Releases that were begun and neither finished nor abandoned: after a start, those that a
    /// crash interrupted. Whether the message reached the spool, the spool knows by the token.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn unfinished_releases(&self) -> Result<Vec<Release>, StoreError> {
        self.read(|c| read_release(c, "state = ?1", "releasing"))
    }
}

fn read_release(
    connection: &Connection,
    condition: &str,
    value: impl rusqlite::ToSql,
) -> rusqlite::Result<Vec<Release>> {
    let columns = search::COLUMNS;
    let sql = format!("SELECT {columns}, token, release FROM item WHERE {condition} ORDER BY seq");
    let mut find = connection.prepare_cached(&sql)?;
    let rows = find.query_map([value], |row| {
        let held = search::held(row)?;
        let order: ReleaseOrder = search::json(row, search::COLUMNS_COUNT + 1)?;
        let recipients =
            if order.to.is_empty() { held.item.recipients.clone() } else { order.to.clone() };
        Ok(Release { token: row.get(search::COLUMNS_COUNT)?, held, order, recipients })
    })?;
    rows.collect()
}
