//! Shipping what a node logged into the array's database.
//!
//! What waits is on the node's disk (`store::log`, its feed), so nothing here needs to be
//! durable: a batch is read, sent in one transaction, and forgotten locally when the server has
//! committed it. A crash between the two sends it again, under a later pack number, which readers
//! take instead of the first. The database away, slow or full: batches wait on disk, mail does
//! not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gauntlet_mail::date::{DAY_MS, day_name};
use gauntlet_store::Log;
use gauntlet_store::log::{Bucket, Changes, LoggedMessage};

use crate::database::Session;
use crate::error::ArrayError;
use crate::pack::{self, Layout, Pack};
use crate::schema::TABLES_LOCK;
use crate::value::Value;

/// Most changes read at once.
pub const CHANGES_MAX: usize = 4096;

/// What a step shipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shipped {
    /// Messages sent, a changed one again.
    pub messages: u64,
    /// Rows of the log that they became.
    pub packs: u64,
    /// Bytes of those rows.
    pub bytes: u64,
    /// The step took as much as it may: more is probably waiting.
    pub is_full: bool,
}

/// Ships the log of one node.
#[derive(Debug)]
pub struct Shipper {
    log: Arc<Log>,
    node: i16,
    /// Days that are known to note their changes.
    fed: BTreeSet<i64>,
    /// Days whose table is there.
    tables: BTreeSet<i64>,
    layout: Layout,
}

/// A batch that was read and packed.
struct Batch {
    changes: Changes,
    packs: Vec<Pack>,
    messages: usize,
    counts: Vec<Bucket>,
}

impl Shipper {
    /// Ships this log as the node of this number.
    pub fn new(log: Arc<Log>, node: i16) -> Self {
        Shipper {
            log,
            node,
            fed: BTreeSet::new(),
            tables: BTreeSet::new(),
            layout: Layout::default(),
        }
    }

    /// From now on packs are made so.
    pub fn lay_out(&mut self, layout: Layout) {
        self.layout = layout;
    }

    /// Days of the log that were not looked at yet: what they have to ship is in no
    /// [`Log::backlog`].
    pub fn days_ahead(&self) -> u64 {
        self.log.days().iter().filter(|day| !self.fed.contains(day)).count() as u64
    }

    /// Ships the oldest changes that wait; none if nothing does.
    ///
    /// # Errors
    /// If the log cannot be read or the database does not take it: everything waits on.
    pub async fn step(&mut self, session: &Session) -> Result<Option<Shipped>, ArrayError> {
        let (log, mut fed, layout) = (self.log.clone(), std::mem::take(&mut self.fed), self.layout);
        let read = tokio::task::spawn_blocking(move || {
            let batch = next_batch(&log, &mut fed, layout);
            (batch, fed)
        });
        let (batch, fed) = read.await.map_err(|error| ArrayError::Damaged {
            what: "the batch for the array".to_owned(),
            cause: error.to_string(),
        })?;
        self.fed = fed;
        let Some(batch) = batch? else { return Ok(None) };
        let day = batch.changes.day;
        if self.tables.insert(day)
            && let Err(error) = make_day(session, day).await
        {
            self.tables.remove(&day);
            return Err(error);
        }
        send(session, self.node, day, (&batch.packs, &batch.counts)).await?;
        let shipped = Shipped {
            messages: batch.messages as u64,
            packs: batch.packs.len() as u64,
            bytes: batch.packs.iter().map(|p| p.body.len() as u64 + 4 * p.terms.len() as u64).sum(),
            is_full: batch.changes.count >= CHANGES_MAX,
        };
        let log = self.log.clone();
        let forgotten = tokio::task::spawn_blocking(move || log.shipped(&batch.changes)).await;
        if let Ok(Err(error)) = forgotten {
            tracing::warn!(%error, "what was shipped to the array is shipped again");
        }
        Ok(Some(shipped))
    }
}

