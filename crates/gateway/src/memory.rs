//! A budget that clients share: bytes in memory, bytes on disk, files.
//!
//! A share belongs to its holders: the client's address, its network (/24, /64), a service. Each
//! holder has at most a percentage of the budget, so that no client can take all of it from the
//! others.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Clock;

/// Between two polls whether there is room now.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Who holds a part of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A client by its address.
    Client(IpAddr),
    /// Its network: the first address of its /24 or /64.
    Network(IpAddr),
    /// A service, with all its clients.
    Service {
        /// Its index in the configuration.
        index: usize,
        /// Per cent of the budget that it may hold.
        percent_max: u32,
    },
}

/// The network of an address: /24 of IPv4, /64 of IPv6.
pub fn network_of(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(Ipv4Addr::from_bits(ip.to_bits() & !0xff)),
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX))),
    }
}

/// Bounds of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Size of the whole budget, in its units (bytes or files).
    pub max: u64,
    /// Per cent of them that one client address may hold.
    pub percent_per_client_max: u32,
    /// Per cent that one network may hold.
    pub percent_per_network_max: u32,
    /// A whole message: a holder may have one of this size whatever its share is.
    pub whole_max: u64,
}

impl BudgetLimits {
    /// So many units in all, and no shares.
    pub fn of(max: u64) -> Self {
        BudgetLimits {
            max,
            percent_per_client_max: 100,
            percent_per_network_max: 100,
            whole_max: max,
        }
    }

    fn share_of(&self, holder: Holder) -> u64 {
        let percent = match holder {
            Holder::Client(_) => self.percent_per_client_max,
            Holder::Network(_) => self.percent_per_network_max,
            Holder::Service { percent_max, .. } => percent_max,
        };
        self.max / 100 * u64::from(percent) + self.max % 100 * u64::from(percent) / 100
    }
}

/// How far a holder's share reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Each holder up to its percentage.
    Share,
    /// To one whole message, if the holder has nothing else.
    Alone,
    /// To one whole message.
    Whole,
}

/// Units in use, in all and by holder.
#[derive(Debug)]
struct Held {
    limits: BudgetLimits,
    total: u64,
    by_holder: HashMap<Holder, u64>,
}

/// A budget. Share it as `Arc<MemoryBudget>`.
#[derive(Debug)]
pub struct MemoryBudget(Mutex<Held>);

/// A part of the budget; dropping it gives it back.
#[derive(Debug)]
pub struct MemoryShare {
    budget: Arc<MemoryBudget>,
    holders: Vec<Holder>,
    units: u64,
}

