//! What the engine costs: messages are held in memory and scanned in a loop, parse included.
//!
//! Every thread takes the next message of the loop, so that threads share long and short messages
//! alike. The first pass over all messages is not counted: it fills caches and scratch buffers.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use gauntlet_engine::{Scratch, Snapshot, scan};
use gauntlet_inputs::source;
use gauntlet_mail::{Envelope, Facts, Message};
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::compare::peers::SpamdRules;
use crate::machine::Manifest;
use crate::spamd::{Spamd, SpamdReport};
use crate::usage;

/// Bytes of messages held in memory at most.
const WORKLOAD_BYTES_MAX: u64 = 8 << 30;
/// Longest scan that the histogram records, in nanoseconds (60 s).
const SCAN_NANOS_MAX: u64 = 60_000_000_000;

/// Messages to scan, in the order of their names.
#[derive(Debug)]
pub struct Workload {
    messages: Vec<Vec<u8>>,
    bytes: u64,
    hash: String,
    /// Files passed over because their names say that they are no mail.
    files_skipped: usize,
}

impl Workload {
    /// Reads every file below the folder, or one file. Hidden files are left out, and those
    /// that are no mail by their names ([`source::is_no_mail`]), which are counted.
    ///
    /// # Errors
    /// A file that cannot be read, no message at all, or more than 8 GiB of them.
    pub fn load(folder: &Path) -> anyhow::Result<Self> {
        let mut paths = Vec::new();
        collect(folder, &mut paths)?;
        let files = paths.len();
        paths.retain(|path| path == folder || !source::is_no_mail(path));
        let files_skipped = files - paths.len();
        paths.sort();
        let (mut messages, mut bytes, mut hash) = (Vec::new(), 0, blake3::Hasher::new());
        for path in &paths {
            let message = std::fs::read(path)
                .with_context(|| format!("cannot read the message {}", path.display()))?;
            bytes += message.len() as u64;
            if bytes > WORKLOAD_BYTES_MAX {
                bail!("{} holds more than {WORKLOAD_BYTES_MAX} bytes", folder.display());
            }
            hash.update(&(message.len() as u64).to_le_bytes());
            hash.update(&message);
            messages.push(message);
        }
        if messages.is_empty() {
            bail!(
                "there is no message in {}{}",
                folder.display(),
                source::passed_over(files_skipped as u64)
            );
        }
        let hash = hash.finalize().to_hex()[..16].to_owned();
        Ok(Workload { messages, bytes, hash, files_skipped })
    }
}

impl Workload {
    /// The messages in order.
    pub fn messages(&self) -> &[Vec<u8>] {
        &self.messages
    }
}

