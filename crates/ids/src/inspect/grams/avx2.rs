//! Eight grams at once, by the instructions AVX2 of x86-64 (Intel, "Intrinsics guide").

use std::arch::x86_64::{
    __m128i, __m256i, _mm_cvtsi32_si128, _mm_loadu_si128, _mm256_add_epi32, _mm256_and_si256,
    _mm256_castsi256_ps, _mm256_i32gather_epi32, _mm256_loadu_si256, _mm256_movemask_ps,
    _mm256_mullo_epi32, _mm256_or_si256, _mm256_set_m128i, _mm256_set1_epi32, _mm256_setr_epi8,
    _mm256_shuffle_epi8, _mm256_sllv_epi32, _mm256_srl_epi32, _mm256_srli_epi32,
};

use super::{FOLD_4, LOOKS, Length, SPREAD, place_shift};

/// See [`super::blocks`].
#[target_feature(enable = "avx2")]
pub(super) fn blocks<const WORDS: usize>(
    length: Length,
    filter: &[u32; WORDS],
    bytes: &[u8],
    hit: &mut impl FnMut(usize),
) -> usize {
    match length {
        Length::Wide => scan(filter, bytes, 4, wide, hit),
        Length::Long => scan(filter, bytes, 4, long, hit),
        Length::Short => scan(filter, bytes, 2, short, hit),
        Length::Tiny => scan(filter, bytes, 1, tiny, hit),
    }
}

/// `spread` gives the spread grams of a block, which begin `step` bytes from each other.
#[inline]
#[target_feature(enable = "avx2")]
fn scan<const WORDS: usize, const BYTES: usize>(
    filter: &[u32; WORDS],
    bytes: &[u8],
    step: usize,
    spread: unsafe fn(&[u8; BYTES]) -> __m256i,
    hit: &mut impl FnMut(usize),
) -> usize {
    let shift = _mm_cvtsi32_si128(place_shift::<WORDS>().cast_signed());
    let other_shift = _mm_cvtsi32_si128((place_shift::<WORDS>() - 5).cast_signed());
    let within = _mm256_set1_epi32(31);
    let mut at = 0;
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        // SAFETY: the processor has AVX2, or this function would not run.
        let spread = unsafe { spread(block) };
        let place = _mm256_srl_epi32(spread, shift);
        // SAFETY: a place is below 32 for each word, so that a 32nd of it is a word of the filter.
        let words = unsafe {
            _mm256_i32gather_epi32::<4>(filter.as_ptr().cast(), _mm256_srli_epi32::<5>(place))
        };
        let other = _mm256_and_si256(_mm256_srl_epi32(spread, other_shift), within);
        let signs = _mm256_and_si256(
            _mm256_sllv_epi32(words, _mm256_and_si256(place, within)),
            _mm256_sllv_epi32(words, other),
        );
        let mut set = _mm256_movemask_ps(_mm256_castsi256_ps(signs)).cast_unsigned();
        while set != 0 {
            hit(at + set.trailing_zeros() as usize * step);
            set &= set - 1;
        }
        at += LOOKS * step;
    }
    at
}

#[inline]
#[target_feature(enable = "avx2")]
fn constant(number: u32) -> __m256i {
    _mm256_set1_epi32(number.cast_signed())
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: there are as many bytes, and they need no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_half(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: there are as many bytes, and they need no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn folded(grams: __m256i, fold: u64) -> __m256i {
    _mm256_or_si256(grams, constant(fold as u32))
}

#[inline]
#[target_feature(enable = "avx2")]
fn wide(block: &[u8; 36]) -> __m256i {
    let [Some(low), Some(high)] = [block.first_chunk(), block.last_chunk()] else {
        return constant(0);
    };
    let low = _mm256_mullo_epi32(folded(load(low), FOLD_4), constant(SPREAD[0]));
    let high = _mm256_mullo_epi32(folded(load(high), FOLD_4), constant(SPREAD[1]));
    _mm256_add_epi32(low, high)
}

#[inline]
#[target_feature(enable = "avx2")]
fn long(block: &[u8; 32]) -> __m256i {
    _mm256_mullo_epi32(folded(load(block), FOLD_4), constant(SPREAD[0]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn short(block: &[u8; 24]) -> __m256i {
    let [Some(first), Some(second)] = [block.first_chunk(), block.last_chunk()] else {
        return constant(0);
    };
    let both = _mm256_set_m128i(load_half(second), load_half(first));
    let grams = _mm256_shuffle_epi8(
        both,
        _mm256_setr_epi8(
            0, 1, 2, -1, 2, 3, 4, -1, 4, 5, 6, -1, 6, 7, 8, -1, //
            0, 1, 2, -1, 2, 3, 4, -1, 4, 5, 6, -1, 6, 7, 8, -1,
        ),
    );
    _mm256_mullo_epi32(folded(grams, FOLD_4 & 0xff_ffff), constant(SPREAD[0]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn tiny(block: &[u8; 16]) -> __m256i {
    let half = load_half(block);
    let grams = _mm256_shuffle_epi8(
        _mm256_set_m128i(half, half),
        _mm256_setr_epi8(
            0, 1, -1, -1, 1, 2, -1, -1, 2, 3, -1, -1, 3, 4, -1, -1, //
            4, 5, -1, -1, 5, 6, -1, -1, 6, 7, -1, -1, 7, 8, -1, -1,
        ),
    );
    _mm256_mullo_epi32(folded(grams, FOLD_4 & 0xffff), constant(SPREAD[0]))
}
