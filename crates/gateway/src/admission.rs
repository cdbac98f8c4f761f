//! Who may come in: sessions at once, sessions of one client, memory for bodies.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Counts sessions.
#[derive(Debug)]
pub struct Admission {
    sessions: AtomicUsize,
    clients: Mutex<HashMap<IpAddr, usize>>,
    sessions_max: AtomicUsize,
    per_client_max: AtomicUsize,
}

/// A session that was let in; dropping it makes room.
#[derive(Debug)]
pub struct Admitted {
    admission: Arc<Admission>,
    client: IpAddr,
}

impl Admission {
    /// Lets in at most so many sessions over all, and of one client address.
    pub fn new(sessions_max: usize, per_client_max: usize) -> Self {
        Admission {
            sessions: AtomicUsize::new(0),
            clients: Mutex::default(),
            sessions_max: AtomicUsize::new(sessions_max),
            per_client_max: AtomicUsize::new(per_client_max),
        }
    }

    /// Other limits from now on.
    pub fn set_limits(&self, sessions_max: usize, per_client_max: usize) {
        self.sessions_max.store(sessions_max, Ordering::Relaxed);
        self.per_client_max.store(per_client_max, Ordering::Relaxed);
    }

    /// Lets a client in, or says why not.
    ///
    /// # Errors
    /// The limit that is reached, as a bland text.
    pub fn admit(self: &Arc<Self>, client: IpAddr) -> Result<Admitted, &'static str> {
        let client = client.to_canonical();
        let before = self.sessions.fetch_add(1, Ordering::Relaxed);
        if before >= self.sessions_max.load(Ordering::Relaxed) {
            self.sessions.fetch_sub(1, Ordering::Relaxed);
            return Err("too many connections");
        }
        let admitted = Admitted { admission: self.clone(), client };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let count = clients.entry(client).or_default();
        *count += 1;
        let over = *count > self.per_client_max.load(Ordering::Relaxed);
        drop(clients);
        if over { Err("too many connections from your address") } else { Ok(admitted) }
    }

    /// Open sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.admission.sessions.fetch_sub(1, Ordering::Relaxed);
        let mut clients = self.admission.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = clients.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

/// Memory for bodies over all sessions.
#[derive(Debug)]
pub struct MemoryBudget {
    used: AtomicU64,
    bytes_max: AtomicU64,
}

/// A share of the budget; dropping it gives it back.
#[derive(Debug)]
pub struct MemoryShare {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl MemoryBudget {
    /// So many bytes in all.
    pub fn new(bytes_max: u64) -> Self {
        MemoryBudget { used: AtomicU64::new(0), bytes_max: AtomicU64::new(bytes_max) }
    }

    /// Another limit from now on.
    pub fn set_limit(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// An empty share.
    pub fn share(self: &Arc<Self>) -> MemoryShare {
        MemoryShare { budget: self.clone(), bytes: 0 }
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// There is room for so many more.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.used().saturating_add(bytes) <= self.bytes_max.load(Ordering::Relaxed)
    }
}

impl MemoryShare {
    /// Makes the share `bytes` large. False, and nothing changes, if there is no room.
    pub fn resize(&mut self, bytes: u64) -> bool {
        let budget = &self.budget;
        if bytes > self.bytes {
            if !budget.has_room(bytes - self.bytes) {
                return false;
            }
            budget.used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            budget.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_and_room_comes_back() {
        let admission = Arc::new(Admission::new(3, 2));
        let (a, b): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "::1".parse().unwrap());
        let first = admission.admit(a).unwrap();
        let _second = admission.admit(a).unwrap();
        assert_eq!(admission.admit(a).unwrap_err(), "too many connections from your address");
        let _third = admission.admit(b).unwrap();
        assert_eq!(admission.admit(b).unwrap_err(), "too many connections");
        assert_eq!(admission.sessions(), 3);
        drop(first);
        assert!(admission.admit(a).is_ok());
        assert_eq!(admission.sessions(), 2);
    }

    #[test]
    fn memory_is_given_back() {
        let budget = Arc::new(MemoryBudget::new(100));
        let (mut one, mut two) = (budget.share(), budget.share());
        assert!(one.resize(60) && !two.resize(50) && two.resize(40));
        assert!(one.resize(10) && two.resize(90));
        drop((one, two));
        assert_eq!(budget.used(), 0);
    }
}
