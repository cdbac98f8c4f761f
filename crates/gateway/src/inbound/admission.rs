//! Who may come in: sessions at once, sessions of one client and network, and who has to leave when
//! there is no room for others.
//!
//! A node under pressure ([`Admission::is_pressed`]) has less patience, as Postfix has in its
//! stress mode: commands have to come sooner, and a session that brings nothing makes room for one
//! that may.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::memory::network_of;

/// While there is no descriptor: between two polls whether an idle session can be evicted.
const ROOM_PAUSE: Duration = Duration::from_millis(250);

/// Counts sessions, or the connections of another listener.
#[derive(Debug)]
pub struct Admission {
    clock: Clock,
    sessions: AtomicUsize,
    open: Mutex<OpenSessions>,
    limits: ArcSwap<SessionLimits>,
    /// Notified when a session ends.
    room: Notify,
    /// Of the entries' times.
    epoch: Instant,
    pressed: AtomicBool,
}

#[derive(Debug, Default)]
struct OpenSessions {
    by_client: HashMap<IpAddr, usize>,
    by_network: HashMap<IpAddr, usize>,
    /// Every session, by its number.
    all: HashMap<u64, Arc<SessionEntry>>,
    last: u64,
}

/// Bounds of the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Sessions at once; above, a client gets 421.
    pub sessions_max: usize,
    /// Sessions at once of one client address.
    pub per_client_max: usize,
    /// Sessions at once of one network (/24, /64), of clients that are not exempt.
    pub per_network_max: usize,
    /// From here on only clients that are known for good mail are let in, and others where an idle
    /// session makes room.
    pub shed_from: usize,
    /// From here on the node is under pressure.
    pub stress_from: usize,
    /// A session that brought nothing for so long may have to leave for a new one.
    pub idle_min: Duration,
    /// Sessions for which there are descriptors; there the node accepts no client, and they wait in
    /// the system's queue.
    pub open_max: usize,
}

/// What a session does.
const BUSY: u8 = 0;
/// It waits for its client, and may be evicted.
const WAITING: u8 = 1;
/// It was evicted, and ends as soon as its task runs.
const EVICTED: u8 = 2;

/// What is known of a session from outside.
#[derive(Debug)]
struct SessionEntry {
    state: AtomicU8,
    /// Milliseconds from the epoch to when it last brought something.
    progress_ms: AtomicU64,
    leave: Notify,
}

/// A session that was let in; dropping it makes room.
#[derive(Debug)]
pub struct Admitted {
    admission: Arc<Admission>,
    client: Option<IpAddr>,
    /// None if it is not counted.
    network: Option<IpAddr>,
    number: u64,
    exempt: bool,
    entry: Arc<SessionEntry>,
}

impl SessionLimits {
    /// Those of a listener that is no SMTP one: so many connections at once, of one address so
    /// many; who brings no request for `idle_min` leaves for others.
    pub fn of_connections(max: usize, per_client_max: usize, idle_min: Duration) -> Self {
        SessionLimits {
            sessions_max: usize::MAX,
            per_client_max,
            per_network_max: usize::MAX,
            shed_from: usize::MAX,
            stress_from: usize::MAX,
            idle_min,
            open_max: max.max(1),
        }
    }
}

impl Admission {
    /// Lets in as many.
    pub fn new(limits: SessionLimits, clock: Clock) -> Self {
        Admission {
            sessions: AtomicUsize::new(0),
            open: Mutex::default(),
            limits: ArcSwap::from_pointee(limits),
            room: Notify::new(),
            epoch: clock.now(),
            clock,
            pressed: AtomicBool::new(false),
        }
    }

