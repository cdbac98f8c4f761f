//! Putting messages into quarantine: a thread that holds many with one sync and one commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use gauntlet_store::{Quarantine, QuarantineItem, StoreError};

/// Messages held with one commit: a quarter of them cost an eighth more each.
const BATCH_MAX: usize = 2048;
/// Bytes of messages held with one commit: those that come next wait no longer for it.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// How long messages gather for one commit. No client waits for it, the spool has them, and a sync
/// and a transaction for each few messages cost more than all else about holding them.
const BATCH_WAIT: Duration = Duration::from_millis(100);

/// Why a message could not be held.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HoldError {
    /// The thread has ended.
    #[error("the quarantine's thread has ended")]
    Ended,
    /// The quarantine could not write it; one commit holds several messages.
    #[error(transparent)]
    NotWritten(Arc<StoreError>),
}

/// A message to be held.
pub struct HoldJob {
    /// What is kept about it.
    pub item: QuarantineItem,
    /// Header and body as they were received.
    pub body: Bytes,
    /// Called when it is durable, or why not.
    pub done: Box<dyn FnOnce(Result<(), HoldError>) + Send>,
}

/// The thread before the quarantine.
#[derive(Debug, Clone)]
pub struct Holder {
    queue: Sender<HoldJob>,
    /// Jobs that are not done.
    waiting: Arc<AtomicU64>,
}

impl Holder {
    /// Starts the thread.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(quarantine: Arc<Quarantine>) -> std::io::Result<Self> {
        let (queue, jobs) = channel();
        let waiting = Arc::<AtomicU64>::default();
        let ahead = waiting.clone();
        std::thread::Builder::new()
            .name("quarantine".to_owned())
            .spawn(move || run(&quarantine, &jobs, &ahead))?;
        Ok(Holder { queue, waiting })
    }

    /// Messages that wait for the thread, or are being written.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Queues a message for the thread that writes; `done` is called when it is durable.
    pub fn hold(&self, job: HoldJob) {
        let (waiting, done) = (self.waiting.clone(), job.done);
        waiting.fetch_add(1, Ordering::Relaxed);
        let done = Box::new(move |result| {
            waiting.fetch_sub(1, Ordering::Relaxed);
            done(result);
        });
        let job = HoldJob { done, ..job };
        if let Err(unsent) = self.queue.send(job) {
            (unsent.0.done)(Err(HoldError::Ended));
        }
    }
}

fn run(quarantine: &Quarantine, jobs: &Receiver<HoldJob>, waiting: &AtomicU64) {
    while let Ok(first) = jobs.recv() {
        if waiting.load(Ordering::Relaxed) < BATCH_MAX as u64 {
            std::thread::sleep(BATCH_WAIT);
        }
        let mut bytes = first.body.len();
        let mut batch = vec![first];
        while batch.len() < BATCH_MAX
            && bytes < BATCH_BYTES_MAX
            && let Ok(next) = jobs.try_recv()
        {
            bytes += next.body.len();
            batch.push(next);
        }
        let items: Vec<_> = batch.iter().map(|job| (&job.item, &job.body[..])).collect();
        let held = quarantine.put_many(&items).map(|_| ());
        let held = held.map_err(|error| HoldError::NotWritten(Arc::new(error)));
        for job in batch {
            (job.done)(held.clone());
        }
    }
}
