//! How fast a body comes.

use std::time::Duration;

use tokio::time::Instant;

/// The least rate of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeastRate {
    /// Bytes a second; 0 sets no rate.
    pub(super) bytes_per_second: u64,
    /// Time over which the rate is taken.
    pub(super) over: Duration,
}

/// Bytes of a body over the last while. Counted over a while rather than from the body's beginning:
/// who sends much at once could then be silent for long.
#[derive(Debug)]
pub(super) struct Pace {
    since: Instant,
    bytes: u64,
}

impl Pace {
    pub(super) fn begin() -> Self {
        Pace { since: Instant::now(), bytes: 0 }
    }

    /// So many bytes of the body came.
    pub(super) fn count(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// How long until it is to be looked at again.
    pub(super) fn left(&self, least: LeastRate) -> Duration {
        least.over.saturating_sub(self.since.elapsed()).max(Duration::from_millis(10))
    }

    /// Too few bytes came over the while that ends now. At its end a new one begins.
    pub(super) fn is_too_slow(&mut self, least: LeastRate) -> bool {
        let spent = self.since.elapsed();
        if least.bytes_per_second == 0 || spent < least.over {
            return false;
        }
        let wanted = u128::from(least.bytes_per_second) * spent.as_millis() / 1_000;
        let slow = u128::from(self.bytes) < wanted;
        *self = Pace::begin();
        slow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_while_is_judged_by_itself() {
        let at = |seconds: u64, bytes| Pace {
            since: Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap(),
            bytes,
        };
        let least = LeastRate { bytes_per_second: 500, over: Duration::from_secs(30) };
        assert!(!at(29, 0).is_too_slow(least), "not over yet");
        assert!(at(30, 14_000).is_too_slow(least));
        let mut pace = at(30, 1_000_000);
        assert!(!pace.is_too_slow(least) && pace.bytes == 0, "what came before counts no more");
        assert!(!at(99, 0).is_too_slow(LeastRate { bytes_per_second: 0, ..least }));
    }
}
