//! The spool and the message log alone: how many messages a second they make durable.
//!
//! Writers are threads in closed loop: each hands over a message, waits until it is durable (and
//! its line of the log is), marks it done and takes the next. Cases are measured in turn, round
//! after round (A B C A B C), so that a machine that slows down slows all of them.
//!
//! The client is the same process. Its own ceiling is measured first: the same writers against a
//! store that only answers. A case that comes near it is marked INVALID, as in
//! [`crate::load::health`].

mod medium;
pub mod page;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use gauntlet_mail::{Envelope, Evidence, Hit, View};
use gauntlet_store::spool::{Disk, Medium, Ram};
use gauntlet_store::{Delivery, Log, LogOptions, LogRecord, Outcome, Spool, SpoolOptions};
use gauntlet_verdict::{Class, Disposition, Final, Verdict};
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::histogram::latency_histogram;
use crate::load::health::{self, Health, LagProbe, Run, Watch};
use crate::load::trial::Estimate;
use crate::load::{Latency, trial};
use crate::machine::Manifest;
use crate::{process, usage};
use medium::{Counted, Counts, Null};

/// Cases of one measurement at most.
pub const CASES_MAX: usize = 256;
/// Writers that may be requested at once.
pub const WRITERS_MAX: usize = 1_024;
/// Bytes of a message at most.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Time of one run against a store that only answers.
const CALIBRATION: Duration = Duration::from_millis(500);
/// Bytes of what the node notes about a message beside it (envelope, verdict, dispositions).
const META_BYTES: usize = 1_000;
/// Names of the threads of spool and log.
const STORE_THREADS: [&str; 3] = ["spool", "spool-large", "log-writer"];

/// What a store is kept on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// Files below the folder given.
    Disk,
    /// Memory: the spool's own medium, and files of a memory file system for the log.
    Ram,
    /// Nothing: what is written is counted and forgotten; no log.
    Null,
}

/// The part of the store that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Messages go into the spool and out of it.
    Spool,
    /// Lines are appended to the message log.
    Log,
    /// A message is spooled, then logged, then done.
    Both,
}

/// One setting that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Case {
    /// What it is kept on.
    pub backend: Backend,
    /// The part of the store that works.
    pub part: Part,
    /// Most messages (and lines of the log) that one sync makes durable.
    pub batch: usize,
    /// Bytes of a message.
    pub bytes: usize,
    /// Messages under way at once.
    pub writers: usize,
}

impl Case {
    /// `disk spool, batch 256, 30000 bytes, 16 writers`.
    pub fn name(&self) -> String {
        let Case { batch, bytes, writers, .. } = self;
        format!("{} {}, batch {batch}, {bytes} bytes, {writers} writers", self.kept(), self.what())
    }

    fn kept(&self) -> &'static str {
        match self.backend {
            Backend::Disk => "disk",
            Backend::Ram => "ram",
            Backend::Null => "null",
        }
    }

    fn what(&self) -> &'static str {
        match self.part {
            Part::Spool => "spool",
            Part::Log => "log",
            Part::Both => "spool+log",
        }
    }
}

/// What to measure: all combinations of these.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folder in which files are written and removed again.
    pub folder: PathBuf,
    /// Folder of a memory file system, for the log.
    pub memory: PathBuf,
    /// Backends to measure, in the order of the report.
    pub backends: Vec<Backend>,
    /// Parts of the store to measure.
    pub parts: Vec<Part>,
    /// Messages a sync to measure with.
    pub batches: Vec<usize>,
    /// Sizes of messages to measure with, in bytes.
    pub bytes: Vec<usize>,
    /// Numbers of writers to measure with.
    pub writers: Vec<usize>,
    /// Time of a run.
    pub time: Duration,
    /// Runs of each case, in turn.
    pub rounds: u32,
}

/// One run of a case.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Messages made durable a second.
    pub messages_per_second: f64,
    /// Messages stored in the run.
    pub messages: u64,
    /// CPU time of the threads of spool and log for each message, in microseconds.
    pub store_cpu_us: f64,
    /// CPU time of the whole process for each message, the writers' included.
    pub cpu_us: f64,
    /// Waits for the disk: syncs of the spool's files, transactions of the log.
    pub syncs: u64,
    /// Bytes that the spool appended.
    pub spool_bytes: u64,
    /// From handing over to durable.
    pub latency: Latency,
    /// The client and the machine.
    pub health: Health,
    /// Why the figures are not the store's.
    pub invalid: Vec<String>,
    #[serde(skip)]
    histogram: Histogram<u64>,
}

