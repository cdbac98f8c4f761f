//! CSS colours (CSS Color Module Level 4), as far as mail uses them, and whether two look alike.

/// Red, green and blue, 0 to 255 each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rgb(pub u8, pub u8, pub u8);

/// What a colour value says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// An opaque (or nearly opaque) colour.
    Solid(Rgb),
    /// `transparent`, or an alpha below a tenth.
    Transparent,
}

/// Two colours whose channels differ by no more than this in sum are indistinguishable as text on a
/// background: white on `#f7f7f7`.
const INDISTINGUISHABLE_SUM_MAX: u32 = 24;

impl Rgb {
    /// The colour behind text unless a page says otherwise.
    pub const WHITE: Rgb = Rgb(255, 255, 255);
    /// The colour of text unless a page says otherwise.
    pub const BLACK: Rgb = Rgb(0, 0, 0);

    /// Whether text of one colour on the other cannot be read.
    pub fn is_indistinguishable_from(self, other: Rgb) -> bool {
        let sum = u32::from(self.0.abs_diff(other.0))
            + u32::from(self.1.abs_diff(other.1))
            + u32::from(self.2.abs_diff(other.2));
        sum <= INDISTINGUISHABLE_SUM_MAX
    }
}

/// Reads `#rgb`, `#rrggbb` (the `#` may be missing, as in attributes), `rgb()`, `rgba()`, and
/// names.
pub fn parse(value: &[u8]) -> Option<Colour> {
    let value = value.trim_ascii();
    if let Some(hex) = value.strip_prefix(b"#") {
        return hex_digits(hex);
    }
    let lower = value.to_ascii_lowercase();
    if let Some(arguments) = lower.strip_prefix(b"rgb") {
        return function(arguments.strip_prefix(b"a").unwrap_or(arguments));
    }
    if lower == b"transparent" {
        return Some(Colour::Transparent);
    }
    let named = NAMED.binary_search_by(|(name, _)| name.as_bytes().cmp(&lower[..]));
    match named {
        Ok(i) => Some(Colour::Solid(from_u32(NAMED[i].1))),
        Err(_) if value.len() == 6 => hex_digits(value),
        Err(_) => None,
    }
}

fn from_u32(value: u32) -> Rgb {
    let [_, r, g, b] = value.to_be_bytes();
    Rgb(r, g, b)
}

fn hex_digits(digits: &[u8]) -> Option<Colour> {
    let digit = |i: usize| digits.get(i).copied().and_then(crate::encoding::hex);
    let short = |i: usize| digit(i).map(|d| d * 17);
    let long = |i: usize| Some(digit(i)? << 4 | digit(i + 1)?);
    let (rgb, alpha) = match digits.len() {
        3 => (Rgb(short(0)?, short(1)?, short(2)?), 255),
        4 => (Rgb(short(0)?, short(1)?, short(2)?), short(3)?),
        6 => (Rgb(long(0)?, long(2)?, long(4)?), 255),
        8 => (Rgb(long(0)?, long(2)?, long(4)?), long(6)?),
        _ => return None,
    };
    Some(if alpha < 26 { Colour::Transparent } else { Colour::Solid(rgb) })
}

/// `(r, g, b)`, `(r g b / a)`, numbers or percentages.
fn function(arguments: &[u8]) -> Option<Colour> {
    let inside = arguments.trim_ascii().strip_prefix(b"(")?;
    let inside = inside.strip_suffix(b")").unwrap_or(inside);
    let mut values = inside
        .split(|b| matches!(b, b',' | b' ' | b'/'))
        .filter(|v| !v.is_empty())
        .map(|v| super::css_value::number(v).map(|(n, unit)| (n, unit == b"%")));
    let mut channel = || {
        let (n, percent) = values.next()??;
        Some((if percent { n * 2.55 } else { n }).clamp(0.0, 255.0) as u8)
    };
    let rgb = Rgb(channel()?, channel()?, channel()?);
    let alpha =
        values.next().flatten().map_or(1.0, |(n, percent)| if percent { n / 100.0 } else { n });
    Some(if alpha < 0.1 { Colour::Transparent } else { Colour::Solid(rgb) })
}

/// The sixteen names of HTML 4 and those that mail uses besides, sorted.
#[rustfmt::skip]
const NAMED: &[(&str, u32)] = &[
    ("aliceblue", 0xf0f8ff), ("antiquewhite", 0xfaebd7), ("aqua", 0x00ffff), ("azure", 0xf0ffff),
    ("beige", 0xf5f5dc), ("black", 0), ("blue", 0x0000ff), ("brown", 0xa52a2a),
    ("cornsilk", 0xfff8dc), ("crimson", 0xdc143c), ("cyan", 0x00ffff), ("darkblue", 0x00008b),
    ("darkgray", 0xa9a9a9), ("darkgreen", 0x006400), ("darkgrey", 0xa9a9a9), ("darkred", 0x8b0000),
    ("dimgray", 0x696969), ("dimgrey", 0x696969), ("floralwhite", 0xfffaf0), ("fuchsia", 0xff00ff),
    ("gainsboro", 0xdcdcdc), ("ghostwhite", 0xf8f8ff), ("gold", 0xffd700), ("gray", 0x808080),
    ("green", 0x008000), ("grey", 0x808080), ("honeydew", 0xf0fff0), ("indigo", 0x4b0082),
    ("ivory", 0xfffff0), ("lavender", 0xe6e6fa), ("lavenderblush", 0xfff0f5),
    ("lemonchiffon", 0xfffacd), ("lightblue", 0xadd8e6), ("lightcyan", 0xe0ffff),
    ("lightgray", 0xd3d3d3), ("lightgreen", 0x90ee90), ("lightgrey", 0xd3d3d3),
    ("lightyellow", 0xffffe0), ("lime", 0x00ff00), ("linen", 0xfaf0e6), ("magenta", 0xff00ff),
    ("maroon", 0x800000), ("mintcream", 0xf5fffa), ("navy", 0x000080), ("oldlace", 0xfdf5e6),
    ("olive", 0x808000), ("orange", 0xffa500), ("orangered", 0xff4500), ("pink", 0xffc0cb),
    ("purple", 0x800080), ("red", 0xff0000), ("royalblue", 0x4169e1), ("seashell", 0xfff5ee),
    ("silver", 0xc0c0c0), ("skyblue", 0x87ceeb), ("slategray", 0x708090), ("snow", 0xfffafa),
    ("steelblue", 0x4682b4), ("tan", 0xd2b48c), ("teal", 0x008080), ("tomato", 0xff6347),
    ("violet", 0xee82ee), ("white", 0xffffff), ("whitesmoke", 0xf5f5f5), ("yellow", 0xffff00),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notations() {
        assert!(NAMED.is_sorted_by(|a, b| a.0 < b.0));
        let white = Some(Colour::Solid(Rgb::WHITE));
        for value in
            ["#fff", "#FFFFFF", "white", "ffffff", "rgb(255,255,255)", "rgb(100% 100% 100%)"]
        {
            assert_eq!(parse(value.as_bytes()), white, "{value}");
        }
        assert_eq!(parse(b"rgba(1,2,3,0)"), Some(Colour::Transparent));
        assert_eq!(parse(b"#12"), None);
        assert_eq!(parse(b"inherit"), None);
        assert!(Rgb::WHITE.is_indistinguishable_from(Rgb(250, 250, 250)));
        assert!(!Rgb::WHITE.is_indistinguishable_from(Rgb(200, 200, 200)));
    }
}
