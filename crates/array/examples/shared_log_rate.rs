//! Benchmark of an array's message log: fills one with generated messages, then searches it.
//!
//! `cargo run --release -p gauntlet-array --example shared_log_rate -- URI [MESSAGES [DAYS [NODES
//! [BATCH [THREADS [MADE]]]]]]`
//!
//! The messages are those of the example `log_rate` of `store`, which measures a node's own log:
//! so the two can be compared. They are dealt out to the nodes, and sent in batches of BATCH
//! messages a node (320 is what 64 messages/s give in five seconds); THREADS share the days, each
//! with a connection of its own. MADE days are generated, and the others copied from them with
//! other times. Prints bytes for each message on the wire and on the server's disk, then the time
//! to the first page of each search.
//! A database that has the messages already is only searched; days that an earlier run did not come
//! to are copied.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gauntlet_array::nodes::{self, Identity};
use gauntlet_array::pack::Layout;
use gauntlet_array::{
    Database, DatabaseAddress, DatabaseOptions, DatabaseTls, Session, SharedLog, pack, schema,
    shipping,
};
use gauntlet_store::Query;
use gauntlet_store::log::{Bucket, Cursor, LoggedMessage, MessageLog};
use gauntlet_store::record::LogRecord;
use gauntlet_verdict::Class;
use messages::{START_MS, record, searches};
use tokio_rustls::rustls;

#[path = "generated/copies.rs"]
mod copies;
#[path = "../../store/examples/generated/messages.rs"]
mod messages;

/// Times each search is repeated.
const REPEATS: usize = 5;
const DAY_MS: u64 = 86_400_000;

struct Plan {
    messages: u64,
    days: u64,
    nodes: u64,
    batch: usize,
    threads: u64,
    /// Days that are generated.
    made: u64,
}

impl Plan {
    /// Days that others are copied from have records after records.
    fn layout(&self) -> Layout {
        if self.made < self.days { Layout::Records } else { Layout::Columns }
    }

    /// Messages that are generated.
    fn generated(&self) -> u64 {
        self.messages * self.made / self.days
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let uri = args
        .next()
        .ok_or("usage: shared_log_rate URI [MESSAGES [DAYS [NODES [BATCH [THREADS [MADE]]]]]]")?;
    let mut number = |default: u64| args.next().map_or(Ok(default), |n| n.parse::<u64>());
    let (messages, days) = (number(100_000)?, number(1)?);
    let (nodes, batch) = (number(4)?, number(320)? as usize);
    let threads = number(1)?.clamp(1, 64);
    let made = number(days)?.clamp(1, days);
    let plan = Plan { messages, days, nodes, batch, threads, made };
    let runtime = tokio::runtime::Runtime::new()?;
    let database = database(&uri)?;
    let mut out = std::io::stdout();
    runtime.block_on(async {
        let session = schema::session(&database).await?;
        let count = "SELECT coalesce(sum(messages), 0)::bigint FROM log_pack";
        let row = session.row("counting", count, &[]).await?;
        let there: i64 = row.map_or(0, |row| row.get(0));
        if there == 0 {
            fill((&database, &session), &plan, &mut out).await?;
        }
        if there == 0 || (plan.generated()..plan.messages).contains(&(there as u64)) {
            copy(&database, &session, &plan, &mut out).await?;
        }
        sizes(&session, plan.messages, &mut out).await
    })?;
    let log = Arc::new(SharedLog::new(database, runtime.handle().clone()));
    search(&*log, &plan, &mut out)
}

fn database(uri: &str) -> Result<Database, Box<dyn std::error::Error>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let tls = DatabaseTls { any: Arc::new(config), verified: None };
    Ok(Database::new(DatabaseAddress::parse(uri)?, tls, DatabaseOptions::default()))
}

type Failure = Box<dyn std::error::Error>;

