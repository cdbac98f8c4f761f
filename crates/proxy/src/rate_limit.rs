//! A body that comes no faster than a rule says.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep_until};

use crate::judge::{Inspect, Step};
use crate::stream::joined;

/// Passes everything on, in pieces of a second's worth at most, each when its time has come. So no
/// wait is so long that a client or a server takes the other for gone.
#[derive(Debug)]
pub(crate) struct RateLimit {
    bytes_per_second: u64,
    /// When the next piece may go.
    due: Instant,
    /// What came and has not gone.
    rest: Bytes,
}

impl RateLimit {
    /// A limit in bytes a second; 0 counts as 1.
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        let bytes_per_second = bytes_per_second.max(1);
        RateLimit { bytes_per_second, due: Instant::now(), rest: Bytes::new() }
    }

    /// How long the next piece waits for one of so many bytes.
    fn pause_after(&self, bytes: usize) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64)
    }

    /// What goes next: what comes at once does not pass at once.
    fn piece(&mut self) -> Bytes {
        let most = usize::try_from(self.bytes_per_second).unwrap_or(usize::MAX);
        self.rest.split_to(most.min(self.rest.len()))
    }

    async fn next(&mut self) -> Step {
        sleep_until(self.due).await;
        let piece = self.piece();
        // A piece that is late does not let the next ones come in a burst.
        self.due = Instant::now() + self.pause_after(piece.len());
        Step::Pass(piece)
    }
}

impl Inspect for RateLimit {
    fn data(&mut self, data: Bytes) -> BoxFuture<'_, Step> {
        self.rest = joined(std::mem::take(&mut self.rest), data);
        Box::pin(self.next())
    }

    fn end(&mut self) -> BoxFuture<'_, Step> {
        Box::pin(async {
            match self.rest.is_empty() {
                true => Step::Hold,
                false => self.next().await,
            }
        })
    }

    fn has_more(&self) -> bool {
        !self.rest.is_empty()
    }

    fn is_waiting(&self) -> bool {
        self.has_more()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_piece_has_more_than_a_second_s_worth_not_even_the_first() {
        let mut limit = RateLimit::new(1_000);
        let Step::Pass(first) = limit.data(vec![7; 3_500].into()).await else { panic!() };
        assert!(limit.has_more() && limit.is_waiting());
        let mut sizes = vec![first.len()];
        while limit.has_more() {
            sizes.push(limit.piece().len());
        }
        assert_eq!(sizes, [1_000, 1_000, 1_000, 500]);
        assert_eq!(limit.end().await, Step::Hold);
    }

    #[test]
    fn bytes_take_their_time() {
        let limit = RateLimit::new(1_000);
        assert_eq!(limit.pause_after(500), Duration::from_millis(500));
        assert_eq!(RateLimit::new(0).pause_after(0), Duration::ZERO);
    }
}
