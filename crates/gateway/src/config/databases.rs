//! How much the node takes from databases of others.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits of a question to a PostgreSQL server. A database is asked over one connection, which ends
/// with the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PostgresSettings {
    /// Seconds until the connection is open, encrypted and signed in.
    pub connect_seconds_max: u64,
    /// Seconds from the query to its last row.
    pub query_seconds_max: u64,
    /// Bytes of an answer, all rows together.
    pub answer_bytes_max: u64,
    /// Rows of an answer.
    pub rows_max: u64,
}

impl Default for PostgresSettings {
    fn default() -> Self {
        PostgresSettings {
            connect_seconds_max: 15,
            query_seconds_max: 15,
            answer_bytes_max: 1 << 30,
            rows_max: 5_000_000,
        }
    }
}

impl PostgresSettings {
    pub(crate) fn connect_max(&self) -> Duration {
        Duration::from_secs(self.connect_seconds_max)
    }

    pub(crate) fn query_max(&self) -> Duration {
        Duration::from_secs(self.query_seconds_max)
    }

    /// Settings and their ranges: none may switch a limit off.
    pub(super) fn ranges(&self) -> [(&'static str, u64, u64); 4] {
        [
            ("postgres.connect_seconds_max", self.connect_seconds_max, 3_600),
            ("postgres.query_seconds_max", self.query_seconds_max, 3_600),
            ("postgres.answer_bytes_max", self.answer_bytes_max, 1 << 40),
            ("postgres.rows_max", self.rows_max, 1_000_000_000),
        ]
    }
}