/// All runs of a case.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// The setting that was measured.
    pub case: Case,
    /// Messages/s of the same writers against a store that only answers.
    pub ceiling: f64,
    /// Messages that became durable, a second.
    pub messages_per_second: Estimate,
    /// CPU time of the store's threads for each message, in microseconds.
    pub store_cpu_us: Estimate,
    /// CPU time of the process for each message, in microseconds.
    pub cpu_us: Estimate,
    /// Messages made durable by one sync.
    pub messages_per_sync: f64,
    /// Waits for the disk, a second.
    pub syncs_per_second: f64,
    /// Messages/s over those of the first case, by round.
    pub rate_over_first: Option<Estimate>,
    /// Time until a message was durable, over all runs.
    pub latency: Latency,
    /// What each run came to.
    pub runs: Vec<Measured>,
}

/// What came of a measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Cases in their order.
    pub entries: Vec<Entry>,
    /// Cases that this machine cannot measure, and why.
    pub missing: Vec<String>,
    /// Seconds of a run.
    pub seconds: f64,
    /// The figures of every run are the store's.
    pub valid: bool,
    /// The machine and the program that the figures are of.
    pub manifest: Manifest,
}

/// All combinations that make sense; and those left out, with the reason.
fn cases(options: &Options) -> anyhow::Result<(Vec<Case>, Vec<String>)> {
    let (mut cases, mut missing) = (Vec::new(), Vec::new());
    for &part in &options.parts {
        for &backend in &options.backends {
            if part == Part::Log && backend == Backend::Null {
                continue;
            }
            if backend == Backend::Ram && part != Part::Spool && !is_memory(&options.memory) {
                let memory = options.memory.display();
                missing.push(format!("the log in memory: {memory} is not of memory (tmpfs)"));
                continue;
            }
            for &batch in &options.batches {
                for &bytes in &options.bytes {
                    for &writers in &options.writers {
                        cases.push(Case { backend, part, batch, bytes, writers });
                    }
                }
            }
        }
    }
    if cases.is_empty() || cases.len() > CASES_MAX {
        bail!("{} cases: it must be 1 to {CASES_MAX}; name fewer settings", cases.len());
    }
    for case in &cases {
        if case.batch == 0 || case.writers == 0 || case.writers > WRITERS_MAX {
            bail!("{}: a batch of 1 or more, and 1 to {WRITERS_MAX} writers", case.name());
        }
        if case.bytes == 0 || case.bytes > MESSAGE_BYTES_MAX {
            bail!("{}: a message is 1 to {MESSAGE_BYTES_MAX} bytes", case.name());
        }
    }
    Ok((cases, missing))
}

/// Whether a folder lies in memory (Linux: its file system is tmpfs).
fn is_memory(folder: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(folder.as_os_str().as_bytes()) else { return false };
    // SAFETY: all bit patterns are valid for this plain C struct.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends in NUL and `stat` may be written; both live through the call.
    let found = unsafe { libc::statfs(path.as_ptr(), &raw mut stat) } == 0;
    found && i128::from(stat.f_type) == i128::from(libc::TMPFS_MAGIC)
}

/// Measures all cases, round after round. `progress` hears of each run when it ends.
///
/// # Errors
/// Settings that make no sense, or a folder that cannot be written.
pub fn run(
    options: &Options,
    version: &str,
    progress: &mut dyn FnMut(&Case, &Measured),
) -> anyhow::Result<Report> {
    let (cases, missing) = cases(options)?;
    let mut ceilings: Vec<f64> = Vec::new();
    for case in &cases {
        let same = |c: &Case| (c.bytes, c.writers) == (case.bytes, case.writers);
        let known = cases.iter().zip(&ceilings).find(|(c, _)| same(c)).map(|(_, c)| *c);
        let ceiling = match known {
            Some(ceiling) => ceiling,
            None => drive(case, &Answering::start()?, CALIBRATION)?.messages_per_second,
        };
        ceilings.push(ceiling);
    }
    let mut runs: Vec<Vec<Measured>> = vec![Vec::new(); cases.len()];
    for _ in 0..options.rounds.clamp(1, trial::ROUNDS_MAX) {
        for ((case, ceiling), runs) in cases.iter().zip(&ceilings).zip(&mut runs) {
            let store = Real::open(options, case)
                .with_context(|| format!("cannot make a store: {}", case.name()))?;
            let mut measured = drive(case, &store, options.time)?;
            judge(&mut measured, *ceiling);
            progress(case, &measured);
            runs.push(measured);
        }
    }
    let first = runs[0].clone();
    let entries = cases.into_iter().zip(ceilings).zip(runs);
    let entries = entries
        .map(|((case, ceiling), runs)| entry(case, ceiling, runs, &first))
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Report {
        valid: entries.iter().flat_map(|e| &e.runs).all(|run| run.invalid.is_empty()),
        entries,
        missing,
        seconds: options.time.as_secs_f64(),
        manifest: Manifest::here(version),
    })
}

