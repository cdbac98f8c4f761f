//! State that nodes share: corrections, signatures, histories of senders, greylist, rates, users.
//!
//! ```text
//! part ─▶ batch ─▶ shared_batch ─▶ batches of others ─▶ part
//! own     compressed  PostgreSQL      in order            merged by it
//! ```
//!
//! A part of the node (`store::sharing`) decides from its own durable state and gives out what
//! changed. Here that becomes rows of one table, and the rows of other nodes go to the part. A row
//! is never changed; it goes after a time that its kind says ([`kept_seconds`]). What a row means,
//! and that it may come twice, only its part knows.
//!
//! Rows of a node are numbered by the database's clock, in microseconds, and always ascend: a node
//! inserts while it holds the lock of its row in `node`, so none appears below a number that was
//! read. Other nodes read each node's rows from a cursor of their own.

use std::collections::BTreeMap;

use gauntlet_store::sharing::SharedKind;

mod exchange;
mod frame;
mod rows;

pub use exchange::{Exchange, SharedParts};
pub use frame::{pack, unpack};
pub(crate) use rows::TABLES;
pub use rows::drop_old;

const DAY_SECONDS: u64 = 86_400;

/// How the exchange of one kind is.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct KindState {
    /// When all that other nodes had sent was taken last, in Unix milliseconds; 0: not yet.
    pub current_ms: i64,
    /// Batches sent since the start, and their bytes as stored.
    pub sent: (u64, u64),
    /// Batches taken since the start, and their bytes as stored.
    pub taken: (u64, u64),
    /// More waits than went out with the last batch.
    pub is_behind: bool,
    /// Why the part could not give or take last.
    pub error: String,
}

/// How the exchange is, by the name of the kind.
pub type SharedStates = BTreeMap<&'static str, KindState>;

/// How long rows of a kind are kept for nodes that are away or join later. `days` is the setting
/// for what fades: senders and greylist.
pub fn kept_seconds(kind: SharedKind, days: u32) -> u64 {
    match kind {
        // A node that joins learns all that still counts.
        SharedKind::Corrections | SharedKind::Signatures | SharedKind::Users => 400 * DAY_SECONDS,
        SharedKind::Senders | SharedKind::Greylist => u64::from(days) * DAY_SECONDS,
        // Twice the longest window.
        SharedKind::Rates => 2 * 3_600,
    }
}
