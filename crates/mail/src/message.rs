//! The message: headers, parts, and views that are computed when first asked for.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use crate::address::{self, Mailbox};
use crate::charset;
use crate::defect::{Defect, DefectKind};
use crate::encoding;
use crate::evidence::View;
use crate::header::{self, Header};
use crate::html::{self, Rendered};
use crate::limits::Limits;
use crate::mime::{self, ContentType, Disposition, TransferEncoding};
use crate::relays::{self, Network, Relay, TrustPath};
use crate::url::Url;
use crate::url::extract::{self, Collector};

/// One MIME part. The root is a part too; a part's place in the tree is its `parent` and `depth`.
#[derive(Debug)]
pub struct Part<'a> {
    /// Index of the enclosing part; none for the root.
    pub parent: Option<u16>,
    /// Nesting; the root has 0.
    pub depth: u16,
    /// Header fields in order.
    pub headers: Vec<Header<'a>>,
    /// Where the header block and the body stand in the raw message.
    pub header_range: Range<usize>,
    /// The body as it came, still encoded.
    pub body_range: Range<usize>,
    /// Declared or assumed type.
    pub content_type: ContentType,
    /// Content-Disposition, if given.
    pub disposition: Option<Disposition>,
    /// Content-Transfer-Encoding.
    pub transfer_encoding: TransferEncoding,
    /// The part has parts of its own (a multipart, or an attached message).
    pub is_container: bool,
    raw_body: &'a [u8],
    /// Holds no lifetime, so that `Message` stays covariant: none means "the raw body as it is".
    decoded: OnceCell<DecodedBody>,
    text: OnceCell<Option<charset::Text<'static>>>,
    rendered: OnceCell<Option<Box<Rendered>>>,
    limits: Limits,
}

/// A decoded body; no bytes of its own means that the raw body is the decoded one.
#[derive(Debug)]
struct DecodedBody {
    bytes: Option<Vec<u8>>,
    broken: bool,
}

impl<'a> Part<'a> {
    /// First field of this name.
    pub fn header(&self, name: &str) -> Option<&Header<'a>> {
        self.headers.iter().find(|h| h.is(name))
    }

    /// The body as it came, still encoded.
    pub fn raw_body(&self) -> &'a [u8] {
        self.raw_body
    }

    /// The body with its transfer encoding undone. Decoded once. Empty for containers.
    pub fn body(&self) -> &[u8] {
        self.decoded().bytes.as_deref().unwrap_or(self.raw_body)
    }

    fn decoded(&self) -> &DecodedBody {
        self.decoded.get_or_init(|| {
            if self.is_container {
                return DecodedBody { bytes: Some(Vec::new()), broken: false };
            }
            let decoded = match self.transfer_encoding {
                TransferEncoding::Base64 => encoding::base64(self.raw_body),
                TransferEncoding::QuotedPrintable => encoding::quoted_printable(self.raw_body),
                TransferEncoding::Identity | TransferEncoding::Unknown => {
                    return DecodedBody { bytes: None, broken: false };
                }
            };
            let bytes = match decoded.bytes {
                Cow::Borrowed(_) => None,
                Cow::Owned(bytes) => Some(bytes),
            };
            DecodedBody { bytes, broken: decoded.broken }
        })
    }

    /// For a `text/*` leaf: its text as UTF-8 (for HTML the source), decoded once.
    pub fn text(&self) -> Option<&str> {
        self.charset_text().map(|t| &*t.text)
    }

    fn charset_text(&self) -> Option<&charset::Text<'static>> {
        let decode = || {
            if self.is_container || self.content_type.kind != "text" {
                return None;
            }
            let label = self.content_type.param("charset").map(str::as_bytes);
            let text = charset::decode(self.body(), label);
            Some(charset::Text { text: text.text.into_owned().into(), problem: text.problem })
        };
        self.text.get_or_init(decode).as_ref()
    }

    /// For an HTML leaf: its rendering, made once.
    pub fn rendered(&self) -> Option<&Rendered> {
        let render = || {
            let is_html = memchr::memmem::find(self.content_type.subtype.as_bytes(), b"html");
            is_html?;
            Some(Box::new(html::render(self.text()?, &self.limits)))
        };
        self.rendered.get_or_init(render).as_deref()
    }

    /// For a `text/*` leaf: the text that a person sees, for HTML the rendered text.
    pub fn shown_text(&self) -> Option<&str> {
        match self.rendered() {
            Some(page) => Some(&page.text),
            None => self.text(),
        }
    }

    /// The name the sender gave: `filename` of the disposition, else `name` of the type.
    pub fn file_name(&self) -> Option<&str> {
        let named = self.disposition.as_ref().and_then(Disposition::file_name);
        named.or_else(|| self.content_type.param("name"))
    }

    /// Not to be shown in line: it has a name, is marked as attachment, or is no text.
    pub fn is_attachment(&self) -> bool {
        if self.is_container && self.content_type.kind == "multipart" {
            return false;
        }
        let marked = self.disposition.as_ref().is_some_and(|d| d.kind == "attachment");
        marked
            || self.file_name().is_some()
            || (self.parent.is_some() && self.content_type.kind != "text")
    }
}

