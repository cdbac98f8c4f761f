//! Counts of the shared log: sums over the nodes of what each counted.

use std::collections::BTreeMap;

use gauntlet_mail::date::DAY_MS;
use gauntlet_store::Log;
use gauntlet_store::log::{Bucket, Counts, Feedback, Top, TopKind};
use gauntlet_verdict::Class;
use serde::{Deserialize, Serialize};

use crate::database::Session;
use crate::error::ArrayError;

/// Names that a node ships of a day and kind; the most frequent ones.
const NAMES_SHIPPED_MAX: usize = 1_000;
/// Most names in a top list of a page.
const TOP_MAX: usize = 20;
/// Most bytes that the counts of a day may unfold to.
const COUNTS_BYTES_MAX: usize = 16 << 20;
/// Doing what, for errors.
const DOING: &str = "counting in the array's log";

/// What a node counted on one day, beside its minutes: Zstandard of MessagePack in the table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DayCounts {
    /// Messages with each name, by kind ([`TopKind::name`]).
    pub names: BTreeMap<String, Vec<(String, u64)>>,
    /// Feedback of users: its kind, the class of the messages, and how many.
    pub feedback: Vec<(String, String, u64)>,
}

impl DayCounts {
    /// Counts a day of a node's own log. Reads all its messages once if the day is not over.
    ///
    /// # Errors
    /// If the day's file cannot be read.
    pub fn of(log: &Log, day: i64) -> Result<Self, ArrayError> {
        let (since, until) = (day * DAY_MS, (day + 1) * DAY_MS);
        let mut names = BTreeMap::new();
        let ours = Class::ALL.iter().map(|class| TopKind::Ours(*class));
        for kind in [TopKind::Rule, TopKind::Sender].into_iter().chain(ours) {
            names.insert(kind.name().to_owned(), most(log.tops(kind, since, until)?));
        }
        let recipients = most(log.top_recipients(since, until)?);
        names.insert(TopKind::Recipient.name().to_owned(), recipients);
        names.retain(|_, names| !names.is_empty());
        let feedback = log.feedback(since, until)?;
        let feedback =
            feedback.into_iter().map(|f| (f.kind, f.class.name().to_owned(), f.messages));
        Ok(DayCounts { names, feedback: feedback.collect() })
    }

    /// Ships them, in place of what this node shipped of the day before.
    ///
    /// # Errors
    /// If the statement fails.
    pub async fn ship(&self, session: &Session, node: i16, day: i64) -> Result<(), ArrayError> {
        let damaged = |cause: String| ArrayError::Damaged { what: "counts".to_owned(), cause };
        let plain = rmp_serde::to_vec_named(self).map_err(|e| damaged(e.to_string()))?;
        let mut packed = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
        zstd_safe::compress(&mut packed, &plain, 3)
            .map_err(|code| damaged(zstd_safe::get_error_name(code).to_owned()))?;
        let day = i32::try_from(day).unwrap_or(i32::MAX);
        session
            .execute(
                "shipping counts to the array",
                "INSERT INTO log_day (day, node, counts) VALUES ($1, $2, $3) \
             ON CONFLICT (day, node) DO UPDATE SET counts = excluded.counts",
                &[&day, &node, &packed],
            )
            .await?;
        Ok(())
    }

    fn read(packed: &[u8]) -> Result<Self, ArrayError> {
        let damaged = |cause: String| ArrayError::Damaged {
            what: "counts of a day in the array's log".to_owned(),
            cause,
        };
        let length = zstd_safe::get_frame_content_size(packed).ok().flatten().unwrap_or(0);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > COUNTS_BYTES_MAX {
            return Err(damaged(format!("they claim {length} bytes")));
        }
        let mut plain = Vec::with_capacity(length);
        zstd_safe::decompress(&mut plain, packed)
            .map_err(|code| damaged(zstd_safe::get_error_name(code).to_owned()))?;
        rmp_serde::from_slice(&plain).map_err(|e| damaged(e.to_string()))
    }
}

