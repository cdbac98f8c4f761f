//! The URLs of a message's parts.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use super::text::{self, Found};
use super::{CanonicalUrl, URL_BYTES_MAX, Url, UrlSource, canonical, cut_at};
use crate::evidence::View;
use crate::html::{Rendered, Token, Tokenizer, entity};

/// Collects the URLs of one message, up to a limit.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) urls: Vec<Url>,
    /// The last of those that found no place in `urls`.
    last: VecDeque<Url>,
    pub(crate) max: usize,
    /// There were more than `max`.
    pub(crate) full: bool,
}

impl Collector {
    pub(crate) fn new(max: usize) -> Self {
        Collector { urls: Vec::new(), last: VecDeque::new(), max, full: false }
    }

    /// Keeps the first and, as soon as there are too many, the last: padding must hide neither.
    pub(crate) fn push(&mut self, url: Url) {
        if self.urls.len() < self.max {
            self.urls.push(url);
            return;
        }
        self.full = true;
        let lasts = self.max / 4;
        if lasts == 0 {
            return;
        }
        if self.last.len() >= lasts {
            self.last.pop_front();
        }
        self.last.push_back(url);
    }

    /// To be called after the last URL: puts the last ones into the place of those before them.
    pub(crate) fn finish(&mut self) {
        let kept = self.max.saturating_sub(self.last.len());
        let surplus = self.urls.len().saturating_sub(kept).min(self.last.len());
        self.urls.truncate(self.urls.len() - surplus);
        self.urls.extend(self.last.drain(..));
    }

    /// URLs in plain text.
    pub(crate) fn text(&mut self, part: u16, view: View, text: &str) {
        for found in text::find(text) {
            self.found(part, view, text, &found);
        }
    }

    fn found(&mut self, part: u16, view: View, text: &str, found: &Found) {
        let raw = cut_at(&text[found.range.clone()], URL_BYTES_MAX);
        if let Some(canonical) = canonical(&text[found.range.clone()]) {
            self.push(Url {
                canonical,
                raw: raw.to_owned(),
                source: found.source,
                part,
                view,
                offset: offset(found.range.start),
                length: offset(found.range.len()),
                link_text: None,
            });
        }
    }

    /// URLs of an HTML part: of its attributes, then of its text.
    pub(crate) fn html(&mut self, part: u16, source: &str, page: &Rendered) {
        let mut base = None;
        for link in &page.links {
            let range = link.value.start as usize..link.value.end as usize;
            let Some(raw) = source.get(range.clone()) else { continue };
            let value = entity::decode(raw.as_bytes(), true);
            let value = String::from_utf8_lossy(&value);
            let value = value.trim();
            if link.source == UrlSource::Base && base.is_none() {
                base = canonical(value);
            }
            let Some(canonical) = resolve(value, link.source, base.as_ref()) else { continue };
            self.push(Url {
                canonical,
                raw: cut_at(value, URL_BYTES_MAX).to_owned(),
                source: link.source,
                part,
                view: View::Html,
                offset: offset(range.start),
                length: offset(range.len()),
                link_text: link.text.clone(),
            });
        }
        self.rendered_text(part, page);
        self.full |= page.links_cut;
    }

    /// URLs in what a page shows; those inside a link's text are marked as such.
    fn rendered_text(&mut self, part: u16, page: &Rendered) {
        let mut spans = page.links.iter().filter_map(|l| l.text.as_ref()).peekable();
        for mut found in text::find(&page.text) {
            let at = offset(found.range.start);
            while spans.peek().is_some_and(|span| span.end <= at) {
                spans.next();
            }
            if spans.peek().is_some_and(|span| span.start <= at) {
                found.source = UrlSource::LinkText;
            }
            self.found(part, View::Text, &page.text, &found);
        }
    }
}

