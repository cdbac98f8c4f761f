//! Counts for dashboards and reports, updated while messages are logged.

use std::collections::BTreeMap;

use gauntlet_verdict::Class;
use rusqlite::{Connection, params};
use serde::Serialize;

use super::{Log, tops};
use crate::error::StoreError;

/// Most names in a top list.
const TOP_MAX: usize = 20;
/// Names of each day that are summed for it.
const NAMES_OF_A_DAY: usize = 100;

/// Messages of one class and one disposition in one time span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Unix time in milliseconds at which the span begins.
    pub start_ms: i64,
    /// Class of the messages.
    pub class: Class,
    /// Final disposition of the first recipient.
    pub action: String,
    /// Number of messages of the span with this class and action.
    pub messages: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

/// How often a name occurred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Top {
    /// The rule or domain.
    pub name: String,
    /// Number of messages with it.
    pub messages: u64,
}

/// Counts of a time range.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// In order of time, class and disposition.
    pub buckets: Vec<Bucket>,
    /// The most frequent rules, over the whole days that the range touches.
    pub top_rules: Vec<Top>,
    /// The most frequent sender domains, over the whole days that the range touches.
    pub top_senders: Vec<Top>,
}

impl Log {
    /// Messages received in `[since_ms, until_ms)`, in spans of `span_minutes`: in order of time,
    /// class and disposition.
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

    /// [`Log::volume`], and the most frequent names.
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