async fn fill(
    (database, session): (&Database, &Session),
    plan: &Plan,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut ids = Vec::new();
    for n in 0..plan.nodes {
        let (name, group) = (format!("mx{n}"), String::new());
        let own = Identity { identity: format!("{n:032x}"), name, group };
        ids.push(nodes::register(session, &own).await?);
    }
    let start = Instant::now();
    let next_day = AtomicU64::new(0);
    let made = std::thread::scope(|scope| {
        let fill = || -> Result<Made, String> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let days = fill_days(database, plan, &ids, &next_day);
            runtime.map_err(|e| e.to_string())?.block_on(days).map_err(|e| e.to_string())
        };
        let threads: Vec<_> = (0..plan.threads).map(|_| scope.spawn(fill)).collect();
        let mut all = Made::default();
        for thread in threads {
            all.add(&thread.join().map_err(|_| "a thread panicked".to_owned())??);
        }
        Ok::<Made, String>(all)
    })?;
    let Made { packing, bytes, terms, packs } = made;
    let generated = plan.generated();
    let each = |n: u64| n as f64 / generated as f64;
    writeln!(
        out,
        "{} messages in {:.1?}: packing {:.1} µs each; bodies {:.1} bytes, terms {:.2} ({:.1} \
         bytes) a message; {:.1} messages a pack",
        generated,
        start.elapsed(),
        packing.as_secs_f64() * 1e6 / generated as f64,
        each(bytes),
        each(terms),
        each(terms) * 4.0,
        1.0 / each(packs)
    )?;
    Ok(())
}

/// Copies days from those that were generated.
async fn copy(
    database: &Database,
    session: &Session,
    plan: &Plan,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let start = Instant::now();
    if plan.made < plan.days {
        copies::drop_index(session).await?;
        let next_day = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let copy = || copy_days(database, plan, &next_day).map_err(|error| error.to_string());
            let threads: Vec<_> = (0..plan.threads).map(|_| scope.spawn(copy)).collect();
            for thread in threads {
                thread.join().map_err(|_| "a thread panicked".to_owned())??;
            }
            Ok::<(), String>(())
        })?;
        copies::make_index(session).await?;
        writeln!(out, "{} days copied in {:.1?}", plan.days - plan.made, start.elapsed())?;
    }
    let vacuum = "SET statement_timeout = 0; VACUUM ANALYZE log_pack; VACUUM ANALYZE log_count";
    for statement in vacuum.split("; ") {
        session.client().batch_execute(statement).await?;
    }
    Ok(())
}

/// Copies days until there is none left, on a connection of its own.
fn copy_days(database: &Database, plan: &Plan, next_day: &AtomicU64) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let first = START_MS / DAY_MS as i64;
    runtime.block_on(async {
        let session = schema::session(database).await?;
        loop {
            let day = next_day.fetch_add(1, Ordering::Relaxed);
            if day >= plan.days {
                return Ok(());
            }
            let to = first + day as i64;
            let from = first + (day % plan.made) as i64;
            if day >= plan.made && !copies::is_there(&session, from, to).await? {
                shipping::ship_day(&session, 0, to, &[], &[]).await?;
                copies::copy_day(&session, from, to).await?;
            }
            copies::index_day(&session, to).await?;
        }
    })
}

/// What a thread packed.
#[derive(Default)]
struct Made {
    packing: Duration,
    bytes: u64,
    terms: u64,
    packs: u64,
}

impl Made {
    fn add(&mut self, other: &Made) {
        self.packing += other.packing;
        self.bytes += other.bytes;
        self.terms += other.terms;
        self.packs += other.packs;
    }
}

/// Fills days until there is none left.
async fn fill_days(
    database: &Database,
    plan: &Plan,
    nodes: &[i16],
    next_day: &AtomicU64,
) -> Result<Made, Failure> {
    let session = schema::session(database).await?;
    let mut made = Made::default();
    loop {
        let day = next_day.fetch_add(1, Ordering::Relaxed);
        if day >= plan.made {
            return Ok(made);
        }
        made.add(&fill_day(&session, plan, nodes, day).await?);
    }
}

/// Counts by minute, class and disposition.
type Counts = BTreeMap<(i64, Class, String), Bucket>;

fn count(counts: &mut Counts, record: &LogRecord) {
    let start_ms = record.received_ms.div_euclid(60_000) * 60_000;
    let class = record.verdict.class;
    let action = record.dispositions.first().map_or("", |d| d.end.name()).to_owned();
    let empty = || Bucket { start_ms, class, action: action.clone(), messages: 0, bytes: 0 };
    let bucket = counts.entry((start_ms, class, action.clone())).or_insert_with(empty);
    bucket.messages += 1;
    bucket.bytes += record.size;
}

