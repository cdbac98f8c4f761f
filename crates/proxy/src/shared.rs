//! What the connections of a server share.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};

use crate::admission::Admission;
use crate::counters::Counters;
use crate::service::Service;

/// Clients beyond the limits that get a page at once; others are closed.
const REFUSED_AT_ONCE_MAX: usize = 64;

/// What connections share.
pub(crate) struct Shared {
    pub(crate) service: Arc<Service>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) refusing: Arc<Semaphore>,
    pub(crate) alive: mpsc::Sender<()>,
}

impl Shared {
    pub(crate) fn new(service: Service, alive: mpsc::Sender<()>) -> Self {
        let admission = Arc::new(Admission::new(&service.settings.limits));
        let refusing = Arc::new(Semaphore::new(REFUSED_AT_ONCE_MAX));
        Shared { service: Arc::new(service), admission, refusing, alive }
    }

    /// Clients of this address may use the proxy.
    pub(crate) fn takes(&self, address: IpAddr) -> bool {
        self.service.settings.client_networks.iter().any(|n| n.contains(address))
    }
}

/// Counts a connection while it lasts.
pub(crate) struct Now(Arc<Counters>);

impl Now {
    pub(crate) fn new(counters: &Arc<Counters>) -> Self {
        counters.connections.add(1);
        counters.connections_now.add(1);
        Now(Arc::clone(counters))
    }
}

impl Drop for Now {
    fn drop(&mut self) {
        self.0.connections_now.decrement();
    }
}
