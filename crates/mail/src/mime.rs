//! MIME fields (RFC 2045, RFC 2183) and the boundaries of multiparts (RFC 2046 section 5.1).

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use crate::charset;
use crate::header::{decode_words, next_line};

/// A Content-Type: `kind/subtype` in lower case, and its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentType {
    /// `text`, `multipart`, ...
    pub kind: String,
    /// `plain`, `html`, ...
    pub subtype: String,
    /// Parameters in order: name in lower case, value decoded (RFC 2231 and encoded words).
    pub params: Vec<(String, String)>,
    /// The field was there and could be read.
    pub declared: bool,
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
        }
    }

    /// Reads an unfolded field value; none if it has no `kind/subtype`.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (head, params) = split_params(value);
        let head = head.trim_ascii();
        let slash = memchr::memchr(b'/', head)?;
        let token = |bytes: &[u8]| {
            let bytes = bytes.trim_ascii();
            let end = bytes.iter().position(|b| !b.is_ascii_graphic()).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase()
        };
        let (kind, subtype) = (token(&head[..slash]), token(&head[slash + 1..]));
        if kind.is_empty() || subtype.is_empty() {
            return None;
        }
        Some(ContentType { kind, subtype, params, declared: true })
    }

    /// First parameter of this name (in lower case).
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Whether this is `kind/subtype`; both in lower case.
    pub fn is(&self, kind: &str, subtype: &str) -> bool {
        self.kind == kind && self.subtype == subtype
    }

    /// `kind/subtype`.
    pub fn essence(&self) -> String {
        format!("{}/{}", self.kind, self.subtype)
    }
}

/// A Content-Disposition (RFC 2183): `inline`, `attachment`, and its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disposition {
    /// In lower case.
    pub kind: String,
    /// Parameters as in [`ContentType::params`].
    pub params: Vec<(String, String)>,
}

impl Disposition {
    /// Reads an unfolded field value.
    pub fn parse(value: &[u8]) -> Self {
        let (head, params) = split_params(value);
        let kind = String::from_utf8_lossy(head.trim_ascii()).to_ascii_lowercase();
        Disposition { kind, params }
    }

    /// The file name the sender proposes.
    pub fn file_name(&self) -> Option<&str> {
        self.params.iter().find(|(n, _)| n == "filename").map(|(_, v)| v.as_str())
    }
}

/// A Content-Transfer-Encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferEncoding {
    /// 7bit, 8bit, binary, or none.
    Identity,
    /// Base64.
    Base64,
    /// Quoted-printable.
    QuotedPrintable,
    /// Something that nobody knows; read as identity.
    Unknown,
}

impl TransferEncoding {
    /// Reads an unfolded field value.
    pub fn parse(value: &[u8]) -> Self {
        let value = value.trim_ascii();
        let end = value.iter().position(|b| matches!(b, b';' | b' ' | b'(')).unwrap_or(value.len());
        match value[..end].to_ascii_lowercase().as_slice() {
            b"base64" => TransferEncoding::Base64,
            b"quoted-printable" => TransferEncoding::QuotedPrintable,
            b"7bit" | b"8bit" | b"binary" | b"" => TransferEncoding::Identity,
            _ => TransferEncoding::Unknown,
        }
    }
}

/// Splits `head; name=value; ...`, quotes and comments respected, RFC 2231 continuations joined.
fn split_params(value: &[u8]) -> (&[u8], Vec<(String, String)>) {
    let mut sections = split_outside_quotes(value, b';');
    let head = if sections.is_empty() { value } else { sections.remove(0) };
    let mut plain: Vec<(String, String)> = Vec::new();
    let mut pieces: Vec<Piece> = Vec::new();
    for section in sections.into_iter().take(64) {
        let Some(equals) = memchr::memchr(b'=', section) else { continue };
        let name = String::from_utf8_lossy(section[..equals].trim_ascii()).to_ascii_lowercase();
        let bytes = unquote(section[equals + 1..].trim_ascii());
        match name.split_once('*') {
            Some((base, rest)) => pieces.push(Piece {
                base: base.to_owned(),
                number: rest.trim_end_matches('*').parse().unwrap_or(0),
                percent: name.ends_with('*'),
                bytes: bytes.into_owned(),
            }),
            None => plain.push((name, decode_words(&bytes).0.into_owned())),
        }
    }
    for (name, value) in join_pieces(pieces) {
        // RFC 2231 wins over a plain parameter of the same name (RFC 6266 section 4.3).
        match plain.iter_mut().find(|(n, _)| *n == name) {
            Some(slot) => slot.1 = value,
            None => plain.push((name, value)),
        }
    }
    (head, plain)
}

