//! Searches for the strings of many patterns at once, case-insensitively (ASCII).
//!
//! Each string is indexed under its rarest four bytes (two, if it is shorter): one lookup in a
//! bitmap for each byte of the text, and where its bit is set the strings with that hash, which lie
//! side by side, are compared. On the strings of rules that is three times as fast as an
//! Aho-Corasick automaton, whose states are spread over memory. The bitmaps are in
//! [`super::gram_bitmap`].

use std::collections::BTreeMap;

use super::gram_bitmap::{Bitmap, GRAM, Mark, PADDING, PAIR};
use crate::pattern::boundary::{BOUNDARY, bytes_of};

/// The strings of many patterns.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    /// Strings indexed by four bytes, and those by two.
    kinds: [Index; 2],
    /// What is compared first of each string, and the whole strings.
    checks: Vec<Check>,
    entries: Vec<Entry>,
}

/// The first eight bytes of a string, in one comparison: most candidates fail it, and the rest of
/// the string is not loaded.
#[derive(Debug)]
struct Check {
    start: u64,
    /// 0xff for each byte that the string has.
    mask: u64,
    /// Offset in the string of the gram under which it is indexed.
    at: u32,
}

impl Check {
    fn new(string: &[u8], at: usize) -> Self {
        let (mut start, mut mask) = ([0; 8], [0; 8]);
        for ((start, mask), byte) in start.iter_mut().zip(&mut mask).zip(string) {
            (*start, *mask) = (*byte, 0xff);
        }
        let (start, mask) = (u64::from_le_bytes(start), u64::from_le_bytes(mask));
        Check { start, mask, at: at as u32 }
    }

    /// Where the string begins if its gram is at `at` of a padded text; `None` if its first bytes
    /// are not there.
    #[inline]
    fn start_in(&self, padded: &[u8], at: usize) -> Option<usize> {
        let start = at.checked_sub(self.at as usize)?;
        let eight = padded.get(start..)?.first_chunk()?;
        (u64::from_le_bytes(*eight) & self.mask == self.start).then_some(start)
    }
}

/// One string and the patterns it belongs to.
#[derive(Debug)]
struct Entry {
    /// The whole string, in lower case; it is indexed by its rarest gram.
    string: Box<[u8]>,
    /// How often it is reported at most in a text.
    times: u16,
    /// Whether a word boundary must precede and follow it.
    bounds: [bool; 2],
    owners: Box<[u32]>,
}

impl Entry {
    /// Entry of a string with [`BOUNDARY`] marks; only those at its ends count.
    fn new(whole: &[u8], owners: Vec<u32>, times: u16) -> Self {
        let is_bound = |byte: Option<&u8>| byte == Some(&BOUNDARY);
        let bounds = [is_bound(whole.first()), is_bound(whole.last())];
        Entry { string: bytes_of(whole).into(), times, bounds, owners: owners.into() }
    }

    /// Whether the whole string is at `start`, within the first `length` bytes of a padded text;
    /// its first eight bytes were compared already.
    fn is_at(&self, padded: &[u8], length: usize, start: usize) -> bool {
        let end = start + self.string.len();
        end <= length
            && (self.string.len() <= 8
                || padded.get(start..).is_some_and(|rest| rest.starts_with(&self.string)))
            && (!self.bounds[0] || is_boundary(padded, start))
            && (!self.bounds[1] || is_boundary(padded, end))
    }
}

/// Whether there is a word boundary before this byte of a padded text (the padding is no word).
fn is_boundary(padded: &[u8], at: usize) -> bool {
    let is_word = |at: Option<usize>| {
        at.and_then(|at| padded.get(at)).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
    };
    is_word(at.checked_sub(1)) != is_word(Some(at))
}

/// Strings by the grams under which they are indexed.
#[derive(Debug, Default)]
struct Index {
    bitmap: Bitmap,
    /// For each hash in the bitmap, by its rank, the index of its first string; and the end of the
    /// last.
    firsts: Vec<u32>,
}

impl Index {
    /// Indexes of the strings whose gram has the hash of these bytes.
    #[inline]
    fn find(&self, bytes: u32) -> std::ops::Range<usize> {
        let at = self.bitmap.rank(bytes);
        match self.firsts.get(at..at + 2) {
            Some([first, end]) => *first as usize..*end as usize,
            _ => 0..0,
        }
    }
}

/// Up to four bytes as a little-endian number.
fn key(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |key, b| key << 8 | u32::from(*b))
}

