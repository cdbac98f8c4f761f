//! A few last entries of something, by their keys.

use std::collections::{BTreeMap, VecDeque};

/// The last entries that were put in.
#[derive(Debug)]
pub(crate) struct Recent<K: Ord + Clone, V> {
    entries: BTreeMap<K, V>,
    order: VecDeque<K>,
    max: usize,
}

impl<K: Ord + Clone, V> Recent<K, V> {
    pub(crate) fn new(max: usize) -> Self {
        Self { entries: BTreeMap::new(), order: VecDeque::new(), max }
    }

    pub(crate) fn put(&mut self, key: K, value: V) {
        if self.entries.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        while self.entries.len() > self.max {
            let Some(oldest) = self.order.pop_front() else { break };
            self.entries.remove(&oldest);
        }
        // Entries that were taken out are still in the order.
        if self.order.len() > 4 * self.max {
            let entries = &self.entries;
            self.order.retain(|key| entries.contains_key(key));
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    pub(crate) fn pop(&mut self, key: &K) -> Option<V> {
        self.entries.remove(key)
    }
}
