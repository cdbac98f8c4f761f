//! What a file is by its first bytes, in the words of `file` (libmagic): rules compare these words
//! (`file.magic`). Common kinds only; others are `data`, or the kind of their text.

use crate::reader::Reader;

/// Kinds that a few bytes at a place tell, in the order in which they are tried.
const SIGNATURES: &[(usize, &[u8], &str)] = &[
    (0, b"\x1f\x8b", "gzip compressed data"),
    (0, b"\xfd7zXZ\0", "XZ compressed data"),
    (0, b"\x28\xb5\x2f\xfd", "Zstandard compressed data (v0.8+)"),
    (0, b"\x04\"M\x18", "LZ4 compressed data (v1.4+)"),
    (0, b"7z\xbc\xaf\x27\x1c", "7-zip archive data"),
    (0, b"Rar!\x1a\x07\x01\0", "RAR archive data, v5"),
    (0, b"Rar!\x1a\x07\0", "RAR archive data, v4"),
    (0, b"MSCF\0\0\0\0", "Microsoft Cabinet archive data"),
    (257, b"ustar\0", "POSIX tar archive"),
    (257, b"ustar  \0", "POSIX tar archive (GNU)"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "Composite Document File V2 Document"),
    (0, b"{\\rtf1", "Rich Text Format data, version 1"),
    (0, b"{\\rtf", "Rich Text Format data"),
    (0, b"L\0\0\0\x01\x14\x02\0\0\0\0\0", "MS Windows shortcut"),
    (0, b"ITSF", "MS Windows HtmlHelp Data"),
    (0, b"SQLite format 3\0", "SQLite 3.x database"),
    (0, b"\xff\xd8\xff", "JPEG image data"),
    (0, b"BM", "PC bitmap"),
    (0, b"II*\0", "TIFF image data, little-endian"),
    (0, b"MM\0*", "TIFF image data, big-endian"),
    (0, b"\0\0\x01\0", "MS Windows icon resource"),
    (0, b"%!PS-Adobe-", "PostScript document text"),
    (0, b"OggS", "Ogg data"),
    (0, b"ID3", "Audio file with ID3"),
    (0, b"fLaC", "FLAC audio bitstream data"),
    (0, b"FLV\x01", "Macromedia Flash Video"),
    (0, b"\x1aE\xdf\xa3", "Matroska data"),
    (4, b"ftyp", "ISO Media"),
    (0, b"wOFF", "Web Open Font Format"),
    (0, b"wOF2", "Web Open Font Format (Version 2)"),
    (0, b"\0\x01\0\0\0", "TrueType Font data"),
    (0, b"-----BEGIN CERTIFICATE-----", "PEM certificate"),
    (0, b"\xd4\xc3\xb2\xa1", "pcap capture file, microsecond ts (little-endian)"),
    (0, b"\x0a\x0d\x0d\x0a", "pcapng capture file"),
    (0, b"<?xml version=\"1.0\"", "XML 1.0 document, ASCII text"),
    (0, b"<?php", "PHP script, ASCII text"),
    (0, b"dex\n035\0", "Dalvik dex file version 035"),
];

/// Beginnings of HTML, in any case, behind blanks.
const HTML: &[&[u8]] =
    &[b"<!doctype html", b"<html", b"<head", b"<body", b"<title", b"<script", b"<table", b"<h1"];

/// What a file with this beginning is.
pub(crate) fn describe(head: &[u8]) -> String {
    if let Some(kind) = image(head).or_else(|| program(head)).or_else(|| document(head)) {
        return kind;
    }
    let found = SIGNATURES
        .iter()
        .find(|(at, bytes, _)| head.get(*at..).is_some_and(|rest| rest.starts_with(bytes)));
    if let Some((_, _, kind)) = found {
        return (*kind).to_owned();
    }
    let blanks = head.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(head.len());
    let begin = head.get(blanks..).unwrap_or_default();
    let is_html = HTML
        .iter()
        .any(|tag| begin.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag)));
    match (text(head), is_html) {
        (Some(text), true) => format!("HTML document, {text}"),
        (Some(text), false) => script(head, &text).unwrap_or(text),
        (None, _) => "data".to_owned(),
    }
}

