//! HTML as SpamAssassin renders it: text in pieces, and facts for `eval:html_*` rules and the URI
//! view (tags, fonts, colours, images, anchors, titles).
//!
//! ```text
//! source -> prepare -> parser (HTML::Parser) -> HtmlState (this file) -> body text
//!                                                 |- style  (font, colour, visibility)
//!                                                 `- links  (URIs, base, anchors)
//! ```

mod color;
mod element;
mod entities;
mod events;
mod links;
mod parser;
mod prepare;
mod style;
mod words;

use self::element::Element;
use self::entities::Piece;
use self::parser::{Attributes, Parser};
use self::style::StyleStack;
use self::words::{collapse_space, head_word, in_word, other_spaces, pixels, tail_word};
use super::perl::{self, Text};
use gauntlet_rules::hash::HashMap;

pub use self::links::HtmlUri;

/// Most pieces of text, scripts, comments, titles or anchors of one part; further ones are dropped.
const PIECES_MAX: usize = 200_000;

/// Facts of one HTML part. Names are SpamAssassin's, which rules use as arguments of
/// `eval:html_test` and `eval:html_range`; see [`HtmlState::number`].
#[derive(Debug, Default)]
pub struct HtmlState {
    /// Characters of the source.
    pub length: usize,
    /// Some text had the colour of its background.
    pub font_low_contrast: bool,
    /// Some text had an invalid colour.
    pub font_invalid_color: bool,
    /// A `face` that is no font name.
    pub font_face_bad: bool,
    /// A form's action is `mailto:`.
    pub form_action_mailto: bool,
    /// There is an `<object>` or `<embed>`.
    pub embeds: bool,
    /// Total area of images with width and height, in pixels.
    pub image_area: f64,
    /// Smallest font size seen, as SpamAssassin counts it (3 is normal).
    pub min_size: f64,
    /// Largest font size seen, in the same unit.
    pub max_size: f64,
    /// Tags, start and end.
    pub tags: u32,
    /// Tags of elements that HTML knows.
    pub elements: u32,
    /// How many different tags occur.
    pub tags_seen: u32,
    /// Different tags of elements that HTML knows.
    pub elements_seen: u32,
    /// End tags without a start tag.
    pub closed_extra: u32,
    /// Tags inside words, which split them for a filter only.
    pub obfuscation: u32,
    /// Lengths of word pieces before and after tags inside words: bit `7 * (a - 1) + b - 1`.
    pub backhair: u64,
    /// Comments with their delimiters.
    pub comment: Vec<Text>,
    /// Text of every `<script>`, in order.
    pub script: Vec<Text>,
    /// Text of every `<title>`, in order.
    pub title: Vec<Text>,
    /// Text of every anchor, in order; images are `<img>\n`.
    pub anchor: Vec<Text>,
    /// URIs in the order they were seen first.
    pub uris: Vec<HtmlUri>,
    /// A URI was over the limit and cut.
    pub uri_truncated: bool,
    /// Bytes of the part with its transfer encoding undone.
    pub source_bytes: usize,
    /// Characters of the rendered text.
    pub html_length: usize,
    /// Characters of the rendered text that are not white space.
    pub non_space_len: usize,
    known: Known,
    inside: HashMap<Box<str>, i32>,
    uri_index: HashMap<Box<str>, usize>,
    rendered: Text,
    source_wide: bool,
    pieces: Pieces,
    style: StyleStack,
    base: String,
    /// Index in `uris` of the anchor that is open.
    anchor_uri: Option<usize>,
}

/// Number of open elements of each kind in the table; below zero for kinds that did not occur.
#[derive(Debug)]
struct Known([i32; element::COUNT]);

impl Default for Known {
    fn default() -> Self {
        Known([-1; element::COUNT])
    }
}

impl Known {
    /// Number of open elements at this index of the table.
    fn depth(&self, place: usize) -> i32 {
        self.0[place].max(0)
    }
}

const ANCHOR: usize = element::place_of("a");
const SCRIPT: usize = element::place_of("script");
const STYLE: usize = element::place_of("style");
const TITLE: usize = element::place_of("title");

/// The last piece of the rendered text, on which the next one depends.
#[derive(Debug, Default)]
struct Pieces {
    count: usize,
    /// Where in the rendered text the last piece begins.
    last_start: usize,
    last_wide: bool,
    last_is_space: bool,
    last_is_hidden: bool,
    hidden: usize,
}

impl HtmlState {
    /// Reads and renders the source of an HTML part.
    pub(crate) fn parse(source: &Text, source_bytes: usize) -> HtmlState {
        let mut state = HtmlState {
            length: source.len(),
            source_bytes,
            source_wide: source.wide,
            min_size: 3.0,
            max_size: 3.0,
            ..HtmlState::default()
        };
        state.rendered.chars.reserve(source.chars.len() / 2);
        let prepared = prepare::prepare(&source.chars, source.wide);
        let mut parser = Parser::new(source.wide);
        parser.parse(&prepared, &mut state);
        // Unclosed <style> and <script> elements are closed, as long as they count as open.
        for (name, place) in [("style", STYLE), ("script", SCRIPT)] {
            let mut open = state.known.depth(place);
            while open > 0 {
                parser.parse(&format!("</{name}>"), &mut state);
                let now = state.known.depth(place);
                if now >= open {
                    break; // cannot happen with literal elements; guards against a loop
                }
                open = now;
            }
        }
        parser.finish(&mut state);
        state.count_text();
        state
    }

