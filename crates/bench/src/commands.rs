//! What the commands that measure have in common.

use std::time::Duration;

/// Exit code of a measurement that says nothing about the server.
pub const INVALID: u8 = 3;

/// A time in seconds, given with an option of this name.
///
/// # Errors
/// If it is negative, not finite or too long; the error says the option and the value.
pub fn seconds(name: &str, value: f64) -> anyhow::Result<Duration> {
    Duration::try_from_secs_f64(value).map_err(|error| anyhow::anyhow!("{name} {value}: {error}"))
}
