//! Benchmark of the message log: fills a log with generated messages, then searches it.
//!
//! `cargo run --release -p gauntlet-store --example log_rate -- FOLDER [MESSAGES [DAYS [retain |
//! fill=N]]]`
//!
//! Prints CPU time and bytes per message, then for each search by two fields the time to the first
//! page, and to the next 20. A folder that is not full yet is filled up, with `fill=N` by so many
//! days at a time. With `retain` it then deletes half of the days while it continues writing. The
//! messages are generated from a seed: senders, words and rules have the skewed frequencies of real
//! mail (Zipf), with envelope, facts, hits, evidence, costs and stages as a node writes them.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use gauntlet_store::{Log, LogOptions, Query};
use gauntlet_verdict::Class;

use messages::{START_MS, record, searches};

#[path = "generated/messages.rs"]
mod messages;

/// Messages appended at once.
const BATCH: u64 = 512;
/// Times each search is repeated.
const REPEATS: u32 = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("usage: log_rate FOLDER [MESSAGES [DAYS]]")?;
    let messages: u64 = args.next().map_or(Ok(100_000), |n| n.parse())?;
    let days: u64 = args.next().map_or(Ok(1), |n| n.parse())?;
    let folder = Path::new(&folder);
    let mut out = std::io::stdout();
    let option = args.next().unwrap_or_default();
    let at_once = option.strip_prefix("fill=").map_or(Ok(days), |n| n.parse())?;
    let known = days_of(folder);
    if known < days {
        let upto = days.min(known + at_once);
        fill(
            folder,
            (known * (messages / days), upto * (messages / days)),
            (messages, days),
            &mut out,
        )?;
        if upto < days {
            return Ok(());
        }
    }
    let start = Instant::now();
    let log = Log::open(folder)?;
    let opened = start.elapsed();
    log.warm();
    writeln!(out, "opened in {opened:.1?}, warm after {:.1?}", start.elapsed())?;
    let mut worst = Duration::ZERO;
    for (name, query) in searches(messages, days) {
        let mut times = Vec::new();
        let mut found = 0;
        for _ in 0..REPEATS {
            let start = Instant::now();
            found = log.search(&query)?.messages.len();
            times.push(start.elapsed());
        }
        times.sort();
        let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
        worst = worst.max(most);
        writeln!(out, "{name:<44} {found:>3} found  median {median:>10.1?}  most {most:>10.1?}")?;
    }
    let pages = Query { classes: vec![Class::Spam], ..Query::default() };
    writeln!(out, "slowest of 20 pages: {:.1?}", slowest_page(&log, pages)?)?;
    let start = Instant::now();
    let counts = log.counts(START_MS, START_MS + days as i64 * 86_400_000, 60)?;
    let took = start.elapsed();
    writeln!(out, "counts of all days, {} buckets: {took:.1?}", counts.buckets.len())?;
    writeln!(out, "slowest search: {worst:.1?}")?;
    if option == "retain" {
        forget_half(&log, messages, days, &mut out)?;
    }
    Ok(())
}

/// Reads page after page; returns the longest time of one.
fn slowest_page(log: &Log, mut query: Query) -> Result<Duration, gauntlet_store::StoreError> {
    let mut most = Duration::ZERO;
    for _ in 0..20 {
        let start = Instant::now();
        query.after = log.search(&query)?.next;
        most = most.max(start.elapsed());
    }
    Ok(most)
}

/// Deletes the older half of the days while another thread writes; prints how long both took.
fn forget_half(
    log: &Log,
    messages: u64,
    days: u64,
    out: &mut impl Write,
) -> Result<(), Box<dyn std::error::Error>> {
    let end = START_MS + days as i64 * 86_400_000;
    let append = |n: u64| {
        let start = Instant::now();
        log.append(vec![record(messages + n, end + n as i64)]).map(|_| start.elapsed())
    };
    let times = |from: u64| (from..from + 50).map(append).collect::<Result<Vec<_>, _>>();
    let most = |times: &[Duration]| times.iter().max().copied().unwrap_or_default();
    let before = times(0)?;
    let (forgot, during) = std::thread::scope(|scope| {
        let forgetting = scope.spawn(|| {
            let start = Instant::now();
            log.retain(end, (days / 2) as u32).map(|n| (n, start.elapsed()))
        });
        (forgetting.join(), times(50))
    });
    let (forgotten, took) = forgot.map_err(|_| "the thread failed")??;
    writeln!(
        out,
        "{forgotten} days forgotten in {took:.1?}; slowest append before {:.1?}, during {:.1?}",
        most(&before),
        most(&during?)
    )?;
    Ok(())
}

/// Days that have a file there.
fn days_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|e| e.path().extension().is_some_and(|e| e == "db")).count() as u64
}

/// Writes the messages from one number up to another, of so many in so many days.
fn fill(
    folder: &Path,
    (from, upto): (u64, u64),
    (messages, days): (u64, u64),
    out: &mut impl Write,
) -> Result<(), Box<dyn std::error::Error>> {
    let log = Log::open_with(folder, LogOptions::default())?;
    let step_ms = days as f64 * 86_400_000.0 / messages as f64;
    let (wall, all, own) = (Instant::now(), cpu(Clock::Process), cpu(Clock::Thread));
    let mut n = from;
    while n < upto {
        let end = (n + BATCH).min(upto);
        let batch = (n..end).map(|n| record(n, START_MS + (n as f64 * step_ms) as i64)).collect();
        log.append(batch)?;
        n = end;
    }
    drop(log);
    // This thread's time is that of generating messages; the rest is the log's.
    let cost = (cpu(Clock::Process) - all) - (cpu(Clock::Thread) - own);
    let bytes: u64 =
        std::fs::read_dir(folder)?.flatten().flat_map(|e| e.metadata()).map(|m| m.len()).sum();
    writeln!(
        out,
        "{} messages in {:.1?}: {:.1} µs CPU a message; {} bytes each of {upto}",
        upto - from,
        wall.elapsed(),
        cost.as_secs_f64() * 1e6 / (upto - from) as f64,
        bytes / upto
    )?;
    Ok(())
}

#[derive(Clone, Copy)]
enum Clock {
    Process,
    Thread,
}

/// CPU time used so far.
fn cpu(clock: Clock) -> Duration {
    let clock = match clock {
        Clock::Process => libc::CLOCK_PROCESS_CPUTIME_ID,
        Clock::Thread => libc::CLOCK_THREAD_CPUTIME_ID,
    };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to write to; both clocks always exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
