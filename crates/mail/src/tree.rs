//! Reading the tree of parts (RFC 2046): where each begins and ends, and what its fields say of it.
//!
//! A multipart is searched once for its own boundary, so a byte is looked at once a level:
//! [`Limits::depth_max`] bounds both the work and the recursion.
//!
//! RFC 2046 section 5.2.1 forbids to encode attached messages. Who hides something does it all the same, and
//! mail programs show them: what is encoded is decoded at once and read like the rest. What that may
//! cost in all is bounded by the size of the message ([`EMBEDDED_SHARE`]).

use std::cell::OnceCell;
use std::ops::Range;

use crate::defect::{Defect, DefectKind};
use crate::encoding;
use crate::header::{self, Header};
use crate::limits::Limits;
use crate::mime::{self, ContentType, Disposition, TransferEncoding};
use crate::part::Part;

/// Bytes of encoded messages that are decoded to be read, as a multiple of the message's own: base64
/// in base64 in base64 needs 0.75 + 0.56 + 0.42 of it.
const EMBEDDED_SHARE: usize = 2;

/// Reads all parts of a message, a parent before its children; `[0]` is the root.
pub(crate) fn read<'a>(raw: &'a [u8], limits: &Limits) -> (Vec<Part<'a>>, Vec<Defect>) {
    let decoded_bytes_max = usize::try_from(limits.decoded_bytes_max).unwrap_or(usize::MAX);
    let mut reader = Reader {
        raw,
        limits,
        first: 0,
        parts: Vec::new(),
        defects: Vec::new(),
        boundaries: Vec::new(),
        embedded_left: raw.len().saturating_mul(EMBEDDED_SHARE).min(decoded_bytes_max),
    };
    reader.part(0..raw.len(), None, 0, false);
    share_decoded_bytes(&mut reader.parts, limits);
    (reader.parts, reader.defects)
}

