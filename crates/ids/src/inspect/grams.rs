//! Where patterns may lie: a table of short pieces ("grams") of patterns, looked up at every few
//! bytes of what is searched (after S. Wu, U. Manber, "A fast algorithm for multi-pattern
//! searching", 1994).
//!
//! Of a pattern as many neighbouring grams are in the table as bytes are stepped over, so that one
//! of them is met wherever it lies. Most places are ruled out by a bit of a small filter; what is
//! left is compared by the caller.

#[cfg(target_arch = "x86_64")]
mod avx2;

use std::collections::HashMap;

/// Of a long pattern so many places for its grams are weighed.
const CHOICES_MAX: usize = 64;
/// Bits of a filter for each gram, if it is not too large.
const FILTER_BITS: usize = 32;
/// Multiply the halves of grams to spread them (D. Knuth, "Sorting and searching", 6.4).
const SPREAD: [u32; 2] = [0x9e37_79b1, 0x85eb_ca77];
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
    Small(Box<[u32; 1 << 9]>),
    Middle(Box<[u32; 1 << 11]>),
    Large(Box<[u32; 1 << 13]>),
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

fn fill<const WORDS: usize>(entries: &[Entry]) -> Box<[u32; WORDS]> {
    let mut filter = Box::new([0; WORDS]);
    for entry in entries {
        let [place, other] = places::<WORDS>(spread(entry.gram));
        if let Some(word) = filter.get_mut(place as usize / 32) {
            *word |= HIGHEST >> (place % 32) | HIGHEST >> other;
        }
    }
    filter
}

/// The bit of place 0 in a word: from there a sign bit is made by one shift.
const HIGHEST: u32 = 1 << 31;

/// Whether both bits of a gram are set.
fn is_set<const WORDS: usize>(filter: &[u32; WORDS], gram: u64) -> bool {
    let [place, other] = places::<WORDS>(spread(gram));
    let word = filter.get(place as usize / 32).copied().unwrap_or_default();
    let bits = HIGHEST >> (place % 32) | HIGHEST >> other;
    word & bits == bits
}

fn spread(gram: u64) -> u32 {
    let [low, high] = [gram as u32, (gram >> 32) as u32];
    low.wrapping_mul(SPREAD[0]).wrapping_add(high.wrapping_mul(SPREAD[1]))
}

/// The bit of a spread gram in a filter of so many words, and another one in the same word: a gram
/// that is not there seldom has both.
fn places<const WORDS: usize>(spread: u32) -> [u32; 2] {
    [spread >> place_shift::<WORDS>(), spread >> (place_shift::<WORDS>() - 5) & 31]
}

const fn place_shift<const WORDS: usize>() -> u32 {
    32 - 5 - WORDS.ilog2()
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
        filter: &[u32; WORDS],
        bytes: &[u8],
        found: &mut impl FnMut(u32, usize),
    ) {
        let mut hit = |at: usize| self.hit(bytes, at, found);
        let mut at = blocks(self.length, filter, bytes, &mut hit);
        while let Some(gram) = gram(bytes, at, self.length.gram()) {
            if is_set(filter, gram) {
                hit(at);
            }
            at += self.length.step();
        }
    }

    #[cold]
    fn hit(&self, bytes: &[u8], at: usize, found: &mut impl FnMut(u32, usize)) {
        let Some(gram) = gram(bytes, at, self.length.gram()) else { return };
        let bucket = (spread(gram) >> self.starts_shift) as usize;
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

/// Looks up grams of most of the bytes, and tells the places of those in the filter, rising.
/// Returns the place of the first gram that was not looked up.
fn blocks<const WORDS: usize>(
    length: Length,
    filter: &[u32; WORDS],
    bytes: &[u8],
    hit: &mut impl FnMut(usize),
) -> usize {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function was compiled for.
        return unsafe { avx2::blocks(length, filter, bytes, hit) };
    }
    match length {
        Length::Wide => portable(filter, bytes, 4, wide_grams, hit),
        Length::Long => portable(filter, bytes, 4, long_grams, hit),
        Length::Short => portable(filter, bytes, 2, short_grams, hit),
        Length::Tiny => portable(filter, bytes, 1, tiny_grams, hit),
    }
}

