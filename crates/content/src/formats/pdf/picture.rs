//! Pictures on the pages of a PDF (section 8.9), and codes that are drawn as rectangles, searched
//! for QR codes.

use super::document::{Document, Entry};
use super::value::{Dict, Value};
use crate::formats::picture::gray::lightness;
use crate::formats::picture::{self, Gray, pixels};
use crate::unpack::Unpacker;

/// Pictures of one document that are searched.
const PICTURES_MAX: usize = 64;
/// Pixels of the pictures of one document.
const PIXELS_MAX: usize = 48_000_000;
/// A side of a picture that may hold a code.
const SIDE_MIN: usize = 21;
/// Rectangles that a code has at least.
const RECTANGLES_MIN: usize = 60;
/// Pixels of a side on which rectangles are drawn.
const DRAWN_SIDE: usize = 1_000;

/// What may still be read of one document.
#[derive(Debug)]
pub(super) struct Budget {
    pictures: usize,
    pixels: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { pictures: PICTURES_MAX, pixels: PIXELS_MAX }
    }
}

/// How samples become shades.
struct Samples {
    width: usize,
    height: usize,
    bits: usize,
    colors: Colors,
    is_inverted: bool,
}

enum Colors {
    Gray,
    Rgb,
    Cmyk,
    Palette(Vec<u8>),
}

impl Colors {
    fn count(&self) -> usize {
        match self {
            Colors::Gray | Colors::Palette(_) => 1,
            Colors::Rgb => 3,
            Colors::Cmyk => 4,
        }
    }
}

impl Budget {
    /// Takes a picture of this size, if there is room.
    fn take(&mut self, document: &Document<'_>, dict: &Dict) -> Option<(usize, usize)> {
        let side = |long, short| {
            let value = document.get(dict, long).or_else(|| document.get(dict, short));
            value.and_then(Value::integer).unwrap_or(0)
        };
        let (width, height) = (side("Width", "W"), side("Height", "H"));
        let pixels = width.checked_mul(height)?;
        if width < SIDE_MIN || height < SIDE_MIN || pixels > self.pixels || self.pictures == 0 {
            return None;
        }
        self.pictures -= 1;
        self.pixels -= pixels;
        Some((width, height))
    }

    /// Reads a picture that is an object.
    pub(super) fn read(
        &mut self,
        document: &Document<'_>,
        entry: &Entry,
        unpacker: &mut Unpacker<'_>,
    ) {
        let Some(dict) = entry.value.dict() else { return };
        let Some(size) = self.take(document, dict) else { return };
        let stream = document.stream(entry, unpacker);
        search(document, dict, size, &stream.bytes, stream.rest.as_deref(), unpacker);
    }

    /// Reads a picture that stands in a content stream.
    pub(super) fn inline(
        &mut self,
        document: &Document<'_>,
        dict: &Dict,
        data: &[u8],
        unpacker: &mut Unpacker<'_>,
    ) {
        let Some(size) = self.take(document, dict) else { return };
        let stream = document.filtered(dict, data.to_vec(), unpacker);
        search(document, dict, size, &stream.bytes, stream.rest.as_deref(), unpacker);
    }
}

fn search(
    document: &Document<'_>,
    dict: &Dict,
    size: (usize, usize),
    data: &[u8],
    filter: Option<&[u8]>,
    unpacker: &mut Unpacker<'_>,
) {
    let gray = match filter {
        None => samples(document, dict, size, unpacker).and_then(|samples| shades(&samples, data)),
        // A picture that cannot be decoded is none to a reader either.
        Some(b"DCTDecode" | b"DCT") => pixels::jpeg(data).ok(),
        Some(_) => None,
    };
    if let Some(gray) = gray {
        picture::search(&gray, unpacker);
    }
}

fn samples(
    document: &Document<'_>,
    dict: &Dict,
    (width, height): (usize, usize),
    unpacker: &mut Unpacker<'_>,
) -> Option<Samples> {
    let get = |long, short| document.get(dict, long).or_else(|| document.get(dict, short));
    let is_mask = get("ImageMask", "IM") == Some(&Value::Bool(true));
    let bits = if is_mask { 1 } else { get("BitsPerComponent", "BPC")?.integer()? };
    let is_inverted = match get("Decode", "D") {
        Some(Value::Array(values)) => {
            matches!((values.first(), values.get(1)),
                (Some(Value::Number(a)), Some(Value::Number(b))) if a > b)
        }
        _ => false,
    };
    let colors = match get("ColorSpace", "CS") {
        Some(space) => colors(document, space, unpacker)?,
        None => Colors::Gray,
    };
    matches!(bits, 1 | 2 | 4 | 8 | 16).then_some(Samples {
        width,
        height,
        bits,
        colors,
        is_inverted,
    })
}

