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
//! Everything is in memory, bounded, and forgotten with the process.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Failures of one address (a /64 of IPv6) within [`WINDOW`] after which it has to wait.
pub const FAILURES_PER_ADDRESS_MAX: u32 = 20;
/// Failures of a /24 (a /48 of IPv6) within [`WINDOW`] after which all of it has to wait.
pub const FAILURES_PER_NETWORK_MAX: u32 = 100;
/// Failures of one login from one address within [`WINDOW`].
pub const FAILURES_PER_LOGIN_MAX: u32 = 5;
/// The same from an address that is known for the login: mail programs open many connections at once,
/// and each counts until it has succeeded.
pub const FAILURES_PER_KNOWN_LOGIN_MAX: u32 = 20;
/// How long failures of addresses count.
pub const WINDOW: Duration = Duration::from_secs(10 * 60);
/// Failures of a login from everywhere before attempts from unknown addresses are delayed.
pub const ACCOUNT_FAILURES_FREE: u32 = 10;
/// Longest time between two attempts at a login from unknown addresses.
pub const ACCOUNT_WAIT_MAX: Duration = Duration::from_secs(10 * 60);
/// Wrong codes of a second factor before the next is delayed.
pub const CODE_FAILURES_FREE: u32 = 5;
/// Longest time between two codes.
pub const CODE_WAIT_MAX: Duration = Duration::from_secs(60 * 60);

/// After so long without an attempt, failures of a login are forgotten.
const ACCOUNT_FORGET: Duration = Duration::from_secs(2 * 60 * 60);
/// After so long without an attempt, wrong codes are forgotten.
const CODE_FORGET: Duration = Duration::from_secs(24 * 60 * 60);
/// Counters kept, and logins with known addresses.
const KEPT_MAX: usize = 10_000;
/// Known addresses of one login.
const KNOWN_MAX: usize = 8;
/// How long an address stays known.
const KNOWN_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A login, hashed: whoever attacks chooses it, and it may be long.
type Login = [u8; 16];

/// The first bits of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Network {
    bits: u128,
    prefix: u8,
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
enum Key {
    Near(Network),
    Wide(Network),
    LoginFrom(Login, Network),
    Login(Login),
    Code(Login),
}

