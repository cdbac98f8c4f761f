//! One watch for every time limit of a connection: it ends when nothing has moved for as long as
//! the present stage allows.
//!
//! Whatever moves (bytes of a socket, pieces of a body) touches it; each stage sets its own limit.
//! A slow sender, a slow reader and a silent server are then all the same case.
//!
//! A stage changes several times a request. Who waits is not woken for that unless the new end is
//! earlier than the one that it sleeps until: it looks anew when it wakes by itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// When something last moved, and how long nothing may move.
#[derive(Debug)]
pub(crate) struct Progress {
    start: Instant,
    last_ms: AtomicU64,
    limit_ms: AtomicU64,
    has_stalled: AtomicBool,
    /// Until when [`Progress::stalled`] sleeps.
    sleeps_until_ms: AtomicU64,
    changed: Notify,
    within: Option<Box<dyn Within>>,
}

/// What has a watch of its own, and moves when this moves: the connection of a stream.
pub(crate) trait Within: std::fmt::Debug + Send + Sync {
    /// Something moved.
    fn touch(&self);
}

impl Progress {
    pub(crate) fn new(limit: Duration) -> Self {
        Progress {
            start: Instant::now(),
            last_ms: AtomicU64::new(0),
            limit_ms: AtomicU64::new(milliseconds(limit)),
            has_stalled: AtomicBool::new(false),
            sleeps_until_ms: AtomicU64::new(u64::MAX),
            changed: Notify::new(),
            within: None,
        }
    }

    /// The same within something else, which it holds as long as it lives.
    pub(crate) fn within(mut self, within: Box<dyn Within>) -> Self {
        self.within = Some(within);
        self
    }

    /// Something moved.
    pub(crate) fn touch(&self) {
        self.last_ms.store(milliseconds(self.start.elapsed()), Ordering::Relaxed);
        if let Some(within) = &self.within {
            within.touch();
        }
    }

    /// Begins a stage.
    pub(crate) fn set_limit(&self, limit: Duration) {
        let (now, limit) = (milliseconds(self.start.elapsed()), milliseconds(limit));
        self.last_ms.store(now, Ordering::Relaxed);
        // In one order with the two of `stalled`: either it sees this limit, or its sleep is seen
        // here.
        self.limit_ms.store(limit, Ordering::SeqCst);
        if now.saturating_add(limit) < self.sleeps_until_ms.load(Ordering::SeqCst) {
            self.changed.notify_one();
        }
    }

    /// Nothing more is wanted: the connection ends now.
    pub(crate) fn end(&self) {
        self.set_limit(Duration::ZERO);
    }

    /// [`Progress::stalled`] has returned.
    pub(crate) fn has_stalled(&self) -> bool {
        self.has_stalled.load(Ordering::Relaxed)
    }

    fn end_ms(&self) -> u64 {
        let limit = self.limit_ms.load(Ordering::SeqCst);
        self.last_ms.load(Ordering::Relaxed).saturating_add(limit)
    }

    /// Returns when nothing has moved for the limit. One task may wait at a time.
    pub(crate) async fn stalled(&self) {
        loop {
            let end = self.end_ms();
            self.sleeps_until_ms.store(end, Ordering::SeqCst);
            if self.end_ms() < end {
                continue;
            }
            let deadline = self.start + Duration::from_millis(end);
            if Instant::now() >= deadline {
                self.has_stalled.store(true, Ordering::Relaxed);
                return;
            }
            tokio::select! {
                () = sleep_until(deadline) => {}
                () = self.changed.notified() => {}
            }
        }
    }
}

/// A thousand years are enough for any limit, and add up without overflow.
const MILLISECONDS_MAX: u64 = 1000 * 366 * 86_400_000;

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).min(MILLISECONDS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn an_earlier_end_wakes_who_waits_and_a_later_one_is_kept() {
        let progress = Arc::new(Progress::new(Duration::from_secs(3600)));
        let waiting = Arc::clone(&progress);
        let stalled = tokio::spawn(async move { waiting.stalled().await });
        tokio::time::sleep(Duration::from_millis(20)).await;
        progress.set_limit(Duration::from_millis(50));
        // Later than what is slept until: nobody is woken, and it counts all the same.
        let begun = Instant::now();
        progress.set_limit(Duration::from_millis(300));
        let longest = Duration::from_secs(60);
        tokio::time::timeout(longest, stalled).await.expect("it was woken").unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(290), "{:?}", begun.elapsed());
        assert!(progress.has_stalled());
        progress.end();
        progress.stalled().await;
    }
}