/// The most frequent names.
fn most(names: BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let mut names: Vec<(String, u64)> = names.into_iter().collect();
    names.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    names.truncate(NAMES_SHIPPED_MAX);
    names
}

/// Messages in spans of minutes, in order of time, class and disposition.
pub(super) async fn volume(
    session: &Session,
    (since_ms, until_ms): (i64, i64),
    span_minutes: u32,
) -> Result<Vec<Bucket>, ArrayError> {
    let minute = |ms: i64| i32::try_from(ms.div_euclid(60_000)).unwrap_or(i32::MAX);
    let (since, until) = (minute(since_ms), minute(until_ms));
    let span = i32::try_from(span_minutes.max(1)).unwrap_or(i32::MAX);
    let asked = session
        .rows(
            DOING,
            "SELECT minute / $3 * $3 AS start, class, action, sum(messages)::bigint, \
         sum(bytes)::bigint FROM log_count WHERE minute >= $1 AND minute < $2 \
         GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
            &[&since, &until, &span],
        )
        .await?;
    let rows = asked;
    let bucket = |row: &tokio_postgres::Row| Bucket {
        start_ms: i64::from(row.get::<_, i32>(0)) * 60_000,
        class: row.get::<_, &str>(1).parse().unwrap_or(Class::Unscannable),
        action: row.get(2),
        messages: row.get::<_, i64>(3).cast_unsigned(),
        bytes: row.get::<_, i64>(4).cast_unsigned(),
    };
    Ok(rows.iter().map(bucket).collect())
}

pub(super) async fn counts(
    session: &Session,
    range: (i64, i64),
    span_minutes: u32,
) -> Result<Counts, ArrayError> {
    let buckets = volume(session, range, span_minutes).await?;
    let days = days(session, range).await?;
    let top = |kind: TopKind| {
        let names = most(sums(&days, kind)).into_iter().take(TOP_MAX);
        names.map(|(name, messages)| Top { name, messages }).collect()
    };
    Ok(Counts { buckets, top_rules: top(TopKind::Rule), top_senders: top(TopKind::Sender) })
}

pub(super) async fn tops(
    session: &Session,
    kind: TopKind,
    range: (i64, i64),
) -> Result<BTreeMap<String, u64>, ArrayError> {
    Ok(sums(&days(session, range).await?, kind))
}

pub(super) async fn feedback(
    session: &Session,
    range: (i64, i64),
) -> Result<Vec<Feedback>, ArrayError> {
    let mut sums: BTreeMap<(String, Class), u64> = BTreeMap::new();
    for day in days(session, range).await? {
        for (kind, class, messages) in day.feedback {
            let class = class.parse().unwrap_or(Class::Unscannable);
            *sums.entry((kind, class)).or_default() += messages;
        }
    }
    let feedback =
        sums.into_iter().map(|((kind, class), messages)| Feedback { kind, class, messages });
    Ok(feedback.collect())
}

fn sums(days: &[DayCounts], kind: TopKind) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, messages) in days.iter().filter_map(|day| day.names.get(kind.name())).flatten() {
        *sums.entry(name.clone()).or_default() += messages;
    }
    sums
}

/// The counts of all nodes of the whole days that a range touches.
async fn days(session: &Session, range: (i64, i64)) -> Result<Vec<DayCounts>, ArrayError> {
    let day = |ms: i64| i32::try_from(ms.div_euclid(DAY_MS)).unwrap_or(i32::MAX);
    let (first, last) = (day(range.0), day(range.1.saturating_sub(1)));
    let sql = "SELECT counts FROM log_day WHERE day >= $1 AND day <= $2";
    let rows = session.rows(DOING, sql, &[&first, &last]).await?;
    rows.iter().map(|row| DayCounts::read(row.get(0))).collect()
}
