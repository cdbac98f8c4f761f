//! Addresses of settings.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// Port of the DNS.
pub(crate) const DNS_PORT: u16 = 53;

/// The first address that the text names; none if it is no address with a port.
pub(super) fn socket_address(text: &str) -> Option<SocketAddr> {
    text.to_socket_addrs().ok()?.next()
}

/// The address of a DNS server, with a port or without one.
pub(crate) fn server_address(text: &str) -> Option<SocketAddr> {
    let text = text.trim();
    let alone = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, DNS_PORT));
    text.parse().ok().or_else(alone)
}

#[cfg(test)]
mod tests {
    use super::*;

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
