//! How many connections clients may have.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::settings::Limits;

/// Connections by client.
pub(crate) struct Admission {
    by_client: Mutex<Clients>,
    all_max: usize,
    client_max: usize,
}

#[derive(Default)]
struct Clients {
    connections: HashMap<IpAddr, usize>,
    all: usize,
}

/// A connection's place; given back when dropped.
pub(crate) struct Place {
    admission: Arc<Admission>,
    client: IpAddr,
}

impl Admission {
    pub(crate) fn new(limits: &Limits) -> Self {
        Admission {
            by_client: Mutex::default(),
            all_max: limits.connections_max,
            client_max: limits.client_connections_max,
        }
    }

    /// A place, if the limits leave one.
    pub(crate) fn take(self: &Arc<Self>, client: IpAddr) -> Option<Place> {
        let mut clients = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        let of_client = clients.connections.get(&client).copied().unwrap_or(0);
        if clients.all >= self.all_max || of_client >= self.client_max {
            return None;
        }
        clients.all += 1;
        clients.connections.insert(client, of_client + 1);
        Some(Place { admission: Arc::clone(self), client })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut clients = self.admission.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        clients.all -= 1;
        match clients.connections.get_mut(&self.client) {
            Some(n) if *n > 1 => *n -= 1,
            _ => drop(clients.connections.remove(&self.client)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_by_client_and_in_all() {
        let limits = Limits { connections_max: 3, client_connections_max: 2, ..Limits::default() };
        let admission = Arc::new(Admission::new(&limits));
        let (a, b): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let first = admission.take(a).unwrap();
        let _second = admission.take(a).unwrap();
        assert!(admission.take(a).is_none());
        let _other = admission.take(b).unwrap();
        assert!(admission.take(b).is_none());
        drop(first);
        assert!(admission.take(b).is_some());
    }
}
