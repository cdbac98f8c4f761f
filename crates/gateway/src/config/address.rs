//! Addresses of settings.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// Port of the DNS.
pub(crate) const DNS_PORT: u16 = 53;

/// The first address that the text names; none if it is no address with a port.
pub(super) fn socket_address(text: &str) -> Option<SocketAddr> {
    text.to_socket_addrs().ok()?.next()
}

/// Whether two listeners of these addresses are in each other's way: they have one port, and an
/// address of all takes in the other's. That of IPv6 takes in those of IPv4, too.
pub fn is_same_socket(one: SocketAddr, other: SocketAddr) -> bool {
    let takes_in = |all: SocketAddr, one: SocketAddr| {
        all.ip().is_unspecified() && (all.is_ipv6() || one.is_ipv4())
    };
    one.port() == other.port()
        && one.port() != 0
        && (one.ip() == other.ip() || takes_in(one, other) || takes_in(other, one))
}

/// The address of a DNS server, with a port or without one.
pub fn server_address(text: &str) -> Option<SocketAddr> {
    let text = text.trim();
    let alone = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, DNS_PORT));
    text.parse().ok().or_else(alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_all_is_in_the_way_of_each() {
        let same = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|text| text.parse().unwrap());
            assert_eq!(is_same_socket(one, other), is_same_socket(other, one));
            is_same_socket(one, other)
        };
        assert!(same("0.0.0.0:25", "127.0.0.1:25") && same("[::]:25", "127.0.0.1:25"));
        assert!(same("[::]:25", "0.0.0.0:25") && same("192.0.2.1:25", "192.0.2.1:25"));
        assert!(!same("0.0.0.0:25", "[::1]:25") && !same("0.0.0.0:25", "127.0.0.1:26"));
        assert!(!same("192.0.2.1:25", "192.0.2.2:25") && !same("0.0.0.0:0", "127.0.0.1:0"));
    }

    #[test]
    fn servers_with_and_without_ports() {
        let text = |text: &str| server_address(text).map(|a| a.to_string());
        assert_eq!(text("127.0.0.1").as_deref(), Some("127.0.0.1:53"));
        assert_eq!(text("127.0.0.1:5353").as_deref(), Some("127.0.0.1:5353"));
        assert_eq!(text("::1").as_deref(), Some("[::1]:53"));
        assert_eq!(text("[::1]:54").as_deref(), Some("[::1]:54"));
        assert_eq!(text("dns.example"), None);
    }
}
