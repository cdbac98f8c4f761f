//! What mail programs read in different ways: parts that only some of them see.
//!
//! Each check recognises one kind of message that mail programs parse differently.
//! They look at fields, and at what stands outside of parts: never at the bodies of sound parts.

use memchr::{memchr, memchr_iter, memmem};

use crate::encoded_files::is_begin_line;

/// Bytes that are searched of what stands outside of parts. What is longer counts as found.
pub(crate) const OUTSIDE_BYTES_MAX: usize = 1024 * 1024;

/// Characters of a line that can be nothing but encoded data.
const DATA_LINE_MIN: usize = 40;

/// Whether `bytes`, which no reading of ours shows, may hold a part to others: a line that is a
/// MIME field, one that begins like a boundary of the message, or lines of encoded data.
pub(crate) fn may_contain_parts(bytes: &[u8]) -> bool {
    let bytes = bytes.trim_ascii();
    if bytes.is_empty() {
        return false;
    }
    if bytes.len() > OUTSIDE_BYTES_MAX {
        return true;
    }
    let mut data_lines = 0;
    let mut in_armor = false;
    bytes.split(|b| *b == b'\n').map(<[u8]>::trim_ascii_end).any(|line| {
        // A signature or key in ASCII armor (RFC 9580 section 6.2) names itself.
        if line.starts_with(b"-----BEGIN PGP ") || line.starts_with(b"-----END PGP ") {
            in_armor = line.starts_with(b"-----B");
        }
        data_lines = if !in_armor && is_data_line(line) { data_lines + 1 } else { 0 };
        data_lines > 1 || is_mime_field(line) || is_begin_line(line)
    })
}

/// Whether the line is a field of RFC 2045 that says how a body is read.
pub(crate) fn is_mime_field(line: &[u8]) -> bool {
    let Some(colon) = memchr(b':', line) else { return false };
    let name = line[..colon].trim_ascii().to_ascii_lowercase();
    matches!(&*name, b"content-type" | b"content-transfer-encoding" | b"content-disposition")
}

fn is_data_line(line: &[u8]) -> bool {
    let is_base64 = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    let has = |of: fn(&u8) -> bool| line.iter().any(of);
    line.len() >= DATA_LINE_MIN
        && line.iter().all(is_base64)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
}

/// Whether these bytes are a message as mail programs write it into a file: fields of a header from
/// the first line on, among them one that only messages have.
pub(crate) fn is_message(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let mut has_message_field = false;
    for (i, line) in bytes.split(|b| *b == b'\n').enumerate().take(200) {
        let line = line.trim_ascii_end();
        if line.is_empty() {
            break;
        }
        if i == 0 && (line.starts_with(b"From ") || line.starts_with(b">From ")) {
            continue;
        }
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            continue;
        }
        let Some(colon) = memchr(b':', line) else { return has_message_field };
        let name = line[..colon].trim_ascii_end();
        if name.is_empty() || !name.iter().all(|b| (33..=126).contains(b)) {
            return has_message_field;
        }
        const FIELDS: [&[u8]; 7] = [
            b"received",
            b"return-path",
            b"mime-version",
            b"message-id",
            b"from",
            b"subject",
            b"content-type",
        ];
        has_message_field |= FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field));
    }
    has_message_field
}

/// Whether lines that begin with `--boundary` and go on are something else than the boundaries of
/// other parts of the message, `others`.
pub(crate) fn is_read_as_boundary(line: &[u8], others: &dyn Fn(&[u8]) -> bool) -> bool {
    let line = line.strip_suffix(b"--").unwrap_or(line);
    !others(line) && !others(line.trim_ascii_end())
}

/// Lines of `bytes` that begin with `--`, and may be boundaries.
pub(crate) fn dashed_lines(bytes: &[u8]) -> usize {
    let starts = memchr_iter(b'\n', bytes).map(|i| i + 1).chain([0]);
    starts.filter(|&at| bytes[at..].starts_with(b"--")).count()
}

/// Lines of `bytes` at which with this boundary a part begins.
pub(crate) fn boundaries(bytes: &[u8], boundary: &[u8]) -> usize {
    let begins = |at: &usize| {
        bytes[..*at].ends_with(b"--")
            && (*at == 2 || bytes.get(at.wrapping_sub(3)) == Some(&b'\n'))
            && !bytes[at + boundary.len()..].starts_with(b"--")
    };
    memmem::find_iter(bytes, boundary).filter(begins).count()
}

/// The first CR without LF that begins a boundary, a MIME field, an empty line or an encoded file
/// to mail programs that take it for the end of a line.
pub(crate) fn part_after_bare_return(raw: &[u8]) -> Option<usize> {
    memchr_iter(b'\r', raw).find(|&at| {
        let line = &raw[at + 1..];
        let line = &line[..line
            .iter()
            .take(256)
            .position(|b| b"\r\n".contains(b))
            .unwrap_or(line.len().min(256))];
        let follows = raw.get(at + 1).copied();
        let is_bare = follows.is_some_and(|b| b != b'\n');
        let is_empty_line = follows == Some(b'\r') && raw.get(at + 2) != Some(&b'\n');
        is_bare
            && (is_empty_line
                || line.starts_with(b"--")
                || is_mime_field(line)
                || is_begin_line(line))
    })
}
