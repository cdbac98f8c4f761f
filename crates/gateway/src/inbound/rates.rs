//! How often something happened of late, in bounded memory.
//!
//! A key has two counts, of this window and of the one before; the second fades while the first
//! fills, which is within a few per cent of a true sliding window and takes 24 bytes. Time is the
//! caller's.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

/// Counts by key over the last so many seconds.
#[derive(Debug)]
pub struct Window {
    seconds: i64,
    keys_max: usize,
    hasher: RandomState,
    slots: Mutex<HashMap<u64, Slot>>,
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
}

impl Window {
    /// Counts over the last `seconds`, of at most `keys_max` keys: beyond, those that happen rarely
    /// are forgotten.
    pub fn new(seconds: i64, keys_max: usize) -> Self {
        let (hasher, slots) = (RandomState::new(), Mutex::default());
        Window { seconds: seconds.max(1), keys_max: keys_max.max(1), hasher, slots }
    }

    /// Counts one and says how many there were in the last window, this one included. Keys that
    /// differ are distinguished by a keyed hash of 64 bits.
    pub fn count(&self, key: &str, at_s: i64) -> u32 {
        let name = self.hasher.hash_one(key);
        let number = at_s.div_euclid(self.seconds);
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= self.keys_max && !slots.contains_key(&name) {
            make_room(&mut slots, self.keys_max, number);
        }
        let slot = slots.entry(name).or_default();
        *slot = slot.at(number);
        slot.now = slot.now.saturating_add(1);
        let left = self.seconds - at_s.rem_euclid(self.seconds);
        let faded = i64::from(slot.before) * left / self.seconds;
        slot.now.saturating_add(u32::try_from(faded).unwrap_or(0))
    }

    /// Keys that are remembered.
    pub fn keys(&self) -> usize {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).len()
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
}
