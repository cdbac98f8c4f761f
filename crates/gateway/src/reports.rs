//! Daily reports to other domains: what came in their name (RFC 7489 section 7.2), and how mail to them was
//! encrypted (RFC 8460).
//!
//! ```text
//! message log ─▶ dmarc: a tally a policy domain ─▶ destinations (asked of the DNS) ─▶ xml ─▶ mail ─▶ queue
//! connections ─▶ tls_outcomes: counts a domain ──▶ tls (asked of the DNS) ─▶ JSON ─▶ mail ─▶ queue, or post
//! ```

pub mod destinations;
pub mod dmarc;
pub mod mail;
pub mod post;
pub mod round;
pub mod tls;
pub mod tls_outcomes;
pub mod tls_round;
pub mod xml;

use gauntlet_store::log::{day_name, day_number};

use crate::config::{Config, ReportSettings};

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
        day_number(text).map(Day)
    }

    /// As `2026-11-21`.
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

/// Who reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporter {
    /// Name of the organisation.
    pub organisation: String,
    /// From address.
    pub from: String,
    /// Our host.
    pub host: String,
}

impl Reporter {
    /// As these settings say.
    pub fn of(config: &Config, settings: &ReportSettings) -> Self {
        let host = config.node.host_name();
        let or = |text: &str, otherwise: String| match text {
            "" => otherwise,
            text => text.to_owned(),
        };
        Reporter {
            organisation: or(&settings.organisation, host.clone()),
            from: or(&settings.from, format!("postmaster@{host}")),
            host,
        }
    }
}
