//! Encoding of terms and their messages in a leaf.
//!
//! One entry per term: the length of the prefix shared with the term before (one byte), the length
//! of the rest (one byte), the rest, the length of the list, and the list: the first ordinal, then
//! the distances of the others (delta encoding). Lengths and ordinals are LEB128 numbers. A list
//! that is too long for its leaf continues in the next under the same term.

/// Bytes of a leaf: with its row's header it fills a page of SQLite.
const LEAF_BYTES_MAX: usize = 4040;
/// With less room than this a list starts a new leaf rather than being split.
const ROOM_MIN: usize = 1000;

/// Appends a LEB128 number.
pub(crate) fn push_number(out: &mut Vec<u8>, mut n: u32) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Takes a LEB128 number from the front. None if there is none.
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

/// Appends the ordinals of a delta-encoded list.
pub(super) fn read_list(mut list: &[u8], out: &mut Vec<u32>) {
    let mut last = 0_u32;
    while let Some(distance) = take_number(&mut list) {
        last = last.wrapping_add(distance);
        out.push(last);
    }
}

/// Complete leaves, and the first term of each, after its length in a byte.
#[derive(Debug, Default)]
pub(super) struct Leaves {
    pub(super) leaves: Vec<Vec<u8>>,
    pub(super) first_terms: Vec<u8>,
}

/// Packs terms into leaves.
#[derive(Debug, Default)]
pub(super) struct LeafWriter {
    leaf: Vec<u8>,
    term: Vec<u8>,
    list: Vec<u8>,
    done: Leaves,
}

impl LeafWriter {
    /// Adds a term, which must be greater than all before, with the sorted ordinals of its
    /// messages.
    pub(super) fn push(&mut self, term: &[u8], mut ordinals: &[u32]) {
        while !ordinals.is_empty() {
            let shared = match self.leaf.is_empty() {
                true => 0,
                false => self.term.iter().zip(term).take_while(|(a, b)| a == b).count(),
            };
            let rest = term.get(shared..).unwrap_or_default();
            // Two bytes for the lengths of prefix and rest, two for the length of the list.
            let head = 4 + rest.len();
            let room = LEAF_BYTES_MAX.saturating_sub(self.leaf.len() + head);
            let taken = self.encode(ordinals, room);
            if taken < ordinals.len() && room < ROOM_MIN && !self.leaf.is_empty() {
                self.end_leaf();
                continue;
            }
            if self.leaf.is_empty() {
                self.done.first_terms.push(term.len() as u8);
                self.done.first_terms.extend_from_slice(term);
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

    /// Encodes as many ordinals as there is room for. Returns how many.
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

    /// Takes the complete leaves; their first terms stay until the end.
    pub(super) fn take_full(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.done.leaves)
    }

    /// The leaves that were not taken.
    pub(super) fn finish(mut self) -> Leaves {
        self.end_leaf();
        self.done
    }
}

/// Iterates over the entries of a leaf. Damage ends it.
#[derive(Debug, Default)]
pub(super) struct LeafReader {
    leaf: Vec<u8>,
    at: usize,
    /// The term of the current entry.
    pub(super) term: Vec<u8>,
    list: std::ops::Range<usize>,
}

impl LeafReader {
    /// Starts with another leaf.
    pub(super) fn begin(&mut self, leaf: Vec<u8>) {
        *self = LeafReader { leaf, term: std::mem::take(&mut self.term), ..LeafReader::default() };
        self.term.clear();
    }

    /// Advances to the next entry. None at the end of the leaf.
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

    /// An error if the entries did not end where the leaf does, which means damage.
    pub(super) fn ended_well(&self) -> rusqlite::Result<()> {
        if self.at == self.leaf.len() {
            return Ok(());
        }
        let damaged = "a leaf of the term index is damaged".into();
        Err(rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, damaged))
    }

    /// The list of the current entry.
    pub(super) fn list(&self) -> &[u8] {
        self.leaf.get(self.list.clone()).unwrap_or_default()
    }
}

/// The first term of each leaf, as [`Leaves::first_terms`] stores them.
pub(super) fn first_terms(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&length, rest) = bytes.split_first()?;
        let (first, rest) = rest.split_at_checked(usize::from(length))?;
        bytes = rest;
        Some(first)
    })
}