fn collect(path: &Path, paths: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let readable = || format!("cannot read {}", path.display());
    if !std::fs::metadata(path).with_context(readable)?.is_dir() {
        paths.push(path.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(path).with_context(readable)? {
        let entry = entry.with_context(readable)?;
        let name = entry.file_name();
        if !name.as_encoded_bytes().starts_with(b".") {
            collect(&entry.path(), paths)?;
        }
    }
    Ok(())
}

/// What the scans of a workload came to.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Messages scanned a second of wall time, all threads together.
    pub messages_per_second: f64,
    /// Megabytes (10^6) scanned a second.
    pub megabytes_per_second: f64,
    /// CPU time of the process for each message, in microseconds.
    pub cpu_us_per_message: f64,
    /// Median of parse and scan of one message, in microseconds of wall time.
    pub p50_us: f64,
    /// 99th percentile of the same.
    pub p99_us: f64,
    /// What each filter took of a message in the mean, in microseconds of wall time, in the order
    /// in which they run. What several filters look at is made by the first of them.
    pub filters: Vec<FilterTime>,
    /// Largest resident memory of the process, the workload included.
    pub peak_rss_bytes: u64,
    /// Messages scanned in the time measured.
    pub messages: u64,
    /// Seconds of wall time that were measured.
    pub seconds: f64,
    /// Threads that scanned at the same time.
    pub threads: usize,
    /// Different messages in the workload.
    pub workload_messages: usize,
    /// Bytes of these messages.
    pub workload_bytes: u64,
    /// Files of the workload's folder that were passed over: they are no mail by their names.
    pub files_skipped: usize,
    /// Names the workload: the first 64 bits of a hash over all its messages.
    pub workload_hash: String,
    /// Version of the ruleset.
    pub ruleset: String,
    /// The machine and the program.
    pub manifest: Manifest,
    /// What a spamd beside it cost, if one was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spamd: Option<SpamdReport>,
}

/// What one filter took.
#[derive(Debug, Clone, Serialize)]
pub struct FilterTime {
    /// Name of the filter.
    pub filter: String,
    /// Microseconds of wall time, the mean of all messages.
    pub us_per_message: f64,
}

/// Scans the workload for the time given, after one pass that is not counted.
pub fn run(
    workload: &Workload,
    snapshot: &Snapshot,
    threads: usize,
    time: Duration,
    version: &str,
) -> anyhow::Result<Report> {
    let runner =
        Runner { workload, snapshot, next: AtomicUsize::new(0), stop: AtomicBool::new(false) };
    let warm = workload.messages.len();
    runner.run_threads(threads, Some(warm), time)?;
    let cpu_before = usage::cpu_seconds();
    runner.next.store(0, Ordering::Relaxed);
    runner.stop.store(false, Ordering::Relaxed);
    let start = Instant::now();
    let times = runner.run_threads(threads, None, time)?;
    let seconds = start.elapsed().as_secs_f64();
    let cpu = usage::cpu_seconds() - cpu_before;
    let messages = times.histogram.len();
    let each = messages.max(1) as f64;
    let filter = |(filter, us): &(String, f64)| FilterTime {
        filter: filter.clone(),
        us_per_message: round(us / each),
    };
    Ok(Report {
        filters: times.filters.iter().map(filter).collect(),
        messages_per_second: round(messages as f64 / seconds),
        megabytes_per_second: round(times.bytes as f64 / 1e6 / seconds),
        cpu_us_per_message: round(cpu * 1e6 / each),
        p50_us: round(times.histogram.value_at_quantile(0.5) as f64 / 1e3),
        p99_us: round(times.histogram.value_at_quantile(0.99) as f64 / 1e3),
        peak_rss_bytes: usage::peak_rss_bytes(),
        messages,
        seconds: round(seconds),
        threads,
        workload_messages: workload.messages.len(),
        workload_bytes: workload.bytes,
        files_skipped: workload.files_skipped,
        workload_hash: workload.hash.clone(),
        ruleset: snapshot.version.to_string(),
        manifest: Manifest::here(version),
        spamd: None,
    })
}

/// The same, between two halves of the workload that a private spamd checks: both meet the machine
/// in the same state. Fails if spamd cannot be started or does not answer.
pub fn run_beside(
    workload: &Workload,
    snapshot: &Snapshot,
    threads: usize,
    time: Duration,
    version: &str,
    rules: &SpamdRules,
) -> anyhow::Result<Report> {
    let spamd = Spamd::start(rules)?;
    let messages = workload.messages();
    spamd.warm(messages)?;
    let first = spamd.check_half(messages, 0)?;
    let mut report = run(workload, snapshot, threads, time, version)?;
    let second = spamd.check_half(messages, 1)?;
    let count = first.0 + second.0;
    let cpu = (first.1 + second.1) * 1e6 / count.max(1) as f64;
    report.spamd = Some(SpamdReport {
        version: spamd.version().to_owned(),
        messages: count,
        cpu_us_per_message: round(cpu),
        times_the_engine: round(cpu / report.cpu_us_per_message),
    });
    Ok(report)
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

struct Runner<'a> {
    workload: &'a Workload,
    snapshot: &'a Snapshot,
    next: AtomicUsize,
    stop: AtomicBool,
}

/// Scan times of a thread.
struct Times {
    histogram: Histogram<u64>,
    bytes: u64,
    /// Microseconds of each filter, over all messages.
    filters: Vec<(String, f64)>,
}

impl Times {
    fn new() -> anyhow::Result<Self> {
        let histogram = Histogram::new_with_bounds(1, SCAN_NANOS_MAX, 3);
        let histogram = histogram.context("cannot make a histogram")?;
        Ok(Times { histogram, bytes: 0, filters: Vec::new() })
    }

    /// Adds what the filters of one message took, or those of another thread.
    fn add_filters<'f>(&mut self, costs: impl Iterator<Item = (&'f str, f64)>) {
        for (at, (filter, us)) in costs.enumerate() {
            match self.filters.get_mut(at) {
                Some(sum) => sum.1 += us,
                None => self.filters.push((filter.to_owned(), us)),
            }
        }
    }
}

