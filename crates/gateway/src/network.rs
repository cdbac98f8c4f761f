//! Networks in CIDR form, and which addresses are of the internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network, e.g. `192.0.2.0/24` or `2001:db8::/32`; an address alone is a network of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    base: u128,
    bits: u32,
    v4: bool,
}

impl Network {
    /// The address is in the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (value, width, v4) = number(address);
        v4 == self.v4 && (self.bits == 0 || (value ^ self.base) >> (width - self.bits) == 0)
    }

    /// It is wider than any allocation (IPv4: /8, IPv6: /16), so that strangers are in it; private
    /// networks (RFC 4193, RFC 4291 section 2.5.6) are allocated to no one.
    pub fn holds_strangers(&self) -> bool {
        let within =
            |bits: u32, prefix: u128| self.bits >= bits && self.base >> (128 - bits) == prefix;
        match self.v4 {
            true => self.bits < 8,
            false => self.bits < 16 && !within(7, 0xfc >> 1) && !within(10, 0xfe80 >> 6),
        }
    }
}

/// A text that is no network in CIDR form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no network such as 192.0.2.0/24")]
pub struct ParseNetworkError(String);

/// Where the node goes when the DNS of a stranger names an address: to the internet, and to
/// networks that the configuration allows. Else a domain could make it connect to servers inside
/// our own network.
#[derive(Debug, Clone, Default)]
pub struct Reach(Vec<Network>);

impl Reach {
    /// The internet and these networks.
    ///
    /// # Errors
    /// If one is no network.
    pub fn new(allowed: &[String]) -> Result<Self, ParseNetworkError> {
        Ok(Reach(allowed.iter().map(|network| network.parse()).collect::<Result<_, _>>()?))
    }

    /// The address may be gone to.
    pub fn allows(&self, address: IpAddr) -> bool {
        is_global(address) || self.0.iter().any(|network| network.contains(address))
    }
}

/// A host on the internet can have this address: it is in none of the special blocks (IANA's
/// registries of special-purpose addresses, RFC 6890), nor does an IPv6 address lead to an IPv4
/// address in one of them.
pub fn is_global(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_global_v4(address),
        IpAddr::V6(address) => is_global_v6(address),
    }
}

fn is_global_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        // This network, loopback, multicast, reserved and broadcast.
        [0 | 127 | 224..=255, ..]
            // Private (RFC 1918), shared (RFC 6598), link-local.
            | [10, ..]
            | [172, 16..=31, ..]
            | [192, 168, ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            // Protocols, relays of 6to4, benchmarks, documentation.
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
    )
}

fn is_global_v6(address: Ipv6Addr) -> bool {
    let embedded = |high: u16, low: u16| {
        is_global_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
    };
    match address.segments() {
        // Mapped, and NAT64 by its own prefix (RFC 6052).
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            embedded(high, low)
        }
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => embedded(high, low),
        // Protocols, Teredo, benchmarks, ORCHID: all of 2001::/23; documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // What is given out at all (RFC 4291 section 2.4).
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

fn number(address: IpAddr) -> (u128, u32, bool) {
    match address.to_canonical() {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32, true),
        IpAddr::V6(ip) => (ip.to_bits(), 128, false),
    }
}

impl FromStr for Network {
    type Err = ParseNetworkError;

    fn from_str(text: &str) -> Result<Self, ParseNetworkError> {
        let wrong = || ParseNetworkError(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let (base, width, v4) = number(address);
        let bits = match bits {
            Some(bits) => bits.parse().map_err(|_| wrong())?,
            None => width,
        };
        if bits > width {
            return Err(wrong());
        }
        Ok(Network { base, bits, v4 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_strangers() {
        for (network, strangers) in [
            ("0.0.0.0/0", true),
            ("128.0.0.0/1", true),
            ("10.0.0.0/8", false),
            ("198.51.100.0/24", false),
            ("::/0", true),
            ("2000::/3", true),
            ("2001:db8::/32", false),
            ("fc00::/7", false),
            ("fe80::/10", false),
            ("f000::/4", true),
        ] {
            assert_eq!(
                network.parse::<Network>().unwrap().holds_strangers(),
                strangers,
                "{network}"
            );
        }
    }

    #[test]
    fn addresses_of_the_internet() {
        for global in [
            "8.8.8.8",
            "100.63.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "223.255.255.1",
            "2a00::1",
            "2001:4860::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert!(is_global(global.parse().unwrap()), "{global}");
        }
        for special in [
            "0.0.0.0",
            "127.0.0.1",
            "127.255.0.9",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.9.9",
            "192.168.1.1",
            "100.64.0.1",
            "169.254.169.254",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "203.0.113.5",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "4000::1",
        ] {
            assert!(!is_global(special.parse().unwrap()), "{special}");
        }
        let reach = Reach::new(&["127.0.0.0/8".to_owned()]).unwrap();
        assert!(reach.allows("127.0.0.1".parse().unwrap()));
        assert!(reach.allows("::ffff:127.0.0.1".parse().unwrap()));
        assert!(
            !reach.allows("::1".parse().unwrap()) && !reach.allows("10.0.0.1".parse().unwrap())
        );
        assert!(Reach::new(&["x".to_owned()]).is_err());
    }

    #[test]
    fn membership() {
        let contains = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        assert!(contains("192.0.2.0/24", "192.0.2.255"));
        assert!(!contains("192.0.2.0/24", "192.0.3.0"));
        assert!(contains("0.0.0.0/0", "8.8.8.8"));
        assert!(!contains("0.0.0.0/0", "2001:db8::1"));
        assert!(contains("::1/128", "::1"));
        assert!(contains("127.0.0.0/8", "::ffff:127.1.2.3"));
        assert!(contains("10.0.0.1", "10.0.0.1") && !contains("10.0.0.1", "10.0.0.2"));
        for bad in ["", "x", "1.2.3.4/33", "1.2.3.4/", "::/129"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