/// A number that the URLs found in a text do not exceed: they do not overlap, and each has a colon or
/// a dot.
pub(crate) fn text_urls_at_most(text: &str) -> usize {
    count(text.as_bytes(), |b| b == b'.' || b == b':')
}

/// The same for the source of an HTML part; a look at its tags only as far as that is needed to stay
/// within `enough`. What it shows has its dots and colons from the source's text, from character
/// references (`&`), from images (`<im`) and from marks of list items (`<li`); a link is an attribute's
/// value (`=`) or stands in brackets in a style.
pub(crate) fn html_urls_at_most(source: &str, enough: usize) -> usize {
    let bytes = source.as_bytes();
    let mut at_most = marks(bytes);
    if at_most <= enough {
        return at_most;
    }
    let fewer = at_most.saturating_sub(idle_marks(bytes));
    if fewer <= enough {
        return fewer;
    }
    let mut tokens = Tokenizer::new(bytes);
    while at_most > enough
        && let Some((token, range)) = tokens.next()
    {
        let piece = bytes.get(range).unwrap_or_default();
        at_most -= marks(piece).saturating_sub(token_urls_at_most(&token, piece));
    }
    at_most
}

/// How many marks stand for no URL whatever they are in, by the bytes beside them: most are in styles.
///
/// Before the `=` of a link is the end of its name (see [`links_at_most`]). The colon of a URL is shown
/// after `mailto` or before slashes: if not, then a reference or a tag is beside it, of which the first
/// has a mark of its own.
fn idle_marks(bytes: &[u8]) -> usize {
    let is_alphanumeric =
        |b: u8| ((b | 0x20).wrapping_sub(b'a') < 26) | (b.wrapping_sub(b'0') < 10);
    let is_idle = |((before, here), after): ((&u8, &u8), &u8)| {
        let ends_name =
            b"fcarndt".iter().fold(*before <= b' ', |any, b| any | (before | 0x20 == *b));
        let joins = is_alphanumeric(*before)
            & (before | 0x20 != b'o')
            & (is_alphanumeric(*after) | (*after == b' '));
        ((*here == b'=') & !ends_name) | ((*here == b':') & joins)
    };
    let from = |at: usize| bytes.get(at..).unwrap_or_default().chunks(PIECE);
    let pieces = from(0).zip(from(1)).zip(from(2));
    let in_piece = |((before, here), after): ((&[u8], &[u8]), &[u8])| {
        let places = before.iter().zip(here).zip(after);
        places.fold(0u8, |count, place| count.wrapping_add(u8::from(is_idle(place))))
    };
    pieces.map(in_piece).map(usize::from).sum()
}

/// All in a piece of HTML that may stand for a URL, whatever it is a piece of.
fn marks(piece: &[u8]) -> usize {
    let opens = memchr::memchr_iter(b'<', piece);
    let shown = opens.filter(|at| matches!(piece.get(at + 1), Some(b'l' | b'L' | b'i' | b'I')));
    count(piece, |b| is_shown_mark(b) || matches!(b, b'(' | b'=')) + shown.count()
}

/// A number that the URLs which come from a token do not exceed.
fn token_urls_at_most(token: &Token<'_>, piece: &[u8]) -> usize {
    match token {
        Token::Start(tag) => {
            let is_shown = matches!(tag.name.first(), Some(b'l' | b'L' | b'i' | b'I'));
            let shown = if is_shown { 1 + count(piece, is_shown_mark) } else { 0 };
            shown + links_at_most(piece)
        }
        Token::Text(_) | Token::RawText(_) => count(piece, |b| is_shown_mark(b) || b == b'('),
        _ => 0,
    }
}

/// What every URL in a text has, or may come from.
fn is_shown_mark(byte: u8) -> bool {
    matches!(byte, b'.' | b':' | b'&')
}

