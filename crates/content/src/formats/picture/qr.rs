//! QR codes in a picture, dark on light and light on dark, upright or rotated.
//!
//! A cheap count of finder patterns decides what is searched: most pictures have none. The search
//! and the error correction are those of the crate `rqrr`; what it costs grows with the square of
//! the patterns, so a crowded picture is searched in parts.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::bits::Bits;
use super::finder::{self, Finder};
use super::gray::Gray;

/// Codes that are kept of one picture.
const CODES_MAX: usize = 32;
/// Pixels of a picture at which codes are searched first: a larger one is made smaller.
const SEARCHED_PIXELS_MAX: usize = 4_000_000;
/// Pictures smaller than this on both sides are enlarged: a module may have a single pixel.
const SMALL_SIDE: usize = 160;
/// Finder patterns of one part that is searched.
const FINDERS_MAX: usize = 16;
/// Patterns up to which two of them are enough.
const FEW_FINDERS: usize = 5;
/// Patterns up to which the three corners of a code are looked for.
const COMPARED_MAX: usize = 160;
/// Pixels of all parts of one picture that are searched: parts overlap.
const PARTS_PIXELS_MAX: usize = 24_000_000;
/// How often a crowded part is divided by two on each side.
const DIVISIONS_MAX: usize = 4;
/// White pixels put around a part: the search wants a margin.
const MARGIN: usize = 8;
/// Bytes of one code's text; the largest code holds 7,089 digits.
const CODE_BYTES_MAX: usize = 7_089;

/// What a search found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// What the codes say, each once.
    pub(crate) codes: Vec<String>,
    /// Some part has more patterns than are searched.
    pub(crate) crowded: bool,
    /// Pixels of the parts that were searched.
    searched: usize,
}

/// Searches a picture: smaller than it is first, as it is if that found nothing.
pub(crate) fn search(gray: &Gray) -> Found {
    let mut found = Found::default();
    if gray.width.max(gray.height) < SMALL_SIDE {
        let (dark, light) = finder::find(&Bits::of(gray));
        if dark.len().max(light.len()) >= 2 {
            search_at(&gray.larger(4), &mut found);
        }
        return found;
    }
    let mut factor = 1;
    while gray.width * gray.height / (factor * factor) > SEARCHED_PIXELS_MAX {
        factor += 1;
    }
    if factor > 1 {
        search_at(&gray.smaller(factor), &mut found);
        if !found.codes.is_empty() {
            return found;
        }
        found.crowded = false;
    }
    search_at(gray, &mut found);
    found
}

/// Searches in one size, for both kinds of contrast.
fn search_at(gray: &Gray, found: &mut Found) {
    if gray.width == 0 || gray.height == 0 {
        return;
    }
    let bits = Bits::of(gray);
    let whole = Part { x: 0, y: 0, width: bits.width, height: bits.height };
    let (dark, light) = finder::find(&bits);
    search_part(&bits, false, whole, &dark, 0, found);
    if may_be_code(&whole.finders(&light)) {
        search_part(&Bits::of(&gray.inverted()), false, whole, &light, 0, found);
        if found.codes.is_empty() {
            search_part(&bits, true, whole, &light, 0, found);
        }
    }
}

/// A rectangle of a picture.
#[derive(Debug, Clone, Copy)]
struct Part {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

impl Part {
    fn finders<'f>(&self, all: &'f [Finder]) -> Vec<&'f Finder> {
        let inside = |f: &&Finder| {
            (self.x..self.x + self.width).contains(&f.x)
                && (self.y..self.y + self.height).contains(&f.y)
        };
        all.iter().filter(inside).collect()
    }

    /// Four overlapping parts, each six tenths of a side.
    fn divided(&self) -> [Part; 4] {
        let (width, height) = (self.width * 6 / 10, self.height * 6 / 10);
        let (right, below) = (self.x + self.width - width, self.y + self.height - height);
        [(self.x, self.y), (right, self.y), (self.x, below), (right, below)].map(|(x, y)| Part {
            x,
            y,
            width,
            height,
        })
    }
}

fn search_part(
    bits: &Bits,
    invert: bool,
    part: Part,
    finders: &[Finder],
    division: usize,
    found: &mut Found,
) {
    let near = part.finders(finders);
    if found.codes.len() >= CODES_MAX || !may_be_code(&near) {
        return;
    }
    if near.len() > FINDERS_MAX {
        if division >= DIVISIONS_MAX {
            found.crowded = true;
            return;
        }
        for smaller in part.divided() {
            search_part(bits, invert, smaller, finders, division + 1, found);
        }
        return;
    }
    found.searched += part.width * part.height;
    if found.searched > PARTS_PIXELS_MAX {
        found.crowded = true;
        return;
    }
    for code in codes(bits, invert, part) {
        if found.codes.len() < CODES_MAX && !found.codes.contains(&code) {
            found.codes.push(code);
        }
    }
}

