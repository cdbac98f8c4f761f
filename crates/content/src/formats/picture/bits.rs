//! Black and white, 64 pixels to a word, made of shades of grey.

use super::gray::Gray;

/// Black and white, row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bits {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// Words of a row.
    stride: usize,
    /// `stride * height` words; the first pixel is the lowest bit, set where it is black. Bits
    /// beyond the width are not set.
    words: Vec<u64>,
}

/// A pixel is black if it is darker than this many per cent of the mean around it.
const DARK_PERCENT: u64 = 93;
/// Pixels on each side of a block, which has one threshold: the mean over a wide window changes
/// slowly, and to find it for each pixel took longer than all that follows.
const BLOCK: usize = 8;
/// The window of the mean is the longer side by this.
const WINDOW_PART: usize = 8;

/// The lowest bit of each byte, and the highest.
const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = LOW << 7;

impl Bits {
    /// Black and white by the mean of a window around each block, which stands uneven light.
    pub(crate) fn of(gray: &Gray) -> Bits {
        let stride = gray.width.div_ceil(64);
        let mut words = vec![0; stride * gray.height];
        let means = Means::of(gray);
        let mut thresholds = Vec::with_capacity(means.columns);
        if stride > 0 {
            for (y, row) in words.chunks_exact_mut(stride).enumerate() {
                if y % BLOCK == 0 {
                    means.thresholds(y / BLOCK, &mut thresholds);
                }
                let parts = gray.row(y).chunks(64).zip(thresholds.chunks(64 / BLOCK));
                for (word, (pixels, thresholds)) in row.iter_mut().zip(parts) {
                    for (at, (block, &limit)) in pixels.chunks(BLOCK).zip(thresholds).enumerate() {
                        *word |= u64::from(darker(block, limit)) << (BLOCK * at);
                    }
                }
            }
        }
        Bits { width: gray.width, height: gray.height, stride, words }
    }

    /// Whether a pixel is black; outside all is white.
    pub(crate) fn at(&self, x: usize, y: usize) -> bool {
        x < self.width
            && y < self.height
            && self.words[y * self.stride + x / 64] >> (x % 64) & 1 == 1
    }

    /// The places in a row whose pixel differs from the one before, which is white for the first.
    pub(crate) fn changes(&self, y: usize) -> impl Iterator<Item = usize> {
        let start = y.saturating_mul(self.stride);
        let row = self.words.get(start..start + self.stride).unwrap_or_default();
        let mut before = 0;
        let changed = row.iter().enumerate().map(move |(index, &word)| {
            let changed = word ^ (word << 1 | before);
            before = word >> 63;
            (index * 64, changed)
        });
        let width = self.width;
        changed
            .flat_map(|(first, changed)| {
                std::iter::successors(Some(changed), |rest| Some(rest & rest.wrapping_sub(1)))
                    .take_while(|rest| *rest != 0)
                    .map(move |rest| first + rest.trailing_zeros() as usize)
            })
            .take_while(move |x| *x < width)
    }
}

/// Sums of the shades of all blocks above and to the left.
struct Means {
    /// Blocks of a row.
    columns: usize,
    /// Blocks around the middle one, on each side.
    half: usize,
    width: usize,
    height: usize,
    /// `columns + 1` values for each row of blocks, and one row more.
    sums: Vec<u64>,
}

impl Means {
    fn of(gray: &Gray) -> Means {
        let (columns, rows) = (gray.width.div_ceil(BLOCK), gray.height.div_ceil(BLOCK));
        let half = gray.width.max(gray.height) / (2 * WINDOW_PART * BLOCK) + 1;
        let mut sums = vec![0; (columns + 1) * (rows + 1)];
        let mut of_row = vec![0_u64; columns];
        for block in 0..rows {
            of_row.fill(0);
            for y in block * BLOCK..((block + 1) * BLOCK).min(gray.height) {
                for (sum, pixels) in of_row.iter_mut().zip(gray.row(y).chunks(BLOCK)) {
                    *sum += sum_of(pixels);
                }
            }
            let (above, here) = sums.split_at_mut((block + 1) * (columns + 1));
            let above = &above[block * (columns + 1)..];
            let mut sum = 0;
            for (index, part) in of_row.iter().enumerate() {
                sum += part;
                here[index + 1] = above[index + 1] + sum;
            }
        }
        Means { columns, half, width: gray.width, height: gray.height, sums }
    }

