//! Sets of addresses: sorted ranges, looked up by halving.

use std::net::IpAddr;

use gauntlet_mail::network::Network;

/// Addresses that are in one range at least, and in none of those that are excluded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AddressSet {
    included: Ranges,
    excluded: Ranges,
    /// Nothing but exclusions was written: all others are in.
    is_open: bool,
}

/// First and last address of each range, sorted, apart from each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ranges {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl AddressSet {
    /// Of networks, and of those that are excluded from them.
    pub(super) fn new(included: &[Network], excluded: &[Network]) -> Self {
        let is_open = included.is_empty();
        Self { included: Ranges::new(included), excluded: Ranges::new(excluded), is_open }
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        (self.is_open || self.included.contains(address)) && !self.excluded.contains(address)
    }
}

impl Ranges {
    fn new(networks: &[Network]) -> Self {
        let mut ranges = Ranges::default();
        for network in networks {
            match network.bounds() {
                (IpAddr::V4(first), IpAddr::V4(last)) => {
                    ranges.v4.push((first.to_bits(), last.to_bits()));
                }
                (IpAddr::V6(first), IpAddr::V6(last)) => {
                    ranges.v6.push((first.to_bits(), last.to_bits()));
                }
                // Both ends are of one kind.
                _ => {}
            }
        }
        merge(&mut ranges.v4);
        merge(&mut ranges.v6);
        ranges
    }

    fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => holds(&self.v4, address.to_bits()),
            IpAddr::V6(address) => holds(&self.v6, address.to_bits()),
        }
    }
}

fn merge<T: Ord + Copy>(ranges: &mut Vec<(T, T)>) {
    ranges.sort_unstable();
    let mut merged: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges.drain(..) {
        match merged.last_mut() {
            Some((_, end)) if first <= *end => *end = last.max(*end),
            _ => merged.push((first, last)),
        }
    }
    *ranges = merged;
}

fn holds<T: Ord + Copy>(ranges: &[(T, T)], address: T) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= address);
    let range = after.checked_sub(1).and_then(|place| ranges.get(place));
    range.is_some_and(|(_, last)| address <= *last)
}
