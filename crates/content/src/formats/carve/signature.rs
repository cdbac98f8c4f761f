//! Signatures of files that may stand inside others, each with a check of its header.

use std::io::Read;

use flate2::bufread::GzDecoder;
use memchr::memmem;

use crate::formats::archive;
use crate::formats::numbers::{slice, u16_at, u32_at};

/// A signature and the check that gives the end of the file which begins with it.
pub(super) struct Signature {
    pub(super) magic: &'static [u8],
    pub(super) end: fn(&[u8], usize) -> Option<usize>,
    pub(super) extension: &'static str,
}

pub(super) const SIGNATURES: [Signature; 9] = [
    Signature { magic: b"PK\x03\x04", end: zip, extension: "zip" },
    Signature { magic: b"7z\xbc\xaf\x27\x1c", end: archive::seven_zip_end, extension: "7z" },
    Signature { magic: b"Rar!\x1a\x07", end: rar, extension: "rar" },
    Signature { magic: b"MSCF\0\0\0\0", end: cab, extension: "cab" },
    Signature { magic: b"\x1f\x8b\x08", end: gzip, extension: "gz" },
    Signature { magic: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", end: ole, extension: "ole" },
    Signature { magic: b"%PDF-", end: pdf, extension: "pdf" },
    Signature { magic: b"MZ", end: program_end, extension: "exe" },
    Signature { magic: b"ITSF", end: help, extension: "chm" },
];

/// Sections of a program that are looked at (the format allows 96).
const SECTIONS_MAX: u16 = 96;
/// Bytes that a gzip file must give before it is taken for one.
const GZIP_TRY_BYTES: u64 = 64;
/// Bytes behind the first line of a PDF in which its first object begins.
const PDF_HEAD_BYTES: usize = 4_096;
/// Ends of a ZIP that are tried for one beginning.
const ZIP_ENDS_MAX: usize = 64;

/// A local header (APPNOTE.TXT section 4.3.7) that chance does not make; the end is that of the
/// next directory which lies behind it.
fn zip(bytes: &[u8], at: usize) -> Option<usize> {
    const NAME_BYTES_MAX: u16 = 512;
    const VERSION_MAX: u16 = 63;
    let version = u16_at(bytes, at + 4)?;
    let known = matches!(u16_at(bytes, at + 8)?, 0 | 1 | 6 | 8 | 9 | 12 | 14 | 93 | 95 | 98 | 99);
    let name_bytes = u16_at(bytes, at + 26)?;
    let name = bytes.get(at + 30..at + 30 + usize::from(name_bytes))?;
    let plausible = (10..=VERSION_MAX).contains(&(version & 0xff))
        && (1..=NAME_BYTES_MAX).contains(&name_bytes)
        && name.iter().all(|b| *b >= 0x20);
    if !known || !plausible {
        return None;
    }
    let ends = memmem::find_iter(&bytes[at..], b"PK\x05\x06").take(ZIP_ENDS_MAX);
    let end = ends.map(|end| at + end).find(|&end| {
        let size = u32_at(bytes, end + 12).unwrap_or(0) as usize;
        let start = end.checked_sub(size).filter(|start| *start > at);
        start.is_some_and(|start| bytes[start..].starts_with(b"PK\x01\x02"))
    });
    Some(end.map_or(bytes.len(), |end| zip_record_end(bytes, end)))
}

/// The end of the record that ends a ZIP: its comment's.
pub(super) fn zip_record_end(bytes: &[u8], at: usize) -> usize {
    let comment = usize::from(u16_at(bytes, at + 20).unwrap_or(0));
    (at + 22 + comment).min(bytes.len())
}

/// Where the first entry of a ZIP begins, by the record at its end.
pub(super) fn zip_start(bytes: &[u8], end: usize) -> Option<usize> {
    let size = u32_at(bytes, end + 12)? as usize;
    let stored = u32_at(bytes, end + 16)? as usize;
    let real = end.checked_sub(size)?;
    if !bytes[real..].starts_with(b"PK\x01\x02") {
        return None;
    }
    let first = u32_at(bytes, real + 42)? as usize;
    // Offsets count from the beginning of the archive, or of the file.
    let start = first.checked_add(real.saturating_sub(stored))?;
    bytes.get(start..)?.starts_with(b"PK\x03\x04").then_some(start)
}

/// The main header follows: type 0x73 in RAR 4, a header with its checksum in RAR 5.
fn rar(bytes: &[u8], at: usize) -> Option<usize> {
    let holds = match bytes.get(at + 6..at + 8)? {
        [0, _] => *bytes.get(at + 9)? == 0x73,
        [1, 0] => {
            let header = slice(bytes, at + 12, usize::from(*bytes.get(at + 12)?) + 1);
            crc32fast::hash(header) == u32_at(bytes, at + 8)?
        }
        _ => false,
    };
    holds.then_some(bytes.len())
}

/// Sizes, reserved fields and the version of a cabinet (MS-CAB section 2.1).
fn cab(bytes: &[u8], at: usize) -> Option<usize> {
    let size = u32_at(bytes, at + 8)? as usize;
    let files = u32_at(bytes, at + 16)? as usize;
    let holds = u32_at(bytes, at + 12)? == 0
        && (36..size).contains(&files)
        && bytes.get(at + 24..at + 26)? == [3, 1];
    holds.then(|| at.saturating_add(size))
}

/// Flags of the header (RFC 1952 section 2.3.1), and a beginning that can be decompressed.
fn gzip(bytes: &[u8], at: usize) -> Option<usize> {
    let [flags, _, _, _, _, extra, system] = *bytes.get(at + 3..)?.first_chunk::<7>()?;
    if flags & 0xe0 != 0 || !matches!(extra, 0 | 2 | 4) || !matches!(system, 0..=13 | 255) {
        return None;
    }
    let mut some = Vec::new();
    let read = GzDecoder::new(&bytes[at..]).take(GZIP_TRY_BYTES).read_to_end(&mut some);
    (read.is_ok() && !some.is_empty()).then_some(bytes.len())
}

/// Byte order and sector size (MS-CFB section 2.2).
fn ole(bytes: &[u8], at: usize) -> Option<usize> {
    let order = u16_at(bytes, at + 28)?;
    let shift = u16_at(bytes, at + 30)?;
    (order == 0xfffe && matches!(shift, 9 | 12)).then_some(bytes.len())
}

/// A version and an object soon after; the end is behind the last mark of one.
fn pdf(bytes: &[u8], at: usize) -> Option<usize> {
    let version = bytes.get(at + 5)?;
    let head = slice(bytes, at, PDF_HEAD_BYTES);
    let holds = matches!(version, b'1' | b'2')
        && bytes.get(at + 6) == Some(&b'.')
        && memmem::find(head, b" obj").is_some();
    let end = memmem::rfind(&bytes[at..], b"%%EOF").map_or(bytes.len(), |end| at + end + 5);
    holds.then_some(end)
}

/// The end of a program's sections and headers, if these hold (PE format, section "COFF File
/// Header").
pub(in crate::formats) fn program_end(bytes: &[u8], at: usize) -> Option<usize> {
    const HEADER_AT_MAX: u32 = 4_096;
    let offset = u32_at(bytes, at + 0x3c).filter(|offset| *offset < HEADER_AT_MAX)? as usize;
    let header = bytes.get(at + offset..)?;
    // Intel of 32 and 64 bits, ARM of both.
    let machine = u16_at(header, 4)?;
    if !header.starts_with(b"PE\0\0") || !matches!(machine, 0x14c | 0x8664 | 0x1c0 | 0x1c4 | 0xaa64)
    {
        return None;
    }
    let sections = u16_at(header, 6)?.min(SECTIONS_MAX);
    let table = 24 + usize::from(u16_at(header, 20)?);
    let headers = at + offset + table + 40 * usize::from(sections);
    let ends = (0..usize::from(sections)).filter_map(|index| {
        let section = header.get(table + 40 * index..)?;
        let (size, place) = (u32_at(section, 16)?, u32_at(section, 20)?);
        Some(at.saturating_add(size as usize).saturating_add(place as usize))
    });
    // Sections may lie within the headers.
    Some(ends.fold(headers, usize::max).min(bytes.len()))
}

/// Version and a length of the header of compiled help.
fn help(bytes: &[u8], at: usize) -> Option<usize> {
    let holds = matches!(u32_at(bytes, at + 4)?, 2..=4) && u32_at(bytes, at + 8)? <= 0x100;
    holds.then_some(bytes.len())
}
