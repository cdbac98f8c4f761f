//! Anomalies of a message, by name. A defect is not a verdict: filters and rules may score it.

use serde::{Deserialize, Serialize};

/// The kinds of anomalies. The names are stable: they appear in verdicts, logs and policies in
/// snake case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DefectKind {
    /// The message has no bytes.
    EmptyMessage,
    /// A line of the header block is neither a field nor a continuation.
    HeaderWithoutColon,
    /// The header block runs to the end of the message.
    NoBodySeparator,
    /// A header field has bytes above 127 that are not valid UTF-8 (RFC 6532).
    EightBitHeader,
    /// A NUL byte in the header block.
    NulInHeader,
    /// A NUL byte in the body.
    NulInBody,
    /// CR without LF, or LF without CR in a message that otherwise uses CRLF.
    MixedLineEndings,
    /// NULs or bare CRs make it another message for programs that drop them or take a CR for the
    /// end of a line.
    SeveralReadings,
    /// A line over 998 bytes (RFC 5322 section 2.1.1) in the header block.
    LongHeaderLine,
    /// A field that must occur once occurs again (RFC 5322 section 3.6).
    DuplicateHeader,
    /// More than one From field.
    DuplicateFrom,
    /// The From fields name other authors for one mail program than for another, more than are
    /// read, or an address without a domain that can be read.
    AmbiguousFrom,
    /// No From field (RFC 5322 section 3.6 wants one).
    NoFrom,
    /// No Date field (RFC 5322 section 3.6 wants one).
    NoDate,
    /// No Message-ID field (RFC 5322 section 3.6.4 asks for one).
    NoMessageId,
    /// More header fields than the limit; the rest are left out.
    TooManyHeaders,
    /// A header block over the limit; the rest is read as body.
    HeaderBlockTooLarge,
    /// A multipart without a boundary parameter.
    NoBoundary,
    /// The boundary never occurs.
    BoundaryNotFound,
    /// The closing boundary is missing.
    UnclosedBoundary,
    /// A boundary parameter that is given twice, with different values.
    DuplicateBoundary,
    /// A nested multipart uses its parent's boundary.
    BoundaryReused,
    /// A Content-Type that could not be read.
    BadContentType,
    /// A Content-Transfer-Encoding that RFC 2045 does not have.
    BadTransferEncoding,
    /// A Content-Transfer-Encoding other than 7bit, 8bit or binary on a multipart.
    EncodedMultipart,
    /// Characters outside the base64 alphabet, wrong padding or length.
    BadBase64,
    /// A `=` in quoted-printable that no hexadecimal pair follows.
    BadQuotedPrintable,
    /// An unknown charset label.
    UnknownCharset,
    /// A charset in which ASCII has other bytes, and that is not read here.
    UnreadableCharset,
    /// Bytes that the declared charset cannot have.
    BadCharset,
    /// An encoded word (RFC 2047) that could not be decoded.
    BadEncodedWord,
    /// Parts nested deeper than the limit; the rest is one opaque part.
    TooDeep,
    /// More parts than the limit; the rest are left out.
    TooManyParts,
    /// Decoded bytes over the limit; the rest is left out.
    DecodedTooLarge,
    /// Text over the limit; the rest is left out.
    TextTooLarge,
    /// More URLs than the limit.
    TooManyUrls,
    /// More Received fields than the limit.
    TooManyRelays,
    /// More parameters in a MIME field than the limit; the rest are not read.
    TooManyParameters,
    /// A control character in a MIME field.
    ControlInParameter,
    /// White space between the name of a MIME field and its colon.
    OddFieldName,
    /// Continuations of RFC 2231 that are missing, out of order or given twice.
    BadContinuation,
    /// A boundary by RFC 2231 or as an encoded word.
    EncodedBoundary,
    /// A boundary with characters that may not stand there, white space at its end, or text behind.
    OddBoundary,
    /// A boundary that another one around it begins with, or the other way round.
    BoundaryPrefix,
    /// A line that begins with a boundary, goes on, and is no other part's boundary.
    TextAfterBoundary,
    /// Before the first boundary stands what may be a part.
    PartsInPreamble,
    /// Behind the closing boundary stands what may be a part.
    PartsAfterClose,
    /// A multipart whose boundary is missing or never occurs has what may be parts.
    PartsWithoutBoundary,
    /// A multipart or message is said to be encoded, and is not read the same decoded and as it is.
    ContainerEncoding,
    /// Two Content-Type or Content-Transfer-Encoding fields that say different things.
    DuplicateMimeHeader,
    /// A Content-Type that is not `token/token`, and may be another one than the one read.
    OddContentType,
    /// A Content-Transfer-Encoding that some mail programs decode, and others do not.
    OddTransferEncoding,
    /// A file by uuencode or yEnc in the middle of a text.
    UuencodedFile,
    /// Base64 that goes on behind its padding.
    DataAfterPadding,
    /// Part of a message that comes in several (RFC 2046 section 5.2.2).
    PartialMessage,
    /// A body that is to be fetched from elsewhere (RFC 2046 section 5.2.3).
    ExternalBody,
    /// Header and body are parted by something else than an empty line.
    OddSeparator,
    /// What follows a CR without LF would be a boundary or a MIME field if the CR ended a line.
    PartsAfterBareReturn,
    /// A file of the message, or one inside it, could not be read; detail: its path and why.
    UnreadContent,
    /// Data loss prevention did not look through all texts (limits of `[dlp]`, `[content]` and
    /// `[limits]`).
    DataUnread,
    /// A filter failed or ran out of its budget (design invariant 6).
    FilterFailed,
    /// A rule ran out of its match budget.
    RuleBudget,
}

