//! MIME fields (RFC 2045, RFC 2183) and the boundaries of multiparts (RFC 2046 section 5.1).

use std::ops::Range;

use memchr::memmem;

use crate::defect::DefectKind;
use crate::header::next_line;
use crate::params::{self, Params};

/// A Content-Type: `kind/subtype` in lower case, and its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentType {
    /// Top-level type: `text`, `multipart` and so on.
    pub kind: String,
    /// What follows the slash: `plain`, `html` and so on.
    pub subtype: String,
    /// Parameters in order: name in lower case, value decoded (RFC 2231 and encoded words). A
    /// parameter may stand there more than once; the first is the one to believe.
    pub params: Vec<(String, String)>,
    /// The field was there and could be read.
    pub declared: bool,
    /// File names that other interpretations of the field give.
    pub alternative_names: Vec<String>,
    /// Why mail programs may read the field in different ways.
    pub defects: Vec<DefectKind>,
}

impl ContentType {
    /// What RFC 2045 section 5.2 assumes: `text/plain`, or `message/rfc822` inside a digest.
    pub fn assumed(in_digest: bool) -> Self {
        let (kind, subtype) = if in_digest { ("message", "rfc822") } else { ("text", "plain") };
        ContentType {
            kind: kind.into(),
            subtype: subtype.into(),
            params: Vec::new(),
            declared: false,
            alternative_names: Vec::new(),
            defects: Vec::new(),
        }
    }

    /// Reads an unfolded field value with at most `parameters_max` parameters. Without
    /// `kind/subtype` the type is the one that is assumed, and `declared` is false.
    pub fn parse(value: &[u8], in_digest: bool, parameters_max: usize) -> Self {
        let Params { head, values, alternative_names, mut defects } =
            params::read(value, parameters_max);
        let head = head.trim_ascii();
        let assumed = || ContentType::assumed(in_digest);
        let mut read = ContentType { params: values, alternative_names, ..assumed() };
        let token = |bytes: &[u8]| {
            let bytes = bytes.trim_ascii();
            let end = bytes.iter().position(|b| !b.is_ascii_graphic()).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase()
        };
        let slash = memchr::memchr(b'/', head);
        let types = slash.map(|slash| (token(&head[..slash]), token(&head[slash + 1..])));
        match types.filter(|(kind, subtype)| !kind.is_empty() && !subtype.is_empty()) {
            Some((kind, subtype)) => {
                (read.kind, read.subtype, read.declared) = (kind, subtype, true);
            }
            None => defects.push(DefectKind::BadContentType),
        }
        if is_ambiguous_type(head, &read) {
            defects.push(DefectKind::OddContentType);
        }
        ContentType { defects, ..read }
    }

    /// First parameter of this name (in lower case).
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Whether this is `kind/subtype`; both in lower case.
    pub fn is(&self, kind: &str, subtype: &str) -> bool {
        self.kind == kind && self.subtype == subtype
    }

    /// As `kind/subtype`, in lower case.
    pub fn essence(&self) -> String {
        format!("{}/{}", self.kind, self.subtype)
    }
}

/// Whether the first section of a Content-Type is not `token/token`, and some reading of it is
/// another type than the one that was read.
fn is_ambiguous_type(head: &[u8], read: &ContentType) -> bool {
    let is_token = |b: &u8| {
        b.is_ascii_graphic()
            && !matches!(b, b'(' | b')' | b'<' | b'>' | b'@' | b',' | b':')
            && !matches!(b, b'\\' | b'"' | b'[' | b']' | b'?' | b'=' | b'/')
    };
    let mut words = head.split(|b| *b == b'/');
    let sound = |word: Option<&[u8]>| word.is_some_and(|w| !w.is_empty() && w.iter().all(is_token));
    if sound(words.next()) && sound(words.next()) && words.next().is_none() {
        return false;
    }
    // What all take for text is read as text, whatever follows the type.
    let lower = head.to_ascii_lowercase();
    let says = |word: &[u8]| memmem::find(&lower, word).is_some();
    says(b"multi")
        || says(b"message")
        || (says(b"/") && (says(b"(") || says(b"\"")))
        || read.param("boundary").is_some()
}

