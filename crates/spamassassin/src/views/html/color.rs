//! Colours as SpamAssassin parses them in attributes and style declarations.

/// The colour names of CSS Color Module Level 3 section 4.3, sorted.
#[rustfmt::skip]
const NAMES: &[(&str, u32)] = &[
    ("aliceblue", 0xf0f8ff), ("antiquewhite", 0xfaebd7), ("aqua", 0x00ffff),
    ("aquamarine", 0x7fffd4), ("azure", 0xf0ffff), ("beige", 0xf5f5dc), ("bisque", 0xffe4c4),
    ("black", 0x000000), ("blanchedalmond", 0xffebcd), ("blue", 0x0000ff),
    ("blueviolet", 0x8a2be2), ("brown", 0xa52a2a), ("burlywood", 0xdeb887),
    ("cadetblue", 0x5f9ea0), ("chartreuse", 0x7fff00), ("chocolate", 0xd2691e),
    ("coral", 0xff7f50), ("cornflowerblue", 0x6495ed), ("cornsilk", 0xfff8dc),
    ("crimson", 0xdc143c), ("cyan", 0x00ffff), ("darkblue", 0x00008b), ("darkcyan", 0x008b8b),
    ("darkgoldenrod", 0xb8860b), ("darkgray", 0xa9a9a9), ("darkgreen", 0x006400),
    ("darkgrey", 0xa9a9a9), ("darkkhaki", 0xbdb76b), ("darkmagenta", 0x8b008b),
    ("darkolivegreen", 0x556b2f), ("darkorange", 0xff8c00), ("darkorchid", 0x9932cc),
    ("darkred", 0x8b0000), ("darksalmon", 0xe9967a), ("darkseagreen", 0x8fbc8f),
    ("darkslateblue", 0x483d8b), ("darkslategray", 0x2f4f4f), ("darkslategrey", 0x2f4f4f),
    ("darkturquoise", 0x00ced1), ("darkviolet", 0x9400d3), ("deeppink", 0xff1493),
    ("deepskyblue", 0x00bfff), ("dimgray", 0x696969), ("dimgrey", 0x696969),
    ("dodgerblue", 0x1e90ff), ("firebrick", 0xb22222), ("floralwhite", 0xfffaf0),
    ("forestgreen", 0x228b22), ("fuchsia", 0xff00ff), ("gainsboro", 0xdcdcdc),
    ("ghostwhite", 0xf8f8ff), ("gold", 0xffd700), ("goldenrod", 0xdaa520), ("gray", 0x808080),
    ("green", 0x008000), ("greenyellow", 0xadff2f), ("grey", 0x808080), ("honeydew", 0xf0fff0),
    ("hotpink", 0xff69b4), ("indianred", 0xcd5c5c), ("indigo", 0x4b0082), ("ivory", 0xfffff0),
    ("khaki", 0xf0e68c), ("lavender", 0xe6e6fa), ("lavenderblush", 0xfff0f5),
    ("lawngreen", 0x7cfc00), ("lemonchiffon", 0xfffacd), ("lightblue", 0xadd8e6),
    ("lightcoral", 0xf08080), ("lightcyan", 0xe0ffff), ("lightgoldenrodyellow", 0xfafad2),
    ("lightgray", 0xd3d3d3), ("lightgreen", 0x90ee90), ("lightgrey", 0xd3d3d3),
    ("lightpink", 0xffb6c1), ("lightsalmon", 0xffa07a), ("lightseagreen", 0x20b2aa),
    ("lightskyblue", 0x87cefa), ("lightslategray", 0x778899), ("lightslategrey", 0x778899),
    ("lightsteelblue", 0xb0c4de), ("lightyellow", 0xffffe0), ("lime", 0x00ff00),
    ("limegreen", 0x32cd32), ("linen", 0xfaf0e6), ("magenta", 0xff00ff), ("maroon", 0x800000),
    ("mediumaquamarine", 0x66cdaa), ("mediumblue", 0x0000cd), ("mediumorchid", 0xba55d3),
    ("mediumpurple", 0x9370db), ("mediumseagreen", 0x3cb371), ("mediumslateblue", 0x7b68ee),
    ("mediumspringgreen", 0x00fa9a), ("mediumturquoise", 0x48d1cc), ("mediumvioletred", 0xc71585),
    ("midnightblue", 0x191970), ("mintcream", 0xf5fffa), ("mistyrose", 0xffe4e1),
    ("moccasin", 0xffe4b5), ("navajowhite", 0xffdead), ("navy", 0x000080), ("oldlace", 0xfdf5e6),
    ("olive", 0x808000), ("olivedrab", 0x6b8e23), ("orange", 0xffa500), ("orangered", 0xff4500),
    ("orchid", 0xda70d6), ("palegoldenrod", 0xeee8aa), ("palegreen", 0x98fb98),
    ("paleturquoise", 0xafeeee), ("palevioletred", 0xdb7093), ("papayawhip", 0xffefd5),
    ("peachpuff", 0xffdab9), ("peru", 0xcd853f), ("pink", 0xffc0cb), ("plum", 0xdda0dd),
    ("powderblue", 0xb0e0e6), ("purple", 0x800080), ("red", 0xff0000), ("rosybrown", 0xbc8f8f),
    ("royalblue", 0x4169e1), ("saddlebrown", 0x8b4513), ("salmon", 0xfa8072),
    ("sandybrown", 0xf4a460), ("seagreen", 0x2e8b57), ("seashell", 0xfff5ee),
    ("sienna", 0xa0522d), ("silver", 0xc0c0c0), ("skyblue", 0x87ceeb), ("slateblue", 0x6a5acd),
    ("slategray", 0x708090), ("slategrey", 0x708090), ("snow", 0xfffafa),
    ("springgreen", 0x00ff7f), ("steelblue", 0x4682b4), ("tan", 0xd2b48c), ("teal", 0x008080),
    ("thistle", 0xd8bfd8), ("tomato", 0xff6347), ("turquoise", 0x40e0d0), ("violet", 0xee82ee),
    ("wheat", 0xf5deb3), ("white", 0xffffff), ("whitesmoke", 0xf5f5f5), ("yellow", 0xffff00),
    ("yellowgreen", 0x9acd32),
];

