//! Which operating system a host runs (`host-os-policy`), for what it does with overlapping
//! fragments and segments.

use std::net::IpAddr;

/// Operating systems, as `host-os-policy` names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "named after what they are")]
pub enum Os {
    Bsd,
    BsdRight,
    OldLinux,
    Linux,
    OldSolaris,
    Solaris,
    HpUx10,
    HpUx11,
    Irix,
    MacOs,
    Windows,
    Vista,
    Windows2003,
    /// Not a system: the first data that came stays.
    First,
    /// Not a system: the last data that came stays.
    Last,
}

impl Os {
    /// By its name in `host-os-policy` (`windows`, `bsd-right`, `old_linux` ...).
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().replace('_', "-").as_str() {
            "bsd" => Os::Bsd,
            "bsd-right" => Os::BsdRight,
            "old-linux" => Os::OldLinux,
            "linux" => Os::Linux,
            "old-solaris" => Os::OldSolaris,
            "solaris" => Os::Solaris,
            "hpux10" => Os::HpUx10,
            "hpux11" => Os::HpUx11,
            "irix" => Os::Irix,
            "macos" => Os::MacOs,
            "windows" => Os::Windows,
            "vista" => Os::Vista,
            "windows2k3" => Os::Windows2003,
            "first" => Os::First,
            "last" => Os::Last,
            _ => return None,
        })
    }
}

/// A network: addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// Reads `ADDRESS` or `ADDRESS/BITS`.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.trim().split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text.trim(), None),
        };
        let address: IpAddr = address.parse().ok()?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match bits {
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= longest)?,
            None => longest,
        };
        Some(Self { address, prefix })
    }

    /// How many bits of the address count.
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether it has this address; never one of the other version of IP.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differs = match (self.address, address) {
            (IpAddr::V4(mine), IpAddr::V4(other)) => {
                let differs = u32::from(mine) ^ u32::from(other);
                differs.checked_shr(32 - u32::from(self.prefix)).unwrap_or_default() != 0
            }
            (IpAddr::V6(mine), IpAddr::V6(other)) => {
                let differs = u128::from(mine) ^ u128::from(other);
                differs.checked_shr(128 - u32::from(self.prefix)).unwrap_or_default() != 0
            }
            _ => true,
        };
        !differs
    }
}

/// Operating systems by network; the longest prefix decides.
#[derive(Debug, Clone)]
pub struct HostPolicies {
    /// The rest of the setting's key (`windows.0`), so that a later value replaces it.
    entries: Vec<(String, Network, Os)>,
}

impl Default for HostPolicies {
    /// The stock file's: Windows on all addresses of IPv4.
    fn default() -> Self {
        let mut policies = Self::none();
        policies.set("windows.0", "0.0.0.0/0");
        policies
    }
}

impl HostPolicies {
    /// None at all: what a configuration without the section means.
    pub fn none() -> Self {
        Self { entries: Vec::new() }
    }

    /// Sets `host-os-policy.KEY`: an operating system and a number (`linux.0`), whose value is
    /// networks, addresses or `default`, between commas. Whether it was understood.
    pub fn set(&mut self, key: &str, value: &str) -> bool {
        let Some(os) = key.split('.').next().and_then(Os::from_name) else { return false };
        let mut networks = Vec::new();
        for part in value.trim_matches(['[', ']']).split(',') {
            let part = match part.trim().trim_matches(['"', '\'']) {
                "" => continue,
                "default" => "0.0.0.0/0",
                other => other,
            };
            match Network::parse(part) {
                Some(network) => networks.push((key.to_owned(), network, os)),
                None => return false,
            }
        }
        self.entries.retain(|(known, _, _)| known != key);
        self.entries.extend(networks);
        true
    }

    /// What runs on a host, if it is said.
    pub fn get(&self, address: IpAddr) -> Option<Os> {
        let matching = self.entries.iter().filter(|(_, network, _)| network.contains(address));
        matching.max_by_key(|(_, network, _)| network.prefix()).map(|(_, _, os)| *os)
    }
}
