//! Configuration of the rate limits.

use std::time::Duration;

/// Rate limits of passwords and codes: `[sign_in]` of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptLimits {
    /// Window in which failures of addresses count.
    pub window: Duration,
    /// Failures of one address (a /64 of IPv6) within the window after which it has to wait.
    pub failures_per_address_max: u32,
    /// Failures of a /24 (a /48 of IPv6) within the window after which all of it has to wait.
    pub failures_per_network_max: u32,
    /// Failures of one login from one address within the window.
    pub failures_per_login_max: u32,
    /// The same from an address that is known for the login: mail programs open many connections at
    /// once, and each counts until it has succeeded.
    pub failures_per_known_login_max: u32,
    /// Failures of a login from everywhere before attempts from unknown addresses are delayed.
    pub account_failures_free: u32,
    /// Longest time between two attempts at a login from unknown addresses.
    pub account_pause_max: Duration,
    /// Wrong second-factor codes before the next is delayed.
    pub code_failures_free: u32,
    /// Longest time between two codes.
    pub code_pause_max: Duration,
    /// How long an address stays known for a login.
    pub known_for: Duration,
}

impl Default for AttemptLimits {
    fn default() -> Self {
        AttemptLimits {
            window: Duration::from_secs(10 * 60),
            failures_per_address_max: 20,
            failures_per_network_max: 100,
            failures_per_login_max: 5,
            failures_per_known_login_max: 20,
            account_failures_free: 10,
            account_pause_max: Duration::from_secs(10 * 60),
            code_failures_free: 5,
            code_pause_max: Duration::from_secs(60 * 60),
            known_for: Duration::from_secs(30 * 24 * 60 * 60),
        }
    }
}
