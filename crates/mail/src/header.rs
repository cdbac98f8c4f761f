//! Header fields: splitting a block into fields (RFC 5322 section 2.2), unfolding, and decoding of
//! encoded words (RFC 2047).

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr_iter, memchr2};

use crate::ambiguity;
use crate::charset;
use crate::defect::{Defect, DefectKind};
use crate::encoding;
use crate::limits::Limits;

/// Broken lines that are reported of one header block.
const BROKEN_LINES_MAX: u32 = 8;

/// Bytes of a body without its empty line that are searched for fields.
const SEPARATOR_SEARCH_BYTES_MAX: usize = 64 * 1024;

/// Room for the fields of most messages.
const FIELDS_USUAL: usize = 32;

/// One header field, as it stands in the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header<'a> {
    /// Field name without the colon and without white space before it.
    pub name: &'a [u8],
    /// Everything after the colon up to the line end that closes the field: folded, with its
    /// leading white space, without the closing line end.
    pub raw_value: &'a [u8],
    /// Byte offset of the name in the message.
    pub offset: usize,
}

impl<'a> Header<'a> {
    /// Whether the field has this name; field names do not depend on case.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// The name as text.
    pub fn name_str(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.name)
    }

    /// Byte offset of the value (after the colon) in the message.
    pub fn value_offset(&self, raw: &[u8]) -> usize {
        (self.raw_value.as_ptr() as usize).saturating_sub(raw.as_ptr() as usize)
    }

    /// The value unfolded and trimmed, bytes as they are.
    pub fn unfolded(&self) -> Cow<'a, [u8]> {
        unfold(self.raw_value)
    }

    /// The value as it is displayed: unfolded, trimmed, encoded words decoded, as UTF-8.
    pub fn decoded(&self) -> Cow<'a, str> {
        match unfold(self.raw_value) {
            Cow::Borrowed(value) => decode_words(value).0,
            Cow::Owned(value) => decode_words(&value).0.into_owned().into(),
        }
    }
}

/// Removes line ends inside a field (RFC 5322 section 2.2.3) and white space around it.
pub fn unfold(raw: &[u8]) -> Cow<'_, [u8]> {
    let trimmed = raw.trim_ascii();
    let Some(first) = memchr2(b'\r', b'\n', trimmed) else { return Cow::Borrowed(trimmed) };
    let (line, mut rest) = trimmed.split_at(first);
    let mut out = Vec::with_capacity(trimmed.len());
    out.extend_from_slice(line);
    // The byte that `rest` begins with is left out.
    while let Some((_, after)) = rest.split_first() {
        let (line, next) = after.split_at(memchr2(b'\r', b'\n', after).unwrap_or(after.len()));
        out.extend_from_slice(line);
        rest = next;
    }
    Cow::Owned(out)
}

/// Reads the header block at the start of `raw[range]`.
///
/// Returns the fields and the offset at which the body begins. A line that is neither a field nor a
/// continuation ends the block without being taken (the body begins there), except that a leading
/// mbox `From ` line is skipped.
pub(crate) fn read_block<'a>(
    raw: &'a [u8],
    range: Range<usize>,
    part: u16,
    limits: &Limits,
    defects: &mut Vec<Defect>,
) -> (Vec<Header<'a>>, usize) {
    let mut headers = Vec::with_capacity(if part == 0 { FIELDS_USUAL } else { 4 });
    let mut at = range.start;
    let mut dropped = false;
    let mut broken_lines = 0;
    // The first line that ends the block to some mail programs, and not to us.
    let mut early_end: Option<usize> = None;
    while at < range.end {
        let line_end = next_line(raw, at, range.end);
        let line = &raw[at..line_end];
        if matches!(line, b"\n" | b"\r\n") {
            report_early_end(raw, early_end, line_end, part, &headers, defects);
            return (headers, line_end);
        }
        if line_end - range.start > limits.header_bytes_max as usize {
            defects.push(Defect::new(DefectKind::HeaderBlockTooLarge, part).at(at));
            return (headers, at);
        }
        if matches!(line[0], b' ' | b'\t') && at > range.start {
            if line.trim_ascii().is_empty() {
                early_end = early_end.or(Some(at));
            }
            if let Some(last) = headers.last_mut().filter(|_| !dropped) {
                let start = Header::value_offset(last, raw);
                last.raw_value = trim_line_end(&raw[start..line_end]);
            }
        } else if let Some(colon) = memchr(b':', line).filter(|&c| is_name(&line[..c])) {
            if headers.len() >= limits.headers_max as usize {
                if !dropped {
                    defects.push(Defect::new(DefectKind::TooManyHeaders, part).at(at));
                }
                dropped = true;
            } else {
                headers.push(Header {
                    name: line[..colon].trim_ascii_end(),
                    raw_value: trim_line_end(&line[colon + 1..]),
                    offset: at,
                });
            }
        } else if !(at == range.start
            && (line.starts_with(b"From ") || line.starts_with(b">From ")))
        {
            if broken_lines < BROKEN_LINES_MAX {
                defects.push(Defect::new(DefectKind::HeaderWithoutColon, part).at(at));
            }
            broken_lines += 1;
            if !more_fields_follow(raw, line_end, range.end) {
                let body = &raw[at..range.end.min(at + SEPARATOR_SEARCH_BYTES_MAX)];
                let odd = Defect::new(DefectKind::OddSeparator, part).at(at);
                defects.extend(ambiguity::may_contain_parts(body).then_some(odd));
                return (headers, at);
            }
            early_end = early_end.or(Some(at));
        }
        at = line_end;
    }
    report_early_end(raw, early_end, range.end, part, &headers, defects);
    // Of an empty part the empty line is the boundary's.
    let is_empty_part = part > 0 && (range.is_empty() || raw[range.end - 1] == b'\n');
    if !is_empty_part {
        defects.push(Defect::new(DefectKind::NoBodySeparator, part));
    }
    (headers, range.end)
}

