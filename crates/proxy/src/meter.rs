//! What a request uses, told as it passes: for quotas.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::request::WebRequest;

/// Counts what a request uses. It is asked by the thread that serves the client's socket.
pub trait Meter: Send + Sync {
    /// Bytes of bodies have passed, one way or the other; 0 says that something is going on.
    fn passed(&self, bytes: u64);

    /// Something that the request counts for is used up now: whoever holds a connection open asks
    /// the judge whether it may go on.
    fn is_used_up(&self) -> bool;
}

/// A busy response tells its meter after so many bytes,
const BYTES_STEP: u64 = 256 * 1024;
/// and a slow one after so long.
const TIME_STEP: Duration = Duration::from_secs(10);

/// A meter that is told in larger steps, and in the end.
pub(crate) struct Metered {
    pub(crate) meter: Arc<dyn Meter>,
    /// What is metered.
    pub(crate) web: Box<WebRequest>,
    pending: u64,
    told: Instant,
}

impl Metered {
    pub(crate) fn new(meter: Arc<dyn Meter>, web: &WebRequest) -> Self {
        Metered { meter, web: Box::new(web.clone()), pending: 0, told: Instant::now() }
    }

    pub(crate) fn passed(&mut self, bytes: u64) {
        self.pending += bytes;
        if self.pending >= BYTES_STEP || self.told.elapsed() >= TIME_STEP {
            self.meter.passed(std::mem::take(&mut self.pending));
            self.told = Instant::now();
        }
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        if self.pending > 0 {
            self.meter.passed(self.pending);
        }
    }
}
