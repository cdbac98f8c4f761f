//! Every word of a text that may name a host, whether or not it reads as a link: for lookups in a
//! list of hosts only. Mail programs differ in what they make clickable (`Evil.Com`, `x.com`,
//! `www.bücher.de`), and a word that is no link is harmless unless it names a listed host.

use std::ops::Range;

use crate::evidence::View;
use crate::header::Header;
use crate::html::entity;
use crate::part::{self, Part};
use crate::url::{UrlSource, normalized};

/// Longest host name (RFC 1035 section 2.3.4).
const HOST_BYTES_MAX: usize = 253;

/// A word that names a listed host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedHost {
    /// In lower case, ASCII.
    pub host: String,
    /// Index of the part in [`crate::Message::parts`].
    pub part: u16,
    /// The text that `range` counts in.
    pub view: View,
    /// Where the word stands, or the part of the text that was read.
    pub range: Range<usize>,
}

/// The first word of the message that `is_listed` knows.
pub(crate) fn find(
    headers: &[Header<'_>],
    parts: &[Part<'_>],
    is_listed: impl Fn(&str) -> bool,
) -> Option<NamedHost> {
    let fields = ["subject", "from", "sender", "reply-to", "organization", "comments"];
    for field in headers.iter().filter(|h| fields.iter().any(|name| h.is(name))) {
        let value = field.decoded();
        if let Some((host, _)) = listed(&value, &is_listed) {
            return Some(NamedHost { host, part: 0, view: View::Header, range: 0..value.len() });
        }
    }
    for shown in part::texts(parts) {
        let part = shown.index;
        if let Some((host, range)) = listed(shown.text, &is_listed) {
            return Some(NamedHost { host, part, view: View::Text, range });
        }
        let source = shown.part.text().unwrap_or_default();
        let links = shown.part.rendered().map(|page| &page.links[..]).unwrap_or_default();
        for link in links {
            let range = link.value.start as usize..link.value.end as usize;
            let is_clicked = matches!(link.source, UrlSource::Href | UrlSource::Action);
            let Some(value) = source.get(range.clone()).filter(|_| is_clicked) else { continue };
            let value = entity::decode(value.as_bytes(), true);
            let value = String::from_utf8_lossy(&value);
            let host = value.trim().split(['/', '?', '#', '\\', ':']).next().unwrap_or_default();
            if let Some((host, _)) = listed(host, &is_listed) {
                return Some(NamedHost { host, part, view: View::Html, range });
            }
        }
    }
    None
}

fn listed(shown: &str, is_listed: &impl Fn(&str) -> bool) -> Option<(String, Range<usize>)> {
    let plain = normalized::of(shown);
    let text = plain.as_ref().map_or(shown, |p| &p.text);
    let original = |i: usize| plain.as_ref().map_or(i, |p| p.original(i));
    let mut done = 0;
    while let Some(dot) = memchr::memchr(b'.', text.as_bytes().get(done..)?).map(|i| done + i) {
        let start = text[done..dot].rfind(|c| !in_word(c));
        let start = start.map_or(done, |i| done + i + width(&text[done + i..]));
        let end = text[dot..].find(|c| !in_word(c)).map_or(text.len(), |i| dot + i);
        let is_address = text[..start].ends_with('@') || text[end..].starts_with('@');
        if !is_address && let Some(host) = listed_word(&text[start..end], is_listed) {
            return Some((host, original(start)..original(end)));
        }
        done = end.max(dot + 1);
    }
    None
}

fn width(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '-' | '_')
}

/// The word as a host, or the host in ASCII that stands in it beside other characters.
fn listed_word(word: &str, is_listed: &impl Fn(&str) -> bool) -> Option<String> {
    let known = |host: &str| {
        let host = host.trim_matches(['.', '-', '_']).to_ascii_lowercase();
        let fits = host.len() <= HOST_BYTES_MAX && host.contains('.');
        (fits && is_listed(&host)).then_some(host)
    };
    if word.is_ascii() {
        return known(word);
    }
    let whole = Some(word).filter(|word| word.len() <= 4 * HOST_BYTES_MAX);
    let whole = whole.and_then(|word| idna::domain_to_ascii(word.trim_matches(['.', '-'])).ok());
    whole.and_then(|host| known(&host)).or_else(|| {
        let mut pieces = word.split(|c: char| !c.is_ascii()).filter(|piece| piece.contains('.'));
        pieces.find_map(known)
    })
}
