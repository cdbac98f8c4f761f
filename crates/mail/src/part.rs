//! One MIME part, and its views: decoded body, text, rendering. Each is made when first asked for.

mod file_names;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;

use crate::charset;
use crate::defect::{Defect, DefectKind};
use crate::encoded_files::{self, EncodedFile};
use crate::encoding;
use crate::header::Header;
use crate::html::{self, Rendered};
use crate::limits::Limits;
use crate::mime::{ContentType, Disposition, TransferEncoding};

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
    /// How it is to be shown (RFC 2183), if the field is there.
    pub disposition: Option<Disposition>,
    /// How the body is encoded (RFC 2045 section 6).
    pub transfer_encoding: TransferEncoding,
    /// The part has parts of its own (a multipart, or an attached message).
    pub is_container: bool,
    /// For a part of an attached message that was encoded (base64, quoted-printable): the index of
    /// the encoded part. Such a part has its decoded body and its type, but no header fields; its
    /// ranges and raw body are those of the encoded part's body.
    pub within: Option<u16>,
    pub(crate) raw_body: &'a [u8],
    /// Decoded bytes that are kept of this part; its share of [`Limits::decoded_bytes_max`].
    pub(crate) decoded_bytes_max: usize,
    pub(crate) limits: Limits,
    /// File names that other fields, and other interpretations of the same, give.
    pub(crate) alternative_names: Vec<String>,
    /// What mail programs call a part without a name: its description, its location.
    pub(crate) fallback_names: Vec<String>,
    /// The views hold no lifetime, so that `Message` stays covariant.
    pub(crate) decoded: OnceCell<DecodedBody>,
    pub(crate) text: OnceCell<Option<DecodedText>>,
    pub(crate) rendered: OnceCell<Option<Box<Rendered>>>,
    pub(crate) files: OnceCell<Vec<EncodedFile>>,
}

/// The text of one part.
#[derive(Debug, Clone, Copy)]
pub struct PartText<'m, 'a> {
    /// Its index in [`crate::Message::parts`].
    pub index: u16,
    /// The part that the text is of.
    pub part: &'m Part<'a>,
    /// The visible text: for HTML the rendered text. Offsets of
    /// [`crate::View::Text`] count in it.
    pub text: &'m str,
}

/// The text of every `text/*` leaf, in order.
pub(crate) fn texts<'m, 'a>(parts: &'m [Part<'a>]) -> impl Iterator<Item = PartText<'m, 'a>> {
    (0u16..)
        .zip(parts)
        .filter_map(|(index, part)| Some(PartText { index, part, text: part.shown_text()? }))
}

#[derive(Debug, Default)]
pub(crate) struct DecodedBody {
    /// None means that the first `length` bytes of the raw body are the decoded ones.
    bytes: Option<Vec<u8>>,
    length: usize,
    broken: bool,
    after_padding: bool,
    cut: bool,
}

