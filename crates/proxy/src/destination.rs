//! Where the proxy may connect to.
//!
//! A client that may not reach a server itself must not reach it through the proxy (server-side
//! request forgery): printers, databases, metadata services of clouds, the proxy's own machine. A
//! name's addresses are judged after it was looked up, and the connection goes to an address that
//! was judged, so that a second answer of the DNS (rebinding) changes nothing.

use std::net::{IpAddr, SocketAddr};

use gauntlet_mail::Network;
use gauntlet_mail::network::is_global;

/// IPv4 as IPv4, also on sockets of both families; without the scope of an interface.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The internet, and networks that the settings allow.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    allowed: Vec<Network>,
}

impl Reach {
    /// The internet and these networks.
    pub fn new(allowed: Vec<Network>) -> Self {
        Reach { allowed }
    }

    /// The proxy may connect to this address.
    pub fn allows(&self, address: IpAddr) -> bool {
        is_global(address) || self.allowed.iter().any(|network| network.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowed_network_is_reached() {
        let reach = Reach::new(vec!["10.1.0.0/16".parse().unwrap()]);
        assert!(reach.allows("10.1.9.9".parse().unwrap()));
        assert!(!reach.allows("10.2.0.1".parse().unwrap()));
    }
}
