//! Putting messages into quarantine: a thread that holds several with one commit.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use gauntlet_store::{Quarantine, QuarantineItem, StoreError};

/// Messages held with one commit.
const BATCH_MAX: usize = 32;

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
}

impl Holder {
    /// Starts the thread.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(quarantine: Arc<Quarantine>) -> std::io::Result<Self> {
        let (queue, jobs) = channel();
        std::thread::Builder::new()
            .name("quarantine".to_owned())
            .spawn(move || run(&quarantine, &jobs))?;
        Ok(Holder { queue })
    }

    /// Queues a message for the thread that writes; `done` is called when it is durable.
    pub fn hold(&self, job: HoldJob) {
        if let Err(unsent) = self.queue.send(job) {
            (unsent.0.done)(Err(HoldError::Ended));
        }
    }
}

fn run(quarantine: &Quarantine, jobs: &Receiver<HoldJob>) {
    while let Ok(first) = jobs.recv() {
        let mut batch = vec![first];
        while batch.len() < BATCH_MAX
            && let Ok(next) = jobs.try_recv()
        {
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
