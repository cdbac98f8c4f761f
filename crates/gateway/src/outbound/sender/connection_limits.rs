//! Connections that may be open at once, so that no stranger's server takes those of other next
//! hops.
//!
//! ```text
//! all next hops (connections_max)
//!  ├─ next hops that the configuration names: no further limit
//!  └─ mail exchangers that the DNS names (exchanger_connections_percent_max)
//!      ├─ of one network, /24 or /64 (exchanger_connections_per_network_max)
//!      └─ with a message from the empty sender (report_connections_percent_max), and these of one
//!         network (report_connections_per_network_max)
//! ```
//!
//! A stranger chooses where reports (RFC 3464) go, and how many domains lead to one address: the
//! limits are by address and not by domain.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::config::SenderSettings;
use crate::memory::network_of;

/// Networks remembered before those without connections are forgotten.
const NETWORKS_SWEPT_AT: usize = 1_024;

/// Whose connection it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// A next hop that the configuration names.
    Named,
    /// A mail exchanger that the DNS names.
    Exchanger,
    /// The same, for a message from the empty sender: a report, to where a stranger wants it.
    Report,
}

/// Connections of a network that are free, by what they are for.
type PerNetwork = HashMap<(IpAddr, Purpose), Arc<Semaphore>>;

/// Connections that are left. Clones share them.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    all: Arc<Semaphore>,
    exchangers: Arc<Semaphore>,
    reports: Arc<Semaphore>,
    networks: Arc<Mutex<PerNetwork>>,
    per_network: usize,
    reports_per_network: usize,
}

/// The right to one connection; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    _permits: Vec<OwnedSemaphorePermit>,
}

impl ConnectionLimits {
    /// As many as the settings allow now.
    pub fn new(settings: &SenderSettings) -> Self {
        let share = |percent: u32| Arc::new(Semaphore::new(part(settings, percent)));
        ConnectionLimits {
            all: Arc::new(Semaphore::new(settings.connections_max)),
            exchangers: share(settings.exchanger_connections_percent_max),
            reports: share(settings.report_connections_percent_max),
            networks: Arc::default(),
            per_network: settings.exchanger_connections_per_network_max,
            reports_per_network: settings.report_connections_per_network_max,
        }
    }

    /// Waits for a permit. The narrow limits are waited for first: who waits for them holds nothing
    /// that others need.
    pub(super) async fn take(
        &self,
        purpose: Purpose,
        peer: IpAddr,
    ) -> Result<ConnectionPermit, AcquireError> {
        let mut permits = Vec::with_capacity(5);
        if purpose == Purpose::Report {
            permits.push(self.of_network(peer, Purpose::Report).acquire_owned().await?);
            permits.push(self.reports.clone().acquire_owned().await?);
        }
        if purpose != Purpose::Named {
            permits.push(self.of_network(peer, Purpose::Exchanger).acquire_owned().await?);
            permits.push(self.exchangers.clone().acquire_owned().await?);
        }
        permits.push(self.all.clone().acquire_owned().await?);
        Ok(ConnectionPermit { _permits: permits })
    }

    fn of_network(&self, peer: IpAddr, purpose: Purpose) -> Arc<Semaphore> {
        let most = match purpose {
            Purpose::Report => self.reports_per_network,
            Purpose::Named | Purpose::Exchanger => self.per_network,
        };
        let mut networks = self.networks.lock().unwrap_or_else(PoisonError::into_inner);
        if networks.len() >= NETWORKS_SWEPT_AT {
            // A permit holds its semaphore, too.
            networks.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let key = (network_of(peer), purpose);
        networks.entry(key).or_insert_with(|| Arc::new(Semaphore::new(most))).clone()
    }

    /// A next hop that the configuration names gets a permit at once.
    pub(super) fn has_room(&self) -> bool {
        self.all.available_permits() > 0
    }

    /// A task may be waiting for a permit that is held without work.
    pub(super) fn are_scarce(&self) -> bool {
        let none_left = |limits: &Semaphore| limits.available_permits() == 0;
        none_left(&self.all) || none_left(&self.exchangers) || none_left(&self.reports)
    }
}

/// So many per cent of all connections, one at least.
fn part(settings: &SenderSettings, percent: u32) -> usize {
    (settings.connections_max.saturating_mul(percent as usize) / 100).max(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn taken(
        limits: &ConnectionLimits,
        purpose: Purpose,
        peer: &str,
    ) -> Option<ConnectionPermit> {
        let permit = limits.take(purpose, peer.parse().unwrap());
        tokio::time::timeout(Duration::from_millis(50), permit).await.ok().map(Result::unwrap)
    }

    #[tokio::test]
    async fn strangers_leave_places_for_named_next_hops_and_for_one_another() {
        let limits = ConnectionLimits::new(&SenderSettings {
            connections_max: 10,
            exchanger_connections_percent_max: 80,
            report_connections_percent_max: 30,
            exchanger_connections_per_network_max: 6,
            report_connections_per_network_max: 2,
            ..SenderSettings::default()
        });
        let mut held = Vec::new();
        // Reports: two of a network, three in all, though they go to many addresses.
        for (peer, room) in [
            ("192.0.2.1", true),
            ("192.0.2.2", true),
            ("::ffff:192.0.2.3", false),
            ("198.51.100.1", true),
            ("203.0.113.1", false),
        ] {
            let permit = taken(&limits, Purpose::Report, peer).await;
            assert_eq!(permit.is_some(), room, "{peer}");
            held.extend(permit);
        }
        // Other mail: six of a network, eight in all.
        for (n, room) in [true, true, true, true, false].into_iter().enumerate() {
            let permit = taken(&limits, Purpose::Exchanger, &format!("192.0.2.{}", 9 + n)).await;
            assert_eq!(permit.is_some(), room, "{n}");
            held.extend(permit);
        }
        let other = taken(&limits, Purpose::Exchanger, "2001:db8::1").await;
        assert!(other.is_some());
        assert!(taken(&limits, Purpose::Exchanger, "2001:db9::1").await.is_none());
        assert!(limits.are_scarce() && limits.has_room());
        assert!(taken(&limits, Purpose::Named, "192.0.2.1").await.is_some());
        drop((held, other));
        assert!(taken(&limits, Purpose::Report, "192.0.2.1").await.is_some());
        assert!(!limits.are_scarce());
    }
}