fn colors(document: &Document<'_>, space: &Value, unpacker: &mut Unpacker<'_>) -> Option<Colors> {
    let (name, parts) = match space {
        Value::Name(name) => (&**name, &[][..]),
        Value::Array(parts) => (parts.first()?.name()?, &parts[1..]),
        _ => return None,
    };
    let part = |index: usize| parts.get(index).map(|value| document.resolve(value));
    Some(match name {
        b"DeviceRGB" | b"RGB" | b"CalRGB" => Colors::Rgb,
        b"DeviceCMYK" | b"CMYK" => Colors::Cmyk,
        b"ICCBased" => match part(0)?.dict()?.get("N").and_then(Value::integer) {
            Some(3) => Colors::Rgb,
            Some(4) => Colors::Cmyk,
            _ => Colors::Gray,
        },
        b"Indexed" | b"I" => {
            let base = match part(0)? {
                // A palette of palettes is none; this also ends the recursion.
                Value::Array(inner) if matches!(inner.first()?.name(), Some(b"Indexed" | b"I")) => {
                    return None;
                }
                base => colors(document, base, unpacker)?,
            };
            let table = match parts.get(2)? {
                Value::Reference(number) => {
                    let entry = document.object(*number)?;
                    match entry.value.text() {
                        Some(text) => text.to_vec(),
                        None => document.stream(entry, unpacker).bytes,
                    }
                }
                value => value.text()?.to_vec(),
            };
            let entries = table.chunks_exact(base.count()).take(256);
            Colors::Palette(entries.map(|entry| shade(&base, entry)).collect())
        }
        _ => Colors::Gray,
    })
}

/// The shade of one pixel's samples of 8 bits.
fn shade(colors: &Colors, pixel: &[u8]) -> u8 {
    match (colors, pixel) {
        (Colors::Rgb, [r, g, b, ..]) => lightness(*r, *g, *b),
        (Colors::Cmyk, [c, m, y, k, ..]) => lightness(255 - c, 255 - m, 255 - y).saturating_sub(*k),
        (Colors::Palette(table), [index, ..]) => {
            table.get(usize::from(*index)).copied().unwrap_or(255)
        }
        (_, [first, ..]) => *first,
        (_, []) => 255,
    }
}

fn shades(samples: &Samples, data: &[u8]) -> Option<Gray> {
    let &Samples { width, height, bits, .. } = samples;
    let count = samples.colors.count();
    let stride = width.checked_mul(bits)?.checked_mul(count)?.div_ceil(8);
    let is_palette = matches!(samples.colors, Colors::Palette(_));
    let mut pixels = Vec::new();
    if let (8, false, Colors::Gray | Colors::Rgb) = (bits, samples.is_inverted, &samples.colors) {
        // Most pictures: their samples are bytes as they stand.
        pixels::grays(&data[..data.len().min(stride * height)], count, &mut pixels);
        pixels.resize(width * height, 255);
        return (!data.is_empty()).then_some(Gray { width, height, pixels });
    }
    for row in data.chunks(stride.max(1)).take(height) {
        let mut pixel = [0_u8; 4];
        for x in 0..width {
            for (color, value) in pixel.iter_mut().enumerate().take(count) {
                let sample = sample(row, x * count + color, bits);
                // A palette's index is no shade.
                let full = if bits >= 8 { 255 } else { (1_u16 << bits) - 1 };
                let wide = if is_palette { sample } else { (u16::from(sample) * 255 / full) as u8 };
                *value = if samples.is_inverted && !is_palette { 255 - wide } else { wide };
            }
            pixels.push(shade(&samples.colors, &pixel[..count]));
        }
    }
    if pixels.is_empty() {
        return None;
    }
    pixels.resize(width * height, 255);
    Some(Gray { width, height, pixels })
}

/// Sample number `index` of a row; of 16 bits, the upper 8. Missing ones are 0.
fn sample(row: &[u8], index: usize, bits: usize) -> u8 {
    match bits {
        8 => row.get(index).copied().unwrap_or(0),
        16 => row.get(2 * index).copied().unwrap_or(0),
        _ => {
            let at = index * bits;
            let byte = row.get(at / 8).copied().unwrap_or(0);
            byte >> (8 - bits - at % 8) & ((1 << bits) - 1)
        }
    }
}

/// A dark rectangle on a page, in its coordinates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rectangle {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
    pub(super) top: f64,
}

/// Searches what dark rectangles draw: the modules of a code have about one size, so much larger
/// ones are left out.
pub(super) fn drawn(rectangles: &[Rectangle], unpacker: &mut Unpacker<'_>) {
    if rectangles.len() < RECTANGLES_MIN || unpacker.is_over() {
        return;
    }
    let finite = |r: &&Rectangle| (r.left + r.right + r.top + r.bottom).is_finite();
    let kept: Vec<&Rectangle> = rectangles.iter().filter(finite).collect();
    let edge = |value: fn(&Rectangle) -> f64, pick: fn(f64, f64) -> f64| {
        kept.iter().map(|r| value(r)).reduce(pick).unwrap_or(0.0)
    };
    let (left, right) = (edge(|r| r.left, f64::min), edge(|r| r.right, f64::max));
    let (bottom, top) = (edge(|r| r.bottom, f64::min), edge(|r| r.top, f64::max));
    let side = (right - left).max(top - bottom);
    if !side.is_finite() || side <= 0.0 {
        return;
    }
    let scale = DRAWN_SIDE as f64 / side;
    let margin = DRAWN_SIDE / 20;
    let size = DRAWN_SIDE + 2 * margin;
    let mut gray = Gray { width: size, height: size, pixels: vec![255; size * size] };
    for r in kept {
        let place = |value: f64, from: f64| ((value - from) * scale).round() as usize + margin;
        let (x0, x1) = (place(r.left, left), place(r.right, left).min(size));
        let (y0, y1) = (place(top - r.top, 0.0), place(top - r.bottom, 0.0).min(size));
        for y in y0..y1 {
            if x0 < x1 {
                gray.pixels[y * size + x0..y * size + x1].fill(0);
            }
        }
    }
    picture::search(&gray, unpacker);
}