/// One anomaly, and where it was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Defect {
    /// The kind of anomaly.
    pub kind: DefectKind,
    /// Index of the part in [`crate::Message::parts`]; 0 is the root.
    pub part: u16,
    /// Byte offset in the raw message where it shows, if it has one place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u32>,
    /// A word more, e.g. the field's name. At most 80 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Defect {
    /// A defect of the part with this index.
    pub fn new(kind: DefectKind, part: u16) -> Self {
        Defect { kind, part, offset: None, detail: String::new() }
    }

    /// The same, at this byte of the raw message.
    #[must_use]
    pub fn at(mut self, offset: usize) -> Self {
        self.offset = u32::try_from(offset).ok();
        self
    }

    /// The same, with a word more; cut at 80 bytes.
    #[must_use]
    pub fn detail(mut self, detail: &str) -> Self {
        let end = (0..=detail.len().min(80)).rev().find(|&i| detail.is_char_boundary(i));
        detail[..end.unwrap_or(0)].clone_into(&mut self.detail);
        self
    }
}

impl DefectKind {
    /// Whether mail programs may show parts of such a message that were not judged, or other ones
    /// than those that were. See "Ambiguous MIME" in `docs/scanning.md`.
    pub fn is_ambiguous(self) -> bool {
        use DefectKind as K;
        matches!(
            self,
            K::AmbiguousFrom
                | K::DuplicateBoundary
                | K::BoundaryReused
                | K::TooManyParameters
                | K::ControlInParameter
                | K::OddFieldName
                | K::BadContinuation
                | K::EncodedBoundary
                | K::OddBoundary
                | K::BoundaryPrefix
                | K::TextAfterBoundary
                | K::PartsInPreamble
                | K::PartsAfterClose
                | K::PartsWithoutBoundary
                | K::ContainerEncoding
                | K::DuplicateMimeHeader
                | K::OddContentType
                | K::OddTransferEncoding
                | K::UuencodedFile
                | K::DataAfterPadding
                | K::PartialMessage
                | K::ExternalBody
                | K::OddSeparator
                | K::PartsAfterBareReturn
        )
    }

    /// Whether something in the message may not have been judged: a limit of the parse left
    /// something out, or mail programs read its structure in different ways.
    pub fn hides_content(self) -> bool {
        use DefectKind as K;
        let is_limit = matches!(
            self,
            K::TooManyHeaders
                | K::HeaderBlockTooLarge
                | K::UnreadableCharset
                | K::TooDeep
                | K::TooManyParts
                | K::DecodedTooLarge
                | K::TextTooLarge
                | K::TooManyUrls
                | K::TooManyRelays
        );
        is_limit || self.is_ambiguous()
    }

    /// The stable name, as in JSON: `bad_base64`.
    pub fn name(self) -> String {
        let mut name = String::new();
        for (i, c) in format!("{self:?}").chars().enumerate() {
            if c.is_ascii_uppercase() && i > 0 {
                name.push('_');
            }
            name.push(c.to_ascii_lowercase());
        }
        name
    }
}
