//! Attributes of a start tag.

use std::borrow::Cow;

use super::scan::{is_space, skip_space};
use crate::views::html::entities::{self, Piece};

/// The attributes of a start tag, in order; the first of a name counts.
#[derive(Debug, Default)]
pub(in crate::views::html) struct Attributes<'s> {
    /// Name as written, and the value without quotes; `None` for a name alone.
    pub(super) list: Vec<(&'s str, Option<&'s str>)>,
    pub(super) wide: bool,
}

impl<'s> Attributes<'s> {
    pub(super) fn value(&self, attribute: (&'s str, Option<&'s str>)) -> Piece<'s> {
        match attribute.1 {
            Some(raw) => entities::decode(raw, self.wide, false),
            None => Piece::plain(attribute.0, self.wide),
        }
    }

    /// Value of an attribute, references decoded; the name itself if it has no value.
    pub(in crate::views::html) fn get(&self, name: &str) -> Option<Piece<'s>> {
        let found = self.list.iter().find(|a| a.0.eq_ignore_ascii_case(name))?;
        Some(self.value(*found))
    }

    /// Whether there is an attribute of this name.
    pub(in crate::views::html) fn has(&self, name: &str) -> bool {
        self.list.iter().any(|a| a.0.eq_ignore_ascii_case(name))
    }

    /// The first attribute whose name contains a slash and satisfies `is_wanted` in lower case; of
    /// attributes of one name only the first counts.
    pub(in crate::views::html) fn find_slashed(
        &self,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Option<Piece<'s>> {
        let found = self.list.iter().enumerate().find(|(i, a)| {
            memchr::memchr(b'/', a.0.as_bytes()).is_some()
                && !self.list[..*i].iter().any(|b| b.0.eq_ignore_ascii_case(a.0))
                && is_wanted(&lower(a.0))
        })?;
        Some(self.value(*found.1))
    }
}

pub(super) fn lower(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|b| b.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

/// An attribute's name, and its value if it has one.
pub(super) type Attribute<'t> = (&'t str, Option<&'t str>);

/// One attribute at `i`: where the next begins, and the attribute. `None` at the end of input.
pub(super) fn attribute(text: &str, i: usize) -> Option<(usize, Attribute<'_>)> {
    let s = text.as_bytes();
    let mut end = i + 1;
    // The first byte may be anything, even an equal sign; a character is not cut.
    while end < s.len() && !is_space(s[end]) && s[end] != b'>' && s[end] != b'=' {
        end += 1;
    }
    if end >= s.len() {
        return None;
    }
    let name = text.get(i..end)?;
    let mut next = skip_space(s, end);
    if next >= s.len() {
        return None;
    }
    if s[next] != b'=' {
        return Some((next, (name, None)));
    }
    next = skip_space(s, next + 1);
    if next >= s.len() {
        return None;
    }
    let value = match s[next] {
        b'>' => return Some((next, (name, Some("")))),
        quote @ (b'"' | b'\'') => {
            let length = memchr::memchr(quote, &s[next + 1..])?;
            let value = &text[next + 1..next + 1 + length];
            next += length + 2;
            value
        }
        _ => {
            let start = next;
            while next < s.len() && !is_space(s[next]) && s[next] != b'>' {
                next += 1;
            }
            if next >= s.len() {
                return None;
            }
            &text[start..next]
        }
    };
    next = skip_space(s, next);
    (next < s.len()).then_some((next, (name, Some(value))))
}
