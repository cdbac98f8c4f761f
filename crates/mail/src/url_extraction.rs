//! The URLs of a message: in the text and the HTML of its parts, and those that the usual
//! extraction does not see.

pub(crate) mod bounds;
pub(crate) mod hidden;
pub(crate) mod named_hosts;
mod other_parts;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use crate::evidence::View;
use crate::html::{Rendered, entity};
use crate::url::text::{self, Found};
use crate::url::{CanonicalUrl, URL_BYTES_MAX, Url, UrlSource, canonical, cut_at};

/// Collects the URLs of one message, up to a limit.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) urls: Vec<Url>,
    /// The last of those that found no location in `urls`.
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

    /// To be called after the last URL: puts the last ones into the location of those before them.
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
    fn base_is_applied() {
        let urls = of_html("<base href='http://a.example/d/e'><a href=f>f</a><img src='/g'>");
        assert_eq!(urls[1].1, "http://a.example/d/f");
        assert_eq!(urls[2].1, "http://a.example/g");
    }
}
