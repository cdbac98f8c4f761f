//! Names of elements and what they are to the words around them.

/// A name in lower case, packed: names are compared as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Name {
    bytes: u128,
    length: u8,
}

impl Name {
    /// A longer name is none of those below, so that its further bytes do not matter.
    pub(crate) fn push(&mut self, c: char) {
        if let Some(shift) = 8_u32.checked_mul(self.length.into()).filter(|shift| *shift < 128) {
            let byte = match c {
                // Not zero, which is what follows a name; and outside ASCII what no name has.
                '\x01'..='\x7f' => (c as u8).to_ascii_lowercase(),
                _ => 0xff,
            };
            self.bytes |= u128::from(byte) << shift;
        }
        self.length = self.length.saturating_add(1);
    }

    pub(crate) const fn of(text: &str) -> Self {
        let text = text.as_bytes();
        let (mut bytes, mut at) = (0, 0);
        while at < text.len() && at < 16 {
            bytes |= (text[at] as u128) << (8 * at);
            at += 1;
        }
        Name { bytes, length: text.len() as u8 }
    }

    pub(crate) fn is(self, text: &str) -> bool {
        self == Self::of(text)
    }

    pub(crate) fn element(self) -> Element {
        match TABLE.binary_search_by(|(bytes, _)| bytes.cmp(&self.bytes)) {
            Ok(at) => TABLE.get(at).map_or(Element::Inline, |(_, element)| *element),
            Err(_) => Element::Inline,
        }
    }

    /// A start tag in SVG or MathML that ends these (HTML Standard, section 13.2.6.5).
    pub(crate) fn breaks_out(self) -> bool {
        BREAK_OUT.contains(&self)
    }
}

/// What an element is to the words around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    /// Within a line, or unknown: it does not part a word.
    Inline,
    /// Within a line, and so is what is in it.
    Ruby,
    /// It has no end tag, and is not shown.
    Void,
    /// It begins a line.
    Block,
    Heading,
    Paragraph,
    Item,
    Term,
    Form,
    Button,
    Select,
    Choice,
    Group,
    Table,
    Cell,
    Row,
    /// `object` and its like: they may be shown as a box or as nothing.
    Scope,
    Break,
    Rule,
    /// A box within a line.
    Box,
    /// It may be a box or nothing: an image without a source, a hidden field, a
    /// film without a size.
    Thing,
    Template,
    Title,
    Noscript,
    Textarea,
    Xmp,
    Plaintext,
    Iframe,
    Script,
    Hidden,
    Svg,
    Math,
}

#[rustfmt::skip]
const NAMES: [(&str, Element); 96] = {
    use Element::*;
    [
        ("address", Block), ("article", Block), ("aside", Block), ("blockquote", Block),
        ("center", Block), ("details", Block), ("dir", Block), ("div", Block), ("dl", Block),
        ("fieldset", Block), ("figcaption", Block), ("figure", Block), ("footer", Block),
        ("header", Block), ("hgroup", Block), ("listing", Block), ("main", Block), ("menu", Block),
        ("nav", Block), ("ol", Block), ("pre", Block), ("search", Block), ("section", Block),
        ("summary", Block), ("ul", Block), ("h1", Heading), ("h2", Heading), ("h3", Heading),
        ("h4", Heading), ("h5", Heading), ("h6", Heading), ("p", Paragraph), ("li", Item),
        ("dd", Term), ("dt", Term), ("form", Form), ("button", Button), ("select", Select),
        ("optgroup", Group), ("option", Choice), ("table", Table), ("caption", Cell), ("td", Cell),
        ("th", Cell), ("tbody", Row), ("tfoot", Row), ("thead", Row), ("tr", Row),
        ("applet", Scope), ("marquee", Scope), ("object", Scope), ("br", Break), ("hr", Rule),
        ("canvas", Thing), ("fencedframe", Thing), ("legend", Box), ("meter", Box),
        ("progress", Box), ("video", Thing), ("audio", Thing), ("datalist", Thing),
        ("dialog", Thing), ("embed", Thing), ("image", Thing), ("img", Thing), ("input", Thing),
        ("rp", Thing), ("rt", Thing), ("rtc", Thing), ("area", Void), ("base", Void),
        ("basefont", Void), ("bgsound", Void), ("col", Void), ("frame", Void), ("keygen", Void),
        ("link", Void), ("meta", Void), ("param", Void), ("source", Void), ("track", Void),
        ("wbr", Void), ("template", Template), ("title", Title), ("noscript", Noscript),
        ("textarea", Textarea), ("xmp", Xmp), ("plaintext", Plaintext), ("iframe", Iframe),
        ("script", Script), ("ruby", Ruby), ("noembed", Hidden), ("noframes", Hidden),
        ("style", Hidden), ("svg", Svg), ("math", Math),
    ]
};

/// Sorted by the packed name.
static TABLE: [(u128, Element); NAMES.len()] = {
    let mut table = [(0, Element::Inline); NAMES.len()];
    let mut count = 0;
    while count < NAMES.len() {
        let entry = (Name::of(NAMES[count].0).bytes, NAMES[count].1);
        let mut at = count;
        while at > 0 && table[at - 1].0 > entry.0 {
            table[at] = table[at - 1];
            at -= 1;
        }
        table[at] = entry;
        count += 1;
    }
    table
};

#[rustfmt::skip]
const BREAK_OUT: [Name; 44] = [
    Name::of("b"), Name::of("big"), Name::of("blockquote"), Name::of("body"), Name::of("br"),
    Name::of("center"), Name::of("code"), Name::of("dd"), Name::of("div"), Name::of("dl"),
    Name::of("dt"), Name::of("em"), Name::of("embed"), Name::of("h1"), Name::of("h2"),
    Name::of("h3"), Name::of("h4"), Name::of("h5"), Name::of("h6"), Name::of("head"),
    Name::of("hr"), Name::of("i"), Name::of("img"), Name::of("li"), Name::of("listing"),
    Name::of("menu"), Name::of("meta"), Name::of("nobr"), Name::of("ol"), Name::of("p"),
    Name::of("pre"), Name::of("ruby"), Name::of("s"), Name::of("small"), Name::of("span"),
    Name::of("strike"), Name::of("strong"), Name::of("sub"), Name::of("sup"), Name::of("table"),
    Name::of("tt"), Name::of("u"), Name::of("ul"), Name::of("var"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Name {
        let mut name = Name::default();
        text.chars().for_each(|c| name.push(c));
        name
    }

    #[test]
    fn names_are_found_whatever_their_case() {
        for (text, element) in NAMES {
            assert_eq!(named(text).element(), element, "{text}");
            assert_eq!(named(&text.to_uppercase()).element(), element, "{text}");
            assert_eq!(named(&format!("{text}x")).element(), Element::Inline, "{text}");
        }
        for text in ["", "b", "zz", "dïv", "div-a-very-long-name", "x-div"] {
            assert_eq!(named(text).element(), Element::Inline, "{text}");
        }
        assert!(named("Blockquote").breaks_out() && !named("g").breaks_out());
    }
}
