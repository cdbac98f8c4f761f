//! URIs of an HTML part: attributes, the base, anchors and their text (RFC 3986 section 5.2 as
//! SpamAssassin applies it).

use std::borrow::Cow;

use super::entities::Piece;
use super::parser::Attributes;
use super::{HtmlState, PIECES_MAX};
use crate::views::perl::{self, Text};

/// Most characters of a URI.
pub(crate) const URI_CHARS_MAX: usize = 8192;
/// Most different URIs of one part.
const URIS_MAX: usize = 20_000;

/// One URI of an HTML part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HtmlUri {
    /// As written, without white space at its ends; relative ones are resolved if there is a base.
    pub uri: Text,
    /// Elements that it was an attribute of, sorted; empty if it is only known as the target of an
    /// anchor as written.
    pub types: Vec<&'static str>,
    /// Texts of the anchors to it, in order.
    pub anchor_text: Vec<Text>,
}

/// Without white space and no-break spaces at the ends, and not longer than the limit.
fn tidy<'u>(uri: &'u Piece<'_>, cut: &mut bool) -> Piece<'u> {
    let edge = |c: char| c == '\u{a0}' || perl::is_space_char(c, uri.wide);
    let mut text = &*uri.chars;
    let is_edge = |b: Option<&u8>| b.is_some_and(|b| !(b'!'..=b'~').contains(b));
    if is_edge(text.as_bytes().first()) || is_edge(text.as_bytes().last()) {
        text = text.trim_matches(edge);
    }
    if text.len() > URI_CHARS_MAX
        && let Some((end, _)) = text.char_indices().nth(URI_CHARS_MAX)
    {
        *cut = true;
        text = &text[..end];
    }
    Piece::plain(text, uri.wide)
}

/// `/\w{1,8}\/NAME/` in an attribute's name: invalid HTML runs attributes together.
fn ends_in(name: &str, wanted: &str) -> bool {
    name.match_indices(wanted).any(|(i, _)| {
        let before = name[..i].chars().next_back();
        before.is_some_and(|c| c == '_' || c.is_alphanumeric())
    })
}

/// An attribute's value, also if its name follows something without a space.
fn glued<'s>(attributes: &Attributes<'s>, name: &str, wanted: &str) -> Option<Piece<'s>> {
    attributes.find_slashed(|key| ends_in(key, wanted)).or_else(|| attributes.get(name))
}

fn href<'s>(attributes: &Attributes<'s>) -> Option<Piece<'s>> {
    let mut href = glued(attributes, "href", "/href")?;
    if href.wide && href.chars.contains('\u{feff}') {
        href.chars = Cow::Owned(href.chars.replace('\u{feff}', ""));
    }
    Some(href)
}

impl HtmlState {
    /// Index of a URI, which is added if it is new.
    fn uri_entry(&mut self, uri: Piece<'_>) -> Option<usize> {
        if let Some(&i) = self.uri_index.get(&*uri.chars) {
            return Some(i);
        }
        if self.uris.len() >= URIS_MAX {
            return None;
        }
        let index = self.uris.len();
        self.uri_index.insert((*uri.chars).into(), index);
        self.uris.push(HtmlUri { uri: uri.into_text(), ..HtmlUri::default() });
        Some(index)
    }

    fn push_uri(&mut self, kind: &'static str, uri: &Piece<'_>) {
        let uri = tidy(uri, &mut self.uri_truncated);
        if uri.chars.is_empty() {
            return;
        }
        let final_form = ["data:", "mailto:", "file:", "cid:", "tel:"];
        let as_is =
            final_form.iter().any(|s| perl::starts_no_case(uri.chars.as_bytes(), s.as_bytes()));
        let resolved = if as_is || (self.base.is_empty() && is_plain_absolute(&uri.chars)) {
            uri
        } else {
            Piece { chars: Cow::Owned(target(&self.base, &uri.chars)), wide: uri.wide }
        };
        if resolved.chars.is_empty() {
            return;
        }
        if let Some(entry) = self.uri_entry(resolved).and_then(|i| self.uris.get_mut(i))
            && let Err(place) = entry.types.binary_search(&kind)
        {
            entry.types.insert(place, kind);
        }
    }

