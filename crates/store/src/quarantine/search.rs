//! Listing held messages.

use gauntlet_verdict::{Class, ReleasedBy};
use rusqlite::types::{Type, Value};
use rusqlite::{Row, params, params_from_iter};
use serde::{Deserialize, Serialize};

use super::{Held, Quarantine, QuarantineItem, State};
use crate::error::StoreError;

/// Most items of a page.
const PAGE_MAX: usize = 500;
/// Default number of items of a page.
const PAGE_DEFAULT: usize = 50;

/// The columns that [`held`] reads.
pub(super) const COLUMNS: &str = "item.seq, id, message, folder, state, received_ms, changed_ms, \
     class, score, size, sender, subject, recipients, rest, released_by";
/// Number of those columns.
pub(super) const COLUMNS_COUNT: usize = 15;

/// Which items to list. Every field that is set must match; text ignores the case of ASCII letters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldQuery {
    /// Folder; empty is all.
    pub folder: String,
    /// Folders that a reviewer may see; empty is all.
    pub folders: Vec<String>,
    /// State; none is all.
    pub state: Option<State>,
    /// Address of a recipient.
    pub recipient: String,
    /// Id of the message in the log.
    pub message: String,
    /// Part of the subject, the From field, a recipient or the envelope sender. An array's database
    /// has the latter packed, and does not find by it.
    pub text: String,
    /// Do not search `text` among the recipients: for users who may see only their own.
    pub hide_recipients: bool,
    /// Any of these classes; empty is all.
    pub classes: Vec<Class>,
    /// Received at or after this Unix time in milliseconds.
    pub since_ms: Option<i64>,
    /// Received before this Unix time in milliseconds.
    pub until_ms: Option<i64>,
    /// Continue after the item of this `seq`.
    pub after: Option<i64>,
    /// Items of a page, at most 500; 0 is 50.
    pub limit: usize,
}

impl HeldQuery {
    /// Items of a page.
    pub fn page(&self) -> usize {
        if self.limit == 0 { PAGE_DEFAULT } else { self.limit.min(PAGE_MAX) }
    }
}

/// A page of a list, newest item first.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct HeldPage {
    /// At most [`HeldQuery::limit`] items, newest first.
    pub items: Vec<Held>,
    /// `after` of the next page; none on the last.
    pub next: Option<i64>,
}

/// A folder and what is held in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FolderSummary {
    /// Name of the folder.
    pub name: String,
    /// Number of held items.
    pub items: u64,
    /// Bytes of the held items.
    pub bytes: u64,
    /// Unix time in milliseconds at which the oldest was received.
    pub oldest_ms: i64,
}

impl Quarantine {
    /// The newest items that match the query.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn search(&self, query: &HeldQuery) -> Result<HeldPage, StoreError> {
        let limit = query.page();
        let (conditions, mut values) = conditions(query);
        values.push(Value::Integer(limit as i64 + 1));
        let sql = format!(
            "SELECT {COLUMNS} FROM item WHERE {conditions} ORDER BY item.seq DESC LIMIT ?{}",
            values.len()
        );
        let mut items: Vec<Held> = self.read(|c| {
            let mut find = c.prepare_cached(&sql)?;
            find.query_map(params_from_iter(values), held)?.collect()
        })?;
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(|i| i.seq);
        Ok(HeldPage { items, next })
    }

    /// Recipients of held items, sorted, after `after`.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn recipients_with_held(
        &self,
        after: &str,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        self.read(|c| {
            let mut find = c.prepare_cached(
                "SELECT DISTINCT recipient FROM item_recipient JOIN item USING (seq) \
                 WHERE recipient > ?1 AND state = 'held' ORDER BY recipient LIMIT ?2",
            )?;
            find.query_map(params![after, limit as i64], |row| row.get(0))?.collect()
        })
    }

    /// The folders with held items, by name.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn folders(&self) -> Result<Vec<FolderSummary>, StoreError> {
        self.read(|c| {
            let mut find = c.prepare_cached(
                "SELECT folder, items, bytes, \
                     (SELECT min(received_ms) FROM item WHERE item.folder = total.folder AND state = 'held') \
                 FROM folder_total AS total WHERE items > 0 ORDER BY folder",
            )?;
            let rows = find.query_map([], |row| {
                Ok(FolderSummary {
                    name: row.get(0)?,
                    items: u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0),
                    bytes: u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
                    oldest_ms: row.get(3)?,
                })
            })?;
            rows.collect()
        })
    }
}

