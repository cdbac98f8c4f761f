//! Pictures of points (PNG, second edition of its specification, W3C 2003): eight bits a colour, no
//! transparency. A line covers a point by as much as it is near, a bar by as much as it overlaps.

use std::io::Write as _;

use flate2::{Compression, Crc, write::ZlibEncoder};

/// What every file begins with (5.2).
const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];
/// Bytes of a point.
const DEPTH: usize = 3;

/// A picture that is drawn on.
pub(super) struct Canvas {
    width: usize,
    height: usize,
    /// Red, green, blue, row by row.
    points: Vec<u8>,
}

impl Canvas {
    /// A white one.
    pub(super) fn new(width: usize, height: usize) -> Self {
        Canvas { width, height, points: vec![255; width * height * DEPTH] }
    }

    /// Draws a line through these places; what is outside is cut off.
    pub(super) fn line(&mut self, places: &[(f64, f64)], wide: f64, colour: [u8; 3]) {
        let mut cover = Cover::around(places, wide, (self.width, self.height));
        for pair in places.windows(2) {
            if let &[from, to] = pair {
                cover.add(from, to, wide / 2.0);
            }
        }
        self.paint(&cover, colour);
    }

    /// Fills a rectangle from its upper left corner, of this width and height; what is outside is cut off.
    pub(super) fn bar(&mut self, at: (f64, f64), size: (f64, f64), colour: [u8; 3]) {
        let far = (at.0 + size.0, at.1 + size.1);
        let mut cover = Cover::around(&[at, far], 0.0, (self.width, self.height));
        // The share of the step from n to n + 1 that lies between two places.
        let within = |n: usize, from: f64, to: f64| {
            ((n as f64 + 1.0).min(to) - (n as f64).max(from)).clamp(0.0, 1.0)
        };
        let (left, top, across) = (cover.left, cover.top, cover.across.max(1));
        for (row, shares) in cover.shares.chunks_mut(across).enumerate() {
            let high = within(top + row, at.1, far.1);
            for (column, share) in shares.iter_mut().enumerate() {
                *share = high * within(left + column, at.0, far.0);
            }
        }
        self.paint(&cover, colour);
    }

    fn paint(&mut self, cover: &Cover, colour: [u8; 3]) {
        let (left, top, across) = (cover.left, cover.top, cover.across.max(1));
        for (row, shares) in cover.shares.chunks(across).enumerate() {
            let start = ((top + row) * self.width + left) * DEPTH;
            let points = self.points.get_mut(start..).unwrap_or_default();
            for (point, share) in points.chunks_exact_mut(DEPTH).zip(shares) {
                for (old, new) in point.iter_mut().zip(colour) {
                    let mixed = f64::from(*old) * (1.0 - share) + f64::from(new) * share;
                    // Between two bytes.
                    *old = mixed.round() as u8;
                }
            }
        }
    }

    /// The file.
    pub(super) fn file(&self) -> Vec<u8> {
        let mut rows = Vec::with_capacity(self.points.len() + self.height);
        for row in self.points.chunks(self.width * DEPTH) {
            // No filter: lines on white are packed well without.
            rows.push(0);
            rows.extend_from_slice(row);
        }
        let side = |length: usize| u32::try_from(length).unwrap_or(0).to_be_bytes();
        // Eight bits, colours, deflate, the usual filters, not interlaced (11.2.2).
        let head = [&side(self.width)[..], &side(self.height), &[8, 2, 0, 0, 0]].concat();
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
        // A vector takes everything.
        let _ = packed.write_all(&rows);
        let packed = packed.finish().unwrap_or_default();
        let mut out = SIGNATURE.to_vec();
        for (kind, data) in [(b"IHDR", head.as_slice()), (b"IDAT", &packed), (b"IEND", &[])] {
            let mut sum = Crc::new();
            sum.update(kind);
            sum.update(data);
            out.extend_from_slice(&side(data.len()));
            out.extend_from_slice(kind);
            out.extend_from_slice(data);
            out.extend_from_slice(&sum.sum().to_be_bytes());
        }
        out
    }
}

