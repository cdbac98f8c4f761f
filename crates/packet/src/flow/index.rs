//! Places of flows by the hash of their keys: four bytes a place, no keys.
//!
//! Open addressing with linear probing; removal closes the gap, so nothing is ever marked as
//! deleted, and a table through which millions of flows have gone is as good as a new one.

/// A place without a flow.
const EMPTY: u32 = u32::MAX;

/// Places at least, a power of two.
const PLACES_MIN: usize = 64;

/// Slots by hash.
#[derive(Debug, Default)]
pub(crate) struct Index {
    places: Vec<u32>,
    len: usize,
}

impl Index {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn home(&self, hash: u64) -> usize {
        // The table has at most 2^32 places, so the low bits of the hash are enough.
        hash as usize & (self.places.len() - 1)
    }

    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// The slot of a hash for which `is` holds.
    pub(crate) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        if self.places.is_empty() {
            return None;
        }
        let mut place = self.home(hash);
        loop {
            match self.places.get(place).copied() {
                None | Some(EMPTY) => return None,
                Some(slot) if is(slot) => return Some(slot),
                Some(_) => place = self.next(place),
            }
        }
    }

    /// Adds a slot that is not there; `hash_of` says the hashes of the others.
    pub(crate) fn insert(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        if (self.len + 1) * 4 > self.places.len() * 3 {
            self.grow(hash_of);
        }
        self.put(hash, slot);
        self.len += 1;
    }

    fn put(&mut self, hash: u64, slot: u32) {
        let mut place = self.home(hash);
        while let Some(&taken) = self.places.get(place) {
            if taken == EMPTY {
                break;
            }
            place = self.next(place);
        }
        if let Some(free) = self.places.get_mut(place) {
            *free = slot;
        }
    }

    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        let places = (self.places.len() * 2).max(PLACES_MIN);
        let old = std::mem::replace(&mut self.places, vec![EMPTY; places]);
        for slot in old.into_iter().filter(|&slot| slot != EMPTY) {
            self.put(hash_of(slot), slot);
        }
    }

    /// Removes a slot.
    pub(crate) fn remove(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        if self.places.is_empty() {
            return;
        }
        let mut gap = self.home(hash);
        loop {
            match self.places.get(gap).copied() {
                None | Some(EMPTY) => return,
                Some(found) if found == slot => break,
                Some(_) => gap = self.next(gap),
            }
        }
        self.len -= 1;
        let mask = self.places.len() - 1;
        let mut place = gap;
        loop {
            place = self.next(place);
            let Some(&moved) = self.places.get(place).filter(|&&slot| slot != EMPTY) else {
                break;
            };
            // It may fill the gap unless its home lies behind the gap.
            let distance = place.wrapping_sub(self.home(hash_of(moved))) & mask;
            if distance >= place.wrapping_sub(gap) & mask {
                if let Some(free) = self.places.get_mut(gap) {
                    *free = moved;
                }
                gap = place;
            }
        }
        if let Some(free) = self.places.get_mut(gap) {
            *free = EMPTY;
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_found_until_it_is_removed() {
        // Few hashes, so that runs of places are long and wrap.
        let hash = |slot: u32| u64::from(slot) % 37 * 7;
        let mut index = Index::default();
        let mut there = std::collections::BTreeSet::new();
        let mut state: u32 = 1;
        for _ in 0..50_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let slot = (state >> 16) % 200;
            if there.remove(&slot) {
                index.remove(hash(slot), slot, hash);
            } else {
                index.insert(hash(slot), slot, hash);
                there.insert(slot);
            }
            let probe = (state >> 8) % 200;
            let found = index.find(hash(probe), |slot| slot == probe);
            assert_eq!(found, there.contains(&probe).then_some(probe));
            assert_eq!(index.len(), there.len());
        }
    }
}