/// A body decoded to text.
#[derive(Debug)]
pub(crate) struct DecodedText {
    /// None means that the first `length` bytes of the decoded body are valid UTF-8 and the text.
    text: Option<String>,
    length: usize,
    problem: Option<DefectKind>,
    cut: bool,
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
        let decoded = self.decoded();
        let bytes = decoded.bytes.as_deref().unwrap_or(self.raw_body);
        bytes.get(..decoded.length).unwrap_or_default()
    }

    /// The same part with a decoded body of its own, for the bytes that it was read from go away:
    /// it was found within the encoded body of the part `within`.
    pub(crate) fn detached<'b>(
        mut self,
        within: u16,
        raw_body: &'b [u8],
        range: Range<usize>,
    ) -> Part<'b> {
        self.decoded_bytes_max = usize::MAX;
        self.decoded();
        let mut decoded = self.decoded.take();
        if let Some(DecodedBody { bytes: bytes @ None, length, .. }) = &mut decoded {
            *bytes = Some(self.raw_body.get(..*length).unwrap_or_default().to_vec());
        }
        Part {
            parent: self.parent,
            depth: self.depth,
            headers: Vec::new(),
            header_range: range.start..range.start,
            body_range: range,
            content_type: self.content_type,
            disposition: self.disposition,
            transfer_encoding: self.transfer_encoding,
            is_container: self.is_container,
            within: Some(within),
            raw_body,
            decoded_bytes_max: 0,
            limits: self.limits,
            alternative_names: self.alternative_names,
            fallback_names: self.fallback_names,
            decoded: decoded.map_or_else(OnceCell::new, OnceCell::from),
            text: OnceCell::new(),
            rendered: OnceCell::new(),
            files: OnceCell::new(),
        }
    }

    /// Shortens what is decoded already to `bytes_max`; says how much is kept.
    pub(crate) fn truncate_decoded(&mut self, bytes_max: usize) -> usize {
        let Some(decoded) = self.decoded.get_mut() else { return 0 };
        decoded.cut |= decoded.length > bytes_max;
        decoded.length = decoded.length.min(bytes_max);
        decoded.length
    }

    fn decoded(&self) -> &DecodedBody {
        self.decoded.get_or_init(|| {
            if self.is_container {
                return DecodedBody::default();
            }
            let decoded = match self.transfer_encoding {
                TransferEncoding::Base64 => encoding::base64(self.raw_body),
                TransferEncoding::QuotedPrintable => encoding::quoted_printable(self.raw_body),
                TransferEncoding::Identity | TransferEncoding::Unknown => {
                    let bytes = Cow::Borrowed(self.raw_body);
                    encoding::Decoded { bytes, broken: false, after_padding: false }
                }
            };
            let whole = decoded.bytes.len();
            let length = whole.min(self.decoded_bytes_max);
            let bytes = match decoded.bytes {
                Cow::Borrowed(_) => None,
                Cow::Owned(bytes) => Some(bytes),
            };
            let encoding::Decoded { broken, after_padding, .. } = decoded;
            DecodedBody { bytes, length, broken, after_padding, cut: length < whole }
        })
    }

    /// For a leaf that is `text/*` or a multipart without parts: its text as UTF-8 (for HTML the
    /// source), decoded once; at most [`Limits::text_bytes_max`] bytes. Of a longer one the first
    /// and the last half of that many, joined; [`DefectKind::TextTooLarge`] says so.
    pub fn text(&self) -> Option<&str> {
        let decoded = self.decoded_text()?;
        match &decoded.text {
            Some(text) => Some(text),
            None => {
                let bytes = self.body().get(..decoded.length).unwrap_or_default();
                // SAFETY: `decode_text` found exactly these bytes to be valid UTF-8, and neither
                // they nor their length can change: both cells are written once, the raw body is
                // borrowed for longer than `self`, and all of it is private to this crate.
                Some(unsafe { std::str::from_utf8_unchecked(bytes) })
            }
        }
    }

    fn decoded_text(&self) -> Option<&DecodedText> {
        // A multipart without parts is shown as text by some.
        let is_text = matches!(&*self.content_type.kind, "text" | "multipart");
        let decode = || (!self.is_container && is_text).then(|| self.decode_text());
        self.text.get_or_init(decode).as_ref()
    }

    fn decode_text(&self) -> DecodedText {
        let body = self.body();
        let max = self.limits.text_bytes_max as usize;
        let cut = body.len() > max;
        let kept = if cut { Cow::Owned(ends(body, max)) } else { Cow::Borrowed(body) };
        let label = self.content_type.param("charset").map(str::as_bytes);
        let text = charset::decode(&kept, label);
        let mut problem = text.problem;
        let (text, length, grown) = match text.text {
            Cow::Borrowed(text) if !cut => (None, text.len(), false),
            text => {
                // Where the input was cut a character may be broken: that is no fault of the
                // sender.
                if cut {
                    problem = problem.filter(|p| *p != DefectKind::BadCharset);
                }
                let text = text.into_owned();
                let grown = text.len() > max;
                (Some(if grown { shortened(&text, max) } else { text }), 0, grown)
            }
        };
        DecodedText { text, length, problem, cut: cut || grown }
    }

    /// What was wrong with body and text. Decodes both.
    pub(crate) fn decoding_defects(&self, index: u16, defects: &mut Vec<Defect>) {
        let decoded = self.decoded();
        if decoded.broken {
            let kind = match self.transfer_encoding {
                TransferEncoding::QuotedPrintable => DefectKind::BadQuotedPrintable,
                _ => DefectKind::BadBase64,
            };
            defects.push(Defect::new(kind, index));
        }
        if decoded.cut {
            defects.push(Defect::new(DefectKind::DecodedTooLarge, index));
        }
        if decoded.after_padding {
            defects.push(Defect::new(DefectKind::DataAfterPadding, index));
        }
        // A file in TNEF has no other reading: programs that cannot open it show none.
        if let Some(file) = self.files().iter().find(|file| file.is_in_text) {
            let name = file.names.first().map_or("", String::as_str);
            defects.push(Defect::new(DefectKind::UuencodedFile, index).detail(name));
        }
        if self.files().len() >= encoded_files::FILES_MAX {
            defects.push(Defect::new(DefectKind::TooManyParts, index).detail("encoded files"));
        }
        let Some(text) = self.decoded_text() else { return };
        if let Some(problem) = text.problem {
            let label = self.content_type.param("charset").unwrap_or_default();
            defects.push(Defect::new(problem, index).detail(label));
        }
        if text.cut || self.is_rendering_cut() {
            defects.push(Defect::new(DefectKind::TextTooLarge, index));
        }
    }

    pub(crate) fn is_html(&self) -> bool {
        self.content_type.subtype.as_bytes().windows(4).any(|window| window == b"html")
    }

    /// For an HTML leaf: its rendering, made once.
    pub fn rendered(&self) -> Option<&Rendered> {
        let render = || {
            let text = if self.is_html() { self.text()? } else { return None };
            Some(Box::new(html::render(text, &self.limits)))
        };
        self.rendered.get_or_init(render).as_deref()
    }

    /// For an HTML leaf: where in its source [`Rendered::invisible`] stands. Not kept.
    pub fn invisible_places(&self) -> Option<html::Places> {
        let text = if self.is_html() { self.text()? } else { return None };
        Some(html::invisible_places(text, &self.limits))
    }

    /// Whether rendering leaves text out. A short source is not rendered to know that none is.
    fn is_rendering_cut(&self) -> bool {
        let is_short = || {
            let length = self.text().map_or(0, str::len);
            html::rendered_at_most(length) <= self.limits.text_bytes_max as usize
        };
        let is_known = self.rendered.get().is_some();
        self.is_html()
            && (is_known || !is_short())
            && self.rendered().is_some_and(|page| page.text_cut)
    }

    /// For a `text/*` leaf: the visible text, for HTML the rendered text.
    pub fn shown_text(&self) -> Option<&str> {
        match self.rendered() {
            Some(page) => Some(&page.text),
            None => self.text(),
        }
    }

    /// Files that mail programs find inside the decoded body: uuencoded or in yEnc in a text, or in
    /// Microsoft's TNEF. Looked for once; empty for nearly all parts.
    pub fn files(&self) -> &[EncodedFile] {
        self.files.get_or_init(|| {
            if self.is_container {
                return Vec::new();
            }
            encoded_files::find(self.body(), &self.content_type.kind, self.is_html())
        })
    }
}

