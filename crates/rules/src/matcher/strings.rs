//! Looks for the strings of many patterns at once, in any case (ASCII).
//!
//! Each string is found by its rarest four bytes (two, if it is shorter): one look at a bitmap for each
//! byte of the text, one at a table where the bitmap says yes, and then the whole string is compared.
//! On rules' strings that is three times quicker than stepping an automaton of them, whose states lie all over
//! memory.

use std::collections::BTreeMap;

use super::rows::run_length;
use crate::pattern::literal::{BOUNDARY, bytes_of};

/// Bits of the hash of four bytes.
const HASH_BITS: u32 = 17;
/// What four bytes are multiplied with to hash them.
const HASH_FACTOR: u32 = 0x9e37_79b1;
/// Words of a bitmap: a bit for each hash.
const BITMAP_WORDS: usize = (1 << HASH_BITS) / 32;
/// Bytes of padding behind a text: one vector can be read from each of its bytes on.
const PADDING: usize = 32;
/// Places that are looked at together.
const PLACES: usize = 8;
/// A mark is a place and two flags: it is that of pairs; and the next number says how many places with the same
/// bytes there are from it on.
const MARK_PAIR: u32 = 1;
const MARK_RUN: u32 = 2;
const MARK_SHIFT: u32 = 2;
/// Bytes by which a string is found.
const GRAM: usize = 4;
/// The same for short strings.
const PAIR: usize = 2;

/// Strings of many patterns.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    grams: Index,
    pairs: Index,
    entries: Vec<Entry>,
}

/// One string and the patterns it belongs to.
#[derive(Debug)]
struct Entry {
    /// Its first eight bytes, and which of them there are.
    start: u64,
    mask: u64,
    /// All of it.
    string: Box<[u8]>,
    /// How often it has to be told.
    times: u16,
    /// Where the bytes stand in it by which it is found.
    at: usize,
    /// Whether a word boundary stands before and behind it.
    bounds: [bool; 2],
    owners: Box<[u32]>,
}

impl Entry {
    /// Of a string with its word boundaries, of which those within it mean nothing.
    fn new(whole: &[u8], at: usize, owners: Vec<u32>, times: u16) -> Self {
        let is_bound = |byte: Option<&u8>| byte == Some(&BOUNDARY);
        let bounds = [is_bound(whole.first()), is_bound(whole.last())];
        let string = bytes_of(whole);
        let (mut start, mut mask) = ([0; 8], [0; 8]);
        for ((start, mask), byte) in start.iter_mut().zip(&mut mask).zip(&string) {
            (*start, *mask) = (*byte, 0xff);
        }
        let (start, mask) = (u64::from_le_bytes(start), u64::from_le_bytes(mask));
        Entry { start, mask, string: string.into(), times, at, bounds, owners: owners.into() }
    }

    /// Whether the string stands in the first `length` bytes of a padded text so that its bytes are
    /// at `at`. Most are not, and the first eight bytes say so without a call.
    #[inline]
    fn is_at(&self, padded: &[u8], length: usize, at: usize) -> bool {
        let Some(start) = at.checked_sub(self.at) else { return false };
        let Some(eight) = padded.get(start..).and_then(<[u8]>::first_chunk) else { return false };
        u64::from_le_bytes(*eight) & self.mask == self.start
            && start + self.string.len() <= length
            && (self.string.len() <= 8
                || padded.get(start..).is_some_and(|rest| rest.starts_with(&self.string)))
            && (!self.bounds[0] || is_boundary(padded, start))
            && (!self.bounds[1] || is_boundary(padded, start + self.string.len()))
    }
}

/// The place of a mark, the bytes there by which strings are found, and whether it is that of pairs (1) or not (0).
#[inline]
fn marked(mark: u32, padded: &[u8]) -> Option<(usize, u32, usize)> {
    let first = (mark >> MARK_SHIFT) as usize;
    let bytes = u32::from_le_bytes(*padded.get(first..)?.first_chunk()?);
    let kind = (mark & MARK_PAIR) as usize;
    Some((first, if kind == 0 { bytes } else { bytes & 0xffff }, kind))
}