/// The text of one part.
#[derive(Debug, Clone, Copy)]
pub struct PartText<'m, 'a> {
    /// Index in [`Message::parts`].
    pub index: u16,
    /// The part.
    pub part: &'m Part<'a>,
    /// The text that a person sees: for HTML the rendered text. Offsets of
    /// [`crate::View::Text`] count in it.
    pub text: &'m str,
}

/// A message, borrowed from its bytes.
#[derive(Debug)]
pub struct Message<'a> {
    raw: &'a [u8],
    limits: Limits,
    parts: Vec<Part<'a>>,
    defects: Vec<Defect>,
    urls: OnceCell<Collector>,
    relays: OnceCell<Vec<Relay>>,
}

impl<'a> Message<'a> {
    /// Reads a message with the default limits. Never fails.
    pub fn parse(raw: &'a [u8]) -> Self {
        Self::parse_with(raw, &Limits::default())
    }

    /// Reads a message within these limits. Never fails: oddities are [`Message::defects`].
    pub fn parse_with(raw: &'a [u8], limits: &Limits) -> Self {
        let mut reader = Reader { raw, limits, parts: Vec::new(), defects: Vec::new() };
        reader.part(0..raw.len(), None, 0, false);
        Message {
            raw,
            limits: *limits,
            parts: reader.parts,
            defects: reader.defects,
            urls: OnceCell::new(),
            relays: OnceCell::new(),
        }
    }

    /// The bytes it was read from.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// The limits it was read with.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// All parts, a parent before its children, in the order of the message; `[0]` is the root.
    pub fn parts(&self) -> &[Part<'a>] {
        &self.parts
    }

    /// The message's own header fields, in order.
    pub fn headers(&self) -> &[Header<'a>] {
        &self.parts[0].headers
    }

    /// First field of this name.
    pub fn header(&self, name: &str) -> Option<&Header<'a>> {
        self.parts[0].header(name)
    }

    /// All fields of this name, in order.
    pub fn headers_named<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Header<'a>> {
        self.headers().iter().filter(move |h| h.is(name))
    }

    /// The decoded Subject; empty if there is none.
    pub fn subject(&self) -> Cow<'a, str> {
        self.header("subject").map_or(Cow::Borrowed(""), Header::decoded)
    }

    /// The first mailbox of the first From field.
    pub fn from(&self) -> Option<Mailbox> {
        let field = self.header("from")?;
        address::mailboxes(&field.unfolded(), 1).into_iter().next()
    }

    /// The text of every `text/*` leaf, in the order of the message.
    pub fn texts(&self) -> impl Iterator<Item = PartText<'_, 'a>> {
        let parts = (0u16..).zip(&self.parts);
        parts.filter_map(|(index, part)| Some(PartText { index, part, text: part.shown_text()? }))
    }

    /// The URLs of the Subject and of all text parts, found once: part by part, in HTML those of
    /// attributes before those of the text. At most [`Limits::urls_max`].
    pub fn urls(&self) -> &[Url] {
        &self.collected_urls().urls
    }

    fn collected_urls(&self) -> &Collector {
        self.urls.get_or_init(|| {
            let max = self.limits.urls_max as usize;
            let mut collector = Collector { urls: Vec::new(), max, full: false };
            collector.text(0, View::Header, &self.subject());
            for text in self.texts() {
                match text.part.rendered() {
                    Some(page) => {
                        collector.html(text.index, text.part.text().unwrap_or_default(), page);
                    }
                    None => collector.text(text.index, View::Text, text.text),
                }
            }
            collector
        })
    }

    /// The Received fields, newest first, read once. At most [`Limits::relays_max`].
    pub fn relays(&self) -> &[Relay] {
        self.relays.get_or_init(|| {
            let fields = (0u32..).zip(self.headers()).filter(|(_, h)| h.is("received"));
            let relays = fields.map(|(i, h)| Relay { header: i, ..relays::parse(&h.unfolded()) });
            relays.take(usize::from(self.limits.relays_max)).collect()
        })
    }

    /// How far [`Message::relays`] can be believed: see [`relays::trust_path`].
    pub fn trust_path(&self, networks: &[Network]) -> TrustPath {
        relays::trust_path(self.relays(), networks)
    }

    /// The visible text of the link that `url` is the target of; none if it is no link.
    pub fn link_text(&self, url: &Url) -> Option<&str> {
        let page = self.parts.get(usize::from(url.part))?.rendered()?;
        Some(extract::link_text(page, url.link_text.as_ref()?))
    }

    /// Every oddity, in a fixed order. Decodes all parts that were not decoded yet, so that the list
    /// does not depend on what was asked before.
    pub fn defects(&self) -> Vec<Defect> {
        let mut defects = self.defects.clone();
        for (part, i) in self.parts.iter().zip(0u16..) {
            if part.decoded().broken {
                defects.push(Defect::new(decode_defect(part.transfer_encoding), i));
            }
            if let Some(problem) = part.charset_text().and_then(|t| t.problem) {
                let label = part.content_type.param("charset").unwrap_or_default();
                defects.push(Defect::new(problem, i).detail(label));
            }
        }
        defects.sort();
        defects.dedup();
        defects.truncate(usize::from(self.limits.defects_max));
        defects
    }
}

