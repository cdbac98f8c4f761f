//! Texts, and what cannot be told.

/// So many bytes are looked at.
const BYTES_MAX: usize = 64 * 1024;
/// A line longer than this is very long.
const LINE_LETTERS_MAX: usize = 300;
/// Words are looked for in so many bytes at the beginning.
const HEAD_BYTES: usize = 512;

/// NEL, a line's end of ISO 8859 and of Unicode.
const NEXT_LINE: u32 = 0x85;

pub(super) fn describe(bytes: &[u8]) -> String {
    let bytes = head(bytes);
    let Some((encoding, letters)) = letters(bytes) else { return "data".into() };
    let kind = kind(bytes);
    let (before, behind) = match kind {
        Some((kind, true)) => (format!("{kind}, "), " executable"),
        Some((kind, false)) => (format!("{kind}, "), ""),
        None => (String::new(), ""),
    };
    format!("{before}{encoding}{behind}{}", lines(&letters))
}

/// Whether all of it is text in an encoding that is known, zeros at the end included. Formats whose
/// few letters at the beginning may well begin a text are only found in files that are none.
pub(super) fn is_text(bytes: &[u8]) -> bool {
    letters(bytes.get(..BYTES_MAX).unwrap_or(bytes)).is_some()
}

/// What is looked at. As file(1) does, zeros at the end are left out, down to an even length if
/// the length was even: a letter of UTF-16 may end with one.
fn head(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.get(..BYTES_MAX).unwrap_or(bytes);
    let kept = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
    let padding = usize::from(kept % 2 == 1 && bytes.len().is_multiple_of(2));
    bytes.get(..kept + padding).unwrap_or(bytes)
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

/// The encoding, and the numbers of the letters in it.
fn letters(bytes: &[u8]) -> Option<(&'static str, Vec<u32>)> {
    if let Some(found) = utf_16(bytes) {
        return Some(found);
    }
    if bytes.iter().any(|byte| is_control(u32::from(*byte))) {
        return None;
    }
    let has = |wanted: fn(u8) -> bool| bytes.iter().any(|byte| wanted(*byte));
    let of_bytes = || bytes.iter().map(|byte| u32::from(*byte)).collect();
    if !has(|byte| !byte.is_ascii() && u32::from(byte) != NEXT_LINE) {
        return Some(("ASCII text", of_bytes()));
    }
    if let Some(text) = utf_8(bytes) {
        let marked = bytes.starts_with(&[0xef, 0xbb, 0xbf]);
        let name =
            if marked { "Unicode text, UTF-8 (with BOM) text" } else { "Unicode text, UTF-8 text" };
        return Some((name, text.chars().map(u32::from).collect()));
    }
    if has(|byte| (0x80..0xa0).contains(&byte) && u32::from(byte) != NEXT_LINE) {
        return Some(("Non-ISO extended-ASCII text", of_bytes()));
    }
    Some(("ISO-8859 text", of_bytes()))
}

/// What no text has: BEL, BS, HT, LF, VT, FF, CR and ESC are the others.
fn is_control(letter: u32) -> bool {
    (letter < 0x20 && !matches!(letter, 0x07..=0x0d | 0x1b)) || letter == 0x7f
}

/// UTF-8 with more than ASCII in it; the last letter may be cut off.
fn utf_8(bytes: &[u8]) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => {
            let whole = bytes.get(..error.valid_up_to())?;
            std::str::from_utf8(whole).ok().filter(|text| !text.is_ascii())
        }
        Err(_) => None,
    }
}

/// UTF-16 behind a byte order mark.
fn utf_16(bytes: &[u8]) -> Option<(&'static str, Vec<u32>)> {
    let (name, read): (_, fn([u8; 2]) -> u16) = match bytes {
        [0xff, 0xfe, ..] => ("Unicode text, UTF-16, little-endian text", u16::from_le_bytes),
        [0xfe, 0xff, ..] => ("Unicode text, UTF-16, big-endian text", u16::from_be_bytes),
        _ => return None,
    };
    let pairs = bytes.get(2..)?.as_chunks::<2>().0;
    let letters: Vec<u32> = pairs.iter().map(|pair| u32::from(read(*pair))).collect();
    let is_none = |letter: &u32| is_control(*letter) || *letter >= 0xfffe;
    (!letters.iter().any(is_none)).then_some((name, letters))
}

/// How lines end, and what is unusual in them.
fn lines(letters: &[u32]) -> String {
    let (cr, lf, escape, back) = (0x0d, 0x0a, 0x1b, 0x08);
    let is_end = |letter: &u32| matches!(*letter, 0x0d | 0x0a | NEXT_LINE);
    let longest = letters.split(is_end).map(<[u32]>::len).max().unwrap_or_default();
    let mut said = String::new();
    if longest > LINE_LETTERS_MAX {
        said = format!(", with very long lines ({longest})");
    }
    let count = |wanted: u32| letters.iter().filter(|letter| **letter == wanted).count();
    let pairs = letters.windows(2).filter(|pair| **pair == [cr, lf]).count();
    let ends = [
        ("CRLF", pairs),
        ("CR", count(cr) - pairs),
        ("LF", count(lf) - pairs),
        ("NEL", count(NEXT_LINE)),
    ];
    let ends = ends.iter().filter(|(_, count)| *count > 0);
    let ends: Vec<&str> = ends.map(|(name, _)| *name).collect();
    match ends.as_slice() {
        [] => said.push_str(", with no line terminators"),
        ["LF"] => {}
        names => said.push_str(&format!(", with {} line terminators", names.join(", "))),
    }
    if letters.contains(&escape) {
        said.push_str(", with escape sequences");
    }
    if letters.contains(&back) {
        said.push_str(", with overstriking");
    }
    said
}