impl Strings {
    /// Indexes strings in lower case, with [`BOUNDARY`] for word boundaries, each with the patterns
    /// that own it. `frequency` rates grams, `times` says how often a pattern needs a string
    /// reported. Returns also the owners of strings of less than two bytes, which cannot be
    /// searched.
    pub(crate) fn new(
        strings: BTreeMap<Vec<u8>, Vec<u32>>,
        frequency: impl Fn(&[u8]) -> f64,
        times: impl Fn(u32) -> u16,
    ) -> (Self, Vec<u32>) {
        let mut found_by: [Vec<_>; 2] = Default::default();
        let mut too_short = Vec::new();
        for (string, owners) in strings {
            let bytes = bytes_of(&string);
            let kind = usize::from(bytes.len() < GRAM);
            let rarest = bytes.windows([GRAM, PAIR][kind]).enumerate();
            let rarest = rarest.min_by(|a, b| frequency(a.1).total_cmp(&frequency(b.1)));
            let Some((at, rarest)) = rarest else {
                too_short.extend(owners);
                continue;
            };
            let times = owners.iter().map(|owner| times(*owner)).max().unwrap_or_default();
            let check = Check::new(&bytes, at);
            found_by[kind].push((key(rarest), check, Entry::new(&string, owners, times)));
        }
        let mut all = Strings::default();
        for (index, mut found_by) in all.kinds.iter_mut().zip(found_by) {
            index.bitmap = Bitmap::new(found_by.iter().map(|(key, ..)| *key));
            found_by.sort_by_key(|(key, ..)| index.bitmap.rank(*key));
            for (key, check, entry) in found_by {
                while index.firsts.len() <= index.bitmap.rank(key) {
                    index.firsts.push(all.entries.len() as u32);
                }
                all.checks.push(check);
                all.entries.push(entry);
            }
            index.firsts.push(all.entries.len() as u32);
        }
        (all, too_short)
    }

    /// Calls `found` with the owners of each string in the text and its start, in no order, once
    /// for each occurrence up to the number that its patterns need.
    pub(crate) fn search(
        &self,
        text: &[u8],
        buffers: &mut StringBuffers,
        mut found: impl FnMut(u32, usize),
    ) {
        if self.entries.is_empty() {
            return;
        }
        let StringBuffers { lower, marks, reported, touched } = buffers;
        lower.clear();
        lower.extend(text.iter().map(u8::to_ascii_lowercase));
        lower.extend([0; PADDING]);
        if reported.len() < self.entries.len() {
            reported.resize(self.entries.len(), 0);
        }
        let mut scan =
            StringScan { strings: self, padded: lower, length: text.len(), reported, touched };
        let [grams, pairs] = &self.kinds;
        if !grams.bitmap.is_empty() {
            marks.clear();
            grams.bitmap.mark_grams(scan.padded, text.len(), marks);
            scan.check_marks(grams, u32::MAX, marks, &mut found);
        }
        if !pairs.bitmap.is_empty() {
            marks.clear();
            pairs.bitmap.mark_pairs(scan.padded, text.len(), marks);
            scan.check_marks(pairs, 0xffff, marks, &mut found);
        }
        for number in touched.drain(..) {
            reported[number as usize] = 0;
        }
    }
}

/// The search of one text: checks the positions that a bitmap marked.
struct StringScan<'a> {
    strings: &'a Strings,
    padded: &'a [u8],
    length: usize,
    /// Occurrences of each string so far, and the strings with any.
    reported: &'a mut Vec<u16>,
    touched: &'a mut Vec<u32>,
}

impl StringScan<'_> {
    /// Compares the strings at these positions. A position with the same bytes as the one before it
    /// is skipped if its strings are exhausted: runs of one byte consist of such positions.
    fn check_marks(
        &mut self,
        index: &Index,
        mask: u32,
        marks: &[Mark],
        found: &mut impl FnMut(u32, usize),
    ) {
        let mut last = None;
        for mark in marks {
            let first = mark.position();
            let Some(four) = self.padded.get(first..).and_then(<[u8]>::first_chunk) else { return };
            let bytes = u32::from_le_bytes(*four) & mask;
            let strings = index.find(bytes);
            if last.replace(bytes) == Some(bytes) {
                let before = first.checked_sub(1).and_then(|at| self.padded.get(at));
                let is_in_run = before == Some(&four[0]);
                if self.is_exhausted(strings.clone(), is_in_run) {
                    continue;
                }
            }
            for at in first..first + mark.count() {
                self.compare(strings.clone(), at, found);
                if mark.count() > 1 && self.is_exhausted(strings.clone(), true) {
                    break;
                }
            }
        }
    }

    /// Reports those of these strings that are at this position.
    #[inline]
    fn compare(
        &mut self,
        strings: std::ops::Range<usize>,
        at: usize,
        found: &mut impl FnMut(u32, usize),
    ) {
        let checks = self.strings.checks.get(strings.clone()).unwrap_or_default();
        for (index, check) in strings.zip(checks) {
            let Some(start) = check.start_in(self.padded, at) else { continue };
            let (Some(entry), Some(reported)) =
                (self.strings.entries.get(index), self.reported.get_mut(index))
            else {
                continue;
            };
            if *reported < entry.times && entry.is_at(self.padded, self.length, start) {
                if *reported == 0 {
                    self.touched.push(index as u32);
                }
                *reported += 1;
                entry.owners.iter().for_each(|owner| found(*owner, start));
            }
        }
    }

    /// Whether each of these strings was reported often enough, or cannot be here because it starts
    /// with a word boundary and this is inside a run of its first byte.
    fn is_exhausted(&self, mut strings: std::ops::Range<usize>, is_in_run: bool) -> bool {
        strings.all(|index| {
            let (entry, check) = (self.strings.entries.get(index), self.strings.checks.get(index));
            let reported = self.reported.get(index).copied().unwrap_or(u16::MAX);
            entry.zip(check).is_none_or(|(entry, check)| {
                reported >= entry.times || is_in_run && check.at == 0 && entry.bounds[0]
            })
        })
    }
}