fn image(head: &[u8]) -> Option<String> {
    if let Some(rest) = head.strip_prefix(b"\x89PNG\r\n\x1a\n") {
        let mut reader = Reader::new(rest);
        if reader.skip(8).is_none() {
            return Some("PNG image data".to_owned());
        }
        let (width, height) = (reader.be32()?, reader.be32()?);
        let (depth, color) = (reader.u8()?, reader.u8()?);
        let color = match color {
            0 => " grayscale",
            2 => "/color RGB",
            3 => " colormap",
            4 => " gray+alpha",
            6 => "/color RGBA",
            _ => "",
        };
        reader.skip(2)?;
        let order = if reader.u8()? == 0 { "non-interlaced" } else { "interlaced" };
        return Some(format!("PNG image data, {width} x {height}, {depth}-bit{color}, {order}"));
    }
    if let Some(rest) = head.strip_prefix(b"GIF8") {
        let mut reader = Reader::new(rest);
        let version = String::from_utf8_lossy(reader.take(2)?).into_owned();
        let (width, height) = (reader.le16()?, reader.le16()?);
        return Some(format!("GIF image data, version 8{version}, {width} x {height}"));
    }
    if let (Some(b"RIFF"), Some(form)) = (head.get(..4), head.get(8..12)) {
        let form = match form {
            b"WEBP" => "Web/P image",
            b"WAVE" => "WAVE audio",
            b"AVI " => "AVI",
            _ => return Some("RIFF (little-endian) data".to_owned()),
        };
        return Some(format!("RIFF (little-endian) data, {form}"));
    }
    None
}

/// Programs: those of Windows (PE), ELF, Mach-O, Java, Flash.
fn program(head: &[u8]) -> Option<String> {
    match head {
        [b'M', b'Z', ..] => Some(windows(head).unwrap_or_else(|| "MS-DOS executable".to_owned())),
        [0x7f, b'E', b'L', b'F', class, order, ..] => Some(elf(head, *class, *order)),
        [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] => Some("Mach-O executable".to_owned()),
        [0xca, 0xfe, 0xba, 0xbe, _, _, high, low, ..] if *low >= 45 || *high > 0 => {
            let version = u16::from_be_bytes([*high, *low]);
            Some(format!("compiled Java class data, version {version}.0"))
        }
        [b'F', b'W', b'S', version, ..] => {
            Some(format!("Macromedia Flash data, version {version}"))
        }
        [b'C' | b'Z', b'W', b'S', version, ..] => {
            Some(format!("Macromedia Flash data (compressed), version {version}"))
        }
        _ => None,
    }
}

/// A program with a PE header (Microsoft's PE format).
fn windows(head: &[u8]) -> Option<String> {
    const SECTION_BYTES: usize = 40;
    const STRIPPED: u16 = 0x0200;
    const LIBRARY: u16 = 0x2000;
    let place = usize::try_from(Reader::at(head, 0x3c).le32()?).ok()?;
    let mut reader = Reader::at(head, place);
    if reader.array()? != *b"PE\0\0" {
        return None;
    }
    let machine = match reader.le16()? {
        0x014c => "Intel 80386",
        0x0200 => "Intel Itanium",
        0x8664 => "x86-64",
        0xaa64 => "Aarch64",
        0x01c0 | 0x01c4 => "ARM",
        _ => "unknown processor",
    };
    let sections = reader.le16()?;
    reader.skip(12)?;
    let optional_bytes = usize::from(reader.le16()?);
    let flags = reader.le16()?;
    let optional = reader.take(optional_bytes)?;
    let mut fields = Reader::new(optional);
    let is_wide = fields.le16()? == 0x20b;
    fields.skip(66)?;
    let subsystem = match fields.le16()? {
        1 => " (native)",
        2 => " (GUI)",
        3 => " (console)",
        7 => " (POSIX)",
        9 => " (Windows CE)",
        10..=13 => " (EFI)",
        _ => "",
    };
    // The fourteenth directory is that of .NET.
    let directories = if is_wide { 112 } else { 96 };
    let managed = Reader::at(optional, directories + 14 * 8).le32().unwrap_or_default() != 0;
    let table = reader.rest().chunks(SECTION_BYTES).take(usize::from(sections));
    let is_packed = table.into_iter().any(|section| section.starts_with(b"UPX"));
    let library = if flags & LIBRARY != 0 { " (DLL)" } else { "" };
    let stripped = if flags & STRIPPED != 0 { " (stripped to external PDB)" } else { "" };
    let managed = if managed { " Mono/.Net assembly" } else { "" };
    let packed = if is_packed { ", UPX compressed" } else { "" };
    let kind = if is_wide { "PE32+" } else { "PE32" };
    Some(format!(
        "{kind} executable{library}{subsystem} {machine}{stripped}{managed}, for MS Windows\
         {packed}, {sections} sections"
    ))
}

