//! Formats by files that were made here.

use super::describe;

fn portable(flags: u16, subsystem: u16, is_64: bool) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[..2].copy_from_slice(b"MZ");
    bytes[60] = 128;
    bytes[128..132].copy_from_slice(b"PE\0\0");
    let machine: u16 = if is_64 { 0x8664 } else { 0x014c };
    bytes[132..134].copy_from_slice(&machine.to_le_bytes());
    bytes[150..152].copy_from_slice(&flags.to_le_bytes());
    let magic: u16 = if is_64 { 0x020b } else { 0x010b };
    bytes[152..154].copy_from_slice(&magic.to_le_bytes());
    bytes[220..222].copy_from_slice(&subsystem.to_le_bytes());
    bytes
}

/// The first entry of a ZIP archive.
fn entry(method: u8) -> Vec<u8> {
    let mut bytes = b"PK\x03\x04\x14\0\0\0".to_vec();
    bytes.extend([method, 0]);
    bytes.extend([0; 16]);
    bytes.extend([5, 0, 0, 0]);
    bytes.extend(b"a.txt, and then what it holds");
    bytes
}

#[test]
fn formats_have_the_texts_of_file() {
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x7c\0\0\x01\xea\x08\x02\0\0\0";
    let mut tar = vec![0; 512];
    tar[257..265].copy_from_slice(b"ustar  \0");
    let word = [
        &b"PK\x03\x04\x14\0\x06\0"[..],
        &[0; 22],
        b"[Content_Types].xml",
        b"PK\x03\x04",
        &[0; 26],
        b"word/document.xml",
    ]
    .concat();
    let cases: &[(&[u8], &str)] = &[
        (b"", "empty"),
        (b"%PDF-1.6\n%", "PDF document, version 1.6"),
        (png, "PNG image data, 636 x 490, 8-bit/color RGB, non-interlaced"),
        (b"GIF89a\x01\0\x02\0", "GIF image data, version 89a, 1 x 2"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01", "JPEG image data, JFIF standard 1.01"),
        (&portable(0, 2, false), "PE32 executable (GUI) Intel 80386, for MS Windows"),
        (&portable(0x2000, 3, true), "PE32+ executable (DLL) (console) x86-64, for MS Windows"),
        (
            b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0",
            "ELF 64-bit LSB executable, x86-64, version 1",
        ),
        (b"\xca\xfe\xba\xbe\0\0\0\x34", "compiled Java class data, version 52.0"),
        (&entry(8), "Zip archive data, at least v2.0 to extract, compression method=deflate"),
        (&word, "Microsoft Word 2007+"),
        (&tar, "POSIX tar archive (GNU)"),
        (b"Rar!\x1a\x07\0", "RAR archive data, v4"),
        (b"\x1f\x8b\x08\0", "gzip compressed data"),
        (b"CWS\x09\0\x10\0\0\x78\xda", "Macromedia Flash data (compressed), version 9"),
        (b"<!DOCTYPE html>\n<p>", "HTML document, ASCII text"),
        (b"#!/bin/sh\nls\n", "POSIX shell script, ASCII text executable"),
        (b"one\r\ntwo\r\n", "ASCII text, with CRLF line terminators"),
        ("\u{fc}\n".as_bytes(), "Unicode text, UTF-8 text"),
        (b"\0\x01\x02\x03", "data"),
    ];
    for (bytes, wanted) in cases {
        assert_eq!(describe(bytes), *wanted);
    }
}

/// As file(1) of version 5.44 has it.
#[test]
fn a_few_letters_at_the_beginning_make_no_format() {
    let header = [&b"MZ\x90"[..], &[0; 97]].concat();
    let mut old = header.clone();
    old[24] = 0x40;
    let letters = [&b"MZ"[..], &[b'a'; 100]].concat();
    let cases: &[(&[u8], &str)] = &[
        (b"MZ is a zone\r\nMZ\r\n", "ASCII text, with CRLF line terminators"),
        (b"MZ\x90\0abc", "data"),
        (b"MZ", "ASCII text, with no line terminators"),
        (&letters, "ASCII text, with no line terminators"),
        (&header[..60], "data"),
        (&header[..64], "MS-DOS executable, MZ for MS-DOS"),
        (&[&b"MZ"[..], &[0; 510]].concat(), "MS-DOS executable, MZ for MS-DOS"),
        (&old[..26], "MS-DOS executable"),
        (&old[..24], "data"),
        (b"PK\x03\x04aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "data"),
        (b"PK\x03\x04\x14\0\0\0", "data"),
        (b"\x1f\x8b", "data"),
        (b"CWS is a text\n", "ASCII text"),
        (b"\0", "very short file (no magic)"),
        (b"a", "very short file (no magic)"),
        (b"\0\0", "data"),
    ];
    for (bytes, wanted) in cases {
        assert_eq!(describe(bytes), *wanted, "{:?}", bytes.escape_ascii().to_string());
    }
}

#[test]
fn json_is_told_from_text() {
    let nested = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
    let json = [
        "{\"a\": 1}",
        "[1, -2.5e3, .5, 1., true, false, null, \"\\u00fc\\n\", {}, []]",
        " \n{\"a\": {\"b\": [1,],},}\r\n",
        "[\"\u{fc}\"]",
        &nested(251),
    ];
    for text in json {
        assert_eq!(describe(text.as_bytes()), "JSON text data", "{text}");
    }
    for text in ["{\"a\": 1}\n{\"b\": 2}\n", "[1]\n[2]"] {
        assert_eq!(describe(text.as_bytes()), "New Line Delimited JSON text data", "{text}");
    }
    let none = [
        "{\"a\": 1} x",
        "{\"a\": 1",
        "{a: 1}",
        "\"a\"",
        "12",
        "true",
        "[-]",
        "[1e]",
        "[1 2]",
        "[,]",
        "[tru]",
        "[\"\\q\"]",
        "{1: 2}",
        "{\"a\":}",
        "{\"a\": 1}\n[2]\n",
        &nested(252),
    ];
    for text in none {
        assert!(describe(text.as_bytes()).starts_with("ASCII text"), "{text}");
    }
}

#[test]
fn encodings_and_ends_of_lines_are_told() {
    let cases: &[(&[u8], &str)] = &[
        (b"\xff\xfc\xf9\xf6\xf3\xf0", "MPEG ADTS, layer II, v1"),
        (b"\xf9\xf6\xf3\xf0", "ISO-8859 text, with no line terminators"),
        (b"caf\xe9 au lait\n", "ISO-8859 text"),
        (b"a\x80b\n", "Non-ISO extended-ASCII text"),
        (b"a\x85b\n", "ASCII text, with LF, NEL line terminators"),
        (b"a\xc0\x80b\n", "Non-ISO extended-ASCII text"),
        (b"a\xc2\x85b\n", "Unicode text, UTF-8 text, with LF, NEL line terminators"),
        (b"abc \xc3", "ISO-8859 text, with no line terminators"),
        (b"\xc3\xbc \xc3", "Unicode text, UTF-8 text, with no line terminators"),
        (b"a\x7fb\n", "data"),
        (b"a\x0bb\n", "ASCII text"),
        (b"a\x1bb\n", "ASCII text, with escape sequences"),
        (b"a\x08b\n", "ASCII text, with overstriking"),
        (b"a\rb\n", "ASCII text, with CR, LF line terminators"),
        (b"a\r\nb\n", "ASCII text, with CRLF, LF line terminators"),
        (b"ab\0\0", "ASCII text, with no line terminators"),
        (b"abc\0", "data"),
        (
            b"\xff\xfea\0\r\0\n\0",
            "Unicode text, UTF-16, little-endian text, with CRLF line terminators",
        ),
        (b"\xfe\xff\0a\0\n", "Unicode text, UTF-16, big-endian text"),
        (b"\xff\xfe\xff\xff", "ISO-8859 text, with no line terminators"),
        (b"\xff\xfe\x01\0a\0", "data"),
        (&[b'a'; 302], "ASCII text, with very long lines (302), with no line terminators"),
    ];
    for (bytes, wanted) in cases {
        assert_eq!(describe(bytes), *wanted, "{:?}", bytes.escape_ascii().to_string());
    }
}

#[test]
fn cut_files_are_described_too() {
    for whole in [portable(0x2000, 2, true), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0".to_vec()] {
        for end in 0..whole.len() {
            assert!(!describe(&whole[..end]).is_empty());
        }
    }
}
