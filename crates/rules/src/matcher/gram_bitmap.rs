//! Finds the positions of a text where a string may be, by the hash of four or two of its bytes
//! (grams) in a bitmap.

use super::shift_and::run_length;

/// Bits of a gram's hash. The bitmap then has 16 KB, half of a first-level cache.
const HASH_BITS: u32 = 17;
/// The same for few grams: a bitmap of 1 KB leaves the first-level cache to the rest of the scan.
const HASH_BITS_SMALL: u32 = 13;
/// Multiplier of the hash: 2^32 divided by the golden ratio.
const HASH_FACTOR: u32 = 0x9e37_79b1;
/// Words of a large bitmap, a bit for each hash.
const WORDS: usize = (1 << HASH_BITS) / 32;
/// Bytes of padding behind a text, so that a vector can be loaded from each of its bytes and from
/// the next without a bounds check.
pub(super) const PADDING: usize = 64;
/// Bytes of a gram.
pub(super) const GRAM: usize = 4;
/// Bytes of a gram of strings shorter than [`GRAM`].
pub(super) const PAIR: usize = 2;
/// Most grams that are searched by their nibbles before the bitmap is consulted.
const SMALL: usize = 128;

/// A candidate position of a text, or a run of positions with the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    position: u32,
    count: u32,
}

impl Mark {
    fn at(position: usize) -> Self {
        Mark { position: position as u32, count: 1 }
    }

    /// Where in the text the run of positions begins, in bytes.
    pub(super) fn position(self) -> usize {
        self.position as usize
    }

    /// Length of the run, 1 for a single position.
    pub(super) fn count(self) -> usize {
        self.count as usize
    }
}

/// A bit for the hash of each gram.
#[derive(Debug, Default)]
pub(super) struct Bitmap {
    /// Empty if there are no grams.
    words: Vec<u32>,
    /// Number of bits set before each word: with them a bit's rank is the index of its strings.
    ranks: Vec<u32>,
    /// For each byte of a gram, which values it may have.
    bytes: [Nibbles; GRAM],
    /// There are so few grams that their nibbles rule out most positions.
    is_small: bool,
    /// Right shift that leaves the hash of a product.
    shift: u32,
}

/// Sets of bytes in eight groups, a bit each, looked up by both nibbles of a byte (as in
/// Hyperscan's Teddy). A byte may be in a group if both lookups have the group's bit.
#[derive(Debug, Default, Clone, Copy)]
struct Nibbles {
    low: [u8; 16],
    high: [u8; 16],
}

impl Nibbles {
    fn add(&mut self, byte: u8, group: u8) {
        self.low[usize::from(byte & 15)] |= group;
        self.high[usize::from(byte >> 4)] |= group;
    }
}

impl Bitmap {
    /// The bitmap of these grams, little-endian.
    pub(super) fn new(keys: impl Iterator<Item = u32>) -> Self {
        let keys: Vec<u32> = keys.collect();
        Self::of(&keys, keys.len() <= SMALL)
    }

    fn of(keys: &[u32], is_small: bool) -> Self {
        if keys.is_empty() {
            return Bitmap::default();
        }
        let bits = if is_small { HASH_BITS_SMALL } else { HASH_BITS };
        let words = vec![0; (1 << bits) / 32];
        let mut map = Bitmap { words, is_small, shift: 32 - bits, ..Bitmap::default() };
        for key in keys {
            let hash = map.hash(*key);
            map.words[hash / 32] |= 1 << (hash % 32);
            let bytes = key.to_le_bytes();
            // Grams that begin with the same byte share a group: fewer combinations of nibbles
            // pass.
            let group = 1 << (u32::from(bytes[0]).wrapping_mul(HASH_FACTOR) >> 29);
            map.bytes.iter_mut().zip(bytes).for_each(|(side, byte)| side.add(byte, group));
        }
        let mut rank = 0;
        for word in &map.words {
            map.ranks.push(rank);
            rank += word.count_ones();
        }
        map
    }

    /// Whether there are no grams.
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    #[inline]
    fn hash(&self, bytes: u32) -> usize {
        (bytes.wrapping_mul(HASH_FACTOR) >> self.shift) as usize
    }

    /// Whether this may be one of the grams.
    fn may_have(&self, bytes: u32) -> bool {
        let hash = self.hash(bytes);
        self.words.get(hash / 32).is_some_and(|word| word >> (hash % 32) & 1 == 1)
    }