    /// The text of the part as it is shown, hidden text included.
    pub fn rendered(&self) -> &Text {
        &self.rendered
    }

    /// How many of this element are open at the end; `None` if the tag never occurred. The name is
    /// in lower case; a document type counts as `!doctype`.
    pub fn inside(&self, tag: &str) -> Option<i32> {
        match element::find(tag) {
            Some(element) => Some(self.known.0[element.place]).filter(|n| *n >= 0),
            None => self.inside.get(tag).copied(),
        }
    }

    /// Every tag that occurred, sorted, with how many are open at the end.
    pub fn tags_inside(&self) -> Vec<(&str, i32)> {
        let known = element::all().iter().zip(self.known.0).filter(|(_, n)| *n >= 0);
        let mut all: Vec<_> = self.inside.iter().map(|(tag, n)| (&**tag, *n)).collect();
        all.extend(known.map(|(element, n)| (element.name, n)));
        all.sort_unstable();
        all
    }

    /// A fact by SpamAssassin's name for it; `None` if it does not exist (Perl's undef).
    pub fn number(&self, name: &str) -> Option<f64> {
        let flag = |set: bool| set.then_some(1.0);
        let tags = f64::from(self.tags);
        match name {
            "html" => Some(1.0),
            "font_low_contrast" => flag(self.font_low_contrast),
            "font_invalid_color" => flag(self.font_invalid_color),
            "font_face_bad" => flag(self.font_face_bad),
            "form_action_mailto" => flag(self.form_action_mailto),
            "embeds" => flag(self.embeds),
            "image_area" => Some(self.image_area),
            "length" => Some(self.length as f64),
            "min_size" => Some(self.min_size),
            "max_size" => Some(self.max_size),
            "html_length" => Some(self.html_length as f64),
            "non_space_len" => Some(self.non_space_len as f64),
            "uri_truncated" => flag(self.uri_truncated),
            "ratio" => {
                let bytes = self.source_bytes as f64;
                (bytes > 0.0).then(|| (bytes - self.html_length as f64) / bytes)
            }
            "closed_extra_ratio" => (self.tags > 0).then(|| f64::from(self.closed_extra) / tags),
            "bad_tag_ratio" if self.tags > 0 && self.elements > 0 => {
                Some((tags - f64::from(self.elements)) / tags)
            }
            "non_element_ratio" if self.tags_seen > 0 && self.elements_seen > 0 => {
                let seen = f64::from(self.tags_seen);
                Some((seen - f64::from(self.elements_seen)) / seen)
            }
            "obfuscation_ratio" if self.tags > 0 && self.obfuscation > 0 => {
                Some(f64::from(self.obfuscation) / tags)
            }
            "backhair_count" if self.backhair != 0 => Some(f64::from(self.backhair.count_ones())),
            _ => None,
        }
    }

    /// A list of texts by SpamAssassin's name for it: `comment`, `script`, `title`, `anchor`.
    pub fn texts(&self, name: &str) -> &[Text] {
        match name {
            "comment" => &self.comment,
            "script" => &self.script,
            "title" => &self.title,
            "anchor" => &self.anchor,
            _ => &[],
        }
    }

    fn count_text(&mut self) {
        let text = &self.rendered;
        self.html_length = text.len();
        // The original counts a narrow text's form feeds as text.
        let is_space = |b: &u8| perl::is_space(*b) && (text.wide || *b != 0x0c);
        let mut spaces = perl::count(text.chars.as_bytes(), is_space);
        if text.wide && self.html_length < text.chars.len() {
            spaces += other_spaces(&text.chars);
        }
        self.non_space_len = self.html_length - spaces;
    }

    /// Counts a tag of this name.
    fn count_tag(&mut self, tag: &str, step: i32, element: Option<&Element>) {
        let is_known = match element {
            Some(element) => element.valid,
            None => element::is_namespaced(tag),
        };
        let open = match element {
            Some(element) => Some(&mut self.known.0[element.place]),
            None => self.inside.get_mut(tag),
        };
        let is_new = open.as_ref().is_none_or(|open| **open < 0);
        self.tags += 1;
        self.tags_seen += u32::from(is_new);
        if is_known {
            self.elements += 1;
            self.elements_seen += u32::from(is_new);
        }
        let count = open.as_ref().map_or(0, |open| (**open).max(0)) + step;
        match open {
            Some(open) => *open = count.max(0),
            None => {
                self.inside.insert(tag.into(), count.max(0));
            }
        }
        self.closed_extra += u32::from(count < 0);
    }

