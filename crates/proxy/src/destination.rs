//! Where the proxy may connect to.
//!
//! A client that may not reach a server itself must not reach it through the proxy (server-side
//! request forgery): printers, databases, metadata services of clouds, the proxy's own machine. A
//! name's addresses are judged after it was looked up, and the connection goes to an address that
//! was judged, so that a second answer of the DNS (rebinding) changes nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use gauntlet_mail::Network;

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

/// Azure's metadata and DNS service has an address of the internet.
const AZURE_METADATA: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// An address of the internet: in none of the special blocks (IANA's registries of special-purpose
/// addresses, RFC 6890), and no address of IPv6 that leads to one of IPv4 which is not.
fn is_global(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => is_global_v4(v4),
        IpAddr::V6(v6) => is_global_v6(v6),
    }
}

fn is_global_v4(address: Ipv4Addr) -> bool {
    let special = match address.octets() {
        [0 | 10 | 127, ..] | [169, 254, ..] | [192, 168, ..] => true,
        // Carrier-grade NAT, and Alibaba's metadata service.
        [100, b, ..] => b & 0xc0 == 64,
        [172, b, ..] => b & 0xf0 == 16,
        // Protocol assignments, documentation, 6to4 relays, measurements.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] => true,
        [198, 51, 100, _] | [203, 0, 113, _] => true,
        // Multicast and reserved.
        [a, ..] => a >= 224,
    };
    !special && address != AZURE_METADATA
}

fn is_global_v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    let v4_of = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match s {
        // NAT64 (RFC 6052) and 6to4 (RFC 3056) lead to an address of IPv4.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            is_global_v4(v4_of(high, low))
        }
        // Teredo, ORCHID, documentation, benchmarks.
        [0x2001, b, ..] if b < 0x200 || b == 0xdb8 => false,
        [0x3fff, b, ..] if b < 0x1000 => false,
        // Only 2000::/3 is allocated.
        [a, ..] => a & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_internet_are_told_from_special_ones() {
        for global in ["1.1.1.1", "100.128.0.1", "172.32.0.1", "2606:4700::1", "64:ff9b::101:101"] {
            assert!(is_global(global.parse().unwrap()), "{global}");
        }
        for special in [
            "0.0.0.0",
            "10.1.2.3",
            "100.100.100.200",
            "127.0.0.1",
            "168.63.129.16",
            "169.254.169.254",
            "172.31.255.255",
            "192.168.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_global(special.parse().unwrap()), "{special}");
        }
    }

    #[test]
    fn an_allowed_network_is_reached() {
        let reach = Reach::new(vec!["10.1.0.0/16".parse().unwrap()]);
        assert!(reach.allows("10.1.9.9".parse().unwrap()));
        assert!(!reach.allows("10.2.0.1".parse().unwrap()));
    }
}
