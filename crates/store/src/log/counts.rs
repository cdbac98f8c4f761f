//! Counts for dashboards and reports, kept while messages are logged.

use std::collections::BTreeMap;

use gauntlet_engine::Class;
use rusqlite::{Connection, params};
use serde::Serialize;

use super::{Log, tops};
use crate::error::StoreError;

/// Names kept in a list of the most frequent.
const TOP_MAX: usize = 20;
/// Names of a day that are added up for it.
const NAMES_OF_A_DAY: usize = 100;

/// Messages of one class and one end in one span of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Unix time in milliseconds at which the span begins.
    pub start_ms: i64,
    /// Class.
    pub class: Class,
    /// Final disposition for the first recipient.
    pub action: String,
    /// How many messages.
    pub messages: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

/// How often a name occurred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Top {
    /// The rule or domain.
    pub name: String,
    /// In how many messages.
    pub messages: u64,
}

/// Counts of a range of time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// In order of time, class and disposition.
    pub buckets: Vec<Bucket>,
    /// Rules that hit most, over the whole days that the range touches.
    pub top_rules: Vec<Top>,
    /// Domains that sent most, over the whole days that the range touches.
    pub top_senders: Vec<Top>,
}

impl Log {
    /// Messages received in `[since_ms, until_ms)`, in spans of `span_minutes`: in order of time, class and
    /// disposition.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn volume(
        &self,
        since_ms: i64,
        until_ms: i64,
        span_minutes: u32,
    ) -> Result<Vec<Bucket>, StoreError> {
        let mut found = Vec::new();
        let span = i64::from(span_minutes.max(1));
        let range = (since_ms.div_euclid(60_000), until_ms.div_euclid(60_000));
        self.each_day(since_ms, until_ms, |c| buckets(c, range, span, &mut found))?;
        Ok(found)
    }

    /// [`Log::volume`], and the names seen most.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn counts(
        &self,
        since_ms: i64,
        until_ms: i64,
        span_minutes: u32,
    ) -> Result<Counts, StoreError> {
        let buckets = self.volume(since_ms, until_ms, span_minutes)?;
        let mut tops: [BTreeMap<String, u64>; 2] = Default::default();
        self.each_day(since_ms, until_ms, |c| {
            top(c, "rule", &mut tops[0])?;
            top(c, "sender", &mut tops[1])
        })?;
        let [rules, senders] = tops;
        Ok(Counts { buckets, top_rules: most(rules), top_senders: most(senders) })
    }
}

fn buckets(
    connection: &Connection,
    (since, until): (i64, i64),
    span: i64,
    out: &mut Vec<Bucket>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "SELECT minute / ?3 * ?3 AS start, class, action, sum(messages), sum(bytes) FROM tally \
         WHERE minute >= ?1 AND minute < ?2 GROUP BY start, class, action \
         ORDER BY start, class, action",
    )?;
    let rows = statement.query_map(params![since, until, span], |row| {
        Ok(Bucket {
            start_ms: row.get::<_, i64>(0)? * 60_000,
            class: row.get_ref(1)?.as_str()?.parse().unwrap_or(Class::Unscannable),
            action: row.get(2)?,
            messages: u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
            bytes: u64::try_from(row.get::<_, i64>(4)?).unwrap_or(0),
        })
    })?;
    for row in rows {
        out.push(row?);
    }
    Ok(())
}

/// Adds a day's most frequent names. A name that is in no day's first hundred is missed.
fn top(
    connection: &Connection,
    kind: &str,
    out: &mut BTreeMap<String, u64>,
) -> rusqlite::Result<()> {
    for (name, messages) in tops::read(connection, kind, NAMES_OF_A_DAY)? {
        *out.entry(name).or_default() += messages;
    }
    Ok(())
}

fn most(names: BTreeMap<String, u64>) -> Vec<Top> {
    let mut tops: Vec<Top> =
        names.into_iter().map(|(name, messages)| Top { name, messages }).collect();
    tops.sort_by(|a, b| b.messages.cmp(&a.messages).then_with(|| a.name.cmp(&b.name)));
    tops.truncate(TOP_MAX);
    tops
}
