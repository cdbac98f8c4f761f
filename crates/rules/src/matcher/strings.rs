//! Looks for the strings of many patterns at once, in any case (ASCII).
//!
//! Each string is found by its rarest four bytes (two, if it is shorter): one look at a bitmap for each
//! byte of the text, and where the bitmap says yes the strings with such bytes, which lie side by side, are
//! compared. On rules' strings that is three times quicker than stepping an automaton of them, whose states lie
//! all over memory. Where the bitmaps say yes is found in [`super::places`].

use std::collections::BTreeMap;

use super::places::{Bitmap, GRAM, Mark, PADDING, PAIR};
use crate::pattern::literal::{BOUNDARY, bytes_of};

/// Strings of many patterns.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    /// Those found by four bytes, and those by two.
    kinds: [Index; 2],
    /// What is compared first of each string, and all of it.
    checks: Vec<Check>,
    entries: Vec<Entry>,
}

/// The first eight bytes of a string, which tell most places apart from it without a look at the rest.
#[derive(Debug)]
struct Check {
    start: u64,
    /// Which of them there are.
    mask: u64,
    /// Where the bytes stand in it by which it is found.
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

    /// Where the string begins if its bytes are at `at` of a padded text, and its beginning is there.
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
    /// All of it.
    string: Box<[u8]>,
    /// How often it has to be told.
    times: u16,
    /// Whether a word boundary stands before and behind it.
    bounds: [bool; 2],
    owners: Box<[u32]>,
}

impl Entry {
    /// Of a string with its word boundaries, of which those within it mean nothing.
    fn new(whole: &[u8], owners: Vec<u32>, times: u16) -> Self {
        let is_bound = |byte: Option<&u8>| byte == Some(&BOUNDARY);
        let bounds = [is_bound(whole.first()), is_bound(whole.last())];
        Entry { string: bytes_of(whole).into(), times, bounds, owners: owners.into() }
    }

    /// Whether all of the string stands here in the first `length` bytes of a padded text, of which the
    /// first eight were compared.
    fn is_at(&self, padded: &[u8], length: usize, start: usize) -> bool {
        let end = start + self.string.len();
        end <= length
            && (self.string.len() <= 8
                || padded.get(start..).is_some_and(|rest| rest.starts_with(&self.string)))
            && (!self.bounds[0] || is_boundary(padded, start))
            && (!self.bounds[1] || is_boundary(padded, end))
    }
}

/// Whether a word begins or ends before this place of a padded text (the padding is no word).
fn is_boundary(padded: &[u8], at: usize) -> bool {
    let is_word = |at: Option<usize>| {
        at.and_then(|at| padded.get(at)).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
    };
    is_word(at.checked_sub(1)) != is_word(Some(at))
}

/// Strings by the bytes by which they are found.
#[derive(Debug, Default)]
struct Index {
    bitmap: Bitmap,
    /// For each hash that the bitmap says yes to, in order, where its strings begin; and the end of the last.
    firsts: Vec<u32>,
}

impl Index {
    /// The strings whose bytes have the hash of these.
    #[inline]
    fn find(&self, bytes: u32) -> std::ops::Range<usize> {
        let at = self.bitmap.rank(bytes);
        match self.firsts.get(at..at + 2) {
            Some([first, end]) => *first as usize..*end as usize,
            _ => 0..0,
        }
    }
}

/// Up to four bytes as a number.
fn key(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |key, b| key << 8 | u32::from(*b))
}

