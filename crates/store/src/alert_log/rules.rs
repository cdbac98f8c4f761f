//! Counts of the log of alerts: by rule, and by the two ends.

use std::collections::BTreeMap;
use std::path::Path;

use gauntlet_mail::date::DAY_MS;
use rusqlite::Connection;
use serde::Serialize;

use super::query::open;
use super::{day_path, days};
use crate::error::StoreError;

/// Names of a day that are counted into the whole; a name beyond in each of many days is missed.
const NAMES_A_DAY: usize = 5_000;
/// Ends that a summary has.
const ENDS_MAX: usize = 20;

/// Counts of a span of time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct AlertSummary {
    /// All alerts.
    pub alerts: u64,
    /// Those whose packets or flows were dropped.
    pub blocked: u64,
    /// By rule, those with most alerts first.
    pub rules: Vec<RuleCount>,
    /// Where they came from.
    pub sources: Vec<AlertCount>,
    /// Where they went.
    pub destinations: Vec<AlertCount>,
}

/// Alerts of one rule.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RuleCount {
    /// Generator, number and revision; of findings their kind.
    pub rule: String,
    /// Its message.
    pub title: String,
    /// How many alerts.
    pub alerts: u64,
    /// The newest, Unix time in milliseconds.
    pub newest_ms: i64,
}

/// Alerts of one address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct AlertCount {
    /// The address.
    pub name: String,
    /// How many alerts.
    pub alerts: u64,
}

pub(super) fn summary(
    folder: &Path,
    since_ms: i64,
    until_ms: i64,
) -> Result<AlertSummary, StoreError> {
    let span = since_ms.div_euclid(DAY_MS)..=until_ms.div_euclid(DAY_MS);
    let mut all = AlertSummary::default();
    let mut rules: BTreeMap<String, RuleCount> = BTreeMap::new();
    let mut ends: [BTreeMap<String, u64>; 2] = Default::default();
    for day in days(folder)?.into_iter().filter(|day| span.contains(day)) {
        let Some(connection) = open(folder, day)? else { continue };
        add_day(&connection, [since_ms, until_ms], (&mut all, &mut rules, &mut ends))
            .map_err(StoreError::db(&day_path(folder, day)))?;
    }
    all.rules = rules.into_values().collect();
    all.rules.sort_by_key(|count| std::cmp::Reverse(count.alerts));
    [all.sources, all.destinations] = ends.map(most);
    Ok(all)
}

fn add_day(
    connection: &Connection,
    span: [i64; 2],
    (all, rules, ends): (
        &mut AlertSummary,
        &mut BTreeMap<String, RuleCount>,
        &mut [BTreeMap<String, u64>; 2],
    ),
) -> rusqlite::Result<()> {
    let unsigned = |n: i64| u64::try_from(n).unwrap_or(0);
    let sql = "SELECT count(*), coalesce(sum(action = 'blocked'), 0) FROM alert \
               WHERE at_ms >= ?1 AND at_ms < ?2";
    let (alerts, blocked): (i64, i64) =
        connection.query_row(sql, span, |row| Ok((row.get(0)?, row.get(1)?)))?;
    all.alerts += unsigned(alerts);
    all.blocked += unsigned(blocked);
    let sql = format!(
        "SELECT CASE rule WHEN '' THEN kind || ' ' || category ELSE rule END AS name, \
         CASE rule WHEN '' THEN '' ELSE max(title) END, count(*), max(at_ms) FROM alert \
         WHERE at_ms >= ?1 AND at_ms < ?2 GROUP BY name ORDER BY count(*) DESC LIMIT {NAMES_A_DAY}"
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query(span)?;
    while let Some(row) = rows.next()? {
        let rule: String = row.get(0)?;
        let count = rules.entry(rule.clone()).or_default();
        count.rule = rule;
        count.title = row.get(1)?;
        count.alerts += unsigned(row.get(2)?);
        count.newest_ms = count.newest_ms.max(row.get(3)?);
    }
    for (column, names) in ["source", "destination"].into_iter().zip(ends) {
        let sql = format!(
            "SELECT {column}, count(*) FROM alert WHERE at_ms >= ?1 AND at_ms < ?2 \
             GROUP BY {column} ORDER BY count(*) DESC LIMIT {NAMES_A_DAY}"
        );
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query(span)?;
        while let Some(row) = rows.next()? {
            *names.entry(row.get(0)?).or_default() += unsigned(row.get(1)?);
        }
    }
    Ok(())
}

/// Those with most alerts; of equal ones, by name.
fn most(names: BTreeMap<String, u64>) -> Vec<AlertCount> {
    let mut all: Vec<AlertCount> =
        names.into_iter().map(|(name, alerts)| AlertCount { name, alerts }).collect();
    all.sort_by_key(|count| std::cmp::Reverse(count.alerts));
    all.truncate(ENDS_MAX);
    all
}
