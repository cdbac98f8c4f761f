//! A body that comes no faster than a rule says.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep_until};

use crate::judge::{Inspect, Step};

/// Longest wait for one piece: a client and a server that wait longer take the other for gone.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Passes everything on, each piece when its time has come.
#[derive(Debug)]
pub(crate) struct RateLimit {
    bytes_per_second: u64,
    /// When the next piece may go.
    due: Instant,
}

impl RateLimit {
    /// A limit in bytes a second; 0 counts as 1.
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        RateLimit { bytes_per_second: bytes_per_second.max(1), due: Instant::now() }
    }

    /// How long the next piece waits for one of so many bytes.
    fn pause_after(&self, bytes: usize) -> Duration {
        let seconds = bytes as f64 / self.bytes_per_second as f64;
        Duration::from_secs_f64(seconds).min(WAIT_MAX)
    }
}

impl Inspect for RateLimit {
    fn data(&mut self, data: Bytes) -> BoxFuture<'_, Step> {
        Box::pin(async move {
            sleep_until(self.due).await;
            // A piece that is late does not let the next ones come in a burst.
            self.due = Instant::now() + self.pause_after(data.len());
            Step::Pass(data)
        })
    }

    fn end(&mut self) -> BoxFuture<'_, Step> {
        Box::pin(async { Step::Hold })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_their_time() {
        let limit = RateLimit::new(1_000);
        assert_eq!(limit.pause_after(500), Duration::from_millis(500));
        assert_eq!(limit.pause_after(1 << 20), WAIT_MAX);
        assert_eq!(RateLimit::new(0).pause_after(0), Duration::ZERO);
    }
}
