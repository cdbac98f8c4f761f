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
/// Bits of a filter for each gram, and the most of all.
const FILTER_BITS: usize = 16;
const FILTER_BITS_MAX: usize = 1 << 18;
const FILTER_BITS_MIN: usize = 1 << 9;
/// Multiplies grams to spread them (D. Knuth, "Sorting and searching", 6.4).
const SPREAD: u32 = 0x9e37_79b1;
/// Letters in one case; other bytes lose a bit, which the comparison makes good.
const FOLD: u32 = 0x2020_2020;

/// Patterns of about the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Length {
    /// Two or three bytes.
    Tiny,
    /// Four to six.
    Short,
    /// Seven and more.
    Long,
}

impl Length {
    /// None of a single byte.
    pub(super) fn of(len: usize) -> Option<Self> {
        match len {
            0 | 1 => None,
            2 | 3 => Some(Self::Tiny),
            4..=6 => Some(Self::Short),
            _ => Some(Self::Long),
        }
    }

    /// Bytes of a gram.
    fn gram(self) -> usize {
        match self {
            Self::Tiny => 2,
            Self::Short => 3,
            Self::Long => 4,
        }
    }

    /// Bytes from one look to the next.
    fn step(self) -> usize {
        match self {
            Self::Tiny => 1,
            Self::Short => 2,
            Self::Long => 4,
        }
    }
}

/// A gram of a pattern.
#[derive(Debug, Clone, Copy)]
struct Entry {
    gram: u32,
    pattern: u32,
    /// Where it lies in the pattern.
    at: u32,
}

/// Grams of patterns of one length.
#[derive(Debug)]
pub(super) struct Table {
    length: Length,
    filter: Vec<u64>,
    filter_shift: u32,
    /// By the upper bits of a spread gram: where its entries begin.
    starts: Vec<u32>,
    starts_shift: u32,
    entries: Vec<Entry>,
}

impl Table {
    /// Of patterns by their numbers. All have this length.
    pub(super) fn new<'a>(length: Length, patterns: impl Iterator<Item = (u32, &'a [u8])>) -> Self {
        let mut used: HashMap<u32, u32> = HashMap::new();
        let mut entries = Vec::new();
        for (pattern, bytes) in patterns {
            let first = choose(length, bytes, &used);
            for at in first..first + length.step() {
                let Some(gram) = gram(bytes, at, length.gram()) else { continue };
                *used.entry(gram).or_default() += 1;
                entries.push(Entry { gram, pattern, at: u32::try_from(at).unwrap_or(u32::MAX) });
            }
        }
        let bits = (entries.len() * FILTER_BITS).next_power_of_two();
        let bits = bits.clamp(FILTER_BITS_MIN, FILTER_BITS_MAX);
        let filter_shift = 32 - bits.ilog2();
        let mut filter = vec![0; bits / 64];
        for entry in &entries {
            let place = entry.gram.wrapping_mul(SPREAD) >> filter_shift;
            if let Some(word) = filter.get_mut(place as usize / 64) {
                *word |= 1 << (place % 64);
            }
        }
        let buckets = entries.len().next_power_of_two().clamp(2, 1 << 20);
        let starts_shift = 32 - buckets.ilog2();
        let bucket = |entry: &Entry| entry.gram.wrapping_mul(SPREAD) >> starts_shift;
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
        Self { length, filter, filter_shift, starts, starts_shift, entries }
    }

    /// Hands out patterns that may lie in the bytes, each with the place where it would begin.
    pub(super) fn search(&self, bytes: &[u8], mut found: impl FnMut(u32, usize)) {
        match self.length {
            Length::Long => {
                for (i, chunk) in bytes.as_chunks::<4>().0.iter().enumerate() {
                    self.look(u32::from_le_bytes(*chunk) | FOLD, i * 4, &mut found);
                }
            }
            Length::Short => {
                let windows = bytes.windows(4).step_by(2);
                for (i, window) in windows.enumerate() {
                    let word = window.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
                    self.look((word | FOLD) & 0x00ff_ffff, i * 2, &mut found);
                }
                // The last three bytes have no window of four.
                let last = bytes.len().saturating_sub(3);
                if last % 2 == 0
                    && let Some(gram) = gram(bytes, last, 3)
                {
                    self.look(gram, last, &mut found);
                }
            }
            Length::Tiny => {
                for (at, window) in bytes.windows(2).enumerate() {
                    let word = window.first_chunk().map_or(0, |word| u16::from_le_bytes(*word));
                    self.look((u32::from(word) | FOLD) & 0xffff, at, &mut found);
                }
            }
        }
    }

    #[inline]
    fn look(&self, gram: u32, at: usize, found: &mut impl FnMut(u32, usize)) {
        let spread = gram.wrapping_mul(SPREAD);
        let place = spread >> self.filter_shift;
        let word = self.filter.get(place as usize / 64).copied().unwrap_or_default();
        if word >> (place % 64) & 1 != 0 {
            self.hit(gram, spread, at, found);
        }
    }

    #[cold]
    fn hit(&self, gram: u32, spread: u32, at: usize, found: &mut impl FnMut(u32, usize)) {
        let bucket = (spread >> self.starts_shift) as usize;
        let (Some(&start), Some(&end)) = (self.starts.get(bucket), self.starts.get(bucket + 1))
        else {
            return;
        };
        for entry in self.entries.get(start as usize..end as usize).unwrap_or_default() {
            if entry.gram == gram
                && let Some(begin) = at.checked_sub(entry.at as usize)
            {
                found(entry.pattern, begin);
            }
        }
    }
}

/// The folded gram at a place.
fn gram(bytes: &[u8], at: usize, len: usize) -> Option<u32> {
    let part = bytes.get(at..at + len)?;
    let word = part.iter().rev().fold(0, |word: u32, byte| word << 8 | u32::from(*byte));
    let mask = u32::MAX >> (32 - 8 * u32::try_from(len).ok()?);
    Some((word | FOLD) & mask)
}

/// Where the grams of a pattern are taken from: where they are rare, among patterns and in what is
/// usually sent.
fn choose(length: Length, bytes: &[u8], used: &HashMap<u32, u32>) -> usize {
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
fn commonness(byte: u8) -> u32 {
    match byte.to_ascii_lowercase() {
        0 | b' ' | b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' => 8,
        b'a'..=b'z' | b'/' | b'.' | b'=' | b'<' | b'>' | b'"' | b'\r' | b'\n' | 0xff => 5,
        b'0'..=b'9' | b'-' | b'_' | b':' | b';' | b',' | b'&' | b'%' | 1..=4 => 4,
        _ => 1,
    }
}