/// Whether a word begins or ends before this place of a padded text (the padding is no word).
fn is_boundary(padded: &[u8], at: usize) -> bool {
    let is_word = |at: Option<usize>| {
        at.and_then(|at| padded.get(at)).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
    };
    is_word(at.checked_sub(1)) != is_word(Some(at))
}

/// Entries by their bytes.
#[derive(Debug, Default)]
struct Index {
    /// A bit for each hash; empty if there are no entries.
    bitmap: Vec<u32>,
    /// The same for another hash, which is looked at where the first says yes: sooner than at the slots, which
    /// lie all over memory.
    tags: Vec<u64>,
    /// Slots with the bytes, and first and last (exclusive) in `entries`; probed from the hash on.
    slots: Vec<Option<(u32, u32, u32)>>,
    entries: Vec<u32>,
}

fn hash(bytes: u32) -> usize {
    (bytes.wrapping_mul(HASH_FACTOR) >> (32 - HASH_BITS)) as usize
}

/// Bits of [`tag`].
const TAG_BITS: u32 = 15;

/// Another hash, of other bits.
fn tag(bytes: u32) -> usize {
    (bytes.wrapping_mul(0x85eb_ca6b) >> (32 - TAG_BITS)) as usize
}

impl Index {
    fn new(keys: BTreeMap<u32, Vec<u32>>) -> Self {
        if keys.is_empty() {
            return Index::default();
        }
        let size = (keys.len() * 2).next_power_of_two();
        let mut index = Index {
            bitmap: vec![0; BITMAP_WORDS],
            tags: vec![0; (1 << TAG_BITS) / 64],
            slots: vec![None; size],
            entries: Vec::new(),
        };
        for (key, entries) in keys {
            index.tags[tag(key) / 64] |= 1 << (tag(key) % 64);
            index.bitmap[hash(key) / 32] |= 1 << (hash(key) % 32);
            let first = index.entries.len() as u32;
            index.entries.extend(entries);
            let mut slot = hash(key) % size;
            while index.slots[slot].is_some() {
                slot = (slot + 1) % size;
            }
            index.slots[slot] = Some((key, first, index.entries.len() as u32));
        }
        index
    }

    /// Whether there may be an entry with these bytes.
    fn may_have(&self, bytes: u32) -> bool {
        let hash = hash(bytes);
        self.bitmap.get(hash / 32).is_some_and(|word| word >> (hash % 32) & 1 == 1)
    }

    /// The entries with these bytes.
    fn find(&self, bytes: u32) -> &[u32] {
        // The bitmap says yes to one in twenty that are not there, this to a sixth of those.
        if self.tags.get(tag(bytes) / 64).is_none_or(|word| word >> (tag(bytes) % 64) & 1 == 0) {
            return &[];
        }
        let mask = self.slots.len().wrapping_sub(1);
        let mut slot = hash(bytes) & mask;
        while let Some(Some((key, first, last))) = self.slots.get(slot) {
            if *key == bytes {
                return self.entries.get(*first as usize..*last as usize).unwrap_or_default();
            }
            slot = (slot + 1) & mask;
        }
        &[]
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
        let (mut grams, mut pairs) = (BTreeMap::new(), BTreeMap::new());
        let (mut entries, mut too_short) = (Vec::new(), Vec::new());
        for (string, owners) in strings {
            let bytes = bytes_of(&string);
            let (length, keys) =
                if bytes.len() >= GRAM { (GRAM, &mut grams) } else { (PAIR, &mut pairs) };
            let rarest = bytes.windows(length).enumerate();
            let rarest = rarest.min_by(|a, b| chance(a.1).total_cmp(&chance(b.1)));
            let Some((at, found_by)) = rarest else {
                too_short.extend(owners);
                continue;
            };
            keys.entry(key(found_by)).or_insert_with(Vec::new).push(entries.len() as u32);
            let times = owners.iter().map(|owner| times(*owner)).max().unwrap_or_default();
            entries.push(Entry::new(&string, at, owners, times));
        }
        (Strings { grams: Index::new(grams), pairs: Index::new(pairs), entries }, too_short)
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
        marks.clear();
        self.mark(lower, text.len(), marks);
        if told.len() < self.entries.len() {
            told.resize(self.entries.len(), 0);
        }
        // Whether each string with these bytes was told often enough: then they say nothing more. And whether they
        // say nothing more behind a byte like their first, where no word begins.
        let mut compare = |index: &Index, bytes: u32, at: usize| {
            let (mut is_done, mut is_run_done) = (true, true);
            for number in index.find(bytes) {
                let place = *number as usize;
                let (Some(entry), Some(told)) = (self.entries.get(place), told.get_mut(place))
                else {
                    continue;
                };
                if *told < entry.times && entry.is_at(lower, text.len(), at) {
                    if *told == 0 {
                        met.push(*number);
                    }
                    *told += 1;
                    entry.owners.iter().for_each(|owner| found(*owner, at - entry.at));
                }
                is_done &= *told >= entry.times;
                is_run_done &= *told >= entry.times || entry.at == 0 && entry.bounds[0];
            }
            (is_done, is_run_done)
        };
        // The last bytes of each kind that say nothing more, anywhere or in a run: lines of one sign are full of them.
        let (mut done, mut quiet) = ([None; 2], [None; 2]);
        let mut marks = marks.iter();
        while let Some(mark) = marks.next() {
            let places = if *mark & MARK_RUN == 0 { Some(&1) } else { marks.next() };
            let places = places.map_or(1, |places| *places as usize);
            let Some((first, bytes, kind)) = marked(*mark, lower) else { continue };
            let index = if kind == 0 { &self.grams } else { &self.pairs };
            let before = first.checked_sub(1).and_then(|at| lower.get(at));
            let is_in_run = before == Some(&(bytes as u8));
            if done[kind] == Some(bytes) || is_in_run && quiet[kind] == Some(bytes) {
                continue;
            }
            for at in first..first + places {
                let (is_done, is_run_done) = compare(index, bytes, at);
                if is_done {
                    done[kind] = Some(bytes);
                }
                if is_run_done {
                    quiet[kind] = Some(bytes);
                    break;
                }
            }
        }
        for number in met.drain(..) {
            told[number as usize] = 0;
        }
    }