impl MemoryBudget {
    /// A budget within these limits.
    pub fn new(limits: BudgetLimits) -> Self {
        MemoryBudget(Mutex::new(Held { limits, total: 0, by_holder: HashMap::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other limits from now on.
    pub fn set_limits(&self, limits: BudgetLimits) {
        self.lock().limits = limits;
    }

    /// An empty share without holders: bounded by the whole budget only.
    pub fn share(self: &Arc<Self>) -> MemoryShare {
        MemoryShare { budget: self.clone(), holders: Vec::new(), units: 0 }
    }

    /// An empty share of these holders.
    pub fn share_of(self: &Arc<Self>, holders: Vec<Holder>) -> MemoryShare {
        MemoryShare { budget: self.clone(), holders, units: 0 }
    }

    /// Units that all shares together hold.
    pub fn used(&self) -> u64 {
        self.lock().total
    }

    /// At least so many per cent are in use.
    pub fn is_used_from(&self, percent: u32) -> bool {
        let held = self.lock();
        let used = u128::from(held.total) * 100;
        held.total > 0 && used >= u128::from(held.limits.max) * u128::from(percent)
    }
}

impl MemoryShare {
    /// Units that it holds.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// There is room for so many more, within the shares of its holders.
    pub fn has_room(&self, more: u64) -> bool {
        self.fits(&self.budget.lock(), more, Reach::Alone)
    }

    fn fits(&self, held: &Held, more: u64, reach: Reach) -> bool {
        let limits = &held.limits;
        let within = |holder: &Holder| {
            let now = held.by_holder.get(holder).copied().unwrap_or(0);
            let least = match reach {
                Reach::Whole => limits.whole_max,
                Reach::Alone if now == self.units => limits.whole_max,
                Reach::Alone | Reach::Share => 0,
            };
            now.saturating_add(more) <= limits.share_of(*holder).max(least)
        };
        held.total.saturating_add(more) <= limits.max && self.holders.iter().all(within)
    }

    /// Makes the share `units` large. False, and nothing changes, if there is no room in the budget
    /// or in the share of one of its holders.
    pub fn resize(&mut self, units: u64) -> bool {
        self.set(units, Reach::Share)
    }

    /// The same for a holder that may have one whole message beyond its share, if it has nothing
    /// else: what is larger than the share is not refused for ever.
    pub fn resize_alone(&mut self, units: u64) -> bool {
        self.set(units, Reach::Alone)
    }

    /// The same for a whole message that is about to be judged: a holder may have one of the
    /// largest size whatever its share is, so that no message is refused for ever. Waits so long by
    /// this clock for room.
    pub async fn resize_for_whole(&mut self, units: u64, wait: Duration, clock: &Clock) -> bool {
        let began = clock.now();
        loop {
            if self.set(units, Reach::Whole) {
                return true;
            }
            if units > self.budget.lock().limits.max || clock.elapsed(began) >= wait {
                return false;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn set(&mut self, units: u64, reach: Reach) -> bool {
        if units == self.units {
            return true;
        }
        let budget = self.budget.clone();
        let mut held = budget.lock();
        if units > self.units && !self.fits(&held, units - self.units, reach) {
            return false;
        }
        held.total = held.total.saturating_sub(self.units).saturating_add(units);
        for holder in &self.holders {
            let now = held.by_holder.entry(*holder).or_default();
            *now = now.saturating_sub(self.units).saturating_add(units);
            if *now == 0 {
                held.by_holder.remove(holder);
            }
        }
        drop(held);
        self.units = units;
        true
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        // Giving back always succeeds.
        let _given_back = self.set(0, Reach::Share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back() {
        let budget = Arc::new(MemoryBudget::new(BudgetLimits::of(100)));
        let (mut one, mut two) = (budget.share(), budget.share());
        assert!(one.resize(60) && !two.resize(50) && two.resize(40));
        assert!(budget.is_used_from(100) && !one.has_room(1));
        assert!(one.resize(10) && two.resize(90));
        drop((one, two));
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn nobody_holds_more_than_a_share_and_a_whole_message_always_fits() {
        let limits = BudgetLimits {
            percent_per_client_max: 25,
            percent_per_network_max: 50,
            whole_max: 60,
            ..BudgetLimits::of(100)
        };
        let budget = Arc::new(MemoryBudget::new(limits));
        let of = |text: &str| {
            let ip: IpAddr = text.parse().unwrap();
            budget.share_of(vec![Holder::Client(ip), Holder::Network(network_of(ip))])
        };
        let (mut a, mut b, mut c) = (of("192.0.2.1"), of("192.0.2.2"), of("192.0.2.3"));
        assert!(a.resize(25) && !a.resize(26) && !of("192.0.2.1").resize(1));
        assert!(b.resize(25) && !c.resize(1), "the network has its half");
        let mut six = of("2001:db8::1");
        assert!(six.resize(25) && !of("2001:db8::1").resize(1));
        let mut next = of("2001:db8::ffff:2");
        assert!(next.resize(25) && !of("2001:db8::3").resize(1), "a /64 is one network");
        drop((b, c, six, next));
        assert!(a.resize_for_whole(60, Duration::ZERO, &Clock::system()).await);
        assert!(!a.resize_for_whole(61, Duration::ZERO, &Clock::system()).await);
        let mut service = budget.share_of(vec![Holder::Service { index: 0, percent_max: 10 }]);
        assert!(service.resize(10) && !service.resize(11));
        assert!(service.resize_alone(40));
        drop(a);
        assert!(service.resize_alone(60) && !service.resize_alone(61));
        drop(service);
        assert_eq!(budget.used(), 0);
        assert!(budget.lock().by_holder.is_empty());
    }
}