    /// Rank of the hash of a gram: how many smaller hashes are in the bitmap.
    #[inline]
    pub(super) fn rank(&self, bytes: u32) -> usize {
        let hash = self.hash(bytes);
        let (Some(word), Some(rank)) = (self.words.get(hash / 32), self.ranks.get(hash / 32))
        else {
            return 0;
        };
        *rank as usize + (word & ((1 << (hash % 32)) - 1)).count_ones() as usize
    }

    /// Marks the positions in the first `length` bytes of a padded text that may hold a gram of
    /// four bytes.
    pub(super) fn mark_grams(&self, padded: &[u8], length: usize, marks: &mut Vec<Mark>) {
        #[cfg(target_arch = "x86_64")]
        if self.is_small && std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, which is all that the function needs of its caller.
            return unsafe { wide::mark_by_bytes::<GRAM>(self, padded, length, marks) };
        } else if std::arch::is_x86_feature_detected!("avx512bw") {
            // SAFETY: the CPU has AVX-512F and BW, which is all that the function needs of its
            // caller.
            return unsafe { wide::mark_grams_512(&self.words, padded, length, marks) };
        } else if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, which is all that the function needs of its caller.
            return unsafe { wide::mark_grams_256(&self.words, padded, length, marks) };
        }
        self.mark_one_by_one(u32::MAX, padded, 0..length, marks);
    }

    /// The same for grams of two bytes.
    pub(super) fn mark_pairs(&self, padded: &[u8], length: usize, marks: &mut Vec<Mark>) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2, which is all that the function needs of its caller.
            return unsafe { wide::mark_by_bytes::<PAIR>(self, padded, length, marks) };
        }
        self.mark_one_by_one(0xffff, padded, 0..length, marks);
    }

    fn mark_one_by_one(
        &self,
        mask: u32,
        padded: &[u8],
        range: std::ops::Range<usize>,
        marks: &mut Vec<Mark>,
    ) {
        for at in range {
            let Some(bytes) = padded.get(at..).and_then(<[u8]>::first_chunk) else { return };
            if self.may_have(u32::from_le_bytes(*bytes) & mask) {
                marks.push(Mark::at(at));
            }
        }
    }
}

