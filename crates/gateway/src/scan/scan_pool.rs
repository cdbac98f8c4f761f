//! Who judges a message: the thread that received it, or the scan pool.
//!
//! A small message is judged where it was received: handing it to another thread and the verdict
//! back wakes two threads, which takes a third of the time of its scan. A large one goes to the
//! pool, one thread a CPU with a bounded queue before it: sockets do not wait for it, and the
//! system shares the CPUs between it and small ones. So does one whose files were unpacked.
//! Messages of a megabyte and more, which take a tenth of a second, have threads and a queue of
//! their own, which stand back where the CPUs have more to do than they can.
//!
//! A permit comes before the queue, so that the queue can never be full; who gets none in time
//! answers 451. A scan that panics costs its message a 451 and nothing else.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gauntlet_engine::Scratch;
use gauntlet_mail::{Limits, Message};
use gauntlet_store::LogRecord;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::metrics::Metrics;
use crate::priority;
use crate::scan::judge::{Judge, Work};
use crate::scan::unpacking::Unpacking;
use crate::text_log::ENGINE;

/// Why there is no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoVerdict {
    /// The queue was full for too long.
    #[error("too busy")]
    Overload,
    /// A thread failed over it; the log says why.
    #[error("the scan failed")]
    Failed,
    /// A malware engine gives no answer, and the settings want one (`engine.on_failure`).
    #[error("a malware engine is not available")]
    EngineUnavailable,
}

type Job = (Arc<Judge>, Work, oneshot::Sender<Reply>, OwnedSemaphorePermit);

/// What comes of a scan.
#[derive(Debug)]
enum Reply {
    Judged(Box<LogRecord>),
    /// It has files, which are to be unpacked first. What the pool began keeps its place there.
    Unpack(Box<Work>, Option<OwnedSemaphorePermit>),
    Failed,
}

/// Bytes up to which a message is small: its scan takes a millisecond or two at most.
const SMALL_BYTES_MAX: usize = 64 << 10;
/// Bytes from which a message is judged by threads of low priority.
const LARGE_BYTES_MIN: usize = 1 << 20;