/// The query as SQL: conditions joined by AND, and their values in order.
fn conditions(query: &HeldQuery) -> (String, Vec<Value>) {
    let mut clauses = vec!["1 = 1".to_owned()];
    let mut values: Vec<Value> = Vec::new();
    let mut add = |clause: &str, value: Value| {
        values.push(value);
        clauses.push(clause.replace('?', &format!("?{}", values.len())));
    };
    let text = |s: &str| Value::Text(s.trim().to_owned());
    if !query.folder.is_empty() {
        add("folder = ?", text(&query.folder));
    }
    if !query.folders.is_empty() {
        let names = serde_json::to_string(&query.folders).unwrap_or_default();
        add("folder IN (SELECT value FROM json_each(?))", Value::Text(names));
    }
    if let Some(state) = query.state {
        add("state = ?", text(state.name()));
    }
    if !query.recipient.is_empty() {
        let recipient = Value::Text(query.recipient.trim().to_lowercase());
        add("item.seq IN (SELECT seq FROM item_recipient WHERE recipient = ?)", recipient);
    }
    if !query.message.is_empty() {
        add("message = ?", text(&query.message));
    }
    if !query.text.trim().is_empty() {
        let clause = match query.hide_recipients {
            true => {
                "instr(lower(subject || char(10) || sender || char(10) || \
                 coalesce(rest ->> '$.mail_from', '')), lower(?)) > 0"
            }
            false => {
                "instr(lower(subject || char(10) || sender || char(10) || \
                 coalesce(rest ->> '$.mail_from', '') || char(10) || recipients), lower(?)) > 0"
            }
        };
        add(clause, text(&query.text));
    }
    if !query.classes.is_empty() {
        let names: Vec<&str> = query.classes.iter().map(|c| c.name()).collect();
        let names = serde_json::to_string(&names).unwrap_or_default();
        add("class IN (SELECT value FROM json_each(?))", Value::Text(names));
    }
    if let Some(since) = query.since_ms {
        add("received_ms >= ?", Value::Integer(since));
    }
    if let Some(until) = query.until_ms {
        add("received_ms < ?", Value::Integer(until));
    }
    if let Some(after) = query.after {
        add("item.seq < ?", Value::Integer(after));
    }
    (clauses.join(" AND "), values)
}

/// Reads a row that was selected by [`COLUMNS`], in their order.
pub(super) fn held(row: &Row<'_>) -> rusqlite::Result<Held> {
    Ok(Held {
        seq: row.get(0)?,
        item: QuarantineItem {
            id: row.get(1)?,
            message: row.get(2)?,
            folder: row.get(3)?,
            recipients: json(row, 12)?,
            envelope: json(row, 13)?,
            received_ms: row.get(5)?,
            class: row.get_ref(7)?.as_str()?.parse().unwrap_or(Class::Unscannable),
            score: row.get(8)?,
            subject: row.get(11)?,
            from: row.get(10)?,
            release: released_by(row.get(14)?),
        },
        state: State::parse(row.get_ref(4)?.as_str()?),
        changed_ms: row.get(6)?,
        size: u64::try_from(row.get::<_, i64>(9)?).unwrap_or(0),
        node: String::new(),
    })
}

/// Parses the column of who may release an item. An unknown value permits the least.
fn released_by(word: Option<String>) -> Option<ReleasedBy> {
    word.map(|word| match word == ReleasedBy::User.name() {
        true => ReleasedBy::User,
        false => ReleasedBy::Admin,
    })
}

/// Parses a column of JSON.
pub(super) fn json<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text)
        .map_err(|e| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(e)))
}
