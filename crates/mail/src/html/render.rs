//! HTML to visible text, with invisible text recorded separately.
//!
//! Blocks become lines, paragraphs are set off by an empty line, cells by a tab, list items have
//! their marker, images show as `[image: alt]`. White space collapses as in a browser; no-break
//! spaces count as white space. One pass, linear in the source; nesting deeper than [`DEPTH_MAX`]
//! inherits the style of the depth reached.

mod attributes;
mod flow;
mod nesting;

use std::ops::Range;

use self::attributes::AttributeEffects;
use self::flow::TextFlow;
use super::outline::Outline;
use super::style::Style;
use super::stylesheet::StyleSheet;
use super::tag::{Break, ELEMENTS, Element, element};
use super::token::{Tag, Token, Tokenizer};
use crate::limits::Limits;
use crate::url::UrlSource;

pub use self::flow::Places;
pub use super::style::HiddenReasons;

/// Open elements that are kept track of.
pub const DEPTH_MAX: usize = 256;
/// Most separate runs of invisible text; what follows is appended to the last.
pub const HIDDEN_RUNS_MAX: usize = 1_000;
/// Bytes of one title, and of one image's alternative text.
const LABEL_BYTES_MAX: usize = 1_000;

/// The rendering of an HTML part.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rendered {
    /// What a reader sees: lines, paragraphs, cells, list items.
    pub text: String,
    /// What is in the source as text but cannot be seen.
    pub invisible: String,
    /// The pieces of `invisible`, in order.
    pub hidden: Vec<HiddenRun>,
    /// Text of `<title>`, which no mail program shows.
    pub title: String,
    /// Attributes and style that name a URL, in order.
    pub links: Vec<Link>,
    /// Counts of what the document is made of.
    pub structure: Structure,
    /// Names of the first tags and of their attributes.
    pub outline: Outline,
    /// Text or links were left out because of a limit.
    pub truncated: bool,
    /// Text was left out because of [`Limits::text_bytes_max`].
    pub text_cut: bool,
    /// Links were left out because of [`Limits::urls_max`].
    pub links_cut: bool,
}

/// Invisible text of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenRun {
    /// Why it cannot be seen.
    pub reasons: HiddenReasons,
    /// Where it stands in [`Rendered::invisible`].
    pub range: Range<u32>,
    /// Byte offset in the HTML source at which it begins.
    pub offset: u32,
}

/// An attribute (or a piece of style) that names a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The attribute, or the style, that it is the value of.
    pub source: UrlSource,
    /// Where the value stands in the HTML source, references not decoded.
    pub value: Range<u32>,
    /// For `<a href>`: where its visible text stands in [`Rendered::text`].
    pub text: Option<Range<u32>>,
}

/// Counts of what a document is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Structure {
    /// Start tags of any name.
    pub tags: u32,
    /// `<img>` and its like.
    pub images: u32,
    /// Number of `<form>` elements.
    pub forms: u32,
    /// `<input>`, `<select>`, `<textarea>`, `<button>`.
    pub inputs: u32,
    /// `<input type=password>`: pages that ask for passwords.
    pub passwords: u32,
    /// Number of `<script>` elements.
    pub scripts: u32,
    /// Number of `<iframe>`, `<frame>` and `<object>`.
    pub frames: u32,
    /// Number of `<table>` elements.
    pub tables: u32,
    /// Comments, conditional ones too.
    pub comments: u32,
}

/// Renders `source`; at most [`Limits::text_bytes_max`] bytes of text and [`Limits::urls_max`]
/// links.
pub fn render(source: &str, limits: &Limits) -> Rendered {
    rendered_by(Renderer::new(source, limits)).finish()
}

/// Where in `source` the bytes of [`Rendered::invisible`] stand. Renders once more, since few pages
/// are asked for this.
pub fn invisible_places(source: &str, limits: &Limits) -> Places {
    let mut renderer = Renderer::new(source, limits);
    renderer.hidden_flow.places = Some(Places::default());
    rendered_by(renderer).hidden_flow.places.unwrap_or_default()
}