    fn open(&self) -> MutexGuard<'_, OpenSessions> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.elapsed(self.epoch).as_millis()).unwrap_or(u64::MAX)
    }

    /// Other limits from now on.
    pub fn set_limits(&self, limits: SessionLimits) {
        self.limits.store(Arc::new(limits));
        self.room.notify_waiters();
    }

    /// Returns once there is a descriptor for one more session: sessions that bring nothing are
    /// evicted meanwhile.
    pub async fn wait_for_capacity(&self) {
        loop {
            let freed = self.room.notified();
            let limits = **self.limits.load();
            if self.sessions() < limits.open_max {
                return;
            }
            self.evict_idle(limits.idle_min, 1);
            tokio::select! {
                () = freed => {}
                () = tokio::time::sleep(ROOM_PAUSE) => {}
            }
        }
    }

    /// Lets a client in, or says why not. `is_good` is asked only if the node is nearly full; an
    /// exempt client is not counted by its network and never evicted; no address is counted for a
    /// client without one.
    ///
    /// # Errors
    /// The limit that is reached, as a bland text.
    pub fn admit(
        self: &Arc<Self>,
        client: impl Into<Option<IpAddr>>,
        exempt: bool,
        is_good: impl FnOnce() -> bool,
    ) -> Result<Admitted, &'static str> {
        let client = client.into().map(|ip| ip.to_canonical());
        let network = client.filter(|_| !exempt).map(network_of);
        let limits = **self.limits.load();
        let before = self.sessions.fetch_add(1, Ordering::Relaxed);
        let full = before >= limits.sessions_max || (before >= limits.shed_from && !is_good());
        let entry = Arc::new(SessionEntry {
            state: AtomicU8::new(BUSY),
            progress_ms: AtomicU64::new(self.now_ms()),
            leave: Notify::new(),
        });
        let mut open = self.open();
        open.last += 1;
        let number = open.last;
        open.all.insert(number, entry.clone());
        let over_client = take_one(&mut open.by_client, client) > limits.per_client_max;
        let over_network = take_one(&mut open.by_network, network) > limits.per_network_max;
        drop(open);
        // From here on, dropping it undoes all of the above.
        let admission = self.clone();
        let admitted = Admitted { admission, client, network, number, exempt, entry };
        if over_client {
            Err("too many connections from your address")
        } else if over_network {
            Err("too many connections from your network")
        } else if full && self.evict_idle(limits.idle_min, 1) == 0 {
            Err("too many connections")
        } else {
            Ok(admitted)
        }
    }

    /// Evicts sessions that brought nothing for `idle`, the longest first, `count` at most. How
    /// many there were.
    pub fn evict_idle(&self, idle: Duration, count: usize) -> usize {
        let before = self.now_ms().checked_sub(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX));
        let Some(before) = before else { return 0 };
        let mut found: Vec<(u64, Arc<SessionEntry>)> = self
            .open()
            .all
            .values()
            .filter(|entry| entry.state.load(Ordering::Acquire) == WAITING)
            .map(|entry| (entry.progress_ms.load(Ordering::Relaxed), entry.clone()))
            .filter(|(since, _)| *since <= before)
            .collect();
        found.sort_unstable_by_key(|(since, _)| *since);
        let left = found.into_iter().filter(|(_, entry)| {
            let evicted =
                entry.state.compare_exchange(WAITING, EVICTED, Ordering::AcqRel, Ordering::Acquire);
            if evicted.is_ok() {
                entry.leave.notify_one();
            }
            evicted.is_ok()
        });
        left.take(count).count()
    }

    /// Updates whether the node is under pressure: many sessions, or `busy` for another reason.
    /// Sessions that brought nothing for `idle` then leave. True if that changed.
    pub fn update_pressure(&self, busy: bool, idle: Duration) -> bool {
        let pressed = busy || self.sessions() >= self.limits.load().stress_from;
        if pressed {
            self.evict_idle(idle, usize::MAX);
        }
        self.pressed.swap(pressed, Ordering::Relaxed) != pressed
    }

    /// The node is under pressure.
    pub fn is_pressed(&self) -> bool {
        self.pressed.load(Ordering::Relaxed) || self.sessions() >= self.limits.load().stress_from
    }

    /// Sessions that are open, those that wait for their client among them.
    pub fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed)
    }
}

impl Admitted {
    /// The session brought something: a message, a recipient, a login.
    pub fn progress(&self) {
        self.entry.progress_ms.store(self.admission.now_ms(), Ordering::Relaxed);
    }