/// A number that the links of a start tag do not exceed: values of attributes whose names end as
/// those do that name a URL (`href`, `src`, `data`, `poster`, `action`, `background`, `content`),
/// and brackets in styles.
fn links_at_most(tag: &[u8]) -> usize {
    let is_link = |at: &usize| {
        let before = at.checked_sub(1).and_then(|before| tag.get(before));
        before
            .is_none_or(|b| b.is_ascii_whitespace() || b"fcarndt".contains(&b.to_ascii_lowercase()))
    };
    let values = memchr::memchr_iter(b'=', tag).filter(is_link);
    values.count() + memchr::memchr_iter(b'(', tag).count()
}

/// Bytes counted at a time: a count fits a byte then, and the compiler makes vectors of it.
const PIECE: usize = 192;

/// How many bytes are so.
pub(crate) fn count(text: &[u8], is_so: impl Fn(u8) -> bool) -> usize {
    let in_piece =
        |piece: &[u8]| piece.iter().fold(0u8, |count, b| count.wrapping_add(u8::from(is_so(*b))));
    text.chunks(PIECE).map(|piece| usize::from(in_piece(piece))).sum()
}

/// An attribute's value as a URL. Values without scheme are relative to the base; without a base
/// they are taken as a host only when they read as one, as mail readers do.
fn resolve(value: &str, source: UrlSource, base: Option<&CanonicalUrl>) -> Option<CanonicalUrl> {
    let has_scheme = |v: &str| {
        let end = v.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.*\t\r\n".contains(c)));
        end.is_some_and(|i| i > 0 && v[i..].starts_with(':'))
    };
    if value.starts_with("//") || has_scheme(value) {
        return canonical(value);
    }
    if value.is_empty() || value.starts_with('#') {
        return None;
    }
    if let Some(base) = base.filter(|_| source != UrlSource::Base) {
        return canonical(&joined(base, value));
    }
    let first = text::find(value).next()?;
    let reads_as_host = first.range.start == 0 && first.source != UrlSource::Text;
    let clickable = matches!(source, UrlSource::Href | UrlSource::Action | UrlSource::MetaRefresh);
    (reads_as_host && (clickable || first.source == UrlSource::Schemeless))
        .then(|| canonical(value))
        .flatten()
}

/// `value` relative to `base`; the canonical form resolves the dot segments.
fn joined(base: &CanonicalUrl, value: &str) -> String {
    let text = base.as_str();
    let origin = &text[..text.len() - base.path_and_query().len()];
    if value.starts_with(['/', '\\']) {
        return format!("{origin}{value}");
    }
    let path = base.path_and_query().split('?').next().unwrap_or("/");
    let folder: Cow<'_, str> = match path.rfind('/') {
        Some(i) => Cow::Borrowed(&path[..=i]),
        None => Cow::Borrowed("/"),
    };
    format!("{origin}{folder}{value}")
}