impl Strings {
    /// Strings in lower case with [`BOUNDARY`] for word boundaries, each with the patterns that it belongs to,
    /// how rare some bytes are, and how often a pattern must be told of a string. Strings of less than two
    /// bytes cannot be looked for: their patterns come back.
    pub(crate) fn new(
        strings: BTreeMap<Vec<u8>, Vec<u32>>,
        chance: impl Fn(&[u8]) -> f64,
        times: impl Fn(u32) -> u16,
    ) -> (Self, Vec<u32>) {
        let mut found_by: [Vec<_>; 2] = Default::default();
        let mut too_short = Vec::new();
        for (string, owners) in strings {
            let bytes = bytes_of(&string);
            let kind = usize::from(bytes.len() < GRAM);
            let rarest = bytes.windows([GRAM, PAIR][kind]).enumerate();
            let rarest = rarest.min_by(|a, b| chance(a.1).total_cmp(&chance(b.1)));
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

    /// Calls `found` with the patterns of each string in the text and where it begins, in any order, as
    /// often as the string is there or has to be told: the first ones.
    pub(crate) fn search(
        &self,
        text: &[u8],
        buffers: &mut StringBuffers,
        mut found: impl FnMut(u32, usize),
    ) {
        if self.entries.is_empty() {
            return;
        }
        let StringBuffers { lower, marks, told, met } = buffers;
        lower.clear();
        lower.extend(text.iter().map(u8::to_ascii_lowercase));
        lower.extend([0; PADDING]);
        if told.len() < self.entries.len() {
            told.resize(self.entries.len(), 0);
        }
        let mut look = Look { strings: self, padded: lower, length: text.len(), told, met };
        let [grams, pairs] = &self.kinds;
        if !grams.bitmap.is_empty() {
            marks.clear();
            grams.bitmap.mark_grams(look.padded, text.len(), marks);
            look.follow(grams, u32::MAX, marks, &mut found);
        }
        if !pairs.bitmap.is_empty() {
            marks.clear();
            pairs.bitmap.mark_pairs(look.padded, text.len(), marks);
            look.follow(pairs, 0xffff, marks, &mut found);
        }
        for number in met.drain(..) {
            told[number as usize] = 0;
        }
    }
}

/// One text while the places are looked at where a bitmap says yes.
struct Look<'a> {
    strings: &'a Strings,
    padded: &'a [u8],
    length: usize,
    /// How often each string was told, and those that were.
    told: &'a mut Vec<u16>,
    met: &'a mut Vec<u32>,
}

impl Look<'_> {
    /// Compares the strings at these places. Bytes that were looked at last, and say nothing more, are not
    /// looked at again: lines of one sign are full of them.
    fn follow(
        &mut self,
        index: &Index,
        mask: u32,
        marks: &[Mark],
        found: &mut impl FnMut(u32, usize),
    ) {
        let mut last = None;
        for mark in marks {
            let first = mark.place();
            let Some(four) = self.padded.get(first..).and_then(<[u8]>::first_chunk) else { return };
            let bytes = u32::from_le_bytes(*four) & mask;
            let strings = index.find(bytes);
            if last.replace(bytes) == Some(bytes) {
                let before = first.checked_sub(1).and_then(|at| self.padded.get(at));
                let is_in_run = before == Some(&four[0]);
                if self.is_done(strings.clone(), is_in_run) {
                    continue;
                }
            }
            for at in first..first + mark.places() {
                self.compare(strings.clone(), at, found);
                if mark.places() > 1 && self.is_done(strings.clone(), true) {
                    break;
                }
            }
        }
    }

    /// Tells those of these strings that are here.
    #[inline]
    fn compare(
        &mut self,
        strings: std::ops::Range<usize>,
        at: usize,
        found: &mut impl FnMut(u32, usize),
    ) {
        let checks = self.strings.checks.get(strings.clone()).unwrap_or_default();
        for (place, check) in strings.zip(checks) {
            let Some(start) = check.start_in(self.padded, at) else { continue };
            let (Some(entry), Some(told)) =
                (self.strings.entries.get(place), self.told.get_mut(place))
            else {
                continue;
            };
            if *told < entry.times && entry.is_at(self.padded, self.length, start) {
                if *told == 0 {
                    self.met.push(place as u32);
                }
                *told += 1;
                entry.owners.iter().for_each(|owner| found(*owner, start));
            }
        }
    }

    /// Whether each of these strings was told often enough, or cannot be here because it stands in a run of
    /// its first byte, where no word begins.
    fn is_done(&self, mut strings: std::ops::Range<usize>, is_in_run: bool) -> bool {
        strings.all(|place| {
            let (entry, check) = (self.strings.entries.get(place), self.strings.checks.get(place));
            let told = self.told.get(place).copied().unwrap_or(u16::MAX);
            entry.zip(check).is_none_or(|(entry, check)| {
                told >= entry.times || is_in_run && check.at == 0 && entry.bounds[0]
            })
        })
    }
}

/// What a search for strings needs, of one thread.
#[derive(Debug, Default)]
pub(crate) struct StringBuffers {
    /// The text in lower case, with [`PADDING`] behind it.
    lower: Vec<u8>,
    /// Where a bitmap said yes.
    marks: Vec<Mark>,
    /// How often each string was told in this text, and those that were.
    told: Vec<u16>,
    met: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_found_wherever_they_stand() {
        let words = ["viagra", "agra", "ab", "abc", "<!", "x", "0123456789", "BanalB", "aB@"];
        let map = words.iter().zip(0u32..).map(|(w, n)| (w.as_bytes().to_vec(), vec![n])).collect();
        let chance = |bytes: &[u8]| bytes.iter().map(|b| f64::from(*b)).sum();
        let (strings, short) = Strings::new(map, chance, |_| 1);
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
        // Wherever they stand beside the places that are looked at together.
        for before in 0..40 {
            for after in [0, 1, 7, 40] {
                let text = [".".repeat(before), "viagra".to_owned(), ".".repeat(after)].concat();
                assert_eq!(found(&text), [0, 1], "{text}");
            }
        }
    }

    #[test]
    fn a_string_is_told_as_often_as_it_must_be() {
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
        let told = |text: &str, buffers: &mut StringBuffers| {
            let mut counts = [0; 4];
            words.search(text.as_bytes(), buffers, |n, _| counts[n as usize] += 1);
            counts
        };
        let run = "x".repeat(50);
        assert_eq!(told(&format!("{run} {run}"), &mut buffers), [0, 2, 2, 0]);
        assert_eq!(told(&format!("-y{run}-xxx"), &mut buffers), [1, 1, 2, 1]);
        let mut counts = [0; 3];
        strings.search(text.replace(" y", "y").as_bytes(), &mut buffers, |n, _| {
            counts[n as usize] += 1;
        });
        assert_eq!(counts, [1, 1, 3]);
    }
}
