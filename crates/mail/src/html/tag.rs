//! The elements of HTML, as far as rendering distinguishes them.

/// An element by what it does to text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the variants are the names of HTML's elements")]
pub enum Element {
    A,
    Area,
    Base,
    Blockquote,
    Body,
    Br,
    Button,
    Center,
    Dd,
    Div,
    Dt,
    Font,
    Form,
    Frame,
    Head,
    Heading,
    Hr,
    Html,
    Iframe,
    Image,
    Input,
    Li,
    Link,
    Meta,
    Object,
    Ol,
    Option,
    P,
    Pre,
    Script,
    Select,
    Span,
    Style,
    Table,
    TableSection,
    Td,
    Template,
    Textarea,
    Title,
    Tr,
    Ul,
    /// `article`, `section`, `fieldset` and other blocks.
    OtherBlock,
    /// Other elements without content, e.g. `wbr`.
    OtherVoid,
    /// Everything else, known or not: in line.
    Other,
}

/// How many elements there are.
pub(crate) const ELEMENTS: usize = Element::Other as usize + 1;
/// Longest name that [`element`] knows.
const NAME_BYTES_MAX: usize = 10;

/// Where an element breaks the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// It stands within a line.
    Inline,
    /// A line of its own.
    Line,
    /// An empty line around it.
    Paragraph,
    /// A cell of a row.
    Cell,
}

/// Which element a name means, in any case.
pub fn element(name: &[u8]) -> Element {
    let mut lower = [0u8; NAME_BYTES_MAX];
    let Some(lower) = lower.get_mut(..name.len()) else { return Element::Other };
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    match &*lower {
        b"a" => Element::A,
        b"area" => Element::Area,
        b"base" => Element::Base,
        b"blockquote" => Element::Blockquote,
        b"body" => Element::Body,
        b"br" => Element::Br,
        b"button" => Element::Button,
        b"center" => Element::Center,
        b"dd" => Element::Dd,
        b"div" => Element::Div,
        b"dt" => Element::Dt,
        b"font" => Element::Font,
        b"form" => Element::Form,
        b"frame" => Element::Frame,
        b"head" => Element::Head,
        b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => Element::Heading,
        b"hr" => Element::Hr,
        b"html" => Element::Html,
        b"iframe" => Element::Iframe,
        b"img" | b"image" | b"v:fill" | b"v:image" => Element::Image,
        b"input" => Element::Input,
        b"li" => Element::Li,
        b"link" => Element::Link,
        b"meta" => Element::Meta,
        b"object" => Element::Object,
        b"ol" => Element::Ol,
        b"option" => Element::Option,
        b"p" => Element::P,
        b"pre" | b"listing" => Element::Pre,
        b"script" => Element::Script,
        b"select" => Element::Select,
        b"span" => Element::Span,
        b"style" => Element::Style,
        b"table" => Element::Table,
        b"tbody" | b"thead" | b"tfoot" => Element::TableSection,
        b"td" | b"th" => Element::Td,
        b"template" => Element::Template,
        b"textarea" => Element::Textarea,
        b"title" => Element::Title,
        b"tr" => Element::Tr,
        b"ul" | b"menu" | b"dir" => Element::Ul,
        b"address" | b"article" | b"aside" | b"caption" | b"details" | b"dl" | b"fieldset"
        | b"figcaption" | b"figure" | b"footer" | b"header" | b"hgroup" | b"legend" | b"main"
        | b"nav" | b"section" | b"summary" => Element::OtherBlock,
        b"col" | b"embed" | b"param" | b"source" | b"track" | b"wbr" | b"keygen" | b"bgsound"
        | b"basefont" => Element::OtherVoid,
        _ => Element::Other,
    }
}

impl Element {
    /// The element has no content and no end tag.
    pub(crate) fn is_void(self) -> bool {
        use Element as E;
        matches!(
            self,
            E::Area
                | E::Base
                | E::Br
                | E::Frame
                | E::Hr
                | E::Image
                | E::Input
                | E::Link
                | E::Meta
                | E::OtherVoid
        )
    }

    pub(crate) fn breaks(self) -> Break {
        use Element as E;
        match self {
            E::P | E::Heading | E::Blockquote | E::Ul | E::Ol | E::Pre => Break::Paragraph,
            E::Body
            | E::Center
            | E::Dd
            | E::Div
            | E::Dt
            | E::Form
            | E::Hr
            | E::Html
            | E::Li
            | E::Option
            | E::OtherBlock
            | E::Table
            | E::TableSection
            | E::Tr => Break::Line,
            E::Td => Break::Cell,
            _ => Break::Inline,
        }
    }

    /// A start tag of this closes an open `p` (standard, 13.2.6.4.7).
    pub(crate) fn closes_paragraph(self) -> bool {
        use Element as E;
        matches!(self.breaks(), Break::Paragraph)
            || matches!(
                self,
                E::Center | E::Dd | E::Div | E::Dt | E::Form | E::Hr | E::Li | E::OtherBlock
            )
    }

    /// Nothing outside it is closed from inside it, but by the tags of tables.
    pub(crate) fn is_scope(self) -> bool {
        matches!(self, Element::Td | Element::Table | Element::Html | Element::Template)
    }

    pub(crate) fn is_table_part(self) -> bool {
        matches!(self, Element::Table | Element::TableSection | Element::Tr | Element::Td)
    }
}

/// Elements whose content the tokenizer takes as one raw text.
pub(crate) fn has_raw_content(name: &[u8]) -> bool {
    if name.len() < 3 {
        return false;
    }
    [&b"script"[..], b"style", b"title", b"textarea", b"xmp", b"iframe", b"noembed", b"noframes"]
        .iter()
        .any(|raw| name.eq_ignore_ascii_case(raw))
}
