//! Benchmark of an array's message log: fills one with generated messages, then searches it.
//!
//! `cargo run --release -p gauntlet-array --example shared_log_rate -- URI [MESSAGES [DAYS [NODES
//! [BATCH]]]]`
//!
//! The messages are those of the example `log_rate` of `store`, which measures a node's own log:
//! so the two can be compared. They are dealt out to the nodes, and sent in batches of BATCH
//! messages a node (320 is what 64 messages/s give in five seconds). Prints bytes for each
//! message on the wire and on the server's disk, then the time to the first page of each search.
//! A database that has the messages already is only searched.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gauntlet_array::nodes::{self, Identity};
use gauntlet_array::shipping::ship_day;
use gauntlet_array::{
    Database, DatabaseAddress, DatabaseOptions, DatabaseTls, Session, SharedLog, pack, schema,
};
use gauntlet_store::Query;
use gauntlet_store::log::{Cursor, LoggedMessage, MessageLog};
use gauntlet_verdict::Class;
use messages::{START_MS, record, searches};
use tokio_rustls::rustls;

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
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let uri = args.next().ok_or("usage: shared_log_rate URI [MESSAGES [DAYS [NODES [BATCH]]]]")?;
    let mut number = |default: u64| args.next().map_or(Ok(default), |n| n.parse::<u64>());
    let (messages, days) = (number(100_000)?, number(1)?);
    let (nodes, batch) = (number(4)?, number(320)? as usize);
    let plan = Plan { messages, days, nodes, batch };
    let runtime = tokio::runtime::Runtime::new()?;
    let database = database(&uri)?;
    let mut out = std::io::stdout();
    runtime.block_on(async {
        let session = schema::session(&database).await?;
        let count = "SELECT coalesce(sum(messages), 0)::bigint FROM log_pack";
        let row = session.row("counting", count, &[]).await?;
        let there: i64 = row.map_or(0, |row| row.get(0));
        if there == 0 {
            fill(&session, &plan, &mut out).await?;
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

async fn fill(session: &Session, plan: &Plan, out: &mut impl Write) -> Result<(), Failure> {
    let mut ids = Vec::new();
    for n in 0..plan.nodes {
        let (name, group) = (format!("mx{n}"), String::new());
        let own = Identity { identity: format!("{n:032x}"), name, group };
        ids.push(nodes::register(session, &own).await?);
    }
    let step_ms = plan.days as f64 * DAY_MS as f64 / plan.messages as f64;
    let (start, mut packing) = (Instant::now(), Duration::ZERO);
    let (mut bytes, mut terms, mut packs) = (0_u64, 0_u64, 0_u64);
    let mut waiting: Vec<Vec<LoggedMessage>> = vec![Vec::new(); ids.len()];
    for n in 0..plan.messages {
        let at_ms = START_MS + (n as f64 * step_ms) as i64;
        let cursor = Cursor(at_ms * 4096 + (n % 4096) as i64);
        let message = LoggedMessage {
            cursor,
            record: record(n, at_ms),
            events: Vec::new(),
            node: String::new(),
        };
        let to = (n % plan.nodes) as usize;
        let last_of_day = (at_ms + step_ms as i64) / DAY_MS as i64 > at_ms / DAY_MS as i64;
        waiting[to].push(message);
        for (node, waiting) in ids.iter().zip(&mut waiting) {
            let is_due = waiting.len() >= plan.batch || last_of_day || n + 1 == plan.messages;
            if !is_due || waiting.is_empty() {
                continue;
            }
            let began = Instant::now();
            let made = pack::pack(&std::mem::take(waiting), pack::Effort::Tight)?;
            packing += began.elapsed();
            bytes += made.iter().map(|p| p.body.len() as u64).sum::<u64>();
            terms += made.iter().map(|p| p.terms.len() as u64).sum::<u64>();
            packs += made.len() as u64;
            ship_day(session, *node, at_ms / DAY_MS as i64, &made, &[]).await?;
        }
    }
    let each = |n: u64| n as f64 / plan.messages as f64;
    writeln!(
        out,
        "{} messages in {:.1?}: packing {:.1} µs each; bodies {:.1} bytes, terms {:.2} ({:.1} \
         bytes) a message; {:.1} messages a pack",
        plan.messages,
        start.elapsed(),
        packing.as_secs_f64() * 1e6 / plan.messages as f64,
        each(bytes),
        each(terms),
        each(terms) * 4.0,
        1.0 / each(packs)
    )?;
    session.client().batch_execute("VACUUM ANALYZE log_pack").await?;
    Ok(())
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
    for (name, query) in searches(plan.messages, plan.days) {
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
