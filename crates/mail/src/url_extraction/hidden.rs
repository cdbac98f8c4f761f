//! URLs that a recipient's program may open and that the usual extraction does not list: see
//! [`crate::Message::hidden_urls`].

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use super::{Collector, bounds, other_parts};
use crate::evidence::View;
use crate::html::{Attribute, Token, Tokenizer};
use crate::part::{self, Part, PartText};
use crate::url::nested::Finder;
use crate::url::{CanonicalUrl, Url, UrlSource, canonical, cut_at, normalized, text};

/// Documents within documents (comments, `srcdoc`, `data:`) that are opened.
const DOCUMENTS_MAX: usize = 4;
/// Bytes that may be looked at for a message, each time counted: so many, and a multiple of its
/// texts. One bound for all parts: many parts must not cost many times as much.
const WORK_BYTES_MAX: usize = 4 * 1024 * 1024;
const WORK_FACTOR: usize = 16;
/// Bytes of a URL kept for display.
const RAW_BYTES_MAX: usize = 256;

/// Whether texts have enough URL characters for more hosts than `max`, or for work beyond its
/// bound: at each character at most all that follows is searched.
pub(crate) fn may_be_too_many<'t>(texts: impl Iterator<Item = &'t str>, max: usize) -> bool {
    let (mut all_markers, mut work) = (0usize, 0usize);
    for text in texts {
        let is_marker = |b| matches!(b, b':' | b'/' | b'\\' | b'=');
        let markers = bounds::count(text.as_bytes(), is_marker);
        all_markers = all_markers.saturating_add(markers);
        work = work.saturating_add(markers.saturating_mul(text.len()));
    }
    all_markers > max / 2 || work > WORK_BYTES_MAX
}