    /// The white space that a tag is rendered as.
    fn space_of(&mut self, element: &Element) {
        let Some(space) = element.space else { return };
        if self.pieces.count > 0 && !self.pieces.last_is_space && !self.pieces.last_is_hidden {
            let last = &self.rendered.chars[self.pieces.last_start..];
            if last.ends_with(' ') {
                self.rendered.chars.pop();
            }
        }
        if self.begin_piece(false, true, false) {
            self.rendered.chars.push_str(space);
        }
    }

    /// Begins another piece of text; returns whether the limit allows it.
    fn begin_piece(&mut self, wide: bool, is_space: bool, hidden: bool) -> bool {
        if self.pieces.count >= PIECES_MAX {
            return false;
        }
        self.pieces = Pieces {
            count: self.pieces.count + 1,
            last_start: self.rendered.chars.len(),
            last_wide: wide,
            last_is_space: is_space,
            last_is_hidden: hidden,
            hidden: self.pieces.hidden + usize::from(hidden),
        };
        self.rendered.wide |= wide;
        true
    }

    /// Adds text with runs of white space as one space.
    fn show(&mut self, text: &Piece<'_>, hidden: bool) {
        let is_after_space = self.pieces.count > 0 && !hidden && self.pieces.last_is_space;
        if self.begin_piece(text.wide, false, hidden) {
            let start = self.pieces.last_start;
            collapse_space(&text.chars, &mut self.rendered.chars);
            if is_after_space && self.rendered.chars[start..].starts_with(' ') {
                self.rendered.chars.remove(start);
            }
        }
    }

    /// Records tags inside words.
    fn note_split_words(&mut self, text: &Piece<'_>) {
        if self.pieces.count == 0 {
            return;
        }
        let last = &self.rendered.chars[self.pieces.last_start..];
        let wide = self.pieces.last_wide;
        let Some(next) = text.chars.chars().next() else { return };
        let Some(previous) = last.chars().next_back() else { return };
        if !in_word(next, text.wide) || !in_word(previous, wide) {
            return;
        }
        self.obfuscation += 1;
        let (before, after) = (tail_word(last, wide), head_word(&text.chars, text.wide));
        if let (Some(before), Some(after)) = (before, after) {
            self.backhair |= 1 << (7 * (before - 1) + after - 1);
        }
    }

    fn anchor_text(&mut self, text: &str, wide: bool) {
        if let Some(anchor) = self.anchor.last_mut() {
            anchor.chars.push_str(text);
            anchor.wide |= wide;
        }
        let uri = self.anchor_uri.and_then(|i| self.uris.get_mut(i));
        if let Some(own) = uri.and_then(|u| u.anchor_text.last_mut()) {
            own.chars.push_str(text);
            own.wide |= wide;
        }
    }

    /// Tests on a start tag's attributes.
    fn test_start(&mut self, tag: &str, attributes: &Attributes<'_>) {
        match tag {
            "font" => {
                if let Some(face) = attributes.get("face") {
                    self.font_face_bad |= !style::is_font_face(&face.chars);
                }
            }
            "img" => {
                if self.known.depth(ANCHOR) > 0 {
                    self.anchor_text("<img>\n", false);
                }
                let size = (attributes.get("width"), attributes.get("height"));
                if let (Some(width), Some(height)) = size {
                    self.image_area += pixels(&width.chars, 8.0) * pixels(&height.chars, 6.0);
                }
            }
            "form" => {
                if let Some(action) = attributes.get("action") {
                    let found = perl::find_no_case(action.chars.as_bytes(), b"mailto:");
                    self.form_action_mailto |= found.is_some();
                }
            }
            "object" | "embed" => self.embeds = true,
            "a" => self.open_anchor(attributes),
            "title" if self.title.len() < PIECES_MAX => self.title.push(Text::default()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_squeezed() {
        let plain = regex::Regex::new("[ \\t\\n\\r\\x0b\\x0c]+|\u{c2}\u{a0}").unwrap();
        let pieces =
            ["a", " ", "\n", "\t", "\u{c2}\u{a0}", "\u{c2}", "\u{a0}", "some words in a row"];
        let mut seed = 1u32;
        for _ in 0..5_000 {
            let mut text = String::new();
            for _ in 0..10 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text.push_str(pieces[(seed >> 16) as usize % pieces.len()]);
            }
            let mut out = "|".to_owned();
            collapse_space(&text, &mut out);
            assert_eq!(out[1..], *plain.replace_all(&text, " "), "{text:?}");
        }
    }

    #[test]
    fn white_space_beyond_ascii_is_counted() {
        let all: String = (0x80..0x1_0000).filter_map(char::from_u32).collect();
        let expected = all.chars().filter(|c| c.is_whitespace()).count();
        assert_eq!(other_spaces(&all), expected);
        assert_eq!(other_spaces(" a\u{e9}\u{a0}\u{3000}"), 2);
    }
}
