//! The array that a node belongs to, as pages and the API show it.

use gauntlet_store::quarantine::{ReleaseOrder, State};
use serde::Serialize;

use super::QueuedMail;

/// An array of nodes.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ArrayView {
    /// Where its database is: `host:port/database`.
    pub server: String,
    /// The database is there.
    pub connected: bool,
    /// Unix milliseconds since when it is so, or is not.
    pub since_ms: i64,
    /// Why it is not; empty if it is.
    pub error: String,
    /// Its nodes, by name; empty while the database is away.
    pub nodes: Vec<ArrayNode>,
}

/// A node of an array.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ArrayNode {
    /// Its name.
    pub name: String,
    /// Its group; empty for none.
    pub group: String,
    /// `active`, `draining`, `silent` (it told nothing for a minute) or `removed`.
    pub state: String,
    /// When it last told of itself, in Unix milliseconds of the database's clock.
    pub seen_ms: i64,
    /// Milliseconds by which its clock is ahead of the database's.
    pub clock_ahead_ms: i64,
    /// Version of its program.
    pub program: String,
    /// Messages in its queue.
    pub queued: u64,
    /// Its open sessions.
    pub sessions: u64,
    /// Changes of its log that are not in the array yet.
    pub behind: u64,
    /// When the oldest message among them was received, in Unix milliseconds.
    pub behind_since_ms: Option<i64>,
    /// Number of the array's policy in force there; 0 for its own.
    pub policy: i64,
    /// When the node took it over, in Unix milliseconds by its own clock; 0: not known.
    pub policy_since_ms: i64,
    /// Why a newer one is not.
    pub policy_error: String,
    /// Number of the array's settings in force there; 0 for none.
    pub settings: i64,
    /// When the node took them over, in Unix milliseconds by its own clock; 0: not known.
    pub settings_since_ms: i64,
    /// Why newer ones are not.
    pub settings_error: String,
    /// When the node had all that others had sent of users and lists, in Unix milliseconds by its
    /// own clock; 0: not since it was started. None where they are not shared.
    pub lists_ms: Option<i64>,
    /// What waits in its queue after a failed attempt or is held back, the oldest first, as it told
    /// when it was last seen; not all of it. Each has one of its recipients, and
    /// [`QueuedMail::more`] says how many others. Shown where the queue is, since it has addresses.
    #[serde(skip)]
    pub waiting: Vec<QueuedMail>,
}

/// An order to a node about messages of its queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct QueueOrdered {
    /// Name of the node.
    pub node: String,
    /// Number of the order.
    pub order: i64,
    /// The node has carried it out, or refused it; else it does so when it takes it.
    pub is_done: bool,
    /// It could be done.
    pub is_good: bool,
    /// What the node says about it.
    pub outcome: String,
}

/// What is to be done with held mail of another node.
#[derive(Debug, Clone)]
pub enum HeldDecision<'a> {
    /// Release it.
    Release(ReleaseOrder),
    /// Delete it.
    Delete {
        /// Login of the user.
        who: &'a str,
        /// Train the classifier with it as spam first.
        learn: bool,
    },
}

/// An order to a node about a message that it holds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct HeldOrder {
    /// Number of the order.
    pub order: i64,
    /// Name of the node.
    pub node: String,
    /// Id of the item there.
    pub item: String,
    /// `release`, `delete` or `learn`.
    pub action: String,
    /// Who gave it.
    pub who: String,
    /// When, in Unix milliseconds of the database's clock.
    pub made_ms: i64,
    /// When the node answered; none while it has not.
    pub done_ms: Option<i64>,
    /// Whether it could be done.
    pub is_good: bool,
    /// What came of it, in the node's words; empty while it is open.
    pub outcome: String,
    /// What the item was when the node took the order, if it was not held any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<State>,
}