fn judge(measured: &mut Measured, ceiling: f64) {
    let run = Run {
        rate: measured.messages_per_second,
        ceiling: Some(ceiling),
        tried: measured.messages,
        latency_p99_us: measured.latency.p99_us,
        ..Run::default()
    };
    measured.invalid = health::invalid(&measured.health, &run);
}

fn entry(
    case: Case,
    ceiling: f64,
    runs: Vec<Measured>,
    first: &[Measured],
) -> anyhow::Result<Entry> {
    let all = |of: fn(&Measured) -> f64| {
        let values: Vec<f64> = runs.iter().map(of).collect();
        Estimate::of(&values).context("no run was made")
    };
    let pairs: Vec<(f64, f64)> = runs
        .iter()
        .zip(first)
        .map(|(a, b)| (a.messages_per_second, b.messages_per_second))
        .collect();
    let mut latency = latency_histogram()?;
    for run in &runs {
        latency.add(&run.histogram)?;
    }
    let messages: u64 = runs.iter().map(|r| r.messages).sum();
    let syncs: u64 = runs.iter().map(|r| r.syncs).sum();
    let rate = all(|r| r.messages_per_second)?;
    let messages_per_sync = messages as f64 / syncs.max(1) as f64;
    Ok(Entry {
        case,
        ceiling,
        store_cpu_us: all(|r| r.store_cpu_us)?,
        cpu_us: all(|r| r.cpu_us)?,
        messages_per_sync,
        syncs_per_second: rate.mean / messages_per_sync.max(f64::MIN_POSITIVE),
        messages_per_second: rate,
        rate_over_first: Estimate::ratio(&pairs),
        latency: Latency::of(&latency),
        runs,
    })
}

/// What writers hand messages to.
trait Store: Sync {
    /// Takes a message and waits until it is durable.
    fn take(&self, id: u64, body: &Bytes) -> anyhow::Result<()>;
    /// Waits for the disk so far, and bytes appended.
    fn counts(&self) -> (u64, u64);
}

/// Spool and log as a node has them.
struct Real {
    spool: Option<Spool>,
    log: Option<Log>,
    counts: Arc<Counts>,
    _folder: tempfile::TempDir,
}

impl Real {
    fn open(options: &Options, case: &Case) -> anyhow::Result<Self> {
        let in_memory = case.backend == Backend::Ram && case.part != Part::Spool;
        let place = if in_memory { &options.memory } else { &options.folder };
        let folder = tempfile::tempdir_in(place)
            .with_context(|| format!("cannot make a folder in {}", place.display()))?;
        let counts = Arc::new(Counts::default());
        let medium: Arc<dyn Medium> = match case.backend {
            Backend::Disk => Arc::new(Disk::open(&folder.path().join("spool"))?),
            Backend::Ram => Arc::new(Ram::default()),
            Backend::Null => Arc::new(Null::default()),
        };
        let limits = SpoolOptions { batch_messages_max: case.batch, ..SpoolOptions::default() };
        let spool = match case.part {
            Part::Log => None,
            Part::Spool | Part::Both => {
                Some(Spool::open(Arc::new(Counted::new(medium, counts.clone())), limits)?.0)
            }
        };
        let lines = LogOptions { batch_records_max: case.batch, ..LogOptions::default() };
        let log = match (case.part, case.backend) {
            (Part::Spool, _) | (_, Backend::Null) => None,
            _ => Some(Log::open_with(&folder.path().join("log"), lines)?),
        };
        Ok(Real { spool, log, counts, _folder: folder })
    }
}

