//! CSS values: numbers, lengths and text sizes (CSS Values and Units).

/// Initial size of text in CSS pixels.
pub(super) const MEDIUM_PX: f32 = 16.0;

/// A number and what follows it: `-1.5em`.
pub(super) fn number(value: &[u8]) -> Option<(f32, &[u8])> {
    let value = value.trim_ascii();
    let end = value
        .iter()
        .position(|b| !matches!(b, b'0'..=b'9' | b'.' | b'-' | b'+'))
        .unwrap_or(value.len());
    let digits = std::str::from_utf8(&value[..end]).ok()?;
    let number: f32 = digits.parse().ok()?;
    number.is_finite().then_some((number, value[end..].trim_ascii()))
}

/// A font weight without unit, as in `font: 700 12px x`.
pub(super) fn is_weight(word: &[u8]) -> bool {
    matches!(number(word), Some((n, unit)) if unit.is_empty() && n >= 100.0)
}

/// A length in CSS pixels; `parent_px` is the text size that `em` and `ex` count in.
pub(super) fn length_px(value: &[u8], parent_px: f32) -> Option<f32> {
    let (n, unit) = number(value)?;
    let factor = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"px" => 1.0,
        b"pt" => 4.0 / 3.0,
        b"pc" => 16.0,
        b"in" => 96.0,
        b"cm" => 37.8,
        b"mm" => 3.78,
        b"em" => parent_px,
        b"rem" => MEDIUM_PX,
        b"ex" | b"ch" => parent_px / 2.0,
        // Of an unknown box: only zero means something.
        b"%" | b"vw" | b"vh" if n == 0.0 => 1.0,
        _ => return None,
    };
    Some(n * factor)
}

/// A text size in CSS pixels.
pub(super) fn font_size(value: &[u8], parent_px: f32) -> Option<f32> {
    if let Some((n, b"%")) = number(value) {
        return Some(parent_px * n / 100.0);
    }
    if let Some(px) = length_px(value, parent_px) {
        return (px >= 0.0).then_some(px);
    }
    // The least of the keywords, xx-small, is 9 pixels: all can be read.
    let first = value.first()?;
    first.is_ascii_alphabetic().then_some(MEDIUM_PX)
}
