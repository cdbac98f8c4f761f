//! How a node stops: pure rules, without a clock.
//!
//! It takes no new connection, ends each session between two transactions, and goes on with what is
//! under way for as long as its grace lasts. What is left then is in the spool.

use std::time::Duration;

/// Between two polls of what is still under way.
pub const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The rules of a stop.
#[derive(Debug, Clone, Copy)]
pub struct Drain {
    grace: Duration,
}

impl Drain {
    /// A stop that takes so long at most.
    pub fn within(grace: Duration) -> Self {
        Drain { grace }
    }

    /// There is something to wait for, and time left, so long after it began. `quiet`: nothing is
    /// being delivered.
    pub fn goes_on(&self, elapsed: Duration, sessions: usize, quiet: bool) -> bool {
        elapsed < self.grace && (sessions > 0 || !quiet)
    }

    /// A session of a node that stops ends now: no transaction is under way, and nothing that its
    /// client said is unread.
    pub fn ends_session(in_transaction: bool, unread: usize) -> bool {
        !in_transaction && unread == 0
    }
}

#[cfg(test)]
mod tests;
