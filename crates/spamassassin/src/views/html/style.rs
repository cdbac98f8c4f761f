//! Fonts and colours of the open elements, as far as SpamAssassin tracks them, and whether text is
//! visible.

use std::sync::LazyLock;

use regex::Regex;

use super::HtmlState;
use super::color::Color;
use super::parser::Attributes;

/// Most open elements; deeper ones do not change the style.
const DEPTH_MAX: usize = 100_000;

/// Elements that change the style; `th` counts as `td`.
const KINDS: [&str; 13] = [
    "default", "body", "font", "table", "tr", "td", "big", "small", "basefont", "span", "p", "div",
    "a",
];

fn kind_of(tag: &str) -> Option<u8> {
    let tag = if tag == "th" { "td" } else { tag };
    KINDS.iter().position(|k| *k == tag).map(|i| i as u8)
}

/// The style of text inside one open element.
#[derive(Debug, Clone, Copy)]
struct Style {
    kind: u8,
    color: Color,
    background: Color,
    size: f64,
    display_none: bool,
    visibility_hidden: bool,
}

/// The open elements, innermost last.
#[derive(Debug)]
pub(super) struct StyleStack {
    open: Vec<Style>,
    /// How many of each kind are open.
    count: [u32; KINDS.len()],
    basefont: f64,
}

impl Default for StyleStack {
    fn default() -> Self {
        let style = Style {
            kind: 0,
            color: Color::BLACK,
            background: Color::WHITE,
            size: 3.0,
            display_none: false,
            visibility_hidden: false,
        };
        let mut count = [0; KINDS.len()];
        count[0] = 1;
        StyleStack { open: vec![style], count, basefont: 3.0 }
    }
}

impl StyleStack {
    fn top(&self) -> Option<&Style> {
        self.open.last()
    }

    fn pop(&mut self) -> Option<u8> {
        let kind = self.open.pop()?.kind;
        self.count[usize::from(kind)] -= 1;
        Some(kind)
    }

    fn push(&mut self, style: Style) {
        if self.open.len() < DEPTH_MAX {
            self.count[usize::from(style.kind)] += 1;
            self.open.push(style);
        }
    }

    /// A new cell or row closes the one before, through `font` only.
    fn close_table(&mut self, row: bool) {
        let (font, tr, td) = (2, 4, 5);
        if self.count[usize::from(if row { tr } else { td })] == 0 {
            return;
        }
        while let Some(top) = self.top() {
            let closes = top.kind == font || top.kind == td || row && top.kind == tr;
            if !closes {
                break;
            }
            self.pop();
        }
    }

    /// Closes everything up to the innermost element of this name, if one is open.
    pub(super) fn close(&mut self, tag: &str) {
        let Some(kind) = kind_of(tag) else { return };
        if self.count[usize::from(kind)] == 0 {
            return;
        }
        while let Some(closed) = self.pop() {
            if closed == kind {
                break;
            }
        }
    }

    /// Opens an element. Returns the font size that counts for the smallest and largest, if an
    /// attribute was applied.
    pub(super) fn open(&mut self, tag: &str, attributes: &Attributes<'_>) -> Option<f64> {
        let kind = kind_of(tag)?;
        let tag = KINDS[usize::from(kind)];
        if tag == "basefont"
            && let Some(size) = attributes.get("size").and_then(|s| leading_number(&s.chars))
        {
            self.basefont = size;
            return None;
        }
        if tag == "td" || tag == "tr" {
            self.close_table(tag == "tr");
        }
        let outer = *self.top()?;
        let mut style = Style { kind, ..outer };
        match tag {
            "big" => style.size += 1.0,
            "small" => style.size -= 1.0,
            _ => {
                let applied = self.apply(tag, attributes, outer, &mut style);
                self.push(style);
                return applied.then_some(style.size);
            }
        }
        self.push(style);
        None
    }

    /// Applies the attributes that count for this element; returns whether there was one.
    fn apply(&self, tag: &str, attributes: &Attributes<'_>, outer: Style, new: &mut Style) -> bool {
        let names: &[&str] = match tag {
            "body" => &["text", "bgcolor", "link", "alink", "vlink", "background"],
            "font" | "basefont" => &["color", "face", "size"],
            "table" | "td" | "tr" => &["bgcolor", "style"],
            "span" | "p" | "div" | "a" => &["style"],
            _ => &[],
        };
        let mut applied = false;
        for name in names {
            if !matches!(*name, "text" | "color" | "size" | "style") {
                // A background colour given as an attribute never reaches SpamAssassin's styles.
                applied |= attributes.has(name);
                continue;
            }
            let Some(value) = attributes.get(name) else { continue };
            applied = true;
            match *name {
                "size" => {
                    if let Some(step) = signed_number(&value.chars) {
                        new.size = self.basefont + step;
                    } else if let Some(size) = leading_number(&value.chars) {
                        new.size = size;
                    }
                }
                "style" => declarations(&value.chars, outer, new),
                _ => new.color = Color::of_name(&value.chars),
            }
        }
        applied
    }
}

/// A number at the start after white space.
fn leading_number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    text[..digits].parse().ok()
}

