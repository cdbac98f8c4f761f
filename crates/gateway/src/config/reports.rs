//! Reports to other domains: what came in their name, and how mail to them was encrypted.

use serde::{Deserialize, Serialize};

/// Daily reports of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReportSettings {
    /// Send them every day.
    pub enabled: bool,
    /// Hour of the day after, UTC, from which on they are sent.
    pub hour: u8,
    /// Who reports; empty takes the node's name.
    pub organisation: String,
    /// From address; empty takes postmaster at the node's name.
    pub from: String,
    /// Reports of one day.
    pub reports_max: usize,
    /// Lines of one report; what does not fit is counted in the last.
    pub rows_max: usize,
    /// Bytes of one report, compressed.
    pub bytes_max: u64,
    /// Messages of one day that are looked at.
    pub messages_max: u64,
}

impl Default for ReportSettings {
    fn default() -> Self {
        ReportSettings {
            enabled: false,
            hour: 1,
            organisation: String::new(),
            from: String::new(),
            reports_max: 1_000,
            rows_max: 10_000,
            bytes_max: 10_485_760,
            messages_max: 1_000_000,
        }
    }
}
