//! HTML into tokens (after the HTML Living Standard, section 13.2.5), on bytes, never failing.
//!
//! Works on bytes because mail's HTML need not be valid in its charset; every cut is beside an
//! ASCII character, so for UTF-8 input every range is on character boundaries. Time is linear in
//! the input.
//!
//! Differences from the standard, all on the tolerant side: a quote that is never closed does not
//! swallow the rest of the document (the tag ends at its next `>`), and `<noscript>` is read as
//! mark-up because mail readers run no scripts.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr3, memmem};

use super::entity;

/// One token. Concatenating all [`Tokenizer`] ranges gives the source again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// A start tag, `<name ...>`.
    Start(Tag<'a>),
    /// An end tag, `</name>`.
    End(Tag<'a>),
    /// Characters between tags, references not decoded. A `<` that opens nothing begins a text of
    /// its own, so texts may follow each other.
    Text(&'a [u8]),
    /// The content of a `script`, `style`, `xmp`, `iframe`, `noembed` or `noframes` element
    /// (references have no meaning in it), or of `title` or `textarea` (they have).
    RawText(&'a [u8]),
    /// The inside of `<!-- ... -->`; `closed` is false when the end of input closed it.
    Comment {
        /// Between `<!--` and `-->`.
        text: &'a [u8],
        /// It was closed by `-->` or `--!>`.
        closed: bool,
    },
    /// `<!DOCTYPE ...>` or any other `<! >` that is no comment, without the brackets.
    Declaration(&'a [u8]),
    /// `<? ... >`, and `</` that no letter follows, without the brackets.
    Instruction(&'a [u8]),
}

/// A start or end tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag<'a> {
    /// The name as written.
    pub name: &'a [u8],
    /// Everything between the name and the closing `>`.
    pub rest: &'a [u8],
    /// Byte offset of `rest` in the source.
    pub rest_offset: usize,
}

impl<'a> Tag<'a> {
    /// Whether the tag has this name (given in lower case).
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// It ends in `/`, as `<br/>` does.
    pub fn is_self_closing(&self) -> bool {
        self.rest.last() == Some(&b'/')
    }

    /// The attributes in order, duplicates included (the first of a name counts).
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes { rest: self.rest, at: 0, offset: self.rest_offset }
    }

    /// First attribute of this name (given in lower case).
    pub fn attribute(&self, name: &str) -> Option<Attribute<'a>> {
        self.attributes().find(|a| a.is(name))
    }
}

/// One attribute of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// The name as written.
    pub name: &'a [u8],
    /// The value as written, without quotes, references not decoded; empty if there is none.
    pub value: &'a [u8],
    /// Byte offset of `name` in the source.
    pub name_offset: usize,
    /// Byte offset of `value` in the source.
    pub value_offset: usize,
    /// `"` or `'`; none for a bare value or no value.
    pub quote: Option<u8>,
    /// There was a `=`.
    pub has_value: bool,
}

impl<'a> Attribute<'a> {
    /// Whether the attribute has this name (given in lower case).
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// The value with character references decoded.
    pub fn decoded(&self) -> Cow<'a, [u8]> {
        entity::decode(self.value, true)
    }

    /// Where the value stands in the source.
    pub fn value_range(&self) -> Range<usize> {
        self.value_offset..self.value_offset + self.value.len()
    }
}

/// Iterator over a tag's attributes.
#[derive(Debug, Clone)]
pub struct Attributes<'a> {
    rest: &'a [u8],
    at: usize,
    offset: usize,
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        let rest = self.rest;
        let start = skip(rest, self.at, |b| is_space(b) || b == b'/');
        if start >= rest.len() {
            self.at = start;
            return None;
        }
        // A `=` in front is part of the name (the standard says so).
        let name_end = skip(rest, start + 1, |b| !is_space(b) && b != b'=' && b != b'/');
        let equals = skip(rest, name_end, is_space);
        let mut attribute = Attribute {
            name: &rest[start..name_end],
            value: &[],
            name_offset: self.offset + start,
            value_offset: self.offset + name_end,
            quote: None,
            has_value: rest.get(equals) == Some(&b'='),
        };
        self.at = name_end;
        if attribute.has_value {
            let mut from = skip(rest, equals + 1, is_space);
            let quote = rest.get(from).copied().filter(|b| matches!(b, b'"' | b'\''));
            let end = match quote {
                Some(quote) => {
                    from += 1;
                    memchr(quote, &rest[from..]).map_or(rest.len(), |i| from + i)
                }
                None => skip(rest, from, |b| !is_space(b)),
            };
            attribute.value = &rest[from..end];
            attribute.value_offset = self.offset + from;
            attribute.quote = quote;
            self.at = (end + usize::from(quote.is_some())).min(rest.len());
        }
        Some(attribute)
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
}

