//! A picture in shades of grey.

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
        let mut sums = vec![0_u32; width * factor];
        let area = u32::try_from(factor * factor).unwrap_or(u32::MAX);
        // A division for each pixel took longer than the sums.
        let part = (1 << 16) / area + 1;
        for y in 0..height {
            sums.fill(0);
            for row in y * factor..(y + 1) * factor {
                for (sum, &pixel) in sums.iter_mut().zip(self.row(row)) {
                    *sum += u32::from(pixel);
                }
            }
            pixels.extend(sums.chunks_exact(factor).map(|sums| {
                let mean = sums.iter().sum::<u32>().wrapping_mul(part) >> 16;
                u8::try_from(mean).unwrap_or(u8::MAX)
            }));
        }
        Gray { width, height, pixels }
    }

    /// The same in larger, each pixel as a square of `factor` times `factor`.
    pub(crate) fn larger(&self, factor: usize) -> Gray {
        let (width, height) = (self.width * factor, self.height * factor);
        let mut pixels = Vec::with_capacity(width * height);
        for y in 0..self.height {
            let start = pixels.len();
            for &pixel in self.row(y) {
                pixels.resize(pixels.len() + factor, pixel);
            }
            for _ in 1..factor {
                pixels.extend_from_within(start..start + width);
            }
        }
        Gray { width, height, pixels }
    }

    /// Dark for light and light for dark: codes may be printed either way.
    pub(crate) fn inverted(&self) -> Gray {
        let pixels = self.pixels.iter().map(|p| 255 - p).collect();
        Gray { width: self.width, height: self.height, pixels }
    }
}
