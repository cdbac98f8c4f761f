//! Thirty-two places at once, by the instructions AVX2 of x86-64 (Intel, "Intrinsics guide").

use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8,
    _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_set1_epi8, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_srli_epi16,
};

use super::Search;

/// Places that are looked at before a branch is taken.
const PLACES: usize = 32;

/// The tables by the halves of a byte: buckets that both halves leave over are a few too many.
#[derive(Debug, Default)]
pub(super) struct Nibbles {
    first: [[u8; 16]; 2],
    second: [[u8; 16]; 2],
}

impl Nibbles {
    pub(super) fn new(first: &[u8; 256], second: &[u8; 256]) -> Self {
        Self { first: halves(first), second: halves(second) }
    }
}

/// By the lower and by the upper half.
fn halves(table: &[u8; 256]) -> [[u8; 16]; 2] {
    let mut halves = [[0; 16]; 2];
    for (byte, set) in table.iter().enumerate() {
        for (half, place) in halves.iter_mut().zip([byte % 16, byte / 16]) {
            if let Some(found) = half.get_mut(place) {
                *found |= set;
            }
        }
    }
    halves
}

/// Looks at most places from `at` to before `end`; returns the first that was not looked at.
#[target_feature(enable = "avx2")]
pub(super) fn blocks<F: FnMut(u32, usize) -> bool>(
    search: &mut Search<'_, F>,
    mut at: usize,
    end: usize,
) -> usize {
    let bytes = search.bytes;
    let Nibbles { first: [low, high], second: [next_low, next_high] } = &search.tiny.nibbles;
    let (first, second) = ([spread(low), spread(high)], [spread(next_low), spread(next_high)]);
    // A block and the byte behind it.
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<{ PLACES + 1 }>()) {
        if at + PLACES > end || search.live == 0 {
            break;
        }
        let live = _mm256_set1_epi8(search.live.cast_signed());
        let (Some(now), Some(next)) = (block.first_chunk(), block.last_chunk()) else { break };
        let buckets = _mm256_and_si256(buckets(now, &first), buckets(next, &second));
        let buckets = _mm256_and_si256(buckets, live);
        let none = _mm256_cmpeq_epi8(buckets, _mm256_setzero_si256());
        let mut places = !_mm256_movemask_epi8(none).cast_unsigned();
        while places != 0 {
            search.look(at + places.trailing_zeros() as usize);
            places &= places - 1;
        }
        at += PLACES;
    }
    at
}

/// The table in both halves of a register.
#[inline]
#[target_feature(enable = "avx2")]
fn spread(table: &[u8; 16]) -> __m256i {
    // SAFETY: there are as many bytes, and they need no alignment.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
}

/// The buckets of each byte.
#[inline]
#[target_feature(enable = "avx2")]
fn buckets(bytes: &[u8; PLACES], [lower, upper]: &[__m256i; 2]) -> __m256i {
    // SAFETY: there are as many bytes, and they need no alignment.
    let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
    let half = _mm256_set1_epi8(0x0f);
    let low = _mm256_and_si256(bytes, half);
    let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half);
    _mm256_and_si256(_mm256_shuffle_epi8(*lower, low), _mm256_shuffle_epi8(*upper, high))
}