    /// Records the URIs among a start tag's attributes.
    pub(super) fn note_links(&mut self, tag: &'static str, attributes: &Attributes<'_>) {
        let plain = match tag {
            "body" | "table" | "tr" | "td" => attributes.get("background"),
            "a" | "area" | "link" => {
                if let Some(href) = href(attributes) {
                    self.push_uri(tag, &href);
                }
                attributes.get("data-saferedirecturl")
            }
            "img" | "frame" | "iframe" | "embed" | "script" | "bgsound" => {
                glued(attributes, "src", "/src")
            }
            "form" => attributes.get("action"),
            "base" => return self.note_base(attributes),
            "meta" => refresh(attributes),
            _ => None,
        };
        if let Some(uri) = plain {
            self.push_uri(tag, &uri);
        }
    }

    fn note_base(&mut self, attributes: &Attributes<'_>) {
        let Some(href) = attributes.get("href").filter(|h| !h.chars.is_empty() && h.chars != "0")
        else {
            return;
        };
        let uri = tidy(&href, &mut self.uri_truncated);
        self.push_uri("base", &uri);
        let schemes = ["http:", "https:", "ftp:"];
        let absolute = |s: &&str| perl::starts_no_case(uri.chars.as_bytes(), s.as_bytes());
        if schemes.iter().any(absolute) {
            self.base = without_file(&uri.chars);
            if !self.base.ends_with('/') {
                self.base.push('/');
            }
        }
    }

    /// `<a>`: the text up to its end belongs to this URI.
    pub(super) fn open_anchor(&mut self, attributes: &Attributes<'_>) {
        let href = href(attributes).unwrap_or(Piece::plain("", false));
        let uri = tidy(&href, &mut self.uri_truncated);
        self.anchor_uri = self.uri_entry(uri);
        if let Some(entry) = self.anchor_uri.and_then(|i| self.uris.get_mut(i)) {
            entry.anchor_text.push(Text::default());
        }
        if self.anchor.len() < PIECES_MAX {
            self.anchor.push(Text::default());
        }
    }
}

/// The target of `<meta http-equiv="refresh" content="...url=...">`.
fn refresh<'s>(attributes: &Attributes<'s>) -> Option<Piece<'s>> {
    if !attributes.has("http-equiv") {
        return None;
    }
    let content = attributes.get("content")?;
    let kind = attributes.get("http-equiv")?;
    perl::find_no_case(kind.chars.as_bytes(), b"refresh")?;
    let bytes = content.chars.as_bytes();
    let (mut at, mut start) = (0, None);
    while let Some(i) = perl::find_no_case(&bytes[at..], b"url").map(|i| at + i) {
        let bounded = i == 0 || !perl::is_word(bytes[i - 1]);
        let rest = content.chars[i + 3..].trim_start();
        if bounded && let Some(value) = rest.strip_prefix('=') {
            start = Some(content.chars.len() - value.trim_start().len());
        }
        at = i + 3;
    }
    let value = &content.chars[start?..];
    let end = value.find(';').unwrap_or(value.len());
    let value = value[..end].trim_end().to_owned();
    Some(Piece { chars: Cow::Owned(value), wide: content.wide })
}

/// A base URI without the file at its end: `http://a/b/c.html` is `http://a/b/`.
fn without_file(uri: &str) -> String {
    let Some(colon) = uri.find(':') else { return uri.to_owned() };
    let slashes = uri[colon + 1..].bytes().take(2).take_while(|b| *b == b'/').count();
    let host = colon + 1 + slashes;
    let Some(path) = uri[host..].find('/').filter(|n| *n > 0).map(|n| host + n + 1) else {
        return uri.to_owned();
    };
    // The file is the shortest tail `name.ext` after the first slash, ext of 2 to 4 characters.
    let Some(dot) = uri.rfind('.').filter(|d| *d > path) else { return uri.to_owned() };
    let extension = &uri[dot + 1..];
    if !(2..=4).contains(&perl::count_chars(extension)) || extension.contains('/') {
        return uri.to_owned();
    }
    let name = uri[..dot].rfind(['/', '.']).map_or(path, |i| i + 1).max(path);
    if name < dot { uri[..name].to_owned() } else { uri.to_owned() }
}

