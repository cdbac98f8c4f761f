//! Reading the tree of parts (RFC 2046): where each begins and ends, and what its fields say of it.
//!
//! A multipart is searched once for its own boundary, so a byte is looked at once a level:
//! [`Limits::depth_max`] bounds both the work and the recursion.
//!
//! RFC 2046 section 5.2.1 forbids encoding attached messages. Attackers do it all the same, and
//! mail programs show them: what is encoded is decoded at once and read like the rest. What that
//! may cost in all is bounded by the size of the message ([`EMBEDDED_BYTES_FACTOR`]).

mod fields;

use std::cell::OnceCell;
use std::ops::Range;

use crate::ambiguity;
use crate::defect::{Defect, DefectKind};
use crate::encoding;
use crate::file_kind::{self, FileKind as K};
use crate::header;
use crate::limits::Limits;
use crate::mime::{self, TransferEncoding};
use crate::part::Part;

use self::fields::MimeFields;

/// Bytes of encoded messages that are decoded to be read, as a multiple of the message's own:
/// base64 in base64 in base64 needs 0.75 + 0.56 + 0.42 of it.
const EMBEDDED_BYTES_FACTOR: usize = 2;

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
        embedded_left: raw.len().saturating_mul(EMBEDDED_BYTES_FACTOR).min(decoded_bytes_max),
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
            left = left.saturating_sub(part.truncate_decoded(left));
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
        let parameters_max = usize::from(self.limits.parameters_max);
        let fields = MimeFields::read(self.raw, &headers, in_digest, parameters_max);
        let defect = |kind| Defect::new(kind, index);
        self.defects.extend(fields.defects.iter().map(|(kind, at)| defect(*kind).at(*at)));
        let MimeFields { content_type, transfer_encoding, disposition, .. } = fields;
        let MimeFields { alternative_names, fallback_names, .. } = fields;
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
            alternative_names,
            fallback_names,
            decoded: OnceCell::new(),
            text: OnceCell::new(),
            rendered: OnceCell::new(),
            files: OnceCell::new(),
        });
        self.children(index, depth);
    }

    /// Reads the parts inside the part `index`, if it is a container.
    fn children(&mut self, index: u16, depth: u16) {
        let part = self.get(index);
        let (body, encoding) = (part.body_range.clone(), part.transfer_encoding);
        let encoded =
            matches!(encoding, TransferEncoding::Base64 | TransferEncoding::QuotedPrintable);
        let is_declared = part.content_type.kind == "message"
            && matches!(&*part.content_type.subtype, "rfc822" | "global" | "news");
        let is_message = is_declared || is_message_file(part);
        let is_multipart = part.content_type.kind == "multipart";
        let raw_body = part.raw_body;
        match (&*part.content_type.kind, &*part.content_type.subtype) {
            ("message", "partial") => self.defect(DefectKind::PartialMessage, index),
            ("message", "external-body") => self.defect(DefectKind::ExternalBody, index),
            _ => {}
        }
        if (is_declared || is_multipart) && encoding != TransferEncoding::Identity {
            self.defect(DefectKind::EncodedMultipart, index);
            if is_declared && encoded && ambiguity::is_message(raw_body) {
                self.defect(DefectKind::ContainerEncoding, index);
            }
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
        // Offsets in the decoded bytes are meaningless in the raw message.
        self.defects.extend(inner.defects.into_iter().map(|d| Defect { offset: None, ..d }));
        let detached = inner.parts.into_iter().map(|p| p.detached(index, raw_body, range.clone()));
        let detached: Vec<Part<'a>> = detached.collect();
        self.parts.extend(detached);
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
        let (raw_body, encoding) = (part.raw_body, part.transfer_encoding);
        let digest = part.content_type.subtype == "digest";
        let Some(boundary) = part.content_type.param("boundary").filter(|b| !b.is_empty()) else {
            self.without_boundary(DefectKind::NoBoundary, index);
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
        let starts = |a: &[u8], b: &[u8]| a != b && (a.starts_with(b) || b.starts_with(a));
        if self.boundaries.iter().any(|around| starts(around, &boundary)) {
            self.defect(DefectKind::BoundaryPrefix, index);
        }
        self.outside(&found, &boundary, index);
        if differs_when_decoded(encoding, raw_body, &boundary) {
            self.defect(DefectKind::ContainerEncoding, index);
        }
        if found.parts.is_empty() {
            self.without_boundary(DefectKind::BoundaryNotFound, index);
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
        let longer = found.longer;
        for range in found.parts {
            if self.count() >= usize::from(self.limits.parts_max) {
                self.defects.push(Defect::new(DefectKind::TooManyParts, index));
                break;
            }
            self.part(range, Some(index), depth + 1, digest);
        }
        self.boundaries.pop();
        self.longer_lines(&longer, index);
    }

    fn defect(&mut self, kind: DefectKind, index: u16) {
        self.defects.push(Defect::new(kind, index));
    }

    /// A multipart that has no parts to us.
    fn without_boundary(&mut self, kind: DefectKind, index: u16) {
        self.defect(kind, index);
        let body = self.get(index).raw_body;
        if ambiguity::dashed_lines(body) > 0 || ambiguity::may_contain_parts(body) {
            self.defect(DefectKind::PartsWithoutBoundary, index);
        }
    }

    /// What stands before the first boundary and behind the last.
    fn outside(&mut self, found: &mime::Boundaries, boundary: &[u8], index: u16) {
        let [before, after] = found.outside.clone();
        if ambiguity::may_contain_parts(&self.raw[before]) {
            self.defect(DefectKind::PartsInPreamble, index);
        }
        let after = &self.raw[after];
        if ambiguity::may_contain_parts(after) || ambiguity::boundaries(after, boundary) > 0 {
            self.defect(DefectKind::PartsAfterClose, index);
        }
    }

    /// Lines that begin with the boundary of `index` and go on are boundaries of parts around it or
    /// within, or mail programs disagree about them.
    fn longer_lines(&mut self, longer: &[Range<usize>], index: u16) {
        let Some(first) = longer.first() else { return };
        let within = self.parts[usize::from(index - self.first)..].iter();
        let within = within.filter_map(|p| p.content_type.param("boundary")).map(str::as_bytes);
        let others: Vec<&[u8]> =
            within.skip(1).chain(self.boundaries.iter().map(Vec::as_slice)).collect();
        let is_other = |line: &[u8]| others.contains(&line);
        let mut lines = longer.iter().map(|range| &self.raw[range.clone()]);
        if lines.any(|line| ambiguity::is_read_as_boundary(line, &is_other)) {
            let defect = Defect::new(DefectKind::TextAfterBoundary, index).at(first.start);
            self.defects.push(defect);
        }
    }

    fn may_nest(&mut self, index: u16, depth: u16) -> bool {
        let full = self.count() >= usize::from(self.limits.parts_max);
        if depth + 1 > self.limits.depth_max {
            self.defects.push(Defect::new(DefectKind::TooDeep, index));
        }
        depth < self.limits.depth_max && !full
    }
}

/// Bytes of a file that are examined to recognise a message.
const PEEK_BYTES: usize = 4_096;

/// Whether a part that is not said to be a message is one: a file that mail programs open as such,
/// by its name or by what it begins with.
fn is_message_file(part: &Part<'_>) -> bool {
    let (kind, subtype) = (&*part.content_type.kind, &*part.content_type.subtype);
    let is_report = matches!(
        subtype,
        "partial"
            | "external-body"
            | "delivery-status"
            | "disposition-notification"
            | "feedback-report"
            | "global-delivery-status"
            | "global-disposition-notification"
            | "tracking-status"
            | "http"
            | "sip"
            | "s-http"
    );
    let is_file = matches!(kind, "application" | "message");
    let is_named = part.file_names().any(|name| {
        let name = name.trim_ascii_end().to_ascii_lowercase();
        [".eml", ".email", ".nws", ".mht", ".mhtml"].iter().any(|end| name.ends_with(end))
    });
    if (!is_file && !is_named) || kind == "multipart" || (kind == "message" && is_report) {
        return false;
    }
    let head = &part.raw_body[..part.raw_body.len().min(PEEK_BYTES)];
    let head = match part.transfer_encoding {
        TransferEncoding::Base64 => encoding::base64(head).bytes,
        TransferEncoding::QuotedPrintable => encoding::quoted_printable(head).bytes,
        TransferEncoding::Identity | TransferEncoding::Unknown => head.into(),
    };
    let could_be = || matches!(file_kind::sniff(&head), K::Text | K::Unknown | K::Message);
    ambiguity::is_message(&head) || (is_named && could_be())
}

/// Whether a multipart that is said to be encoded has other parts when its body is decoded first.
fn differs_when_decoded(encoding: TransferEncoding, body: &[u8], boundary: &[u8]) -> bool {
    // Decoding base64 with boundaries in it is slow, and each multipart around may ask for it
    // again.
    if encoding == TransferEncoding::Base64 && body.len() > ambiguity::OUTSIDE_BYTES_MAX {
        return true;
    }
    let decoded = match encoding {
        TransferEncoding::Base64 => encoding::base64(body).bytes,
        TransferEncoding::QuotedPrintable => encoding::quoted_printable(body).bytes,
        TransferEncoding::Identity | TransferEncoding::Unknown => return false,
    };
    let fields =
        |bytes: &[u8]| bytes.split(|b| *b == b'\n').filter(|l| ambiguity::is_mime_field(l)).count();
    let parts = ambiguity::boundaries(&decoded, boundary);
    // Without a boundary there are no parts, whatever else was decoded.
    parts > 0
        && (parts != ambiguity::boundaries(body, boundary) || fields(&decoded) != fields(body))
}
