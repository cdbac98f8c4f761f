//! XML as Office reads it: tags and texts in order, names without their prefix, since a document
//! chooses its prefixes. One pass; what no parser of XML accepts ends it.

use std::ops::Range;

use memchr::{memchr, memchr3, memmem};

/// A tag, or text between two.
pub(super) enum Piece<'x> {
    Tag(Tag<'x>),
    /// Text with its references resolved, or as it stands in a section of character data.
    Text(String),
}

/// A tag: `<w:name attributes>`, `</w:name>` or `<w:name/>`.
pub(super) struct Tag<'x> {
    /// Without prefix.
    pub(super) name: &'x str,
    pub(super) is_end: bool,
    pub(super) is_empty: bool,
    /// Where it begins.
    at: usize,
    /// Where what follows it begins.
    after: usize,
    attributes: &'x str,
}

impl Tag<'_> {
    /// The value of the first attribute of this name, whatever its prefix.
    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        let mut rest = self.attributes;
        loop {
            let (found, behind) = rest.split_once('=')?;
            let behind = behind.trim_start();
            let quote = behind.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            let (value, behind) = behind[1..].split_once(quote)?;
            if local(found.trim()) == name {
                return Some(unescape(value));
            }
            rest = behind;
        }
    }

    /// Whether this stands anywhere in the attributes.
    pub(super) fn has(&self, part: &str) -> bool {
        unescape(self.attributes).contains(part)
    }
}

/// A name without its prefix.
fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

/// A tag and where it stands, for those who change a document.
#[derive(Debug, Clone)]
pub(crate) struct Place<'x> {
    /// From `<` to behind `>`, in bytes of the document.
    pub(crate) range: Range<usize>,
    /// Without prefix.
    pub(crate) name: &'x str,
    pub(crate) is_end: bool,
    pub(crate) is_empty: bool,
}

/// The tags of a document with their places, as readers here see them.
#[derive(Debug)]
pub(crate) struct Places<'x> {
    xml: &'x str,
    at: usize,
}

impl<'x> Places<'x> {
    pub(crate) fn new(xml: &'x str) -> Self {
        Places { xml, at: 0 }
    }

    /// Whether all of the document was read: nothing stands in it that is no XML.
    pub(crate) fn is_whole(&self) -> bool {
        self.at >= self.xml.len()
    }

    /// Goes behind the element that this tag, which was the last one, begins. None if it does not
    /// end, or not by a tag of its name.
    pub(crate) fn element(&mut self, tag: &Place<'x>) -> Option<Range<usize>> {
        let mut depth = usize::from(!tag.is_empty);
        let mut end = tag.range.end;
        while depth > 0 {
            let next = self.next()?;
            match (next.is_end, next.is_empty) {
                (true, _) => depth -= 1,
                (false, true) => {}
                (false, false) => depth += 1,
            }
            if depth == 0 && next.name != tag.name {
                return None;
            }
            end = next.range.end;
        }
        Some(tag.range.start..end)
    }
}

impl<'x> Iterator for Places<'x> {
    type Item = Place<'x>;

    fn next(&mut self) -> Option<Place<'x>> {
        loop {
            if let Piece::Tag(tag) = next(self.xml, &mut self.at)? {
                let Tag { name, is_end, is_empty, at, after, .. } = tag;
                return Some(Place { range: at..after, name, is_end, is_empty });
            }
        }
    }
}

/// The tags and texts of a document.
pub(super) fn pieces(xml: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || next(xml, &mut at))
}

/// The tags alone.
pub(super) fn tags(xml: &str) -> impl Iterator<Item = Tag<'_>> {
    pieces(xml).filter_map(|piece| match piece {
        Piece::Tag(tag) => Some(tag),
        Piece::Text(_) => None,
    })
}