/// The parts of a URI (RFC 3986 appendix B).
#[derive(Debug, Default)]
struct Parts<'u> {
    scheme: Option<&'u str>,
    authority: Option<&'u str>,
    path: &'u str,
    query: Option<&'u str>,
    fragment: Option<&'u str>,
}

fn parts(uri: &str) -> Parts<'_> {
    let mut parts = Parts::default();
    let mut rest = uri;
    if let Some(end) = rest.find([':', '/', '?', '#']).filter(|e| *e > 0)
        && rest[end..].starts_with(':')
    {
        parts.scheme = Some(&rest[..end]);
        rest = &rest[end + 1..];
    }
    if let Some(after) = rest.strip_prefix("//") {
        let end = after.find(['/', '?', '#']).unwrap_or(after.len());
        parts.authority = Some(&after[..end]);
        rest = &after[end..];
    }
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    parts.path = &rest[..end];
    rest = &rest[end..];
    if let Some(after) = rest.strip_prefix('?') {
        let end = after.find('#').unwrap_or(after.len());
        parts.query = Some(&after[..end]);
        rest = &after[end..];
    }
    if let Some(after) = rest.strip_prefix('#') {
        // A line end stops the fragment.
        parts.fragment = Some(&after[..after.find('\n').unwrap_or(after.len())]);
    }
    parts
}

/// RFC 3986 section 5.2.4, with its input shortened first.
fn remove_dot_segments(path: &str) -> String {
    let mut output = String::with_capacity(path.len());
    let mut input = path;
    let stripped = input.strip_prefix("../").or_else(|| input.strip_prefix("./"));
    let owned;
    if let Some(rest) = stripped {
        owned = format!("/{rest}");
        input = &owned;
    }
    // "0" is false in Perl, where this loop ends at a false input.
    while !input.is_empty() && input != "0" {
        if let Some(rest) = input.strip_prefix("/./") {
            input = &input[input.len() - rest.len() - 1..];
        } else if input == "/." {
            input = "/";
        } else if let Some(rest) = input.strip_prefix("/../") {
            drop_segment(&mut output);
            input = &input[input.len() - rest.len() - 1..];
        } else if input == "/.." {
            drop_segment(&mut output);
            input = "/";
        } else {
            let skip = usize::from(input.starts_with('/'));
            let end = input[skip..].find('/').map_or(input.len(), |i| skip + i);
            output.push_str(&input[..end]);
            input = &input[end..];
        }
    }
    output
}

fn drop_segment(output: &mut String) {
    output.truncate(output.rfind('/').unwrap_or(0));
}

/// Whether this is a web URI that resolving leaves unchanged if there is no base.
fn is_plain_absolute(uri: &str) -> bool {
    let bytes = uri.as_bytes();
    let rest = bytes.strip_prefix(b"http").unwrap_or_default();
    rest.strip_prefix(b"s").unwrap_or(rest).starts_with(b"://")
        && memchr::memchr(b'\n', bytes).is_none()
        && !memchr::memchr_iter(b'/', bytes).any(|i| bytes.get(i + 1) == Some(&b'.'))
}