/// First index from `at` on whose byte does not satisfy `while_true`.
fn skip(bytes: &[u8], at: usize, while_true: impl Fn(u8) -> bool) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|&b| !while_true(b)).unwrap_or(rest.len())
}

/// Iterator over the tokens of a source, each with its byte range.
#[derive(Debug, Clone)]
pub struct Tokenizer<'a> {
    source: &'a [u8],
    at: usize,
    /// Name of the element whose raw content comes next.
    raw_of: Option<&'a [u8]>,
    /// Offsets from which on a `"`, a `'` is known not to occur; keeps unclosed quotes linear.
    no_quote_from: [usize; 2],
}

impl<'a> Tokenizer<'a> {
    /// Starts at the beginning of `source`.
    pub fn new(source: &'a [u8]) -> Self {
        Tokenizer { source, at: 0, raw_of: None, no_quote_from: [usize::MAX; 2] }
    }

    /// Byte offset at which the next token begins.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// After a start tag: reads what follows as mark-up, whatever the element is. For renderings
    /// that treat e.g. `title` otherwise.
    pub fn cancel_raw_text(&mut self) {
        self.raw_of = None;
    }

    /// The raw text of element `name`, up to its end tag or the end of input.
    fn raw_text(&self, name: &[u8]) -> usize {
        let mut at = self.at;
        while let Some(i) = memmem::find(&self.source[at..], b"</").map(|i| at + i) {
            let rest = &self.source[i + 2..];
            let boundary = |b: &u8| is_space(*b) || matches!(b, b'/' | b'>');
            if rest.len() >= name.len()
                && rest[..name.len()].eq_ignore_ascii_case(name)
                && rest.get(name.len()).is_none_or(boundary)
            {
                return i;
            }
            at = i + 2;
        }
        self.source.len()
    }

    /// What begins with the `<` at `self.at`; none if it opens nothing.
    fn markup(&mut self) -> Option<(Token<'a>, usize)> {
        let source = self.source;
        let after = self.at + 1;
        match *source.get(after)? {
            b if b.is_ascii_alphabetic() => {
                let (tag, end) = self.tag(after);
                if super::tag::has_raw_content(tag.name) {
                    self.raw_of = Some(tag.name);
                }
                Some((Token::Start(tag), end))
            }
            b'/' => match *source.get(after + 1)? {
                b if b.is_ascii_alphabetic() => {
                    let (tag, end) = self.tag(after + 1);
                    Some((Token::End(tag), end))
                }
                _ => {
                    let (inside, end) = self.until_bracket(after);
                    Some((Token::Instruction(inside), end))
                }
            },
            b'!' if source[after..].starts_with(b"!--") => Some(self.comment(after + 3)),
            b'!' => {
                let (inside, end) = self.until_bracket(after);
                Some((Token::Declaration(inside), end))
            }
            b'?' => {
                let (inside, end) = self.until_bracket(after);
                Some((Token::Instruction(inside), end))
            }
            _ => None,
        }
    }

    /// From `from` to the next `>`; returns the inside and the offset after it.
    fn until_bracket(&self, from: usize) -> (&'a [u8], usize) {
        match memchr(b'>', &self.source[from..]) {
            Some(i) => (&self.source[from..from + i], from + i + 1),
            None => (&self.source[from..], self.source.len()),
        }
    }

    fn comment(&self, from: usize) -> (Token<'a>, usize) {
        let source = self.source;
        for (abrupt, length) in [(&b">"[..], 1), (&b"->"[..], 2)] {
            if source[from..].starts_with(abrupt) {
                return (Token::Comment { text: &[], closed: true }, from + length);
            }
        }
        let mut at = from;
        while let Some(i) = memmem::find(&source[at..], b"--").map(|i| at + i) {
            let length = match source[i + 2..] {
                [b'>', ..] => 3,
                [b'!', b'>', ..] => 4,
                _ => {
                    at = i + 1;
                    continue;
                }
            };
            return (Token::Comment { text: &source[from..i], closed: true }, i + length);
        }
        (Token::Comment { text: &source[from..], closed: false }, source.len())
    }

    /// The tag whose name begins at `from`; returns it and the offset after its `>`.
    fn tag(&mut self, from: usize) -> (Tag<'a>, usize) {
        let source = self.source;
        let name_end = skip(source, from, |b| !is_space(b) && b != b'/' && b != b'>');
        let (inside_end, end) = self.tag_end(name_end);
        let rest = &source[name_end..inside_end];
        (Tag { name: &source[from..name_end], rest, rest_offset: name_end }, end)
    }

