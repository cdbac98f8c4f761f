//! Failed logins by address, within bounds: who guesses has to wait.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Counts them.
#[derive(Debug)]
pub(crate) struct Failures {
    by_address: Mutex<HashMap<IpAddr, (u32, Instant)>>,
    max: u32,
    window: Duration,
    addresses_max: usize,
}

impl Failures {
    pub(crate) fn new(max: u32, window: Duration, addresses_max: usize) -> Self {
        Failures { by_address: Mutex::default(), max, window, addresses_max }
    }

    /// Nothing more of this address is looked at now.
    pub(crate) fn is_over(&self, address: IpAddr, now: Instant) -> bool {
        let all = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = all.get(&network(address));
        counted.is_some_and(|(n, since)| *n >= self.max && now - *since < self.window)
    }

    /// Counts one.
    pub(crate) fn add(&self, address: IpAddr, now: Instant) {
        let mut all = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let address = network(address);
        if all.len() >= self.addresses_max && !all.contains_key(&address) {
            all.retain(|_, (_, since)| now - *since < self.window);
            if all.len() >= self.addresses_max {
                // Those who are over the limit stay.
                all.retain(|_, (n, _)| *n >= self.max);
            }
            if all.len() >= self.addresses_max {
                all.clear();
            }
        }
        let counted = all.entry(address).or_insert((0, now));
        if now - counted.1 >= self.window {
            *counted = (0, now);
        }
        counted.0 = counted.0.saturating_add(1);
    }
}

/// Of IPv6 a whole /64 is one customer.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_guesses_waits_and_tables_are_bounded() {
        let now = Instant::now();
        let window = Duration::from_secs(60);
        let failures = Failures::new(2, window, 3);
        let [a, b]: [IpAddr; 2] = ["2001:db8::1", "2001:db8::2"].map(|a| a.parse().unwrap());
        failures.add(a, now);
        assert!(!failures.is_over(a, now));
        failures.add(b, now);
        assert!(failures.is_over(a, now), "one /64");
        assert!(!failures.is_over("192.0.2.1".parse().unwrap(), now));
        for n in 0..9 {
            failures.add([192, 0, 2, n].into(), now);
        }
        assert!(failures.by_address.lock().unwrap().len() <= 3);
        assert!(failures.is_over(a, now), "those over the limit stay");
        assert!(!failures.is_over(a, now + window));
        failures.add(a, now + window);
        assert!(!failures.is_over(a, now + window), "it is counted anew");
    }
}