fn elf(head: &[u8], class: u8, order: u8) -> String {
    let class = if class == 2 { "64-bit" } else { "32-bit" };
    let (order, read): (_, fn([u8; 2]) -> u16) =
        if order == 2 { ("MSB", u16::from_be_bytes) } else { ("LSB", u16::from_le_bytes) };
    let field = |at: usize| Reader::at(head, at).array().map(read).unwrap_or_default();
    let kind = match field(16) {
        1 => "relocatable",
        2 => "executable",
        3 => "shared object",
        4 => "core file",
        _ => "unknown type",
    };
    let machine = match field(18) {
        3 => "Intel 80386",
        8 => "MIPS",
        20 => "PowerPC",
        40 => "ARM",
        62 => "x86-64",
        183 => "ARM aarch64",
        _ => "unknown processor",
    };
    format!("ELF {class} {order} {kind}, {machine}, version 1")
}

fn document(head: &[u8]) -> Option<String> {
    let window = head.get(..1024).unwrap_or(head);
    if let Some(begin) = memchr::memmem::find(window, b"%PDF-") {
        let version = window.get(begin + 5..begin + 8).unwrap_or_default();
        return Some(format!("PDF document, version {}", String::from_utf8_lossy(version)));
    }
    if let Some(rest) = head.strip_prefix(b"BZh") {
        let level = rest.first().map_or('9', |level| char::from(*level));
        return Some(format!("bzip2 compressed data, block size = {level}00k"));
    }
    let rest = head.strip_prefix(b"PK\x03\x04")?;
    let has = |name: &[u8]| memchr::memmem::find(head, name).is_some();
    let kinds: [(&[u8], &str); 5] = [
        (b"word/", "Microsoft Word 2007+"),
        (b"xl/", "Microsoft Excel 2007+"),
        (b"ppt/", "Microsoft PowerPoint 2007+"),
        (b"META-INF/MANIFEST.MF", "Java archive data (JAR)"),
        (b"mimetypeapplication/vnd.oasis.opendocument", "OpenDocument"),
    ];
    let known = kinds.iter().find(|(name, _)| has(name));
    let version = rest.first().copied().unwrap_or_default();
    Some(match known {
        Some((_, kind)) => (*kind).to_owned(),
        None => {
            let (major, minor) = (version / 10, version % 10);
            format!("Zip archive data, at least v{major}.{minor} to extract")
        }
    })
}

/// The kind of a text, `None` if it is none.
fn text(head: &[u8]) -> Option<String> {
    if head.is_empty() {
        return None;
    }
    let is_control = |byte: &u8| matches!(byte, 0..=6 | 14..=26 | 28..=31 | 127);
    if head.iter().any(is_control) {
        return None;
    }
    let valid = match std::str::from_utf8(head) {
        Ok(_) => true,
        // The last character may be cut.
        Err(error) => error.error_len().is_none(),
    };
    let kind = if head.is_ascii() {
        "ASCII text"
    } else if valid && head.starts_with(b"\xef\xbb\xbf") {
        "Unicode text, UTF-8 (with BOM) text"
    } else if valid {
        "Unicode text, UTF-8 text"
    } else if head.iter().any(|byte| (0x80..0xa0).contains(byte)) {
        "Non-ISO extended-ASCII text"
    } else {
        "ISO-8859 text"
    };
    let has_lines = memchr::memchr(b'\n', head).is_some();
    let ends = if memchr::memmem::find(head, b"\r\n").is_some() {
        ", with CRLF line terminators"
    } else if has_lines || memchr::memchr(b'\r', head).is_some() {
        ""
    } else {
        ", with no line terminators"
    };
    Some(format!("{kind}{ends}"))
}

