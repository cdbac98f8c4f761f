//! Links of parts and fields that are no text of the message: HTML by its name or its look, SVG,
//! XML, calendars, cards, header fields, and lines that mail programs join.

use std::borrow::Cow;

use crate::charset;
use crate::part::Part;

/// Header fields whose URLs mail programs open, or show as part of the message.
pub(super) fn is_link_field(name: &[u8]) -> bool {
    const FIELDS: [&str; 11] = [
        "from",
        "sender",
        "reply-to",
        "organization",
        "comments",
        "content-base",
        "content-location",
        "content-type",
        "x-mozilla-external-attachment-url",
        "x-url",
        "archived-at",
    ];
    name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"list-"))
        || FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field.as_bytes()))
}

/// How a part that is not rendered as HTML is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Tags and attributes: HTML, SVG, other XML.
    Page,
    /// Folded lines of properties: iCalendar (RFC 5545), vCard (RFC 6350).
    Properties,
}

/// What programs take a leaf for, by type, by any of its names, or by how it begins.
pub(super) fn kind_of(part: &Part<'_>) -> Option<Kind> {
    let (kind, subtype) = (&*part.content_type.kind, &*part.content_type.subtype);
    let is_named = |endings: &[&str]| {
        part.name_interpretations().iter().any(|name| {
            let name = name.to_ascii_lowercase();
            endings.iter().any(|ending| name.ends_with(ending))
        })
    };
    let types = ["calendar", "vcard", "x-vcard", "directory", "ics", "x-vcalendar"];
    if types.contains(&subtype) || is_named(&[".ics", ".ical", ".vcs", ".vcf", ".ifb"]) {
        return Some(Kind::Properties);
    }
    let is_page_type = subtype == "xml"
        || subtype.ends_with("+xml")
        || subtype.contains("html")
        || subtype.starts_with("svg");
    let endings = [
        ".html", ".htm", ".xhtml", ".xht", ".shtml", ".shtm", ".svg", ".xml", ".mht", ".mhtml",
        ".hta",
    ];
    // A program that looks into a file takes it for a page if it begins with a tag.
    let begins_with_tag = || {
        let start = part.body().trim_ascii_start();
        let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
        matches!(start, [b'<', b'!' | b'?' | b'a'..=b'z' | b'A'..=b'Z', ..])
    };
    let is_page = is_page_type || is_named(&endings) || (kind != "text" && begins_with_tag());
    is_page.then_some(Kind::Page)
}

/// The text of such a part. All of a body that is no text: it is bounded by
/// [`crate::Limits::decoded_bytes_max`], and large files of data are sent honestly.
pub(super) fn text_of<'p>(part: &'p Part<'_>) -> Cow<'p, str> {
    let label = part.content_type.param("charset").map(str::as_bytes);
    part.text().map_or_else(|| charset::decode(part.body(), label).text, Cow::Borrowed)
}

/// Properties with their lines unfolded and backslash escapes undone (RFC 5545 sections 3.1 and
/// 3.3.11).
pub(super) fn unfolded(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace("\n ", "").replace("\n\t", "");
    text.replace("\\;", ";").replace("\\,", ",").replace("\\n", "\n").replace("\\N", "\n")
}

/// Text with the lines joined that its reader joins: `format=flowed; delsp=yes` drops the space at
/// the end of a line with the line end (RFC 3676 section 4.3).
pub(super) fn flowed(part: &Part<'_>, text: &str) -> Option<String> {
    let is = |name: &str, value: &str| {
        part.content_type.param(name).is_some_and(|v| v.trim().eq_ignore_ascii_case(value))
    };
    (is("format", "flowed") && is("delsp", "yes"))
        .then(|| text.replace("\r\n", "\n").replace(" \n", ""))
}

/// Links in angle brackets that go over several lines, joined (RFC 3986 appendix C). Linear: none
/// goes beyond the next bracket.
pub(super) fn bracketed(text: &str) -> impl Iterator<Item = String> {
    memchr::memchr_iter(b'<', text.as_bytes()).filter_map(move |open| {
        let inside = text[open + 1..].split(['<', '>']).next()?;
        let is_broken = inside.contains('\n');
        let start = inside.trim_start().get(..4)?;
        let is_link =
            ["http", "url:", "ftp:", "www."].iter().any(|s| start.eq_ignore_ascii_case(s));
        (is_broken && is_link).then(|| inside.split_whitespace().collect())
    })
}
