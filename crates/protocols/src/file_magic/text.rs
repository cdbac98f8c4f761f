//! Texts, and what cannot be told.

/// So many bytes are looked at.
const BYTES_MAX: usize = 64 * 1024;
/// A line longer than this is very long.
const LINE_BYTES_MAX: usize = 300;
/// Words are looked for in so many bytes at the beginning.
const HEAD_BYTES: usize = 512;

pub(super) fn describe(bytes: &[u8]) -> String {
    let bytes = bytes.get(..BYTES_MAX).unwrap_or(bytes);
    let Some(encoding) = encoding(bytes) else { return "data".into() };
    let kind = kind(bytes);
    let (before, behind) = match kind {
        Some((kind, true)) => (format!("{kind}, "), " executable"),
        Some((kind, false)) => (format!("{kind}, "), ""),
        None => (String::new(), ""),
    };
    format!("{before}{encoding}{behind}{}", lines(bytes))
}

/// The language, and whether it is a program.
fn kind(bytes: &[u8]) -> Option<(&'static str, bool)> {
    let head = bytes.get(..HEAD_BYTES).unwrap_or(bytes);
    let head = head.trim_ascii_start().to_ascii_lowercase();
    let begins = |start: &str| head.starts_with(start.as_bytes());
    if let Some(rest) = head.strip_prefix(b"#!") {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let line = rest.get(..end).unwrap_or_default();
        let has = |word: &str| memchr::memmem::find(line, word.as_bytes()).is_some();
        return Some(match () {
            () if has("python") => ("Python script", true),
            () if has("perl") => ("Perl script", true),
            () if has("ruby") => ("Ruby script", true),
            () if has("php") => ("PHP script", true),
            () if has("bash") => ("Bourne-Again shell script", true),
            () => ("POSIX shell script", true),
        });
    }
    if begins("<?xml") {
        return Some(("XML 1.0 document", false));
    }
    if begins("<?php") {
        return Some(("PHP script", false));
    }
    let is_html = ["<!doctype html", "<html", "<head", "<title", "<body", "<script"];
    if is_html.iter().any(|start| begins(start)) {
        return Some(("HTML document", false));
    }
    if begins("@echo off") {
        return Some(("DOS batch file", false));
    }
    None
}

fn encoding(bytes: &[u8]) -> Option<&'static str> {
    let is_control = |byte: &u8| {
        byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x08 | 0x1b | 7)
    };
    if bytes.starts_with(&[0xff, 0xfe]) {
        return Some("Unicode text, UTF-16, little-endian text");
    }
    if bytes.starts_with(&[0xfe, 0xff]) {
        return Some("Unicode text, UTF-16, big-endian text");
    }
    if bytes.iter().any(is_control) {
        return None;
    }
    if bytes.is_ascii() {
        return Some("ASCII text");
    }
    match std::str::from_utf8(bytes) {
        Ok(_) if bytes.starts_with(&[0xef, 0xbb, 0xbf]) => {
            Some("Unicode text, UTF-8 (with BOM) text")
        }
        Ok(_) => Some("Unicode text, UTF-8 text"),
        // The last letter may be cut off.
        Err(error) if error.error_len().is_none() => Some("Unicode text, UTF-8 text"),
        Err(_) if bytes.iter().any(|byte| (0x80..0xa0).contains(byte)) => {
            Some("Non-ISO extended-ASCII text")
        }
        Err(_) => Some("ISO-8859 text"),
    }
}

fn lines(bytes: &[u8]) -> String {
    let mut said = String::new();
    let longest = bytes.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap_or_default();
    if longest > LINE_BYTES_MAX {
        said = format!(", with very long lines ({longest})");
    }
    let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
    let pairs = memchr::memmem::find_iter(bytes, b"\r\n").count();
    said.push_str(match (ends, pairs) {
        (0, _) => ", with no line terminators",
        (ends, pairs) if ends == pairs => ", with CRLF line terminators",
        (_, 0) => "",
        _ => ", with CRLF, LF line terminators",
    });
    said
}
