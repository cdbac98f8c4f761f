//! How often something happened of late, in bounded memory.
//!
//! A key has two counts, of this window and of the one before; the second fades while the first
//! fills, which is within a few per cent of a true sliding window and takes 24 bytes. Time is the
//! caller's.
//!
//! Nodes of an array may share a window: then what each of the others counted is kept by node, and
//! added. A count only grows within its window, so of two that came from a node the greater is the
//! later one, and none counts twice.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

/// Counts by key over the last so many seconds.
#[derive(Debug)]
pub struct Window {
    seconds: i64,
    keys_max: usize,
    names: Names,
    slots: Mutex<Slots>,
}

/// How keys become names of 64 bits.
#[derive(Debug)]
enum Names {
    /// Of this process alone: nobody can find two keys with one name.
    Keyed(RandomState),
    /// The same on all nodes of an array.
    Shared,
}

/// From how many within a window a key is told to other nodes: most come once or twice, and no
/// limit is near.
pub(crate) const SHARED_FROM: u32 = 3;

#[derive(Debug, Default)]
struct Slots {
    own: HashMap<u64, Slot>,
    /// By node.
    elsewhere: BTreeMap<i16, HashMap<u64, Slot>>,
    /// Own ones that other nodes do not know as they are.
    changed: BTreeSet<u64>,
    /// Changes are noted.
    is_shared: bool,
}

/// A count of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedCount {
    /// Name of the key.
    pub name: u64,
    /// Number of the window, from 1970.
    pub window: i64,
    /// How often, within it.
    pub count: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// Number of the window.
    number: i64,
    now: u32,
    before: u32,
}

impl Slot {
    /// The same in another window.
    fn at(self, number: i64) -> Self {
        match number - self.number {
            ..=0 => self,
            1 => Slot { number, now: 0, before: self.now },
            _ => Slot { number, now: 0, before: 0 },
        }
    }

    /// How many these are in the last window, with `left` of `seconds` of this one to come.
    fn sliding(self, left: i64, seconds: i64) -> u32 {
        let faded = i64::from(self.before) * left / seconds;
        self.now.saturating_add(u32::try_from(faded).unwrap_or(0))
    }

    /// Takes a count of the node whose slot this is.
    fn merge(&mut self, count: SharedCount) {
        if count.window > self.number {
            *self = self.at(count.window);
        }
        match self.number - count.window {
            0 => self.now = self.now.max(count.count),
            1 => self.before = self.before.max(count.count),
            _ => {}
        }
    }
}

impl Window {
    /// Counts over the last `seconds`, of at most `keys_max` keys: beyond, those that happen rarely
    /// are forgotten.
    pub fn new(seconds: i64, keys_max: usize) -> Self {
        let (names, slots) = (Names::Keyed(RandomState::new()), Mutex::default());
        Window { seconds: seconds.max(1), keys_max: keys_max.max(1), names, slots }
    }

    /// The same; nodes of an array may share it.
    pub fn shared(seconds: i64, keys_max: usize) -> Self {
        Window { names: Names::Shared, ..Self::new(seconds, keys_max) }
    }

