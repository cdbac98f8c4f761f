//! Connections that we made a moment ago: if a router's rules send them back to us, they are known
//! by their address.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::destination::canonical;

/// Our connections by our side's address. There are no more than there are ports for each address
/// of this machine, which bounds it.
#[derive(Debug)]
pub(crate) struct Recent {
    made: Mutex<HashMap<SocketAddr, Instant>>,
    /// Later than this, the port may be another program's.
    keep: Duration,
}

impl Recent {
    /// `keep` is the longest time that passes before a connection that came back is asked about.
    pub(crate) fn new(keep: Duration) -> Self {
        Recent { made: Mutex::default(), keep }
    }

    /// A connection was made from this address. It is noted before anything is written to it, so
    /// that whoever reads its first bytes finds it here.
    pub(crate) fn note(&self, from: SocketAddr) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.insert(canonical(from), Instant::now());
    }

    /// A client's address is that of one of our own connections.
    pub(crate) fn has(&self, client: SocketAddr) -> bool {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.get(&canonical(client)).is_some_and(|at| at.elapsed() <= self.keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_known_for_a_while() {
        let mapped = "[::ffff:192.0.2.1]:4000".parse().unwrap();
        let recent = Recent::new(Duration::from_secs(20));
        recent.note("192.0.2.1:4000".parse().unwrap());
        assert!(recent.has(mapped));
        assert!(!recent.has("192.0.2.1:4001".parse().unwrap()));
        let forgetful = Recent::new(Duration::ZERO);
        forgetful.note(mapped);
        std::thread::sleep(Duration::from_millis(2));
        assert!(!forgetful.has(mapped));
    }
}
