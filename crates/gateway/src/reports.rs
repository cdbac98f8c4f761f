//! Daily reports to other domains: what came in their name (RFC 7489 section 7.2), and how mail to
//! them was encrypted (RFC 8460).
//!
//! ```text
//! message log ─▶ dmarc: a tally a policy domain ─▶ destinations (asked of the DNS) ─▶ xml ─▶ mail
//! ─▶ queue connections ─▶ tls_outcomes: counts a domain ──▶ tls (asked of the DNS) ─▶ JSON ─▶ mail
//! ─▶ queue, or post
//! ```

pub mod destinations;
pub mod dmarc;
pub mod mail;
pub mod post;
pub mod round;
pub mod tls;
pub mod tls_round;
pub mod xml;

use crate::config::{Config, ReportSettings};

/// Who sends reports, as they name themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporter {
    /// Name of the organisation.
    pub organisation: String,
    /// Address in the From field of reports.
    pub from: String,
    /// Host name of this node.
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