/// A Content-Disposition (RFC 2183): `inline`, `attachment`, and its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disposition {
    /// `attachment`, `inline` or any other, in lower case.
    pub kind: String,
    /// Parameters as in [`ContentType::params`].
    pub params: Vec<(String, String)>,
    /// File names that other interpretations of the field give.
    pub alternative_names: Vec<String>,
    /// Why mail programs may read the field in different ways.
    pub defects: Vec<DefectKind>,
}

impl Disposition {
    /// Reads an unfolded field value with at most `parameters_max` parameters.
    pub fn parse(value: &[u8], parameters_max: usize) -> Self {
        let Params { head, values, alternative_names, defects } =
            params::read(value, parameters_max);
        let kind = String::from_utf8_lossy(head.trim_ascii()).to_ascii_lowercase();
        Disposition { kind, params: values, alternative_names, defects }
    }

    /// The file name the sender proposes.
    pub fn file_name(&self) -> Option<&str> {
        self.params.iter().find(|(n, _)| n == "filename").map(|(_, v)| v.as_str())
    }
}

/// How a body is encoded (RFC 2045 section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferEncoding {
    /// 7bit, 8bit, binary, or none.
    Identity,
    /// `base64` (RFC 2045 section 6.8).
    Base64,
    /// `quoted-printable` (RFC 2045 section 6.7).
    QuotedPrintable,
    /// An unknown encoding; read as identity.
    Unknown,
}

impl TransferEncoding {
    /// Reads an unfolded field value: its first word, without the quotes and comments that some
    /// mail programs read past.
    pub fn parse(value: &[u8]) -> Self {
        Self::of_word(first_word(value))
    }

    fn of_word(word: &[u8]) -> Self {
        match word.to_ascii_lowercase().as_slice() {
            b"base64" => TransferEncoding::Base64,
            b"quoted-printable" => TransferEncoding::QuotedPrintable,
            b"7bit" | b"8bit" | b"binary" | b"" => TransferEncoding::Identity,
            _ => TransferEncoding::Unknown,
        }
    }

    /// Whether mail programs may decode what this field stands over in different ways. Not so where
    /// no reading of the field is an encoding.
    pub fn is_ambiguous(value: &[u8]) -> bool {
        let value = value.trim_ascii();
        if Self::of_word(value) != TransferEncoding::Unknown {
            return false;
        }
        // Other spellings of identity, and charsets and types that stand here by mistake: there is
        // nothing that a mail program could decode.
        let lower = value.to_ascii_lowercase();
        let is_word = |b: &u8| b.is_ascii_alphanumeric() || b"-_/; \"".contains(b);
        let mistaken = [&b"bit"[..], b"binary", b"none", b"text/", b"utf-8", b"iso-8859", b"ascii"];
        let encodes = [&b"64"[..], b"quot", b"printable", b"uu", b"enc", b"hex", b"hqx", b"zip"];
        let says = |words: &[&[u8]]| words.iter().any(|w| memmem::find(&lower, w).is_some());
        !lower.iter().all(is_word) || says(&encodes) || !says(&mistaken)
    }
}

/// The first word of a field, past comments and quotes before it.
fn first_word(value: &[u8]) -> &[u8] {
    let mut rest = value.trim_ascii_start();
    while rest.first() == Some(&b'(') {
        let end = memchr::memchr(b')', rest).map_or(rest.len(), |i| i + 1);
        rest = rest[end..].trim_ascii_start();
    }
    let quotes = rest.iter().take_while(|b| matches!(b, b'"' | b'\'')).count();
    let rest = &rest[quotes..];
    let ends = |b: &u8| matches!(b, b';' | b' ' | b'\t' | b'(' | b'"' | b'\'' | b',');
    &rest[..rest.iter().position(ends).unwrap_or(rest.len())]
}