/// Buffers of a search; one for each thread.
#[derive(Debug, Default)]
pub(crate) struct StringBuffers {
    /// The text in lower case, with [`PADDING`] behind it.
    lower: Vec<u8>,
    /// Positions that a bitmap marked.
    marks: Vec<Mark>,
    /// Occurrences of each string in this text, and the strings with any.
    reported: Vec<u16>,
    touched: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_found_wherever_they_stand() {
        let words = ["viagra", "agra", "ab", "abc", "<!", "x", "0123456789", "BanalB", "aB@"];
        let map = words.iter().zip(0u32..).map(|(w, n)| (w.as_bytes().to_vec(), vec![n])).collect();
        let frequency = |bytes: &[u8]| bytes.iter().map(|b| f64::from(*b)).sum();
        let (strings, short) = Strings::new(map, frequency, |_| 1);
        assert_eq!(short, [5]);
        let found = |text: &str| {
            let (mut found, mut buffer) = (Vec::new(), StringBuffers::default());
            strings.search(text.as_bytes(), &mut buffer, |n, _| found.push(n));
            found.sort_unstable();
            found.dedup();
            found
        };
        assert_eq!(found("ViAgRA"), [0, 1]);
        assert_eq!(found("niagra"), [1]);
        assert_eq!(found("xAB"), [2]);
        assert_eq!(found("abc<!"), [2, 3, 4]);
        assert_eq!(found("a"), [0u32; 0]);
        assert_eq!(found(""), [0u32; 0]);
        assert_eq!(found("012345678"), [0u32; 0]);
        assert_eq!(found("-0123456789"), [6]);
        assert_eq!(found("analysis anal-"), [7]);
        assert_eq!(found("anal"), [7]);
        assert_eq!(found("analysis canal _anal"), [0u32; 0]);
        assert_eq!(found("a@"), [8]);
        assert_eq!(found(" @"), [0u32; 0]);
        // At every offset within the positions that are examined together.
        for before in 0..40 {
            for after in [0, 1, 7, 40] {
                let text = [".".repeat(before), "viagra".to_owned(), ".".repeat(after)].concat();
                assert_eq!(found(&text), [0, 1], "{text}");
            }
        }
    }

    #[test]
    fn a_string_is_reported_as_often_as_it_must_be() {
        let map = [("xx", 0u32), ("xxxxxxxxxy", 1), ("xxxx", 2)];
        let map = map.into_iter().map(|(s, n)| (s.as_bytes().to_vec(), vec![n])).collect();
        let (strings, _) = Strings::new(map, |_| 1.0, |owner| if owner == 2 { 3 } else { 1 });
        let mut buffers = StringBuffers::default();
        let text = ["x".repeat(78), "x".repeat(78), "y".into()].join(" ");
        for _ in 0..2 {
            let mut counts = [0; 3];
            strings.search(text.as_bytes(), &mut buffers, |n, _| counts[n as usize] += 1);
            assert_eq!(counts, [1, 0, 3], "and again in the next text");
        }
        let words = [(&b"BxxxB"[..], 0u32), (b"Bxxx", 1), (b"xxxB", 2), (b"yxxx", 3)];
        let words = words.into_iter().map(|(s, n)| (s.to_vec(), vec![n])).collect();
        let (words, _) = Strings::new(words, |_| 1.0, |_| 9);
        let reported = |text: &str, buffers: &mut StringBuffers| {
            let mut counts = [0; 4];
            words.search(text.as_bytes(), buffers, |n, _| counts[n as usize] += 1);
            counts
        };
        let run = "x".repeat(50);
        assert_eq!(reported(&format!("{run} {run}"), &mut buffers), [0, 2, 2, 0]);
        assert_eq!(reported(&format!("-y{run}-xxx"), &mut buffers), [1, 1, 2, 1]);
        let mut counts = [0; 3];
        strings.search(text.replace(" y", "y").as_bytes(), &mut buffers, |n, _| {
            counts[n as usize] += 1;
        });
        assert_eq!(counts, [1, 1, 3]);
    }
}