/// Gives each part its share of the decoded bytes, in order, by what its encoding can at most make:
/// what a part may keep must not depend on which was asked first.
fn share_decoded_bytes(parts: &mut [Part<'_>], limits: &Limits) {
    let mut left = usize::try_from(limits.decoded_bytes_max).unwrap_or(usize::MAX);
    for part in parts.iter_mut().filter(|p| !p.is_container) {
        if part.within.is_some() {
            left = left.saturating_sub(part.keep_decoded(left));
            continue;
        }
        let most = match part.transfer_encoding {
            TransferEncoding::Base64 => part.raw_body.len() / 4 * 3 + 3,
            _ => part.raw_body.len(),
        };
        part.decoded_bytes_max = left;
        left = left.saturating_sub(most);
    }
}

/// Builds the tree of parts.
struct Reader<'a, 'l> {
    raw: &'a [u8],
    limits: &'l Limits,
    /// Index of the first of `parts`: those before stand in the bytes around an encoded message.
    first: u16,
    parts: Vec<Part<'a>>,
    defects: Vec<Defect>,
    /// Boundaries of the multiparts around the part that is read.
    boundaries: Vec<Vec<u8>>,
    /// Bytes of encoded messages that may still be decoded.
    embedded_left: usize,
}

impl<'a> Reader<'a, '_> {
    /// Reads the part in `range`, and below it those it contains.
    fn part(&mut self, range: Range<usize>, parent: Option<u16>, depth: u16, in_digest: bool) {
        let index = self.count() as u16;
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
            within: None,
            raw_body: &self.raw[body..range.end],
            decoded_bytes_max: 0,
            limits: *self.limits,
            decoded: OnceCell::new(),
            text: OnceCell::new(),
            rendered: OnceCell::new(),
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
        let part = self.get(index);
        let (body, encoding) = (part.body_range.clone(), part.transfer_encoding);
        let encoded =
            matches!(encoding, TransferEncoding::Base64 | TransferEncoding::QuotedPrintable);
        let is_message = part.content_type.kind == "message"
            && matches!(&*part.content_type.subtype, "rfc822" | "global" | "news");
        let is_multipart = part.content_type.kind == "multipart";
        if (is_message || is_multipart) && encoding != TransferEncoding::Identity {
            self.defects.push(Defect::new(DefectKind::EncodedMultipart, index));
        }
        if is_message {
            if !self.may_nest(index, depth) {
                return;
            }
            if encoded {
                self.embedded(index, depth);
            } else {
                self.get(index).is_container = true;
                self.part(body, Some(index), depth + 1, false);
            }
            return;
        }
        if is_multipart {
            self.multipart(index, depth, body);
        }
    }

    /// Decodes the attached message that the part `index` holds, and reads it.
    fn embedded(&mut self, index: u16, depth: u16) {
        let part = self.get(index);
        let (raw_body, range) = (part.raw_body, part.body_range.clone());
        let decoded = match part.transfer_encoding {
            TransferEncoding::Base64 => encoding::base64(raw_body),
            _ => encoding::quoted_printable(raw_body),
        };
        if decoded.bytes.len() > self.embedded_left {
            self.defects.push(Defect::new(DefectKind::DecodedTooLarge, index));
            return;
        }
        if decoded.broken {
            let kind = match self.get(index).transfer_encoding {
                TransferEncoding::Base64 => DefectKind::BadBase64,
                _ => DefectKind::BadQuotedPrintable,
            };
            self.defects.push(Defect::new(kind, index));
        }
        let mut inner = Reader {
            raw: &decoded.bytes,
            limits: self.limits,
            first: self.count() as u16,
            parts: Vec::new(),
            defects: Vec::new(),
            boundaries: Vec::new(),
            embedded_left: self.embedded_left - decoded.bytes.len(),
        };
        inner.part(0..decoded.bytes.len(), Some(index), depth + 1, false);
        self.embedded_left = inner.embedded_left;
        // Places in the decoded bytes mean nothing to who has the message.
        self.defects.extend(inner.defects.into_iter().map(|d| Defect { offset: None, ..d }));
        let settled = inner.parts.into_iter().map(|p| p.settled(index, raw_body, range.clone()));
        let settled: Vec<Part<'a>> = settled.collect();
        self.parts.extend(settled);
        self.get(index).is_container = true;
    }

    /// Parts read so far, in all.
    fn count(&self) -> usize {
        usize::from(self.first) + self.parts.len()
    }

    /// A part of these bytes.
    fn get(&mut self, index: u16) -> &mut Part<'a> {
        &mut self.parts[usize::from(index - self.first)]
    }

    /// Reads the parts between the boundaries of a multipart.
    fn multipart(&mut self, index: u16, depth: u16, body: Range<usize>) {
        let part = self.get(index);
        let digest = part.content_type.subtype == "digest";
        let Some(boundary) = part.content_type.param("boundary").filter(|b| !b.is_empty()) else {
            self.defects.push(Defect::new(DefectKind::NoBoundary, index));
            return;
        };
        let others = part.content_type.params.iter().filter(|(name, _)| name == "boundary");
        let twice = others.map(|(_, value)| value).any(|value| value != boundary);
        let boundary = boundary.trim_end().as_bytes().to_vec();
        if twice {
            self.defects.push(Defect::new(DefectKind::DuplicateBoundary, index));
        }
        if self.boundaries.contains(&boundary) {
            self.defects.push(Defect::new(DefectKind::BoundaryReused, index));
        }
        let room = usize::from(self.limits.parts_max).saturating_sub(self.count());
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
        self.get(index).is_container = true;
        self.boundaries.push(boundary);
        for range in found.parts {
            if self.count() >= usize::from(self.limits.parts_max) {
                self.defects.push(Defect::new(DefectKind::TooManyParts, index));
                break;
            }
            self.part(range, Some(index), depth + 1, digest);
        }
        self.boundaries.pop();
    }

    fn may_nest(&mut self, index: u16, depth: u16) -> bool {
        let full = self.count() >= usize::from(self.limits.parts_max);
        if depth + 1 > self.limits.depth_max {
            self.defects.push(Defect::new(DefectKind::TooDeep, index));
        }
        depth < self.limits.depth_max && !full
    }
}
