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
        (&portable(0, 2, false), "PE32 executable (GUI) Intel 80386, for MS Windows, 0 sections"),
        (
            &portable(0x2000, 3, true),
            "PE32+ executable (DLL) (console) x86-64, for MS Windows, 0 sections",
        ),
        (b"MZ", "MS-DOS executable"),
        (
            b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0",
            "ELF 64-bit LSB executable, x86-64, version 1",
        ),
        (b"\xca\xfe\xba\xbe\0\0\0\x34", "compiled Java class data, version 52.0"),
        (b"PK\x03\x04\x14\0\0\0", "Zip archive data, at least v2.0 to extract"),
        (&word, "Microsoft Word 2007+"),
        (&tar, "POSIX tar archive (GNU)"),
        (b"Rar!\x1a\x07\0", "RAR archive data, v4"),
        (b"\x1f\x8b\x08\0", "gzip compressed data"),
        (b"CWS\x09", "Macromedia Flash data (compressed), version 9"),
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

#[test]
fn cut_files_are_described_too() {
    for whole in [portable(0x2000, 2, true), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0".to_vec()] {
        for end in 0..whole.len() {
            assert!(!describe(&whole[..end]).is_empty());
        }
    }
}
