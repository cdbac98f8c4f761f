//! Who may come in: sessions at once, sessions of one client, memory for bodies.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

/// Counts sessions.
#[derive(Debug)]
pub struct Admission {
    sessions: AtomicUsize,
    clients: Mutex<HashMap<IpAddr, usize>>,
    limits: ArcSwap<SessionLimits>,
    /// Told when a session ends.
    room: Notify,
}

/// Bounds of the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Sessions at once; above, a client gets 421.
    pub sessions_max: usize,
    /// Sessions at once of one client address.
    pub per_client_max: usize,
    /// From here on only clients that are known for good mail are let in.
    pub shed_from: usize,
    /// Sessions for which there are descriptors; there the node accepts nobody, and clients wait in the
    /// system's queue.
    pub open_max: usize,
}

/// A session that was let in; dropping it makes room.
#[derive(Debug)]
pub struct Admitted {
    admission: Arc<Admission>,
    client: IpAddr,
}

impl Admission {
    /// Lets in as many.
    pub fn new(limits: SessionLimits) -> Self {
        Admission {
            sessions: AtomicUsize::new(0),
            clients: Mutex::default(),
            limits: ArcSwap::from_pointee(limits),
            room: Notify::new(),
        }
    }

    /// Other limits from now on.
    pub fn set_limits(&self, limits: SessionLimits) {
        self.limits.store(Arc::new(limits));
        self.room.notify_waiters();
    }

    /// Returns once there is a descriptor for one more session.
    pub async fn wait_for_room(&self) {
        loop {
            let freed = self.room.notified();
            if self.sessions() < self.limits.load().open_max {
                return;
            }
            freed.await;
        }
    }

    /// Lets a client in, or says why not. `is_good` is asked only if the node is nearly full.
    ///
    /// # Errors
    /// The limit that is reached, as a bland text.
    pub fn admit(
        self: &Arc<Self>,
        client: IpAddr,
        is_good: impl FnOnce() -> bool,
    ) -> Result<Admitted, &'static str> {
        let client = client.to_canonical();
        let limits = **self.limits.load();
        let before = self.sessions.fetch_add(1, Ordering::Relaxed);
        if before >= limits.sessions_max || (before >= limits.shed_from && !is_good()) {
            self.sessions.fetch_sub(1, Ordering::Relaxed);
            return Err("too many connections");
        }
        let admitted = Admitted { admission: self.clone(), client };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let count = clients.entry(client).or_default();
        *count += 1;
        let over = *count > limits.per_client_max;
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
        self.admission.room.notify_waiters();
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
        let limits =
            SessionLimits { sessions_max: 3, per_client_max: 2, shed_from: 3, open_max: 9 };
        let admission = Arc::new(Admission::new(limits));
        let (a, b): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "::1".parse().unwrap());
        let first = admission.admit(a, || true).unwrap();
        let _second = admission.admit(a, || true).unwrap();
        let refused = admission.admit(a, || true).unwrap_err();
        assert_eq!(refused, "too many connections from your address");
        let _third = admission.admit(b, || true).unwrap();
        assert_eq!(admission.admit(b, || true).unwrap_err(), "too many connections");
        assert_eq!(admission.sessions(), 3);
        drop(first);
        assert!(admission.admit(a, || true).is_ok());
        assert_eq!(admission.sessions(), 2);
        // Nearly full: strangers are turned away, good clients are not.
        admission.set_limits(SessionLimits { shed_from: 2, ..limits });
        assert!(admission.admit(a, || false).is_err());
        assert!(admission.admit(a, || true).is_ok());
    }

    #[tokio::test]
    async fn without_descriptors_nobody_is_accepted_until_somebody_leaves() {
        let limits =
            SessionLimits { sessions_max: 9, per_client_max: 9, shed_from: 9, open_max: 1 };
        let admission = Arc::new(Admission::new(limits));
        let client: IpAddr = "192.0.2.1".parse().unwrap();
        admission.wait_for_room().await;
        let only = admission.admit(client, || true).unwrap();
        let waits =
            tokio::time::timeout(std::time::Duration::from_millis(50), admission.wait_for_room());
        assert!(waits.await.is_err());
        let waiting = admission.clone();
        let woken = tokio::spawn(async move { waiting.wait_for_room().await });
        tokio::task::yield_now().await;
        drop(only);
        woken.await.unwrap();
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
