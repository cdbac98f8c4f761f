//! Networks in CIDR form.

use std::net::IpAddr;
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

    /// It is wider than what anybody is given (IPv4: /8, IPv6: /16), so that strangers are in it; private
    /// networks (RFC 4193, RFC 4291 section 2.5.6) are nobody's and everybody's.
    pub fn holds_strangers(&self) -> bool {
        let within =
            |bits: u32, prefix: u128| self.bits >= bits && self.base >> (128 - bits) == prefix;
        match self.v4 {
            true => self.bits < 8,
            false => self.bits < 16 && !within(7, 0xfc >> 1) && !within(10, 0xfe80 >> 6),
        }
    }
}

fn number(address: IpAddr) -> (u128, u32, bool) {
    match address.to_canonical() {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32, true),
        IpAddr::V6(ip) => (ip.to_bits(), 128, false),
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no network such as 192.0.2.0/24");
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
