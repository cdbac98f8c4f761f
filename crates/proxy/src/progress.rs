//! One watch for every time limit of a connection: it ends when nothing has moved for as long as
//! the present stage allows.
//!
//! Whatever moves (bytes of a socket, pieces of a body) touches it; each stage sets its own limit.
//! A slow sender, a slow reader and a silent server are then all the same case.

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
        self.touch();
        self.limit_ms.store(milliseconds(limit), Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Nothing more is wanted: the connection ends now.
    pub(crate) fn end(&self) {
        self.set_limit(Duration::ZERO);
    }

    /// [`Progress::stalled`] has returned.
    pub(crate) fn has_stalled(&self) -> bool {
        self.has_stalled.load(Ordering::Relaxed)
    }

    /// Returns when nothing has moved for the limit. One task may wait at a time.
    pub(crate) async fn stalled(&self) {
        loop {
            let last = self.last_ms.load(Ordering::Relaxed);
            let limit = self.limit_ms.load(Ordering::Relaxed);
            let deadline = self.start + Duration::from_millis(last.saturating_add(limit));
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
