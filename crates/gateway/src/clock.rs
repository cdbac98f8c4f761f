//! The node's clock, and the days of its reports.

pub mod steady;

use gauntlet_mail::date::{DAY_MS, day_name, day_number};
pub use gauntlet_store::Clock;

/// Unix time of the system in milliseconds: for commands that have no [`Clock`].
pub fn now_ms() -> i64 {
    Clock::system().unix_ms()
}

/// How wrong the system's clock is at most, in milliseconds; none if it is not synchronised, or if
/// that is unknown.
pub fn error_ms() -> Option<u64> {
    // SAFETY: all zeros is a valid `timex`: integers only. Modes 0 asks and changes nothing.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is a plain C struct that lives through the call.
    let clock = unsafe { libc::adjtimex(&raw mut state) };
    (clock >= 0).then(|| error_of(&state)).flatten()
}

/// The same, read from what the kernel says.
fn error_of(state: &libc::timex) -> Option<u64> {
    // The kernel's estimate, in microseconds.
    let error = u64::try_from(state.maxerror / 1_000).ok()?;
    (state.status & libc::STA_UNSYNC == 0).then_some(error)
}

/// A day of UTC, since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(pub i64);

impl Day {
    /// The day of a Unix time in milliseconds.
    pub fn of(unix_ms: i64) -> Self {
        Day(unix_ms.div_euclid(DAY_MS))
    }

    /// The day before, in UTC; a day has 86,400 seconds.
    #[must_use]
    pub fn before(self) -> Self {
        Day(self.0 - 1)
    }

    /// Reads `2026-11-21`; none if there is no such day.
    pub fn parse(text: &str) -> Option<Self> {
        day_number(text).map(Day)
    }

    /// As `2026-11-21`, which [`Day::parse`] reads.
    pub fn name(self) -> String {
        day_name(self.0)
    }

    /// Its first millisecond, Unix time.
    pub fn begin_ms(self) -> i64 {
        self.0 * DAY_MS
    }

    /// The first millisecond after it.
    pub fn end_ms(self) -> i64 {
        (self.0 + 1) * DAY_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_not_synchronised_has_no_known_error() {
        // SAFETY: all zeros is a valid `timex`: integers only.
        let mut state: libc::timex = unsafe { std::mem::zeroed() };
        (state.maxerror, state.status) = (12_345, libc::STA_PLL);
        assert_eq!(error_of(&state), Some(12));
        state.status |= libc::STA_UNSYNC;
        assert_eq!(error_of(&state), None);
        (state.maxerror, state.status) = (-5_000, 0);
        assert_eq!(error_of(&state), None);
    }
}
