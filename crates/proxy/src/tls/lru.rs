//! A map of bounded size: what was used longest ago goes first.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Values by key, with the moment of their last use.
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    entries: HashMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
    uses: u64,
    max: usize,
}

impl<K: Hash + Eq + Clone, V> Lru<K, V> {
    /// At most so many entries.
    pub(crate) fn new(max: usize) -> Self {
        Lru { entries: HashMap::new(), by_use: BTreeMap::new(), uses: 0, max }
    }

    /// The value, which is thereby the last that was used.
    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        let (used, value) = self.entries.get_mut(key)?;
        self.uses += 1;
        if let Some(key) = self.by_use.remove(used) {
            self.by_use.insert(self.uses, key);
        }
        *used = self.uses;
        Some(value)
    }

    /// Puts a value in, in place of the one that is there.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.remove(&key);
        while self.entries.len() >= self.max {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.entries.remove(&oldest);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, key.clone());
        self.entries.insert(key, (self.uses, value));
    }

    /// Takes a value out.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (used, value) = self.entries.remove(key)?;
        self.by_use.remove(&used);
        Some(value)
    }

    /// Entries now.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes() {
        let mut lru = Lru::new(2);
        lru.insert("a", 1);
        lru.insert("b", 2);
        assert_eq!(lru.get(&"a"), Some(&mut 1));
        lru.insert("c", 3);
        assert_eq!(lru.get(&"b"), None);
        assert_eq!(lru.len(), 2);
        lru.insert("a", 4);
        lru.insert("d", 5);
        assert_eq!(lru.get(&"c"), None);
        assert_eq!(lru.get(&"a"), Some(&mut 4));
        assert_eq!(lru.by_use.len(), 2);
    }
}
