//! A graceful stop: first nothing new, then nothing at all.

use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// How long connections that are told to end may take to say so.
const GOODBYE: Duration = Duration::from_secs(1);

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

/// Lets what has begun end within this time, and ends the rest. Whatever is under way holds a
/// sender of `all_gone`, over which nothing is ever sent.
pub(crate) async fn drain(
    phase: watch::Sender<Phase>,
    stop_max: Duration,
    mut all_gone: mpsc::Receiver<()>,
) {
    let _ = phase.send(Phase::Draining);
    let _ = timeout(stop_max, all_gone.recv()).await;
    let _ = phase.send(Phase::Ended);
    let _ = timeout(GOODBYE, all_gone.recv()).await;
}