    /// Finds the `>` that closes a tag, from `from` on, outside quoted values. A quote opens a
    /// value only after a `=`.
    fn tag_end(&mut self, from: usize) -> (usize, usize) {
        let source = self.source;
        let mut at = from;
        loop {
            let Some(i) = memchr3(b'>', b'"', b'\'', &source[at..]).map(|i| at + i) else {
                return (source.len(), source.len());
            };
            if source[i] == b'>' {
                return (i, i + 1);
            }
            at = i + 1;
            let before = source[from..i].iter().rev().find(|b| !is_space(**b));
            if before == Some(&b'=')
                && let Some(close) = self.closing_quote(source[i], at)
            {
                at = close + 1;
            }
        }
    }

    fn closing_quote(&mut self, quote: u8, from: usize) -> Option<usize> {
        let known = &mut self.no_quote_from[usize::from(quote == b'\'')];
        if from >= *known {
            return None;
        }
        let found = memchr(quote, &self.source[from..]).map(|i| from + i);
        if found.is_none() {
            *known = from;
        }
        found
    }
}

impl<'a> Iterator for Tokenizer<'a> {
    type Item = (Token<'a>, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        if let Some(name) = self.raw_of.take() {
            let end = self.raw_text(name);
            if end > start {
                self.at = end;
                return Some((Token::RawText(&self.source[start..end]), start..end));
            }
        }
        let first = *self.source.get(start)?;
        if first == b'<'
            && let Some((token, end)) = self.markup()
        {
            self.at = end;
            return Some((token, start..end));
        }
        let end =
            memchr(b'<', &self.source[start + 1..]).map_or(self.source.len(), |i| start + 1 + i);
        self.at = end;
        Some((Token::Text(&self.source[start..end]), start..end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(source: &str) -> Vec<String> {
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let mut end = 0;
        let mut shapes = Vec::new();
        for (token, range) in Tokenizer::new(source.as_bytes()) {
            assert_eq!(range.start, end, "ranges join");
            end = range.end;
            shapes.push(match token {
                Token::Start(tag) => {
                    let attributes = tag.attributes().map(|a| {
                        assert_eq!(&source.as_bytes()[a.value_range()], a.value);
                        format!(" {}={}", text(a.name), text(&a.decoded()))
                    });
                    format!("<{}{}", text(tag.name), attributes.collect::<String>())
                }
                Token::End(tag) => format!("</{}", text(tag.name)),
                Token::Text(t) => text(t),
                Token::RawText(t) => format!("raw:{}", text(t)),
                Token::Comment { text: t, closed } => format!("!--{}:{closed}", text(t)),
                Token::Declaration(t) => format!("decl:{}", text(t)),
                Token::Instruction(t) => format!("inst:{}", text(t)),
            });
        }
        assert_eq!(end, source.len());
        shapes
    }

    #[test]
    fn tags_and_attributes() {
        assert_eq!(
            shapes("<A HREF='x>y' b = \"&amp;1\" c=d/e f/>t</a >"),
            ["<A HREF=x>y b=&1 c=d/e f=", "t", "</a"]
        );
        assert_eq!(shapes("<a/href=x>"), ["<a href=x"]);
        assert_eq!(shapes("<a href=\"unclosed>text<b>"), ["<a href=unclosed", "text", "<b"]);
        assert_eq!(shapes("<p =\"x\">"), ["<p =\"x\"="], "odd, but what the standard says");
    }

    #[test]
    fn what_is_no_tag() {
        assert_eq!(shapes("a < b <3 </> c<"), ["a ", "< b ", "<3 ", "inst:/", " c", "<"]);
        assert_eq!(shapes("<!DOCTYPE html><?xml?>"), ["decl:!DOCTYPE html", "inst:?xml?"]);
    }

    #[test]
    fn comments() {
        assert_eq!(
            shapes("<!--a-->b<!-->c<!--->d"),
            ["!--a:true", "b", "!--:true", "c", "!--:true", "d"]
        );
        assert_eq!(shapes("<!--a--!>b<!--c>"), ["!--a:true", "b", "!--c>:false"]);
        assert_eq!(shapes("<!--[if mso]><b><![endif]-->x"), ["!--[if mso]><b><![endif]:true", "x"]);
    }

    #[test]
    fn raw_text_elements() {
        assert_eq!(
            shapes("<script>a<b></scriptx></SCRIPT>t"),
            ["<script", "raw:a<b></scriptx>", "</SCRIPT", "t"]
        );
        assert_eq!(shapes("<title></title>"), ["<title", "</title"]);
        assert_eq!(shapes("<style>unclosed"), ["<style", "raw:unclosed"]);
    }
}