/// One `name*3*=value` of RFC 2231.
struct Piece {
    base: String,
    number: u32,
    percent: bool,
    bytes: Vec<u8>,
}

fn join_pieces(mut pieces: Vec<Piece>) -> Vec<(String, String)> {
    pieces.sort_by(|a, b| (&a.base, a.number).cmp(&(&b.base, b.number)));
    let mut joined: Vec<(String, Vec<u8>, Option<Vec<u8>>)> = Vec::new();
    for piece in pieces {
        let mut bytes = piece.bytes;
        let mut label = None;
        if piece.percent {
            if piece.number == 0 {
                let mut fields = bytes.splitn(3, |&b| b == b'\'');
                if let (Some(l), Some(_), Some(rest)) =
                    (fields.next(), fields.next(), fields.next())
                {
                    (label, bytes) = (Some(l.to_vec()), rest.to_vec());
                }
            }
            bytes = percent_decode(&bytes);
        }
        match joined.last_mut().filter(|(name, _, _)| *name == piece.base) {
            Some((_, value, _)) => value.extend_from_slice(&bytes),
            None => joined.push((piece.base, bytes, label)),
        }
    }
    joined
        .into_iter()
        .map(|(name, bytes, label)| {
            (name, charset::decode(&bytes, label.as_deref()).text.into_owned())
        })
        .collect()
}

/// Decodes `%41`; a `%` that no pair follows is kept.
pub fn percent_decode(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if let [b'%', a, b, ..] = bytes[at..]
            && let (Some(a), Some(b)) = (crate::encoding::hex(a), crate::encoding::hex(b))
        {
            out.push(a << 4 | b);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    out
}

/// Splits at `separator` outside quoted strings and comments.
fn split_outside_quotes(value: &[u8], separator: u8) -> Vec<&[u8]> {
    let (mut sections, mut start) = (Vec::new(), 0);
    let (mut quoted, mut escaped) = (false, false);
    for (i, &byte) in value.iter().enumerate() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match byte {
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b if b == separator && !quoted => {
                sections.push(&value[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    sections.push(&value[start..]);
    sections
}

fn unquote(value: &[u8]) -> Cow<'_, [u8]> {
    let Some(inner) = value.strip_prefix(b"\"") else {
        // A bare token ends at white space or a comment.
        let end = value.iter().position(|b| matches!(b, b' ' | b'\t' | b'('));
        return Cow::Borrowed(&value[..end.unwrap_or(value.len())]);
    };
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' => break,
            b'\\' => out.extend(bytes.next()),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

/// The parts between the boundaries of a multipart body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Boundaries {
    /// Ranges of the parts (headers and body), in order.
    pub(crate) parts: Vec<Range<usize>>,
    /// The closing boundary was there.
    pub(crate) closed: bool,
}

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
        // `--boundaryX` is another boundary that ours is a prefix of.
        if !(tail.is_empty() || closing || tail[0] == b' ' || tail[0] == b'\t') {
            continue;
        }
        if let Some(start) = open.take() {
            found.parts.push(start..before_line_end(raw, start, hit));
        }
        if closing || found.parts.len() >= max {
            found.closed = closing;
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
        let ct = ContentType::parse(b"Text/HTML; charset=\"UTF-8\"; format=flowed").unwrap();
        assert!(ct.is("text", "html"));
        assert_eq!((ct.param("charset"), ct.param("format")), (Some("UTF-8"), Some("flowed")));
        assert_eq!(ContentType::parse(b"garbage"), None);
        let ct = ContentType::parse(b"a/b; name*0*=utf-8''caf%C3; name*1*=%A9; name*2=.txt");
        assert_eq!(ct.unwrap().param("name"), Some("café.txt"));
        let disposition = Disposition::parse(b"attachment; filename=\"a;b\\\".txt\"");
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
