//! A share of the mail that comes, for a version of rules that is tried in the shadow of the one in
//! force.
//!
//! A message is handed on after its verdict; whoever tries the other version judges it on a thread
//! of its own. Nothing here waits: if the other cannot keep up, messages are left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, bounded};
use gauntlet_mail::{Envelope, Facts, Limits};
use gauntlet_verdict::Verdict;

use super::judge::Work;

/// Messages that wait to be judged by the other version; their bodies are in memory anyway until
/// they are delivered, and no longer than a few seconds after.
const QUEUE_MAX: usize = 32;
/// Larger messages are left out: what waits here is bounded by both.
const BYTES_MAX: usize = 1 << 20;

/// A message with the verdict of the version in force.
#[derive(Debug)]
pub struct Sample {
    /// Id in the log.
    pub id: String,
    /// The message.
    pub raw: Bytes,
    /// How it came.
    pub envelope: Envelope,
    /// What the network said of it.
    pub facts: Facts,
    /// What the version in force said.
    pub verdict: Verdict,
    /// Bounds that it was parsed with.
    pub limits: Limits,
}

#[derive(Debug)]
struct Trial {
    percent: u64,
    seen: AtomicU64,
    queue: Sender<Sample>,
}

/// The place where a trial listens, if there is one. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Shadow(Arc<ArcSwapOption<Trial>>);

impl Shadow {
    /// Begins to hand on so many of a hundred messages; ends what was begun before.
    pub fn begin(&self, percent: u8) -> Receiver<Sample> {
        let (queue, samples) = bounded(QUEUE_MAX);
        let trial = Trial { percent: u64::from(percent), seen: AtomicU64::new(0), queue };
        self.0.store(Some(Arc::new(trial)));
        samples
    }

    /// Hands nothing on any more; the other end is told.
    pub fn end(&self) {
        self.0.store(None);
    }

    /// Hands a message on, if it is one of those.
    pub(super) fn notice(&self, work: &Work, verdict: &Verdict, limits: Limits) {
        let trial = self.0.load();
        let Some(trial) = trial.as_ref().filter(|_| work.raw.len() <= BYTES_MAX) else { return };
        let number = trial.seen.fetch_add(1, Ordering::Relaxed);
        // Evenly spread: as often as the product passes a hundred.
        if (number + 1) * trial.percent / 100 == number * trial.percent / 100 {
            return;
        }
        let sample = Sample {
            id: work.id.clone(),
            raw: work.raw.clone(),
            envelope: work.envelope.clone(),
            facts: work.facts.clone(),
            verdict: verdict.clone(),
            limits,
        };
        if trial.queue.try_send(sample).is_err() {
            tracing::trace!("a message was not tried by the new version: too many wait");
        }
    }
}