/// How much of each point around a line it covers, 0 to 1: where it meets itself it is not darker.
struct Cover {
    left: usize,
    top: usize,
    across: usize,
    shares: Vec<f64>,
}

impl Cover {
    fn around(places: &[(f64, f64)], wide: f64, (width, height): (usize, usize)) -> Self {
        let span = |values: &dyn Fn(&(f64, f64)) -> f64, end: usize| {
            let low = places.iter().map(values).fold(f64::MAX, f64::min) - wide - 1.0;
            let high = places.iter().map(values).fold(f64::MIN, f64::max) + wide + 2.0;
            // Within the picture: no value is negative or too large.
            let within = |value: f64| value.clamp(0.0, end as f64) as usize;
            (within(low), within(high))
        };
        let ((left, right), (top, bottom)) = (span(&|p| p.0, width), span(&|p| p.1, height));
        let (across, down) = (right.saturating_sub(left), bottom.saturating_sub(top));
        Cover { left, top, across, shares: vec![0.0; across * down] }
    }

    /// Adds a piece from one place to another.
    fn add(&mut self, from: (f64, f64), to: (f64, f64), half: f64) {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let square = dx * dx + dy * dy;
        let reach = half + 1.0;
        let (low, high) = (from.0.min(to.0) - reach, from.0.max(to.0) + reach);
        let (first, last) = (from.1.min(to.1) - reach, from.1.max(to.1) + reach);
        for (row, shares) in self.shares.chunks_mut(self.across.max(1)).enumerate() {
            let y = (self.top + row) as f64 + 0.5;
            if y < first || y > last {
                continue;
            }
            for (column, share) in shares.iter_mut().enumerate() {
                let x = (self.left + column) as f64 + 0.5;
                if x < low || x > high {
                    continue;
                }
                let along = match square > 0.0 {
                    true => (((x - from.0) * dx + (y - from.1) * dy) / square).clamp(0.0, 1.0),
                    false => 0.0,
                };
                let away = (x - from.0 - along * dx).hypot(y - from.1 - along * dy);
                *share = share.max((half + 0.5 - away).clamp(0.0, 1.0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_of_its_chunks() {
        let mut canvas = Canvas::new(3, 2);
        canvas.line(&[(-9.0, 0.5), (9.0, 0.5)], 1.0, [1, 2, 3]);
        let file = canvas.file();
        assert!(
            file.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x03\0\0\0\x02\x08\x02\0\0\0")
        );
        // The end of every PNG, with its checksum (11.2.5).
        assert!(file.ends_with(b"\0\0\0\0IEND\xae\x42\x60\x82"));
        let mut rows = Vec::new();
        let data = file.windows(4).position(|w| w == b"IDAT").unwrap() + 4;
        let mut reader = flate2::read::ZlibDecoder::new(&file[data..]);
        std::io::Read::read_to_end(&mut reader, &mut rows).unwrap();
        let row = [[0].as_slice(), &[1, 2, 3].repeat(3)].concat();
        assert_eq!(rows, [row, [[0].as_slice(), &[255; 9]].concat()].concat());
    }

    #[test]
    fn what_is_outside_is_cut_off() {
        let mut canvas = Canvas::new(4, 4);
        let blank = canvas.points.clone();
        for places in [vec![], vec![(1.0, 1.0)], vec![(-50.0, -9.0), (-40.0, 80.0)]] {
            canvas.line(&places, 2.0, [0; 3]);
        }
        assert_eq!(canvas.points, blank);
        canvas.line(&[(2.0, 2.0), (2.0, 2.0)], 2.0, [0; 3]);
        let dark = canvas.points.iter().filter(|p| **p < 128).count();
        assert_eq!(dark, 4 * DEPTH, "a dot is round");
    }

    #[test]
    fn bars_fill_what_they_overlap() {
        let mut canvas = Canvas::new(3, 2);
        canvas.bar((1.0, -5.0), (1.5, 6.0), [0; 3]);
        let row = [[255; 3], [0; 3], [128; 3]].concat();
        assert_eq!(canvas.points, [row, vec![255; 9]].concat());
        canvas.bar((7.0, 7.0), (9.0, 9.0), [0; 3]);
        assert_eq!(canvas.points[9..], [255; 9]);
    }
}
