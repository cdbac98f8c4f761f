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

    /// Hands a message of so many bytes on, if it is one of those.
    pub(super) fn notice(&self, bytes: usize, sample: impl FnOnce() -> Sample) {
        let trial = self.0.load();
        let Some(trial) = trial.as_ref().filter(|_| bytes <= BYTES_MAX) else { return };
        let number = trial.seen.fetch_add(1, Ordering::Relaxed);
        // Evenly spread: as often as the product passes a hundred.
        if (number + 1) * trial.percent / 100 == number * trial.percent / 100 {
            return;
        }
        if trial.queue.try_send(sample()).is_err() {
            tracing::trace!("a message was not tried by the new version: too many wait");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Sample {
        Sample {
            id: String::new(),
            raw: Bytes::new(),
            envelope: Envelope::default(),
            facts: Facts::default(),
            verdict: Verdict::default(),
            limits: Limits::default(),
        }
    }

    #[test]
    fn a_share_of_the_mail_is_handed_on_and_nothing_waits() {
        let shadow = Shadow::default();
        shadow.notice(1, || unreachable!("nobody listens"));
        let samples = shadow.begin(5);
        for _ in 0..100 {
            shadow.notice(1, sample);
        }
        assert_eq!(samples.try_iter().count(), 5);
        shadow.notice(BYTES_MAX + 1, || unreachable!("too large"));
        let all = shadow.begin(100);
        for _ in 0..1_000 {
            shadow.notice(1, sample);
        }
        assert_eq!(all.try_iter().count(), QUEUE_MAX);
        assert!(samples.recv().is_err(), "the trial before has ended");
        shadow.end();
        assert!(all.recv().is_err());
    }
}
