//! Lists of addresses, some with what must confirm each.

use gauntlet_rules::hash::{HashMap, HashSet};
use gauntlet_rules::settings::{SettingLine, Settings};

use super::glob::Glob;

/// Addresses and globs of addresses.
#[derive(Debug, Clone, Default)]
pub(in crate::evals) struct AddressList {
    exact: HashSet<Box<[u8]>>,
    /// By the last byte, unless that is a wildcard.
    globs: HashMap<Option<u8>, Vec<Glob>>,
}

impl AddressList {
    pub(super) fn add(&mut self, word: &str) {
        let glob = Glob::new(word);
        if glob.is_plain() {
            self.exact.insert(glob.0);
        } else {
            let alike = self.globs.entry(glob.last_byte()).or_default();
            if !alike.contains(&glob) {
                alike.push(glob);
            }
        }
    }

    fn remove(&mut self, word: &str) {
        let glob = Glob::new(word);
        self.exact.remove(&glob.0);
        self.globs.retain(|_, alike| {
            alike.retain(|g| *g != glob);
            !alike.is_empty()
        });
    }

    pub(in crate::evals) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.globs.is_empty()
    }

    pub(in crate::evals) fn contains(&self, address: &[u8]) -> bool {
        if self.is_empty() {
            return false;
        }
        let address = address.to_ascii_lowercase();
        let ends = [None, address.last().copied()];
        // An empty address has no last byte: only the first key applies.
        let ends = &ends[..1 + usize::from(!address.is_empty())];
        let mut globs = ends.iter().filter_map(|end| self.globs.get(end)).flatten();
        self.exact.contains(address.as_slice()) || globs.any(|glob| glob.matches(&address))
    }
}

/// Lines of a setting and of the one that removes entries, in the files' order; true for removals.
fn with_removals<'s>(
    settings: &'s Settings,
    name: &str,
    removal: &str,
) -> Vec<(bool, &'s SettingLine)> {
    let added = settings.all(name).iter().map(|l| (false, l));
    let removed = settings.all(removal).iter().map(|l| (true, l));
    let mut lines: Vec<_> = added.chain(removed).collect();
    lines.sort_by_key(|(_, l)| l.order);
    lines
}

fn removal_name(name: &str) -> String {
    format!("un{}", name.strip_prefix("def_").unwrap_or(name))
}

pub(super) fn address_list(settings: &Settings, name: &str) -> AddressList {
    let mut list = AddressList::default();
    for (is_removal, line) in with_removals(settings, name, &removal_name(name)) {
        for word in line.value.split_ascii_whitespace() {
            if is_removal {
                list.remove(word);
            } else {
                list.add(word);
            }
        }
    }
    list
}

/// An address glob, and what must confirm it (in lower case, each glob once).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::evals) struct Relayed {
    pub(in crate::evals) address: Glob,
    /// A host name or `[address]` of a relay, or a signing domain; empty if the line has none.
    pub(in crate::evals) vouchers: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct RelayedList(pub(super) Vec<Relayed>);

pub(super) fn relayed_list(settings: &Settings, name: &str) -> RelayedList {
    let mut list: Vec<Relayed> = Vec::new();
    for (is_removal, line) in with_removals(settings, name, &removal_name(name)) {
        let mut words = line.value.split_ascii_whitespace();
        if is_removal {
            words.for_each(|word| list.retain(|r| r.address != Glob::new(word)));
            continue;
        }
        // SPF lines have addresses only; the others one address and its relay or domain.
        let pairs: Vec<(&str, &str)> = if name.ends_with("_spf") {
            words.map(|w| (w, "")).collect()
        } else {
            let Some(address) = words.next() else { continue };
            vec![(address, words.next().unwrap_or_default())]
        };
        for (address, voucher) in pairs {
            let (address, voucher) =
                (Glob::new(address), voucher.to_ascii_lowercase().into_bytes());
            match list.iter_mut().find(|r| r.address == address) {
                Some(known) => known.vouchers.push(voucher),
                None => list.push(Relayed { address, vouchers: vec![voucher] }),
            }
        }
    }
    RelayedList(list)
}