/// A colour, or SpamAssassin's result for invalid ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Color {
    /// Red, green and blue.
    Rgb(u8, u8, u8),
    /// Not a colour that HTML knows.
    Invalid,
    /// `transparent`, until it is replaced by the colour behind it.
    Transparent,
    /// A `#` without digits.
    Empty,
}

impl Color {
    pub(super) const WHITE: Color = Color::Rgb(255, 255, 255);
    pub(super) const BLACK: Color = Color::Rgb(0, 0, 0);

    fn of_number(rgb: u32) -> Color {
        let [_, r, g, b] = rgb.to_be_bytes();
        Color::Rgb(r, g, b)
    }

    /// A `#` and digits only, the usual form; `None` for others.
    pub(super) fn of_digits(text: &str) -> Option<Color> {
        let is_digit = |b: u8| b == b'#' || b.is_ascii_hexdigit();
        (text.starts_with('#') && text.bytes().all(is_digit)).then(|| hex_color(text))
    }

    /// A colour attribute: a name, `#` and digits, or `rgb(...)`. Digits without `#` are invalid.
    pub(super) fn of_name(text: &str) -> Color {
        if let Some(color) = Color::of_digits(text) {
            return color;
        }
        let text = lower_trimmed(text);
        if let Ok(i) = NAMES.binary_search_by(|n| n.0.cmp(&text)) {
            return Color::of_number(NAMES[i].1);
        }
        if let Some(hex) = rgb_call(&text) {
            return hex_color(&hex);
        }
        let plain =
            text.bytes().all(|b| b == b'#' || b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if (plain || has_rgb_shape(&text)) && text.starts_with('#') {
            hex_color(&text)
        } else {
            Color::Invalid
        }
    }

    /// The value of a `color:` declaration, in lower case. `None` changes nothing.
    pub(super) fn of_declaration(value: &str) -> Option<Color> {
        if value.contains("rgb") {
            let kept: String = value.chars().filter(|c| c.is_ascii_digit() || *c == ',').collect();
            let mut parts = kept.split(',').map(|n| match n.trim_start_matches('0') {
                "" => 0,
                n => n.parse::<u32>().unwrap_or(u32::MAX).min(255) as u8,
            });
            let mut next = || parts.next().unwrap_or(0);
            return Some(Color::Rgb(next(), next(), next()));
        }
        match value {
            "inherit" => None,
            "transparent" => Some(Color::Transparent),
            _ => Some(Color::of_name(value)),
        }
    }

    /// Whether text of this colour on `background` counts as the same colour.
    pub(super) fn same(self, background: Color) -> bool {
        self == background
    }

    /// Distance to another colour, weighted by brightness, at most about 191; `None` if one of the
    /// two is no colour.
    pub(super) fn distance(self, other: Color) -> Option<f64> {
        let (Color::Rgb(r1, g1, b1), Color::Rgb(r2, g2, b2)) = (self, other) else { return None };
        let part = |a: u8, b: u8, weight: f64| (weight * (f64::from(a) - f64::from(b))).powi(2);
        Some((part(r1, r2, 0.2126) + part(g1, g2, 0.7152) + part(b1, b2, 0.0722)).sqrt())
    }
}

fn lower_trimmed(text: &str) -> String {
    text.trim_matches(|c: char| c.is_whitespace()).to_lowercase()
}

/// Digits of a `#` colour: cut at 6, then 4 and 5 at 3; padded with zeros; 3 are doubled.
fn hex_color(text: &str) -> Color {
    let mut digits = [b'0'; 6];
    let found = text.bytes().filter(u8::is_ascii_hexdigit).take(6);
    let count = found.zip(&mut digits).map(|(digit, slot)| *slot = digit).count();
    let number = match count {
        0 => return Color::Empty,
        6 => digits,
        _ => {
            let [a, b, c, ..] = digits;
            [a, a, b, b, c, c]
        }
    };
    let number = std::str::from_utf8(&number).ok().and_then(|d| u32::from_str_radix(d, 16).ok());
    number.map_or(Color::Empty, Color::of_number)
}

/// Contains `rgb(` digits, percent signs, commas and spaces `)`.
fn has_rgb_shape(text: &str) -> bool {
    text.match_indices("rgb(").any(|(i, _)| {
        let rest = &text[i + 4..];
        let inside = rest.bytes().take_while(|b| matches!(b, b'0'..=b'9' | b'%' | b',' | b' '));
        rest.as_bytes().get(inside.count()) == Some(&b')')
    })
}

/// `rgb(1, 2, 3)` or `rgb(1%, 2%, 3%)` as `#` and hexadecimal digits.
fn rgb_call(text: &str) -> Option<String> {
    let start = text.find("rgb(")? + 4;
    let inside = &text[start..start + text[start..].find(')')?];
    let mut hex = String::from("#");
    let percent = inside.contains('%');
    let mut count = 0;
    for part in inside.split(',') {
        // Spaces may precede a number, and follow the last one.
        let part = if count == 0 { part } else { part.trim_start() };
        let part = if count == 2 { part.trim_end() } else { part };
        let digits = if percent { part.strip_suffix('%')? } else { part };
        if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let number: u64 = digits.parse().ok()?;
        let number = if percent { (number as f64 / 100.0 * 255.0) as u64 } else { number };
        hex.push_str(&format!("{number:02x}"));
        count += 1;
    }
    (count == 3).then_some(hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_numbers_and_calls() {
        assert!(NAMES.is_sorted_by_key(|n| n.0));
        assert_eq!(Color::of_name(" White"), Color::WHITE);
        assert_eq!(Color::of_name("#fff"), Color::WHITE);
        assert_eq!(Color::of_name("#12345678"), Color::Rgb(0x12, 0x34, 0x56));
        assert_eq!(Color::of_name("#1"), Color::Rgb(0x11, 0, 0));
        assert_eq!(Color::of_name("#1a"), Color::Rgb(0x11, 0xaa, 0));
        assert_eq!(Color::of_name("#1A2b"), Color::Rgb(0x11, 0xaa, 0x22));
        assert_eq!(Color::of_name("#1A2b#3"), Color::Rgb(0x11, 0xaa, 0x22));
        assert_eq!(Color::of_name("#"), Color::Empty);
        assert_eq!(Color::of_name("ffffff"), Color::Invalid);
        assert_eq!(Color::of_name("rgb(1, 2,3 )"), Color::Rgb(1, 2, 3));
        assert_eq!(Color::of_name("rgb(100%,0%,0%)"), Color::Rgb(255, 0, 0));
        assert_eq!(Color::of_declaration("rgba(1,2,3,0.5)"), Some(Color::Rgb(1, 2, 3)));
        assert_eq!(Color::of_declaration("rgb(999,0)"), Some(Color::Rgb(255, 0, 0)));
        assert_eq!(Color::of_declaration("inherit"), None);
    }
}
