//! Limits of the console's connections, counted as the node counts its others.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use gauntlet_console::{BoxedWait, ConnectionLimiter, ConnectionSlot};
use gauntlet_gateway::clock::Clock;
use gauntlet_gateway::config::Config;
use gauntlet_gateway::inbound::admission::{Admission, Admitted, SessionLimits};

/// Admits connections to the console, at most so many in all and of one client.
pub(crate) struct ConsoleConnections(Arc<Admission>);

impl ConsoleConnections {
    /// With the limits of `[console]`.
    pub(crate) fn new(config: &Config) -> Self {
        let console = &config.console;
        let limits = SessionLimits::of_connections(
            console.connections_max,
            console.connections_per_client_max,
            Duration::from_secs(config.stress.idle_seconds_min),
        );
        ConsoleConnections(Arc::new(Admission::new(limits, Clock::system())))
    }
}

impl ConnectionLimiter for ConsoleConnections {
    fn wait_for_capacity(&self) -> BoxedWait<'_> {
        Box::pin(self.0.wait_for_capacity())
    }

    fn admit(&self, client: IpAddr) -> Option<Arc<dyn ConnectionSlot>> {
        let slot = self.0.admit(client, false, || true).ok()?;
        Some(Arc::new(ConsoleConnection(slot)))
    }
}

struct ConsoleConnection(Admitted);

impl ConnectionSlot for ConsoleConnection {
    fn wait(&self) {
        self.0.progress();
        self.0.wait();
    }

    fn work(&self) {
        // A connection that was evicted meanwhile is closed by the task that serves it.
        let _stays = self.0.work();
    }

    fn evicted(&self) -> BoxedWait<'_> {
        Box::pin(self.0.evicted())
    }
}