impl Store for Real {
    fn take(&self, id: u64, body: &Bytes) -> anyhow::Result<()> {
        let (result_sender, outcome) = sync_channel(1);
        let lost = |_| anyhow!("the store did not answer");
        if let Some(spool) = &self.spool {
            let result_sender = result_sender.clone();
            let meta = vec![b'm'; META_BYTES];
            let done = Box::new(move |result: Result<(), _>| {
                // The writer waits.
                let _ = result_sender.send(result.map_err(anyhow::Error::from));
            });
            spool.put(id, now_ms(), meta, body.clone(), done);
            outcome.recv().map_err(lost)??;
        }
        if let Some(log) = &self.log {
            let done = Box::new(move |result: Result<_, _>| {
                let _ = result_sender.send(result.map(|_| ()).map_err(anyhow::Error::from));
            });
            log.append_now(vec![record(id, now_ms(), body.len())], Vec::new(), done);
            outcome.recv().map_err(lost)??;
        }
        if let Some(spool) = &self.spool {
            spool.done(id);
        }
        Ok(())
    }

    fn counts(&self) -> (u64, u64) {
        let commits = self.log.as_ref().map_or(0, Log::commits);
        let syncs = self.counts.syncs.load(Ordering::Relaxed) + commits;
        (syncs, self.counts.bytes.load(Ordering::Relaxed))
    }
}

/// Unix time in milliseconds. The log takes some thousands of messages in each, not more.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A line of the log as a usual message leaves it: a recipient, two rules, a delivery.
fn record(id: u64, now_ms: i64, size: usize) -> LogRecord {
    let hit = |rule: &str| Hit {
        rule: rule.into(),
        score: 1.5,
        count: 1,
        description: "A rule of the measurement".into(),
        evidence: vec![Evidence::new(View::Header, 0, 7, b"invoice").named("Subject")],
    };
    let recipient = format!("user{}@bench.example", id % 1_000);
    let envelope = Envelope {
        mail_from: format!("sender{}@mail.example", id % 100),
        rcpt_to: vec![recipient.clone()],
        ..Envelope::default()
    };
    LogRecord {
        id: format!("{id:016x}"),
        received_ms: now_ms,
        envelope,
        size: size as u64,
        from: "A sender of the measurement <sender@mail.example>".to_owned(),
        subject: format!("Message number {id} of the measurement"),
        message_id: format!("{id}@mail.example"),
        verdict: Verdict {
            class: Class::Ham,
            score: 3.0,
            hits: vec![hit("BENCH_FIRST"), hit("BENCH_SECOND")],
            ..Verdict::default()
        },
        dispositions: vec![Disposition {
            recipient: recipient.clone(),
            end: Final::Deliver,
            changes: Vec::new(),
            rules: vec!["deliver the rest".to_owned()],
            release: None,
        }],
        deliveries: vec![Delivery {
            address: recipient,
            outcome: Outcome::Delivered,
            at_ms: now_ms,
            attempts: 1,
            next_hop: "127.0.0.1:25".to_owned(),
            reply: "250 2.0.0 ok".to_owned(),
        }],
        latency_ms: 3,
        ..LogRecord::default()
    }
}

/// A store that only answers, on a thread of its own as the real one does.
struct Answering(Sender<Sender<()>>);

impl Answering {
    fn start() -> anyhow::Result<Self> {
        let (queue, asked): (Sender<Sender<()>>, Receiver<_>) = channel();
        let answer = move || {
            while let Ok(one) = asked.recv() {
                // The writer waits.
                let _ = one.send(());
            }
        };
        std::thread::Builder::new().name("spool".to_owned()).spawn(answer)?;
        Ok(Answering(queue))
    }
}

impl Store for Answering {
    fn take(&self, _: u64, _: &Bytes) -> anyhow::Result<()> {
        let (result_sender, outcome) = channel();
        self.0.send(result_sender)?;
        Ok(outcome.recv()?)
    }

