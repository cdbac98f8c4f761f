//! Sets of values that rules test and change: `dataset`, `datarep`.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use crate::rule::matches::{
    DataReputation, Dataset, DatasetCommand, DatasetDeclaration, DatasetType,
};

/// The most values of one set that rules may add.
const VALUES_MAX: usize = 1_000_000;

/// All sets by name.
#[derive(Debug, Default)]
pub struct Datasets {
    sets: HashMap<String, HashSet<Vec<u8>>>,
    reputations: HashMap<String, HashMap<Vec<u8>, u64>>,
}

impl Datasets {
    /// Puts the values of a set in, as its file has them.
    pub fn load(&mut self, name: &str, values: impl IntoIterator<Item = Vec<u8>>) {
        self.sets.entry(name.to_owned()).or_default().extend(values);
    }

    /// Puts values with their reputations in.
    pub fn load_reputations(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = (Vec<u8>, u64)>,
    ) {
        self.reputations.entry(name.to_owned()).or_default().extend(values);
    }

    /// Values of a set, sorted, to be written.
    pub fn values(&self, name: &str) -> Vec<&[u8]> {
        let set = self.sets.get(name);
        let mut values: Vec<&[u8]> =
            set.map(|set| set.iter().map(Vec::as_slice).collect()).unwrap_or_default();
        values.sort_unstable();
        values
    }

    /// Takes all of `newer`, but keeps these sets as they are.
    pub(crate) fn replace(&mut self, newer: Self, kept: &[&str]) {
        let older = std::mem::replace(self, newer);
        for (name, values) in older.sets {
            if kept.contains(&name.as_str()) {
                self.sets.insert(name, values);
            }
        }
    }

    pub(crate) fn check(&mut self, check: &Dataset, value: &[u8]) -> bool {
        let Some(value) = key(&check.set, value) else {
            return check.command == DatasetCommand::IsNotSet;
        };
        let set = self.sets.entry(check.set.name.clone()).or_default();
        match check.command {
            DatasetCommand::IsSet => set.contains(value.as_ref()),
            DatasetCommand::IsNotSet => !set.contains(value.as_ref()),
            DatasetCommand::Set => set.len() < VALUES_MAX && set.insert(value.into_owned()),
            DatasetCommand::Unset => set.remove(value.as_ref()),
        }
    }

    pub(crate) fn reputation(&self, check: &DataReputation, value: &[u8]) -> bool {
        let Some(value) = key(&check.set, value) else { return false };
        let set = self.reputations.get(&check.set.name);
        let found = set.and_then(|set| set.get(value.as_ref()));
        found.is_some_and(|found| check.compare.holds(*found))
    }
}

/// A value as it is kept in a set of this kind; none if it cannot be in it.
fn key<'a>(set: &DatasetDeclaration, value: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let len = value.len();
    match set.kind.unwrap_or(DatasetType::Text) {
        DatasetType::Text => (len > 0).then_some(Cow::Borrowed(value)),
        DatasetType::Md5 => (len == 16).then_some(Cow::Borrowed(value)),
        DatasetType::Sha256 => (len == 32).then_some(Cow::Borrowed(value)),
        DatasetType::Ipv4 => (len == 4).then_some(Cow::Borrowed(value)),
        DatasetType::Ip => {
            let address = match len {
                4 => IpAddr::from(<[u8; 4]>::try_from(value).ok()?),
                16 => IpAddr::from(<[u8; 16]>::try_from(value).ok()?),
                _ => return None,
            };
            Some(Cow::Owned(address_bytes(address, DatasetType::Ip)))
        }
    }
}

/// An address as sets of addresses keep it.
pub fn address_bytes(address: IpAddr, kind: DatasetType) -> Vec<u8> {
    match (address, kind) {
        (IpAddr::V4(address), DatasetType::Ipv4) => address.octets().to_vec(),
        (IpAddr::V4(address), _) => address.to_ipv6_mapped().octets().to_vec(),
        (IpAddr::V6(address), _) => address.octets().to_vec(),
    }
}