/// Reads and packs the oldest changes that wait.
fn next_batch(
    log: &Log,
    fed: &mut BTreeSet<i64>,
    layout: Layout,
) -> Result<Option<Batch>, ArrayError> {
    let days = log.days();
    fed.retain(|day| days.contains(day));
    for &day in days.iter().rev() {
        if fed.insert(day) {
            let waiting = log.begin_feed(day)?;
            if waiting > CHANGES_MAX as u64 {
                tracing::info!(
                    day = day_name(day),
                    waiting,
                    "a day of the log waits for the array"
                );
            }
        }
        let Some(changes) = log.unshipped(day, CHANGES_MAX)? else { continue };
        let messages = log.changed(&changes)?;
        let counts = counts_of(log, &messages)?;
        // A shipper that is behind has no time to press harder; where little came since the last
        // shipment, there is CPU time to spare.
        let effort = match changes.count {
            CHANGES_MAX.. => pack::Effort::Fast,
            0..=pack::MESSAGES_MAX => pack::Effort::Tightest,
            _ => pack::Effort::Tight,
        };
        let packs = pack::pack(&messages, layout, effort)?;
        return Ok(Some(Batch { messages: messages.len(), changes, packs, counts }));
    }
    Ok(None)
}

/// The node's counts of the minutes in which these messages were received, whole: sent again and
/// again they replace what was there, so they count nothing twice.
fn counts_of(log: &Log, messages: &[LoggedMessage]) -> Result<Vec<Bucket>, ArrayError> {
    let minutes = messages.iter().map(|m| m.record.received_ms.div_euclid(60_000));
    let minutes: BTreeSet<i64> = minutes.collect();
    let (Some(first), Some(last)) = (minutes.first(), minutes.last()) else {
        return Ok(Vec::new());
    };
    let mut counts = log.volume(first * 60_000, (last + 1) * 60_000, 1)?;
    counts.retain(|bucket| minutes.contains(&bucket.start_ms.div_euclid(60_000)));
    Ok(counts)
}

/// Makes the table of a day if it is not there.
async fn make_day(session: &Session, day: i64) -> Result<(), ArrayError> {
    let name = day_name(day).replace('-', "_");
    // Two nodes that make one at the same time would both fail without the lock.
    let sql = format!(
        "SELECT pg_advisory_xact_lock({TABLES_LOCK}); \
         CREATE TABLE IF NOT EXISTS log_pack_{name} PARTITION OF log_pack \
         FOR VALUES FROM ({day}) TO ({})",
        day + 1
    );
    session.batch("making the table of a day of the log", &sql).await
}

/// Ships packs of one day, and counts of minutes, as one transaction.
///
/// # Errors
/// If the database does not take it: then it has none of them.
pub async fn ship_day(
    session: &Session,
    node: i16,
    day: i64,
    packs: &[Pack],
    counts: &[Bucket],
) -> Result<(), ArrayError> {
    make_day(session, day).await?;
    send(session, node, day, (packs, counts)).await
}

async fn send(
    session: &Session,
    node: i16,
    day: i64,
    (packs, counts): (&[Pack], &[Bucket]),
) -> Result<(), ArrayError> {
    let day = i32::try_from(day).unwrap_or(i32::MAX);
    let of = |number: fn(&Pack) -> i64| packs.iter().map(number).collect::<Vec<i64>>();
    let (firsts, lasts) = (of(|pack| pack.first), of(|pack| pack.last));
    let messages = packs.iter().map(|pack| i16::try_from(pack.messages).unwrap_or(i16::MAX));
    let messages: Vec<i16> = messages.collect();
    let (unpacking, terms) = packed_terms(packs);
    let bodies: Vec<&[u8]> = packs.iter().map(|pack| pack.body.as_slice()).collect();
    let columns = Columns::of(counts);
    // One statement: it is there as a whole or not at all, and its text travels each time.
    let sql = format!(
        "WITH c AS (INSERT INTO log_count SELECT m, $2, c, a, n, b FROM unnest($8::int[], \
         $9::text[], $10::text[], $11::bigint[], $12::bigint[]) AS t (m, c, a, n, b) \
         ON CONFLICT (minute, node, class, action) \
         DO UPDATE SET messages = excluded.messages, bytes = excluded.bytes) \
         INSERT INTO log_pack (day, node, first, last, messages, terms, body) \
         SELECT $1, $2, f, l, m, {unpacking}(t), b FROM unnest($3::bigint[], $4::bigint[], \
         $5::smallint[], $6::bytea[], $7::bytea[]) AS p (f, l, m, t, b)"
    );
    let values: [Value<'_>; 12] = [
        &day,
        &node,
        &firsts,
        &lasts,
        &messages,
        &terms,
        &bodies,
        &columns.minutes,
        &columns.classes,
        &columns.actions,
        &columns.messages,
        &columns.bytes,
    ];
    session.execute("shipping the log to the array", &sql, &values).await.map(drop)
}

