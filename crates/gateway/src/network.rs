//! Networks in CIDR form, and which addresses a node may connect to.

use std::net::IpAddr;
use std::str::FromStr;

use gauntlet_mail::network::is_global;

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
    fn the_internet_and_what_is_allowed_is_reached() {
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
