//! Named groups of addresses, from the policy file or loaded by the node from files or SQL.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use gauntlet_mail::Network;

/// Groups by name; members are mail addresses, `@domain` or logins, in lower case, and networks or
/// addresses of web clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Groups {
    members: BTreeMap<String, HashSet<String>>,
    networks: BTreeMap<String, Vec<Network>>,
}

impl Groups {
    /// Adds members to a group, making it if it is new.
    pub fn add<I: IntoIterator<Item = String>>(&mut self, group: &str, members: I) {
        let set = self.members.entry(group.to_owned()).or_default();
        for member in members {
            let member = member.trim().to_lowercase();
            if let Ok(network) = member.parse() {
                self.networks.entry(group.to_owned()).or_default().push(network);
            }
            if !member.is_empty() {
                set.insert(member);
            }
        }
    }

    /// Whether the client's address is in one of the group's networks.
    pub fn has_address(&self, group: &str, address: IpAddr) -> bool {
        self.networks.get(group).is_some_and(|all| all.iter().any(|n| n.contains(address)))
    }

    /// Whether the group exists.
    pub fn has(&self, group: &str) -> bool {
        self.members.contains_key(group)
    }

    /// Whether the address, or its domain as `@domain`, is in the group.
    pub fn contains(&self, group: &str, address: &str) -> bool {
        let Some(members) = self.members.get(group) else { return false };
        let address = address.to_lowercase();
        let domain = address.rsplit_once('@').map(|(_, domain)| format!("@{domain}"));
        members.contains(&address) || domain.is_some_and(|d| members.contains(&d))
    }
}
