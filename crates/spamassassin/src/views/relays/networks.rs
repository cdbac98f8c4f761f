//! Networks as rule files write them, and which ones are trusted.

use std::net::{IpAddr, Ipv6Addr};

use gauntlet_rules::settings::Settings;

/// One line of a list of networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    /// IPv4 addresses are mapped into IPv6.
    address: u128,
    bits: u32,
    excluded: bool,
}

/// A list of networks; the first that contains an address decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks {
    list: Vec<Network>,
    configured: bool,
}

fn number_of(address: IpAddr) -> u128 {
    let v6 = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    };
    u128::from_be_bytes(v6.octets())
}

/// `192.168.`, `192.168/16`, `10.0.0.1`, `2001:db8::/32`, with `!` for an exception.
fn network(word: &str) -> Option<Network> {
    let excluded = word.starts_with('!');
    let word = word.trim_start_matches('!');
    let word = word.strip_prefix('[').map_or(word.to_owned(), |w| w.replacen(']', "", 1));
    let (host, bits) = match word.split_once('/') {
        Some((host, bits)) => (host.to_owned(), Some(bits.parse::<u32>().ok()?)),
        None => (word, None),
    };
    if host.contains(':') {
        let address: Ipv6Addr = host.parse().ok()?;
        let bits = bits.unwrap_or(128).min(128);
        return Some(Network { address: u128::from_be_bytes(address.octets()), bits, excluded });
    }
    let parts: Vec<&str> = host.trim_end_matches('.').split('.').collect();
    if parts.len() > 4 {
        return None;
    }
    let mut octets = [0u8; 4];
    for (octet, part) in octets.iter_mut().zip(&parts) {
        *octet = part.parse().ok()?;
    }
    let bits = bits.unwrap_or(parts.len() as u32 * 8).min(32) + 96;
    Some(Network { address: number_of(IpAddr::from(octets)), bits, excluded })
}

impl Networks {
    /// Reads a command's lines; those before `clear` are left out. `own`: whether the addresses of
    /// the host itself always belong to it.
    fn of(settings: &Settings, name: &str, clear: &str, own: bool) -> Self {
        let cleared = settings.all(clear).last().map_or(0, |line| line.order);
        let lines = settings.all(name).iter().filter(|line| line.order >= cleared);
        let words = lines.flat_map(|line| line.value.split_ascii_whitespace());
        let mut list: Vec<Network> = words.filter_map(network).collect();
        let configured = !list.is_empty();
        if own {
            list.splice(0..0, ["127.0.0.0/8", "::1"].iter().filter_map(|w| network(w)));
        }
        Networks { list, configured }
    }

    /// Whether an address belongs to the list.
    pub fn contains(&self, address: IpAddr) -> bool {
        let number = number_of(address);
        let holds = |n: &&Network| {
            let shift = 128 - n.bits;
            n.bits == 0 || (number ^ n.address).checked_shr(shift).unwrap_or(0) == 0
        };
        self.list.iter().find(holds).is_some_and(|n| !n.excluded)
    }
}

/// Which relays are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustSettings {
    trusted: Networks,
    internal: Networks,
    /// Mail submission servers (`msa_networks`): what authenticated there is trusted.
    pub(super) msa: Networks,
    /// Fields with only an address (`originating_ip_headers`).
    pub(super) originating_ip_headers: Vec<String>,
    /// The field that holds the envelope sender, if one is configured.
    pub envelope_sender_header: Option<String>,
}

impl TrustSettings {
    /// Reads the files' settings.
    pub fn from_settings(settings: &Settings) -> Self {
        let cleared = settings.all("clear_originating_ip_headers").last().map_or(0, |l| l.order);
        let lines =
            settings.all("originating_ip_headers").iter().filter(|line| line.order >= cleared);
        let mut names: Vec<String> = Vec::new();
        for word in lines.flat_map(|line| line.value.split_ascii_whitespace()) {
            if !names.iter().any(|n| n.eq_ignore_ascii_case(word)) {
                names.push(word.to_owned());
            }
        }
        TrustSettings {
            trusted: Networks::of(settings, "trusted_networks", "clear_trusted_networks", true),
            internal: Networks::of(settings, "internal_networks", "clear_internal_networks", true),
            msa: Networks::of(settings, "msa_networks", "clear_msa_networks", false),
            originating_ip_headers: names,
            envelope_sender_header: settings.last("envelope_sender_header").map(str::to_owned),
        }
    }

    /// Whether an address lies in the trusted networks.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.networks().map_or(&self.trusted, |(trusted, _)| trusted).contains(address)
    }

    /// Fields with only an address (`originating_ip_headers`).
    pub(crate) fn originating_ip_headers(&self) -> &[String] {
        &self.originating_ip_headers
    }

    /// Trusted and internal networks; `None` if neither is configured.
    pub(super) fn networks(&self) -> Option<(&Networks, &Networks)> {
        match (self.trusted.configured, self.internal.configured) {
            (false, false) => None,
            (true, false) => Some((&self.trusted, &self.trusted)),
            (false, true) => Some((&self.internal, &self.internal)),
            (true, true) => Some((&self.trusted, &self.internal)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let words = ["!10.0.1.5", "10.0.1/24", "192.168.", "2001:db8::/32"];
        let list = words.iter().map(|w| network(w).unwrap()).collect();
        let networks = Networks { list, configured: true };
        for (address, inside) in [
            ("10.0.1.5", false),
            ("10.0.1.6", true),
            ("10.0.2.1", false),
            ("192.168.7.7", true),
            ("2001:db8:1::1", true),
            ("::ffff:192.168.1.1", true),
        ] {
            assert_eq!(networks.contains(address.parse().unwrap()), inside, "{address}");
        }
        assert_eq!(network("1.2.3.4.5"), None);
    }
}