/// Reports a line at which to some mail programs the body begins, if that is another body.
fn report_early_end(
    raw: &[u8],
    early_end: Option<usize>,
    end: usize,
    part: u16,
    headers: &[Header<'_>],
    defects: &mut Vec<Defect>,
) {
    let Some(at) = early_end else { return };
    let is_mime =
        |h: &Header<'_>| h.name.get(..8).is_some_and(|n| n.eq_ignore_ascii_case(b"content-"));
    if part > 0
        || headers.iter().any(|h| h.offset > at && is_mime(h))
        || ambiguity::dashed_lines(&raw[at..end]) > 0
    {
        defects.push(Defect::new(DefectKind::OddSeparator, part).at(at));
    }
}

/// Whether the line after a broken one is a field again: then the broken line is noise inside the
/// block, otherwise the body has begun without its empty line.
fn more_fields_follow(raw: &[u8], at: usize, end: usize) -> bool {
    let line = &raw[at..next_line(raw, at, end)];
    memchr(b':', line).is_some_and(|c| is_name(&line[..c]))
}

/// Offset just after the line that begins at `at`.
pub(crate) fn next_line(raw: &[u8], at: usize, end: usize) -> usize {
    memchr(b'\n', &raw[at..end]).map_or(end, |i| at + i + 1)
}

fn trim_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Field names are printable ASCII without the colon (RFC 5322 section 2.2); white space before the
/// colon is obsolete syntax and taken.
fn is_name(name: &[u8]) -> bool {
    let name = name.trim_ascii_end();
    !name.is_empty() && name.iter().all(|b| (33..=126).contains(b))
}

/// Decodes the encoded words of an unfolded value; the flag says whether all could be decoded.
///
/// White space between two adjacent encoded words is dropped (RFC 2047 section 6.2). Bytes outside
/// ASCII are taken as UTF-8, else as Windows-1252. Adjacent words of one charset and encoding are
/// joined before the charset is decoded, since senders split characters between them.
pub fn decode_words(value: &[u8]) -> (Cow<'_, str>, bool) {
    if find_encoded_word(value).is_none() {
        return (charset::guess(value), true);
    }
    let mut out = String::with_capacity(value.len());
    let mut pending: Option<(&[u8], Vec<u8>)> = None;
    let mut all = true;
    let mut at = 0;
    while at < value.len() {
        let Some(start) = find_encoded_word(&value[at..]).map(|i| at + i) else { break };
        let Some(word) = EncodedWord::read(&value[start..]) else {
            flush(&mut pending, &mut out, &mut all);
            out.push_str(&charset::guess(&value[at..start + 2]));
            at = start + 2;
            continue;
        };
        let between = &value[at..start];
        let adjacent = pending.is_some() && between.iter().all(u8::is_ascii_whitespace);
        if !adjacent {
            flush(&mut pending, &mut out, &mut all);
            out.push_str(&charset::guess(between));
        }
        match &mut pending {
            Some((label, bytes)) if label.eq_ignore_ascii_case(word.charset) => {
                bytes.extend_from_slice(&word.bytes);
            }
            _ => {
                flush(&mut pending, &mut out, &mut all);
                pending = Some((word.charset, word.bytes));
            }
        }
        at = start + word.length;
    }
    flush(&mut pending, &mut out, &mut all);
    out.push_str(&charset::guess(&value[at..]));
    (Cow::Owned(out), all)
}

/// Where an encoded word may begin: at the first `=?`, of which the question mark is rarer.
pub(crate) fn find_encoded_word(value: &[u8]) -> Option<usize> {
    let mut starts = memchr_iter(b'?', value).filter_map(|mark| mark.checked_sub(1));
    starts.find(|&start| value[start] == b'=')
}

fn flush(pending: &mut Option<(&[u8], Vec<u8>)>, out: &mut String, all: &mut bool) {
    if let Some((label, bytes)) = pending.take() {
        let text = charset::decode(&bytes, Some(label));
        *all &= text.problem.is_none();
        out.push_str(&text.text);
    }
}

/// One `=?charset?encoding?text?=` (RFC 2047 section 2).
struct EncodedWord<'a> {
    charset: &'a [u8],
    bytes: Vec<u8>,
    length: usize,
}