thread_local! {
    /// Buffers of the scans on this thread that receives.
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

/// What waits for a thread. A channel would have threads spin before they sleep, which costs more
/// than a small message's scan.
#[derive(Debug, Default)]
struct Jobs {
    state: Mutex<JobState>,
    ready: Condvar,
}

#[derive(Debug, Default)]
struct JobState {
    waiting: VecDeque<Job>,
    /// Threads that sleep, and are to be woken.
    idle: usize,
    closed: bool,
}

impl Jobs {
    fn state(&self) -> MutexGuard<'_, JobState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, job: Job) {
        let mut state = self.state();
        state.waiting.push_back(job);
        let wakes = state.idle > 0;
        drop(state);
        if wakes {
            self.ready.notify_one();
        }
    }

    /// The next one; none once the pool is gone and nothing waits.
    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state.idle += 1;
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

/// Threads with a bounded queue before them.
#[derive(Debug)]
struct Threads {
    jobs: Arc<Jobs>,
    room: Arc<Semaphore>,
}

impl Threads {
    /// Starts so many; of low priority, if they stand back.
    fn start(
        (name, threads): (&str, usize),
        stand_back: bool,
        queue_max: usize,
        metrics: &Arc<Metrics>,
    ) -> std::io::Result<Self> {
        let jobs = Arc::new(Jobs::default());
        for number in 0..threads {
            let (jobs, metrics) = (jobs.clone(), metrics.clone());
            std::thread::Builder::new().name(format!("{name}-{number}")).spawn(move || {
                if stand_back {
                    priority::lower();
                }
                run(&jobs, &metrics);
            })?;
        }
        let room = Arc::new(Semaphore::new(queue_max.saturating_add(threads)));
        Ok(Threads { jobs, room })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.jobs.state().closed = true;
        self.jobs.ready.notify_all();
    }
}

/// Threads that judge messages.
#[derive(Debug)]
pub struct ScanPool {
    threads: Threads,
    /// Those for large messages; none if the number of threads is set.
    large: Option<Threads>,
    wait_max: Duration,
    /// Messages up to this size are judged by the thread that asks.
    here_bytes_max: usize,
    metrics: Arc<Metrics>,
}

impl ScanPool {
    /// Starts `threads` threads, which judge all mail; or, with 0, one for each CPU that the
    /// process may use, for messages that are not small, and as many for large ones. `queue_max`
    /// messages may wait for each of both kinds, each at most `wait_max`.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(
        threads: usize,
        queue_max: usize,
        wait_max: Duration,
        metrics: &Arc<Metrics>,
    ) -> std::io::Result<Self> {
        let start = |name, threads, stand_back| {
            Threads::start((name, threads), stand_back, queue_max, metrics)
        };
        let (threads, large, here_bytes_max) = match threads {
            0 => {
                let cpus = std::thread::available_parallelism().map_or(1, usize::from);
                let large = start("scan-large", cpus, true)?;
                (start("scan", cpus, false)?, Some(large), SMALL_BYTES_MAX)
            }
            n => (start("scan", n, false)?, None, 0),
        };
        Ok(ScanPool { threads, large, wait_max, here_bytes_max, metrics: metrics.clone() })
    }

    /// The threads that stand back, if they judge a message of so many bytes.
    fn large_threads(&self, bytes: usize) -> Option<&Threads> {
        self.large.as_ref().filter(|_| bytes >= LARGE_BYTES_MIN)
    }

    /// Who judges a message of so many bytes.
    fn threads_for(&self, bytes: usize) -> &Threads {
        self.large_threads(bytes).unwrap_or(&self.threads)
    }

    /// Has this judge judge a message.
    ///
    /// # Errors
    /// [`NoVerdict`]: answer 451.
    pub async fn judge(&self, judge: &Arc<Judge>, work: Work) -> Result<LogRecord, NoVerdict> {
        if !judge.scans && !judge.looks_for_data(work.envelope.direction) {
            // What is left is little: handing it to a thread would cost more.
            let judged = AssertUnwindSafe(|| judge.judge(&work, &mut Scratch::default()));
            return std::panic::catch_unwind(judged).map_err(|_| NoVerdict::Failed);
        }
        let is_small = work.raw.len() <= self.here_bytes_max;
        let stands_back = self.large_threads(work.raw.len()).is_some();
        let mut reply = match is_small && !judge.looks_for_data(work.envelope.direction) {
            true => self.judge_here(judge, work),
            false => {
                let permit = self.admit(work.raw.len()).await?;
                self.hand_over(judge, work, permit).await
            }
        };
        loop {
            match reply {
                Reply::Judged(record) => return Ok(*record),
                Reply::Unpack(work, permit) => {
                    let permit = match permit {
                        Some(permit) => permit,
                        None => self.admit(work.raw.len()).await?,
                    };
                    if let Some(unpacking) = &judge.unpacking
                        && let Some(work) =
                            unpack(unpacking.clone(), *work, judge.limits, stands_back).await
                    {
                        if unpacking.defers(&work.id, &work.facts.content) {
                            return Err(NoVerdict::EngineUnavailable);
                        }
                        reply = self.hand_over(judge, work, permit).await;
                        continue;
                    }
                }
                Reply::Failed => {}
            }
            self.metrics.scan_failed.add_one();
            return Err(NoVerdict::Failed);
        }
    }

    /// Judges it on the thread that asks.
    fn judge_here(&self, judge: &Judge, work: Work) -> Reply {
        let start = Instant::now();
        let reply =
            SCRATCH.with_borrow_mut(|scratch| attempt(judge, work, None, scratch, &self.metrics));
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.metrics.judging_ns.add(ns);
        reply
    }

    /// A place before the threads for a message of so many bytes.
    async fn admit(&self, bytes: usize) -> Result<OwnedSemaphorePermit, NoVerdict> {
        let room = self.threads_for(bytes).room.clone();
        let permit = tokio::time::timeout(self.wait_max, room.acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            self.metrics.scan_overload.add_one();
            return Err(NoVerdict::Overload);
        };
        Ok(permit)
    }

    /// Has a thread of the pool judge it.
    async fn hand_over(
        &self,
        judge: &Arc<Judge>,
        work: Work,
        permit: OwnedSemaphorePermit,
    ) -> Reply {
        let (reply, verdict) = oneshot::channel();
        self.threads_for(work.raw.len()).jobs.add((judge.clone(), work, reply, permit));
        verdict.await.unwrap_or(Reply::Failed)
    }
}

/// Unpacks the files of a message; it has the tree in its facts then.
async fn unpack(
    unpacking: Arc<Unpacking>,
    mut work: Work,
    limits: Limits,
    stands_back: bool,
) -> Option<Work> {
    let _turn = unpacking.turn(stands_back).await?;
    let unpacked = tokio::task::spawn_blocking(move || {
        let start = Instant::now();
        let tree = || unpacking.tree(&Message::parse_with(&work.raw, &limits), &work.raw);
        work.facts.content = if stands_back { priority::in_background(tree) } else { tree() };
        work.unpacked = Some(start.elapsed());
        work
    });
    unpacked.await.ok()
}

