//! Where patterns may lie: a table of short pieces ("grams") of patterns, looked up at every few
//! bytes of what is searched (after S. Wu, U. Manber, "A fast algorithm for multi-pattern
//! searching", 1994).
//!
//! Of a pattern as many neighbouring grams are in the table as bytes are stepped over, so that one
//! of them is met wherever it lies. Most places are ruled out by a bit of a small filter; what is
//! left is compared by the caller.

use std::collections::HashMap;

/// Of a long pattern so many places for its grams are weighed.
const CHOICES_MAX: usize = 64;
/// Bits of a filter for each gram, if it is not too large.
const FILTER_BITS: usize = 32;
/// Multiplies grams to spread them (D. Knuth, "Sorting and searching", 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Letters in one case; other bytes lose a bit, which the comparison makes good.
const FOLD: u64 = 0x2020_2020_2020_2020;
const FOLD_4: u64 = FOLD >> 32;

/// Patterns of about the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Length {
    /// Two or three bytes.
    Tiny,
    /// Four to six.
    Short,
    /// Seven to ten.
    Long,
    /// Eleven and more.
    Wide,
}

impl Length {
    /// Bytes of the longest tiny pattern.
    pub(super) const TINY_MAX: usize = 3;

    /// None of a single byte.
    pub(super) fn of(len: usize) -> Option<Self> {
        match len {
            0 | 1 => None,
            2 | 3 => Some(Self::Tiny),
            4..=6 => Some(Self::Short),
            7..=10 => Some(Self::Long),
            _ => Some(Self::Wide),
        }
    }

    /// Bytes of a gram.
    fn gram(self) -> usize {
        match self {
            Self::Tiny => 2,
            Self::Short => 3,
            Self::Long => 4,
            Self::Wide => 8,
        }
    }

    /// Bytes from one look to the next.
    fn step(self) -> usize {
        match self {
            Self::Tiny => 1,
            Self::Short => 2,
            Self::Long | Self::Wide => 4,
        }
    }
}

/// A gram of a pattern.
#[derive(Debug, Clone, Copy)]
struct Entry {
    gram: u64,
    pattern: u32,
    /// Where it lies in the pattern.
    at: u32,
    /// The folded bytes of the pattern that follow it, as far as `mask` says.
    next: u32,
    mask: u32,
}

impl Entry {
    fn new(pattern: u32, bytes: &[u8], at: usize, len: usize) -> Option<Self> {
        let following = bytes.get(at + len..).unwrap_or_default();
        let count = following.len().min(4);
        let next = gram(following, 0, count).unwrap_or_default() as u32;
        let mask = mask_of(count) as u32;
        let gram = gram(bytes, at, len)?;
        Some(Self { gram, pattern, at: u32::try_from(at).unwrap_or(u32::MAX), next, mask })
    }
}

/// The bits of a filter.
#[derive(Debug)]
enum Filter {
    Small(Box<[u64; 1 << 8]>),
    Middle(Box<[u64; 1 << 10]>),
    Large(Box<[u64; 1 << 12]>),
}

impl Filter {
    fn new(entries: &[Entry]) -> Self {
        match entries.len() * FILTER_BITS {
            0..=0x4000 => Self::Small(fill(entries)),
            0x4001..=0x1_0000 => Self::Middle(fill(entries)),
            _ => Self::Large(fill(entries)),
        }
    }
}

fn fill<const WORDS: usize>(entries: &[Entry]) -> Box<[u64; WORDS]> {
    let mut filter = Box::new([0; WORDS]);
    for entry in entries {
        let place = place::<WORDS>(spread(entry.gram));
        if let Some(word) = filter.get_mut(place as usize / 64) {
            *word |= 1 << (place % 64);
        }
    }
    filter
}

fn spread(gram: u64) -> u32 {
    (gram.wrapping_mul(SPREAD) >> 32) as u32
}

/// The bit of a spread gram in a filter of so many words.
fn place<const WORDS: usize>(spread: u32) -> u32 {
    spread >> (32 - 6 - WORDS.ilog2())
}

/// Grams of patterns of one length.
#[derive(Debug)]
pub(super) struct Table {
    length: Length,
    filter: Filter,
    /// By the upper bits of a spread gram: where its entries begin.
    starts: Vec<u32>,
    starts_shift: u32,
    entries: Vec<Entry>,
}

