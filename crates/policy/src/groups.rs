//! Named groups of addresses, from the policy file or loaded by the node from files or SQL.

use std::collections::{BTreeMap, HashSet};

/// Groups by name; members are addresses or `@domain`, in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Groups {
    members: BTreeMap<String, HashSet<String>>,
}

impl Groups {
    /// Adds members to a group, making it if it is new.
    pub fn add<I: IntoIterator<Item = String>>(&mut self, group: &str, members: I) {
        let set = self.members.entry(group.to_owned()).or_default();
        set.extend(members.into_iter().map(|m| m.trim().to_lowercase()).filter(|m| !m.is_empty()));
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
