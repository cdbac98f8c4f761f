//! QR codes that are no pictures: block characters in text, and tables whose cells are coloured.

use super::tags::{Piece, Pieces};
use crate::formats::picture::qr;

/// Modules of a side of a code.
const SIDE_MIN: usize = 21;
const SIDE_MAX: usize = 177;
/// Lines and cells around a code.
const MARGIN_MAX: usize = 24;
/// Cells of a table that are looked at.
const CELLS_MAX: usize = 256 * 256;

/// Whether the upper and the lower half of a character are dark; none if it is no block.
fn halves(c: char) -> Option<(bool, bool)> {
    Some(match c {
        '\u{2588}' | '#' | '\u{25a0}' | '\u{2b1b}' => (true, true),
        '\u{2580}' => (true, false),
        '\u{2584}' => (false, true),
        ' ' | '\u{a0}' | '\u{2003}' | '\u{2b1c}' | '\u{25a1}' => (false, false),
        _ => return None,
    })
}

/// Codes drawn with full and half blocks, dark on light or light on dark.
pub(super) fn blocks(text: &str) -> Vec<String> {
    let is_block = |c: char| matches!(c, '\u{2580}'..='\u{2588}' | '\u{25a0}' | '\u{2b1b}');
    if !text.contains(is_block) {
        return Vec::new();
    }
    let mut codes = Vec::new();
    let mut run: Vec<Vec<(bool, bool)>> = Vec::new();
    for line in text.lines().chain(["x"]) {
        let row: Option<Vec<(bool, bool)>> = line.chars().map(halves).collect();
        match row {
            Some(row) if !row.is_empty() && row.len() <= 2 * (SIDE_MAX + MARGIN_MAX) => {
                run.push(row);
            }
            _ => {
                codes.extend(block_code(&run));
                run.clear();
            }
        }
    }
    codes
}

/// A code of lines with two rows each, one row each, or one row of two characters to a module.
fn block_code(run: &[Vec<(bool, bool)>]) -> Option<String> {
    if run.len() < SIDE_MIN / 2 || run.len() > SIDE_MAX + MARGIN_MAX {
        return None;
    }
    let has_halves = run.iter().flatten().any(|(upper, lower)| upper != lower);
    let mut rows: Vec<Vec<bool>> = Vec::new();
    for line in run {
        rows.push(line.iter().map(|(upper, _)| *upper).collect());
        if has_halves {
            rows.push(line.iter().map(|(_, lower)| *lower).collect());
        }
    }
    let doubled: Vec<Vec<bool>> =
        rows.iter().map(|row| row.iter().copied().step_by(2).collect()).collect();
    grid(&rows).or_else(|| if has_halves { None } else { grid(&doubled) })
}

/// A code of rows of modules, dark on light or light on dark, in a margin.
fn grid(rows: &[Vec<bool>]) -> Option<String> {
    let width = rows.iter().map(Vec::len).max()?;
    let is_dark = |x: usize, y: usize| rows.get(y).and_then(|row| row.get(x)) == Some(&true);
    let in_row = |y: usize| (0..width).any(|x| is_dark(x, y));
    let in_column = |x: usize| (0..rows.len()).any(|y| is_dark(x, y));
    let (top, bottom) =
        ((0..rows.len()).find(|&y| in_row(y))?, (0..rows.len()).rfind(|&y| in_row(y))?);
    let (left, right) = ((0..width).find(|&x| in_column(x))?, (0..width).rfind(|&x| in_column(x))?);
    let (across, down) = (right + 1 - left, bottom + 1 - top);
    if across == down
        && across <= SIDE_MAX
        && let Some(code) = qr::grid(across, |x, y| is_dark(left + x, top + y))
    {
        return Some(code);
    }
    // Light on dark: the dark part is the margin, of one to four modules; the last half line may
    // be missing.
    (1..=4).find_map(|margin| {
        let size = across.checked_sub(2 * margin)?;
        let height = down.checked_sub(2 * margin)?;
        if size.abs_diff(height) > 1 {
            return None;
        }
        qr::grid(size, |x, y| !is_dark(left + margin + x, top + margin + y))
    })
}

/// The first code that a table of coloured cells draws.
pub(super) fn table(page: &str) -> Option<String> {
    // A code of the smallest size has hundreds of cells.
    const CELLS_MIN: usize = 110;
    let cells = memchr::memmem::find_iter(page.as_bytes(), b"<td").take(CELLS_MIN).count();
    if cells < CELLS_MIN {
        return None;
    }
    let mut rows: Vec<Vec<bool>> = Vec::new();
    let mut cells = 0;
    for piece in Pieces::new(page) {
        match piece {
            Piece::Open { name, attributes, .. } => match name.as_str() {
                "table" => rows.clear(),
                "tr" => rows.push(Vec::new()),
                "td" | "th" => {
                    let span = attributes
                        .iter()
                        .find(|(key, _)| key == "colspan")
                        .and_then(|(_, value)| value.trim().parse::<usize>().ok())
                        .map_or(1, |span| span.clamp(1, SIDE_MAX));
                    cells += span;
                    if cells > CELLS_MAX {
                        return None;
                    }
                    let dark = attributes.iter().any(|(key, value)| is_dark(key, value));
                    if let Some(row) = rows.last_mut() {
                        row.extend(std::iter::repeat_n(dark, span));
                    }
                }
                _ => {}
            },
            Piece::Close(name) if name == "table" && rows.len() >= SIDE_MIN => {
                if let Some(code) = grid(&rows) {
                    return Some(code);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether an attribute colours a cell dark.
fn is_dark(key: &str, value: &str) -> bool {
    let value: String = value.to_ascii_lowercase().chars().filter(|c| *c != ' ').collect();
    let color = match key {
        "bgcolor" => value.as_str(),
        "style" => match value.split(';').find(|part| part.starts_with("background")) {
            Some(part) => part.split_once(':').map_or("", |(_, color)| color),
            None => return false,
        },
        "class" => return matches!(value.as_str(), "b" | "black" | "dark" | "k" | "on"),
        _ => return false,
    };
    let digits = color.trim_start_matches('#');
    match (color, digits.len()) {
        ("black" | "#000" | "navy" | "darkblue" | "rgb(0,0,0)", _) => true,
        (_, 6) => digits.as_bytes().chunks(2).all(|part| {
            let part = std::str::from_utf8(part).unwrap_or_default();
            u8::from_str_radix(part, 16).is_ok_and(|shade| shade < 0x60)
        }),
        _ => false,
    }
}