/// The first and the last bytes of `bytes`, `max` in all: what is unwanted stands at either end
/// more often than in the middle, and padding in front must not hide what follows it. The cuts are
/// at multiples of four bytes from the start, so that UTF-16 and UTF-32 stay aligned, unless a
/// UTF-8 character would be cut.
fn ends(bytes: &[u8], max: usize) -> Vec<u8> {
    let head = character_start(bytes, max / 2 / 4 * 4);
    let from = (bytes.len() - (max - head)).next_multiple_of(4);
    let tail = (from..bytes.len().min(from + 4)).find(|&i| bytes[i] & 0xc0 != 0x80);
    let tail = tail.and_then(|i| bytes.get(i..)).unwrap_or_default();
    [&bytes[..head], tail].concat()
}

/// The same for text that grew when it was decoded.
fn shortened(text: &str, max: usize) -> String {
    let head = character_start(text.as_bytes(), max / 2);
    let tail = (text.len() - (max - head)..text.len()).find(|&i| text.is_char_boundary(i));
    [&text[..head], tail.map_or("", |i| &text[i..])].concat()
}

/// The largest index up to `max` at which no UTF-8 character is cut.
fn character_start(bytes: &[u8], max: usize) -> usize {
    if bytes.len() <= max {
        return bytes.len();
    }
    let is_continuation = |i: usize| bytes.get(i).is_some_and(|b| b & 0xc0 == 0x80);
    (max.saturating_sub(3)..=max).rev().find(|&i| !is_continuation(i)).unwrap_or(max)
}