/// A number with a sign at the start after white space.
fn signed_number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let rest = text.strip_prefix(['+', '-'])?;
    let number = leading_number(if rest.starts_with(char::is_whitespace) { "" } else { rest })?;
    Some(if text.starts_with('-') { -number } else { number })
}

/// Applies the declarations of a `style` attribute.
fn declarations(text: &str, outer: Style, new: &mut Style) {
    let mut from = 0;
    for end in memchr::memchr_iter(b';', text.as_bytes()).chain([text.len()]) {
        declaration(&text[from..end], new);
        from = end + 1;
    }
    if new.background == Color::Transparent {
        new.background = outer.background;
    }
    if new.color == Color::Transparent {
        new.color = new.background;
    }
}

/// The value after a colon: trimmed, in one line, not empty.
fn value_of(text: &str) -> Option<&str> {
    let value = text.trim();
    (!value.is_empty() && !value.contains('\n')).then_some(value)
}

fn declaration(part: &str, new: &mut Style) {
    let part = part.trim_start();
    // Of those that have an effect.
    if !matches!(part.as_bytes().first(), Some(b'b' | b'B' | b'c' | b'C' | b'd' | b'v')) {
        return;
    }
    let lower = |s: &str| s.to_lowercase();
    let name_end = part.find(':').unwrap_or(part.len());
    let (name, rest) = part.split_at(name_end);
    let Some(value) = rest.strip_prefix(':').and_then(value_of) else { return };
    let background = name.eq_ignore_ascii_case("background-color");
    if background || name.eq_ignore_ascii_case("color") {
        let slot = if background { &mut new.background } else { &mut new.color };
        if let Some(color) = Color::of_digits(value) {
            *slot = color;
            return;
        }
        let value = lower(value);
        let value = match value.strip_suffix("important") {
            Some(v) if v.trim_end().ends_with('!') => {
                v.trim_end().trim_end_matches('!').trim_end().to_owned()
            }
            _ => value,
        };
        if let Some(color) = Color::of_declaration(&value) {
            *slot = color;
        }
    } else if name == "background" {
        if let Some(color) = background_color(&lower(value)) {
            new.background = color;
        }
    } else if name.trim_end() == "display" {
        new.display_none = value.eq_ignore_ascii_case("none");
    } else if name.trim_end() == "visibility" {
        new.visibility_hidden = value.eq_ignore_ascii_case("hidden");
    }
}

/// The first colour among the values of the last layer of a `background` declaration.
fn background_color(text: &str) -> Option<Color> {
    let mut layer: Vec<String> = Vec::new();
    let mut last: Vec<String> = Vec::new();
    let mut token = String::new();
    // The open brackets and quotes, outermost first.
    let mut open: Vec<char> = Vec::new();
    for c in text.chars() {
        match open.last() {
            None => match c {
                ' ' | ',' => {
                    if !token.is_empty() {
                        layer.push(std::mem::take(&mut token));
                    }
                    if c == ',' {
                        last = std::mem::take(&mut layer);
                    }
                    continue;
                }
                '(' | '"' | '\'' => open.push(c),
                _ => {}
            },
            Some('(') => match c {
                ')' => {
                    token.push(c);
                    layer.push(std::mem::take(&mut token));
                    open.pop();
                    continue;
                }
                '"' | '\'' => open.push(c),
                _ => {}
            },
            Some(&quote) if c == quote => {
                open.pop();
            }
            Some(_) => {}
        }
        token.push(c);
    }
    if !token.is_empty() {
        layer.push(token);
    }
    if layer.is_empty() {
        layer = last;
    }
    layer.iter().map(|v| Color::of_name(v)).find(|c| *c != Color::Invalid)
}

/// Whether a `face` is a list of font names.
pub(super) fn is_font_face(face: &str) -> bool {
    static FACE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let name = r#"[a-z][a-z -]*[a-z][0-9]?["']?"#;
        let pattern =
            format!(r#"(?i)^\s*["'.]?[a-z ][a-z -]*[a-z][0-9]?["']?(?:,\s*["']?{name})*;?\n?$"#);
        Regex::new(&pattern).ok()
    });
    FACE.as_ref().is_some_and(|face_re| face_re.is_match(face))
}

impl HtmlState {
    /// Whether text here is invisible; records the reason if it is the colours.
    pub(super) fn judge_visibility(&mut self) -> bool {
        let Some(style) = self.style.top().copied() else { return false };
        let near = style.color.distance(style.background).is_some_and(|d| d < 12.0);
        if style.color.same(style.background) || near {
            self.font_low_contrast = true;
            return true;
        }
        if style.color == Color::Invalid || style.background == Color::Invalid {
            self.font_invalid_color = true;
            return true;
        }
        style.size <= 1.0 || style.display_none || style.visibility_hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces() {
        assert!(is_font_face("'Montserrat', sans-serif"));
        assert!(is_font_face("Arial,Helvetica,Sans-Serif;"));
        assert!(!is_font_face("Arial,,x"));
    }

    #[test]
    fn backgrounds() {
        assert_eq!(background_color("url(x) #fff no-repeat"), Some(Color::WHITE));
        assert_eq!(background_color("red, url('a,b') black"), Some(Color::BLACK));
        assert_eq!(background_color("none"), None);
    }
}
