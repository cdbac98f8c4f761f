//! Header fields of responses as programs read them, also when they come twice or make no sense.
//!
//! A response has one `Content-Type` (RFC 9110 section 8.3). If a server sends several, or a list,
//! one browser takes the first and another the last, so all of them are kept.

use gauntlet_mail::header::decode_words;
use hyper::HeaderMap;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName};

/// Content codings that are applied on top of each other; more are a trap.
const CODINGS_MAX: usize = 4;
/// Bytes of a name that are kept.
const NAME_BYTES_MAX: usize = 255;
/// Values of a field that are looked at.
const VALUES_MAX: usize = 32;

/// What `Content-Type` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContentTypes {
    /// Media types in lower case, without parameters, each once; an empty one stands for what is
    /// no media type, and for none. There is one at least.
    pub(super) essences: Vec<String>,
    /// Parameters `charset` that differ.
    pub(super) charsets: Vec<String>,
    /// Parameter `boundary`.
    pub(super) boundary: Option<String>,
    /// It was said more than once.
    pub(super) is_repeated: bool,
}

impl Default for ContentTypes {
    fn default() -> Self {
        ContentTypes {
            essences: vec![String::new()],
            charsets: Vec::new(),
            boundary: None,
            is_repeated: false,
        }
    }
}

impl ContentTypes {
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let fields = values(headers, CONTENT_TYPE);
        let all: Vec<&str> =
            fields.iter().flat_map(|value| split(value, ',')).take(VALUES_MAX).collect();
        let (mut essences, mut charsets) = (Vec::new(), Vec::<String>::new());
        for value in &all {
            let essence = essence(value);
            if !essences.contains(&essence) {
                essences.push(essence);
            }
            if let Some(charset) = parameter(value, "charset")
                && !charsets.iter().any(|one| one.eq_ignore_ascii_case(&charset))
            {
                charsets.push(charset);
            }
        }
        if essences.is_empty() {
            return ContentTypes::default();
        }
        let boundary = all.iter().find_map(|value| parameter(value, "boundary"));
        ContentTypes { essences, charsets, boundary, is_repeated: all.len() > 1 }
    }

    /// The first that is a media type; empty if none is.
    pub(super) fn first(&self) -> &str {
        self.essences.iter().find(|one| !one.is_empty()).map_or("", String::as_str)
    }

    /// Whichever a program takes, it is one of those.
    pub(super) fn are_all(&self, is: impl Fn(&str) -> bool) -> bool {
        self.essences.iter().all(|one| is(one))
    }

    pub(super) fn are_any(&self, is: impl Fn(&str) -> bool) -> bool {
        self.essences.iter().any(|one| is(one))
    }
}

/// Media types that a response says it has, each once, empty for what is none: one at least.
pub(crate) fn media_types(headers: &HeaderMap) -> Vec<String> {
    ContentTypes::read(headers).essences
}

/// What `Content-Disposition` says (RFC 6266).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Disposition {
    /// Names that a program may save it by.
    pub(super) names: Vec<String>,
    /// It is to be saved, not shown.
    pub(super) is_attachment: bool,
    /// It is to be shown, and nothing else.
    pub(super) is_inline: bool,
}

impl Disposition {
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let values = values(headers, CONTENT_DISPOSITION);
        let kind = |value: &String| {
            value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
        };
        Disposition {
            names: values.iter().flat_map(|value| names(value)).collect(),
            // Without a type, some browsers save it.
            is_attachment: values.iter().any(|v| kind(v) == "attachment" || kind(v).contains('=')),
            is_inline: values.iter().all(|value| matches!(kind(value).as_str(), "" | "inline")),
        }
    }
}

/// All values of a field.
fn values(headers: &HeaderMap, name: HeaderName) -> Vec<String> {
    let text = |v: &hyper::header::HeaderValue| String::from_utf8_lossy(v.as_bytes()).into_owned();
    headers.get_all(name).iter().map(text).take(VALUES_MAX).collect()
}

/// Types that browsers take as if there were none (WHATWG, MIME Sniffing, section 7).
const UNKNOWN: [&str; 3] = ["*/*", "unknown/unknown", "application/unknown"];

/// The media type of a value: two tokens and a slash (RFC 9110 section 8.3.1). Browsers take what
/// is none as if there were no type (WHATWG, MIME Sniffing, section 4.4).
fn essence(value: &str) -> String {
    let text = value.split(';').next().unwrap_or_default().trim();
    let is_token = |part: &str| {
        let is_mark = |b: u8| b"!#$%&'*+-.^_`|~".contains(&b);
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || is_mark(b))
    };
    let is_type = text.split_once('/').is_some_and(|(a, b)| is_token(a) && is_token(b));
    let lower = text.to_ascii_lowercase();
    if is_type && !UNKNOWN.contains(&lower.as_str()) { lower } else { String::new() }
}

