//! Zones: where a packet comes from, and where it goes to.

use std::net::IpAddr;

use super::address::AddressSet;

/// A zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Zone {
    pub(super) name: String,
    pub(super) interfaces: Vec<String>,
    /// None: any address is in it.
    pub(super) networks: Option<AddressSet>,
}

impl Zone {
    /// Whether it contains an end of a flow: an address that is reached by an interface. Where the
    /// interface is not known, networks alone decide, and a zone without any contains nothing.
    pub(super) fn contains(&self, address: IpAddr, interface: Option<&str>) -> bool {
        let by_network = self.networks.as_ref().is_none_or(|set| set.contains(address));
        let by_interface = match interface {
            _ if self.interfaces.is_empty() => true,
            Some(interface) => self.interfaces.iter().any(|name| name == interface),
            None => self.networks.is_some(),
        };
        by_network && by_interface
    }
}
