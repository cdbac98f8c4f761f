//! Capabilities that outlive root.

use std::io;

use crate::sys;

/// `CAP_NET_ADMIN`, without which the kernel takes no verdicts.
pub const NET_ADMIN: u32 = 1 << 12;

/// From now on, this thread keeps its capabilities when its user changes.
///
/// # Errors
///
/// If the system refuses.
pub fn keep_capabilities() -> io::Result<()> {
    sys::keep_capabilities(true)
}

/// Leaves this thread and those that it starts these capabilities alone (bits, of the first 32).
///
/// # Errors
///
/// If it has not got them.
pub fn limit_capabilities(bits: u32) -> io::Result<()> {
    sys::set_capabilities(bits)?;
    sys::keep_capabilities(false)
}