/// The parts of a value between separators that do not stand in a quoted string.
fn split(value: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in value.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            c if c == separator && !is_quoted => {
                parts.push(value.get(start..at).unwrap_or_default());
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(value.get(start..).unwrap_or_default());
    parts
}

/// Codings without those that mean nothing. Browsers ignore names that they do not know; those
/// that are registered, or that some programs undo, and are not known here are kept, and named when
/// they are met. Parameters mean nothing either: a program may look at the name alone.
pub(super) fn codings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(CONTENT_ENCODING).iter().filter_map(|v| v.to_str().ok());
    let name = |coding: &str| coding.split(';').next().unwrap_or_default().trim().to_lowercase();
    let all = values.flat_map(|v| v.split(',')).map(name);
    all.filter(|c| KNOWN.contains(&c.as_str())).take(CODINGS_MAX + 1).collect()
}

/// Registered content codings but `identity` (IANA), their old names, and those of wget2.
const KNOWN: [&str; 20] = [
    "gzip",
    "x-gzip",
    "deflate",
    "br",
    "zstd",
    "compress",
    "x-compress",
    "exi",
    "pack200-gzip",
    "dcb",
    "dcz",
    "bzip2",
    "x-bzip2",
    "xz",
    "x-xz",
    "lzma",
    "x-lzma",
    "lzip",
    "lz4",
    "snappy",
];

/// A parameter of a field such as `Content-Type` (RFC 9110 section 5.6.6).
fn parameter(value: &str, name: &str) -> Option<String> {
    let mut all = parameters(value);
    all.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

fn parameters(value: &str) -> impl Iterator<Item = (String, String)> {
    // What stands first is the type, or, where that was forgotten, a parameter.
    split(value, ';').into_iter().filter_map(|part| {
        let (name, value) = part.split_once('=')?;
        Some((name.trim().to_owned(), unquoted(value.trim())))
    })
}

/// Without quotation marks and what escapes in quoted strings (RFC 9110 section 5.6.4).
fn unquoted(value: &str) -> String {
    let (mut out, mut is_quoted, mut is_escaped) = (String::new(), false, false);
    for c in value.chars() {
        match c {
            _ if is_escaped => {
                out.push(c);
                is_escaped = false;
            }
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            c => out.push(c),
        }
    }
    out
}

/// Names of `Content-Disposition` (RFC 6266): programs differ in which one they take.
fn names(disposition: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (name, value) in parameters(disposition) {
        let value = match name.to_ascii_lowercase().as_str() {
            // Browsers decode what only mail may have (RFC 2047).
            "filename" => percent_decoded(&decode_words(value.as_bytes()).0),
            // RFC 8187: charset'language'value.
            "filename*" => percent_decoded(value.splitn(3, '\'').nth(2).unwrap_or(&value)),
            _ => continue,
        };
        names.extend(Some(file_name(&value)).filter(|name| !name.is_empty()));
    }
    names
}

/// The last part of a path; what Windows cuts from its end is cut.
pub(super) fn file_name(path: &str) -> String {
    let last = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let shown = last.chars().filter(|c| !c.is_control()).take(NAME_BYTES_MAX);
    shown.collect::<String>().trim_end_matches(['.', ' ']).trim_start().to_owned()
}

pub(super) fn percent_decoded(text: &str) -> String {
    let hex = |byte: Option<&u8>| byte.and_then(|b| char::from(*b).to_digit(16));
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let digits = (hex(bytes.get(at + 1)), hex(bytes.get(at + 2)));
        match (byte, digits) {
            (b'%', (Some(high), Some(low))) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, _) => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> ContentTypes {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(CONTENT_TYPE, value.parse().unwrap());
        }
        ContentTypes::read(&headers)
    }

    #[test]
    fn every_type_that_a_program_may_take_is_kept() {
        for (values, essences) in [
            (&["text/plain"][..], &["text/plain"][..]),
            (&["text/plain", "Text/HTML; a=b"], &["text/plain", "text/html"]),
            (&["text/plain, text/html"], &["text/plain", "text/html"]),
            (&["text/plain; a=\"b, text/html\""], &["text/plain"]),
            (&["text/plain, text/plain"], &["text/plain"]),
            (&["text/plain", "foo"], &["text/plain", ""]),
            (&["foo"], &[""]),
            (&["text/"], &[""]),
            (&["text/ht ml"], &[""]),
            (&["*/*"], &[""]),
            (&["Unknown/Unknown"], &[""]),
            (&["application/unknown; x=y"], &[""]),
            (&[""], &[""]),
            (&[], &[""]),
        ] {
            assert_eq!(read(values).essences, essences, "{values:?}");
        }
        let both = read(&["text/html; charset=utf-8", "text/html; charset=\"UTF-7\""]);
        assert_eq!(both.charsets, ["utf-8", "UTF-7"]);
        assert_eq!(read(&["a/b; charset=utf-8", "a/b; charset=UTF-8"]).charsets, ["utf-8"]);
        assert!(both.is_repeated && !read(&["text/html"]).is_repeated);
        assert_eq!(read(&["foo, text/css"]).first(), "text/css");
    }
}