impl Key {
    /// How long it is remembered after its last (or, for windows, first) failure.
    fn lasts(self) -> Duration {
        match self {
            Key::Near(_) | Key::Wide(_) | Key::LoginFrom(..) => WINDOW,
            Key::Login(_) => ACCOUNT_FORGET,
            Key::Code(_) => CODE_FORGET,
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
    counters: HashMap<Key, Counter>,
    known: HashMap<Login, Vec<(Network, Instant)>>,
}

/// Counts attempts. An attempt counts as failed from its beginning, since checking is costly and others
/// may come at the same time, until it is said that it succeeded.
#[derive(Debug, Default)]
pub struct Attempts {
    state: Mutex<State>,
}

impl Attempts {
    /// Counts an attempt at a password before it is made.
    ///
    /// # Errors
    /// How long to wait, if it must not be made now.
    pub fn begin(&self, client: IpAddr, login: &str) -> Result<(), Duration> {
        self.state().begin(client, hashed(login), Instant::now())
    }

    /// The attempt was right: it is not counted, and the address is known from now on.
    pub fn succeeded(&self, client: IpAddr, login: &str) {
        self.state().succeeded(client, hashed(login), Instant::now());
    }

    /// Counts an attempt at a code of a second factor, after the password was right.
    ///
    /// # Errors
    /// How long to wait, if it must not be made now.
    pub fn begin_code(&self, login: &str) -> Result<(), Duration> {
        self.state().begin_code(hashed(login), Instant::now())
    }

    /// The code was right: wrong ones before it are forgotten.
    pub fn code_succeeded(&self, login: &str) {
        self.state().counters.remove(&Key::Code(hashed(login)));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin(&mut self, client: IpAddr, login: Login, now: Instant) -> Result<(), Duration> {
        let (near, wide) = (Network::near(client), Network::wide(client));
        let from = Key::LoginFrom(login, near);
        let known = self.is_known(login, near, now);
        let most = if known { FAILURES_PER_KNOWN_LOGIN_MAX } else { FAILURES_PER_LOGIN_MAX };
        self.window_open(from, most, now)?;
        if !known {
            // Only what an address does itself counts for its network: else one host that goes on
            // being refused would close it for its neighbours.
            self.window_open(Key::Near(near), FAILURES_PER_ADDRESS_MAX, now)?;
            self.window_open(Key::Wide(wide), FAILURES_PER_NETWORK_MAX, now)?;
            let (free, most) = (ACCOUNT_FAILURES_FREE, ACCOUNT_WAIT_MAX);
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
        self.counters.remove(&Key::LoginFrom(login, near));
        let mut own = vec![Key::Near(near), Key::Wide(wide)];
        if !self.is_known(login, near, now) {
            own.push(Key::Login(login));
        }
        // What strangers failed at stays counted: whoever attacks would begin anew with each success.
        for key in own {
            if let Some(counter) = self.counters.get_mut(&key) {
                counter.failures = counter.failures.saturating_sub(1);
            }
        }
        if self.known.len() >= KEPT_MAX && !self.known.contains_key(&login) {
            let last = |known: &Vec<(Network, Instant)>| known.iter().map(|(_, at)| *at).max();
            drop_least(&mut self.known, last);
        }
        let known = self.known.entry(login).or_default();
        known.retain(|(network, at)| *network != near && now.duration_since(*at) < KNOWN_FOR);
        if known.len() >= KNOWN_MAX {
            known.remove(0);
        }
        known.push((near, now));
    }

    fn begin_code(&mut self, login: Login, now: Instant) -> Result<(), Duration> {
        let (key, first) = (Key::Code(login), Duration::from_secs(30));
        self.pause_over(key, CODE_FAILURES_FREE, first, CODE_WAIT_MAX, now)?;
        self.count_pause(key, now);
        Ok(())
    }

    fn is_known(&self, login: Login, near: Network, now: Instant) -> bool {
        let known = self.known.get(&login).map(Vec::as_slice).unwrap_or_default();
        known.iter().any(|(network, at)| *network == near && now.duration_since(*at) < KNOWN_FOR)
    }

    /// Fewer than `max` failures within the window; else how long it lasts still.
    fn window_open(&self, key: Key, max: u32, now: Instant) -> Result<(), Duration> {
        let Some(counter) = self.counters.get(&key) else { return Ok(()) };
        let left = WINDOW.saturating_sub(now.duration_since(counter.since));
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
        if counter.failures < free || passed >= key.lasts() {
            return Ok(());
        }
        let doubled = 1u32.checked_shl((counter.failures - free).min(20)).unwrap_or(u32::MAX);
        let left = first.saturating_mul(doubled).min(most).saturating_sub(passed);
        if left.is_zero() { Ok(()) } else { Err(left) }
    }

    fn count_window(&mut self, key: Key, now: Instant) {
        let counter = self.counter(key, now);
        if now.duration_since(counter.since) >= WINDOW {
            *counter = Counter { since: now, failures: 0 };
        }
        counter.failures = counter.failures.saturating_add(1);
    }

    fn count_pause(&mut self, key: Key, now: Instant) {
        let counter = self.counter(key, now);
        if now.duration_since(counter.since) >= key.lasts() {
            counter.failures = 0;
        }
        counter.failures = counter.failures.saturating_add(1);
        counter.since = now;
    }

    /// The counter of this key. There is room for it: what is over goes first, then what has the
    /// fewest failures, so that a flood of new keys does not wash out those that count.
    fn counter(&mut self, key: Key, now: Instant) -> &mut Counter {
        if self.counters.len() >= KEPT_MAX && !self.counters.contains_key(&key) {
            self.counters.retain(|key, c| now.duration_since(c.since) < key.lasts());
            if self.counters.len() >= KEPT_MAX {
                drop_least(&mut self.counters, |c| (c.failures, c.since));
            }
        }
        self.counters.entry(key).or_insert(Counter { since: now, failures: 0 })
    }
}

/// Drops a quarter of a table: what is worth least.
fn drop_least<K: Copy + Eq + Hash, V, W: Ord>(table: &mut HashMap<K, V>, worth: impl Fn(&V) -> W) {
    let mut all: Vec<(W, K)> = table.iter().map(|(k, v)| (worth(v), *k)).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    for (_, key) in all.iter().take(table.len() / 4 + 1) {
        table.remove(key);
    }
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
}
