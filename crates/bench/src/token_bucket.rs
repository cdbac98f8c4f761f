//! A link that is slower than the machine: a token bucket, shared by all connections of a
//! direction.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that pass at once.
pub const PIECE_BYTES: usize = 4 << 10;
/// Bytes/s of an E1 line in each direction, as MailMarshal's study limited its router.
pub const E1_BYTES: f64 = 250_000.0;
/// Time whose bytes may pass in a burst.
const BURST: Duration = Duration::from_millis(50);

/// So many bytes a second, in a burst of 50 ms at most.
#[derive(Debug)]
pub struct TokenBucket {
    rate: f64,
    /// When all that was taken will have passed.
    free: Mutex<Instant>,
}

impl TokenBucket {
    /// A link of so many bytes/s; at least one.
    pub fn new(rate: f64) -> Self {
        TokenBucket { rate: rate.max(1.0), free: Mutex::new(Instant::now()) }
    }

    /// Takes bytes; how long to wait until they have passed.
    fn reserve(&self, bytes: usize, now: Instant) -> Duration {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        *free = (*free).max(earliest) + Duration::from_secs_f64(bytes as f64 / self.rate);
        free.saturating_duration_since(now)
    }

    /// Waits until the bytes have passed.
    pub async fn take(&self, bytes: usize) {
        let wait = self.reserve(bytes, Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_at_the_rate() {
        let bucket = TokenBucket::new(E1_BYTES);
        let start = Instant::now() + Duration::from_secs(1);
        assert_eq!(bucket.reserve(12_500, start), Duration::ZERO, "the burst");
        assert_eq!(bucket.reserve(250_000, start), Duration::from_secs(1));
        let later = start + Duration::from_secs(60);
        assert_eq!(bucket.reserve(25_000, later), Duration::from_millis(50), "no more is saved up");
    }
}
