//! Searching the web log.

use std::path::Path;

use gauntlet_mail::date::DAY_MS;
use gauntlet_web::{WebOutcome, WebRecord};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};
use serde::{Deserialize, Serialize};

use super::listed::read_listed;
use super::schema::{MIGRATIONS, later_columns};
use super::{day_path, days};
use crate::database;
use crate::error::StoreError;

/// Rows of a page unless the query says how many.
const LIMIT_DEFAULT: usize = 50;
/// Most rows of a page.
const LIMIT_MAX: usize = 500;
/// Rows of one day in a cursor.
const ROW_BITS: u32 = 40;

/// Which requests to find. Every field that is set must match.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WebQuery {
    /// Address of the client as it is logged.
    pub client: String,
    /// Login.
    pub user: String,
    /// Host; `.example.org` is the domain with all below.
    pub host: String,
    /// Part of the URL.
    pub text: String,
    /// Name of an outcome, e.g. `blocked`.
    pub outcome: String,
    /// A rule that matched, or the name of what refused the request.
    pub rule: String,
    /// Category of the URL.
    pub category: String,
    /// Code on a page.
    pub reference: String,
    /// At or after this time, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Before this time, in milliseconds since 1970.
    pub until_ms: Option<i64>,
    /// Continue after this request of the previous page.
    pub after: Option<WebCursor>,
    /// Requests of a page, at most 500; 0 is 50.
    pub limit: usize,
}

/// Position in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WebCursor(pub i64);

impl WebCursor {
    fn new(day: i64, row: i64) -> Self {
        WebCursor((day << ROW_BITS) | row)
    }

    fn day(self) -> i64 {
        self.0 >> ROW_BITS
    }

    fn row(self) -> i64 {
        self.0 & ((1 << ROW_BITS) - 1)
    }
}

/// A request that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WebRow {
    /// Position in the log.
    pub cursor: WebCursor,
    /// The request.
    #[serde(flatten)]
    pub record: WebRecord,
}

/// A page of a search, newest request first by when it ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct WebPage {
    /// At most [`WebQuery::limit`] requests.
    pub requests: Vec<WebRow>,
    /// Where the next page continues; none on the last.
    pub next: Option<WebCursor>,
}

pub(super) fn search(folder: &Path, query: &WebQuery) -> Result<WebPage, StoreError> {
    let limit = match query.limit {
        0 => LIMIT_DEFAULT,
        limit => limit.min(LIMIT_MAX),
    };
    let first = query.since_ms.map_or(i64::MIN, |ms| ms.div_euclid(DAY_MS));
    let last = query.until_ms.map_or(i64::MAX, |ms| ms.div_euclid(DAY_MS));
    let last = query.after.map_or(last, |after| last.min(after.day()));
    let mut page = WebPage::default();
    for day in days(folder)?.into_iter().rev().filter(|day| (first..=last).contains(day)) {
        let Some(connection) = open(folder, day)? else { continue };
        let wanted = limit + 1 - page.requests.len();
        let found = search_day(&connection, day, query, wanted);
        page.requests.extend(found.map_err(StoreError::db(&day_path(folder, day)))?);
        if page.requests.len() > limit {
            page.requests.truncate(limit);
            page.next = page.requests.last().map(|row| row.cursor);
            break;
        }
    }
    Ok(page)
}

/// The file of a day; none if it was deleted meanwhile.
pub(super) fn open(folder: &Path, day: i64) -> Result<Option<Connection>, StoreError> {
    let path = day_path(folder, day);
    if database::is_blank(&path)? {
        return Ok(None);
    }
    database::open_read(&path, MIGRATIONS).map(Some)
}

fn search_day(
    connection: &Connection,
    day: i64,
    query: &WebQuery,
    wanted: usize,
) -> rusqlite::Result<Vec<WebRow>> {
    let (conditions, values) = conditions(query, day);
    let later = later_columns(database::version(connection)?);
    let sql = format!(
        "SELECT row, at_ms, took_ms, reference, client, user, method, host, url, status, outcome, \
         rule, category, evidence, content_type, bytes_in, bytes_out, {later} FROM request \
         WHERE {conditions} ORDER BY row DESC LIMIT {wanted}"
    );
    let mut statement = connection.prepare(&sql)?;
    let rows = statement.query_map(params_from_iter(values), |row| read(row, day))?;
    rows.collect()
}

/// The WHERE clause and its values.
fn conditions(query: &WebQuery, day: i64) -> (String, Vec<Value>) {
    let (mut parts, mut values) = (vec!["1".to_owned()], Vec::new());
    let mut add = |part: &str, value: Value| {
        values.push(value);
        parts.push(part.replace('?', &format!("?{}", values.len())));
    };
    for (column, text) in [
        ("client", &query.client),
        ("user", &query.user),
        ("outcome", &query.outcome),
        ("category", &query.category),
        ("reference", &query.reference),
    ] {
        if !text.is_empty() {
            add(&format!("{column} = ?"), Value::Text(text.clone()));
        }
    }
    let host = query.host.to_lowercase();
    match host.strip_prefix('.') {
        Some(domain) => {
            add("(host = ? OR host LIKE '%.' || ? ESCAPE '\\')", Value::Text(escaped(domain)));
        }
        None if !host.is_empty() => add("host = ?", Value::Text(host)),
        None => {}
    }
    if !query.text.is_empty() {
        add("url LIKE '%' || ? || '%' ESCAPE '\\'", Value::Text(escaped(&query.text)));
    }
    if !query.rule.is_empty() {
        // Several rules stand beside each other, separated by a line end.
        let text = format!("\n{}\n", query.rule);
        add("instr(char(10) || rule || char(10), ?) > 0", Value::Text(text));
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

/// A text in a LIKE pattern.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

fn read(row: &Row<'_>, day: i64) -> rusqlite::Result<WebRow> {
    let unsigned = |n: i64| u64::try_from(n).unwrap_or(0);
    let outcome: String = row.get(10)?;
    Ok(WebRow {
        cursor: WebCursor::new(day, row.get(0)?),
        record: WebRecord {
            at_ms: row.get(1)?,
            took_ms: unsigned(row.get(2)?),
            reference: row.get(3)?,
            client: row.get(4)?,
            user: row.get(5)?,
            method: row.get(6)?,
            host: row.get(7)?,
            url: row.get(8)?,
            status: row.get(9)?,
            outcome: WebOutcome::of_name(&outcome).unwrap_or_default(),
            rule: row.get(11)?,
            category: row.get(12)?,
            evidence: row.get(13)?,
            content_type: row.get(14)?,
            bytes_in: unsigned(row.get(15)?),
            bytes_out: unsigned(row.get(16)?),
            action: row.get(17)?,
            listed: row.get::<_, Option<String>>(18)?.map(|text| read_listed(&text)),
            bytes_declared: row.get::<_, Option<i64>>(19)?.map(unsigned),
            server_address: row.get::<_, Option<String>>(20)?.unwrap_or_default(),
        },
    })
}