    fn counts(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// Writers in closed loop for the time.
fn drive(case: &Case, store: &impl Store, time: Duration) -> anyhow::Result<Measured> {
    let body = Bytes::from(body(case.bytes));
    let (next, stop) = (AtomicU64::new(1), AtomicBool::new(false));
    let lag = LagProbe::start()?;
    let watch = Watch::start();
    let before = (store.counts(), process::own_threads_cpu_seconds(&STORE_THREADS));
    let (cpu, start) = (usage::cpu_seconds(), Instant::now());
    let writer = || -> anyhow::Result<Histogram<u64>> {
        let mut latency = latency_histogram()?;
        while !stop.load(Ordering::Relaxed) && start.elapsed() < time {
            let begun = Instant::now();
            let taken = store.take(next.fetch_add(1, Ordering::Relaxed), &body);
            if taken.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            taken?;
            let nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            latency.saturating_record(nanos);
        }
        Ok(latency)
    };
    let mut latency = latency_histogram()?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..case.writers).map(|_| scope.spawn(writer)).collect();
        for thread in threads {
            let one = thread.join().map_err(|_| anyhow!("a writer failed"))?;
            latency.add(one?)?;
        }
        anyhow::Ok(())
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let cpu = usage::cpu_seconds() - cpu;
    let store_cpu =
        process::cpu_seconds_between(&before.1, &process::own_threads_cpu_seconds(&STORE_THREADS));
    let (syncs, bytes) = store.counts();
    let threads = case.writers.min(std::thread::available_parallelism().map_or(1, usize::from));
    let mut health = watch.stop(threads, &lag.stop()?);
    // The store's threads are not the client.
    health.cpu_seconds = (health.cpu_seconds - store_cpu).max(0.0);
    health.busy_share = health.cpu_seconds / (seconds * threads as f64);
    let each = latency.len().max(1) as f64;
    Ok(Measured {
        messages_per_second: latency.len() as f64 / seconds,
        messages: latency.len(),
        store_cpu_us: store_cpu * 1e6 / each,
        cpu_us: cpu * 1e6 / each,
        syncs: syncs - before.0.0,
        spool_bytes: bytes - before.0.1,
        latency: Latency::of(&latency),
        health,
        invalid: Vec::new(),
        histogram: latency,
    })
}

/// A message of this size, in lines.
fn body(bytes: usize) -> Vec<u8> {
    let line = b"The quick brown fox jumps over the lazy dog, again and again and again.\r\n";
    line.iter().copied().cycle().take(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(folder: &Path) -> Options {
        Options {
            folder: folder.to_owned(),
            memory: PathBuf::from("/dev/shm"),
            backends: vec![Backend::Disk, Backend::Ram, Backend::Null],
            parts: vec![Part::Spool, Part::Log, Part::Both],
            batches: vec![8],
            bytes: vec![2_000],
            writers: vec![4],
            time: Duration::from_millis(120),
            rounds: 2,
        }
    }

    #[test]
    fn every_part_is_measured_on_every_backend() {
        let folder = tempfile::tempdir().unwrap();
        let mut heard = 0;
        let report = run(&options(folder.path()), "0", &mut |_, _| heard += 1).unwrap();
        let memory = is_memory(Path::new("/dev/shm"));
        assert_eq!(report.entries.len(), if memory { 8 } else { 6 });
        assert_eq!(heard, report.entries.len() * 2);
        for entry in &report.entries {
            let name = entry.case.name();
            assert!(entry.messages_per_second.mean > 0.0, "{name}");
            assert!(entry.messages_per_second.low.is_some(), "two rounds: {name}");
            let runs = &entry.runs;
            assert!(runs.iter().all(|r| r.messages >= r.syncs / 4), "{name}: {runs:?}");
            let spooled = entry.case.part != Part::Log;
            assert_eq!(spooled, runs.iter().all(|r| r.spool_bytes > 2_000), "{name}");
            assert!(entry.messages_per_sync <= 8.0 + 4.0, "the batch holds: {name}");
        }
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(page::sheet(&report).html().contains("messages/s"));
    }

    #[test]
    fn nonsense_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let good = options(folder.path());
        let refused = |options: Options, words: &str| {
            let error = run(&options, "0", &mut |_, _| {}).unwrap_err();
            assert!(format!("{error:#}").contains(words), "{error:#}");
        };
        refused(Options { batches: vec![], ..good.clone() }, "0 cases");
        refused(Options { writers: vec![0], ..good.clone() }, "1 to 1024 writers");
        refused(Options { bytes: vec![0], ..good.clone() }, "a message is 1 to");
        let nowhere = folder.path().join("missing");
        refused(Options { folder: nowhere, ..good }, "cannot make a folder in");
    }

    #[test]
    fn near_the_ceiling_is_invalid() {
        let case =
            Case { backend: Backend::Null, part: Part::Spool, batch: 1, bytes: 10, writers: 1 };
        let store = Answering::start().unwrap();
        let mut measured = drive(&case, &store, Duration::from_millis(50)).unwrap();
        let rate = measured.messages_per_second;
        judge(&mut measured, rate * 1.05);
        assert!(measured.invalid.iter().any(|w| w.contains("a server that")), "{measured:?}");
    }
}
