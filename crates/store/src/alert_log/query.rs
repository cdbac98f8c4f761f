//! Searching the log of alerts.

use std::path::Path;

use gauntlet_mail::date::DAY_MS;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};
use serde::{Deserialize, Serialize};

use super::record::AlertRecord;
use super::schema::MIGRATIONS;
use super::{day_path, days};
use crate::database;
use crate::error::StoreError;

/// Rows of a page unless the query says how many.
const LIMIT_DEFAULT: usize = 50;
/// Most rows of a page.
const LIMIT_MAX: usize = 500;
/// Rows of one day in a cursor.
const ROW_BITS: u32 = 40;

/// Which alerts to find. Every field that is set must match.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AlertQuery {
    /// Part of the title.
    pub text: String,
    /// `rule`, `mail`, `file`, `url` or `content`.
    pub kind: String,
    /// `allowed` or `blocked`.
    pub action: String,
    /// A rule: its number, or generator and number (`1:2019401`).
    pub rule: String,
    /// Class.
    pub category: String,
    /// Address of one of the two ends.
    pub address: String,
    /// Application protocol or transport.
    pub protocol: String,
    /// At or after this time, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Before this time, in milliseconds since 1970.
    pub until_ms: Option<i64>,
    /// Continue after this alert of the previous page.
    pub after: Option<AlertCursor>,
    /// Alerts of a page, at most 500; 0 is 50.
    pub limit: usize,
}

/// Position in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AlertCursor(pub i64);

impl AlertCursor {
    fn new(day: i64, row: i64) -> Self {
        AlertCursor((day << ROW_BITS) | row)
    }

    fn day(self) -> i64 {
        self.0 >> ROW_BITS
    }

    fn row(self) -> i64 {
        self.0 & ((1 << ROW_BITS) - 1)
    }
}

/// An alert that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AlertRow {
    /// Position in the log.
    pub cursor: AlertCursor,
    /// The alert.
    #[serde(flatten)]
    pub record: AlertRecord,
}

/// A page of a search, newest alert first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct AlertPage {
    /// At most [`AlertQuery::limit`] alerts.
    pub alerts: Vec<AlertRow>,
    /// Where the next page continues; none on the last.
    pub next: Option<AlertCursor>,
}

pub(super) fn search(folder: &Path, query: &AlertQuery) -> Result<AlertPage, StoreError> {
    let limit = match query.limit {
        0 => LIMIT_DEFAULT,
        limit => limit.min(LIMIT_MAX),
    };
    let first = query.since_ms.map_or(i64::MIN, |ms| ms.div_euclid(DAY_MS));
    let last = query.until_ms.map_or(i64::MAX, |ms| ms.div_euclid(DAY_MS));
    let last = query.after.map_or(last, |after| last.min(after.day()));
    let mut page = AlertPage::default();
    for day in days(folder)?.into_iter().rev().filter(|day| (first..=last).contains(day)) {
        let wanted = limit + 1 - page.alerts.len();
        let (conditions, values) = conditions(query, day);
        let rest = format!("{conditions} ORDER BY row DESC LIMIT {wanted}");
        page.alerts.extend(rows(folder, day, &rest, values)?);
        if page.alerts.len() > limit {
            page.alerts.truncate(limit);
            page.next = page.alerts.last().map(|row| row.cursor);
            break;
        }
    }
    Ok(page)
}

pub(super) fn get(folder: &Path, cursor: AlertCursor) -> Result<Option<AlertRow>, StoreError> {
    let row = Value::Integer(cursor.row());
    Ok(rows(folder, cursor.day(), "row = ?1", vec![row])?.pop())
}

pub(super) fn of_flow(
    folder: &Path,
    of: &AlertRow,
    max: usize,
) -> Result<Vec<AlertRow>, StoreError> {
    let flow = Value::Integer(i64::try_from(of.record.flow).unwrap_or(i64::MAX));
    let rest = format!("flow = ?1 ORDER BY row LIMIT {max}");
    rows(folder, of.cursor.day(), &rest, vec![flow])
}

/// The file of a day; none if it was deleted meanwhile.
pub(super) fn open(folder: &Path, day: i64) -> Result<Option<Connection>, StoreError> {
    let path = day_path(folder, day);
    if database::is_blank(&path)? {
        return Ok(None);
    }
    database::open_read(&path, MIGRATIONS).map(Some)
}

/// Rows of a day that there may be.
fn rows(
    folder: &Path,
    day: i64,
    rest: &str,
    values: Vec<Value>,
) -> Result<Vec<AlertRow>, StoreError> {
    let path = day_path(folder, day);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let Some(connection) = open(folder, day)? else { return Ok(Vec::new()) };
    let sql = format!(
        "SELECT row, at_ms, kind, action, severity, rule, title, category, source, source_port, \
         destination, destination_port, protocol, flow, record FROM alert WHERE {rest}"
    );
    let read_all = || {
        let mut statement = connection.prepare(&sql)?;
        let rows = statement.query_map(params_from_iter(values), |row| read(row, day))?;
        rows.collect::<rusqlite::Result<Vec<_>>>()
    };
    read_all().map_err(StoreError::db(&path))
}

/// The WHERE clause and its values.
fn conditions(query: &AlertQuery, day: i64) -> (String, Vec<Value>) {
    let (mut parts, mut values) = (vec!["1".to_owned()], Vec::new());
    let mut add = |part: &str, value: Value| {
        values.push(value);
        parts.push(part.replace('?', &format!("?{}", values.len())));
    };
    for (column, text) in [
        ("kind", &query.kind),
        ("action", &query.action),
        ("category", &query.category),
        ("protocol", &query.protocol),
    ] {
        if !text.is_empty() {
            add(&format!("{column} = ?"), Value::Text(text.clone()));
        }
    }
    if !query.address.is_empty() {
        add("(source = ? OR destination = ?)", Value::Text(query.address.clone()));
    }
    if !query.text.is_empty() {
        let escaped = query.text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        add("title LIKE '%' || ? || '%' ESCAPE '\\'", Value::Text(escaped));
    }
    if !query.rule.is_empty() {
        let part = match query.rule.matches(':').count() {
            0 => "rule LIKE '%:' || ? || ':%'",
            1 => "rule LIKE ? || ':%'",
            _ => "rule = ?",
        };
        let plain = query.rule.replace(['%', '_'], "");
        add(part, Value::Text(plain));
    }
    if let Some(ms) = query.since_ms {
        add("at_ms >= ?", Value::Integer(ms));
    }
    if let Some(ms) = query.until_ms {
        add("at_ms < ?", Value::Integer(ms));
    }
    if let Some(after) = query.after.filter(|after| after.day() == day) {
        add("row < ?", Value::Integer(after.row()));
    }
    (parts.join(" AND "), values)
}

fn read(row: &Row<'_>, day: i64) -> rusqlite::Result<AlertRow> {
    let flow: i64 = row.get(13)?;
    Ok(AlertRow {
        cursor: AlertCursor::new(day, row.get(0)?),
        record: AlertRecord {
            at_ms: row.get(1)?,
            kind: row.get(2)?,
            action: row.get(3)?,
            severity: row.get(4)?,
            rule: row.get(5)?,
            title: row.get(6)?,
            category: row.get(7)?,
            source: row.get(8)?,
            source_port: row.get(9)?,
            destination: row.get(10)?,
            destination_port: row.get(11)?,
            protocol: row.get(12)?,
            flow: u64::try_from(flow).unwrap_or(0),
            record: row.get(14)?,
        },
    })
}
