//! How often passwords and codes may be tried, for console and mail clients together.
//!
//! Failures are counted three ways, and each protects from another attack:
//!
//! * **By address** (IPv4) or /64 (IPv6), and, more generously, by /24 or /48: one host guessing.
//! * **By login from one address**: one host guessing one password.
//! * **By login, from everywhere**: many hosts guessing one password. This delays the next attempt more
//!   and more, up to [`ACCOUNT_WAIT_MAX`], and never locks the account: a stranger must not be able to.
//!
//! An address from which a login signed in before is known for it: what strangers do, from other
//! addresses or behind the same proxy, does not keep it out there. Codes of a second factor are
//! counted by login from everywhere, without that exception, since who tries them has the password.
//!
//! Everything is in memory, bounded, and written behind to the user database ([`Keeper`]), so that neither an
//! attacker begins anew nor an owner is kept out by strangers after a restart.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::attempts_kept::{Keeper, KeptAttempt, now_ms};

/// How often passwords and codes may be tried: `[sign_in]` of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptLimits {
    /// How long failures of addresses count.
    pub window: Duration,
    /// Failures of one address (a /64 of IPv6) within the window after which it has to wait.
    pub failures_per_address_max: u32,
    /// Failures of a /24 (a /48 of IPv6) within the window after which all of it has to wait.
    pub failures_per_network_max: u32,
    /// Failures of one login from one address within the window.
    pub failures_per_login_max: u32,
    /// The same from an address that is known for the login: mail programs open many connections at once,
    /// and each counts until it has succeeded.
    pub failures_per_known_login_max: u32,
    /// Failures of a login from everywhere before attempts from unknown addresses are delayed.
    pub account_failures_free: u32,
    /// Longest time between two attempts at a login from unknown addresses.
    pub account_pause_max: Duration,
    /// Wrong codes of a second factor before the next is delayed.
    pub code_failures_free: u32,
    /// Longest time between two codes.
    pub code_pause_max: Duration,
    /// How long an address stays known.
    pub known_for: Duration,
}

impl Default for AttemptLimits {
    fn default() -> Self {
        AttemptLimits {
            window: Duration::from_secs(10 * 60),
            failures_per_address_max: 20,
            failures_per_network_max: 100,
            failures_per_login_max: 5,
            failures_per_known_login_max: 20,
            account_failures_free: 10,
            account_pause_max: Duration::from_secs(10 * 60),
            code_failures_free: 5,
            code_pause_max: Duration::from_secs(60 * 60),
            known_for: Duration::from_secs(30 * 24 * 60 * 60),
        }
    }
}

/// After so long without an attempt, failures of a login are forgotten, if no pause is longer.
const ACCOUNT_FORGET: Duration = Duration::from_secs(2 * 60 * 60);
/// After so long without an attempt, wrong codes are forgotten, if no pause is longer.
const CODE_FORGET: Duration = Duration::from_secs(24 * 60 * 60);
/// Counters kept, and logins with known addresses.
const KEPT_MAX: usize = 10_000;
/// Known addresses of one login.
const KNOWN_MAX: usize = 8;
/// The last sign-in from a known address is noted at most this often.
const KNOWN_STEP: Duration = Duration::from_secs(24 * 60 * 60);
/// Changes are collected this long before they are written: what begins and succeeds is not written at all.
const WRITE_PAUSE: Duration = Duration::from_millis(300);
/// After a write that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// Changes that wait to be written; beyond, they are not noted.
const CHANGED_MAX: usize = 20 * KEPT_MAX;

/// A login, hashed: whoever attacks chooses it, and it may be long.
pub(super) type Login = [u8; 16];

/// The first bits of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Network {
    pub(super) bits: u128,
    pub(super) prefix: u8,
}

