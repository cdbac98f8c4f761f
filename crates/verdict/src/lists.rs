//! Allow and block lists: addresses, domains, hosts and networks, looked up by hash.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use gauntlet_mail::public_suffix;

/// Labels of a host that are walked at most: more do not fit into a name (RFC 1035 section 2.3.4).
const LABELS_MAX: usize = 128;

/// Why an entry could not be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "the list entry {0:?} is neither an address (a@b.example), nor a domain (b.example), nor a \
     network (192.0.2.0/24)"
)]
pub struct Error(pub String);

/// Why an entry must not be listed, though it could be read.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// It is nothing that can be listed.
    #[error(transparent)]
    Unread(#[from] Error),
    /// All names of a registry.
    #[error(
        "the list entry {0:?} means every domain that ends so, whoever has it; name single domains, such as \
         shop.example.org"
    )]
    Suffix(String),
    /// A network wider than any allocation.
    #[error(
        "the list entry {0:?} is a network that holds strangers; name smaller ones, for IPv4 /{V4} at least, \
         for IPv6 /{V6}",
        V4 = NETWORK_BITS_MIN_V4,
        V6 = NETWORK_BITS_MIN_V6
    )]
    Network(String),
}

/// Shortest prefixes of networks that people may list: nobody was ever given more.
const NETWORK_BITS_MIN_V4: u8 = 8;
const NETWORK_BITS_MIN_V6: u8 = 16;

/// Checks an entry that somebody wants to list: by command, API, console or settings. What was
/// listed before goes on to be read by [`List::parse`].
///
/// # Errors
/// It is no entry, or would list strangers.
pub fn check_entry(entry: &str) -> Result<(), EntryError> {
    let entry = entry.trim();
    let unread = || EntryError::Unread(Error(entry.to_owned()));
    match Entry::read(entry).ok_or_else(unread)? {
        Entry::Network(length, bits) => {
            let mapped = bits >> 32 == 0xffff && length >= 96;
            let (bits, least) = match mapped {
                true => (length - 96, NETWORK_BITS_MIN_V4),
                false => (length, NETWORK_BITS_MIN_V6),
            };
            (bits >= least).then_some(()).ok_or_else(|| EntryError::Network(entry.to_owned()))
        }
        Entry::Domain(domain) => {
            if !is_domain(&domain) {
                return Err(unread());
            }
            let suffix = public_suffix::suffix(domain.as_bytes());
            let is_registry = suffix.is_some_and(|s| s.is_registry && s.name.len() == domain.len());
            match is_registry || !domain.contains('.') {
                true => Err(EntryError::Suffix(entry.to_owned())),
                false => Ok(()),
            }
        }
        Entry::Address(address) => {
            let parts = address.rsplit_once('@');
            let is_plain = |user: &str| !user.is_empty() && !user.contains('@');
            let fits = parts.is_some_and(|(user, domain)| {
                is_plain(user) && is_domain(domain.trim_matches(['[', ']']))
            });
            fits.then_some(()).ok_or_else(unread)
        }
    }
}

/// Labels without anything that no host has.
fn is_domain(text: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    text.split('.').all(|label| !label.is_empty() && label.chars().all(is_plain))
}

/// What an entry means.
enum Entry {
    /// Length of the prefix and the masked address, as [`List`] keeps them.
    Network(u8, u128),
    Domain(String),
    Address(String),
}

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
        match Entry::read(entry)? {
            Entry::Network(length, network) => {
                self.lengths.insert(length);
                self.networks.insert((length, network))
            }
            Entry::Domain(domain) => self.domains.insert(domain),
            Entry::Address(address) => self.addresses.insert(address),
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

impl Entry {
    /// Reads an entry as people write it; none if it is none.
    fn read(entry: &str) -> Option<Self> {
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
            return Some(Entry::Network(length, network));
        }
        if lower.contains(['/', ' ', ':']) {
            return None;
        }
        match lower.split_once('@') {
            // `@example.com` is what other programs call a domain.
            Some(("", domain)) => Some(Entry::Domain(domain.to_owned())),
            Some((_, domain)) if !domain.is_empty() => Some(Entry::Address(lower)),
            Some(_) => None,
            None => {
                let domain = lower.trim_start_matches("*.").trim_matches('.');
                domain.contains('.').then(|| Entry::Domain(domain.to_owned()))
            }
        }
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

    #[test]
    fn what_would_list_strangers_is_refused() {
        for strangers in [
            "com",
            "@com",
            "@example",
            "*.co.uk",
            "co.uk",
            "@co.uk",
            "@",
            "@@",
            "",
            " ",
            "# note",
            "0.0.0.0/0",
            "10.0.0.0/7",
            "::/0",
            "2000::/3",
            "a@@b.example",
            "a@",
            "two words",
            "@a b.example",
            "..",
            "@.example",
        ] {
            assert!(check_entry(strangers).is_err(), "{strangers:?}");
        }
        for fine in [
            "ann@shop.example",
            "shop.example",
            "@shop.example",
            "*.shop.example",
            "shop.co.uk",
            "github.io",
            "bücher.example",
            "root@localhost",
            "10.0.0.0/8",
            "192.0.2.7",
            "2001:db8::/32",
            "fd00::/16",
        ] {
            check_entry(fine).expect(fine);
        }
        let why = |entry: &str| check_entry(entry).unwrap_err().to_string();
        assert!(why("@com").contains("every domain that ends so"), "{}", why("@com"));
        assert!(why("0.0.0.0/0").contains("for IPv4 /8 at least, for IPv6 /16"));
        // What was listed before is still read.
        assert!(List::parse(["@com", "0.0.0.0/0"]).is_ok());
    }
}
