//! Sets of values that rules test and change: `dataset`, `datarep`.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use super::lock;
use crate::rule::matches::{
    DataReputation, Dataset, DatasetCommand, DatasetDeclaration, DatasetType,
};

/// The most values of one set that rules may add.
const VALUES_MAX: usize = 1_000_000;

type Sets = HashMap<String, HashSet<Vec<u8>>>;
type Scores = HashMap<String, HashMap<Vec<u8>, u64>>;

/// All sets by name; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Datasets {
    sets: Arc<Mutex<Sets>>,
    reputations: Arc<Scores>,
}

impl Datasets {
    /// Puts the values of a set in, as its file has them.
    pub fn load(&mut self, name: &str, values: impl IntoIterator<Item = Vec<u8>>) {
        lock(&self.sets).entry(name.to_owned()).or_default().extend(values);
    }

    /// Puts values with their reputations in.
    pub fn load_reputations(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = (Vec<u8>, u64)>,
    ) {
        let scores = Arc::make_mut(&mut self.reputations);
        scores.entry(name.to_owned()).or_default().extend(values);
    }

    /// Takes all of `newer`, but keeps these sets as they are. Another thread may have done so with
    /// the same sets already, and added to them.
    pub(crate) fn replace(&mut self, newer: Self, kept: &[&str]) {
        let older = std::mem::replace(self, newer);
        let mut sets = lock(&self.sets);
        for (name, values) in lock(&older.sets).iter() {
            if kept.contains(&name.as_str()) {
                sets.entry(name.clone()).or_default().extend(values.iter().cloned());
            }
        }
    }

    pub(crate) fn check(&mut self, check: &Dataset, value: &[u8]) -> bool {
        let Some(value) = key(&check.set, value) else {
            return check.command == DatasetCommand::IsNotSet;
        };
        let mut sets = lock(&self.sets);
        let set = sets.entry(check.set.name.clone()).or_default();
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