    /// The shade below which a pixel of each block of a row is black.
    fn thresholds(&self, row: usize, thresholds: &mut Vec<u8>) {
        thresholds.clear();
        let (top, bottom) = (row.saturating_sub(self.half), row + self.half + 1);
        let bottom = bottom.min(self.height.div_ceil(BLOCK));
        let rows = (bottom * BLOCK).min(self.height) - top * BLOCK;
        let line = |row: usize| &self.sums[row * (self.columns + 1)..][..=self.columns];
        let (above, below) = (line(top), line(bottom));
        thresholds.extend((0..self.columns).map(|column| {
            let (left, right) = (column.saturating_sub(self.half), column + self.half + 1);
            let right = right.min(self.columns);
            let sum = below[right] + above[left] - below[left] - above[right];
            let count = (((right * BLOCK).min(self.width) - left * BLOCK) * rows) as u64;
            // pixel < sum / count * DARK_PERCENT / 100, rounded up so that 0 is below all but 0.
            let threshold = (sum * DARK_PERCENT).div_ceil(count * 100);
            u8::try_from(threshold).unwrap_or(u8::MAX)
        }));
    }
}

#[inline]
fn word(pixels: &[u8]) -> Option<u64> {
    pixels.try_into().ok().map(u64::from_le_bytes)
}

#[inline]
fn sum_of(pixels: &[u8]) -> u64 {
    const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
    match word(pixels) {
        // Four sums of two bytes, then their sum in the upper 16 bits.
        Some(word) => {
            ((word & EVEN) + (word >> 8 & EVEN)).wrapping_mul(0x0001_0001_0001_0001) >> 48
        }
        None => pixels.iter().map(|&pixel| u64::from(pixel)).sum(),
    }
}

/// A bit for each of up to eight pixels: whether it is darker than the threshold.
#[inline]
fn darker(pixels: &[u8], threshold: u8) -> u8 {
    let Some(word) = word(pixels) else {
        let dark = pixels.iter().enumerate().map(|(at, &p)| u8::from(p < threshold) << at);
        return dark.fold(0, |bits, bit| bits | bit);
    };
    // Bytes are subtracted each by itself: without a borrow from the next one, whose highest bit is
    // set for it and mended afterwards (Warren, Hacker's Delight, section 2-18).
    let threshold = LOW * u64::from(threshold);
    let difference = ((word | HIGH) - (threshold & !HIGH)) ^ ((word ^ !threshold) & HIGH);
    let less = (!word & threshold) | (!(word ^ threshold) & difference);
    ((less & HIGH) >> 7).wrapping_mul(0x0102_0408_1020_4080).to_be_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_pixels_at_a_time_are_as_one_at_a_time() {
        for threshold in [0, 1, 2, 127, 128, 129, 254, 255] {
            for first in (0..=255_u8).step_by(5) {
                let pixels: Vec<u8> = (0..8_u8)
                    .map(|at| first.wrapping_add(at.wrapping_mul(37)).wrapping_mul(at + 1))
                    .collect();
                let one_by_one =
                    darker(&pixels[..7], threshold) | u8::from(pixels[7] < threshold) << 7;
                assert_eq!(darker(&pixels, threshold), one_by_one, "{pixels:?} {threshold}");
                assert_eq!(sum_of(&pixels), pixels.iter().map(|&p| u64::from(p)).sum::<u64>());
            }
        }
    }

    #[test]
    fn changes_of_a_row_are_where_pixels_differ() {
        for width in [1, 5, 63, 64, 65, 128, 131] {
            let pixels = (0..width).map(|x: usize| if x * x % 7 < 3 { 10 } else { 240 }).collect();
            let bits = Bits::of(&Gray { width, height: 1, pixels });
            let expected: Vec<usize> =
                (0..width).filter(|&x| bits.at(x, 0) != (x > 0 && bits.at(x - 1, 0))).collect();
            assert_eq!(bits.changes(0).collect::<Vec<_>>(), expected, "{width}");
        }
        let none = Bits::of(&Gray::default());
        assert_eq!(none.changes(0).count(), 0);
        assert!(!none.at(0, 0));
    }
}
