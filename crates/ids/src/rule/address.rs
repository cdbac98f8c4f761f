//! Sets of addresses, as intervals.

use std::net::IpAddr;

/// Addresses of both versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressSet {
    /// Sorted, disjoint, both ends included.
    pub v4: Vec<(u32, u32)>,
    /// Sorted, disjoint, both ends included.
    pub v6: Vec<(u128, u128)>,
}

impl AddressSet {
    /// Whether the address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => within(&self.v4, u32::from(address)),
            IpAddr::V6(address) => within(&self.v6, u128::from(address)),
        }
    }
}

fn within<T: Ord + Copy>(intervals: &[(T, T)], value: T) -> bool {
    let after = intervals.partition_point(|&(low, _)| low <= value);
    after.checked_sub(1).and_then(|at| intervals.get(at)).is_some_and(|&(_, high)| value <= high)
}
