//! The header block of a message, and an mbox line before it.

use std::borrow::Cow;
use std::ops::Range;

use super::super::encoding;
use super::super::perl::{self, is_space};
use super::{FIELDS_MAX, NAME_MAX, VALUE_MAX};

/// Capacity for the fields of most messages.
const FIELDS_USUAL: usize = 32;

/// A header block with the body that follows.
pub(super) struct Head<'r> {
    /// Length of the mbox line before it.
    pub(super) mbox: usize,
    /// Fields: name, and the value's range in `values`.
    pub(super) fields: Vec<(&'r [u8], Range<usize>)>,
    pub(super) values: Cow<'r, [u8]>,
    pub(super) pristine: Cow<'r, [u8]>,
    pub(super) body: &'r [u8],
    pub(super) crlf: bool,
    pub(super) missing_separator: bool,
    pub(super) truncated: bool,
}

/// Length of the mbox or MBX line at the start, if there is one.
pub(super) fn mbox_line(raw: &[u8]) -> usize {
    let end = memchr::memchr(b'\n', raw).map_or(raw.len(), |i| i + 1);
    let line = &raw[..end];
    if let Some(rest) = line.strip_prefix(b"From") {
        let blank = rest.iter().take_while(|&&b| is_space(b)).count();
        if blank > 1 || blank == 1 && rest.get(1) != Some(&b':') {
            return end;
        }
    }
    if is_mbx_line(line) { end } else { 0 }
}

/// The first line of a message in an mbx folder (UW IMAP): `dd-mmm-yyyy hh:mm:ss
/// zone,size;flags-id`.
fn is_mbx_line(line: &[u8]) -> bool {
    let shape = b"?d-aaa-dddd dd:dd:dd";
    let fits = |(kind, byte): (&u8, &u8)| match kind {
        b'?' => byte.is_ascii_digit() || is_space(*byte),
        b'd' => byte.is_ascii_digit(),
        b'a' => byte.is_ascii_alphabetic(),
        b' ' => is_space(*byte),
        other => other == byte,
    };
    if line.len() < shape.len() || !shape.iter().zip(line).all(fits) {
        return false;
    }
    let line = perl::trim_end(line);
    let Some(comma) = line.iter().rposition(|&b| b == b',') else { return false };
    let tail = &line[comma + 1..];
    let digits = tail.iter().take_while(|b| b.is_ascii_digit()).count();
    let [b';', flags @ ..] = &tail[digits..] else { return false };
    let hex = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
    digits > 0
        && flags.len() == 21
        && flags[..12].iter().all(hex)
        && flags[12] == b'-'
        && flags[13..].iter().all(|&b| perl::is_word(b))
}

/// Parses the header block of a message that is not empty.
pub(super) fn parse_head(raw: &[u8]) -> Head<'_> {
    let mbox = mbox_line(raw);
    let message = &raw[mbox..];
    let first = perl::lines(message).next().unwrap_or_default();
    let inner = message.strip_suffix(b"\n").unwrap_or(message);
    let last = &message[memchr::memrchr(b'\n', inner).map_or(0, |i| i + 1)..];
    let crlf = first.ends_with(b"\r\n") || last.ends_with(b"\r\n");
    let mut head = Head {
        mbox,
        fields: Vec::with_capacity(FIELDS_USUAL),
        values: Cow::Borrowed(message),
        pristine: Cow::Borrowed(message),
        body: &[],
        crlf,
        missing_separator: false,
        truncated: false,
    };
    if crlf {
        head.values = Cow::Owned(Vec::new());
    }
    let (mut at, mut errors, mut open) = (0, 0, None);
    let end = loop {
        let rest = &message[at..];
        let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |i| i + 1);
        let line = &rest[..length];
        if matches!(line.first(), Some(b' ' | b'\t')) {
            open.get_or_insert(at);
            at += length;
            continue;
        }
        if let Some(start) = open.take() {
            head.add_field(message, start..at);
        }
        if rest.is_empty() {
            head.missing_separator = true;
            break at;
        }
        if line == b"\n" || crlf && line == b"\r\n" {
            break at + length;
        }
        let invalid = !begins_with_field(line, true);
        errors += usize::from(invalid && !line.starts_with(b"--"));
        if line.starts_with(b"--") || errors > 3 {
            head.missing_separator = true;
            break at;
        }
        open = Some(at);
        at += length;
    };
    head.body = &message[end..];
    head.pristine = with_crlf(&message[..end], crlf);
    head
}

/// The header block; in a message with CR LF every line gets its CR.
fn with_crlf(header: &[u8], crlf: bool) -> Cow<'_, [u8]> {
    let bare = |line: &[u8]| line.ends_with(b"\n") && !line.ends_with(b"\r\n");
    if !crlf || !perl::lines(header).any(bare) {
        return Cow::Borrowed(header);
    }
    let mut out = Vec::with_capacity(header.len() + 16);
    for line in perl::lines(header) {
        if bare(line) {
            out.extend_from_slice(&line[..line.len() - 1]);
            out.extend_from_slice(b"\r\n");
        } else {
            out.extend_from_slice(line);
        }
    }
    Cow::Owned(out)
}

impl<'r> Head<'r> {
    /// Adds the field in `range`; a line without a colon is no field.
    fn add_field(&mut self, message: &'r [u8], range: Range<usize>) {
        if self.fields.len() >= FIELDS_MAX {
            self.truncated = true;
            return;
        }
        let text = &message[range.clone()];
        let Some(colon) = memchr::memchr(b':', text) else { return };
        let name = &text[..colon];
        let blank = name.iter().rev().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let mut name = &name[..colon - blank];
        if name.len() > NAME_MAX {
            name = &name[..NAME_MAX];
            self.truncated = true;
        }
        let mut value = range.start + colon + 1..range.end;
        if let Cow::Owned(values) = &mut self.values {
            let start = values.len();
            encoding::push_unix_lines(&text[colon + 1..], values);
            value = start..values.len();
        }
        if value.len() > VALUE_MAX {
            value.end = value.start + VALUE_MAX;
            self.truncated = true;
        }
        self.fields.push((name, value));
    }
}

/// Whether the text begins with a field name and a colon; with white space between them if
/// `spaced`.
pub(super) fn begins_with_field(text: &[u8], spaced: bool) -> bool {
    let name = text.iter().take_while(|b| matches!(b, 0x21..=0x39 | 0x3b..=0x7e)).count();
    let blank = text[name..].iter().take_while(|b| spaced && matches!(b, b' ' | b'\t')).count();
    name > 0 && text.get(name + blank) == Some(&b':')
}
