//! Putting messages into quarantine: a thread that holds several with one commit.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use gauntlet_store::{Quarantine, QuarantineItem};

/// Messages held with one commit.
const BATCH_MAX: usize = 32;

/// A message to be held.
pub struct HoldJob {
    /// What is kept about it.
    pub item: QuarantineItem,
    /// The message.
    pub body: Bytes,
    /// Called when it is durable, or why not.
    pub done: Box<dyn FnOnce(Result<(), String>) + Send>,
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

    /// Queues a message.
    pub fn hold(&self, job: HoldJob) {
        if let Err(unsent) = self.queue.send(job) {
            (unsent.0.done)(Err("the quarantine's thread has ended".to_owned()));
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
        let held = quarantine.put_many(&items).map(|_| ()).map_err(|e| e.to_string());
        for job in batch {
            (job.done)(held.clone());
        }
    }
}