/// Resolves `reference` in a document with this base.
fn target(base: &str, reference: &str) -> String {
    let mut r = parts(reference);
    let base = parts(base);
    if r.scheme.is_some() && r.scheme == base.scheme {
        r.scheme = None;
    }
    let (scheme, authority, path, query);
    if r.scheme.is_some() {
        (scheme, authority, query) = (r.scheme, r.authority, r.query);
        path = remove_dot_segments(r.path);
    } else {
        scheme = base.scheme;
        if r.authority.is_some() {
            (authority, query) = (r.authority, r.query);
            path = remove_dot_segments(r.path);
        } else {
            authority = base.authority;
            if r.path.is_empty() {
                path = base.path.to_owned();
                query = r.query.or(base.query);
            } else {
                let merged =
                    if r.path.starts_with('/') { r.path.to_owned() } else { merge(&base, r.path) };
                path = remove_dot_segments(&merged);
                query = r.query;
            }
        }
    }
    recompose(scheme, authority, &path, query, r.fragment)
}

fn merge(base: &Parts<'_>, path: &str) -> String {
    if base.authority.is_some() && base.path.is_empty() {
        return format!("/{path}");
    }
    let folder = base.path.rfind('/').map_or("", |i| &base.path[..=i]);
    format!("{folder}{path}")
}

fn recompose(
    scheme: Option<&str>,
    authority: Option<&str>,
    path: &str,
    query: Option<&str>,
    fragment: Option<&str>,
) -> String {
    let mut uri = String::new();
    if let Some(scheme) = scheme.filter(|s| *s != "0") {
        uri.push_str(scheme);
        uri.push(':');
    } else if let Some(authority) = authority {
        // `//www.a.example/` without a scheme or base is taken for the web.
        let host = authority.as_bytes();
        for (prefix, guess) in [(&b"www"[..], "http:"), (b"ftp", "ftp:")] {
            let digits = |h: &[u8]| h.iter().take_while(|b| b.is_ascii_digit()).count();
            if perl::starts_no_case(host, prefix)
                && host.get(prefix.len() + digits(&host[prefix.len()..])) == Some(&b'.')
            {
                uri.push_str(guess);
            }
        }
    }
    if let Some(authority) = authority {
        uri.push_str("//");
        uri.push_str(authority);
    }
    uri.push_str(path);
    for (mark, part) in [('?', query), ('#', fragment)] {
        if let Some(part) = part {
            uri.push(mark);
            uri.push_str(part);
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved() {
        let base = "http://a.example/b/c/";
        assert_eq!(target(base, "d?x#y"), "http://a.example/b/c/d?x#y");
        assert_eq!(target(base, "../d/./e"), "http://a.example/b/d/e");
        assert_eq!(target(base, "//h/x"), "http://h/x");
        assert_eq!(target(base, "http:/z"), "http://a.example/z");
        assert_eq!(target("", "//www.h.example"), "http://www.h.example");
        assert_eq!(target("", "x.html"), "x.html");
        assert_eq!(target("", "https://h/a/../b"), "https://h/b");
    }

    #[test]
    fn plain_web_uris_are_their_own_targets() {
        for uri in ["http://a", "https://a/b?c=/d#e#f", "http://?", "http:///a//", "http://a//#"] {
            assert!(is_plain_absolute(uri), "{uri}");
            assert_eq!(target("", uri), uri);
        }
        let pieces = ["http://", "/", "/.", "?", "#", "0", "a", ".", ":", "//", "\n"];
        let mut seed = 7u32;
        for _ in 0..20_000 {
            let mut uri = String::from("http://");
            for _ in 0..5 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                uri.push_str(pieces[(seed >> 16) as usize % pieces.len()]);
            }
            assert!(!is_plain_absolute(&uri) || target("", &uri) == uri, "{uri}");
        }
        assert!(!is_plain_absolute("http://a/../b") && !is_plain_absolute("HTTP://a"));
        assert!(!is_plain_absolute("http:a") && !is_plain_absolute("/b"));
    }

    #[test]
    fn files_at_the_end_of_a_base() {
        assert_eq!(without_file("http://a/b/c.html"), "http://a/b/");
        assert_eq!(without_file("http://a.com"), "http://a.com");
        assert_eq!(without_file("http://a/b/c"), "http://a/b/c");
        assert_eq!(without_file("http://a/index.html"), "http://a/");
    }
}
