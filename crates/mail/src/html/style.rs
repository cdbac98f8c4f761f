//! What CSS declarations do to the visibility of text, as far as mail uses them to hide words.

use memchr::memchr;

use super::colour::{self, Colour, Rgb};
use super::css_value::{MEDIUM_PX, font_size, is_weight, length_px, number};

/// Text of this size in CSS pixels or less cannot be read.
pub const TINY_PX_MAX: f32 = 1.5;
/// Boxes and indents moved this far (in CSS pixels) to the left are off the page.
const OFF_SCREEN_PX: f32 = -400.0;

/// Why text cannot be seen: one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HiddenReasons(pub u8);

impl HiddenReasons {
    /// `display: none`, or the `hidden` attribute.
    pub const DISPLAY: HiddenReasons = HiddenReasons(1);
    /// `visibility: hidden`, which keeps the text's room empty.
    pub const VISIBILITY: HiddenReasons = HiddenReasons(2);
    /// Text of at most [`TINY_PX_MAX`] pixels.
    pub const TINY: HiddenReasons = HiddenReasons(4);
    /// Text in the colour of its background.
    pub const COLOUR: HiddenReasons = HiddenReasons(8);
    /// `opacity: 0` or nearly.
    pub const OPACITY: HiddenReasons = HiddenReasons(16);
    /// A box of no width or height whose overflow is hidden.
    pub const NO_BOX: HiddenReasons = HiddenReasons(32);
    /// Moved off the page.
    pub const OFF_SCREEN: HiddenReasons = HiddenReasons(64);
    /// Content that is shown nowhere, e.g. of `<template>`, `<select>` or after `</html>`.
    pub const NOT_SHOWN: HiddenReasons = HiddenReasons(128);

    /// Whether no reason hides the text.
    pub fn is_visible(self) -> bool {
        self.0 == 0
    }

    /// Whether this includes `other`.
    pub fn has(self, other: HiddenReasons) -> bool {
        self.0 & other.0 != 0
    }

    fn set(&mut self, reasons: HiddenReasons, on: bool) {
        self.0 = if on { self.0 | reasons.0 } else { self.0 & !reasons.0 };
    }
}

/// The style that text inherits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Style {
    /// Hidden for these reasons (size and colour are judged by [`Style::hidden_reasons`]).
    pub hidden: HiddenReasons,
    /// Size of text in CSS pixels.
    pub size_px: f32,
    /// Colour of text; none when it is transparent.
    pub colour: Option<Rgb>,
    /// Colour behind the text; none when an image lies there.
    pub background: Option<Rgb>,
    /// White space is kept.
    pub preserves_whitespace: bool,
}

impl Default for Style {
    fn default() -> Self {
        Style {
            hidden: HiddenReasons::default(),
            size_px: MEDIUM_PX,
            colour: Some(Rgb::BLACK),
            background: Some(Rgb::WHITE),
            preserves_whitespace: false,
        }
    }
}

impl Style {
    /// All reasons for which text of this style cannot be seen.
    pub fn hidden_reasons(&self) -> HiddenReasons {
        let mut reasons = self.hidden;
        reasons.set(HiddenReasons::TINY, self.size_px <= TINY_PX_MAX);
        let unreadable = match (self.colour, self.background) {
            (None, _) => true,
            (Some(text), Some(behind)) => text.is_indistinguishable_from(behind),
            (Some(_), None) => false,
        };
        reasons.set(HiddenReasons::COLOUR, unreadable);
        reasons
    }

    /// Hides everything inside, for these reasons.
    pub fn hide(&mut self, reasons: HiddenReasons) {
        self.hidden.set(reasons, true);
    }

    /// Sets the colour of text, as the attributes `color` and `text` do.
    pub fn set_colour(&mut self, value: &[u8]) {
        match colour::parse(value) {
            Some(Colour::Solid(rgb)) => self.colour = Some(rgb),
            Some(Colour::Transparent) => self.colour = None,
            None => {}
        }
    }

