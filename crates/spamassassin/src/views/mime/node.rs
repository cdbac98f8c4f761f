//! A part of a message: its header fields and its body.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::views::content_type::{self, ContentType};
use crate::views::{encoding, header_text, perl};

/// Bytes of the message, or of something decoded from it.
#[derive(Debug, Clone)]
pub(super) enum Piece<'m> {
    Raw(&'m [u8]),
    Made(Arc<[u8]>, Range<usize>),
}

impl Deref for Piece<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Piece::Raw(bytes) => bytes,
            Piece::Made(bytes, range) => bytes.get(range.clone()).unwrap_or_default(),
        }
    }
}

impl<'m> Piece<'m> {
    pub(super) fn of(bytes: Cow<'m, [u8]>) -> Self {
        match bytes {
            Cow::Borrowed(bytes) => Piece::Raw(bytes),
            Cow::Owned(bytes) => {
                let range = 0..bytes.len();
                Piece::Made(bytes.into(), range)
            }
        }
    }

    /// A range of it, borrowed if it is of the message.
    pub(super) fn range(&self, range: Range<usize>) -> Cow<'m, [u8]> {
        match self {
            Piece::Raw(bytes) => Cow::Borrowed(bytes.get(range).unwrap_or_default()),
            Piece::Made(..) => Cow::Owned(self.get(range).unwrap_or_default().to_vec()),
        }
    }

    /// A range of it.
    pub(super) fn slice(&self, range: Range<usize>) -> Self {
        match self {
            Piece::Raw(bytes) => Piece::Raw(bytes.get(range).unwrap_or_default()),
            Piece::Made(bytes, outer) => {
                let range = outer.start + range.start..outer.start + range.end;
                Piece::Made(Arc::clone(bytes), range)
            }
        }
    }
}

/// A header field of a part.
#[derive(Debug)]
pub struct Field<'m> {
    /// Name as written, in its own case.
    pub name: Cow<'m, [u8]>,
    raw: Piece<'m>,
    decoded: OnceCell<Line>,
}

/// The decoded value of a field with a line end.
#[derive(Debug)]
enum Line {
    /// The raw value from this offset on.
    Raw(usize),
    Made(Vec<u8>),
}

impl<'m> Field<'m> {
    pub(super) fn new(name: Cow<'m, [u8]>, raw: Piece<'m>) -> Self {
        Field { name, raw, decoded: OnceCell::new() }
    }

    /// Whether this is its name.
    #[inline]
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// The raw value, folded, with the line end.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The value unfolded, trimmed and decoded to UTF-8.
    pub fn value(&self) -> &[u8] {
        let line = self.line();
        line.split_last().map_or(line, |(_, value)| value)
    }

    /// The same with a line end.
    pub(crate) fn line(&self) -> &[u8] {
        let raw: &[u8] = &self.raw;
        let line = self.decoded.get_or_init(|| match header_text::line_start(raw, &self.name) {
            Some(start) => Line::Raw(start),
            None => {
                let mut line = header_text::value(raw, &self.name);
                line.push(b'\n');
                Line::Made(line)
            }
        });
        match line {
            Line::Raw(start) => raw.get(*start..).unwrap_or_default(),
            Line::Made(line) => line,
        }
    }
}

/// A part of the message: a leaf, a multipart, or an attached message.
#[derive(Debug, Default)]
pub struct Node<'m> {
    /// Header fields in order.
    pub fields: Vec<Field<'m>>,
    /// `type/subtype`, lower case; unknown text types are `text/plain`.
    pub kind: String,
    /// Charset that the Content-Type declares, which need not be true.
    pub charset: Option<Vec<u8>>,
    /// File name of Content-Disposition, else of Content-Type.
    pub name: Option<Vec<u8>>,
    /// Indexes of the parts in it; a part that has none may still be no leaf.
    pub children: Vec<usize>,
    /// It holds no parts and no message.
    pub is_leaf: bool,
    /// Content-Type as it was parsed for this part.
    pub(super) content_type: ContentType,
    pub(super) body: Option<Piece<'m>>,
    pub(super) decoded: OnceCell<Option<Vec<u8>>>,
}

impl<'m> Node<'m> {
    /// Raw values of a field, in order.
    pub fn values<'s>(&'s self, name: &'s str) -> impl DoubleEndedIterator<Item = &'s [u8]> {
        self.fields.iter().filter(|f| f.is(name)).map(Field::raw)
    }

    /// The decoded value of the last field of a name, which is the one that counts; empty if there
    /// is none.
    pub fn value(&self, name: &str) -> &[u8] {
        self.fields.iter().rev().find(|f| f.is(name)).map_or(&[], Field::value)
    }

    /// Content-Type as it was parsed for this part.
    pub(crate) fn content_type(&self) -> &ContentType {
        &self.content_type
    }

    /// Reads the Content-Type of a part whose fields are known.
    pub(super) fn parse_content_type(&mut self) {
        let field = self.fields.iter().rev().find(|f| f.is("content-type"));
        self.content_type = content_type::parse(field.map(Field::value));
        self.kind.clone_from(&self.content_type.kind);
    }

    /// Whether there is a body to decode at all: not in containers.
    pub fn has_body(&self) -> bool {
        self.body.is_some()
    }

    /// A leaf's raw body, still encoded, with LF line ends.
    pub fn raw_body(&self) -> &[u8] {
        self.body.as_deref().unwrap_or_default()
    }

    /// The lines of the body with their line feeds, still encoded.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        perl::lines(self.raw_body())
    }

    /// The body with its transfer encoding decoded; empty if there is none.
    pub fn decoded(&self) -> &[u8] {
        let raw = self.raw_body();
        let decode = || {
            let encoding = self.value("content-transfer-encoding");
            if encoding.eq_ignore_ascii_case(b"quoted-printable") {
                return Some(encoding::unix_lines(encoding::quoted_printable(raw)));
            }
            if !encoding.eq_ignore_ascii_case(b"base64") {
                return None;
            }
            let decoded = encoding::base64(raw);
            let text = self.kind.starts_with("text/") || self.kind.starts_with("message/");
            Some(if text { encoding::unix_lines(decoded) } else { decoded })
        };
        self.decoded.get_or_init(decode).as_deref().unwrap_or(raw)
    }
}