/// The same with vector instructions.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
        _mm256_castsi256_ps, _mm256_cmpeq_epi8, _mm256_i32gather_epi32, _mm256_loadu_si256,
        _mm256_movemask_epi8, _mm256_movemask_ps, _mm256_mullo_epi32, _mm256_set1_epi8,
        _mm256_set1_epi32, _mm256_setr_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8,
        _mm256_slli_epi32, _mm256_srli_epi16, _mm256_srli_epi32, _mm256_srlv_epi32,
        _mm512_castsi256_si512, _mm512_i32gather_epi32, _mm512_mullo_epi32,
        _mm512_permutexvar_epi32, _mm512_rorv_epi32, _mm512_set1_epi32, _mm512_set4_epi32,
        _mm512_setr_epi32, _mm512_shuffle_epi8, _mm512_srli_epi32, _mm512_test_epi32_mask,
    };

    use super::{Bitmap, GRAM, HASH_BITS, HASH_FACTOR, Mark, Nibbles, WORDS, run_length};

    /// Right shift that leaves the hash of a product.
    const SHIFT: u32 = 32 - HASH_BITS;
    const FACTOR: i32 = HASH_FACTOR.cast_signed();

    /// Positions that are examined with one vector.
    struct Block<'t> {
        /// The padded text from the first position on.
        text: &'t [u8],
        /// The first position in the text.
        at: usize,
        /// How many consecutive positions are covered.
        positions: usize,
        /// Bytes of a gram.
        bytes: usize,
    }

    impl Block<'_> {
        /// Records the positions of these bits and returns how far the search may advance. Runs of
        /// one byte are recorded as one mark: a text of 30 KB of `X` would otherwise be a mark for
        /// each byte.
        #[inline]
        fn record(self, mut yes: u32, marks: &mut Vec<Mark>) -> usize {
            let end = self.positions + self.bytes - 1;
            if self.text.first() == self.text.get(end - 1) {
                let run = self.run();
                if run >= end {
                    return self.record_run(run, yes, marks);
                }
            }
            while yes != 0 {
                marks.push(Mark::at(self.at + yes.trailing_zeros() as usize));
                yes &= yes - 1;
            }
            self.positions
        }

        /// Length of the run of the first byte. Not inlined, so that the loop that seldom needs it
        /// stays small.
        #[inline(never)]
        fn run(&self) -> usize {
            self.text.first().map_or(0, |byte| run_length(self.text, *byte))
        }

        /// The same in a run of one byte, where every position has the same bytes.
        #[cold]
        fn record_run(self, run: usize, yes: u32, marks: &mut Vec<Mark>) -> usize {
            let positions = (run - (self.bytes - 1)) / self.positions * self.positions;
            if yes != 0 {
                marks.push(Mark { position: self.at as u32, count: positions as u32 });
            }
            positions
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn mark_grams_256(words: &[u32], text: &[u8], length: usize, marks: &mut Vec<Mark>) {
        const POSITIONS: usize = 8;
        let Some(words) = words.first_chunk::<WORDS>() else { return };
        // The four bytes from each of eight positions.
        let windows = _mm256_setr_epi8(
            0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6, 4, 5, 6, 7, 5, 6, 7, 8, 6, 7, 8, 9, 7,
            8, 9, 10,
        );
        let mut at = 0;
        while at < length {
            let text = text.get(at..).unwrap_or_default();
            let Some(sixteen) = text.first_chunk::<16>() else { return };
            // SAFETY: sixteen bytes are there to be read; the load needs no alignment.
            let bytes = unsafe { _mm_loadu_si128(sixteen.as_ptr().cast()) };
            let keys = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), windows);
            let product = _mm256_mullo_epi32(keys, _mm256_set1_epi32(FACTOR));
            let hash = _mm256_srli_epi32::<{ SHIFT as i32 }>(product);
            let word = _mm256_srli_epi32::<5>(hash);
            // SAFETY: a hash has HASH_BITS bits, so a 32nd of it is an index of a word of the
            // bitmap.
            let found = unsafe { _mm256_i32gather_epi32::<4>(words.as_ptr().cast(), word) };
            let bit = _mm256_and_si256(hash, _mm256_set1_epi32(31));
            let bits = _mm256_slli_epi32::<31>(_mm256_srlv_epi32(found, bit));
            let yes = _mm256_movemask_ps(_mm256_castsi256_ps(bits)).cast_unsigned();
            at += Block { text, at, positions: POSITIONS, bytes: GRAM }.record(yes, marks);
        }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) fn mark_grams_512(words: &[u32], text: &[u8], length: usize, marks: &mut Vec<Mark>) {
        const POSITIONS: usize = 16;
        let Some(words) = words.first_chunk::<WORDS>() else { return };
        // Each 128-bit lane first gets the seven bytes that four positions need, then the four
        // bytes from each of them.
        let fourths = _mm512_setr_epi32(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6);
        let windows = _mm512_set4_epi32(0x0605_0403, 0x0504_0302, 0x0403_0201, 0x0302_0100);
        let mut at = 0;
        while at < length {
            let text = text.get(at..).unwrap_or_default();
            let Some(block) = text.first_chunk::<32>() else { return };
            // SAFETY: 32 bytes are there to be read; the load needs no alignment.
            let bytes = unsafe { _mm256_loadu_si256(block.as_ptr().cast()) };
            let fours = _mm512_permutexvar_epi32(fourths, _mm512_castsi256_si512(bytes));
            let keys = _mm512_shuffle_epi8(fours, windows);
            let product = _mm512_mullo_epi32(keys, _mm512_set1_epi32(FACTOR));
            let hash = _mm512_srli_epi32::<SHIFT>(product);
            let word = _mm512_srli_epi32::<5>(hash);
            // SAFETY: a hash has HASH_BITS bits, so a 32nd of it is an index of a word of the
            // bitmap.
            let found = unsafe { _mm512_i32gather_epi32::<4>(word, words.as_ptr().cast()) };
            // Rotated by the last five bits of the hash, its bit is the lowest.
            let bits = _mm512_rorv_epi32(found, hash);
            let yes = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(1));
            at +=
                Block { text, at, positions: POSITIONS, bytes: GRAM }.record(u32::from(yes), marks);
        }
    }

    /// For each byte, the groups that it may be in.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn groups(side: &Nibbles, bytes: __m256i) -> __m256i {
        // SAFETY: sixteen bytes are there to be read; the loads need no alignment.
        let (low, high) = unsafe {
            (_mm_loadu_si128(side.low.as_ptr().cast()), _mm_loadu_si128(side.high.as_ptr().cast()))
        };
        let (low, high) = (_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high));
        let half = _mm256_set1_epi8(15);
        let low = _mm256_shuffle_epi8(low, _mm256_and_si256(bytes, half));
        let highs = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half);
        _mm256_and_si256(low, _mm256_shuffle_epi8(high, highs))
    }

    /// Marks positions where each of the first `N` bytes may be that of one group, and whose gram
    /// is in the bitmap.
    #[target_feature(enable = "avx2")]
    pub(super) fn mark_by_bytes<const N: usize>(
        map: &Bitmap,
        text: &[u8],
        length: usize,
        marks: &mut Vec<Mark>,
    ) {
        const POSITIONS: usize = 32;
        let mask = if N < GRAM { (1 << (8 * N)) - 1 } else { u32::MAX };
        let mut at = 0;
        while at < length {
            let text = text.get(at..).unwrap_or_default();
            let Some(block) = text.first_chunk::<{ POSITIONS + GRAM - 1 }>() else { return };
            let mut all = _mm256_set1_epi8(-1);
            for (i, side) in map.bytes.iter().take(N).enumerate() {
                // SAFETY: the block has POSITIONS bytes from each of its first GRAM positions on;
                // the load needs no alignment.
                let bytes = unsafe { _mm256_loadu_si256(block.as_ptr().add(i).cast()) };
                all = _mm256_and_si256(all, groups(side, bytes));
            }
            let none = _mm256_cmpeq_epi8(all, _mm256_setzero_si256());
            let mut may = !_mm256_movemask_epi8(none).cast_unsigned();
            let mut yes = 0;
            while may != 0 {
                let position = may.trailing_zeros() as usize;
                let four = block.get(position..).and_then(<[u8]>::first_chunk);
                let key = four.map_or(0, |four| u32::from_le_bytes(*four)) & mask;
                yes |= u32::from(map.may_have(key)) << position;
                may &= may - 1;
            }
            at += Block { text, at, positions: POSITIONS, bytes: N }.record(yes, marks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The positions of marks within a text of this length.
    fn positions(marks: &[Mark], length: usize) -> Vec<usize> {
        let positions =
            marks.iter().flat_map(|mark| mark.position()..mark.position() + mark.count());
        let mut positions: Vec<usize> = positions.filter(|position| *position < length).collect();
        positions.sort_unstable();
        positions
    }

    #[test]
    fn many_places_at_a_time_say_what_one_by_one_says() {
        let words = ["spam", "heap", "<a", "no", "viag", "\u{e4}b", "xxxx", "oo", "x<"];
        let key = |word: &str| word.bytes().rev().fold(0, |key, b| key << 8 | u32::from(b));
        let of = |length| {
            words.iter().map(|w| key(w)).filter(move |k| (*k > 0xffff) == (length == GRAM))
        };
        let grams: Vec<u32> = of(GRAM).collect();
        let grams = [true, false].map(|is_small| Bitmap::of(&grams, is_small));
        let pairs = Bitmap::new(of(PAIR));
        let mut text = words.join(" x").into_bytes();
        for length in 1..80 {
            text.extend(["x".repeat(length), "o".repeat(length)].concat().bytes());
        }
        for length in (0..=text.len()).rev().step_by(3).chain(0..200) {
            let padded = [&text[..length], &[0; PADDING]].concat();
            for grams in &grams {
                let (mut together, mut alone) = (Vec::new(), Vec::new());
                grams.mark_one_by_one(u32::MAX, &padded, 0..length, &mut alone);
                grams.mark_grams(&padded, length, &mut together);
                assert_eq!(positions(&together, length), positions(&alone, length), "{length}");
            }
            let mut together = Vec::new();
            pairs.mark_pairs(&padded, length, &mut together);
            let mut alone = Vec::new();
            pairs.mark_one_by_one(0xffff, &padded, 0..length, &mut alone);
            assert_eq!(positions(&together, length), positions(&alone, length), "{length}");
        }
    }

    #[test]
    fn ranks_number_what_is_looked_for() {
        let keys: Vec<u32> = (0..3_000u32).map(|n| n.wrapping_mul(0x0101_6b43)).collect();
        let bitmap = Bitmap::new(keys.iter().copied());
        let mut ranks: Vec<usize> = keys.iter().map(|key| bitmap.rank(*key)).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let mut hashes: Vec<usize> = keys.iter().map(|key| bitmap.hash(*key)).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(ranks, (0..hashes.len()).collect::<Vec<_>>());
        assert!(keys.iter().all(|key| bitmap.may_have(*key)));
    }
}
