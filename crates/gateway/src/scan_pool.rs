//! The scan pool: one thread a CPU, a bounded queue before it.
//!
//! A permit of [`ScanPool::admit`] comes before the queue, so that the queue can never be full; who
//! gets none in time answers 451. A scan that panics costs its message a 451 and nothing else.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use gauntlet_engine::Scratch;
use gauntlet_mail::{Envelope, Facts};
use gauntlet_policy::Rates;
use gauntlet_store::LogRecord;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::facts::rules::KnownText;
use crate::judge::CurrentJudge;
use crate::metrics::Metrics;
use crate::text_log::ENGINE;

/// A message to be judged.
#[derive(Debug)]
pub struct Work {
    /// The message's id.
    pub id: String,
    /// The message with our Received field.
    pub raw: Arc<Vec<u8>>,
    /// What the connection said.
    pub envelope: Envelope,
    /// What the network said.
    pub facts: Facts,
    /// What is known already of the message's text.
    pub text: KnownText,
    /// How busy sender, client and recipients were.
    pub rates: Rates,
    /// Unix time in milliseconds.
    pub received_ms: i64,
    /// The same on the other clock.
    pub began: Instant,
}

/// Why there is no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoVerdict {
    /// The queue was full for too long.
    #[error("too busy")]
    Overload,
    /// The scan failed.
    #[error("the scan failed")]
    Failed,
}

type Job = (Work, oneshot::Sender<Option<LogRecord>>, OwnedSemaphorePermit);

/// The pool.
#[derive(Debug)]
pub struct ScanPool {
    queue: Sender<Job>,
    room: Arc<Semaphore>,
    wait_max: Duration,
    metrics: Arc<Metrics>,
}

impl ScanPool {
    /// Starts `threads` threads (0: one for each CPU that the process may use). `queue_max` messages
    /// may wait, each at most `wait_max`.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(
        threads: usize,
        queue_max: usize,
        wait_max: Duration,
        judge: &CurrentJudge,
        metrics: &Arc<Metrics>,
    ) -> std::io::Result<Self> {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let (queue, jobs) = unbounded();
        for number in 0..threads {
            let (jobs, judge, metrics) = (jobs.clone(), judge.clone(), metrics.clone());
            std::thread::Builder::new()
                .name(format!("scan-{number}"))
                .spawn(move || run(&jobs, &judge, &metrics))?;
        }
        let room = Arc::new(Semaphore::new(queue_max.saturating_add(threads)));
        Ok(ScanPool { queue, room, wait_max, metrics: metrics.clone() })
    }

    /// Judges a message.
    ///
    /// # Errors
    /// [`NoVerdict`]: answer 451.
    pub async fn judge(&self, work: Work) -> Result<LogRecord, NoVerdict> {
        let permit = tokio::time::timeout(self.wait_max, self.room.clone().acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            self.metrics.scan_overload.add_one();
            return Err(NoVerdict::Overload);
        };
        let (reply, verdict) = oneshot::channel();
        if self.queue.send((work, reply, permit)).is_err() {
            return Err(NoVerdict::Failed);
        }
        match verdict.await {
            Ok(Some(record)) => Ok(record),
            _ => {
                self.metrics.scan_failed.add_one();
                Err(NoVerdict::Failed)
            }
        }
    }
}

/// A line in the text log of the Engine.
fn tell(record: &LogRecord, start: Instant) {
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

fn run(jobs: &Receiver<Job>, judge: &CurrentJudge, metrics: &Metrics) {
    let mut scratch = Scratch::default();
    while let Ok((mut work, reply, permit)) = jobs.recv() {
        scratch.give(work.text.take());
        let start = Instant::now();
        let judge = judge.load_full();
        let verdict =
            std::panic::catch_unwind(AssertUnwindSafe(|| judge.judge(&work, &mut scratch))).ok();
        if let Some(record) = &verdict {
            tell(record, start);
        } else {
            tracing::error!(id = work.id, "the scan of a message failed; it is answered 451");
            scratch = Scratch::default();
        }
        drop(work);
        metrics.scan_time.record(start.elapsed());
        drop(permit);
        let _the_session_may_have_gone = reply.send(verdict);
    }
}