impl<'a> EncodedWord<'a> {
    /// Reads the word at the start of `value`. A charset may carry a language (RFC 2231 section 5).
    fn read(value: &'a [u8]) -> Option<Self> {
        let rest = value.strip_prefix(b"=?")?;
        let q1 = memchr(b'?', rest)?;
        let label = rest[..q1].split(|&b| b == b'*').next()?;
        if label.is_empty() || label.iter().any(|b| !b.is_ascii_graphic()) {
            return None;
        }
        let kind = *rest.get(q1 + 1)?;
        if rest.get(q1 + 2) != Some(&b'?') {
            return None;
        }
        let text = &rest[q1 + 3..];
        let end = memchr_iter(b'?', text).find(|mark| text.get(mark + 1) == Some(&b'='))?;
        let bytes = match kind {
            b'B' | b'b' => encoding::base64(&text[..end]).bytes.into_owned(),
            b'Q' | b'q' => encoding::q_word(&text[..end]),
            _ => return None,
        };
        Some(EncodedWord { charset: label, bytes, length: 2 + q1 + 3 + end + 2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(block: &[u8]) -> (Vec<(String, String)>, usize, Vec<DefectKind>) {
        let mut defects = Vec::new();
        let (headers, body) =
            read_block(block, 0..block.len(), 0, &Limits::default(), &mut defects);
        let pairs =
            headers.iter().map(|h| (h.name_str().into_owned(), h.decoded().into_owned())).collect();
        (pairs, body, defects.iter().map(|d| d.kind).collect())
    }

    #[test]
    fn unfolding_leaves_out_line_ends_alone() {
        for text in ["", "a", " a\r\n b\n\tc ", "\n\na\r\r\n\nb\r", "a\rb\nc"] {
            let slowly = text.trim_ascii().replace(['\r', '\n'], "");
            assert_eq!(*unfold(text.as_bytes()), *slowly.as_bytes(), "{text:?}");
        }
    }

    #[test]
    fn folded_fields_and_body_offset() {
        let (pairs, body, defects) = read(b"A: one\r\n two\r\nB : x\r\n\r\nbody");
        assert_eq!(pairs, [("A".into(), "one two".into()), ("B".into(), "x".into())]);
        assert_eq!(body, 23);
        assert!(defects.is_empty());
    }

    #[test]
    fn a_line_that_is_no_field_begins_the_body() {
        let (pairs, body, defects) = read(b"A: one\nhello there\nworld\n");
        assert_eq!((pairs.len(), body), (1, 7));
        assert_eq!(defects, [DefectKind::HeaderWithoutColon]);
    }

    #[test]
    fn encoded_words() {
        let decode = |s: &str| decode_words(s.as_bytes()).0.into_owned();
        assert_eq!(decode("=?utf-8?q?caf=C3=A9_noir?="), "café noir");
        assert_eq!(decode("=?UTF-8?B?Y2Fm?= =?utf-8?b?w6k=?= x"), "café x");
        assert_eq!(decode("=?utf-8?q?=C3?= =?utf-8?q?=A9?="), "é", "split character");
        assert_eq!(decode("a =?iso-8859-1?q?=E9?= b"), "a é b");
        assert_eq!(decode("=?broken"), "=?broken");
    }
}