/// A script by its first line.
fn script(head: &[u8], text: &str) -> Option<String> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let names: [(&[u8], &str); 6] = [
        (b"python", "Python script"),
        (b"perl", "Perl script"),
        (b"bash", "Bourne-Again shell script"),
        (b"php", "PHP script"),
        (b"ruby", "Ruby script"),
        (b"/sh", "POSIX shell script"),
    ];
    let found = names.iter().find(|(name, _)| memchr::memmem::find(line, name).is_some());
    let (_, name) = found?;
    Some(format!("{name}, {text} executable"))
}

#[cfg(test)]
mod tests {
    use super::describe;

    fn program(optional: u16, flags: u16, name: &[u8]) -> Vec<u8> {
        let mut all = b"MZ".to_vec();
        all.resize(0x3c, 0);
        all.extend([0x40, 0, 0, 0]);
        all.extend(b"PE\0\0");
        all.extend([if optional == 0x20b { 0x64 } else { 0x4c }, 0x01, 1, 0]);
        if optional == 0x20b {
            let at = all.len() - 3;
            all[at] = 0x86;
        }
        all.extend([0; 12]);
        all.extend(240_u16.to_le_bytes());
        all.extend(flags.to_le_bytes());
        let mut header = optional.to_le_bytes().to_vec();
        header.resize(68, 0);
        header.extend([2, 0]);
        header.resize(240, 0);
        all.extend(header);
        all.extend(name);
        all.resize(all.len() + 40, 0);
        all
    }

    #[test]
    fn kinds_are_told_in_the_words_of_file() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x10\0\0\0\x20\x08\x06\0\0\0";
        let elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0";
        let page = b"<!DOCTYPE HTML>\n<p>";
        let cases: [(&[u8], &str); 17] = [
            (b"%PDF-1.5\n%", "PDF document, version 1.5"),
            (png, "PNG image data, 16 x 32, 8-bit/color RGBA, non-interlaced"),
            (b"GIF89a\x01\0\x02\0", "GIF image data, version 89a, 1 x 2"),
            (b"\xff\xd8\xff\xe0", "JPEG image data"),
            (b"PK\x03\x04\x14\0\0\0", "Zip archive data, at least v2.0 to extract"),
            (b"PK\x03\x04\x14\0\0\0word/document.xml", "Microsoft Word 2007+"),
            (b"MZ\x90\0", "MS-DOS executable"),
            (elf, "ELF 64-bit LSB executable, x86-64, version 1"),
            (b"CWS\x0a", "Macromedia Flash data (compressed), version 10"),
            (b"BZh9", "bzip2 compressed data, block size = 900k"),
            (b"RIFF\0\0\0\0WEBP", "RIFF (little-endian) data, Web/P image"),
            (page, "HTML document, ASCII text"),
            (b"#!/bin/sh\nls\n", "POSIX shell script, ASCII text executable"),
            (b"one\r\ntwo\r\n", "ASCII text, with CRLF line terminators"),
            ("gr\u{fc}n\n".as_bytes(), "Unicode text, UTF-8 text"),
            (b"gr\xfcn\n", "ISO-8859 text"),
            (b"\0\x01\x02\x03", "data"),
        ];
        for (bytes, kind) in cases {
            assert_eq!(describe(bytes), kind);
            // Nothing that is cut or changed may panic.
            for end in 0..bytes.len() {
                describe(&bytes[..end]);
            }
        }
        let plain = program(0x10b, 0x0200, b".text");
        let words = "PE32 executable (GUI) Intel 80386 (stripped to external PDB), \
                     for MS Windows, 1 sections";
        assert_eq!(describe(&plain), words);
        let wide = program(0x20b, 0x2000, b"UPX0");
        let words =
            "PE32+ executable (DLL) (GUI) x86-64, for MS Windows, UPX compressed, 1 sections";
        assert_eq!(describe(&wide), words);
        for bytes in [plain, wide] {
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] = 0xff;
                describe(&damaged);
                describe(&bytes[..at]);
            }
        }
    }
}
