//! Finder patterns of QR codes (ISO/IEC 18004 section 6.3.3): squares that any line through their
//! middle cuts as 1:1:3:1:1. Counting them tells, cheaply, whether a picture is worth a search.

use super::bits::Bits;

/// A place that looks like a finder pattern.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Finder {
    pub(crate) x: usize,
    pub(crate) y: usize,
    /// Width of the pattern in pixels.
    pub(crate) size: usize,
}

/// Places kept of one picture.
const FINDERS_MAX: usize = 4_096;
/// Every so many rows are looked at: the dark middle of the smallest pattern has three.
const ROWS: usize = 2;
/// Runs of a pattern.
const RUNS: [usize; 5] = [1, 1, 3, 1, 1];

/// The finder patterns that are dark, and those that are light.
pub(crate) fn find(bits: &Bits) -> (Vec<Finder>, Vec<Finder>) {
    let (mut dark, mut light) = (Vec::new(), Vec::new());
    for y in (0..bits.height).step_by(ROWS) {
        // Lengths of the last five runs, the newest last, and the shade of the one that grows.
        let mut runs = [0_usize; 5];
        let mut shade = false;
        let mut start = 0;
        // What lies outside ends a run of a pattern.
        for x in bits.changes(y).chain([bits.width]) {
            runs = [runs[1], runs[2], runs[3], runs[4], x - start];
            if is_pattern(runs) {
                note(bits, shade, y, x, runs, if shade { &mut dark } else { &mut light });
            }
            (shade, start) = (!shade, x);
        }
        if dark.len().max(light.len()) >= FINDERS_MAX {
            break;
        }
    }
    (dark, light)
}

/// Whether five runs have the ratio of a pattern, with half a module to spare.
fn is_pattern(runs: [usize; 5]) -> bool {
    // Most runs are none by this alone.
    if runs[2] <= runs[1] || runs[2] <= runs[3] {
        return false;
    }
    let total: usize = runs.iter().sum();
    // In units of a seventh of a module.
    total >= 7
        && runs.iter().zip(RUNS).all(|(&run, modules)| {
            let spare = if modules == 3 { total * 3 / 4 } else { total / 2 };
            (7 * run).abs_diff(total * modules) <= spare
        })
}

/// Looks at the column through the middle of what a row found, and keeps it once.
fn note(bits: &Bits, dark: bool, y: usize, end: usize, runs: [usize; 5], found: &mut Vec<Finder>) {
    if found.len() >= FINDERS_MAX {
        return;
    }
    let size: usize = runs.iter().sum();
    let x = end - runs[4] - runs[3] - runs[2] / 2 - 1;
    if found
        .iter()
        .rev()
        .take(64)
        .any(|f| f.x.abs_diff(x) < f.size / 2 && f.y.abs_diff(y) < f.size / 2 && f.size < 2 * size)
    {
        return;
    }
    let Some((middle, height)) = column(bits, dark, x, y, size) else { return };
    if height > 2 * size || size > 2 * height {
        return;
    }
    if !is_square(bits, dark, x, middle, size.max(height)) {
        return;
    }
    found.push(Finder { x, y: middle, size: size.max(height) });
}

/// Whether the diagonals are dark near the middle, as they are however the square is turned. Where
/// a module has a pixel or two, chance makes many patterns, and a turned one cannot be read: there
/// they are light further out, too. One of eight places may be wrong.
fn is_square(bits: &Bits, dark: bool, x: usize, y: usize, size: usize) -> bool {
    let is_small = size < 2 * 7;
    // Half a module on each axis, 1.63 for the light ones, rounded.
    let core = (size + 7) / 14;
    let ring = (size * 163 + 350) / 700;
    let count = |distance: usize, shade: bool| {
        let (right, below) = (x + distance, y + distance);
        let (left, above) = (x.checked_sub(distance), y.checked_sub(distance));
        let is = |x: Option<usize>, y: Option<usize>| match (x, y) {
            (Some(x), Some(y)) if x < bits.width && y < bits.height => {
                (bits.at(x, y) == dark) == shade
            }
            _ => false,
        };
        usize::from(is(left, above))
            + usize::from(is(Some(right), above))
            + usize::from(is(left, Some(below)))
            + usize::from(is(Some(right), Some(below)))
    };
    let dark_places = count(core, true);
    if is_small { dark_places + count(ring, false) >= 7 } else { dark_places == 4 }
}

/// The runs of a column around a pixel: the middle and length of a pattern, if they are one.
fn column(bits: &Bits, dark: bool, x: usize, y: usize, size: usize) -> Option<(usize, usize)> {
    let max = 2 * size;
    let length = |from: usize, step: isize, shade: bool| {
        let mut at = from;
        let mut count = 0;
        while count < max && at < bits.height && (bits.at(x, at) == dark) == shade {
            count += 1;
            match at.checked_add_signed(step) {
                Some(next) => at = next,
                None => break,
            }
        }
        count
    };
    let up = length(y, -1, true);
    let up_light = y.checked_sub(up).map(|at| (at, length(at, -1, false)))?;
    let up_dark = up_light.0.checked_sub(up_light.1).map_or(0, |at| length(at, -1, true));
    let down = length(y + 1, 1, true);
    let down_light = length(y + 1 + down, 1, false);
    let down_dark = length(y + 1 + down + down_light, 1, true);
    let runs = [up_dark, up_light.1, up + down, down_light, down_dark];
    let top = y + 1 - up;
    is_pattern(runs).then(|| (top + (up + down) / 2, runs.iter().sum()))
}
