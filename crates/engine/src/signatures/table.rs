//! A file of known fingerprints that is looked up in place.
//!
//! Little endian. Header (64 bytes): magic `GNTLSIGS`, format version (u32), number of entries
//! (u32), number of slots (u64), generation of the newest journal whose entries it holds (u32),
//! CRC-32 of those 28 bytes, zeros. Then the entries (64 bytes each: kind u8, zero u8, times bad
//! u16, times good u16, day last seen u16, size u32, sketch 24 x u16, CRC-32 of the 60 bytes
//! before), then the slots (8 bytes each: key u32, number of the entry + 1 u32; 0 is empty): open
//! addressing with linear probing.
//!
//! **Damage is harmless**: a wrong header is refused; an entry whose checksum is wrong is no entry;
//! a slot that points nowhere, or to an entry that does not resemble what is looked for, finds
//! nothing. A lookup reads [`KEYS`] runs of slots of at most [`PROBES_MAX`], and the entries they
//! name.

use super::fingerprint::{Fingerprint, KEYS, Kind, SKETCH_LENGTH};

/// What the file begins with.
pub const MAGIC: &[u8; 8] = b"GNTLSIGS";
/// The format that this program writes and reads.
pub const FORMAT_VERSION: u32 = 1;
/// Bytes of the header, and of an entry.
pub const ENTRY_BYTES: usize = 64;
/// Bytes of a slot.
const SLOT_BYTES: usize = 8;
/// Slots read for a key at most.
const PROBES_MAX: u64 = 64;
/// Entries of one key at most: what all mail has in common needs no more.
const ENTRIES_PER_KEY_MAX: usize = 12;
/// Slots for every key, in per cent.
const ROOM_PERCENT: u64 = 150;

/// Why a table cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TableError {
    /// Not a table at all.
    #[error("not a table of signatures (it does not begin with GNTLSIGS)")]
    NotATable,
    /// Made by another version.
    #[error("signatures of format {found}, this program reads format {FORMAT_VERSION}")]
    OtherVersion {
        /// Format of the file.
        found: u32,
    },
    /// Cut off, or changed.
    #[error("the table of signatures is damaged ({0}); restore it, or remove it to start anew")]
    Damaged(&'static str),
}

/// A fingerprint and what was reported about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What a message is compared with.
    pub fingerprint: Fingerprint,
    /// Times that it was said to be bad.
    pub bad: u16,
    /// Times that it was said to be good.
    pub good: u16,
    /// Days from 1970 to when that was said last.
    pub day: u16,
}

impl Entry {
    /// The entry as the file has it, numbers little-endian.
    pub fn to_bytes(&self) -> [u8; ENTRY_BYTES] {
        let mut out = [0; ENTRY_BYTES];
        let f = &self.fingerprint;
        let head = [u16::from(f.kind.code()), self.bad, self.good, self.day];
        let size = [f.size as u16, (f.size >> 16) as u16];
        let numbers = head.iter().chain(&size).chain(&f.sketch);
        for (to, number) in out.chunks_exact_mut(2).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        let (content, check) = out.split_at_mut(ENTRY_BYTES - 4);
        check.copy_from_slice(&crc32fast::hash(content).to_le_bytes());
        out
    }

    /// Reads an entry; None if its checksum is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (content, check) = bytes.get(..ENTRY_BYTES)?.split_at(ENTRY_BYTES - 4);
        if crc32fast::hash(content).to_le_bytes() != check {
            return None;
        }
        let mut numbers = content
            .chunks_exact(2)
            .map(|pair| pair.iter().rev().fold(0u16, |number, &b| number << 8 | u16::from(b)));
        let mut next = || numbers.next().unwrap_or(0);
        let kind = Kind::of_code(u8::try_from(next()).ok()?)?;
        let (bad, good, day) = (next(), next(), next());
        let size = u32::from(next()) | u32::from(next()) << 16;
        let mut sketch = [0; SKETCH_LENGTH];
        sketch.iter_mut().for_each(|value| *value = next());
        Some(Entry { fingerprint: Fingerprint { kind, size, sketch }, bad, good, day })
    }
}

/// Bytes that hold a table: a mapped file, or memory.
pub type Bytes = Box<dyn AsRef<[u8]> + Send + Sync>;

/// Known fingerprints in their file's form.
pub struct Table {
    bytes: Bytes,
    entries: u32,
    slots: u64,
    generation: u32,
}

impl std::fmt::Debug for Table {
    /// Leaves out the bytes, which may be a gigabyte.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("entries", &self.entries).finish_non_exhaustive()
    }
}

