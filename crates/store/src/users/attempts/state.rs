//! The counters in memory, bounded, and which of them are still to be written.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::key::{Key, Login, Network};
use super::limits::AttemptLimits;
use super::stored::StoredAttempt;

/// Most counters, and most logins with known addresses.
pub(super) const COUNTERS_MAX: usize = 10_000;
/// Most known addresses of one login.
const KNOWN_MAX: usize = 8;
/// Shortest time between two updates of a known address.
const KNOWN_STEP: Duration = Duration::from_secs(24 * 60 * 60);
/// Most changes that wait to be written; further ones are not stored.
const CHANGED_MAX: usize = 20 * COUNTERS_MAX;

#[derive(Debug, Clone, Copy)]
pub(super) struct Counter {
    /// Time of the first failure of the window; for backoff of the last.
    pub(super) since: Instant,
    pub(super) failures: u32,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) limits: AttemptLimits,
    pub(super) counters: HashMap<Key, Counter>,
    pub(super) known: HashMap<Login, Vec<(Network, Instant)>>,
    /// Keys whose stored value is out of date.
    pub(super) changed: HashSet<Key>,
    /// The stored counters were loaded.
    pub(super) is_loaded: bool,
    /// When to retry loading after an error.
    pub(super) load_at: Option<Instant>,
    pub(super) is_closing: bool,
}

impl State {
    pub(super) fn begin(
        &mut self,
        client: IpAddr,
        login: Login,
        now: Instant,
    ) -> Result<(), Duration> {
        let limits = self.limits;
        let (near, wide) = (Network::host(client), Network::subnet(client));
        let from = Key::LoginFrom(login, near);
        let known = self.is_known(login, near, now);
        let most =
            if known { limits.failures_per_known_login_max } else { limits.failures_per_login_max };
        self.check_window(from, most, now)?;
        if !known {
            // Only failures of the address itself count for its network: else one host that keeps
            // being refused would lock out its neighbours.
            self.check_window(Key::Host(near), limits.failures_per_address_max, now)?;
            self.check_window(Key::Subnet(wide), limits.failures_per_network_max, now)?;
            let (free, most) = (limits.account_failures_free, limits.account_pause_max);
            self.check_backoff(Key::Login(login), free, Duration::from_secs(1), most, now)?;
            self.count_backoff(Key::Login(login), now);
        }
        for key in [from, Key::Host(near), Key::Subnet(wide)] {
            self.count_window(key, now);
        }
        Ok(())
    }

    pub(super) fn succeeded(&mut self, client: IpAddr, login: Login, now: Instant) {
        let (near, wide) = (Network::host(client), Network::subnet(client));
        self.forget(Key::LoginFrom(login, near));
        let mut own = vec![Key::Host(near), Key::Subnet(wide)];
        if !self.is_known(login, near, now) {
            own.push(Key::Login(login));
        }
        // Failures of others stay counted: an attacker must not reset them by a successful sign-in.
        for key in own {
            if let Some(counter) = self.counters.get_mut(&key) {
                counter.failures = counter.failures.saturating_sub(1);
                self.mark_changed(key);
            }
        }
        self.remember_address(login, near, now);
    }

    /// Marks the address as known for the login.
    fn remember_address(&mut self, login: Login, near: Network, now: Instant) {
        if self.known.len() >= COUNTERS_MAX && !self.known.contains_key(&login) {
            let last = |known: &Vec<(Network, Instant)>| known.iter().map(|(_, at)| *at).max();
            for (login, networks) in evict_quarter(&mut self.known, last) {
                networks.into_iter().for_each(|(n, _)| self.mark_changed(Key::Known(login, n)));
            }
        }
        let known_for = self.limits.known_for;
        let known = self.known.entry(login).or_default();
        let fresh = |at: Instant, age: Duration| now.duration_since(at) < age;
        if known.iter().any(|(n, at)| *n == near && fresh(*at, KNOWN_STEP.min(known_for / 2))) {
            return;
        }
        let mut gone: Vec<Network> = Vec::new();
        known.retain(|(network, at)| {
            let stays = *network != near && fresh(*at, known_for);
            gone.extend((!stays).then_some(*network));
            stays
        });
        if known.len() >= KNOWN_MAX {
            gone.push(known.remove(0).0);
        }
        known.push((near, now));
        gone.push(near);
        gone.into_iter().for_each(|network| self.mark_changed(Key::Known(login, network)));
    }

    pub(super) fn begin_code(&mut self, login: Login, now: Instant) -> Result<(), Duration> {
        let (key, first) = (Key::Code(login), Duration::from_secs(30));
        let (free, most) = (self.limits.code_failures_free, self.limits.code_pause_max);
        self.check_backoff(key, free, first, most, now)?;
        self.count_backoff(key, now);
        Ok(())
    }

    pub(super) fn is_known(&self, login: Login, near: Network, now: Instant) -> bool {
        self.known_since(login, near)
            .is_some_and(|at| now.duration_since(at) < self.limits.known_for)
    }

    fn known_since(&self, login: Login, near: Network) -> Option<Instant> {
        let known = self.known.get(&login).map(Vec::as_slice).unwrap_or_default();
        known.iter().find(|(network, _)| *network == near).map(|(_, at)| *at)
    }

