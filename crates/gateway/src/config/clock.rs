//! How far the system's clock is believed.

use serde::{Deserialize, Serialize};

/// How large a step of the system's clock may be before nothing is deleted for its age.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClockSettings {
    /// Seconds that the clock may step ahead of the time that has passed, or that the node may have
    /// been off; further, nothing is deleted for its age until an administrator says that the clock
    /// is right. 0 believes the clock whatever it does.
    pub jump_seconds_max: u64,
}

impl Default for ClockSettings {
    fn default() -> Self {
        ClockSettings { jump_seconds_max: super::DAY_SECONDS }
    }
}