    /// Sets the colour behind, as the attribute `bgcolor` does.
    pub fn set_background(&mut self, value: &[u8]) {
        if let Some(Colour::Solid(rgb)) = colour::parse(value) {
            self.background = Some(rgb);
        }
    }

    /// Takes note of declarations that may or may not apply: colours can no longer be compared.
    pub(crate) fn set_uncertain(&mut self, declarations: &[u8]) {
        let mut named = Declarations { rest: declarations, flat: false };
        if named.any(|(name, _)| {
            let name = name.to_ascii_lowercase();
            name == b"color" || name.starts_with(b"background")
        }) {
            self.colour = self.colour.or(Some(Rgb::BLACK));
            self.background = None;
        }
    }

    /// Applies declarations `name: value; ...` (a `style` attribute with references decoded, or the
    /// block of a rule).
    pub fn apply(&mut self, declarations: &[u8]) {
        let parent_px = self.size_px;
        let mut clipped = ClippedBox::default();
        for declaration in (Declarations { rest: declarations, flat: false }) {
            self.declaration(declaration, parent_px, &mut clipped);
        }
        if clipped.no_size && clipped.overflow_hidden {
            self.hide(HiddenReasons::NO_BOX);
        }
    }

    fn declaration(
        &mut self,
        (name, value): (&[u8], &[u8]),
        parent_px: f32,
        clipped: &mut ClippedBox,
    ) {
        let is = |other: &[u8]| value.eq_ignore_ascii_case(other);
        let px = || length_px(value, parent_px);
        let mut lower = [0u8; 16];
        let Some(lower) = lower.get_mut(..name.len()) else { return };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        match &*lower {
            b"display" if is(b"none") => self.hide(HiddenReasons::DISPLAY),
            b"visibility" => {
                self.hidden.set(HiddenReasons::VISIBILITY, is(b"hidden") || is(b"collapse"));
            }
            b"font-size" => self.size_px = font_size(value, parent_px).unwrap_or(self.size_px),
            b"font" => {
                // The size is the first length of the shorthand; `0/0 a` is a size of zero.
                let sizes = value.split(|b| matches!(b, b' ' | b'/'));
                let starts_number = |w: &&[u8]| w.first().is_some_and(u8::is_ascii_digit);
                if let Some(px) = sizes
                    .filter(starts_number)
                    .find_map(|w| font_size(w, parent_px).filter(|_| !is_weight(w)))
                {
                    self.size_px = px;
                }
            }
            b"color" => self.set_colour(value),
            b"background-color" => self.set_background(value),
            b"background" | b"background-image" => self.background_value(value),
            b"opacity" => {
                let low = number(value).is_some_and(|(n, _)| n < 0.05);
                if low {
                    self.hide(HiddenReasons::OPACITY);
                }
            }
            b"max-height" | b"height" | b"max-width" | b"width" => {
                clipped.no_size |= px().is_some_and(|px| px <= 1.0);
            }
            b"overflow" | b"overflow-x" | b"overflow-y" => clipped.overflow_hidden |= is(b"hidden"),
            b"text-indent" | b"left" | b"margin-left" | b"top"
                if px().is_some_and(|px| px <= OFF_SCREEN_PX) =>
            {
                self.hide(HiddenReasons::OFF_SCREEN);
            }
            b"white-space" => {
                let starts =
                    |p: &[u8]| value.len() >= p.len() && value[..p.len()].eq_ignore_ascii_case(p);
                self.preserves_whitespace = starts(b"pre") || is(b"break-spaces");
            }
            _ => {}
        }
    }