    /// Checks for fewer than `max` failures within the window. The error is the rest of the window.
    pub(super) fn check_window(&self, key: Key, max: u32, now: Instant) -> Result<(), Duration> {
        let Some(counter) = self.counters.get(&key) else { return Ok(()) };
        let left = self.limits.window.saturating_sub(now.duration_since(counter.since));
        if counter.failures < max || left.is_zero() { Ok(()) } else { Err(left) }
    }

    /// Checks that the backoff after the last failure is over: none after `free` failures, then
    /// `first`, doubled with each further one, up to `most`.
    fn check_backoff(
        &self,
        key: Key,
        free: u32,
        first: Duration,
        most: Duration,
        now: Instant,
    ) -> Result<(), Duration> {
        let Some(counter) = self.counters.get(&key) else { return Ok(()) };
        let passed = now.duration_since(counter.since);
        if counter.failures < free || passed >= key.lasts(&self.limits) {
            return Ok(());
        }
        let doubled = 1u32.checked_shl((counter.failures - free).min(20)).unwrap_or(u32::MAX);
        let left = first.saturating_mul(doubled).min(most).saturating_sub(passed);
        if left.is_zero() { Ok(()) } else { Err(left) }
    }

    fn count_window(&mut self, key: Key, now: Instant) {
        let window = self.limits.window;
        let counter = self.counter(key, now);
        if now.duration_since(counter.since) >= window {
            *counter = Counter { since: now, failures: 0 };
        }
        counter.failures = counter.failures.saturating_add(1);
    }

    fn count_backoff(&mut self, key: Key, now: Instant) {
        let lasts = key.lasts(&self.limits);
        let counter = self.counter(key, now);
        if now.duration_since(counter.since) >= lasts {
            counter.failures = 0;
        }
        counter.failures = counter.failures.saturating_add(1);
        counter.since = now;
    }

    /// The counter of this key, for modification. If there are too many, expired ones are removed,
    /// then those with the fewest failures, so that a flood of new keys does not evict those that
    /// matter.
    fn counter(&mut self, key: Key, now: Instant) -> &mut Counter {
        if self.counters.len() >= COUNTERS_MAX && !self.counters.contains_key(&key) {
            let (limits, mut over) = (self.limits, Vec::new());
            self.counters.retain(|key, c| {
                let counts = now.duration_since(c.since) < key.lasts(&limits);
                over.extend((!counts).then_some(*key));
                counts
            });
            if self.counters.len() >= COUNTERS_MAX {
                let dropped = evict_quarter(&mut self.counters, |c| (c.failures, c.since));
                over.extend(dropped.into_iter().map(|(key, _)| key));
            }
            over.into_iter().for_each(|key| self.mark_changed(key));
        }
        self.mark_changed(key);
        self.counters.entry(key).or_insert(Counter { since: now, failures: 0 })
    }

    pub(super) fn forget(&mut self, key: Key) {
        if self.counters.remove(&key).is_some() {
            self.mark_changed(key);
        }
    }

    /// Marks a key as changed; its value at the time of writing is stored.
    pub(super) fn mark_changed(&mut self, key: Key) {
        if self.changed.len() < CHANGED_MAX {
            self.changed.insert(key);
        }
    }

    /// The values of these keys as they are stored; 0 failures where there is none any more.
    pub(super) fn rows(&self, keys: &[Key], now: Instant, now_ms: i64) -> Vec<StoredAttempt> {
        let row = |key: &Key| {
            let (failures, since) = match *key {
                Key::Known(login, near) => match self.known_since(login, near) {
                    Some(at) => (1, at),
                    None => (0, now),
                },
                key => self.counters.get(&key).map_or((0, now), |c| (c.failures, c.since)),
            };
            let age = i64::try_from(now.duration_since(since).as_millis()).unwrap_or(i64::MAX);
            StoredAttempt { what: key.bytes(), failures, at_ms: now_ms.saturating_sub(age) }
        };
        keys.iter().map(row).collect()
    }

    /// Restores stored counters that have not expired, oldest first.
    pub(super) fn restore(&mut self, kept: &[StoredAttempt], now: Instant, now_ms: i64) {
        for row in kept {
            let Some(key) = Key::of(&row.what) else { continue };
            // After a clock that went back everything counts from now: longer, not shorter.
            let age = u64::try_from(now_ms.saturating_sub(row.at_ms)).unwrap_or(0);
            let age = Duration::from_millis(age);
            if age >= key.lasts(&self.limits) {
                continue;
            }
            let since = now.checked_sub(age).unwrap_or(now);
            match key {
                Key::Known(login, near) if self.known.len() < COUNTERS_MAX => {
                    let known = self.known.entry(login).or_default();
                    if known.len() < KNOWN_MAX && !known.iter().any(|(n, _)| *n == near) {
                        known.push((near, since));
                    }
                }
                Key::Known(..) => {}
                key if self.counters.len() < COUNTERS_MAX => {
                    let counter = Counter { since, failures: row.failures };
                    self.counters.entry(key).or_insert(counter);
                }
                _ => {}
            }
        }
    }
}

/// Removes the lowest quarter of a table and returns it.
fn evict_quarter<K: Copy + Eq + Hash, V, W: Ord>(
    table: &mut HashMap<K, V>,
    worth: impl Fn(&V) -> W,
) -> Vec<(K, V)> {
    let mut all: Vec<(W, K)> = table.iter().map(|(k, v)| (worth(v), *k)).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let least = all.into_iter().take(table.len() / 4 + 1);
    least.filter_map(|(_, key)| table.remove_entry(&key)).collect()
}
