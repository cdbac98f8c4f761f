//! A picture in shades of grey, and black and white made of it.

/// Pixels of a picture that is decoded.
pub(crate) const PIXELS_MAX: u64 = 32_000_000;

/// Shades of grey, 0 black to 255 white, row by row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gray {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// `width * height` values.
    pub(crate) pixels: Vec<u8>,
}

/// Black and white, row by row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bits {
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// True where it is black; `width * height` values.
    pub(crate) black: Vec<bool>,
}

/// A pixel is black if it is darker than this many per cent of the mean around it.
const DARK_PERCENT: u32 = 93;
/// Pixels of a row that have one threshold.
const BLOCK_PIXELS: usize = 8;
/// The window of the mean is the longer side by this.
const WINDOW_PART: usize = 8;

/// The lightness of a colour (ITU-R BT.601), in whole numbers.
pub(crate) fn lightness(red: u8, green: u8, blue: u8) -> u8 {
    let sum = 77 * u32::from(red) + 150 * u32::from(green) + 29 * u32::from(blue);
    u8::try_from(sum >> 8).unwrap_or(u8::MAX)
}

/// A shade over white paper.
pub(crate) fn over_white(shade: u8, alpha: u8) -> u8 {
    let (shade, alpha) = (u32::from(shade), u32::from(alpha));
    u8::try_from((shade * alpha + 255 * (255 - alpha)) / 255).unwrap_or(u8::MAX)
}

impl Gray {
    pub(crate) fn row(&self, y: usize) -> &[u8] {
        let start = y.saturating_mul(self.width);
        self.pixels.get(start..start + self.width).unwrap_or_default()
    }

    /// The same in smaller: each pixel the mean of `factor` times `factor`.
    pub(crate) fn smaller(&self, factor: usize) -> Gray {
        let factor = factor.max(1);
        let (width, height) = (self.width / factor, self.height / factor);
        let mut pixels = Vec::with_capacity(width * height);
        let mut sums = vec![0_u32; width];
        let area = u32::try_from(factor * factor).unwrap_or(u32::MAX);
        for y in 0..height {
            sums.fill(0);
            for row in y * factor..(y + 1) * factor {
                for (sum, part) in sums.iter_mut().zip(self.row(row).chunks_exact(factor)) {
                    *sum += part.iter().map(|&p| u32::from(p)).sum::<u32>();
                }
            }
            pixels.extend(sums.iter().map(|sum| u8::try_from(sum / area).unwrap_or(u8::MAX)));
        }
        Gray { width, height, pixels }
    }

    /// The same in larger, each pixel as a square of `factor` times `factor`.
    pub(crate) fn larger(&self, factor: usize) -> Gray {
        let (width, height) = (self.width * factor, self.height * factor);
        let mut pixels = Vec::with_capacity(width * height);
        for y in 0..height {
            let row = self.row(y / factor);
            pixels.extend(row.iter().flat_map(|&p| std::iter::repeat_n(p, factor)));
        }
        Gray { width, height, pixels }
    }

    /// Dark for light and light for dark: codes may be printed either way.
    pub(crate) fn inverted(&self) -> Gray {
        let pixels = self.pixels.iter().map(|p| 255 - p).collect();
        Gray { width: self.width, height: self.height, pixels }
    }

    /// Black and white by the mean of a window around each pixel, which stands uneven light.
    pub(crate) fn bits(&self) -> Bits {
        let half = (self.width.max(self.height) / (2 * WINDOW_PART)).max(8);
        let mut black = Vec::with_capacity(self.pixels.len());
        let mut columns = vec![0_u32; self.width];
        let mut sums = Vec::with_capacity(self.width + 1);
        let add = |columns: &mut [u32], y: usize| {
            for (sum, &p) in columns.iter_mut().zip(self.row(y)) {
                *sum += u32::from(p);
            }
        };
        for y in 0..half.min(self.height) {
            add(&mut columns, y);
        }
        for y in 0..self.height {
            if y + half < self.height {
                add(&mut columns, y + half);
            }
            if let Some(gone) = y.checked_sub(half + 1) {
                for (sum, &p) in columns.iter_mut().zip(self.row(gone)) {
                    *sum -= u32::from(p);
                }
            }
            let rows = (y + half).min(self.height - 1) - y.saturating_sub(half) + 1;
            self.bits_of_row(y, rows, half, &columns, &mut sums, &mut black);
        }
        Bits { width: self.width, height: self.height, black }
    }

    /// One threshold for each few pixels: a mean over a wide window changes slowly.
    fn bits_of_row(
        &self,
        y: usize,
        rows: usize,
        half: usize,
        columns: &[u32],
        sums: &mut Vec<u64>,
        black: &mut Vec<bool>,
    ) {
        sums.clear();
        sums.push(0);
        sums.extend(columns.iter().scan(0_u64, |sum, &column| {
            *sum += u64::from(column);
            Some(*sum)
        }));
        for (index, block) in self.row(y).chunks(BLOCK_PIXELS).enumerate() {
            let x = index * BLOCK_PIXELS + block.len() / 2;
            let (from, to) = (x.saturating_sub(half), (x + half + 1).min(self.width));
            let sum = sums[to] - sums[from];
            let count = ((to - from) * rows) as u64;
            // pixel < sum / count * DARK_PERCENT / 100, rounded up so that 0 is below all but 0.
            let threshold = (sum * u64::from(DARK_PERCENT)).div_ceil(count * 100);
            let threshold = u8::try_from(threshold).unwrap_or(u8::MAX);
            black.extend(block.iter().map(|&p| p < threshold));
        }
    }
}

impl Bits {
    /// Whether a pixel is black; outside all is white.
    pub(crate) fn at(&self, x: usize, y: usize) -> bool {
        x < self.width && y < self.height && self.black[y * self.width + x]
    }
}
