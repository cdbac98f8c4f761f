//! Counts of days of the shared log by name: sums over the nodes of what each counted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use gauntlet_mail::date::DAY_MS;
use gauntlet_store::Log;
use gauntlet_store::log::{Feedback, Top, TopKind};
use gauntlet_verdict::Class;
use serde::{Deserialize, Serialize};

use crate::database::Session;
use crate::error::ArrayError;
use crate::value::Value;

/// Names that a node ships of a day and kind; the most frequent ones.
const NAMES_SHIPPED_MAX: usize = 1_000;
/// Most names in a top list of a page.
const TOP_MAX: usize = 20;
/// Most bytes that the counts of a day may unfold to.
const COUNTS_BYTES_MAX: usize = 16 << 20;
/// Names kept unfolded, at most: some ten megabytes.
const KEPT_NAMES_MAX: usize = 200_000;
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

    /// Those of several nodes together.
    fn sum(nodes: Vec<DayCounts>) -> Self {
        let mut names: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        let mut feedback = Vec::new();
        for node in nodes {
            for (kind, counted) in node.names {
                let sums = names.entry(kind).or_default();
                for (name, messages) in counted {
                    *sums.entry(name).or_default() += messages;
                }
            }
            feedback.extend(node.feedback);
        }
        let names = names.into_iter().map(|(kind, sums)| (kind, sums.into_iter().collect()));
        DayCounts { names: names.collect(), feedback }
    }

    /// Number of names.
    fn len(&self) -> usize {
        self.names.values().map(Vec::len).sum::<usize>() + self.feedback.len()
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

/// Nodes, each with the transaction that wrote its row: another one with every update.
type Version = Vec<(i16, String)>;

/// Counts of days, unfolded and summed over the nodes. A report asks for those of all its days
/// eight times, and of most days they change no more.
#[derive(Debug, Default)]
pub(super) struct KeptCounts(Mutex<BTreeMap<i32, KeptDay>>);

#[derive(Debug)]
struct KeptDay {
    version: Version,
    counts: Arc<DayCounts>,
}

impl KeptCounts {
    /// Messages with each name of a kind, over the whole days that a range touches.
    pub(super) async fn tops(
        &self,
        session: &Session,
        kind: TopKind,
        range: (i64, i64),
    ) -> Result<BTreeMap<String, u64>, ArrayError> {
        Ok(sums(&self.days(session, range).await?, kind))
    }

    /// The most frequent rules, and sender domains.
    pub(super) async fn most_frequent(
        &self,
        session: &Session,
        range: (i64, i64),
    ) -> Result<(Vec<Top>, Vec<Top>), ArrayError> {
        let days = self.days(session, range).await?;
        let top = |kind: TopKind| {
            let names = most(sums(&days, kind)).into_iter().take(TOP_MAX);
            names.map(|(name, messages)| Top { name, messages }).collect()
        };
        Ok((top(TopKind::Rule), top(TopKind::Sender)))
    }

    /// Feedback of users over the whole days that a range touches.
    pub(super) async fn feedback(
        &self,
        session: &Session,
        range: (i64, i64),
    ) -> Result<Vec<Feedback>, ArrayError> {
        let mut sums: BTreeMap<(String, Class), u64> = BTreeMap::new();
        for day in self.days(session, range).await? {
            for (kind, class, messages) in &day.feedback {
                let class = class.parse().unwrap_or(Class::Unscannable);
                *sums.entry((kind.clone(), class)).or_default() += messages;
            }
        }
        let feedback =
            sums.into_iter().map(|((kind, class), messages)| Feedback { kind, class, messages });
        Ok(feedback.collect())
    }

    /// The counts of the whole days that a range touches.
    async fn days(
        &self,
        session: &Session,
        range: (i64, i64),
    ) -> Result<Vec<Arc<DayCounts>>, ArrayError> {
        let day = |ms: i64| i32::try_from(ms.div_euclid(DAY_MS)).unwrap_or(i32::MAX);
        let (first, last) = (day(range.0), day(range.1.saturating_sub(1)));
        let sql = "SELECT day, node, xmin::text FROM log_day WHERE day >= $1 AND day <= $2 \
                   ORDER BY day, node";
        let values: [Value<'_>; 2] = [&first, &last];
        let mut versions: BTreeMap<i32, Version> = BTreeMap::new();
        for row in session.rows(DOING, sql, &values).await? {
            versions.entry(row.get(0)).or_default().push((row.get(1), row.get(2)));
        }
        let (mut days, mut changed) = (Vec::new(), Vec::new());
        {
            let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            for (day, version) in versions {
                match kept.get(&day).filter(|kept| kept.version == version) {
                    Some(kept) => days.push(kept.counts.clone()),
                    None => changed.push(day),
                }
            }
        }
        if !changed.is_empty() {
            days.extend(self.read(session, &changed).await?);
        }
        Ok(days)
    }

    /// Reads days, and keeps them in place of the oldest if there are too many.
    async fn read(
        &self,
        session: &Session,
        days: &Vec<i32>,
    ) -> Result<Vec<Arc<DayCounts>>, ArrayError> {
        let sql = "SELECT day, node, xmin::text, counts FROM log_day WHERE day = ANY ($1) \
                   ORDER BY day, node";
        let mut read: BTreeMap<i32, (Version, Vec<DayCounts>)> = BTreeMap::new();
        for row in session.rows(DOING, sql, &[days]).await? {
            let (version, counts) = read.entry(row.get(0)).or_default();
            version.push((row.get(1), row.get(2)));
            counts.push(DayCounts::read(row.get(3))?);
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = Vec::new();
        for (day, (version, counts)) in read {
            let counts = Arc::new(DayCounts::sum(counts));
            found.push(counts.clone());
            kept.insert(day, KeptDay { version, counts });
        }
        while kept.values().map(|day| day.counts.len()).sum::<usize>() > KEPT_NAMES_MAX {
            kept.pop_first();
        }
        Ok(found)
    }
}

fn sums(days: &[Arc<DayCounts>], kind: TopKind) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, messages) in days.iter().filter_map(|day| day.names.get(kind.name())).flatten() {
        match sums.get_mut(name) {
            Some(sum) => *sum += messages,
            None => _ = sums.insert(name.clone(), *messages),
        }
    }
    sums
}
