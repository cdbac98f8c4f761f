//! The node's clock, and dates as mail writes them.

pub mod steady;

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

/// A date of RFC 5322 section 3.3 in UTC, e.g. `Sat, 21 Nov 2026 04:05:06 +0000`.
pub fn rfc5322(unix_ms: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = unix_ms.div_euclid(1_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 1970 to a civil date: count years from March, in eras of 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = era * 400 + year_of_era + i64::from(month < 2);
    let name = |names: &[&'static str], i: i64| {
        usize::try_from(i).ok().and_then(|i| names.get(i)).copied().unwrap_or_default()
    };
    format!(
        "{}, {day} {} {year} {:02}:{:02}:{:02} +0000",
        name(&DAYS, days.rem_euclid(7)),
        name(&MONTHS, month),
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

/// Milliseconds of a day.
pub(crate) const DAY_MS: i64 = 86_400_000;
/// Milliseconds of an hour.
pub(crate) const HOUR_MS: i64 = 3_600_000;

/// A day of UTC, since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(pub i64);

impl Day {
    /// The day of a Unix time in milliseconds.
    pub fn of(unix_ms: i64) -> Self {
        Day(unix_ms.div_euclid(DAY_MS))
    }

    /// The day before.
    #[must_use]
    pub fn before(self) -> Self {
        Day(self.0 - 1)
    }

    /// Reads `2026-11-21`.
    pub fn parse(text: &str) -> Option<Self> {
        gauntlet_store::log::day_number(text).map(Day)
    }

    /// As `2026-11-21`.
    pub fn name(self) -> String {
        gauntlet_store::log::day_name(self.0)
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

    #[test]
    fn known_dates() {
        assert_eq!(rfc5322(0), "Thu, 1 Jan 1970 00:00:00 +0000");
        assert_eq!(rfc5322(951_782_400_000), "Tue, 29 Feb 2000 00:00:00 +0000");
        assert_eq!(rfc5322(1_795_234_751_000), "Sat, 21 Nov 2026 04:19:11 +0000");
        assert_eq!(rfc5322(-1), "Wed, 31 Dec 1969 23:59:59 +0000");
    }
}
