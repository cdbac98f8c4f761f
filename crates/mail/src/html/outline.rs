//! The start of a page as its rendering met it: names of the first tags, and of their first
//! attributes, by their places in the source. What looks at the structure of pages reads this
//! instead of tokenizing the source once more.

use super::token::{Attribute, Tag};

/// Start tags that are kept of one page; the others are only counted
/// ([`super::Structure::tags`]).
pub const TAGS_MAX: usize = 150;
/// Attributes that are kept of one tag.
pub const ATTRIBUTES_MAX: usize = 8;
/// Bytes that are kept of a name, of a tag or an attribute.
pub const NAME_BYTES_MAX: usize = 16;

/// The first [`TAGS_MAX`] start tags of a page in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outline {
    tags: Vec<Start>,
    /// Names of attributes, tag by tag.
    attributes: Vec<Name>,
}

/// A start tag, and how many of [`Outline::attributes`] are its.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Start {
    name: Name,
    attributes: u8,
}

/// Where a name stands in the source: at most [`NAME_BYTES_MAX`] bytes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Name {
    at: u32,
    length: u8,
}

impl Name {
    fn new(name: &[u8], at: usize) -> Self {
        Name { at: at as u32, length: name.len().min(NAME_BYTES_MAX) as u8 }
    }

    fn of(self, source: &[u8]) -> &[u8] {
        let at = self.at as usize;
        source.get(at..at + usize::from(self.length)).unwrap_or_default()
    }
}

/// A tag of an [`Outline`], borrowed from the source of the page.
#[derive(Debug, Clone)]
pub struct OutlineTag<'a> {
    /// The name as written, its first [`NAME_BYTES_MAX`] bytes.
    pub name: &'a [u8],
    source: &'a [u8],
    attributes: &'a [Name],
}

impl<'a> OutlineTag<'a> {
    /// Names of the first [`ATTRIBUTES_MAX`] attributes as written, duplicates included, of each
    /// the first [`NAME_BYTES_MAX`] bytes.
    pub fn attributes(&self) -> impl Iterator<Item = &'a [u8]> {
        let source = self.source;
        self.attributes.iter().map(move |name| name.of(source))
    }
}

impl Outline {
    /// The tags; `source` is what was rendered.
    pub fn tags<'a>(&'a self, source: &'a str) -> impl Iterator<Item = OutlineTag<'a>> {
        let source = source.as_bytes();
        let mut rest = &self.attributes[..];
        self.tags.iter().map(move |tag| {
            let (attributes, others) =
                rest.split_at_checked(usize::from(tag.attributes)).unwrap_or_default();
            rest = others;
            OutlineTag { name: tag.name.of(source), source, attributes }
        })
    }

    /// A start tag comes next. Says whether it is kept, and its attributes are to follow.
    pub(super) fn start(&mut self, tag: &Tag<'_>) -> bool {
        let is_kept = self.tags.len() < TAGS_MAX;
        if is_kept {
            let name = Name::new(tag.name, tag.rest_offset - tag.name.len());
            self.tags.push(Start { name, attributes: 0 });
        }
        is_kept
    }

    /// An attribute of the last tag.
    pub(super) fn attribute(&mut self, attribute: &Attribute<'_>) {
        if let Some(tag) = self.tags.last_mut().filter(|t| t.attributes < ATTRIBUTES_MAX as u8) {
            tag.attributes += 1;
            self.attributes.push(Name::new(attribute.name, attribute.name_offset));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::{Token, Tokenizer, render};
    use crate::limits::Limits;

    fn clipped(name: &[u8]) -> String {
        String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]).into_owned()
    }

    /// What a pass of its own would find.
    fn tokenized(source: &str) -> Vec<(String, Vec<String>)> {
        let tags = Tokenizer::new(source.as_bytes()).filter_map(|(token, _)| match token {
            Token::Start(tag) => Some(tag),
            _ => None,
        });
        tags.take(TAGS_MAX)
            .map(|tag| {
                let names = tag.attributes().take(ATTRIBUTES_MAX).map(|a| clipped(a.name));
                (clipped(tag.name), names.collect())
            })
            .collect()
    }

    #[test]
    fn an_outline_is_what_the_tokenizer_finds() {
        let many = "<p class=a id=b>x<br/>".repeat(200);
        let wide = format!("<td{}>x<td nowrap>", " a=b".repeat(20));
        for source in [
            "",
            "no tags < 3 <>",
            "<html><!-- <b> --><script>'<i>'</script><title><u></title><A HREF='x>y' b>t</A>",
            "<a-very-long-name-of-a-tag and-a-long-name-of-an-attribute=1 \u{e4}\u{f6}=2>",
            "<table><tr><td style='a:b' hidden style=c><a href=x href=y><img src=z alt",
            "<a href=\"unclosed>text<b>",
            &many,
            &wide,
        ] {
            let page = render(source, &Limits::default());
            let outline: Vec<(String, Vec<String>)> = page
                .outline
                .tags(source)
                .map(|tag| (clipped(tag.name), tag.attributes().map(clipped).collect()))
                .collect();
            assert_eq!(outline, tokenized(source), "{source}");
        }
    }
}