    /// Notes where in the first `length` bytes of a padded text a bitmap says yes.
    fn mark(&self, padded: &[u8], length: usize, marks: &mut Vec<u32>) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, which is all that the function needs of its caller.
            return unsafe { self.mark_with_avx2(padded, length, marks) };
        }
        self.mark_one_by_one(padded, 0..length, marks);
    }

    fn mark_one_by_one(&self, padded: &[u8], range: std::ops::Range<usize>, marks: &mut Vec<u32>) {
        let has_pairs = !self.pairs.bitmap.is_empty();
        for at in range {
            let Some(bytes) = padded.get(at..).and_then(<[u8]>::first_chunk) else { return };
            let bytes = u32::from_le_bytes(*bytes);
            if self.grams.may_have(bytes) {
                marks.push((at as u32) << MARK_SHIFT);
            }
            if has_pairs && self.pairs.may_have(bytes & 0xffff) {
                marks.push((at as u32) << MARK_SHIFT | MARK_PAIR);
            }
        }
    }

    /// The same, eight places at a time.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn mark_with_avx2(&self, padded: &[u8], length: usize, marks: &mut Vec<u32>) {
        use std::arch::x86_64::{
            __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
            _mm256_castsi256_ps, _mm256_i32gather_epi32, _mm256_movemask_ps, _mm256_mullo_epi32,
            _mm256_set1_epi32, _mm256_setr_epi8, _mm256_shuffle_epi8, _mm256_slli_epi32,
            _mm256_srli_epi32, _mm256_srlv_epi32,
        };
        /// Which of them a bitmap says yes to, as bits.
        #[inline]
        #[target_feature(enable = "avx2")]
        fn yes(bitmap: &[u32; BITMAP_WORDS], keys: __m256i) -> u32 {
            let factor = _mm256_set1_epi32(HASH_FACTOR.cast_signed());
            let hash =
                _mm256_srli_epi32::<{ 32 - HASH_BITS as i32 }>(_mm256_mullo_epi32(keys, factor));
            let word = _mm256_srli_epi32::<5>(hash);
            // SAFETY: a hash has HASH_BITS bits, so a 32nd of it is a place in the bitmap.
            let words = unsafe { _mm256_i32gather_epi32::<4>(bitmap.as_ptr().cast(), word) };
            let bit = _mm256_and_si256(hash, _mm256_set1_epi32(31));
            let bits = _mm256_slli_epi32::<31>(_mm256_srlv_epi32(words, bit));
            _mm256_movemask_ps(_mm256_castsi256_ps(bits)).cast_unsigned()
        }
        let grams = <&[u32; BITMAP_WORDS]>::try_from(self.grams.bitmap.as_slice()).ok();
        let pairs = <&[u32; BITMAP_WORDS]>::try_from(self.pairs.bitmap.as_slice()).ok();
        // Four bytes from each place on.
        let windows = _mm256_setr_epi8(
            0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6, 4, 5, 6, 7, 5, 6, 7, 8, 6, 7, 8, 9, 7,
            8, 9, 10,
        );
        let mut at = 0;
        while at < length {
            let rest = padded.get(at..).unwrap_or_default();
            let Some(sixteen) = rest.first_chunk::<16>() else { return };
            // SAFETY: sixteen bytes are there to be read; the load needs no alignment.
            let bytes = unsafe { _mm_loadu_si128(sixteen.as_ptr().cast()) };
            let keys = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), windows);
            let run = places_of_run(rest, sixteen);
            let places = run.unwrap_or(PLACES);
            let mut add = |mut yes: u32, kind: u32| {
                if run.is_some() && yes != 0 {
                    // The same bytes are at every place.
                    let mark = (at as u32) << MARK_SHIFT | MARK_RUN | kind;
                    return marks.extend([mark, places as u32]);
                }
                while yes != 0 {
                    marks.push((at as u32 + yes.trailing_zeros()) << MARK_SHIFT | kind);
                    yes &= yes - 1;
                }
            };
            if let Some(bitmap) = grams {
                add(yes(bitmap, keys), 0);
            }
            if let Some(bitmap) = pairs {
                let keys = _mm256_and_si256(keys, _mm256_set1_epi32(0xffff));
                add(yes(bitmap, keys), MARK_PAIR);
            }
            at += places;
        }
    }
}