impl Table {
    /// Checks the header. Entries are checked when they are found.
    ///
    /// # Errors
    /// If the bytes are no table, one of another version, or of another length than they say.
    pub fn new(bytes: Bytes) -> Result<Self, TableError> {
        use TableError::Damaged;
        let content = (*bytes).as_ref();
        if content.get(..MAGIC.len()) != Some(MAGIC) {
            return Err(TableError::NotATable);
        }
        let number = |at: usize| -> Option<u32> {
            Some(u32::from_le_bytes(content.get(at..at + 4)?.try_into().ok()?))
        };
        let short = Damaged("too short");
        let found = number(8).ok_or(short)?;
        if found != FORMAT_VERSION {
            return Err(TableError::OtherVersion { found });
        }
        let check = number(28).ok_or(Damaged("too short"))?;
        if content.get(..28).map(crc32fast::hash) != Some(check) {
            return Err(Damaged("the checksum of its header is wrong"));
        }
        let entries = number(12).unwrap_or(0);
        let slots = u64::from(number(16).unwrap_or(0)) | u64::from(number(20).unwrap_or(0)) << 32;
        if file_bytes(entries, slots) != Some(content.len() as u64) {
            return Err(Damaged("its length is wrong"));
        }
        let generation = number(24).unwrap_or(0);
        Ok(Table { bytes, entries, slots, generation })
    }