fn rendered_by(mut renderer: Renderer<'_>) -> Renderer<'_> {
    for (token, range) in Tokenizer::new(renderer.source.as_bytes()) {
        renderer.token(token, range);
    }
    while !renderer.stack.is_empty() {
        renderer.pop();
    }
    renderer
}

/// A number of bytes that the text (visible or hidden) rendered of so long a source does not
/// exceed, with what is kept free at its end. A byte of source makes at most a letter with a gap of
/// two before it; a reference is longer than its character; `<li>` makes a marker of at most twelve
/// bytes and `<img alt=x>` `[image: x]`, both before text of their own.
pub(crate) fn rendered_at_most(source_bytes: usize) -> usize {
    const PER_BYTE: usize = 8;
    const ENDS: usize = 64;
    source_bytes.saturating_mul(PER_BYTE).saturating_add(ENDS)
}

/// An open element, and what to restore when it closes.
struct Open {
    element: Element,
    outer: Style,
    link: Option<usize>,
}

struct Renderer<'a> {
    source: &'a str,
    links_max: usize,
    visible: TextFlow,
    hidden_flow: TextFlow,
    out: Rendered,
    stack: Vec<Open>,
    /// How many of each element are on the stack.
    open_counts: [u16; ELEMENTS],
    /// The number of the last item of each open list; none in lists without numbers.
    lists: Vec<Option<u32>>,
    style: Style,
    /// Why text of `style` cannot be seen.
    reasons: HiddenReasons,
    last_start: Element,
    stylesheet: StyleSheet,
}

impl<'a> Renderer<'a> {
    fn new(source: &'a str, limits: &Limits) -> Self {
        let mut renderer = Renderer {
            source,
            links_max: limits.urls_max as usize,
            visible: TextFlow::new(limits),
            hidden_flow: TextFlow::new(limits),
            out: Rendered::default(),
            stack: Vec::new(),
            open_counts: [0; ELEMENTS],
            lists: Vec::new(),
            style: Style::default(),
            reasons: HiddenReasons::default(),
            last_start: Element::Other,
            stylesheet: StyleSheet::default(),
        };
        renderer.visible.text.reserve(source.len() / 4);
        renderer
    }
}