/// Terms as bytes, and the server's function that makes an array of them: as an array of integers
/// they would have as many bytes again for the lengths of its elements.
fn packed_terms(packs: &[Pack]) -> (&'static str, Vec<Vec<u8>>) {
    // Where a node may be that does not know this function, tables may be without it.
    let by_byte = |pack: &Pack| (pack.layout() == Layout::Columns).then(|| by_byte(&pack.terms))?;
    let by_byte: Option<Vec<Vec<u8>>> = packs.iter().map(by_byte).collect();
    let whole = |pack: &Pack| pack.terms.iter().flat_map(|term| term.to_be_bytes()).collect();
    match by_byte {
        Some(terms) => ("pack_terms_by_byte", terms),
        None => ("pack_terms", packs.iter().map(whole).collect()),
    }
}

/// Ascending terms, three bytes each, behind the numbers of those that begin with each byte; none
/// if such a number is no byte.
fn by_byte(terms: &[i32]) -> Option<Vec<u8>> {
    const VALUES: usize = 256;
    let mut out = vec![0_u8; VALUES];
    out.reserve(3 * terms.len());
    for term in terms {
        let [first, rest @ ..] = term.to_be_bytes();
        // By sign, as they are sorted.
        let number = out.get_mut(usize::from(first ^ 0x80))?;
        *number = number.checked_add(1)?;
        out.extend_from_slice(&rest);
    }
    Some(out)
}

/// Counts, a list for each column.
#[derive(Default)]
struct Columns {
    minutes: Vec<i32>,
    classes: Vec<&'static str>,
    actions: Vec<String>,
    messages: Vec<i64>,
    bytes: Vec<i64>,
}

impl Columns {
    fn of(counts: &[Bucket]) -> Self {
        let mut columns = Columns::default();
        // A statement must not meet a row twice.
        let mut sums: BTreeMap<(i32, &'static str, &str), (i64, i64)> = BTreeMap::new();
        for bucket in counts {
            let minute = i32::try_from(bucket.start_ms.div_euclid(60_000)).unwrap_or(i32::MAX);
            let sum = sums.entry((minute, bucket.class.name(), &bucket.action)).or_default();
            sum.0 += bucket.messages.cast_signed();
            sum.1 += bucket.bytes.cast_signed();
        }
        for ((minute, class, action), (messages, bytes)) in sums {
            columns.minutes.push(minute);
            columns.classes.push(class);
            columns.actions.push(action.to_owned());
            columns.messages.push(messages);
            columns.bytes.push(bytes);
        }
        columns
    }
}

/// Drops the days of the shared log that ended more than `days_kept` days before `now_ms`, each as
/// a table. Returns how many.
///
/// # Errors
/// If a statement fails.
pub async fn drop_days(
    session: &Session,
    now_ms: i64,
    days_kept: u32,
) -> Result<usize, ArrayError> {
    const DOING: &str = "dropping old days of the array's log";
    let first_kept = now_ms.div_euclid(DAY_MS) - i64::from(days_kept);
    let asked = session
        .rows(
            DOING,
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
         WHERE i.inhparent = 'gauntlet.log_pack'::regclass ORDER BY 1",
            &[],
        )
        .await?;
    let tables = asked;
    let first_name = format!("log_pack_{}", day_name(first_kept).replace('-', "_"));
    let mut dropped = 0;
    for row in tables {
        let name: String = row.get(0);
        if name < first_name && name.starts_with("log_pack_") {
            let sql = format!("DROP TABLE IF EXISTS gauntlet.{name}");
            session.within(DOING, session.client().batch_execute(&sql)).await?;
            dropped += 1;
        }
    }
    if dropped > 0 {
        let day = i32::try_from(first_kept).unwrap_or(i32::MIN);
        let minute = day.saturating_mul(1440);
        session.execute(DOING, "DELETE FROM log_count WHERE minute < $1", &[&minute]).await?;
        session.execute(DOING, "DELETE FROM log_day WHERE day < $1", &[&day]).await?;
    }
    Ok(dropped)
}