/// At how many of the first places, a multiple of [`PLACES`], a text that begins with these bytes has the same bytes
/// by which strings are found. None if it does not begin with a run of one byte.
#[inline]
fn places_of_run(text: &[u8], sixteen: &[u8; 16]) -> Option<usize> {
    let all = u128::from_le_bytes(*sixteen);
    if all.rotate_left(8) != all {
        return None;
    }
    // No four bytes begin at the last three of the run.
    Some((run_length(text, sixteen[0]) - (GRAM - 1)) / PLACES * PLACES)
}

/// What a search for strings needs, of one thread.
#[derive(Debug, Default)]
pub(crate) struct StringBuffers {
    /// The text in lower case, with [`PADDING`] behind it.
    lower: Vec<u8>,
    /// Where a bitmap said yes.
    marks: Vec<u32>,
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

    #[test]
    fn eight_places_at_a_time_say_what_one_by_one_says() {
        let words = ["spam", "ham", "cheap", "<a", "no", "viagra", "\u{e4}b", "xxxx", "oo"];
        let map = words.iter().zip(0u32..).map(|(w, n)| (w.as_bytes().to_vec(), vec![n])).collect();
        let (strings, _) = Strings::new(map, |_| 1.0, |_| 1);
        let mut text = words.join(" x").into_bytes();
        for length in 1..60 {
            text.extend(["x".repeat(length), "o".repeat(length)].concat().bytes());
        }
        for length in (0..=text.len()).rev() {
            text.truncate(length);
            let padded = [text.as_slice(), &[0; PADDING]].concat();
            let (mut together, mut alone) = (Vec::new(), Vec::new());
            strings.mark(&padded, length, &mut together);
            strings.mark_one_by_one(&padded, 0..length, &mut alone);
            let mut marks = together.into_iter();
            let mut together = Vec::new();
            while let Some(mark) = marks.next() {
                let places = if mark & MARK_RUN == 0 { 1 } else { marks.next().unwrap() };
                together.extend((0..places).map(|n| (mark & !MARK_RUN) + (n << MARK_SHIFT)));
            }
            together.retain(|mark| ((mark >> MARK_SHIFT) as usize) < length);
            together.sort_unstable();
            alone.sort_unstable();
            assert_eq!(together, alone, "{length}");
        }
    }
}