    fn name(&self, key: &str) -> u64 {
        match &self.names {
            Names::Keyed(hasher) => hasher.hash_one(key),
            Names::Shared => {
                let hash = blake3::hash(key.as_bytes());
                u64::from_le_bytes(hash.as_bytes().first_chunk().copied().unwrap_or_default())
            }
        }
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one and says how many there were in the last window, this one included. Keys that
    /// differ are distinguished by a keyed hash of 64 bits.
    pub fn count(&self, key: &str, at_s: i64) -> u32 {
        let name = self.name(key);
        let number = at_s.div_euclid(self.seconds);
        let mut slots = self.slots();
        let Slots { own, elsewhere, changed, is_shared } = &mut *slots;
        if own.len() >= self.keys_max && !own.contains_key(&name) {
            make_room(own, self.keys_max, number);
        }
        let slot = own.entry(name).or_default();
        *slot = slot.at(number);
        slot.now = slot.now.saturating_add(1);
        if *is_shared && slot.now >= SHARED_FROM && changed.len() < self.keys_max {
            changed.insert(name);
        }
        let left = self.seconds - at_s.rem_euclid(self.seconds);
        let own = slot.sliding(left, self.seconds);
        let others = elsewhere.values().filter_map(|of_node| of_node.get(&name));
        others.fold(own, |sum, slot| {
            // A node whose clock is ahead may be in the next window already.
            sum.saturating_add(slot.at(number).sliding(left, self.seconds))
        })
    }

    /// Begins to note what changes, for other nodes.
    pub fn share(&self) {
        self.slots().is_shared = true;
    }

    /// Own counts that changed since they were [`Window::told`], at most so many.
    pub fn untold(&self, most: usize) -> Vec<SharedCount> {
        let slots = self.slots();
        let count = |name: &u64| {
            let slot = slots.own.get(name)?;
            Some(SharedCount { name: *name, window: slot.number, count: slot.now })
        };
        slots.changed.iter().take(most).filter_map(count).collect()
    }

    /// Other nodes know these.
    pub fn told(&self, counts: &[SharedCount]) {
        let mut slots = self.slots();
        for told in counts {
            let is_same = |slot: &Slot| (slot.number, slot.now) == (told.window, told.count);
            if slots.own.get(&told.name).is_none_or(is_same) {
                slots.changed.remove(&told.name);
            }
        }
    }

    /// Takes counts of another node.
    pub fn merge(&self, node: i16, counts: &[SharedCount]) {
        let mut slots = self.slots();
        let of_node = slots.elsewhere.entry(node).or_default();
        for count in counts {
            if of_node.len() >= self.keys_max && !of_node.contains_key(&count.name) {
                make_room(of_node, self.keys_max, count.window);
            }
            of_node.entry(count.name).or_default().merge(*count);
        }
    }

    /// Forgets what other nodes counted.
    pub fn forget_elsewhere(&self) {
        self.slots().elsewhere.clear();
    }

    /// Keys that are remembered.
    pub fn keys(&self) -> usize {
        self.slots().own.len()
    }
}

/// Forgets what is over, then whatever happens rarely, until a quarter is free.
fn make_room(slots: &mut HashMap<u64, Slot>, keys_max: usize, number: i64) {
    let mut least = 0;
    while slots.len() > keys_max / 4 * 3 {
        slots.retain(|_, slot| {
            let slot = slot.at(number);
            slot.now.max(slot.before) > least
        });
        least = (least * 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_slide() {
        let window = Window::new(60, 10);
        assert_eq!((0..30).map(|_| window.count("a", 60)).last(), Some(30));
        assert_eq!(window.count("b", 60), 1);
        assert_eq!(window.count("a", 119), 31);
        // A minute after most of them a quarter has faded, half a minute later more.
        assert_eq!(window.count("a", 135), 1 + 31 * 45 / 60);
        assert_eq!(window.count("a", 179), 2);
        assert_eq!(window.count("a", 300), 1);
        assert_eq!(window.count("a", 10), 2, "a clock that is set back starts nothing anew");
    }

    #[test]
    fn memory_is_bounded_and_the_busy_are_kept() {
        let window = Window::new(60, 1_000);
        for _ in 0..50 {
            window.count("busy", 0);
        }
        for n in 0..100_000 {
            window.count(&format!("client {n}"), 1);
        }
        assert!(window.keys() <= 1_000);
        assert_eq!(window.count("busy", 2), 51);
    }

    fn all(window: &Window) -> Vec<SharedCount> {
        window.untold(usize::MAX)
    }

    #[test]
    fn nodes_add_up_what_each_counted_once() {
        let [one, two] = [Window::shared(60, 100), Window::shared(60, 100)];
        one.share();
        two.share();
        for _ in 0..2 {
            one.count("a", 60);
        }
        assert!(all(&one).is_empty(), "few are not told");
        for _ in 0..3 {
            one.count("a", 60);
        }
        let told = all(&one);
        assert_eq!((told.len(), told[0].count), (1, 5));
        // Twice, and an older one after it.
        two.merge(1, &told);
        two.merge(1, &[SharedCount { count: 3, ..told[0] }]);
        two.merge(1, &told);
        assert_eq!(two.count("a", 60), 6);
        assert_eq!(two.count("a", 150), 1 + 5 / 2, "it fades as own ones do");
        // Counted meanwhile: it is told again.
        one.count("a", 60);
        one.told(&told);
        assert_eq!(all(&one)[0].count, 6);
        one.told(&all(&one));
        assert!(all(&one).is_empty());
        two.forget_elsewhere();
        assert_eq!(two.count("a", 60 * 9), 1);
    }

    #[test]
    fn other_nodes_take_bounded_memory_and_late_counts_change_nothing() {
        let window = Window::shared(60, 1_000);
        for n in 0..20_000_u64 {
            window.merge(2, &[SharedCount { name: n, window: 1, count: 3 }]);
        }
        assert!(window.slots().elsewhere[&2].len() <= 1_000);
        let name = window.name("late");
        window.merge(3, &[SharedCount { name, window: 9, count: 4 }]);
        window.merge(3, &[SharedCount { name, window: 7, count: 50 }]);
        assert_eq!(window.count("late", 9 * 60), 5);
    }
}