/// Collects the hidden URLs of a message, one for each host that `known` has not; at most `max`.
pub(crate) fn collect(subject: &str, parts: &[Part<'_>], known: &[Url], max: usize) -> Collector {
    let known = known.iter().map(|u| u.canonical.host().to_owned()).collect();
    let mut hidden =
        Hidden { hosts: known, out: Collector::new(max), finder: Finder::new(WORK_BYTES_MAX) };
    hidden.begin(subject.len());
    hidden.text(Location { part: 0, view: View::Header }, subject);
    for shown in part::texts(parts) {
        let source = shown.part.text().unwrap_or_default();
        hidden.begin(source.len());
        if shown.part.rendered().is_some() {
            let at = Location { part: shown.index, view: View::Html };
            hidden.page(at, source, 0, DOCUMENTS_MAX);
        }
        let at = Location { part: shown.index, view: View::Text };
        hidden.text(at, shown.text);
        hidden.joined_lines(at, &shown);
    }
    for (index, part) in (0u16..).zip(parts) {
        hidden.fields(index, part);
        hidden.other(index, part);
    }
    hidden.out.full |= hidden.finder.exhausted;
    hidden.out.finish();
    hidden.out
}

/// The part and the view that offsets count in.
#[derive(Clone, Copy)]
struct Location {
    part: u16,
    view: View,
}

struct Hidden {
    /// Hosts that were found already.
    hosts: HashSet<String>,
    out: Collector,
    finder: Finder,
}

impl Hidden {
    /// A further text of so many bytes.
    fn begin(&mut self, bytes: usize) {
        self.finder.may_read_more(bytes.saturating_mul(WORK_FACTOR));
    }

    fn push(&mut self, at: Location, raw: &str, range: Range<usize>, canonical: CanonicalUrl) {
        if self.hosts.contains(canonical.host()) {
            return;
        }
        self.hosts.insert(canonical.host().to_owned());
        self.out.push(Url {
            canonical,
            raw: cut_at(raw, RAW_BYTES_MAX).to_owned(),
            source: UrlSource::Hidden,
            part: at.part,
            view: at.view,
            offset: u32::try_from(range.start).unwrap_or(u32::MAX),
            length: u32::try_from(range.len()).unwrap_or(u32::MAX),
            link_text: None,
        });
    }

    /// What is nested in a value that stands at `range`.
    fn nested(&mut self, at: Location, value: &str, range: &Range<usize>) {
        self.finder.find(value);
        for url in std::mem::take(&mut self.finder.found) {
            self.push(at, value, range.clone(), url);
        }
    }

    /// Reads visible text, also without its invisible characters.
    fn text(&mut self, at: Location, shown: &str) {
        if let Some(plain) = normalized::of(shown) {
            let original =
                |range: Range<usize>| plain.original(range.start)..plain.original(range.end);
            self.links(at, &plain.text, original);
            self.words(at, &plain.text, original);
        }
        // In `https://a\u{2044}b@host/` a browser sees no slash.
        self.words(at, shown, |range| range);
    }

    /// Text that was made from what stands at `range`.
    fn derived(&mut self, at: Location, made: &str, range: Range<usize>) {
        let plain = normalized::of(made);
        for text in [Some(made), plain.as_ref().map(|p| &*p.text)].into_iter().flatten() {
            self.links(at, text, |_| range.clone());
            self.words(at, text, |_| range.clone());
        }
    }

    /// Links that read as such.
    fn links(&mut self, at: Location, text: &str, location: impl Fn(Range<usize>) -> Range<usize>) {
        for found in text::find(text) {
            let raw = &text[found.range.clone()];
            if let Some(url) = canonical(raw) {
                self.push(at, raw, location(found.range.clone()), url);
            }
        }
    }

    /// Words in which something may be nested, and those that begin a URL in an invalid way.
    fn words(&mut self, at: Location, text: &str, location: impl Fn(Range<usize>) -> Range<usize>) {
        let mut end = 0;
        let bytes = text.as_bytes();
        while let Some(i) = memchr::memchr3(b':', b'\\', b'=', &bytes[end..]).map(|i| end + i) {
            let start = text[end..i].rfind(is_space).map_or(end, |s| end + s);
            end = text[i..].find(is_space).map_or(text.len(), |e| i + e);
            let word = text[start..end].trim_matches(is_space);
            if may_nest(word) {
                let untrimmed = &text[start..end];
                let start =
                    start + (untrimmed.len() - untrimmed.trim_start_matches(is_space).len());
                self.nested(at, word, &location(start..start + word.len()));
            }
        }
    }

    /// Links that go over line ends at which mail programs join the lines.
    fn joined_lines(&mut self, at: Location, shown: &PartText<'_, '_>) {
        let whole = 0..shown.text.len();
        if let Some(text) = other_parts::flowed(shown.part, shown.text) {
            self.derived(at, &text, whole.clone());
        }
        for link in other_parts::bracketed(shown.text) {
            self.derived(at, &link, whole.clone());
        }
    }

    /// Header fields of a part that name URLs.
    fn fields(&mut self, index: u16, part: &Part<'_>) {
        for field in part.headers.iter().filter(|field| other_parts::is_link_field(field.name)) {
            let value = field.decoded();
            if !value.contains([':', '/', '\\', '.']) {
                continue;
            }
            self.begin(value.len());
            let at = Location { part: index, view: View::Header };
            self.derived(at, &value, 0..value.len());
            for link in other_parts::bracketed(&value) {
                self.derived(at, &link, 0..value.len());
            }
        }
    }

    /// A leaf that programs take for a page, a calendar or a card though it is no HTML by its type.
    fn other(&mut self, index: u16, part: &Part<'_>) {
        if part.is_container || part.rendered().is_some() {
            return;
        }
        let Some(kind) = other_parts::kind_of(part) else { return };
        let text = other_parts::text_of(part);
        self.begin(text.len());
        let at = Location { part: index, view: View::Html };
        if kind == other_parts::Kind::Page {
            self.page(at, &text, 0, DOCUMENTS_MAX);
            return self.text(Location { part: index, view: View::Text }, &text);
        }
        let text = other_parts::unfolded(&text);
        self.derived(Location { part: index, view: View::Text }, &text, 0..text.len());
        if memchr::memchr(b'<', text.as_bytes()).is_some() {
            self.page(at, &text, 0, DOCUMENTS_MAX);
        }
    }

    /// The attributes and raw texts of a page that stands at `offset` of the part's source.
    fn page(&mut self, at: Location, source: &str, offset: usize, documents: usize) {
        for (token, range) in Tokenizer::new(source.as_bytes()) {
            let within = offset + range.start..offset + range.end;
            match token {
                Token::Start(tag) => {
                    for attribute in tag.attributes().filter(|a| !a.value.is_empty()) {
                        let value = attribute.value_range();
                        let value = offset + value.start..offset + value.end;
                        self.attribute(at, attribute, value, documents);
                    }
                }
                // Word renders what stands in conditional comments.
                Token::Comment { text, .. } if memchr::memmem::find(text, b"[if").is_some() => {
                    self.inner(at, &String::from_utf8_lossy(text), within.start + 4, documents);
                }
                Token::RawText(text) => {
                    let text = String::from_utf8_lossy(text);
                    if memchr::memchr(b'<', text.as_bytes()).is_some() {
                        self.inner(at, &text, within.start, documents);
                    }
                    self.script(at, &text, within.start);
                }
                _ => {}
            }
        }
    }

    /// A page within a page.
    fn inner(&mut self, at: Location, source: &str, offset: usize, documents: usize) {
        match documents.checked_sub(1) {
            Some(documents) => self.page(at, source, offset, documents),
            None => self.out.full = true,
        }
    }

    /// URLs in style sheets and scripts, which stand there with their scheme.
    fn script(&mut self, at: Location, text: &str, offset: usize) {
        let text = without_css_escapes(text);
        for piece in text.split(['"', '\'', '`', '(', ')', ';', '\n']) {
            if memchr::memmem::find(piece.as_bytes(), b"//").is_some() {
                self.nested(at, piece.trim(), &(offset..offset + text.len()));
            }
        }
    }

    fn attribute(
        &mut self,
        at: Location,
        attribute: Attribute<'_>,
        range: Range<usize>,
        documents: usize,
    ) {
        // What names no URL, in most tags.
        if ["class", "id", "alt", "title", "width", "height", "align", "valign"]
            .iter()
            .any(|name| attribute.is(name))
            || attribute.name.get(..5).is_some_and(|n| n.eq_ignore_ascii_case(b"xmlns"))
        {
            return;
        }
        let decoded = attribute.decoded();
        let value = String::from_utf8_lossy(&decoded);
        let value = cleaned(&value);
        if attribute.is("srcdoc") {
            return self.inner(at, &value, range.start, documents);
        }
        if attribute.is("style") {
            return self.script(at, &value, range.start);
        }
        if let Some(page) = data_page(&value) {
            return self.inner(at, &page, range.start, documents);
        }
        let is_link = attribute.is("href") || attribute.is("src") || attribute.is("action");
        if is_link || may_nest(&value) {
            for value in [Some(&*value), normalized::of(&value).as_ref().map(|p| &*p.text)] {
                let Some(value) = value else { continue };
                self.nested(at, value, &range);
                // `srcset`, `ping` and `archive` list URLs.
                if value.contains(' ') {
                    for piece in value.split([' ', ',']).filter(|piece| may_nest(piece)) {
                        self.nested(at, piece, &range);
                    }
                }
                if is_link && !value.contains(':') {
                    self.schemeless(at, value, &range);
                }
            }
        }
    }

    /// `href="evil.example/x"` with invisible characters in it.
    fn schemeless(&mut self, at: Location, value: &str, range: &Range<usize>) {
        let found = text::find(value).next().filter(|found| found.range.start == 0);
        if let Some(url) = found.and_then(|_| canonical(value)) {
            self.push(at, value, range.clone(), url);
        }
    }
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '<' | '>' | '"')
}