    /// From here on it waits for its client. [`Admitted::evicted`] says when it has to leave.
    pub fn wait(&self) {
        if !self.exempt {
            let _unless_leaving = self.entry.state.compare_exchange(
                BUSY,
                WAITING,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
        }
    }

    /// The client said something. False if the session was evicted meanwhile.
    pub fn work(&self) -> bool {
        let state = &self.entry.state;
        let now = state.compare_exchange(WAITING, BUSY, Ordering::AcqRel, Ordering::Acquire);
        now != Err(EVICTED)
    }

    /// Returns when the session is to leave for others.
    pub async fn evicted(&self) {
        self.entry.leave.notified().await;
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut open = self.admission.open();
        open.all.remove(&self.number);
        give_back(&mut open.by_client, self.client);
        give_back(&mut open.by_network, self.network);
        drop(open);
        self.admission.sessions.fetch_sub(1, Ordering::Relaxed);
        self.admission.room.notify_waiters();
    }
}

/// Counts one more; how many there are then.
fn take_one(counts: &mut HashMap<IpAddr, usize>, key: Option<IpAddr>) -> usize {
    key.map_or(0, |key| {
        let count = counts.entry(key).or_default();
        *count += 1;
        *count
    })
}

fn give_back(counts: &mut HashMap<IpAddr, usize>, key: Option<IpAddr>) {
    let Some(key) = key else { return };
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> SessionLimits {
        SessionLimits {
            sessions_max: 3,
            per_client_max: 2,
            per_network_max: 9,
            shed_from: 3,
            stress_from: 9,
            idle_min: Duration::from_secs(60),
            open_max: 9,
        }
    }

    #[test]
    fn limits_hold_and_room_comes_back() {
        let limits = limits();
        let admission = Arc::new(Admission::new(limits, Clock::system()));
        let (a, b): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "::1".parse().unwrap());
        let first = admission.admit(a, false, || true).unwrap();
        let _second = admission.admit(a, false, || true).unwrap();
        let refused = admission.admit(a, false, || true).unwrap_err();
        assert_eq!(refused, "too many connections from your address");
        let _third = admission.admit(b, false, || true).unwrap();
        assert_eq!(admission.admit(b, false, || true).unwrap_err(), "too many connections");
        assert_eq!(admission.sessions(), 3);
        drop(first);
        assert!(admission.admit(a, false, || true).is_ok());
        assert_eq!(admission.sessions(), 2);
        // Nearly full: strangers are turned away, good clients are not.
        admission.set_limits(SessionLimits { shed_from: 2, ..limits });
        assert!(admission.admit(a, false, || false).is_err());
        assert!(admission.admit(a, false, || true).is_ok());
    }

    #[test]
    fn a_network_has_its_limit_and_who_is_exempt_has_none() {
        let limits =
            SessionLimits { sessions_max: 100, per_network_max: 2, shed_from: 100, ..limits() };
        let admission = Arc::new(Admission::new(limits, Clock::system()));
        let ip = |n: u8| format!("2001:db8::{n}").parse::<IpAddr>().unwrap();
        let _held: Vec<_> =
            (1..3).map(|n| admission.admit(ip(n), false, || true).unwrap()).collect();
        let refused = admission.admit(ip(3), false, || true).unwrap_err();
        assert_eq!(refused, "too many connections from your network");
        assert!(admission.admit(ip(3), true, || true).is_ok());
        let elsewhere: IpAddr = "2001:db8:0:1::1".parse().unwrap();
        assert!(admission.admit(elsewhere, false, || true).is_ok());
    }

    #[tokio::test]
    async fn the_session_that_is_idle_longest_is_evicted_for_a_new_one() {
        let limits = SessionLimits { idle_min: Duration::ZERO, per_client_max: 9, ..limits() };
        let clock = Clock::manual(0);
        let admission = Arc::new(Admission::new(limits, clock.clone()));
        let client: IpAddr = "192.0.2.1".parse().unwrap();
        let held: Vec<_> =
            (0..3).map(|_| admission.admit(client, false, || true).unwrap()).collect();
        assert!(admission.admit(client, false, || true).is_err(), "all of them work");
        clock.advance(Duration::from_millis(5));
        held[0].progress();
        held.iter().take(2).for_each(Admitted::wait);
        assert!(admission.admit(client, false, || true).is_ok());
        held[1].evicted().await;
        assert!(!held[1].work() && held[0].work() && held[2].work());
        held[2].wait();
        assert!(admission.update_pressure(true, Duration::ZERO) && admission.is_pressed());
        held[2].evicted().await;
        assert!(admission.update_pressure(false, Duration::ZERO) && !admission.is_pressed());
    }

    #[tokio::test]
    async fn without_descriptors_no_session_is_accepted_until_one_ends() {
        let limits = SessionLimits {
            sessions_max: 9,
            per_client_max: 9,
            shed_from: 9,
            open_max: 1,
            ..limits()
        };
        let admission = Arc::new(Admission::new(limits, Clock::system()));
        let client: IpAddr = "192.0.2.1".parse().unwrap();
        admission.wait_for_capacity().await;
        let only = admission.admit(client, false, || true).unwrap();
        let waits = tokio::time::timeout(Duration::from_millis(5), admission.wait_for_capacity());
        assert!(waits.await.is_err());
        let waiting = admission.clone();
        let woken = tokio::spawn(async move { waiting.wait_for_capacity().await });
        tokio::task::yield_now().await;
        drop(only);
        woken.await.unwrap();
    }
}