impl Runner<'_> {
    /// Runs the threads until `count` messages are scanned, or for the time.
    fn run_threads(
        &self,
        threads: usize,
        count: Option<usize>,
        time: Duration,
    ) -> anyhow::Result<Times> {
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..threads).map(|_| scope.spawn(move || self.work(count))).collect();
            if count.is_none() {
                std::thread::sleep(time);
                self.stop.store(true, Ordering::Relaxed);
            }
            let mut all = Times::new()?;
            for worker in workers {
                let times = worker.join().unwrap_or_else(|p| std::panic::resume_unwind(p))?;
                all.histogram.add(times.histogram)?;
                all.bytes += times.bytes;
                all.add_filters(times.filters.iter().map(|(filter, us)| (filter.as_str(), *us)));
            }
            Ok(all)
        })
    }

    fn work(&self, count: Option<usize>) -> anyhow::Result<Times> {
        let mut times = Times::new()?;
        let mut scratch = Scratch::default();
        let (envelope, facts) = (Envelope::default(), Facts::default());
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if count.is_some_and(|count| number >= count) {
                break;
            }
            let messages = &self.workload.messages;
            let raw = &messages[number % messages.len()];
            let start = Instant::now();
            let message = Message::parse(raw);
            let verdict = scan(&message, &envelope, &facts, self.snapshot, &mut scratch);
            let costs = std::hint::black_box(&verdict).costs.clone();
            drop((verdict, message));
            let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            times.add_filters(costs.iter().map(|c| (&*c.filter, f64::from(c.micros))));
            times.histogram.saturating_record(nanos);
            times.bytes += raw.len() as u64;
        }
        Ok(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_counts_what_it_scans() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/a.eml"), "From: a@b.example\n\nhello\n").unwrap();
        std::fs::write(folder.path().join("b.eml"), "From: b@b.example\n\nhello\n").unwrap();
        let workload = Workload::load(folder.path()).unwrap();
        let snapshot = Snapshot::default_rules();
        let report = run(&workload, &snapshot, 2, Duration::from_millis(20), "test").unwrap();
        assert_eq!((report.workload_messages, report.workload_bytes), (2, 50));
        assert!(report.messages > 0 && report.messages_per_second > 0.0);
        assert!(report.filters.iter().any(|f| f.filter == "classifier" && f.us_per_message > 0.0));
        for name in ["b.json", "sub/a.TOML", "sub/notes.md"] {
            std::fs::write(folder.path().join(name), "{}").unwrap();
        }
        let with_others = Workload::load(folder.path()).unwrap();
        assert_eq!((with_others.messages.len(), with_others.files_skipped), (2, 3));
        assert_eq!(with_others.hash, workload.hash, "they change nothing");
        // A file that is named is a message, whatever its name.
        assert_eq!(Workload::load(&folder.path().join("b.json")).unwrap().messages.len(), 1);
        let empty = tempfile::tempdir().unwrap();
        std::fs::write(empty.path().join("x.json"), "{}").unwrap();
        let error = Workload::load(empty.path()).unwrap_err().to_string();
        assert!(error.ends_with("1 file that is no mail was passed over"), "{error}");
    }
}