    fn background_value(&mut self, value: &[u8]) {
        let mut words = value.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
        let image = |w: &[u8]| {
            let w = w.to_ascii_lowercase();
            w.starts_with(b"url(") || memchr::memmem::find(&w, b"gradient(").is_some()
        };
        if memchr(b'(', value).is_some() && words.clone().any(image) {
            self.background = None;
            return;
        }
        // `rgb(1, 2, 3)` has spaces inside: try the whole value first.
        match colour::parse(value).or_else(|| words.find_map(colour::parse)) {
            Some(Colour::Solid(rgb)) => self.background = Some(rgb),
            Some(Colour::Transparent) | None => {}
        }
    }
}

/// The two declarations that only together hide a box.
#[derive(Default)]
struct ClippedBox {
    no_size: bool,
    overflow_hidden: bool,
}

/// Iterator over `name: value` pairs, trimmed, without `!important`.
struct Declarations<'a> {
    rest: &'a [u8],
    /// A quote or bracket is never closed: neither means anything any more (keeps time linear).
    flat: bool,
}

impl<'a> Iterator for Declarations<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let nested = if self.flat { None } else { declaration_end(self.rest) };
            self.flat |= nested.is_none();
            let end = nested.or_else(|| memchr(b';', self.rest)).unwrap_or(self.rest.len());
            let declaration = &self.rest[..end];
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            let Some(colon) = memchr(b':', declaration) else { continue };
            let mut value = declaration[colon + 1..].trim_ascii();
            if let Some(bang) = memchr(b'!', value) {
                value = value[..bang].trim_ascii();
            }
            return Some((declaration[..colon].trim_ascii(), value));
        }
    }
}

/// A `;` inside `url(data:...;base64,...)` or quotes does not end a declaration. None if a quote or
/// bracket is still open at the end: it must not swallow what follows.
fn declaration_end(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut quote) = (0u32, None);
    for (i, &byte) in bytes.iter().enumerate() {
        match (quote, byte) {
            (Some(q), b) if b == q => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'(') => depth += 1,
            (None, b')') => depth = depth.saturating_sub(1),
            (None, b';') if depth == 0 => return Some(i),
            _ => {}
        }
    }
    (depth == 0 && quote.is_none()).then_some(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(declarations: &str) -> HiddenReasons {
        let mut style = Style::default();
        style.apply(declarations.as_bytes());
        style.hidden_reasons()
    }

    #[test]
    fn what_hides_and_what_does_not() {
        assert_eq!(why("display : NONE !important"), HiddenReasons::DISPLAY);
        assert_eq!(why("font-size:0px; line-height:1"), HiddenReasons::TINY);
        assert_eq!(why("font-size:1px"), HiddenReasons::TINY);
        assert_eq!(why("font:0/0 a"), HiddenReasons::TINY);
        assert_eq!(why("font:bold 700 12px/14px Arial"), HiddenReasons(0));
        assert_eq!(why("color:#fefefe"), HiddenReasons::COLOUR);
        assert_eq!(
            why("color:#fff;background:#000 url(x.png)"),
            HiddenReasons(0),
            "an image behind"
        );
        assert_eq!(why("color:#fff;background:navy"), HiddenReasons(0));
        assert_eq!(why("color:white;background:rgb(255, 255, 255)"), HiddenReasons::COLOUR);
        assert_eq!(why("max-height:0;overflow:hidden"), HiddenReasons::NO_BOX);
        assert_eq!(why("height:0"), HiddenReasons(0));
        assert_eq!(why("text-indent:-9999px"), HiddenReasons::OFF_SCREEN);
        assert_eq!(why("opacity:0"), HiddenReasons::OPACITY);
        assert_eq!(why("visibility:hidden;visibility:visible"), HiddenReasons(0));
        assert_eq!(why("background:url(data:a;b,c);display:none"), HiddenReasons::DISPLAY);
        assert_eq!(why("font-size:0%"), HiddenReasons::TINY);
        assert_eq!(why("font-size:small;width:100%"), HiddenReasons(0));
        assert_eq!(why("a:(;display:none"), HiddenReasons::DISPLAY, "unclosed bracket");
    }
}