/// Grams that are looked up before a branch is taken: few hit.
const LOOKS: usize = 8;

/// Looks up the grams of one block of bytes after the other; `grams` of a block begin `step`
/// bytes from each other, and the next block begins behind them.
fn portable<const WORDS: usize, const BYTES: usize>(
    filter: &[u32; WORDS],
    bytes: &[u8],
    step: usize,
    grams: impl Fn(&[u8; BYTES]) -> [u64; LOOKS],
    hit: &mut impl FnMut(usize),
) -> usize {
    let mut at = 0;
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let bits = grams(block).map(|gram| is_set(filter, gram));
        if bits.iter().fold(false, |all, bit| all | bit) {
            for (i, _) in bits.iter().enumerate().filter(|(_, bit)| **bit) {
                hit(at + i * step);
            }
        }
        at += LOOKS * step;
    }
    at
}

/// So many bytes of a block, from a place on.
fn part<const BYTES: usize, const PART: usize>(block: &[u8; BYTES], at: usize) -> [u8; PART] {
    block.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; PART])
}

fn wide_grams(block: &[u8; 4 * LOOKS + 4]) -> [u64; LOOKS] {
    std::array::from_fn(|i| u64::from_le_bytes(part(block, i * 4)) | FOLD)
}

fn long_grams(block: &[u8; 4 * LOOKS]) -> [u64; LOOKS] {
    std::array::from_fn(|i| u64::from(u32::from_le_bytes(part(block, i * 4))) | FOLD_4)
}

fn short_grams(block: &[u8; 2 * LOOKS + 2]) -> [u64; LOOKS] {
    let fold = FOLD_4 & mask_of(3);
    let gram = |i: usize| u64::from(u32::from_le_bytes(part(block, i * 2))) & mask_of(3);
    std::array::from_fn(|i| gram(i) | fold)
}

fn tiny_grams(block: &[u8; LOOKS + 1]) -> [u64; LOOKS] {
    let fold = FOLD_4 & mask_of(2);
    std::array::from_fn(|i| u64::from(u16::from_le_bytes(part(block, i))) | fold)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells places to who is given, and returns the first that was not looked at.
    type Way<'a> = dyn Fn(&mut dyn FnMut(usize)) -> usize + 'a;

    /// Places of grams in a filter, by every way of looking.
    fn check(length: Length, filter: &[u32; 1 << 9], bytes: &[u8]) {
        let looks = (0..bytes.len()).step_by(length.step());
        let plain = looks
            .filter(|at| gram(bytes, *at, length.gram()).is_some_and(|gram| is_set(filter, gram)));
        let plain: Vec<usize> = plain.collect();
        let run = |way: &Way<'_>| {
            let mut found = Vec::new();
            let end = way(&mut |at| found.push(at));
            let rest = plain.iter().copied().filter(|at| *at >= end);
            found.extend(rest.collect::<Vec<_>>());
            found
        };
        let fast = run(&|mut hit| blocks(length, filter, bytes, &mut hit));
        let slow = run(&|mut hit| match length {
            Length::Wide => portable(filter, bytes, 4, wide_grams, &mut hit),
            Length::Long => portable(filter, bytes, 4, long_grams, &mut hit),
            Length::Short => portable(filter, bytes, 2, short_grams, &mut hit),
            Length::Tiny => portable(filter, bytes, 1, tiny_grams, &mut hit),
        });
        assert_eq!(fast, plain, "{length:?} in {} bytes", bytes.len());
        assert_eq!(slow, plain, "{length:?} in {} bytes, portable", bytes.len());
    }

    #[test]
    fn all_ways_of_looking_find_the_same() {
        let mut state = 7_u64;
        let mut byte = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let bytes: Vec<u8> = (0..700).map(|_| byte()).collect();
        let mut filter = [0; 1 << 9];
        for word in &mut filter {
            *word = u32::from_le_bytes([byte(), byte(), byte(), byte()])
                & u32::from_le_bytes([byte(), byte(), byte(), byte()]);
        }
        for length in [Length::Tiny, Length::Short, Length::Long, Length::Wide] {
            for len in (0..80).chain([333, 700]) {
                for skip in [0, 1, 3] {
                    check(length, &filter, bytes.get(skip..len).unwrap_or_default());
                }
            }
        }
    }
}
