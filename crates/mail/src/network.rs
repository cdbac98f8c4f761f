//! Ranges of IP addresses in CIDR notation, and which addresses are of the internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses: `192.0.2.0/24`, `2001:db8::/32`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix_bits: u8,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, bits) = text.trim().split_once('/').unwrap_or((text.trim(), ""));
        let address: IpAddr = address
            .parse()
            .map_err(|_| format!("'{text}' is no network; write e.g. 192.0.2.0/24"))?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits =
            match bits {
                "" => max,
                bits => bits.parse().ok().filter(|b| *b <= max).ok_or_else(|| {
                    format!("'{text}': the prefix must be a number from 0 to {max}")
                })?,
            };
        Ok(Network { address, prefix_bits })
    }
}

impl Network {
    /// Whether `ip` lies in the range; addresses mapped into IPv6 count as IPv4.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.address, ip.to_canonical()) {
            (IpAddr::V4(net), IpAddr::V4(ip)) => {
                let shift = 32 - u32::from(self.prefix_bits);
                u32::from(net).checked_shr(shift) == u32::from(ip).checked_shr(shift)
            }
            (IpAddr::V6(net), IpAddr::V6(ip)) => {
                let shift = 128 - u32::from(self.prefix_bits);
                u128::from(net).checked_shr(shift) == u128::from(ip).checked_shr(shift)
            }
            _ => false,
        }
    }

    /// The first and the last address of the range.
    pub fn bounds(&self) -> (IpAddr, IpAddr) {
        let bits = u32::from(self.prefix_bits);
        match self.address {
            IpAddr::V4(net) => {
                let host = u32::MAX.checked_shr(bits).unwrap_or(0);
                let first = u32::from(net) & !host;
                (Ipv4Addr::from(first).into(), Ipv4Addr::from(first | host).into())
            }
            IpAddr::V6(net) => {
                let host = u128::MAX.checked_shr(bits).unwrap_or(0);
                let first = u128::from(net) & !host;
                (Ipv6Addr::from(first).into(), Ipv6Addr::from(first | host).into())
            }
        }
    }

    /// Whether the whole of another range lies in this one.
    pub fn covers(&self, other: &Network) -> bool {
        self.prefix_bits <= other.prefix_bits && self.contains(other.address)
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
            // The platform's own services, on every machine of Azure.
            | [168, 63, 129, 16]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_a_first_and_a_last_address() {
        for (range, first, last) in [
            ("192.0.2.77/24", "192.0.2.0", "192.0.2.255"),
            ("192.0.2.77", "192.0.2.77", "192.0.2.77"),
            ("0.0.0.0/0", "0.0.0.0", "255.255.255.255"),
            ("2001:db8::5/127", "2001:db8::4", "2001:db8::5"),
            ("::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            let bounds = range.parse::<Network>().unwrap().bounds();
            assert_eq!(bounds, (first.parse().unwrap(), last.parse().unwrap()), "{range}");
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
            "100.128.0.1",
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
            "100.100.100.200",
            "168.63.129.16",
            "64:ff9b::a83f:8110",
            "fd00:ec2::254",
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
    }
}
