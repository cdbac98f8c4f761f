//! Windows bitmaps: uncompressed with 1, 4, 8, 16, 24 or 32 bits, and run lengths of 8 or 4 bits
//! (Windows GDI, "Bitmap Storage"). Only shades of grey are kept.

use super::gray::{Gray, PIXELS_MAX, lightness};

/// Methods of compression that are read.
const RGB: u32 = 0;
const RLE8: u32 = 1;
const RLE4: u32 = 2;
const BITFIELDS: u32 = 3;

struct Layout<'a> {
    bytes: &'a [u8],
    width: usize,
    height: usize,
    from_top: bool,
    bits: usize,
    palette: Vec<u8>,
    pixels_at: usize,
}

/// The shades of a bitmap; what is cut is white.
pub(crate) fn decode(bytes: &[u8]) -> Option<Gray> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let half = |at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let size = word(14)? as usize;
    let old = size == 12;
    let (width, height, bits, method) = if old {
        (u32::from(half(18)?), i32::from(half(20)?), half(24)?, RGB)
    } else {
        (word(18)?, word(22)?.cast_signed(), half(28)?, word(30)?)
    };
    if u64::from(width) * u64::from(height.unsigned_abs()) > PIXELS_MAX || width == 0 {
        return None;
    }
    let palette_at = 14 + size + if method == BITFIELDS && size == 40 { 12 } else { 0 };
    let layout = Layout {
        bytes,
        width: width as usize,
        height: height.unsigned_abs() as usize,
        from_top: height < 0,
        bits: usize::from(bits),
        palette: palette(bytes, palette_at, usize::from(bits), if old { 3 } else { 4 }),
        pixels_at: word(10)? as usize,
    };
    match method {
        RGB | BITFIELDS => plain(&layout),
        RLE8 | RLE4 => Some(run_lengths(&layout, method == RLE4)),
        _ => None,
    }
}

/// Shades of the palette's colours.
fn palette(bytes: &[u8], at: usize, bits: usize, entry: usize) -> Vec<u8> {
    let count = if bits <= 8 { 1 << bits } else { 0 };
    let entries = bytes.get(at..).unwrap_or_default().chunks_exact(entry).take(count);
    entries.map(|c| lightness(c[2], c[1], c[0])).collect()
}

fn plain(layout: &Layout<'_>) -> Option<Gray> {
    let &Layout { width, height, bits, .. } = layout;
    let stride = width.checked_mul(bits)?.div_ceil(32) * 4;
    let mut pixels = vec![255; width * height];
    for line in 0..height {
        let Some(row) = layout.bytes.get(layout.pixels_at + line * stride..) else { break };
        let y = if layout.from_top { line } else { height - 1 - line };
        for x in 0..width {
            let Some(shade) = shade(layout, row, x) else { break };
            pixels[y * width + x] = shade;
        }
    }
    matches!(bits, 1 | 2 | 4 | 8 | 16 | 24 | 32).then_some(Gray { width, height, pixels })
}

fn shade(layout: &Layout<'_>, row: &[u8], x: usize) -> Option<u8> {
    match layout.bits {
        bits @ (1 | 2 | 4 | 8) => {
            let at = x * bits;
            let shift = 8 - bits - at % 8;
            let index = usize::from(*row.get(at / 8)?) >> shift & ((1 << bits) - 1);
            layout.palette.get(index).copied()
        }
        16 => {
            let value = u16::from_le_bytes(*row.get(2 * x..)?.first_chunk()?);
            let part = |shift: u16| u8::try_from((value >> shift & 31) << 3).unwrap_or(u8::MAX);
            Some(lightness(part(10), part(5), part(0)))
        }
        bits => {
            let color = row.get(x * bits / 8..)?.first_chunk::<3>()?;
            Some(lightness(color[2], color[1], color[0]))
        }
    }
}

/// Run lengths: a count and a colour; 0 and 0 ends a line, 0 and 1 the picture, 0 and 2 moves, 0
/// and more is a count of colours as they are, filled up to 16 bits.
fn run_lengths(layout: &Layout<'_>, nibbles: bool) -> Gray {
    let &Layout { width, height, .. } = layout;
    let mut gray = Gray { width, height, pixels: vec![255; width * height] };
    let (mut x, mut line) = (0_usize, 0_usize);
    let mut put = |x: usize, line: usize, index: u8| {
        if x < width && line < height {
            let y = if layout.from_top { line } else { height - 1 - line };
            let shade = layout.palette.get(usize::from(index)).copied().unwrap_or(255);
            gray.pixels[y * width + x] = shade;
        }
    };
    let color = |byte: u8, n: usize| match (nibbles, n % 2) {
        (false, _) => byte,
        (true, 0) => byte >> 4,
        (true, _) => byte & 15,
    };
    let mut data = layout.bytes.get(layout.pixels_at..).unwrap_or_default();
    while let [count, value, rest @ ..] = data {
        data = rest;
        match (*count, *value) {
            (0, 0) => (x, line) = (0, line + 1),
            (0, 1) => break,
            (0, 2) => {
                let [right, down, rest @ ..] = data else { break };
                (x, line) = (x + usize::from(*right), line + usize::from(*down));
                data = rest;
            }
            (0, count) => {
                let count = usize::from(count);
                let bytes = if nibbles { count.div_ceil(2) } else { count };
                for n in 0..count {
                    let Some(&byte) = data.get(if nibbles { n / 2 } else { n }) else { break };
                    put(x + n, line, color(byte, n));
                }
                x += count;
                data = data.get(bytes.next_multiple_of(2)..).unwrap_or_default();
            }
            (count, value) => {
                for n in 0..usize::from(count) {
                    put(x + n, line, color(value, n));
                }
                x += usize::from(count);
            }
        }
        if line >= height {
            break;
        }
    }
    gray
}
