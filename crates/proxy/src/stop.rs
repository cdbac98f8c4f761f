//! A graceful stop: first nothing new, then nothing at all.

use tokio::sync::watch;

/// How far a stop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// No stop.
    Running,
    /// What has begun may end.
    Draining,
    /// Everything ends.
    Ended,
}

/// Tells tasks of a stop.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<Phase>);

impl Stop {
    /// What tells, and what is told.
    pub(crate) fn new() -> (watch::Sender<Phase>, Stop) {
        let (sender, receiver) = watch::channel(Phase::Running);
        (sender, Stop(receiver))
    }

    /// Returns when this phase has begun.
    pub(crate) async fn begun(mut self, phase: Phase) {
        // An error: the server is gone, and everything ends.
        let _ = self.0.wait_for(|now| *now >= phase).await;
    }
}
