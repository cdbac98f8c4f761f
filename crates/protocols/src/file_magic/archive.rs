//! Archives and packed data, and documents that are archives.

use memchr::memmem;

use super::{at, begins, u16_le};

pub(super) fn describe(bytes: &[u8]) -> Option<String> {
    if bytes.starts_with(b"PK\x03\x04") && has_entry(bytes) {
        return Some(zip(bytes));
    }
    if bytes.starts_with(b"Rar!\x1a\x07") {
        let version = if bytes.get(6) == Some(&1) { 5 } else { 4 };
        return Some(format!("RAR archive data, v{version}"));
    }
    if let (true, Some([major, minor])) = (bytes.starts_with(b"7z\xbc\xaf\x27\x1c"), at(bytes, 6)) {
        return Some(format!("7-zip archive data, version {major}.{minor}"));
    }
    if at(bytes, 257) == Some(*b"ustar") {
        let gnu = if at(bytes, 262) == Some(*b"  \0") { " (GNU)" } else { "" };
        return Some(format!("POSIX tar archive{gnu}"));
    }
    if let (true, Some(level)) = (bytes.starts_with(b"BZh"), bytes.get(3)) {
        return Some(format!("bzip2 compressed data, block size = {}00k", char::from(*level)));
    }
    if bytes.len() > 3 && bytes.starts_with(b"\x1f\x8b") {
        return Some("gzip compressed data".into());
    }
    let simple: &[(&[u8], &str)] = &[
        (b"\xfd7zXZ\0", "XZ compressed data"),
        (b"\x28\xb5\x2f\xfd", "Zstandard compressed data"),
        (b"\x04\x22\x4d\x18", "LZ4 compressed data"),
        (b"MSCF\0\0\0\0", "Microsoft Cabinet archive data"),
        (b"PK\x05\x06", "Zip archive data (empty)"),
        (b"\xed\xab\xee\xdb", "RPM"),
        (b"!<arch>\ndebian", "Debian binary package"),
        (b"!<arch>\n", "current ar archive"),
    ];
    begins(bytes, simple)
}

/// Where the name of an entry begins, behind its signature.
const NAME: usize = 30;
/// With fewer bytes file(1) takes nothing for a ZIP archive: the directory at its end alone has
/// more.
const ZIP_BYTES_MIN: usize = 50;

/// Whether an entry's name ends within the file.
fn has_entry(bytes: &[u8]) -> bool {
    let ends = |name: u16| at::<2>(bytes, NAME + usize::from(name)).is_some();
    bytes.len() >= ZIP_BYTES_MIN && u16_le(bytes, 26).is_some_and(ends)
}

/// A ZIP archive, or what begins with particular entries.
fn zip(bytes: &[u8]) -> String {
    let name = bytes.get(NAME..).unwrap_or_default();
    if let Some(kind) = name.strip_prefix(b"mimetype") {
        let kinds: &[(&[u8], &str)] = &[
            (b"application/vnd.oasis.opendocument.text", "OpenDocument Text"),
            (b"application/vnd.oasis.opendocument.spreadsheet", "OpenDocument Spreadsheet"),
            (b"application/vnd.oasis.opendocument.presentation", "OpenDocument Presentation"),
            (b"application/epub+zip", "EPUB document"),
        ];
        if let Some(found) = begins(kind, kinds) {
            return found;
        }
    }
    if name.starts_with(b"META-INF/") {
        return "Java archive data (JAR)".into();
    }
    let is_office = [&b"[Content_Types].xml"[..], b"_rels/.rels", b"docProps"];
    if is_office.iter().any(|start| name.starts_with(start)) {
        let parts = [
            (&b"word/"[..], "Microsoft Word 2007+"),
            (b"ppt/", "Microsoft PowerPoint 2007+"),
            (b"xl/", "Microsoft Excel 2007+"),
        ];
        // The name of an entry is 26 bytes behind its signature.
        let found = parts.iter().find(|(start, _)| {
            memmem::find_iter(bytes, b"PK\x03\x04")
                .filter_map(|place| bytes.get(place + NAME..))
                .any(|name| name.starts_with(start))
        });
        return found.map_or("Microsoft OOXML", |(_, text)| *text).into();
    }
    let version = u16_le(bytes, 4).unwrap_or(20) & 0xff;
    let (major, minor) = (version / 10, version % 10);
    let method = method(u16_le(bytes, 8).unwrap_or_default());
    format!("Zip archive data, at least v{major}.{minor} to extract, compression method={method}")
}

/// How the first entry is packed (APPNOTE.TXT of PKWARE, section 4.4.5).
fn method(number: u16) -> String {
    let name = match number {
        0 => "store",
        1 => "Shrinking",
        6 => "Imploding",
        8 => "deflate",
        9 => "deflate64",
        12 => "bzip2",
        14 => "lzma",
        93 => "Zstd",
        95 => "xz",
        99 => "AES Encrypted",
        other => return format!("[{other:#x}]"),
    };
    name.into()
}
