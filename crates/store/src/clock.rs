//! The time, handed in where it decides something.
//!
//! Retries, expiry, pauses and caches ask a [`Clock`] that they were given. A node runs on the
//! system's clocks; a test holds a clock that only moves when it says so, and waits for nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time. Clones show the same time.
#[derive(Debug, Clone, Default)]
pub struct Clock(Option<Arc<Manual>>);

/// A clock that a test moves.
#[derive(Debug)]
struct Manual {
    begin: Instant,
    begin_unix_ms: i64,
    /// Milliseconds since it began.
    passed_ms: AtomicU64,
}

impl Manual {
    fn passed(&self) -> Duration {
        Duration::from_millis(self.passed_ms.load(Ordering::Relaxed))
    }
}

impl Clock {
    /// The operating system's clocks, wall and monotonic.
    pub fn system() -> Self {
        Clock(None)
    }

    /// A clock for tests: it shows this Unix time in milliseconds until [`Clock::advance`] moves
    /// it.
    pub fn manual(unix_ms: i64) -> Self {
        let passed_ms = AtomicU64::new(0);
        Clock(Some(Arc::new(Manual { begin: Instant::now(), begin_unix_ms: unix_ms, passed_ms })))
    }

    /// Moves a manual clock forward, by whole milliseconds. The system's clocks cannot be moved:
    /// nothing happens.
    pub fn advance(&self, by: Duration) {
        if let Some(manual) = &self.0 {
            let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
            manual.passed_ms.fetch_add(ms, Ordering::Relaxed);
        }
    }

    /// The monotonic time: for durations, which a step of the wall clock must not change.
    pub fn now(&self) -> Instant {
        self.0.as_ref().map_or_else(Instant::now, |manual| manual.begin + manual.passed())
    }

    /// How long ago this was; zero if it is still to come.
    pub fn elapsed(&self, since: Instant) -> Duration {
        self.now().saturating_duration_since(since)
    }

    /// The wall clock: Unix time in milliseconds.
    pub fn unix_ms(&self) -> i64 {
        let milliseconds = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        match &self.0 {
            None => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                milliseconds(since.unwrap_or_default())
            }
            Some(manual) => manual.begin_unix_ms.saturating_add(milliseconds(manual.passed())),
        }
    }

    /// The wall clock: Unix time in seconds.
    pub fn unix_s(&self) -> i64 {
        self.unix_ms() / 1_000
    }

    /// Milliseconds that the system has run, also while it was suspended; no one can set this
    /// clock.
    pub fn running_ms(&self) -> i64 {
        match &self.0 {
            None => boot_time_ms(),
            Some(manual) => i64::try_from(manual.passed().as_millis()).unwrap_or(i64::MAX),
        }
    }
}

fn boot_time_ms() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a plain C struct that lives through the call, which fills it.
    if unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) } != 0 {
        return 0;
    }
    now.tv_sec.saturating_mul(1_000).saturating_add(now.tv_nsec / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let clock = Clock::manual(1_000);
        let (shared, begin) = (clock.clone(), clock.now());
        assert_eq!((clock.unix_ms(), clock.elapsed(begin)), (1_000, Duration::ZERO));
        clock.advance(Duration::from_secs(2));
        assert_eq!((shared.unix_ms(), shared.unix_s()), (3_000, 3));
        assert_eq!(shared.elapsed(begin), Duration::from_secs(2));
        assert_eq!(shared.running_ms(), 2_000);
    }

    #[test]
    fn the_clock_of_the_system_cannot_be_moved() {
        let clock = Clock::system();
        let before = clock.unix_ms();
        clock.advance(Duration::from_secs(1_000_000));
        assert!(clock.unix_ms() - before < 500_000_000);
        assert!(clock.running_ms() > 0);
    }
}
