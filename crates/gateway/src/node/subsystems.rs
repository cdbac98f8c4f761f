//! What runs in the process of a node beside its mail, as far as commands ask for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Node;

/// Membership in an array, the web path, packets: what the gateway knows nothing of, and
/// `gauntlet status` and `/metrics` tell about.
pub trait Subsystems: Send + Sync {
    /// The array that the node belongs to, as it sees it; none if it is alone.
    fn array(&self) -> Option<ArrayStatus>;

    /// Their metrics in Prometheus' text format, each with its `# HELP` and `# TYPE`.
    fn metrics(&self) -> String;
}

/// A node's array, as the node sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ArrayStatus {
    /// Where its database is: `host:port/database`.
    pub server: String,
    /// The database is there, and takes what this node ships.
    pub connected: bool,
    /// Since when it is so, or is not, in Unix milliseconds; 0 before the first try ended.
    pub since_ms: i64,
    /// What is wrong, and what goes on; nothing if nothing is.
    pub problem: Option<String>,
    /// Changes of the log that are not in the array yet.
    pub behind: u64,
    /// Changes of held mail that are not in it yet.
    pub held_behind: u64,
    /// Number of the array's policy in force here; 0 for the node's own.
    pub policy: i64,
    /// When it was taken over, in Unix milliseconds; 0: not known.
    #[serde(default)]
    pub policy_since_ms: i64,
    /// Number of the array's settings in force here; 0 for none.
    pub settings: i64,
    /// When they were taken over, in Unix milliseconds; 0: not known.
    #[serde(default)]
    pub settings_since_ms: i64,
    /// When all that other nodes had sent was taken last, in Unix milliseconds, by the kind of
    /// state that is shared; 0: not since the start. `users` has their lists, too.
    #[serde(default)]
    pub shared_ms: BTreeMap<String, i64>,
}

impl Node {
    /// Names what runs beside the mail, once: later calls change nothing.
    pub fn set_subsystems(&self, subsystems: Box<dyn Subsystems>) {
        let _first_stays = self.subsystems.set(subsystems);
    }

    /// The array that the node belongs to; none if it is alone.
    pub(crate) fn array_status(&self) -> Option<ArrayStatus> {
        self.subsystems.get().and_then(|subsystems| subsystems.array())
    }
}