/// Whether patterns lie to each other as those of a code. Two of the three are enough where they
/// are few: the count may miss one that the search finds.
fn may_be_code(near: &[&Finder]) -> bool {
    match near.len() {
        0 | 1 => false,
        2..=FEW_FINDERS => near
            .iter()
            .enumerate()
            .any(|(index, from)| near[index + 1..].iter().any(|to| arm(from, to).is_some())),
        ..=COMPARED_MAX => near.iter().any(|corner| is_corner(corner, near)),
        _ => true,
    }
}

/// The way from one pattern to another, if they may be of one code.
fn arm(from: &Finder, to: &Finder) -> Option<(f64, f64)> {
    let (x, y) = (to.x as f64 - from.x as f64, to.y as f64 - from.y as f64);
    let (size, other) = (from.size as f64, to.size as f64);
    // 14 to 170 modules, of which a pattern has 7; a turned one is seen larger.
    let distance = x.hypot(y) / size.max(other);
    ((1.2..=26.0).contains(&distance) && (0.5..=2.0).contains(&(size / other))).then_some((x, y))
}

/// Whether two others of about the same size lie at about a right angle and the same distance, as
/// the three patterns of a code do, seen slanted too.
fn is_corner(corner: &Finder, all: &[&Finder]) -> bool {
    let arms: Vec<(f64, f64)> = all.iter().filter_map(|other| arm(corner, other)).collect();
    arms.iter().enumerate().any(|(index, (x, y))| {
        arms.iter().skip(index + 1).any(|(u, v)| {
            let (long, short) = (x.hypot(*y), u.hypot(*v));
            let cosine = (x * u + y * v) / (long * short);
            (0.6..=1.67).contains(&(long / short)) && cosine.abs() < 0.5
        })
    })
}

/// The codes that the crate finds in a part. A panic of it is as if it found none.
fn codes(bits: &Bits, invert: bool, part: Part) -> Vec<String> {
    let pixel = |x: usize, y: usize| {
        let inside = (MARGIN..part.width + MARGIN).contains(&x)
            && (MARGIN..part.height + MARGIN).contains(&y);
        inside && bits.at(part.x + x - MARGIN, part.y + y - MARGIN) != invert
    };
    let search = || {
        let (width, height) = (part.width + 2 * MARGIN, part.height + 2 * MARGIN);
        let mut image = rqrr::PreparedImage::prepare_from_bitmap(width, height, pixel);
        let mut codes = Vec::new();
        for grid in image.detect_grids().iter().take(CODES_MAX) {
            codes.extend(text(grid));
        }
        codes
    };
    catch_unwind(AssertUnwindSafe(search)).unwrap_or_default()
}

/// What a grid of modules says, `size` to a side: codes that are no pictures.
pub(crate) fn grid(size: usize, dark: impl Fn(usize, usize) -> bool) -> Option<String> {
    if !(21..=177).contains(&size) || size % 4 != 1 {
        return None;
    }
    let read = || text(&rqrr::Grid::new(rqrr::SimpleGrid::from_func(size, &dark)));
    catch_unwind(AssertUnwindSafe(read)).ok().flatten()
}

fn text<G: rqrr::BitGrid>(grid: &rqrr::Grid<G>) -> Option<String> {
    let mut bytes = Vec::new();
    grid.decode_to(&mut bytes).ok()?;
    bytes.truncate(CODE_BYTES_MAX);
    let text = crate::text::decode(&bytes);
    (!text.trim().is_empty()).then_some(text)
}

/// The URL that a code says: with a scheme, or a host name as telephones take it.
pub(crate) fn url(code: &str) -> Option<&str> {
    let code = code.trim();
    // Some codes say a word first, as bookmarks do: `MEBKM:TITLE:x;URL:http\://...`.
    let lower = code.to_ascii_lowercase();
    if let Some(at) = ["http://", "https://", "ftp://"].iter().filter_map(|s| lower.find(s)).min() {
        let url = &code[at..];
        return url.split([' ', '\n', '\r', '\t', ';']).next();
    }
    let host = code.split(['/', '?', '#', ':']).next().unwrap_or_default();
    let mut labels = host.rsplit('.');
    let top = labels.next().unwrap_or_default();
    let is_top = top.len() >= 2 && top.chars().all(char::is_alphabetic);
    let is_host = is_top
        && labels.clone().count() >= 1
        && labels.all(|l| !l.is_empty() && l.chars().all(|c| c.is_alphanumeric() || c == '-'));
    (is_host && !code.contains(char::is_whitespace)).then_some(code)
}