/// The parts between the boundaries of a multipart body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Boundaries {
    /// Ranges of the parts (headers and body), in order.
    pub(crate) parts: Vec<Range<usize>>,
    /// The closing boundary was there.
    pub(crate) closed: bool,
    /// What stands before the first boundary, and behind the closing one.
    pub(crate) outside: [Range<usize>; 2],
    /// Lines that begin with the boundary and go on: other boundaries, or boundaries to programs
    /// that compare the beginning of a line (RFC 2046 section 5.1.1).
    pub(crate) longer: Vec<Range<usize>>,
}

/// Lines that begin with a boundary and go on, of which it is remembered where they are.
const LONGER_LINES_MAX: usize = 64;

/// Finds the parts of `raw[range]` between lines `--boundary`; at most `max` of them.
///
/// The line end before a boundary belongs to the boundary (RFC 2046 section 5.1.1).
pub(crate) fn split_multipart(
    raw: &[u8],
    range: Range<usize>,
    boundary: &[u8],
    max: usize,
) -> Boundaries {
    let mut needle = b"--".to_vec();
    needle.extend_from_slice(boundary);
    let finder = memmem::Finder::new(&needle);
    let mut found = Boundaries::default();
    let mut open: Option<usize> = None;
    let mut at = range.start;
    while let Some(hit) = finder.find(&raw[at..range.end]).map(|i| at + i) {
        at = hit + needle.len();
        if hit > range.start && raw[hit - 1] != b'\n' {
            continue;
        }
        let line_end = next_line(raw, at, range.end);
        let tail = raw[at..line_end].trim_ascii_end();
        let closing = tail.starts_with(b"--");
        if tail.len() > if closing { 2 } else { 0 } && found.longer.len() < LONGER_LINES_MAX {
            found.longer.push(hit + 2..at + tail.len());
        }
        // `--boundaryX` is another boundary that ours is a prefix of.
        if !(tail.is_empty() || closing || tail[0] == b' ' || tail[0] == b'\t') {
            continue;
        }
        match open.take() {
            Some(start) => found.parts.push(start..before_line_end(raw, start, hit)),
            None => found.outside[0] = range.start..hit,
        }
        if closing || found.parts.len() >= max {
            found.closed = closing;
            if closing {
                found.outside[1] = line_end..range.end;
            }
            return found;
        }
        open = Some(line_end);
        at = line_end;
    }
    if let Some(start) = open {
        found.parts.push(start..range.end);
    }
    found
}

fn before_line_end(raw: &[u8], start: usize, hit: usize) -> usize {
    let mut end = hit;
    if end > start && raw[end - 1] == b'\n' {
        end -= 1;
        if end > start && raw[end - 1] == b'\r' {
            end -= 1;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_and_parameters() {
        let parse = |value: &[u8]| ContentType::parse(value, false, 64);
        let ct = parse(b"Text/HTML; charset=\"UTF-8\"; format=flowed");
        assert!(ct.is("text", "html"));
        assert_eq!((ct.param("charset"), ct.param("format")), (Some("UTF-8"), Some("flowed")));
        assert!(!parse(b"garbage").declared);
        let ct = parse(b"a/b; name*0*=utf-8''caf%C3; name*1*=%A9; name*2=.txt");
        assert_eq!(ct.param("name"), Some("café.txt"));
        let disposition = Disposition::parse(b"attachment; filename=\"a;b\\\".txt\"", 64);
        assert_eq!(disposition.file_name(), Some("a;b\".txt"));
    }

    #[test]
    fn parts_between_boundaries() {
        let raw = b"pre\r\n--x\r\nA\r\n--xy\r\n--x\r\nB\r\n--x--\r\nepilogue";
        let found = split_multipart(raw, 0..raw.len(), b"x", 10);
        let texts: Vec<&[u8]> = found.parts.iter().map(|r| &raw[r.clone()]).collect();
        assert_eq!(texts, [&b"A\r\n--xy"[..], b"B"]);
        assert!(found.closed);
        let raw = b"--x\nA";
        assert!(!split_multipart(raw, 0..raw.len(), b"x", 10).closed);
    }
}