/// Whether a value may hold a URL in a form that is not the usual one.
fn may_nest(value: &str) -> bool {
    let bytes = value.as_bytes();
    memchr::memchr3(b':', b'\\', b'=', bytes).is_some()
        || memchr::memmem::find(bytes, b"//").is_some()
        || memchr::memchr(b'%', bytes).is_some()
}

/// A value as browsers read it: tabs and line ends dropped, control characters and spaces at the
/// ends too (URL Standard, section 4.4).
fn cleaned(value: &str) -> Cow<'_, str> {
    let trimmed = value.trim_matches(|c: char| c <= ' ' || c.is_whitespace());
    if memchr::memchr3(b'\t', b'\n', b'\r', trimmed.as_bytes()).is_none() {
        return Cow::Borrowed(trimmed);
    }
    Cow::Owned(trimmed.replace(['\t', '\n', '\r'], ""))
}

/// The page in `data:text/html,...` and its like.
fn data_page(value: &str) -> Option<String> {
    let head = value.get(..5)?;
    if !head.eq_ignore_ascii_case("data:") {
        return None;
    }
    let (kind, content) = value[5..].split_once(',')?;
    let kind = kind.to_ascii_lowercase();
    if !["html", "xml", "svg"].iter().any(|page| kind.contains(page)) {
        return None;
    }
    let bytes = crate::encoding::percent_decode(content.as_bytes());
    let is_base64 = kind.contains("base64");
    let bytes = if is_base64 { crate::encoding::base64(&bytes).bytes } else { bytes.into() };
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// `\68 ttp` is `http` in a style sheet (CSS Syntax, section 4.3.7).
fn without_css_escapes(text: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\\', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let digits = after.bytes().take(6).take_while(u8::is_ascii_hexdigit).count();
        let value = u32::from_str_radix(&after[..digits], 16).ok().and_then(char::from_u32);
        match value {
            Some(c) => {
                out.push(c);
                let after = &after[digits..];
                rest = after.strip_prefix([' ', '\n', '\t']).unwrap_or(after);
            }
            // In scripts `\/` is `/`.
            None => rest = after,
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}
