//! Allow and block lists: addresses, domains, hosts and networks, looked up by hash.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

/// Labels of a host that are walked at most: more do not fit into a name (RFC 1035 section 2.3.4).
const LABELS_MAX: usize = 128;

/// Why an entry could not be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "the list entry {0:?} is neither an address (a@b.example), nor a domain (b.example), nor a \
     network (192.0.2.0/24)"
)]
pub struct Error(pub String);

/// One list. An address matches itself, a domain also every host below it, a network every address
/// in it.
#[derive(Debug, Clone, Default)]
pub struct List {
    addresses: HashSet<String>,
    domains: HashSet<String>,
    /// Length of the prefix and the masked address, IPv4 as mapped into IPv6.
    networks: HashSet<(u8, u128)>,
    lengths: BTreeSet<u8>,
}

impl List {
    /// Reads entries; blank ones and those that begin with `#` are skipped.
    pub fn parse<S: AsRef<str>>(entries: impl IntoIterator<Item = S>) -> Result<Self, Error> {
        let mut list = List::default();
        for entry in entries {
            let entry = entry.as_ref().trim();
            if !entry.is_empty() && !entry.starts_with('#') {
                list.insert(entry).ok_or_else(|| Error(entry.to_owned()))?;
            }
        }
        Ok(list)
    }

    fn insert(&mut self, entry: &str) -> Option<()> {
        let mut lower = entry.to_lowercase();
        // Hosts are looked up in their ASCII form.
        if !lower.is_ascii()
            && let (user, Some(domain)) = match lower.rsplit_once('@') {
                Some((user, domain)) => (format!("{user}@"), Some(domain)),
                None => (String::new(), Some(lower.trim_start_matches("*."))),
            }
            && let Ok(domain) = idna::domain_to_ascii(domain)
        {
            lower = user + &domain;
        }
        if let Some((length, network)) = network(&lower) {
            self.lengths.insert(length);
            self.networks.insert((length, network));
            return Some(());
        }
        if lower.contains(['/', ' ', ':']) {
            return None;
        }
        match lower.split_once('@') {
            // `@example.com` is what other programs call a domain.
            Some(("", domain)) => self.domains.insert(domain.to_owned()),
            Some((_, domain)) if !domain.is_empty() => self.addresses.insert(lower),
            Some(_) => return None,
            None => {
                let domain = lower.trim_start_matches("*.").trim_matches('.');
                if !domain.contains('.') {
                    return None;
                }
                self.domains.insert(domain.to_owned())
            }
        };
        Some(())
    }

    /// Whether no entry is on the list.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.domains.is_empty() && self.networks.is_empty()
    }

    /// Whether the address, its domain, or a domain above it is listed.
    pub fn has_address(&self, address: &str) -> bool {
        if self.addresses.is_empty() && self.domains.is_empty() {
            return false;
        }
        let lower = address.to_lowercase();
        let domain = lower.rsplit_once('@').map(|(_, domain)| domain);
        self.addresses.contains(&lower) || domain.is_some_and(|domain| self.has_domain(domain))
    }

    /// Whether the host (in lower case) or a domain above it is listed.
    pub fn has_domain(&self, host: &str) -> bool {
        if self.domains.is_empty() {
            return false;
        }
        let mut rest = Some(host.trim_end_matches('.'));
        for _ in 0..LABELS_MAX {
            let Some(name) = rest else { return false };
            if self.domains.contains(name) {
                return true;
            }
            rest = name.split_once('.').map(|(_, above)| above);
        }
        false
    }

    /// Whether the address is in a listed network.
    pub fn has_ip(&self, ip: IpAddr) -> bool {
        let bits = bits(ip);
        self.lengths.iter().any(|&length| self.networks.contains(&(length, masked(bits, length))))
    }
}

/// Reads `address` or `address/length`.
fn network(entry: &str) -> Option<(u8, u128)> {
    let (address, length) = match entry.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u8>().ok()?)),
        None => (entry, None),
    };
    let ip: IpAddr = address.trim_matches(['[', ']']).parse().ok()?;
    let (offset, max) = if ip.is_ipv4() { (96, 32) } else { (0, 128) };
    let length = length.unwrap_or(max);
    if length > max {
        return None;
    }
    let length = length + offset;
    Some((length, masked(bits(ip), length)))
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

fn masked(bits: u128, length: u8) -> u128 {
    u128::MAX.checked_shl(u32::from(128 - length.min(128))).map_or(0, |mask| bits & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_each_kind() {
        let list = List::parse([
            "Ann@Shop.example",
            "*.bad.example",
            "@worse.example",
            "192.0.2.0/24",
            "2001:db8::/32",
            "198.51.100.7",
            "",
            "# a note",
        ])
        .unwrap();
        assert!(list.has_address("ann@shop.example") && !list.has_address("bob@shop.example"));
        assert!(list.has_address("x@mail.bad.example") && list.has_domain("worse.example"));
        assert!(!list.has_domain("notbad.example") && !list.has_domain("example"));
        let ip = |text: &str| list.has_ip(text.parse().unwrap());
        assert!(ip("192.0.2.200") && ip("2001:db8:1::1") && ip("198.51.100.7"));
        assert!(!ip("192.0.3.1") && !ip("2001:db9::1") && !ip("198.51.100.8"));
        for wrong in ["192.0.2.0/40", "word", "a@", "two words.example"] {
            assert!(List::parse([wrong]).is_err(), "{wrong}");
        }
        assert!(List::parse(["0.0.0.0/0"]).unwrap().has_ip("203.0.113.9".parse().unwrap()));
    }
}
