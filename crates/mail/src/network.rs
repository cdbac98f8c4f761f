//! Ranges of IP addresses in CIDR notation.

use std::net::IpAddr;
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
}
