//! How much passed: sums over what each node counted by minute.
//!
//! A day has a row for each minute, node, class and disposition, so a report of a month would sum
//! a million. Who reads keeps the sums of each hour of whole days, and asks whether a day got
//! anything since: counts come with packs, in the same transaction, and of a node's packs of a day
//! the last one committed has the greatest number, since a node ships them one after the other.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use gauntlet_mail::date::DAY_MS;
use gauntlet_store::log::Bucket;
use gauntlet_verdict::Class;
use tokio_postgres::Row;

use crate::database::Session;
use crate::error::ArrayError;
use crate::value::Value;

/// Sums kept, at most: those of a hundred days with twenty classes and dispositions an hour, or
/// some megabytes.
const KEPT_MAX: usize = 50_000;
/// For fewer whole days nothing is kept: to sum them takes no longer than to ask what changed.
const WHOLE_DAYS_MIN: i64 = 2;
/// Minutes of an hour and of a day.
const HOUR: i64 = 60;
const DAY: i64 = 24 * HOUR;
/// Doing what, for errors.
const DOING: &str = "counting in the array's log";

/// By start of the span (in minutes), class and disposition: messages and bytes.
type Sums = BTreeMap<(i64, &'static str, String), (u64, u64)>;

/// What of a day is in the database: its nodes, each with the number of its last pack.
type Version = Vec<(i16, i64)>;

/// Sums of whole days, for reports that come again.
#[derive(Debug, Default)]
pub(super) struct KeptSums(Mutex<BTreeMap<i64, KeptDay>>);

#[derive(Debug)]
struct KeptDay {
    version: Version,
    hours: Vec<Bucket>,
}

impl KeptSums {
    /// Messages in spans of minutes, in order of time, class and disposition.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub(super) async fn volume(
        &self,
        session: &Session,
        (since_ms, until_ms): (i64, i64),
        span_minutes: u32,
    ) -> Result<Vec<Bucket>, ArrayError> {
        let (since, until) = (since_ms.div_euclid(60_000), until_ms.div_euclid(60_000));
        let span = i64::from(span_minutes.max(1));
        let whole = (since + DAY - 1).div_euclid(DAY)..until.div_euclid(DAY);
        let mut sums = Sums::new();
        if span % HOUR != 0 || whole.end - whole.start < WHOLE_DAYS_MIN {
            add(&mut sums, &read(session, (since, until), span).await?, span);
            return Ok(buckets(sums));
        }
        let (first, end) = (whole.start * DAY, whole.end * DAY);
        for part in [(since, first), (end, until)] {
            if part.0 < part.1 {
                add(&mut sums, &read(session, part, span).await?, span);
            }
        }
        // Before the sums: what is shipped between the two is then read once more the next time.
        let versions = versions(session, (whole.start, whole.end)).await?;
        let changed = self.add_kept(&mut sums, span, whole, &versions);
        for run in changed.chunk_by(|day, next| day + 1 == *next) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let hours = read(session, (first * DAY, (last + 1) * DAY), HOUR).await?;
            add(&mut sums, &hours, span);
            self.keep(&versions, hours);
        }
        Ok(buckets(sums))
    }

    /// Adds the days whose sums are known. Returns the others, ascending.
    fn add_kept(
        &self,
        sums: &mut Sums,
        span: i64,
        days: std::ops::Range<i64>,
        versions: &BTreeMap<i64, Version>,
    ) -> Vec<i64> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Vec::new();
        for day in days {
            match kept.get(&day).filter(|kept| Some(&kept.version) == versions.get(&day)) {
                Some(day) => add(sums, &day.hours, span),
                None => changed.push(day),
            }
        }
        changed
    }

    /// Keeps the sums of days, in place of the oldest days if there are too many.
    fn keep(&self, versions: &BTreeMap<i64, Version>, hours: Vec<Bucket>) {
        let mut days: BTreeMap<i64, Vec<Bucket>> = BTreeMap::new();
        for hour in hours {
            days.entry(hour.start_ms.div_euclid(DAY_MS)).or_default().push(hour);
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (day, hours) in days {
            // Without packs nothing would tell of a change.
            if let Some(version) = versions.get(&day).cloned() {
                kept.insert(day, KeptDay { version, hours });
            }
        }
        while kept.values().map(|day| day.hours.len()).sum::<usize>() > KEPT_MAX {
            kept.pop_first();
        }
    }
}

/// The numbers of the last packs of days `[first, end)`: of days without packs none.
async fn versions(
    session: &Session,
    (first, end): (i64, i64),
) -> Result<BTreeMap<i64, Version>, ArrayError> {
    let day = |day: i64| i32::try_from(day).unwrap_or(i32::MAX);
    let (first, end) = (day(first), day(end));
    // One look into the index for each day and node; the range leaves the tables of other days out.
    let sql = "SELECT d, n.id, (SELECT max(number) FROM log_pack WHERE day = d AND node = n.id \
               AND day >= $1 AND day < $2) FROM generate_series($1, $2 - 1) AS d, node n \
               ORDER BY d, n.id";
    let values: [Value<'_>; 2] = [&first, &end];
    let mut versions: BTreeMap<i64, Version> = BTreeMap::new();
    for row in session.rows(DOING, sql, &values).await? {
        if let Some(number) = row.get::<_, Option<i64>>(2) {
            versions.entry(row.get::<_, i32>(0).into()).or_default().push((row.get(1), number));
        }
    }
    Ok(versions)
}

/// Sums of minutes `[since, until)`, in spans of minutes.
async fn read(
    session: &Session,
    (since, until): (i64, i64),
    span: i64,
) -> Result<Vec<Bucket>, ArrayError> {
    let minutes = |minutes: i64| i32::try_from(minutes).unwrap_or(i32::MAX);
    let (since, until, span) = (minutes(since), minutes(until), minutes(span));
    let sql = "SELECT minute / $3 * $3 AS start, class, action, sum(messages)::bigint, \
               sum(bytes)::bigint FROM log_count WHERE minute >= $1 AND minute < $2 \
               GROUP BY 1, 2, 3";
    let values: [Value<'_>; 3] = [&since, &until, &span];
    let rows = session.rows(DOING, sql, &values).await?;
    let bucket = |row: &Row| Bucket {
        start_ms: i64::from(row.get::<_, i32>(0)) * 60_000,
        class: row.get::<_, &str>(1).parse().unwrap_or(Class::Unscannable),
        action: row.get(2),
        messages: row.get::<_, i64>(3).cast_unsigned(),
        bytes: row.get::<_, i64>(4).cast_unsigned(),
    };
    Ok(rows.iter().map(bucket).collect())
}

fn add(sums: &mut Sums, buckets: &[Bucket], span: i64) {
    for bucket in buckets {
        let start = bucket.start_ms.div_euclid(60_000).div_euclid(span) * span;
        let sum = sums.entry((start, bucket.class.name(), bucket.action.clone())).or_default();
        (sum.0, sum.1) = (sum.0 + bucket.messages, sum.1 + bucket.bytes);
    }
}

/// In the order of a node's own log.
fn buckets(sums: Sums) -> Vec<Bucket> {
    let bucket =
        |((start, class, action), (messages, bytes)): ((i64, &str, String), (u64, u64))| {
            let class = class.parse().unwrap_or(Class::Unscannable);
            Bucket { start_ms: start * 60_000, class, action, messages, bytes }
        };
    sums.into_iter().map(bucket).collect()
}
