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

impl Bits {
    /// Black and white by the mean of a window around each block, which stands uneven light.
    pub(crate) fn of(gray: &Gray) -> Bits {
        let stride = gray.width.div_ceil(64);
        let mut words = vec![0; stride * gray.height];
        let means = Means::of(gray);
        let mut limits = vec![0; stride * 64];
        if stride > 0 {
            for (y, row) in words.chunks_exact_mut(stride).enumerate() {
                if y % BLOCK == 0 {
                    means.limits(y / BLOCK, &mut limits);
                }
                for (word, (pixels, limits)) in
                    row.iter_mut().zip(gray.row(y).chunks(64).zip(limits.chunks(64)))
                {
                    *word = darker(pixels, limits);
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
        let mut of_columns = vec![0_u16; columns * BLOCK];
        for block in 0..rows {
            of_columns.fill(0);
            for y in block * BLOCK..((block + 1) * BLOCK).min(gray.height) {
                for (sum, &pixel) in of_columns.iter_mut().zip(gray.row(y)) {
                    // At most 8 * 255.
                    *sum += u16::from(pixel);
                }
            }
            let (above, here) = sums.split_at_mut((block + 1) * (columns + 1));
            let above = &above[block * (columns + 1)..];
            let mut sum = 0;
            for (index, part) in of_columns.chunks_exact(BLOCK).enumerate() {
                sum += part.iter().map(|&column| u64::from(column)).sum::<u64>();
                here[index + 1] = above[index + 1] + sum;
            }
        }
        Means { columns, half, width: gray.width, height: gray.height, sums }
    }

    /// The shade below which each pixel of a row of blocks is black.
    fn limits(&self, row: usize, limits: &mut [u8]) {
        let (top, bottom) = (row.saturating_sub(self.half), row + self.half + 1);
        let bottom = bottom.min(self.height.div_ceil(BLOCK));
        let rows = (bottom * BLOCK).min(self.height) - top * BLOCK;
        let line = |row: usize| &self.sums[row * (self.columns + 1)..][..=self.columns];
        let (above, below) = (line(top), line(bottom));
        for (column, block) in limits.chunks_exact_mut(BLOCK).take(self.columns).enumerate() {
            let (left, right) = (column.saturating_sub(self.half), column + self.half + 1);
            let right = right.min(self.columns);
            let sum = below[right] + above[left] - below[left] - above[right];
            let count = (((right * BLOCK).min(self.width) - left * BLOCK) * rows) as u64;
            // pixel < sum / count * DARK_PERCENT / 100, rounded up so that 0 is below all but 0.
            let limit = (sum * DARK_PERCENT).div_ceil(count * 100);
            block.fill(u8::try_from(limit).unwrap_or(u8::MAX));
        }
    }
}

/// A bit for each of up to 64 pixels: whether it is darker than its limit.
fn darker(pixels: &[u8], limits: &[u8]) -> u64 {
    let mut dark = [0_u8; 64];
    for (dark, (pixel, limit)) in dark.iter_mut().zip(pixels.iter().zip(limits)) {
        *dark = u8::from(pixel < limit);
    }
    let (words, _) = dark.as_chunks::<8>();
    words.iter().rev().fold(0, |bits, &word| bits << 8 | u64::from(gathered(word)))
}

/// Eight bytes of 0 or 1 as the bits of one, the first the lowest: the product has each of them in
/// a place of its own in its uppermost byte, and no sums that carry.
fn gathered(bytes: [u8; 8]) -> u8 {
    u64::from_le_bytes(bytes).wrapping_mul(0x0102_0408_1020_4080).to_be_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_pixels_at_a_time_are_as_one_at_a_time() {
        let pixels: Vec<u8> = (0..64).map(|at: u32| (at * at * 37 % 256) as u8).collect();
        let limits: Vec<u8> = (0..64).map(|at: u32| (at * 91 % 256) as u8).collect();
        for length in [0, 1, 7, 8, 9, 63, 64] {
            let bits = darker(&pixels[..length], &limits[..length]);
            for at in 0..64 {
                let expected = at < length && pixels[at] < limits[at];
                assert_eq!(bits >> at & 1 == 1, expected, "{at} of {length}");
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