fn decode_defect(encoding: TransferEncoding) -> DefectKind {
    match encoding {
        TransferEncoding::QuotedPrintable => DefectKind::BadQuotedPrintable,
        _ => DefectKind::BadBase64,
    }
}

/// Builds the tree of parts.
struct Reader<'a, 'l> {
    raw: &'a [u8],
    limits: &'l Limits,
    parts: Vec<Part<'a>>,
    defects: Vec<Defect>,
}

impl<'a> Reader<'a, '_> {
    /// Reads the part in `range`, and below it those it contains.
    fn part(&mut self, range: Range<usize>, parent: Option<u16>, depth: u16, in_digest: bool) {
        let index = self.parts.len() as u16;
        let (headers, body) =
            header::read_block(self.raw, range.clone(), index, self.limits, &mut self.defects);
        let field = |name: &str| headers.iter().find(|h| h.is(name)).map(Header::unfolded);
        let content_type = self.content_type(field("content-type").as_deref(), index, in_digest);
        let transfer_encoding = field("content-transfer-encoding")
            .map_or(TransferEncoding::Identity, |v| TransferEncoding::parse(&v));
        if transfer_encoding == TransferEncoding::Unknown {
            self.defects.push(Defect::new(DefectKind::BadTransferEncoding, index));
        }
        let disposition = field("content-disposition").map(|v| Disposition::parse(&v));
        self.parts.push(Part {
            parent,
            depth,
            headers,
            header_range: range.start..body,
            body_range: body..range.end,
            content_type,
            disposition,
            transfer_encoding,
            is_container: false,
            raw_body: &self.raw[body..range.end],
            decoded: OnceCell::new(),
            text: OnceCell::new(),
            rendered: OnceCell::new(),
            limits: *self.limits,
        });
        self.children(index, depth);
    }

    fn content_type(&mut self, value: Option<&[u8]>, index: u16, in_digest: bool) -> ContentType {
        let Some(value) = value else { return ContentType::assumed(in_digest) };
        ContentType::parse(value).unwrap_or_else(|| {
            self.defects.push(Defect::new(DefectKind::BadContentType, index));
            ContentType::assumed(in_digest)
        })
    }

    /// Reads the parts inside the part `index`, if it is a container.
    fn children(&mut self, index: u16, depth: u16) {
        let part = &self.parts[usize::from(index)];
        let (body, identity) = (part.body_range.clone(), part.transfer_encoding);
        if part.content_type.is("message", "rfc822") {
            if matches!(identity, TransferEncoding::Identity) && self.may_nest(index, depth) {
                self.parts[usize::from(index)].is_container = true;
                self.part(body, Some(index), depth + 1, false);
            }
            return;
        }
        if part.content_type.kind != "multipart" {
            return;
        }
        let digest = part.content_type.subtype == "digest";
        let Some(boundary) = part.content_type.param("boundary").filter(|b| !b.is_empty()) else {
            self.defects.push(Defect::new(DefectKind::NoBoundary, index));
            return;
        };
        let boundary = boundary.trim_end().as_bytes().to_vec();
        let room = usize::from(self.limits.parts_max).saturating_sub(self.parts.len());
        let found = mime::split_multipart(self.raw, body, &boundary, room + 1);
        if found.parts.is_empty() {
            self.defects.push(Defect::new(DefectKind::BoundaryNotFound, index));
            return;
        }
        if !found.closed {
            self.defects.push(Defect::new(DefectKind::UnclosedBoundary, index));
        }
        if !self.may_nest(index, depth) {
            return;
        }
        self.parts[usize::from(index)].is_container = true;
        for range in found.parts {
            if self.parts.len() >= usize::from(self.limits.parts_max) {
                self.defects.push(Defect::new(DefectKind::TooManyParts, index));
                return;
            }
            self.part(range, Some(index), depth + 1, digest);
        }
    }

    fn may_nest(&mut self, index: u16, depth: u16) -> bool {
        let full = self.parts.len() >= usize::from(self.limits.parts_max);
        if depth + 1 > self.limits.depth_max {
            self.defects.push(Defect::new(DefectKind::TooDeep, index));
        }
        depth < self.limits.depth_max && !full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_parts() {
        let raw = b"From: a@b\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\nhello\n--x\n\
            Content-Type: text/html; charset=iso-8859-1\nContent-Transfer-Encoding: base64\n\n\
            Y2Fm6Q==\n--x--\n";
        let message = Message::parse(raw);
        assert_eq!(message.parts().len(), 3);
        assert_eq!(message.parts()[1].text(), Some("hello"));
        assert_eq!(message.parts()[2].text(), Some("café"));
        assert_eq!(message.defects(), []);
        assert_eq!(message.from().unwrap().address, "a@b");
    }

    #[test]
    fn empty_input_is_a_message() {
        let message = Message::parse(b"");
        assert_eq!(message.parts().len(), 1);
        assert_eq!(message.subject(), "");
    }
}
