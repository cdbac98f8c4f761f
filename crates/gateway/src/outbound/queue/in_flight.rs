//! Messages in flight when a process dies, so that one that kills it again and again is set aside.
//!
//! The ids of active messages stand in a file of fixed slots that is mapped into memory: writing
//! one costs nothing, and what is written outlives the process, whatever ended it. At the next
//! start the messages found there are suspects: they are tried again one after the other, so that a
//! guilty one is in flight with few others. A message that is in flight with few others at a crash
//! has one crash more; so many, and it is held for an administrator to review. A message that is
//! concluded begins anew. A process that is killed under load finds many in flight, which says
//! nothing about any of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use memmap2::MmapRaw;

/// Messages in flight that are remembered at once; further ones are not.
const SLOTS: usize = 65_536;
const SLOT_BYTES: usize = size_of::<u64>();
/// With more messages in flight a crash counts for none of them.
const FEW: usize = 4;

/// Slot of a message in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(usize);

/// The messages in flight.
#[derive(Debug)]
pub struct InFlight {
    map: Option<MmapRaw>,
    free: Mutex<Vec<usize>>,
    suspects: BTreeSet<u64>,
    set_aside: BTreeSet<u64>,
}

impl InFlight {
    /// Opens the list in this folder and counts the crash, if there was one. Messages that were in
    /// flight in `crashes_max` crashes are to be set aside; 0 sets none aside.
    ///
    /// # Errors
    /// If the files cannot be used.
    pub fn open(folder: &Path, crashes_max: u32) -> io::Result<Self> {
        let path = folder.join("in-hand");
        let file =
            File::options().create(true).truncate(false).read(true).write(true).open(path)?;
        allocate(&file)?;
        let map = MmapRaw::map_raw(&file)?;
        let free = Mutex::new((0..SLOTS).rev().collect());
        let (suspects, set_aside) = (BTreeSet::new(), BTreeSet::new());
        let mut list = InFlight { map: Some(map), free, suspects, set_aside };
        let mut left = BTreeSet::new();
        for slot in 0..SLOTS {
            let id = list.slot(slot).map_or(0, |s| s.swap(0, Ordering::Relaxed));
            left.extend((id != 0).then_some(id));
        }
        list.set_aside = count(&folder.join("crashes.json"), &left, crashes_max)?;
        list.suspects = left;
        Ok(list)
    }

    /// Remembers nothing: for spools that do not outlive the process.
    pub fn nowhere() -> Self {
        let (suspects, set_aside) = (BTreeSet::new(), BTreeSet::new());
        InFlight { map: None, free: Mutex::default(), suspects, set_aside }
    }

    /// Messages that were in flight when the last process died.
    pub fn suspects(&self) -> &BTreeSet<u64> {
        &self.suspects
    }

    /// Messages that were in flight in too many crashes.
    pub fn set_aside(&self) -> &BTreeSet<u64> {
        &self.set_aside
    }

    /// A message is in flight from now on. None if no slot is free.
    pub fn take(&self, id: u64) -> Option<Slot> {
        self.map.as_ref()?;
        let index = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        self.slot(index)?.store(id, Ordering::Relaxed);
        Some(Slot(index))
    }

    /// It is not any more.
    pub fn release(&self, slot: Option<Slot>) {
        let Some(Slot(index)) = slot else { return };
        if let Some(slot) = self.slot(index) {
            slot.store(0, Ordering::Relaxed);
        }
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(index);
    }

    fn slot(&self, index: usize) -> Option<&AtomicU64> {
        let map = self.map.as_ref().filter(|map| (index + 1) * SLOT_BYTES <= map.len())?;
        // SAFETY: the mapping begins on a page and is as long as just checked, so the address is
        // aligned and inside; it lives as long as `self`. Any bits are a u64. Nobody else uses the
        // file: the data folder is locked.
        Some(unsafe { AtomicU64::from_ptr(map.as_mut_ptr().cast::<u64>().add(index)) })
    }
}

/// Writes the whole file if it is not there yet: where a mapped page has no room on the disk, a
/// write to it is no error but the end of the process (SIGBUS).
fn allocate(mut file: &File) -> io::Result<()> {
    if file.metadata()?.len() == (SLOTS * SLOT_BYTES) as u64 {
        return Ok(());
    }
    file.set_len(0)?;
    file.rewind()?;
    let written = file.write_all(&vec![0; SLOTS * SLOT_BYTES]);
    if written.is_err() {
        // The next start begins anew, and what was written is free for others meanwhile.
        let _best_effort = file.set_len(0);
    }
    written
}

/// Adds a crash to each of these messages, forgets all others, and gives those that had enough.
fn count(path: &Path, left: &BTreeSet<u64>, crashes_max: u32) -> io::Result<BTreeSet<u64>> {
    let known: BTreeMap<u64, u32> = gauntlet_store::files::read_cache(path);
    let more = u32::from(left.len() <= FEW);
    let one_more = |id: &u64| (*id, known.get(id).copied().unwrap_or(0).saturating_add(more));
    let mut counts: BTreeMap<u64, u32> = left.iter().map(one_more).collect();
    let enough = |n: u32| crashes_max > 0 && n >= crashes_max;
    let aside = counts.iter().filter(|(_, n)| enough(**n)).map(|(id, _)| *id).collect();
    // Once it is held an administrator decides: a retry begins anew.
    counts.retain(|_, n| *n > 0 && !enough(*n));
    if !(known.is_empty() && counts.is_empty()) {
        gauntlet_store::files::write_durably(path, &serde_json::to_vec(&counts)?)?;
    }
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_flight_at_three_crashes_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let open = || InFlight::open(folder.path(), 3).unwrap();
        for crash in 0..3 {
            let list = open();
            assert!(list.set_aside().is_empty(), "{crash}");
            let concluded = list.take(7);
            let _in_hand = list.take(42);
            list.release(concluded);
            // The process dies here: nothing is put down.
        }
        let list = open();
        assert_eq!(list.set_aside().iter().copied().collect::<Vec<_>>(), [42]);
        drop(list);
        assert!(open().set_aside().is_empty(), "only once");
    }

    #[test]
    fn a_start_without_a_crash_between_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..6 {
            let list = InFlight::open(folder.path(), 2).unwrap();
            assert!(list.set_aside().is_empty());
            let _in_hand = list.take(42);
            drop(list);
            let list = InFlight::open(folder.path(), 2).unwrap();
            let slot = list.take(42);
            list.release(slot);
        }
    }

    #[test]
    fn a_crash_with_many_in_flight_counts_for_none() {
        let folder = tempfile::tempdir().unwrap();
        for crash in 0..10 {
            let list = InFlight::open(folder.path(), 2).unwrap();
            assert!(list.set_aside().is_empty());
            assert_eq!(list.suspects().len(), if crash == 0 { 0 } else { 20 });
            let taken = (1..=20).filter(|id| list.take(*id).is_some()).count();
            assert_eq!(taken, 20);
        }
    }

    #[test]
    fn more_than_there_are_slots_for() {
        let folder = tempfile::tempdir().unwrap();
        let list = InFlight::open(folder.path(), 2).unwrap();
        let slots: Vec<_> = (1..=SLOTS as u64 + 1).map(|id| list.take(id)).collect();
        assert_eq!(slots.iter().filter(|slot| slot.is_none()).count(), 1);
        list.release(slots[0]);
        assert!(list.take(5).is_some());
        assert_eq!(InFlight::nowhere().take(5), None);
    }
}
