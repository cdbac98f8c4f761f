use std::time::Instant;

use super::key::Network;
use super::state::COUNTERS_MAX;
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
    let (mut state, now, ada) = (State::default(), Instant::now(), hash_login("ada"));
    let client = ip("192.0.2.1");
    for _ in 0..FAILURES_PER_LOGIN_MAX {
        state.begin(client, ada, now).unwrap();
    }
    assert!(state.begin(client, ada, now).is_err());
    assert!(state.begin(client, hash_login("ADA "), now).is_err(), "letter case and spaces");
    state.begin(ip("192.0.2.2"), ada, now).unwrap();
    let tried = (0..100).filter(|n| state.begin(client, hash_login(&n.to_string()), now).is_ok());
    assert_eq!(tried.count() as u32, FAILURES_PER_ADDRESS_MAX - FAILURES_PER_LOGIN_MAX);
    // A /64 is one host; its /48 is a network, as a /24 is.
    let tried = |state: &mut State, address: &dyn Fn(u32) -> String| {
        let one =
            |n: &u32| state.begin(ip(&address(*n)), hash_login(&format!("x{n}")), now).is_ok();
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
    // Refused attempts lock out no other host, and everything expires.
    let mut state = State::default();
    for n in 0..5_000 {
        let _refused_mostly = state.begin(client, hash_login(&n.to_string()), now);
    }
    state.begin(ip("192.0.2.9"), ada, now).unwrap();
    assert!(state.begin(client, ada, now).is_err());
    state.begin(client, ada, now + WINDOW).unwrap();
}

#[test]
fn many_hosts_are_slowed_down_and_lock_no_user_out() {
    let (mut state, start, ada) = (State::default(), Instant::now(), hash_login("ada"));
    let home = ip("192.0.2.1");
    state.begin(home, ada, start).unwrap();
    state.succeeded(home, ada, start);
    // A day of a botnet that uses every attempt it gets.
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
            // The user signs in from home all the time, which does not help the botnet.
            state.begin(home, ada, now).unwrap();
            state.succeeded(home, ada, now);
        }
    }
    assert!((100..200).contains(&tries), "{tries} guesses a day");
    // From a new address the user waits ten minutes at most.
    if let Err(wait) = state.begin(ip("203.0.113.5"), ada, now) {
        assert!(wait <= ACCOUNT_WAIT_MAX, "{wait:?}");
        state.begin(ip("203.0.113.5"), ada, now + wait).unwrap();
    }
}

#[test]
fn a_proxy_that_strangers_share_does_not_keep_out_who_is_known_there() {
    let (mut state, now) = (State::default(), Instant::now());
    let proxy = ip("127.0.0.1");
    state.begin(proxy, hash_login("ada"), now).unwrap();
    state.succeeded(proxy, hash_login("ada"), now);
    for n in 0..100 {
        let _refused_at_last = state.begin(proxy, hash_login(&format!("x{n}")), now);
    }
    assert!(state.begin(proxy, hash_login("bob"), now).is_err());
    for _ in 0..FAILURES_PER_KNOWN_LOGIN_MAX {
        state.begin(proxy, hash_login("ada"), now).unwrap();
    }
    assert!(state.begin(proxy, hash_login("ada"), now).is_err(), "guessing there is limited, too");
}

#[test]
fn codes_cannot_be_tried_out() {
    let (mut state, start, ada) = (State::default(), Instant::now(), hash_login("ada"));
    let (mut now, mut tries) = (start, 0);
    while now < start + Duration::from_secs(30 * 86_400) {
        match state.begin_code(ada, now) {
            Ok(()) => tries += 1,
            Err(wait) => now += wait,
        }
    }
    // Of a million codes three are valid at any time.
    assert!(tries < 750, "{tries} codes a month");
}

#[test]
fn memory_is_bounded_and_a_flood_washes_nothing_out() {
    let (mut state, now, ada) = (State::default(), Instant::now(), hash_login("ada"));
    let client = ip("192.0.2.1");
    for _ in 0..FAILURES_PER_LOGIN_MAX {
        state.begin(client, ada, now).unwrap();
    }
    for n in 0..20_000 {
        let login = hash_login(&format!("user{n}"));
        let _may_be_refused = state.begin(stranger(n), login, now);
        state.succeeded(stranger(n), login, now);
    }
    assert!(state.counters.len() <= COUNTERS_MAX && state.known.len() <= COUNTERS_MAX);
    assert!(state.begin(client, ada, now).is_err(), "what counts is still counted");
}

#[test]
fn limits_are_those_that_are_set() {
    let (mut state, now, ada) = (State::default(), Instant::now(), hash_login("ada"));
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
    state.begin(client, hash_login("bob"), now).unwrap();
    assert!(state.begin(client, hash_login("eve"), now).is_err(), "of the address");
    state.begin(client, ada, now + Duration::from_secs(60)).unwrap();
    state.begin_code(ada, now).unwrap();
    assert_eq!(state.begin_code(ada, now), Err(Duration::from_secs(30)));
    let later = now + Duration::from_secs(30);
    state.begin_code(ada, later).unwrap();
    assert_eq!(state.begin_code(ada, later), Err(Duration::from_secs(40)));
}

#[test]
fn what_is_kept_counts_on_and_what_is_over_goes() {
    let (mut state, now, ada) = (State::default(), Instant::now(), hash_login("ada"));
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
        state.restore(&rows, now, now_ms);
        state
    };
    assert!(again(1_000_000).begin(eve, ada, now).is_err());
    // A clock that was set back makes it last longer, never shorter.
    assert!(again(-5).begin(eve, ada, now).is_err());
    assert!(again(1_000_000).is_known(ada, Network::host(home), now));
    assert!(!again(1_000_000).is_known(ada, Network::host(eve), now));
    let late = again(1_000_000 + 600_000);
    assert!(late.check_window(Key::Host(Network::host(eve)), 1, now).is_ok());
    assert!(again(1_000_000 + 31 * 86_400_000).known.is_empty());
    for nonsense in [&b""[..], b"x", b"l", b"k\0\0", &[b'n'; 99]] {
        let what = nonsense.to_vec();
        state.restore(&[StoredAttempt { what, failures: 9, at_ms: 0 }], now, 0);
    }
}

#[test]
fn a_client_that_has_to_wait_may_try_again_when_the_time_is_over() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Clock::manual(1_000));
    let users = crate::users::Users::open(folder.path()).unwrap().with_clock(clock.clone());
    let (attempts, client) = (users.attempts(), ip("192.0.2.1"));
    for _ in 0..FAILURES_PER_LOGIN_MAX {
        attempts.begin(client, "ada").unwrap();
    }
    let wait = attempts.begin(client, "ada").unwrap_err();
    assert_eq!(attempts.begin(client, "ada").unwrap_err(), wait, "the clock stands still");
    clock.advance(wait + Duration::from_millis(1));
    assert_eq!(attempts.begin(client, "ada"), Ok(()));
}
