//! Connections without a limit.

use std::sync::Arc;

use gauntlet_console::{BoxedWait, ConnectionLimiter, ConnectionSlot};

/// A limiter without a limit: the node's own is tested with the program.
pub(super) struct Unlimited;

impl ConnectionLimiter for Unlimited {
    fn wait_for_capacity(&self) -> BoxedWait<'_> {
        Box::pin(std::future::ready(()))
    }

    fn admit(&self, _client: std::net::IpAddr) -> Option<Arc<dyn ConnectionSlot>> {
        Some(Arc::new(Unlimited))
    }
}

impl ConnectionSlot for Unlimited {
    fn wait(&self) {}

    fn work(&self) {}

    fn evicted(&self) -> BoxedWait<'_> {
        Box::pin(std::future::pending())
    }
}