async fn fill_day(
    session: &Session,
    plan: &Plan,
    nodes: &[i16],
    day: u64,
) -> Result<Made, Failure> {
    let step_ms = plan.days as f64 * DAY_MS as f64 / plan.messages as f64;
    let mut made = Made::default();
    let mut waiting: Vec<Vec<LoggedMessage>> = vec![Vec::new(); nodes.len()];
    let mut counts: Vec<Counts> = vec![Counts::new(); nodes.len()];
    let first = (day as f64 * DAY_MS as f64 / step_ms).ceil() as u64;
    let end = ((day + 1) as f64 * DAY_MS as f64 / step_ms).ceil() as u64;
    let end = end.min(plan.messages);
    for n in first..end {
        let at_ms = START_MS + (n as f64 * step_ms) as i64;
        let cursor = Cursor(at_ms * 4096 + (n % 4096) as i64);
        let (record, node) = (record(n, at_ms), String::new());
        let to = (n % plan.nodes) as usize;
        count(&mut counts[to], &record);
        waiting[to].push(LoggedMessage { cursor, record, events: Vec::new(), node });
        for (node, waiting) in nodes.iter().zip(&mut waiting) {
            let is_due = waiting.len() >= plan.batch || n + 1 == end;
            if !is_due || waiting.is_empty() {
                continue;
            }
            let began = Instant::now();
            let packs = pack::pack(&std::mem::take(waiting), plan.layout(), pack::Effort::Tight)?;
            made.packing += began.elapsed();
            made.bytes += packs.iter().map(|p| p.body.len() as u64).sum::<u64>();
            made.terms += packs.iter().map(|p| p.terms.len() as u64).sum::<u64>();
            made.packs += packs.len() as u64;
            shipping::ship_day(session, *node, at_ms / DAY_MS as i64, &packs, &[]).await?;
        }
    }
    let day = START_MS / DAY_MS as i64 + day as i64;
    for (node, counts) in nodes.iter().zip(counts) {
        let counts: Vec<Bucket> = counts.into_values().collect();
        shipping::ship_day(session, *node, day, &[], &counts).await?;
    }
    Ok(made)
}

/// What the server keeps.
async fn sizes(session: &Session, messages: u64, out: &mut impl Write) -> Result<(), Failure> {
    let sql = "SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint, \
               coalesce(sum(pg_indexes_size(inhrelid)), 0)::bigint, \
               (pg_current_wal_lsn() - '0/0')::bigint FROM pg_inherits \
               WHERE inhparent = 'gauntlet.log_pack'::regclass";
    let Some(row) = session.row("sizes", sql, &[]).await? else { return Ok(()) };
    let each = |bytes: i64| bytes as f64 / messages as f64;
    let (whole, indexes, wal): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    writeln!(
        out,
        "on the server {:.1} bytes a message, {:.1} of them indexes; write-ahead log {:.1}",
        each(whole),
        each(indexes),
        each(wal)
    )?;
    Ok(())
}

fn search(log: &dyn MessageLog, plan: &Plan, out: &mut impl Write) -> Result<(), Failure> {
    let mut all: Vec<Duration> = Vec::new();
    // What is copied has the ids of what was generated.
    for (name, query) in searches(plan.generated(), plan.made) {
        let mut times = Vec::new();
        let mut found = 0;
        for _ in 0..REPEATS {
            let start = Instant::now();
            found = log.search(&query)?.messages.len();
            times.push(start.elapsed());
        }
        times.sort();
        let (median, most) = (times[REPEATS / 2], times[REPEATS - 1]);
        writeln!(out, "{name:<44} {found:>3} found  median {median:>10.1?}  most {most:>10.1?}")?;
        all.extend(times);
    }
    let mut query = Query { classes: vec![Class::Spam], ..Query::default() };
    for _ in 0..20 {
        let start = Instant::now();
        query.after = log.search(&query)?.next;
        all.push(start.elapsed());
    }
    let start = Instant::now();
    let end = START_MS + (plan.days * DAY_MS) as i64;
    let buckets = log.counts(START_MS, end, 60)?.buckets.len();
    writeln!(out, "counts of all days, {buckets} buckets: {:.1?}", start.elapsed())?;
    all.sort();
    let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize];
    writeln!(out, "pages: median {:.1?}, 95 % {:.1?}, most {:.1?}", at(0.5), at(0.95), at(1.0))?;
    Ok(())
}