fn next<'x>(xml: &'x str, at: &mut usize) -> Option<Piece<'x>> {
    loop {
        let rest = xml.get(*at..).filter(|rest| !rest.is_empty())?;
        if !rest.starts_with('<') {
            let end = memchr(b'<', rest.as_bytes()).unwrap_or(rest.len());
            *at += end;
            return Some(Piece::Text(unescape(&rest[..end])));
        }
        let until = |end: &str| memmem::find(rest.as_bytes(), end.as_bytes());
        if let Some(data) = rest.strip_prefix("<![CDATA[") {
            let end = until("]]>")?;
            *at += end + 3;
            // The end of what begins so lies behind it.
            return Some(Piece::Text(data.get(..end - 9)?.to_owned()));
        } else if rest.starts_with("<!--") {
            *at += 4 + memmem::find(&rest.as_bytes()[4..], b"-->")? + 3;
        } else if rest.starts_with("<?") {
            *at += until("?>")? + 2;
        } else if rest.starts_with("<!") {
            *at += until(">")? + 1;
        } else {
            let tag = tag(xml, *at)?;
            *at = tag.after;
            return Some(Piece::Tag(tag));
        }
    }
}

/// The tag that begins here. A value in quotes may hold the character that ends tags.
fn tag(xml: &str, at: usize) -> Option<Tag<'_>> {
    let bytes = xml.as_bytes();
    let mut end = at + 1;
    loop {
        end += memchr3(b'>', b'"', b'\'', &bytes[end..])?;
        match bytes[end] {
            b'>' => break,
            quote => end += 1 + memchr(quote, &bytes[end + 1..])? + 1,
        }
    }
    let inner = &xml[at + 1..end];
    let (inner, is_end) = inner.strip_prefix('/').map_or((inner, false), |inner| (inner, true));
    let (inner, is_empty) = inner.strip_suffix('/').map_or((inner, false), |inner| (inner, true));
    let (name, attributes) =
        inner.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((inner, ""));
    Some(Tag { name: local(name), is_end, is_empty, at, after: end + 1, attributes })
}

/// The five entities of XML and references by number.
pub(crate) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.bytes().take(12).position(|b| b == b';');
        let reference = end.map(|end| &rest[1..end]);
        let c = match reference {
            Some("amp") => Some('&'),
            Some("lt") => Some('<'),
            Some("gt") => Some('>'),
            Some("quot") => Some('"'),
            Some("apos") => Some('\''),
            Some(number) => number.strip_prefix('#').and_then(|n| {
                let code = match n.strip_prefix(['x', 'X']) {
                    Some(hex) => u32::from_str_radix(hex, 16),
                    None => n.parse(),
                };
                code.ok().and_then(char::from_u32)
            }),
            None => None,
        };
        match (c, end) {
            (Some(c), Some(end)) => {
                out.push(c);
                rest = &rest[end + 1..];
            }
            _ => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Bytes that stand in base64 in a document: what is no digit is passed over, as Office does. None
/// if the digits do not end as they must.
pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    let is_digit = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    let mut digits: Vec<u8> = text.bytes().filter(is_digit).collect();
    if digits.len() % 4 == 1 {
        digits.pop();
    }
    base64_simd::forgiving_decode_to_vec(&digits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_texts_and_attributes_whatever_the_prefix() {
        let xml =
            "<?xml?><!-- <a> --><q:f q:instr = 'a>&quot;b' c=\"d\"/><t><![CDATA[<&]]></t>&#65;";
        let shown: Vec<String> = pieces(xml)
            .map(|piece| match piece {
                Piece::Tag(tag) => {
                    let instruction = tag.attribute("instr").unwrap_or_default();
                    format!("{} {} {instruction}", tag.name, tag.is_end)
                }
                Piece::Text(text) => text,
            })
            .collect();
        assert_eq!(shown, ["f false a>\"b", "t false ", "<&", "t true ", "A"]);
        assert_eq!(
            tags("<a b='<c>").count() + tags("<!-- ").count() + tags("<![CDATA[").count(),
            0
        );
    }
}
