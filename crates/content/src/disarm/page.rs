//! HTML and SVG: the page without scripts, event attributes, forms, frames and plugins, addresses
//! that run (`javascript:`, `data:`) and refreshes.

use std::collections::BTreeSet;

use super::Made;
use super::markup::{Tag, attributes, end_of_element, next_tag, without};

/// Elements that go with all that is in them.
const WITH_CONTENT: [(&str, &str); 10] = [
    ("script", "script"),
    ("noscript", "script"),
    ("template", "script"),
    ("object", "embedded_object"),
    ("applet", "embedded_object"),
    ("iframe", "embedded_object"),
    ("frameset", "embedded_object"),
    ("portal", "embedded_object"),
    ("foreignobject", "script"),
    ("noembed", "embedded_object"),
];
/// Tags that go while what is between them stays.
const TAGS: [(&str, &str); 14] = [
    ("embed", "embedded_object"),
    ("frame", "embedded_object"),
    ("param", "embedded_object"),
    ("form", "form"),
    ("input", "form"),
    ("button", "form"),
    ("select", "form"),
    ("textarea", "form"),
    ("option", "form"),
    ("isindex", "form"),
    ("keygen", "form"),
    ("base", "redirect"),
    ("set", "script"),
    ("handler", "script"),
];
/// Schemes of addresses that run or hold a page of their own.
const SCHEMES: [&str; 5] = ["javascript:", "vbscript:", "livescript:", "data:", "mhtml:"];
/// Pictures that hold no program.
const PICTURES: [&str; 4] =
    ["data:image/png", "data:image/jpeg", "data:image/gif", "data:image/webp"];
/// Times that a page is read: taking out a tag may leave a new one.
const ROUNDS_MAX: usize = 8;

pub(super) fn disarm(bytes: &[u8]) -> Result<Made, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) || bytes.contains(&0) {
        return Err("its encoding is not one of ASCII and more".to_owned());
    }
    // Letters beyond ASCII stay byte for byte, whatever their encoding: none of them is markup.
    let mut text: String = bytes.iter().map(|b| char::from(*b)).collect();
    let mut removed = BTreeSet::new();
    for _ in 0..ROUNDS_MAX {
        let changed = round(&text, &mut removed);
        if changed == text {
            let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
            return bytes.map(|b| (b, removed, None)).map_err(|error| error.to_string());
        }
        text = changed;
    }
    Err("its tags are nested too oddly".to_owned())
}

fn round(text: &str, removed: &mut BTreeSet<&'static str>) -> String {
    let (mut edits, mut at) = (Vec::new(), 0);
    while let Some(tag) = next_tag(text, at) {
        at = tag.range.end;
        let found = |list: &[(&str, &'static str)]| {
            list.iter().find(|(name, _)| *name == tag.name).map(|(_, what)| *what)
        };
        if let Some(what) = found(&WITH_CONTENT) {
            removed.insert(what);
            let end = match tag.is_end {
                true => tag.range.end,
                // Browsers ignore the slash of `<script/>`.
                false => end_of_element(text, &Tag { is_empty: false, ..tag.clone() }),
            };
            edits.push((tag.range.start..end, String::new()));
            at = end;
        } else if tag.name.contains('<') {
            // A tag in a tag, which programs read in different ways.
            removed.insert("script");
            edits.push((tag.range.clone(), String::new()));
        } else if let Some(what) = found(&TAGS) {
            removed.insert(what);
            edits.push((tag.range.clone(), String::new()));
        } else if !tag.is_end {
            for (range, what) in attribute_edits(&tag) {
                removed.insert(what);
                edits.push((range, String::new()));
            }
        }
    }
    without(text, edits)
}

/// What goes of a tag that stays; all of it for a refresh.
fn attribute_edits(tag: &Tag<'_>) -> Vec<(std::ops::Range<usize>, &'static str)> {
    let all = attributes(tag);
    let refreshes = |a: &super::markup::Attribute| {
        a.name == "http-equiv" && plain(&a.value).contains("refresh")
    };
    if tag.name == "meta" && all.iter().any(refreshes) {
        return vec![(tag.range.clone(), "redirect")];
    }
    let imports = tag.name == "link"
        && all.iter().any(|a| a.name == "rel" && plain(&a.value).contains("import"));
    if imports {
        return vec![(tag.range.clone(), "embedded_object")];
    }
    let mut found = Vec::new();
    for attribute in all {
        let value = plain(&attribute.value);
        let is_picture = matches!(tag.name.as_str(), "img" | "image" | "source")
            && PICTURES.iter().any(|kind| value.starts_with(kind));
        let runs_by_name = attribute.name.starts_with("on")
            || ["formaction", "srcdoc", "attributename"].contains(&attribute.name.as_str());
        let runs_by_scheme = SCHEMES.iter().any(|scheme| value.starts_with(scheme)) && !is_picture;
        let words = ["expression(", "javascript:", "behavior:", "-moz-binding"];
        let runs_by_style =
            attribute.name == "style" && words.iter().any(|word| value.contains(word));
        if runs_by_name || runs_by_scheme || runs_by_style {
            found.push((attribute.range, "script"));
        }
    }
    found
}

/// A value as a browser reads a scheme in it: without references, white space and controls, in
/// lower case.
fn plain(value: &str) -> String {
    let mut out = String::new();
    let mut rest = value;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        let mut read = Some(c);
        if c == '&' {
            let (word, length) = reference(&rest[1..]);
            if length > 0 {
                (read, taken) = (word, 1 + length);
            }
        }
        out.extend(read.filter(|c| !c.is_whitespace() && !c.is_control()));
        rest = &rest[taken..];
    }
    out.to_lowercase()
}

/// A character reference without its `&`: the character, and how long it is; zero if it is none.
fn reference(text: &str) -> (Option<char>, usize) {
    let named =
        [("tab;", '\t'), ("newline;", '\n'), ("colon;", ':'), ("amp;", '&'), ("lpar;", '(')];
    let head: String = text.chars().take(8).collect::<String>().to_lowercase();
    if let Some((name, c)) = named.iter().find(|(name, _)| head.starts_with(name)) {
        return (Some(*c), name.len());
    }
    let Some(number) = text.strip_prefix('#') else { return (None, 0) };
    let (digits, radix, before) = match number.strip_prefix(['x', 'X']) {
        Some(hex) => (hex, 16, 2),
        None => (number, 10, 1),
    };
    let length = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    if length == 0 {
        return (None, 0);
    }
    let c = u32::from_str_radix(&digits[..length], radix).ok().and_then(char::from_u32);
    let end = usize::from(digits[length..].starts_with(';'));
    (c, before + length + end)
}