impl Network {
    fn of(address: IpAddr, v4: u8, v6: u8) -> Self {
        match address.to_canonical() {
            IpAddr::V4(a) => {
                let bits = u128::from(u32::from(a) >> (32 - v4) << (32 - v4));
                Network { bits, prefix: v4 }
            }
            // The mark keeps prefixes of the families apart.
            IpAddr::V6(a) => {
                Network { bits: u128::from(a) >> (128 - v6) << (128 - v6), prefix: 128 | v6 }
            }
        }
    }

    /// What one host has: an address, or a /64.
    fn near(address: IpAddr) -> Self {
        Network::of(address, 32, 64)
    }

    /// What one customer may have: a /24, or a /48.
    fn wide(address: IpAddr) -> Self {
        Network::of(address, 24, 48)
    }
}

/// What failures are counted of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Near(Network),
    Wide(Network),
    LoginFrom(Login, Network),
    Login(Login),
    Code(Login),
    /// No counter: an address that is known for a login.
    Known(Login, Network),
}

impl Key {
    /// How long it is remembered after its last (or, for windows, first) failure.
    fn lasts(self, limits: &AttemptLimits) -> Duration {
        match self {
            Key::Near(_) | Key::Wide(_) | Key::LoginFrom(..) => limits.window,
            Key::Login(_) => ACCOUNT_FORGET.max(limits.account_pause_max.saturating_mul(2)),
            Key::Code(_) => CODE_FORGET.max(limits.code_pause_max.saturating_mul(2)),
            Key::Known(..) => limits.known_for,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Counter {
    /// The first failure of the window; for delays the last.
    since: Instant,
    failures: u32,
}

#[derive(Debug, Default)]
struct State {
    limits: AttemptLimits,
    counters: HashMap<Key, Counter>,
    known: HashMap<Login, Vec<(Network, Instant)>>,
    /// What the database does not have as it is here.
    changed: HashSet<Key>,
    /// What the database had is here.
    is_loaded: bool,
    /// When it is asked again, if it did not answer.
    load_at: Option<Instant>,
    is_ending: bool,
}

/// Counts attempts. An attempt counts as failed from its beginning, since checking is costly and others
/// may come at the same time, until it is said that it succeeded.
#[derive(Debug, Default)]
pub struct Attempts {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
    passwords_refused: AtomicU64,
    codes_refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    woken: Condvar,
    /// Where attempts outlive the process; none forgets them with it.
    keeper: Option<Arc<dyn Keeper>>,
}

impl Drop for Attempts {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Attempts {
    pub(super) fn kept_by(keeper: Arc<dyn Keeper>) -> Self {
        let shared = Arc::new(Shared { keeper: Some(keeper), ..Shared::default() });
        Attempts {
            shared,
            writer: Mutex::default(),
            passwords_refused: AtomicU64::default(),
            codes_refused: AtomicU64::default(),
        }
    }

    /// Sets what is counted against from now on.
    pub fn set_limits(&self, limits: AttemptLimits) {
        self.shared.lock().limits = limits;
    }

    /// Counts an attempt at a password before it is made.
    ///
    /// # Errors
    /// How long to wait, if it must not be made now.
    pub fn begin(&self, client: IpAddr, login: &str) -> Result<(), Duration> {
        let begun = self.changing(|state| state.begin(client, hashed(login), Instant::now()));
        if begun.is_err() {
            self.passwords_refused.fetch_add(1, Ordering::Relaxed);
        }
        begun
    }

    /// The attempt was right: it is not counted, and the address is known from now on.
    pub fn succeeded(&self, client: IpAddr, login: &str) {
        self.changing(|state| state.succeeded(client, hashed(login), Instant::now()));
    }

    /// Counts an attempt at a code of a second factor, after the password was right.
    ///
    /// # Errors
    /// How long to wait, if it must not be made now.
    pub fn begin_code(&self, login: &str) -> Result<(), Duration> {
        let begun = self.changing(|state| state.begin_code(hashed(login), Instant::now()));
        if begun.is_err() {
            self.codes_refused.fetch_add(1, Ordering::Relaxed);
        }
        begun
    }

    /// The code was right: wrong ones before it are forgotten.
    pub fn code_succeeded(&self, login: &str) {
        self.changing(|state| state.forget(Key::Code(hashed(login))));
    }

    /// Attempts at passwords and at codes that were refused, since the process began.
    pub fn refused(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.passwords_refused), count(&self.codes_refused))
    }

    /// Writes what is not written yet, and then nothing more: the process ends.
    pub fn finish(&self) {
        self.shared.lock().is_ending = true;
        self.shared.woken.notify_all();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        // What it says is in the log already.
        let _ended = writer.map(JoinHandle::join);
    }

    /// Changes the state, and has the change written.
    fn changing<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.shared.lock();
        self.shared.load(&mut state);
        let value = change(&mut state);
        let has_changed = !state.changed.is_empty();
        drop(state);
        if has_changed && self.shared.keeper.is_some() {
            self.wake_writer();
        }
        value
    }

    /// The thread that writes begins with the first change: commands that only read have none.
    fn wake_writer(&self) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.is_none() {
            let shared = self.shared.clone();
            let name = "attempts".to_owned();
            match std::thread::Builder::new().name(name).spawn(move || shared.write_behind()) {
                Ok(started) => *writer = Some(started),
                Err(error) => tracing::error!(%error, "attempts to sign in are not kept"),
            }
        }
        self.shared.woken.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what the database has, once.
    fn load(&self, state: &mut State) {
        let Some(keeper) = self.keeper.as_ref().filter(|_| !state.is_loaded) else { return };
        let now = Instant::now();
        if state.load_at.is_some_and(|at| now < at) {
            return;
        }
        match keeper.attempts_kept() {
            Ok(kept) => {
                state.take(&kept, now, now_ms());
                state.is_loaded = true;
            }
            Err(error) => {
                tracing::error!(%error, "earlier attempts to sign in cannot be read");
                state.load_at = Some(now + RETRY_PAUSE);
            }
        }
    }

    /// Writes what changes until it is told to end.
    fn write_behind(&self) {
        let Some(keeper) = &self.keeper else { return };
        let poisoned = PoisonError::into_inner;
        loop {
            let idle = |state: &mut State| state.changed.is_empty() && !state.is_ending;
            let state = self.woken.wait_while(self.lock(), idle).unwrap_or_else(poisoned);
            if state.changed.is_empty() {
                return;
            }
            let mut state = self.pause(state, WRITE_PAUSE);
            let changed: Vec<Key> = state.changed.drain().collect();
            let rows = state.rows(&changed, Instant::now(), now_ms());
            drop(state);
            if let Err(error) = keeper.keep_attempts(&rows) {
                tracing::error!(%error, "attempts to sign in cannot be kept");
                let mut state = self.lock();
                if state.is_ending {
                    return;
                }
                changed.into_iter().for_each(|key| state.note(key));
                drop(self.pause(state, RETRY_PAUSE));
            }
        }
    }

    /// Waits so long, or until the end.
    fn pause<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        let waited = self.woken.wait_timeout_while(state, time, |state| !state.is_ending);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl State {
    fn begin(&mut self, client: IpAddr, login: Login, now: Instant) -> Result<(), Duration> {
        let limits = self.limits;
        let (near, wide) = (Network::near(client), Network::wide(client));
        let from = Key::LoginFrom(login, near);
        let known = self.is_known(login, near, now);
        let most =
            if known { limits.failures_per_known_login_max } else { limits.failures_per_login_max };
        self.window_open(from, most, now)?;
        if !known {
            // Only what an address does itself counts for its network: else one host that goes on
            // being refused would close it for its neighbours.
            self.window_open(Key::Near(near), limits.failures_per_address_max, now)?;
            self.window_open(Key::Wide(wide), limits.failures_per_network_max, now)?;
            let (free, most) = (limits.account_failures_free, limits.account_pause_max);
            self.pause_over(Key::Login(login), free, Duration::from_secs(1), most, now)?;
            self.count_pause(Key::Login(login), now);
        }
        for key in [from, Key::Near(near), Key::Wide(wide)] {
            self.count_window(key, now);
        }
        Ok(())
    }

    fn succeeded(&mut self, client: IpAddr, login: Login, now: Instant) {
        let (near, wide) = (Network::near(client), Network::wide(client));
        self.forget(Key::LoginFrom(login, near));
        let mut own = vec![Key::Near(near), Key::Wide(wide)];
        if !self.is_known(login, near, now) {
            own.push(Key::Login(login));
        }
        // What strangers failed at stays counted: whoever attacks would begin anew with each success.
        for key in own {
            if let Some(counter) = self.counters.get_mut(&key) {
                counter.failures = counter.failures.saturating_sub(1);
                self.note(key);
            }
        }
        self.know(login, near, now);
    }

    /// The address is known for the login from now on.
    fn know(&mut self, login: Login, near: Network, now: Instant) {
        if self.known.len() >= KEPT_MAX && !self.known.contains_key(&login) {
            let last = |known: &Vec<(Network, Instant)>| known.iter().map(|(_, at)| *at).max();
            for (login, networks) in drop_least(&mut self.known, last) {
                networks.into_iter().for_each(|(n, _)| self.note(Key::Known(login, n)));
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
        gone.into_iter().for_each(|network| self.note(Key::Known(login, network)));
    }

    fn begin_code(&mut self, login: Login, now: Instant) -> Result<(), Duration> {
        let (key, first) = (Key::Code(login), Duration::from_secs(30));
        let (free, most) = (self.limits.code_failures_free, self.limits.code_pause_max);
        self.pause_over(key, free, first, most, now)?;
        self.count_pause(key, now);
        Ok(())
    }

    fn is_known(&self, login: Login, near: Network, now: Instant) -> bool {
        self.known_since(login, near)
            .is_some_and(|at| now.duration_since(at) < self.limits.known_for)
    }

    fn known_since(&self, login: Login, near: Network) -> Option<Instant> {
        let known = self.known.get(&login).map(Vec::as_slice).unwrap_or_default();
        known.iter().find(|(network, _)| *network == near).map(|(_, at)| *at)
    }

    /// Fewer than `max` failures within the window; else how long it lasts still.
    fn window_open(&self, key: Key, max: u32, now: Instant) -> Result<(), Duration> {
        let Some(counter) = self.counters.get(&key) else { return Ok(()) };
        let left = self.limits.window.saturating_sub(now.duration_since(counter.since));
        if counter.failures < max || left.is_zero() { Ok(()) } else { Err(left) }
    }

    /// The pause after the last failure is over: none after `free` failures, then `first`, and twice as
    /// long after each further one, up to `most`.
    fn pause_over(
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

    fn count_pause(&mut self, key: Key, now: Instant) {
        let lasts = key.lasts(&self.limits);
        let counter = self.counter(key, now);
        if now.duration_since(counter.since) >= lasts {
            counter.failures = 0;
        }
        counter.failures = counter.failures.saturating_add(1);
        counter.since = now;
    }

    /// The counter of this key, to be changed. There is room for it: what is over goes first, then what has
    /// the fewest failures, so that a flood of new keys does not wash out those that count.
    fn counter(&mut self, key: Key, now: Instant) -> &mut Counter {
        if self.counters.len() >= KEPT_MAX && !self.counters.contains_key(&key) {
            let (limits, mut over) = (self.limits, Vec::new());
            self.counters.retain(|key, c| {
                let counts = now.duration_since(c.since) < key.lasts(&limits);
                over.extend((!counts).then_some(*key));
                counts
            });
            if self.counters.len() >= KEPT_MAX {
                let dropped = drop_least(&mut self.counters, |c| (c.failures, c.since));
                over.extend(dropped.into_iter().map(|(key, _)| key));
            }
            over.into_iter().for_each(|key| self.note(key));
        }
        self.note(key);
        self.counters.entry(key).or_insert(Counter { since: now, failures: 0 })
    }

    fn forget(&mut self, key: Key) {
        if self.counters.remove(&key).is_some() {
            self.note(key);
        }
    }

    /// Has this written as it will be then.
    fn note(&mut self, key: Key) {
        if self.changed.len() < CHANGED_MAX {
            self.changed.insert(key);
        }
    }

    /// These as the database keeps them; no failures where there is nothing any more.
    fn rows(&self, keys: &[Key], now: Instant, now_ms: i64) -> Vec<KeptAttempt> {
        let row = |key: &Key| {
            let (failures, since) = match *key {
                Key::Known(login, near) => match self.known_since(login, near) {
                    Some(at) => (1, at),
                    None => (0, now),
                },
                key => self.counters.get(&key).map_or((0, now), |c| (c.failures, c.since)),
            };
            let age = i64::try_from(now.duration_since(since).as_millis()).unwrap_or(i64::MAX);
            KeptAttempt { what: key.bytes(), failures, at_ms: now_ms.saturating_sub(age) }
        };
        keys.iter().map(row).collect()
    }

    /// Takes over what a database has kept: what still counts, oldest first.
    fn take(&mut self, kept: &[KeptAttempt], now: Instant, now_ms: i64) {
        for row in kept {
            let Some(key) = Key::of(&row.what) else { continue };
            // A clock that went back makes everything as if it were of now: it counts longer, not shorter.
            let age = u64::try_from(now_ms.saturating_sub(row.at_ms)).unwrap_or(0);
            let age = Duration::from_millis(age);
            if age >= key.lasts(&self.limits) {
                continue;
            }
            let since = now.checked_sub(age).unwrap_or(now);
            match key {
                Key::Known(login, near) if self.known.len() < KEPT_MAX => {
                    let known = self.known.entry(login).or_default();
                    if known.len() < KNOWN_MAX && !known.iter().any(|(n, _)| *n == near) {
                        known.push((near, since));
                    }
                }
                Key::Known(..) => {}
                key if self.counters.len() < KEPT_MAX => {
                    let counter = Counter { since, failures: row.failures };
                    self.counters.entry(key).or_insert(counter);
                }
                _ => {}
            }
        }
    }
}

/// Drops a quarter of a table, what is worth least, and returns it.
fn drop_least<K: Copy + Eq + Hash, V, W: Ord>(
    table: &mut HashMap<K, V>,
    worth: impl Fn(&V) -> W,
) -> Vec<(K, V)> {
    let mut all: Vec<(W, K)> = table.iter().map(|(k, v)| (worth(v), *k)).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let least = all.into_iter().take(table.len() / 4 + 1);
    least.filter_map(|(_, key)| table.remove_entry(&key)).collect()
}

fn hashed(login: &str) -> Login {
    let mut out = [0; 16];
    let hash = blake3::hash(login.trim().to_ascii_lowercase().as_bytes());
    out.copy_from_slice(hash.as_bytes().get(..16).unwrap_or(&[0; 16]));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(600);
    const FAILURES_PER_ADDRESS_MAX: u32 = 20;
    const FAILURES_PER_NETWORK_MAX: u32 = 100;
    const FAILURES_PER_LOGIN_MAX: u32 = 5;
    const FAILURES_PER_KNOWN_LOGIN_MAX: u32 = 20;
    const ACCOUNT_WAIT_MAX: Duration = Duration::from_secs(600);

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// The `n`th address, each in a /24 of its own.
    fn stranger(n: u32) -> IpAddr {
        IpAddr::from((0x0b00_0000 + (n << 8) + 1).to_be_bytes())
    }

    #[test]
    fn one_host_is_limited_by_login_address_and_network() {
        let (mut state, now, ada) = (State::default(), Instant::now(), hashed("ada"));
        let client = ip("192.0.2.1");
        for _ in 0..FAILURES_PER_LOGIN_MAX {
            state.begin(client, ada, now).unwrap();
        }
        assert!(state.begin(client, ada, now).is_err());
        assert!(state.begin(client, hashed("ADA "), now).is_err(), "letter case and spaces");
        state.begin(ip("192.0.2.2"), ada, now).unwrap();
        let tried = (0..100).filter(|n| state.begin(client, hashed(&n.to_string()), now).is_ok());
        assert_eq!(tried.count() as u32, FAILURES_PER_ADDRESS_MAX - FAILURES_PER_LOGIN_MAX);
        // A /64 is one host; its /48 is a network, as a /24 is.
        let tried = |state: &mut State, address: &dyn Fn(u32) -> String| {
            let one =
                |n: &u32| state.begin(ip(&address(*n)), hashed(&format!("x{n}")), now).is_ok();
            (0..500).filter(one).count() as u32
        };
        let host = |n: u32| format!("2001:db8:1:1::{n:x}");
        assert_eq!(tried(&mut state, &host), FAILURES_PER_ADDRESS_MAX);
        let hosts = |n: u32| format!("2001:db8:2:{n:x}::1");
        assert_eq!(tried(&mut state, &hosts), FAILURES_PER_NETWORK_MAX);
        let neighbours = |n: u32| format!("198.51.100.{}", n % 250);
        assert_eq!(tried(&mut state, &neighbours), FAILURES_PER_NETWORK_MAX);
        let mapped = |n: u32| format!("::ffff:203.0.113.{}", n % 2);
        assert_eq!(tried(&mut state, &mapped), 2 * FAILURES_PER_ADDRESS_MAX, "as IPv4");
        // Being refused keeps nobody else out, and everything ends.
        let mut state = State::default();
        for n in 0..5_000 {
            let _refused_mostly = state.begin(client, hashed(&n.to_string()), now);
        }
        state.begin(ip("192.0.2.9"), ada, now).unwrap();
        assert!(state.begin(client, ada, now).is_err());
        state.begin(client, ada, now + WINDOW).unwrap();
    }

    #[test]
    fn many_hosts_are_slowed_down_and_lock_nobody_out() {
        let (mut state, start, ada) = (State::default(), Instant::now(), hashed("ada"));
        let home = ip("192.0.2.1");
        state.begin(home, ada, start).unwrap();
        state.succeeded(home, ada, start);
        // A day of a net of hosts that takes every chance it gets.
        let (mut tries, mut n) = (0, 0);
        let day = Duration::from_secs(86_400);
        let mut now = start;
        while now < start + day {
            n += 1;
            match state.begin(stranger(n), ada, now) {
                Ok(()) => tries += 1,
                Err(wait) => now += wait,
            }
            if n % 50 == 0 {
                // The owner comes in from home all the time, and that helps nobody else.
                state.begin(home, ada, now).unwrap();
                state.succeeded(home, ada, now);
            }
        }
        assert!((100..200).contains(&tries), "{tries} guesses a day");
        // From a new place the owner waits ten minutes at most.
        if let Err(wait) = state.begin(ip("203.0.113.5"), ada, now) {
            assert!(wait <= ACCOUNT_WAIT_MAX, "{wait:?}");
            state.begin(ip("203.0.113.5"), ada, now + wait).unwrap();
        }
    }

    #[test]
    fn a_proxy_that_strangers_share_does_not_keep_out_who_is_known_there() {
        let (mut state, now) = (State::default(), Instant::now());
        let proxy = ip("127.0.0.1");
        state.begin(proxy, hashed("ada"), now).unwrap();
        state.succeeded(proxy, hashed("ada"), now);
        for n in 0..100 {
            let _refused_at_last = state.begin(proxy, hashed(&format!("x{n}")), now);
        }
        assert!(state.begin(proxy, hashed("bob"), now).is_err());
        for _ in 0..FAILURES_PER_KNOWN_LOGIN_MAX {
            state.begin(proxy, hashed("ada"), now).unwrap();
        }
        assert!(state.begin(proxy, hashed("ada"), now).is_err(), "guessing there is limited, too");
    }

    #[test]
    fn codes_cannot_be_tried_out() {
        let (mut state, start, ada) = (State::default(), Instant::now(), hashed("ada"));
        let (mut now, mut tries) = (start, 0);
        while now < start + Duration::from_secs(30 * 86_400) {
            match state.begin_code(ada, now) {
                Ok(()) => tries += 1,
                Err(wait) => now += wait,
            }
        }
        // Of a million codes three are right at any time.
        assert!(tries < 750, "{tries} codes a month");
    }

    #[test]
    fn memory_is_bounded_and_a_flood_washes_nothing_out() {
        let (mut state, now, ada) = (State::default(), Instant::now(), hashed("ada"));
        let client = ip("192.0.2.1");
        for _ in 0..FAILURES_PER_LOGIN_MAX {
            state.begin(client, ada, now).unwrap();
        }
        for n in 0..20_000 {
            let login = hashed(&format!("user{n}"));
            let _may_be_refused = state.begin(stranger(n), login, now);
            state.succeeded(stranger(n), login, now);
        }
        assert!(state.counters.len() <= KEPT_MAX && state.known.len() <= KEPT_MAX);
        assert!(state.begin(client, ada, now).is_err(), "what counts is still counted");
    }

    #[test]
    fn limits_are_those_that_are_set() {
        let (mut state, now, ada) = (State::default(), Instant::now(), hashed("ada"));
        state.limits = AttemptLimits {
            window: Duration::from_secs(60),
            failures_per_login_max: 2,
            failures_per_address_max: 3,
            code_failures_free: 1,
            code_pause_max: Duration::from_secs(40),
            ..AttemptLimits::default()
        };
        let client = ip("192.0.2.1");
        state.begin(client, ada, now).unwrap();
        state.begin(client, ada, now).unwrap();
        assert_eq!(state.begin(client, ada, now), Err(Duration::from_secs(60)));
        state.begin(client, hashed("bob"), now).unwrap();
        assert!(state.begin(client, hashed("eve"), now).is_err(), "of the address");
        state.begin(client, ada, now + Duration::from_secs(60)).unwrap();
        state.begin_code(ada, now).unwrap();
        assert_eq!(state.begin_code(ada, now), Err(Duration::from_secs(30)));
        let later = now + Duration::from_secs(30);
        state.begin_code(ada, later).unwrap();
        assert_eq!(state.begin_code(ada, later), Err(Duration::from_secs(40)));
    }

    #[test]
    fn what_is_kept_counts_on_and_what_is_over_goes() {
        let (mut state, now, ada) = (State::default(), Instant::now(), hashed("ada"));
        let (home, eve) = (ip("2001:db8::1"), ip("192.0.2.1"));
        state.begin(home, ada, now).unwrap();
        state.succeeded(home, ada, now);
        for _ in 0..FAILURES_PER_LOGIN_MAX {
            state.begin(eve, ada, now).unwrap();
        }
        let keys: Vec<Key> = state.changed.drain().collect();
        let rows = state.rows(&keys, now, 1_000_000);
        let again = |now_ms: i64| {
            let mut state = State::default();
            state.take(&rows, now, now_ms);
            state
        };
        assert!(again(1_000_000).begin(eve, ada, now).is_err());
        // A clock that was set back makes it last longer, never shorter.
        assert!(again(-5).begin(eve, ada, now).is_err());
        assert!(again(1_000_000).is_known(ada, Network::near(home), now));
        assert!(!again(1_000_000).is_known(ada, Network::near(eve), now));
        let late = again(1_000_000 + 600_000);
        assert!(late.window_open(Key::Near(Network::near(eve)), 1, now).is_ok());
        assert!(again(1_000_000 + 31 * 86_400_000).known.is_empty());
        for nonsense in [&b""[..], b"x", b"l", b"k\0\0", &[b'n'; 99]] {
            let what = nonsense.to_vec();
            state.take(&[KeptAttempt { what, failures: 9, at_ms: 0 }], now, 0);
        }
    }
}
