//! Settings of the way in: how often clients may come, and who has to wait.

use serde::{Deserialize, Serialize};

/// How often clients may come; 0 sets no limit. What is over gets 421 or 450 and may come again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateSettings {
    /// Sessions a minute from one address.
    pub client_connections_per_minute: u32,
    /// Sessions a minute from one network (/24, /64).
    pub network_connections_per_minute: u32,
    /// Messages an hour from one address.
    pub client_messages_per_hour: u32,
    /// Messages an hour from one network (/24, /64).
    pub network_messages_per_hour: u32,
    /// Messages an hour from one envelope sender.
    pub sender_messages_per_hour: u32,
}

impl Default for RateSettings {
    fn default() -> Self {
        RateSettings {
            client_connections_per_minute: 120,
            network_connections_per_minute: 600,
            client_messages_per_hour: 6_000,
            network_messages_per_hour: 30_000,
            sender_messages_per_hour: 0,
        }
    }
}

/// Greylisting: strangers are asked to come again, which mail servers do and much malware does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GreylistSettings {
    /// Do it on inbound listeners.
    pub enabled: bool,
    /// Seconds that a stranger waits.
    pub wait_seconds: u32,
    /// Seconds within which it must come again.
    pub window_seconds: u32,
    /// Seconds for which it is no stranger from then on.
    pub pass_seconds: u32,
}

impl Default for GreylistSettings {
    fn default() -> Self {
        GreylistSettings {
            enabled: false,
            wait_seconds: 300,
            window_seconds: 2 * 86_400,
            pass_seconds: 36 * 86_400,
        }
    }
}
