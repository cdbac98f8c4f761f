//! Tags of XML and HTML: where they stand, their names and attributes. Lenient, as browsers are:
//! what is no tag is text.

use std::ops::Range;

/// A tag, as it stands there.
#[derive(Debug, Clone)]
pub(super) struct Tag<'t> {
    /// From `<` to behind `>`.
    pub(super) range: Range<usize>,
    /// In lower case, without its prefix: `instrtext` of `w:instrText`.
    pub(super) name: String,
    pub(super) is_end: bool,
    /// An element that closes itself: `<a/>`.
    pub(super) is_empty: bool,
    /// What follows the name.
    pub(super) rest: &'t str,
    /// Offset of `rest` in the whole text, in bytes.
    pub(super) rest_at: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Attribute {
    /// In lower case, with its prefix.
    pub(super) name: String,
    /// As it stands there, without quotes.
    pub(super) value: String,
    /// All of it, in the whole text.
    pub(super) range: Range<usize>,
}

/// The next tag from `from` on. Comments, declarations and instructions are passed over.
pub(super) fn next_tag(text: &str, from: usize) -> Option<Tag<'_>> {
    let mut at = from;
    loop {
        let start = at + text.get(at..)?.find('<')?;
        let rest = &text[start + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            // An unfinished comment hides nothing from those that end it elsewhere.
            at = match comment.find("-->") {
                Some(end) => start + 4 + end + 3,
                None => start + 4,
            };
            continue;
        }
        let is_end = rest.starts_with('/');
        let name_at = start + 1 + usize::from(is_end);
        let named = text[name_at..].starts_with(|c: char| c.is_ascii_alphabetic());
        if !named {
            at = start + 1;
            continue;
        }
        let name_end = text[name_at..]
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '>'))
            .map_or(text.len(), |i| name_at + i);
        let end = end_of_tag(text, name_end);
        let inner_end = end - usize::from(text[..end].ends_with('>'));
        let rest = &text[name_end..inner_end.max(name_end)];
        let whole = text[name_at..name_end].to_ascii_lowercase();
        let name = whole.rsplit(':').next().unwrap_or_default().to_owned();
        let is_empty = rest.ends_with('/');
        return Some(Tag { range: start..end, name, is_end, is_empty, rest, rest_at: name_end });
    }
}

/// Behind the `>` that ends a tag, which is none within quotes.
fn end_of_tag(text: &str, from: usize) -> usize {
    let (mut quote, mut after_equals) = (None, false);
    for (i, c) in text[from..].char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') if after_equals => quote = Some(c),
            (None, '>') => return from + i + 1,
            (None, _) => {}
        }
        after_equals = c == '=' || (after_equals && c.is_whitespace());
    }
    text.len()
}

/// The attributes of a tag.
pub(super) fn attributes(tag: &Tag<'_>) -> Vec<Attribute> {
    attributes_in(tag.rest, tag.rest_at)
}

/// The attributes in what follows the name of a tag at this place of the whole text.
pub(super) fn attributes_in(text: &str, rest_at: usize) -> Vec<Attribute> {
    let (mut at, mut found) = (0, Vec::new());
    let is_gap = |c: char| c.is_whitespace() || c == '/';
    while let Some(start) = text[at..].find(|c| !is_gap(c)).map(|i| at + i) {
        let first = text[start..].chars().next().map_or(1, char::len_utf8);
        let name_end = text[start + first..]
            .find(|c: char| is_gap(c) || c == '=')
            .map_or(text.len(), |i| start + first + i);
        let mut end = name_end;
        let mut value = "";
        let after = text[name_end..].trim_start();
        if let Some(after) = after.strip_prefix('=') {
            let after = after.trim_start();
            let value_at = text.len() - after.len();
            let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
            let (from, to, behind) = match quote {
                Some(q) => match after[1..].find(q) {
                    Some(i) => (value_at + 1, value_at + 1 + i, value_at + i + 2),
                    None => (value_at + 1, text.len(), text.len()),
                },
                None => {
                    let i = after.find(char::is_whitespace).unwrap_or(after.len());
                    (value_at, value_at + i, value_at + i)
                }
            };
            value = &text[from..to];
            end = behind;
        }
        found.push(Attribute {
            name: text[start..name_end].to_ascii_lowercase(),
            value: value.to_owned(),
            range: rest_at + start..rest_at + end,
        });
        at = end.max(start + first);
    }
    found
}

/// Behind the end tag of an element that begins with this tag: of the same name, and those inside
/// count. The end of the text if there is none.
pub(super) fn end_of_element(text: &str, tag: &Tag<'_>) -> usize {
    if tag.is_empty {
        return tag.range.end;
    }
    let (mut depth, mut at) = (1usize, tag.range.end);
    while let Some(next) = next_tag(text, at) {
        at = next.range.end;
        if next.name != tag.name {
            continue;
        }
        if next.is_end {
            depth -= 1;
        } else if !next.is_empty {
            depth += 1;
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The text without these ranges, which may overlap.
pub(super) fn without(text: &str, mut ranges: Vec<(Range<usize>, String)>) -> String {
    ranges.sort_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    for (range, instead) in ranges {
        if range.start < at {
            continue;
        }
        out.push_str(&text[at..range.start]);
        out.push_str(&instead);
        at = range.end;
    }
    out.push_str(&text[at..]);
    out
}