impl Renderer<'_> {
    fn token(&mut self, token: Token<'_>, range: Range<usize>) {
        match token {
            Token::Start(tag) => self.start(tag),
            Token::End(tag) => self.end(element(tag.name)),
            Token::Text(_) => self.text(range),
            Token::RawText(_) => self.raw_text(range),
            Token::Comment { .. } => self.out.structure.comments += 1,
            Token::Declaration(_) | Token::Instruction(_) => {}
        }
    }

    fn finish(mut self) -> Rendered {
        self.out.text_cut = self.visible.full || self.hidden_flow.full;
        self.out.truncated = self.out.text_cut || self.out.links_cut;
        self.out.text = self.visible.text;
        self.out.invisible = self.hidden_flow.text;
        self.out
    }

    fn text(&mut self, range: Range<usize>) {
        let text = self.source.get(range.clone()).unwrap_or_default();
        if self.reasons.is_visible() {
            self.visible.write(text, self.style.preserves_whitespace);
        } else {
            self.hidden_text(text, range.start, self.reasons);
        }
    }

    fn hidden_text(&mut self, text: &str, offset: usize, reasons: HiddenReasons) {
        let before = self.hidden_flow.text.len();
        self.hidden_flow.write_at(offset, text, false);
        let after = self.hidden_flow.text.len();
        if before == after {
            return;
        }
        let runs = &mut self.out.hidden;
        let full = runs.len() >= HIDDEN_RUNS_MAX;
        match runs.last_mut().filter(|run| full || run.reasons == reasons) {
            Some(run) => run.range.end = after as u32,
            None => runs.push(HiddenRun {
                reasons,
                range: before as u32..after as u32,
                offset: offset as u32,
            }),
        }
    }

    /// The raw content of the element that has just begun.
    fn raw_text(&mut self, range: Range<usize>) {
        let text = self.source.get(range.clone()).unwrap_or_default();
        match self.last_start {
            Element::Title if self.out.title.is_empty() => {
                let mut flow = TextFlow::new(&Limits::default());
                flow.bytes_max = LABEL_BYTES_MAX;
                flow.write(text, false);
                self.out.title = flow.text;
            }
            Element::Style => {
                self.css_urls(range.clone());
                self.stylesheet.read(self.source.as_bytes(), range);
            }
            Element::Textarea => self.text(range),
            Element::Script | Element::Title => {}
            _ => self.hidden_text(text, range.start, HiddenReasons::NOT_SHOWN),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        let element = element(tag.name);
        self.last_start = element;
        self.count(element);
        self.close_implied(element);
        let outer = self.style;
        let mut effects = AttributeEffects::default();
        match element {
            Element::Pre | Element::Textarea => self.style.preserves_whitespace = true,
            Element::Template => self.style.hide(HiddenReasons::NOT_SHOWN),
            _ => {}
        }
        self.attributes(element, tag, &mut effects);
        if self.style != outer {
            self.reasons = self.style.hidden_reasons();
        }
        self.break_for(element);
        if element.is_void() {
            self.void(element, tag, &effects);
            self.style = outer;
            self.reasons = self.style.hidden_reasons();
            return;
        }
        if self.stack.len() >= DEPTH_MAX {
            self.style = outer;
            self.reasons = self.style.hidden_reasons();
            return;
        }
        match element {
            Element::Ul => self.lists.push(None),
            Element::Ol => self.lists.push(Some(0)),
            _ => {}
        }
        self.open_counts[element as usize] += 1;
        self.stack.push(Open { element, outer, link: effects.link });
    }

    fn count(&mut self, element: Element) {
        let counts = &mut self.out.structure;
        counts.tags += 1;
        match element {
            Element::Image => counts.images += 1,
            Element::Form => counts.forms += 1,
            Element::Input | Element::Select | Element::Textarea | Element::Button => {
                counts.inputs += 1;
            }
            Element::Script => counts.scripts += 1,
            Element::Iframe | Element::Frame | Element::Object => counts.frames += 1,
            Element::Table => counts.tables += 1,
            _ => {}
        }
    }

    /// A box whose text cannot be read still breaks the line; one that is not there does not.
    fn gap_for(&mut self, breaks: Break) {
        if !self.reasons.has(HiddenReasons::DISPLAY) && !self.reasons.has(HiddenReasons::NOT_SHOWN)
        {
            self.visible.gap_for(breaks);
        }
        if !self.reasons.is_visible() {
            self.hidden_flow.gap_for(breaks);
        }
    }

    /// Sets the gap in the text that the element makes, and the marker of a list's item.
    fn break_for(&mut self, element: Element) {
        self.gap_for(element.breaks());
        let flow =
            if self.reasons.is_visible() { &mut self.visible } else { &mut self.hidden_flow };
        match element {
            Element::Br => flow.gap.lines = (flow.gap.lines + 1).min(2),
            Element::Li if self.reasons.is_visible() => {
                self.visible.marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number = number.saturating_add(1);
                        format!("{number}. ")
                    }
                    _ => "- ".to_owned(),
                };
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(source: &str) -> Rendered {
        render(source, &Limits::default())
    }

    fn text(source: &str) -> String {
        rendered(source).text
    }

    #[test]
    fn blocks_lists_tables() {
        assert_eq!(text("<p>One  two\n three<p>Four<br>five"), "One two three\n\nFour\nfive");
        assert_eq!(text("a<div>b</div>c"), "a\nb\nc");
        assert_eq!(text("<ul><li>x<li>y</ul><ol><li>p<li>q"), "- x\n- y\n\n1. p\n2. q");
        assert_eq!(text("<table><tr><td>a<td>b<tr><td>c</table>d"), "a\tb\nc\nd");
        assert_eq!(text("<b>bo</b>ld <i> it</i>"), "bold it");
        assert_eq!(text("<pre>a\n  b</pre>"), "a\nb");
        assert_eq!(text("<h1>T</h1>x &amp; y&nbsp;&nbsp;z \u{a0}w"), "T\n\nx & y z w");
        assert_eq!(text("1 < 2 <3"), "1 < 2 <3");
    }

    #[test]
    fn what_is_not_text() {
        let page = rendered(
            "<html><head><title>T &amp; t</title><style>p{background:url('http://c/s')}</style>\
             <script>var x='<p>no'</script></head><body>yes<!-- no --><img alt='A &lt;' src=i.png>",
        );
        assert_eq!(page.text, "yes[image: A <]");
        assert_eq!(page.title, "T & t");
        let sources: Vec<_> = page.links.iter().map(|l| l.source).collect();
        assert_eq!(sources, [UrlSource::Css, UrlSource::Src]);
        assert_eq!(
            (page.structure.images, page.structure.scripts, page.structure.comments),
            (1, 1, 1)
        );
    }

    #[test]
    fn invisible_text_is_apart() {
        let page = rendered(
            "<body bgcolor=white>seen<div style='display:none'>gone <b>deep</b></div>\
             <span style=\"font-size:0\">tiny<span style='font-size:12px'>ok</span></span>\
             <font color='#FFFFFF'>white</font><td style='display:none'>cell<td>next",
        );
        assert_eq!(page.text, "seenok\tnext");
        let runs: Vec<_> = page
            .hidden
            .iter()
            .map(|run| {
                (run.reasons, &page.invisible[run.range.start as usize..run.range.end as usize])
            })
            .collect();
        assert_eq!(
            runs,
            [
                (HiddenReasons::DISPLAY, "gone deep"),
                (HiddenReasons::TINY, "\ntiny"),
                (HiddenReasons::COLOUR, "white"),
                (HiddenReasons::DISPLAY, "\tcell"),
            ]
        );
    }

    #[test]
    fn every_word_of_invisible_text_has_its_place() {
        let source = "<p>seen</p><div style='display:none'> gone  &amp;\n <b>de</b>ep \u{a0}it \
                      \u{c4}\u{f6} <img alt='a cat'>is</div><p>seen<noframes>not so</noframes>";
        let page = rendered(source);
        assert_eq!(page.invisible, "gone & deep it \u{c4}\u{f6} a catis\nnot so");
        let places = invisible_places(source, &Limits::default());
        let words = ["gone", "&", "de", "ep", "it", "\u{c4}\u{f6}", "a", "cat", "is", "not", "so"];
        for word in words {
            let at = page.invisible.find(word).unwrap();
            let found = places.source_offset(at);
            assert!(source[found..].starts_with(word), "{word}: {:?}", &source[found..]);
        }
        assert_eq!(Places::default().source_offset(7), 0);
    }

    #[test]
    fn colours_and_links() {
        let page = rendered(
            "<table bgcolor=#000000><tr><td><font color=white>on black</font></table>\
             <font color=white><a href='http://x/?a&amp;b'> link <b>text</b> </a></font>\
             <td background=b.gif style='color:#fff'>on image",
        );
        assert_eq!(page.text, "on black\nlink text\ton image");
        let range = page.links[0].text.clone().unwrap();
        assert_eq!(page.text[range.start as usize..range.end as usize].trim(), "link text");
    }

    #[test]
    fn scopes_and_depth() {
        let inside = "<div style='display:none'><table><tr><td></div>hidden</table></div>visible";
        assert_eq!(text(inside), "visible", "an end tag in a cell closes nothing outside");
        let deep = "<div>".repeat(10_000) + "x" + &"</div>".repeat(10_000);
        assert_eq!(text(&deep), "x");
        assert_eq!(
            text("<p style='display:none'>a<div>b</div>"),
            "b",
            "a block closes the paragraph"
        );
        assert_eq!(text("<meta http-equiv=refresh content='0;URL=http://x/'>"), "");
        assert_eq!(rendered("<meta content='0;URL=http://x/' http-equiv=refresh>").links.len(), 1);
    }

    #[test]
    fn style_sheets_hide_and_show() {
        let stylesheet = "<style>@import 'x'; /* c */ .gone, #top { display:none }\n td.dark{background:#000}\
            @media (max-width:9px) { .visible { display:none } } table td { color:#111 } a:hover{color:#fff}\
            b{font-size:0}</style>";
        let page = rendered(&format!(
            "{stylesheet}<p class='x GONE'>one</p><p id=top>two</p><p class=visible>three</p><b>four</b>\
             <table><tr><td class=dark style='color:#fff'>five<td style='color:#fff'>six</table>"
        ));
        assert_eq!(page.text, "three\n\nfive\tsix", "whether six can be seen is uncertain");
        assert_eq!(page.invisible, "one\n\ntwo\n\nfour");
        for malformed in
            ["{", "}", "a{", "@media{", "a,b{color:red", "<!-- a{display:none} -->", "/*"]
        {
            rendered(&format!("<style>{malformed}</style><a>x"));
        }
    }

    #[test]
    fn limits_hold() {
        let limits = Limits { text_bytes_max: 50, urls_max: 3, ..Limits::default() };
        let page = render(&"<a href=x>word </a>".repeat(100), &limits);
        assert!(page.truncated && page.text.len() <= 50 && page.links.len() == 3);
    }
}