    /// Generation of the newest journal whose entries it holds; 0 is none.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Number of entries, by the header.
    pub fn len(&self) -> u32 {
        self.entries
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The entry of this number; None if it is damaged or there is none.
    pub fn entry(&self, number: u32) -> Option<Entry> {
        let at = ENTRY_BYTES * (number as usize + 1);
        let inside = number < self.entries;
        let bytes = (*self.bytes).as_ref().get(at..at + ENTRY_BYTES).filter(|_| inside)?;
        Entry::from_bytes(bytes)
    }

    /// Gives every entry that shares a key with the fingerprint, each once.
    pub fn candidates(&self, fingerprint: &Fingerprint, take: &mut dyn FnMut(u32, Entry)) {
        let mut seen = [0u32; KEYS * ENTRIES_PER_KEY_MAX];
        let mut count = 0;
        for key in fingerprint.keys() {
            for probe in 0..PROBES_MAX {
                let Some((found, number)) = self.slot(key, probe) else { break };
                if found != key || seen.iter().take(count).any(|&s| s == number) {
                    continue;
                }
                let Some(free) = seen.get_mut(count) else { return };
                (*free, count) = (number, count + 1);
                if let Some(entry) = self.entry(number - 1) {
                    take(number - 1, entry);
                }
            }
        }
    }

    /// Key and number + 1 of the entry in the slot where the key belongs or that many behind; None
    /// if the slot is empty.
    fn slot(&self, key: u32, probe: u64) -> Option<(u32, u32)> {
        let first = ENTRY_BYTES * (self.entries as usize + 1);
        let at = first + SLOT_BYTES * position(key, probe, self.slots) as usize;
        let bytes = (*self.bytes).as_ref().get(at..at + SLOT_BYTES)?;
        let slot = u64::from_le_bytes(bytes.try_into().ok()?);
        let number = (slot >> 32) as u32;
        (number != 0).then_some((slot as u32, number))
    }
}

/// Where a key belongs, and the slots behind it.
fn position(key: u32, probe: u64, slots: u64) -> u64 {
    let home = (u64::from(key) * slots) >> 32;
    let at = home + probe;
    if at >= slots { at.checked_rem(slots).unwrap_or(0) } else { at }
}

/// Bytes of a table's file.
fn file_bytes(entries: u32, slots: u64) -> Option<u64> {
    let entries = (u64::from(entries) + 1) * ENTRY_BYTES as u64;
    slots.checked_mul(SLOT_BYTES as u64)?.checked_add(entries)
}

/// How large the table of so many entries is made: `(slots, bytes of the file)`.
pub fn room_for(entries: u32) -> (u64, u64) {
    let slots = u64::from(entries) * KEYS as u64 * ROOM_PERCENT / 100 + 64;
    (slots, file_bytes(entries, slots).unwrap_or(u64::MAX))
}

/// Writes a table of `count` entries, which hold those of the journal of this generation, into
/// `out`, which has the length that [`room_for`] gives and holds zeros.
pub fn write(
    out: &mut [u8],
    (count, generation): (u32, u32),
    entries: &mut dyn Iterator<Item = Entry>,
) {
    let (slots, _) = room_for(count);
    let mut written = 0u32;
    let first = ENTRY_BYTES * (count as usize + 1);
    for entry in entries.take(count as usize) {
        let at = ENTRY_BYTES * (written as usize + 1);
        if let Some(room) = out.get_mut(at..at + ENTRY_BYTES) {
            room.copy_from_slice(&entry.to_bytes());
        }
        written += 1;
        for key in entry.fingerprint.keys() {
            insert(out.get_mut(first..).unwrap_or_default(), slots, key, written);
        }
    }
    let mut header = MAGIC.to_vec();
    header.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    header.extend_from_slice(&count.to_le_bytes());
    header.extend_from_slice(&slots.to_le_bytes());
    header.extend_from_slice(&generation.to_le_bytes());
    header.extend_from_slice(&crc32fast::hash(&header).to_le_bytes());
    if let Some(room) = out.get_mut(..header.len()) {
        room.copy_from_slice(&header);
    }
}

/// Puts a key into the first empty slot, unless it has entries enough.
fn insert(out: &mut [u8], slots: u64, key: u32, number: u32) {
    let mut same = 0;
    for probe in 0..PROBES_MAX {
        let at = SLOT_BYTES * position(key, probe, slots) as usize;
        let Some(slot) = out.get_mut(at..at + SLOT_BYTES) else { return };
        let held = <[u8; SLOT_BYTES]>::try_from(&*slot).map_or(0, u64::from_le_bytes);
        if held == 0 {
            slot.copy_from_slice(&(u64::from(number) << 32 | u64::from(key)).to_le_bytes());
            return;
        }
        same += usize::from(held as u32 == key);
        if same >= ENTRIES_PER_KEY_MAX {
            return;
        }
    }
}

/// A table of these entries in memory.
pub fn in_memory(entries: &[Entry]) -> Vec<u8> {
    let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    let mut out = vec![0; room_for(count).1 as usize];
    write(&mut out, (count, 0), &mut entries.iter().copied());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn entry(random: &mut Random) -> Entry {
        let sketch = std::array::from_fn(|_| random.next_u64() as u16);
        let kind = Kind::ALL[random.below(4) as usize];
        let fingerprint = Fingerprint { kind, size: random.below(1 << 20), sketch };
        Entry { fingerprint, bad: 3, good: 1, day: 20_000 }
    }

    fn entries(count: usize) -> Vec<Entry> {
        let mut random = Random::new(1);
        (0..count).map(|_| entry(&mut random)).collect()
    }

    fn found(table: &Table, fingerprint: &Fingerprint) -> Vec<Entry> {
        let mut found = Vec::new();
        table.candidates(fingerprint, &mut |_, entry| found.push(entry));
        found
    }

    #[test]
    fn every_entry_is_found_again_and_others_are_not() {
        let entries = entries(5_000);
        let table = Table::new(Box::new(in_memory(&entries))).unwrap();
        assert_eq!(table.len(), 5_000);
        for e in &entries {
            assert!(found(&table, &e.fingerprint).contains(e));
            // A fuzzy one is found by what is left of it.
            let mut changed = e.fingerprint;
            changed.sketch[0] ^= 1;
            assert_eq!(found(&table, &changed).contains(e), e.fingerprint.kind.is_fuzzy());
        }
        let empty = Table::new(Box::new(in_memory(&[]))).unwrap();
        assert!(empty.is_empty() && found(&empty, &entries[0].fingerprint).is_empty());
    }

    #[test]
    fn damage_is_refused_or_harmless() {
        let entries = entries(200);
        let good = in_memory(&entries);
        let error = |bytes: &[u8]| Table::new(Box::new(bytes.to_vec())).unwrap_err();
        assert_eq!(error(b"From: somebody"), TableError::NotATable);
        let mut newer = good.clone();
        newer[8] = 9;
        assert_eq!(error(&newer), TableError::OtherVersion { found: 9 });
        for cut in [8, 20, 63, 1_000, good.len() - 1] {
            assert!(matches!(error(&good[..cut]), TableError::Damaged(_)), "cut at {cut}");
        }
        let mut random = Random::new(7);
        for _ in 0..300 {
            let mut broken = good.clone();
            for _ in 0..20 {
                let at = 32 + random.below((good.len() - 32) as u32) as usize;
                broken[at] = random.next_u64() as u8;
            }
            let table = Table::new(Box::new(broken)).unwrap();
            for e in &entries {
                let known = found(&table, &e.fingerprint);
                assert!(known.iter().all(|k| entries.contains(k)), "nothing is made up");
            }
        }
    }

    #[test]
    fn a_key_of_everybody_stays_bounded() {
        let one = entries(1)[0];
        let table = Table::new(Box::new(in_memory(&vec![one; 3_000]))).unwrap();
        assert!(found(&table, &one.fingerprint).len() <= KEYS * ENTRIES_PER_KEY_MAX);
    }
}
