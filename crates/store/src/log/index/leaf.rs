//! How terms and their messages lie in a leaf.
//!
//! One entry a term: how many bytes it shares with the term before (one byte), how many more it has (one byte), those
//! bytes, the length of its list, and the list: the first ordinal, then the distances of the others. Lengths and
//! ordinals take seven bits a byte, the lowest first. A list that is too long for its leaf goes on in the next
//! under the same term.

/// Bytes of a leaf: with its row's header it fills a page of SQLite.
const LEAF_BYTES_MAX: usize = 4040;
/// A list may be cut where its leaf has less room than this only if nothing else is in the leaf.
const ROOM_MIN: usize = 1000;

/// Appends a number.
pub(crate) fn push_number(out: &mut Vec<u8>, mut n: u32) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Takes a number off the front. None if there is none.
pub(crate) fn take_number(bytes: &mut &[u8]) -> Option<u32> {
    let mut n = 0_u32;
    for shift in (0..32).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        n |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(n);
        }
    }
    None
}

/// Appends the ordinals of a list.
pub(super) fn read_list(mut list: &[u8], out: &mut Vec<u32>) {
    let mut last = 0_u32;
    while let Some(distance) = take_number(&mut list) {
        last = last.wrapping_add(distance);
        out.push(last);
    }
}

/// Leaves that are ready, and what begins each: the length of its first term in a byte, and the term.
#[derive(Debug, Default)]
pub(super) struct Leaves {
    pub(super) leaves: Vec<Vec<u8>>,
    pub(super) firsts: Vec<u8>,
}

/// Fills leaves.
#[derive(Debug, Default)]
pub(super) struct LeafWriter {
    leaf: Vec<u8>,
    term: Vec<u8>,
    list: Vec<u8>,
    done: Leaves,
}

impl LeafWriter {
    /// Adds a term, which must come after all before, with its messages' ordinals, which ascend.
    pub(super) fn push(&mut self, term: &[u8], mut ordinals: &[u32]) {
        while !ordinals.is_empty() {
            let shared = match self.leaf.is_empty() {
                true => 0,
                false => self.term.iter().zip(term).take_while(|(a, b)| a == b).count(),
            };
            let rest = term.get(shared..).unwrap_or_default();
            // Two bytes for how much is shared and how much is not, two for the length of the list.
            let head = 4 + rest.len();
            let room = LEAF_BYTES_MAX.saturating_sub(self.leaf.len() + head);
            let taken = self.encode(ordinals, room);
            if taken < ordinals.len() && room < ROOM_MIN && !self.leaf.is_empty() {
                self.end_leaf();
                continue;
            }
            if self.leaf.is_empty() {
                self.done.firsts.push(term.len() as u8);
                self.done.firsts.extend_from_slice(term);
            }
            self.leaf.push(shared as u8);
            self.leaf.push(rest.len() as u8);
            self.leaf.extend_from_slice(rest);
            push_number(&mut self.leaf, self.list.len() as u32);
            self.leaf.extend_from_slice(&self.list);
            self.term.truncate(shared);
            self.term.extend_from_slice(rest);
            ordinals = ordinals.get(taken..).unwrap_or_default();
            if !ordinals.is_empty() {
                self.end_leaf();
            }
        }
    }

    /// Writes as many ordinals as there is room for. Returns how many.
    fn encode(&mut self, ordinals: &[u32], room: usize) -> usize {
        self.list.clear();
        let mut last = 0;
        for (taken, &ordinal) in ordinals.iter().enumerate() {
            let before = self.list.len();
            push_number(&mut self.list, ordinal.wrapping_sub(last));
            if self.list.len() > room {
                self.list.truncate(before);
                return taken;
            }
            last = ordinal;
        }
        ordinals.len()
    }

    fn end_leaf(&mut self) {
        if !self.leaf.is_empty() {
            let next = Vec::with_capacity(LEAF_BYTES_MAX);
            self.done.leaves.push(std::mem::replace(&mut self.leaf, next));
            self.term.clear();
        }
    }

    /// Takes out the leaves that are full; their first terms stay for the end.
    pub(super) fn take_full(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.done.leaves)
    }

    /// Everything that was not taken out.
    pub(super) fn finish(mut self) -> Leaves {
        self.end_leaf();
        self.done
    }
}

/// Reads the entries of a leaf, one after the other. Damage ends it.
#[derive(Debug, Default)]
pub(super) struct LeafReader {
    leaf: Vec<u8>,
    at: usize,
    /// The term of the entry.
    pub(super) term: Vec<u8>,
    list: std::ops::Range<usize>,
}

impl LeafReader {
    /// Begins another leaf.
    pub(super) fn begin(&mut self, leaf: Vec<u8>) {
        *self = LeafReader { leaf, term: std::mem::take(&mut self.term), ..LeafReader::default() };
        self.term.clear();
    }

    /// Steps to the next entry. None at the leaf's end.
    pub(super) fn step(&mut self) -> Option<()> {
        let all = self.leaf.get(self.at..)?;
        let (&[shared, rest], mut bytes) = all.split_first_chunk::<2>()?;
        let (rest, after) = bytes.split_at_checked(usize::from(rest))?;
        self.term.truncate(usize::from(shared));
        self.term.extend_from_slice(rest);
        bytes = after;
        let length = take_number(&mut bytes)? as usize;
        let start = self.leaf.len() - bytes.len();
        self.list = start..start.checked_add(length).filter(|&end| end <= self.leaf.len())?;
        self.at = self.list.end;
        Some(())
    }

    /// Says whether the entries went to the leaf's end: damage ends them before.
    pub(super) fn ended_well(&self) -> rusqlite::Result<()> {
        if self.at == self.leaf.len() {
            return Ok(());
        }
        let damaged = "a leaf of the index of terms is damaged".into();
        Err(rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, damaged))
    }

    /// The list of the entry.
    pub(super) fn list(&self) -> &[u8] {
        self.leaf.get(self.list.clone()).unwrap_or_default()
    }
}

/// The number of each leaf and its first term, as [`Leaves::firsts`] has them.
pub(super) fn firsts(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&length, rest) = bytes.split_first()?;
        let (first, rest) = rest.split_at_checked(usize::from(length))?;
        bytes = rest;
        Some(first)
    })
}