fn offset(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The text of a link, without the white space around it.
pub(crate) fn link_text<'t>(page: &'t Rendered, range: &Range<u32>) -> &'t str {
    page.text.get(range.start as usize..range.end as usize).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::render;
    use crate::limits::Limits;

    fn of_html(source: &str) -> Vec<(UrlSource, String, String)> {
        let page = render(source, &Limits::default());
        let mut collector = Collector::new(100);
        collector.html(0, source, &page);
        let text = |u: &Url| {
            u.link_text.as_ref().map(|r| link_text(&page, r).to_owned()).unwrap_or_default()
        };
        let urls = collector.urls.iter();
        urls.map(|u| (u.source, u.canonical.as_str().to_owned(), text(u))).collect()
    }

    fn row(source: UrlSource, url: &str, text: &str) -> (UrlSource, String, String) {
        (source, url.to_owned(), text.to_owned())
    }

    #[test]
    fn attributes_and_their_text() {
        let urls = of_html(
            "<a href=' http://evil.example/?a=1&amp;b=2 '>http://bank.example</a> www.x.com\
             <img src='cid:1'><img src=//cdn.example/i.png><form action=\"HTTP://F.example\">\
             <td background='http://b.example/'><p style='background:url(\"http://c.example/i\")'>\
             <a href='#top'>x</a><a href=javascript:go()>y</a><a href='www.y.com/z'>z</a>\
             <a href='page.html'>p</a>",
        );
        use UrlSource as S;
        assert_eq!(
            urls,
            [
                row(S::Href, "http://evil.example/?a=1&b=2", "http://bank.example"),
                row(S::Src, "http://cdn.example/i.png", ""),
                row(S::Action, "http://f.example/", ""),
                row(S::Background, "http://b.example/", ""),
                row(S::Css, "http://c.example/i", ""),
                row(S::Href, "http://www.y.com/z", "z"),
                row(S::LinkText, "http://bank.example/", ""),
                row(S::Schemeless, "http://www.x.com/", ""),
            ]
        );
    }

    #[test]
    fn bounds_are_never_too_low() {
        let styled = "<p style='margin:0.5em;color:red;font:1.2em a.b'>x</p>".repeat(20);
        let listed = "<ol><li>a.com<li>b.com</ol><img alt='http://c.com d.com' src=x.gif>";
        for source in [
            &styled,
            listed,
            "mailto:a@b.c MAILTO:d@e.f mailt&#111:g@h.i mailt&#x6f:j@k.l http:<b>//a.b/ a:b c: d",
            "<a href=mailto:a@b.c/><img src =http:x><form action\n=http:y><p style=a:b;c:url(d:e)>",
            "http://a.com b.com&#46;c&period;com <textarea><b x.com y.com></textarea>",
            "<a href = 'http://a'>1</a><style>p{background:url(http://b)}</style> 1<2 a.com>b.com",
            "<p style='background:url(x.com/1), url(\"http://x.com/2\")'><meta http-equiv=refresh \
             content='0;url=http://c.com'><form ACTION=http://d><td background=http://e>",
        ] {
            let page = render(source, &Limits::default());
            let mut collector = Collector::new(100);
            collector.html(0, source, &page);
            for enough in [0, 3, 10, 1_000] {
                let at_most = html_urls_at_most(source, enough);
                assert!(collector.urls.len() <= at_most, "{source}");
                assert!(page.links.len() <= at_most, "{source}");
            }
            let mut collector = Collector::new(100);
            collector.text(0, View::Text, source);
            assert!(collector.urls.len() <= text_urls_at_most(source), "{source}");
        }
        assert_eq!(html_urls_at_most(&styled, 0), 0, "styles are no text");
        assert!(html_urls_at_most(&styled, 1_000) > 100);
    }

    #[test]
    fn marks_that_are_idle_stand_for_no_url() {
        let pieces = [
            "a",
            "o",
            ":",
            "=",
            " ",
            "//x.com",
            "b.com",
            "mailto:a@b.c",
            "mailt&#111",
            "http",
            "<b>",
            "</b>",
            "<img src",
            "<a href=",
            "<li>",
            "<p style=",
            "'",
            ">",
            "url(",
            ")",
            "&colon;",
            "\n",
        ];
        let mut seed = 7u32;
        for _ in 0..20_000 {
            let mut source = String::new();
            for _ in 0..9 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                source.push_str(pieces[(seed >> 16) as usize % pieces.len()]);
            }
            let page = render(&source, &Limits::default());
            let mut collector = Collector::new(100);
            collector.html(0, &source, &page);
            let at_most = marks(source.as_bytes()) - idle_marks(source.as_bytes());
            assert!(collector.urls.len() <= at_most, "{source}");
            assert!(page.links.len() <= at_most, "{source}");
        }
    }

    #[test]
    fn base_is_applied() {
        let urls = of_html("<base href='http://a.example/d/e'><a href=f>f</a><img src='/g'>");
        assert_eq!(urls[1].1, "http://a.example/d/f");
        assert_eq!(urls[2].1, "http://a.example/g");
    }
}