impl Table {
    /// Of patterns by their numbers. All have this length.
    pub(super) fn new<'a>(length: Length, patterns: impl Iterator<Item = (u32, &'a [u8])>) -> Self {
        let mut used: HashMap<u64, u32> = HashMap::new();
        let mut entries = Vec::new();
        for (pattern, bytes) in patterns {
            let first = choose(length, bytes, &used);
            for at in first..first + length.step() {
                let Some(entry) = Entry::new(pattern, bytes, at, length.gram()) else { continue };
                *used.entry(entry.gram).or_default() += 1;
                entries.push(entry);
            }
        }
        let filter = Filter::new(&entries);
        let buckets = entries.len().next_power_of_two().clamp(2, 1 << 20);
        let starts_shift = 32 - buckets.ilog2();
        let bucket = |entry: &Entry| spread(entry.gram) >> starts_shift;
        entries.sort_by_key(bucket);
        let mut starts = vec![0; buckets + 1];
        for entry in &entries {
            if let Some(count) = starts.get_mut(bucket(entry) as usize + 1) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        Self { length, filter, starts, starts_shift, entries }
    }

    /// Hands out patterns that may lie in the bytes, each with the place where it would begin.
    pub(super) fn search(&self, bytes: &[u8], found: &mut impl FnMut(u32, usize)) {
        match &self.filter {
            Filter::Small(filter) => self.scan(filter, bytes, found),
            Filter::Middle(filter) => self.scan(filter, bytes, found),
            Filter::Large(filter) => self.scan(filter, bytes, found),
        }
    }

    fn scan<const WORDS: usize>(
        &self,
        filter: &[u64; WORDS],
        bytes: &[u8],
        found: &mut impl FnMut(u32, usize),
    ) {
        let mut look = |gram: u64, at: usize| {
            let spread = spread(gram);
            let place = place::<WORDS>(spread);
            let word = filter.get(place as usize / 64).copied().unwrap_or_default();
            if word >> (place % 64) & 1 != 0 {
                self.hit(gram, spread, bytes, at, found);
            }
        };
        match self.length {
            Length::Wide => {
                for (i, window) in bytes.windows(8).step_by(4).enumerate() {
                    let word = window.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
                    look(word | FOLD, i * 4);
                }
            }
            Length::Long => {
                for (i, word) in bytes.as_chunks::<4>().0.iter().enumerate() {
                    look(u64::from(u32::from_le_bytes(*word)) | FOLD_4, i * 4);
                }
            }
            Length::Short => {
                // Eight bytes have three grams that lie in them; the fourth begins at the last two.
                let mask = mask_of(3);
                let mut at = 0;
                for window in bytes.windows(10).step_by(8) {
                    let [a, b] = [0, 2].map(|skip| {
                        let part = window.get(skip..).and_then(|part| part.first_chunk::<8>());
                        part.map_or(0, |part| u64::from_le_bytes(*part)) | FOLD
                    });
                    look(a & mask, at);
                    look(a >> 16 & mask, at + 2);
                    look(a >> 32 & mask, at + 4);
                    look(b >> 32 & mask, at + 6);
                    at += 8;
                }
                while let Some(gram) = gram(bytes, at, 3) {
                    look(gram, at);
                    at += 2;
                }
            }
            Length::Tiny => {
                for (at, window) in bytes.windows(2).enumerate() {
                    let word = window.first_chunk().map_or(0, |word| u16::from_le_bytes(*word));
                    look((u64::from(word) | FOLD) & mask_of(2), at);
                }
            }
        }
    }

    #[cold]
    fn hit(
        &self,
        gram: u64,
        spread: u32,
        bytes: &[u8],
        at: usize,
        found: &mut impl FnMut(u32, usize),
    ) {
        let bucket = (spread >> self.starts_shift) as usize;
        let (Some(&start), Some(&end)) = (self.starts.get(bucket), self.starts.get(bucket + 1))
        else {
            return;
        };
        let entries = self.entries.get(start as usize..end as usize).unwrap_or_default();
        if entries.is_empty() {
            return;
        }
        // Behind the end there are zeros, which no pattern can make use of.
        let following = bytes.get(at + self.length.gram()..).unwrap_or_default();
        let next = match following.first_chunk::<4>() {
            Some(word) => u32::from_le_bytes(*word) | FOLD_4 as u32,
            None => self::gram(following, 0, following.len()).unwrap_or_default() as u32,
        };
        for entry in entries {
            if entry.gram == gram
                && next & entry.mask == entry.next
                && let Some(begin) = at.checked_sub(entry.at as usize)
            {
                found(entry.pattern, begin);
            }
        }
    }
}

/// The lowest so many bytes, at most eight.
fn mask_of(bytes: usize) -> u64 {
    let bits = 8 * u32::try_from(bytes.min(8)).unwrap_or_default();
    u64::MAX.checked_shr(64 - bits).unwrap_or_default()
}

/// The folded gram at a place, of at most eight bytes.
fn gram(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let part = bytes.get(at..at + len)?;
    let word = part.iter().rev().fold(0, |word: u64, byte| word << 8 | u64::from(*byte));
    Some((word | FOLD) & mask_of(len))
}

/// Where the grams of a pattern are taken from: where they are rare, among patterns and in what is
/// usually sent.
fn choose(length: Length, bytes: &[u8], used: &HashMap<u64, u32>) -> usize {
    let last = (bytes.len() + 1).saturating_sub(length.gram() + length.step());
    let cost = |first: &usize| -> u32 {
        let span = bytes.get(*first..first + length.gram() + length.step() - 1);
        let common: u32 = span.unwrap_or_default().iter().map(|byte| commonness(*byte)).sum();
        let grams = *first..first + length.step();
        let grams = grams.filter_map(|at| used.get(&gram(bytes, at, length.gram())?));
        common + grams.sum::<u32>() * 8
    };
    (0..=last.min(CHOICES_MAX)).min_by_key(cost).unwrap_or_default()
}

/// How often a byte is met, roughly.
pub(super) fn commonness(byte: u8) -> u32 {
    match byte.to_ascii_lowercase() {
        0 | b' ' | b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' => 8,
        b'a'..=b'z' | b'/' | b'.' | b'=' | b'<' | b'>' | b'"' | b'\r' | b'\n' | 0xff => 5,
        b'0'..=b'9' | b'-' | b'_' | b':' | b';' | b',' | b'&' | b'%' | 1..=4 => 4,
        _ => 1,
    }
}