/// A line in the text log of the Engine.
fn log_verdict(record: &LogRecord, start: Instant) {
    let verdict = &record.verdict;
    tracing::info!(
        target: ENGINE,
        id = record.id,
        class = verdict.class.name(),
        score = verdict.score,
        probability = verdict.probability,
        hits = verdict.hits.len(),
        defects = verdict.defects.len(),
        us = start.elapsed().as_micros() as u64,
        "judged"
    );
}

fn run(jobs: &Jobs, metrics: &Metrics) {
    let mut scratch = Scratch::default();
    while let Some((judge, work, reply, permit)) = jobs.next() {
        let answer = attempt(&judge, work, Some(permit), &mut scratch, metrics);
        let _the_session_may_have_gone = reply.send(answer);
    }
}

/// Judges a message on this thread.
fn attempt(
    judge: &Judge,
    mut work: Work,
    permit: Option<OwnedSemaphorePermit>,
    scratch: &mut Scratch,
    metrics: &Metrics,
) -> Reply {
    scratch.give(work.text.take());
    let start = Instant::now();
    let judged = AssertUnwindSafe(|| judge.judge_unpacked(&work, scratch));
    let judged = std::panic::catch_unwind(judged);
    let reply = match judged {
        Ok(Some(record)) => {
            log_verdict(&record, start);
            drop((work, permit));
            Reply::Judged(Box::new(record))
        }
        Ok(None) => Reply::Unpack(Box::new(work), permit),
        Err(_) => {
            tracing::error!(id = work.id, "the scan of a message failed; it is answered 451");
            *scratch = Scratch::default();
            drop((work, permit));
            Reply::Failed
        }
    };
    metrics.scan_time.record(start.elapsed());
    reply
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use bytes::Bytes;
    use gauntlet_engine::{Filter, Findings, Item, Snapshot};
    use gauntlet_mail::{Envelope, Facts};
    use gauntlet_policy::{Groups, Policy, Rates};

    use super::*;

    /// A filter that reports that it runs, and then waits for a word.
    #[derive(Debug)]
    struct Waiting {
        began: Sender<()>,
        go_on: Mutex<Receiver<()>>,
    }

    impl Filter for Waiting {
        fn name(&self) -> &'static str {
            "waiting"
        }

        fn run(&self, _: &Item<'_>, _: &mut Scratch, _: &mut Findings) {
            self.began.send(()).unwrap();
            self.go_on.lock().unwrap().recv().unwrap();
        }
    }

    fn judge(filters: Vec<Box<dyn Filter>>) -> Arc<Judge> {
        let policy = Policy::parse(Policy::DEFAULT, &Groups::default()).unwrap();
        let snapshot = Snapshot::empty().with_filters(filters);
        Arc::new(Judge {
            snapshot,
            policy,
            limits: Limits::default(),
            probes: None,
            scans: true,
            unpacking: None,
            data_loss: Arc::default(),
            shadow: Default::default(),
        })
    }

    fn record(reply: Result<Reply, oneshot::error::RecvError>) -> Box<LogRecord> {
        match reply {
            Ok(Reply::Judged(record)) => record,
            other => panic!("{other:?}"),
        }
    }

    fn waiting() -> (Arc<Judge>, Receiver<()>, Sender<()>) {
        let ((began, begins), (word, go_on)) = (channel(), channel());
        (judge(vec![Box::new(Waiting { began, go_on: Mutex::new(go_on) })]), begins, word)
    }

    fn work(id: &str) -> Work {
        Work {
            id: id.to_owned(),
            raw: bytes::Bytes::from_static(b"Subject: hello\r\n\r\nHello\r\n"),
            envelope: Envelope::default(),
            facts: Facts::default(),
            text: None,
            rates: Rates::default(),
            received_ms: 0,
            began: Instant::now(),
            unpacked: None,
            is_trap: false,
        }
    }

    fn pool(queue_max: usize, wait_max: Duration) -> (Arc<ScanPool>, Arc<Metrics>) {
        let metrics = Arc::new(Metrics::default());
        (Arc::new(ScanPool::start(1, queue_max, wait_max, &metrics).unwrap()), metrics)
    }

    #[tokio::test]
    async fn each_message_gets_its_own_verdict() {
        let (pool, _) = pool(8, Duration::from_secs(20));
        let (one, two) = (judge(Vec::new()), judge(Vec::new()));
        let (a, b) = tokio::join!(pool.judge(&one, work("a")), pool.judge(&two, work("b")));
        let (a, b) = (a.unwrap(), b.unwrap());
        assert_eq!((a.id.as_str(), a.subject.as_str(), b.id.as_str()), ("a", "hello", "b"));
    }

    /// Names the thread that it runs on, and its nice value.
    #[derive(Debug)]
    struct Where(Sender<(String, i32)>);
    impl Filter for Where {
        fn name(&self) -> &'static str {
            "where"
        }
        fn run(&self, _: &Item<'_>, _: &mut Scratch, _: &mut Findings) {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            self.0.send((name, priority::nice().unwrap())).unwrap();
        }
    }

    #[tokio::test]
    async fn a_small_message_is_judged_where_it_came_and_a_large_one_by_the_pool() {
        let metrics = Arc::new(Metrics::default());
        let pool = ScanPool::start(0, 8, Duration::from_secs(20), &metrics).unwrap();
        let here = priority::nice().unwrap();
        let (named, names) = channel();
        let judge = judge(vec![Box::new(Where(named))]);
        let of = |lines| {
            let body = b"x\r\n".repeat(lines);
            Bytes::from([&b"Subject: large\r\n\r\n"[..], &body].concat())
        };
        for (raw, thread) in [
            (work("small").raw, None),
            (of(30_000), Some("scan-0")),
            (of(400_000), Some("scan-large-0")),
        ] {
            pool.judge(&judge, Work { raw, ..work("w") }).await.unwrap();
            let (name, nice) = names.recv().unwrap();
            let stem = |name: &str| name.trim_end_matches(char::is_numeric).to_owned();
            assert_eq!(name.starts_with("scan-").then(|| stem(&name)), thread.map(stem));
            assert_eq!(nice > here, thread.is_some_and(|name| name.contains("large")), "{name}");
        }
    }

    #[tokio::test]
    async fn a_message_that_finds_the_queue_full_is_not_judged_late() {
        let (pool, metrics) = pool(0, Duration::from_millis(5));
        let (slow, begins, word) = waiting();
        let busy = {
            let pool = pool.clone();
            tokio::spawn(async move { pool.judge(&slow, work("busy")).await })
        };
        tokio::task::spawn_blocking(move || begins.recv().unwrap()).await.unwrap();
        let idle = judge(Vec::new());
        assert_eq!(pool.judge(&idle, work("late")).await.unwrap_err(), NoVerdict::Overload);
        assert_eq!(metrics.scan_overload.get(), 1);
        word.send(()).unwrap();
        assert!(busy.await.unwrap().is_ok());
        assert!(pool.judge(&idle, work("next")).await.is_ok(), "there is room again");
    }

    #[tokio::test]
    async fn what_waits_when_the_pool_goes_is_still_judged() {
        let (pool, _) = pool(8, Duration::from_secs(20));
        let (slow, begins, word) = waiting();
        let (reply, verdict) = oneshot::channel();
        let permit = pool.threads.room.clone().acquire_owned().await.unwrap();
        pool.threads.jobs.add((slow, work("under way"), reply, permit));
        tokio::task::spawn_blocking(move || begins.recv().unwrap()).await.unwrap();
        let (reply, waiting) = oneshot::channel();
        let permit = pool.threads.room.clone().acquire_owned().await.unwrap();
        pool.threads.jobs.add((judge(Vec::new()), work("waiting"), reply, permit));
        drop(pool);
        word.send(()).unwrap();
        assert_eq!(record(verdict.await).id, "under way");
        assert_eq!(record(waiting.await).id, "waiting");
    }

    #[tokio::test]
    async fn a_scan_that_crashes_costs_its_own_verdict_only() {
        let (pool, metrics) = pool(8, Duration::from_secs(20));
        // A node whose filter waits for a word that never comes: its channel is gone, and it
        // panics.
        let (broken, _begins, word) = waiting();
        drop(word);
        let judged = pool.judge(&broken, work("broken")).await;
        // Filters are contained: the verdict says that one failed, so that no spam passes by it.
        let record = judged.unwrap();
        assert_eq!(record.verdict.class, gauntlet_verdict::Class::Unscannable);
        assert_eq!(metrics.scan_failed.get(), 0);
        assert!(pool.judge(&judge(Vec::new()), work("next")).await.is_ok());
    }
}
