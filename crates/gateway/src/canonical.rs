//! What DKIM and ARC sign: fields and bodies in relaxed canonical form (RFC 6376 section 3.4).

use ring::digest::{Context, SHA256};

use gauntlet_mail::fields::{fields, is_named};

/// These fields in canonical form, of each name from the last one up (RFC 6376 section 5.4.2).
pub(crate) fn signed_fields(message: &[u8], names: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let before = names.iter().take(i).filter(|n| *n == name).count();
        let lower = name.to_ascii_lowercase();
        let all: Vec<&[u8]> = fields(message).filter(|f| is_named(f, lower.as_bytes())).collect();
        if let Some(field) = all.iter().rev().nth(before) {
            out.extend(relaxed(field));
        }
    }
    out
}

/// A field in relaxed canonical form, with its line end.
pub(crate) fn relaxed(field: &[u8]) -> Vec<u8> {
    let colon = memchr::memchr(b':', field).unwrap_or(field.len());
    let (name, value) = field.split_at(colon);
    let mut out = trimmed(name).to_ascii_lowercase();
    out.push(b':');
    let value = trimmed(value.get(1..).unwrap_or_default());
    out.extend(single_spaces(value, |b| matches!(b, b' ' | b'\t' | b'\r' | b'\n')));
    out.extend(b"\r\n");
    out
}

/// The text with each run of white space as one space.
fn single_spaces(text: &[u8], is_space: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut spaces = false;
    for &byte in text {
        let space = is_space(byte);
        if space && !spaces {
            out.push(b' ');
        } else if !space {
            out.push(byte);
        }
        spaces = space;
    }
    out
}

/// SHA-256 of a body, the empty line before it included, in relaxed canonical form (RFC 6376
/// section 3.4.4).
pub(crate) fn body_hash(body: &[u8]) -> Vec<u8> {
    let mut hash = Context::new(&SHA256);
    relaxed_body(body, |piece| hash.update(piece));
    hash.finish().as_ref().to_vec()
}

/// Gives a body, the empty line before it left out, in relaxed canonical form, piece by piece.
fn relaxed_body(rest: &[u8], mut take: impl FnMut(&[u8])) {
    let body = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n")).unwrap_or(rest);
    let mut empty_lines = 0;
    for line in body.split_inclusive(|b| *b == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let mut line = single_spaces(line, |b| matches!(b, b' ' | b'\t'));
        if line.last() == Some(&b' ') {
            line.pop();
        }
        if line.is_empty() {
            empty_lines += 1;
            continue;
        }
        for _ in 0..std::mem::take(&mut empty_lines) {
            take(b"\r\n");
        }
        line.extend(b"\r\n");
        take(&line);
    }
}

/// Without white space at either end. A form feed is none (RFC 6376 section 2.8).
fn trimmed(text: &[u8]) -> &[u8] {
    let is_text = |b: &u8| !matches!(b, b' ' | b'\t' | b'\r' | b'\n');
    let start = text.iter().position(is_text).unwrap_or(text.len());
    let end = text.iter().rposition(is_text).map_or(start, |last| last + 1);
    text.get(start..end).unwrap_or_default()
}

/// A canonical field without its line end.
pub(crate) fn without_end(mut line: Vec<u8>) -> Vec<u8> {
    line.truncate(line.len().saturating_sub(2));
    line
}

/// Names between colons, in lines of about `columns`.
pub(crate) fn folded(names: &[&str], columns: usize) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for name in names {
        if !out.is_empty() {
            out.push(':');
            if column > columns {
                out.push_str("\r\n\t ");
                column = 0;
            }
        }
        out.push_str(name);
        column += name.len() + 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_forms() {
        assert_eq!(relaxed(b"SubJect : a \r\n\t b\t c \r\n"), b"subject:a b c\r\n");
        assert_eq!(relaxed(b"A : \x0cb\x0c \r\n"), b"a:\x0cb\x0c\r\n");
        let body = |text: &str| {
            let mut body = Vec::new();
            relaxed_body(text.as_bytes(), |piece| body.extend_from_slice(piece));
            String::from_utf8(body).unwrap()
        };
        assert_eq!(body("\r\n C \r\nD \t E\r\n\r\n\r\n"), " C\r\nD E\r\n");
        assert_eq!(body("\r\n\r\n\r\nx"), "\r\n\r\nx\r\n");
        assert_eq!(body(""), "");
        assert_eq!(body("\r\n\r\n \r\n"), "");
    }
}
