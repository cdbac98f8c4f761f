//! Whose request it is, where proxies stand before the console.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::HeaderMap;
use gauntlet_verdict::lists::List;

/// The header in which proxies name whom they ask for.
const FORWARDED: &str = "x-forwarded-for";
/// Addresses of that header that are looked at, from the right.
const HOPS_MAX: usize = 16;

/// The proxies whose word counts, as `console.proxies` names them.
#[derive(Debug, Default)]
pub struct Proxies {
    networks: Option<List>,
    /// The warning about forwarded addresses of others was logged once.
    is_reported: AtomicBool,
}

/// An entry of `console.proxies` that is no IP address or network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProxyError(String);

impl Proxies {
    /// Reads networks and addresses.
    ///
    /// # Errors
    /// One of them is not an IP address or network.
    pub fn parse(networks: &[String]) -> Result<Self, ProxyError> {
        if let Some(other) = networks.iter().find(|n| !is_network(n)) {
            return Err(ProxyError(format!("{other:?} is no network such as 192.0.2.0/24")));
        }
        let list = List::parse(networks).map_err(|e| ProxyError(e.to_string()))?;
        Ok(Proxies {
            networks: (!networks.is_empty()).then_some(list),
            is_reported: AtomicBool::new(false),
        })
    }

    /// No proxy is trusted: the peer is the client.
    pub fn is_empty(&self) -> bool {
        self.networks.is_none()
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.networks.as_ref().is_some_and(|list| list.has_ip(address.to_canonical()))
    }

    /// The address that a request comes from: the peer, or, if the peer is a proxy of ours, the
    /// last address of `X-Forwarded-For` that is none. What stands left of that anybody may have
    /// written.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.contains(peer) {
            if headers.contains_key(FORWARDED) && !self.is_reported.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    %peer,
                    "X-Forwarded-For from an address that console.proxies does not name is ignored; if \
                     it is your proxy, name it there, or all who come by it are counted as one"
                );
            }
            return peer;
        }
        let lines: Vec<&str> =
            headers.get_all(FORWARDED).iter().map(|v| v.to_str().unwrap_or("?")).collect();
        let mut last = peer;
        for hop in lines.join(",").rsplit(',').take(HOPS_MAX) {
            let Some(address) = address(hop.trim()) else { return last };
            last = address;
            if !self.contains(address) {
                return address;
            }
        }
        last
    }
}

fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
    let width = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.is_none_or(|bits| bits.parse::<u8>().is_ok_and(|bits| bits <= width))
}

/// An address of the header; some proxies add the port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|t| t.split_once(']')).map(|(a, _)| a);
    let parsed = bare.unwrap_or(text).parse::<IpAddr>().ok();
    let with_port = || text.parse::<std::net::SocketAddr>().ok().map(|a| a.ip());
    parsed.or_else(with_port).map(|a| a.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(proxies: &[&str], peer: &str, lines: &[&str]) -> String {
        let proxies: Vec<String> = proxies.iter().map(|p| (*p).to_owned()).collect();
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED, line.parse().unwrap());
        }
        let proxies = Proxies::parse(&proxies).unwrap();
        proxies.client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn only_named_proxies_say_who_asks() {
        let none: &[&str] = &[];
        assert_eq!(client(none, "127.0.0.1", &["198.51.100.7"]), "127.0.0.1");
        let proxy = &["127.0.0.1", "10.0.0.0/8", "fd00::/8"];
        assert_eq!(client(proxy, "192.0.2.1", &["198.51.100.7"]), "192.0.2.1", "a stranger");
        assert_eq!(client(proxy, "127.0.0.1", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(client(proxy, "::ffff:127.0.0.1", &["198.51.100.7"]), "198.51.100.7");
        // The client wrote the left part itself.
        assert_eq!(client(proxy, "127.0.0.1", &["1.1.1.1, 198.51.100.7"]), "198.51.100.7");
        assert_eq!(
            client(proxy, "127.0.0.1", &["1.1.1.1", "198.51.100.7, 10.1.2.3"]),
            "198.51.100.7"
        );
        assert_eq!(
            client(proxy, "127.0.0.1", &["10.9.9.9, 198.51.100.7, fd00::1"]),
            "198.51.100.7"
        );
        assert_eq!(client(proxy, "127.0.0.1", &["[2001:db8::1]:4711"]), "2001:db8::1");
        assert_eq!(client(proxy, "127.0.0.1", &["198.51.100.7:80"]), "198.51.100.7");
        // What is no address counts for nothing.
        for malformed in ["", "unknown", "198.51.100.7, x", ",", "198.51.100.7,"] {
            assert_eq!(client(proxy, "127.0.0.1", &[malformed]), "127.0.0.1", "{malformed:?}");
        }
        assert_eq!(client(proxy, "127.0.0.1", &[]), "127.0.0.1");
        for wrong in ["proxy.example", "1.2.3.4/33", "", "1.2.3", "::/129"] {
            assert!(Proxies::parse(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }
}
