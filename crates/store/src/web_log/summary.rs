//! Counts of the web log: by hour, and the hosts, clients, rules and categories with most requests.

use std::collections::BTreeMap;
use std::path::Path;

use gauntlet_mail::date::DAY_MS;
use rusqlite::{Connection, Row};
use serde::Serialize;

use super::query::open;
use super::{day_path, days};
use crate::error::StoreError;

/// Names of a day that are counted into the whole; a name beyond in each of many days is missed.
const NAMES_A_DAY: usize = 1_000;
/// Names that a summary has.
const NAMES_MAX: usize = 20;
const HOUR_MS: i64 = 3_600_000;

/// Counts of a span of time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct WebSummary {
    /// All requests.
    pub requests: u64,
    /// Those that were blocked.
    pub blocked: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
    /// By hour, oldest first; hours without a request are left out.
    pub hours: Vec<WebHour>,
    /// Hosts, by requests.
    pub hosts: Vec<WebCount>,
    /// Hosts, by requests that were blocked.
    pub blocked_hosts: Vec<WebCount>,
    /// Clients, by requests.
    pub clients: Vec<WebCount>,
    /// Rules and other reasons of blocked requests, by requests.
    pub rules: Vec<WebCount>,
    /// Categories of URL lists, by requests.
    pub categories: Vec<WebCount>,
}

/// Counts of an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct WebHour {
    /// Its begin, in milliseconds since 1970.
    pub at_ms: i64,
    /// All requests.
    pub requests: u64,
    /// Those that were blocked.
    pub blocked: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
}

/// Counts of one name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct WebCount {
    /// The host, client, rule or category.
    pub name: String,
    /// All requests.
    pub requests: u64,
    /// Those that were blocked.
    pub blocked: u64,
    /// Bytes to clients.
    pub bytes_out: u64,
}

/// Columns that requests are counted by.
const COLUMNS: [(&str, &str); 5] = [
    ("host", "1"),
    ("host", "outcome = 'blocked'"),
    ("client", "client <> ''"),
    ("rule", "rule <> '' AND outcome = 'blocked'"),
    ("category", "category <> ''"),
];

pub(super) fn summary(
    folder: &Path,
    since_ms: i64,
    until_ms: i64,
) -> Result<WebSummary, StoreError> {
    let span = since_ms.div_euclid(DAY_MS)..=until_ms.div_euclid(DAY_MS);
    let mut all = WebSummary::default();
    let mut names: [BTreeMap<String, WebCount>; 5] = Default::default();
    for day in days(folder)?.into_iter().filter(|day| span.contains(day)) {
        let Some(connection) = open(folder, day)? else { continue };
        add_day(&connection, (since_ms, until_ms), &mut all, &mut names)
            .map_err(StoreError::db(&day_path(folder, day)))?;
    }
    for hour in &all.hours {
        all.requests += hour.requests;
        all.blocked += hour.blocked;
        all.bytes_out += hour.bytes_out;
    }
    let [hosts, blocked_hosts, clients, rules, categories] = names.map(most);
    Ok(WebSummary { hosts, blocked_hosts, clients, rules, categories, ..all })
}

fn add_day(
    connection: &Connection,
    (since_ms, until_ms): (i64, i64),
    all: &mut WebSummary,
    names: &mut [BTreeMap<String, WebCount>; 5],
) -> rusqlite::Result<()> {
    const COUNTS: &str = "count(*), sum(outcome = 'blocked'), sum(bytes_out)";
    let sql = format!(
        "SELECT at_ms / {HOUR_MS} * {HOUR_MS} AS hour, {COUNTS} FROM request \
         WHERE at_ms >= ?1 AND at_ms < ?2 GROUP BY hour ORDER BY hour"
    );
    let mut statement = connection.prepare(&sql)?;
    let hours = statement.query_map([since_ms, until_ms], |row| {
        let (requests, blocked, bytes_out) = counts(row)?;
        Ok(WebHour { at_ms: row.get(0)?, requests, blocked, bytes_out })
    })?;
    for hour in hours {
        all.hours.push(hour?);
    }
    for ((column, which), names) in COLUMNS.into_iter().zip(names) {
        let sql = format!(
            "SELECT {column}, {COUNTS} FROM request WHERE at_ms >= ?1 AND at_ms < ?2 AND {which} \
             GROUP BY {column} ORDER BY count(*) DESC LIMIT {NAMES_A_DAY}"
        );
        let mut statement = connection.prepare(&sql)?;
        let rows = statement.query_map([since_ms, until_ms], |row| {
            let (requests, blocked, bytes_out) = counts(row)?;
            Ok(WebCount { name: row.get(0)?, requests, blocked, bytes_out })
        })?;
        for row in rows {
            let row = row?;
            let count = names.entry(row.name.clone()).or_default();
            count.name = row.name;
            count.requests += row.requests;
            count.blocked += row.blocked;
            count.bytes_out += row.bytes_out;
        }
    }
    Ok(())
}

fn counts(row: &Row<'_>) -> rusqlite::Result<(u64, u64, u64)> {
    let at = |i| row.get::<_, i64>(i).map(|n| u64::try_from(n).unwrap_or(0));
    Ok((at(1)?, at(2)?, at(3)?))
}

/// Those with most requests; of equal ones, by name.
fn most(names: BTreeMap<String, WebCount>) -> Vec<WebCount> {
    let mut all: Vec<WebCount> = names.into_values().collect();
    all.sort_by_key(|count| std::cmp::Reverse(count.requests));
    all.truncate(NAMES_MAX);
    all
}
