//! Attachments: what they are called, what they say they are, and what they are.

use std::borrow::Cow;
use std::collections::BTreeSet;

use memchr::memmem;
use serde::Serialize;

use crate::message::{Message, Part};

/// Entries read of one ZIP directory.
const ZIP_ENTRIES_MAX: usize = 4_096;
/// Bytes at the end of a file in which a ZIP directory may end (APPNOTE.TXT section 4.3.16: the
/// comment has 65,535 bytes at most).
const ZIP_TAIL_BYTES: usize = 65_557;

/// What bytes are, by their own signature and not by what the sender says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileKind {
    /// No bytes.
    Empty,
    /// A Windows program (PE, or the older NE and DOS).
    WindowsProgram,
    /// An ELF program.
    ElfProgram,
    /// A Mach-O program.
    MachProgram,
    /// A Windows shortcut.
    Shortcut,
    /// A script with a `#!` line.
    Script,
    /// PDF.
    Pdf,
    /// Rich text.
    Rtf,
    /// Office document in the OLE2 format (also MSI and MSG).
    Ole,
    /// Word, Excel or PowerPoint in the ZIP format.
    OfficeXml,
    /// OpenDocument.
    OpenDocument,
    /// A Java archive.
    Jar,
    /// An Android package.
    Apk,
    /// Any other ZIP.
    Zip,
    /// gzip.
    Gzip,
    /// bzip2.
    Bzip2,
    /// xz.
    Xz,
    /// Zstandard.
    Zstd,
    /// 7-Zip.
    SevenZip,
    /// RAR.
    Rar,
    /// Windows cabinet.
    Cab,
    /// tar.
    Tar,
    /// ISO 9660 or UDF disk image.
    DiskImage,
    /// ACE archive.
    Ace,
    /// ARJ archive.
    Arj,
    /// JPEG, PNG, GIF, BMP, TIFF, WebP or icon.
    Image,
    /// SVG.
    Svg,
    /// Sound or video.
    Media,
    /// HTML.
    Html,
    /// A message.
    Message,
    /// A calendar.
    Calendar,
    /// A business card.
    Card,
    /// Microsoft's TNEF (`winmail.dat`).
    Tnef,
    /// Compiled HTML help.
    Help,
    /// Text without a signature.
    Text,
    /// Nothing that is known.
    Unknown,
}

impl FileKind {
    /// The registered or usual media type.
    pub fn media_type(self) -> &'static str {
        use FileKind as K;
        match self {
            K::Empty | K::Unknown => "application/octet-stream",
            K::WindowsProgram => "application/vnd.microsoft.portable-executable",
            K::ElfProgram => "application/x-executable",
            K::MachProgram => "application/x-mach-binary",
            K::Shortcut => "application/x-ms-shortcut",
            K::Script => "text/x-script",
            K::Pdf => "application/pdf",
            K::Rtf => "application/rtf",
            K::Ole => "application/x-ole-storage",
            K::OfficeXml => "application/vnd.openxmlformats-officedocument",
            K::OpenDocument => "application/vnd.oasis.opendocument",
            K::Jar => "application/java-archive",
            K::Apk => "application/vnd.android.package-archive",
            K::Zip => "application/zip",
            K::Gzip => "application/gzip",
            K::Bzip2 => "application/x-bzip2",
            K::Xz => "application/x-xz",
            K::Zstd => "application/zstd",
            K::SevenZip => "application/x-7z-compressed",
            K::Rar => "application/vnd.rar",
            K::Cab => "application/vnd.ms-cab-compressed",
            K::Tar => "application/x-tar",
            K::DiskImage => "application/x-iso9660-image",
            K::Ace => "application/x-ace-compressed",
            K::Arj => "application/x-arj",
            K::Image => "image/*",
            K::Svg => "image/svg+xml",
            K::Media => "video/*",
            K::Html => "text/html",
            K::Message => "message/rfc822",
            K::Calendar => "text/calendar",
            K::Card => "text/vcard",
            K::Tnef => "application/vnd.ms-tnef",
            K::Help => "application/vnd.ms-htmlhelp",
            K::Text => "text/plain",
        }
    }

    /// A program, or a file that starts one when opened.
    pub fn is_program(self) -> bool {
        use FileKind as K;
        matches!(
            self,
            K::WindowsProgram | K::ElfProgram | K::MachProgram | K::Shortcut | K::Script | K::Help
        ) || matches!(self, K::Jar | K::Apk)
    }
}

/// Signatures at the start of a file, in the order they are tried.
const MAGIC: [(&[u8], FileKind); 45] = [
    (b"MZ", FileKind::WindowsProgram),
    (b"\x7fELF", FileKind::ElfProgram),
    (b"\xfe\xed\xfa\xce", FileKind::MachProgram),
    (b"\xfe\xed\xfa\xcf", FileKind::MachProgram),
    (b"\xce\xfa\xed\xfe", FileKind::MachProgram),
    (b"\xcf\xfa\xed\xfe", FileKind::MachProgram),
    (b"\x4c\x00\x00\x00\x01\x14\x02\x00", FileKind::Shortcut),
    (b"#!", FileKind::Script),
    (b"{\\rt", FileKind::Rtf),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", FileKind::Ole),
    (b"\x1f\x8b", FileKind::Gzip),
    (b"BZh", FileKind::Bzip2),
    (b"\xfd7zXZ\x00", FileKind::Xz),
    (b"\x28\xb5\x2f\xfd", FileKind::Zstd),
    (b"7z\xbc\xaf\x27\x1c", FileKind::SevenZip),
    (b"Rar!\x1a\x07", FileKind::Rar),
    (b"MSCF\x00\x00\x00\x00", FileKind::Cab),
    (b"\x60\xea", FileKind::Arj),
    (b"\xff\xd8\xff", FileKind::Image),
    (b"\x89PNG\r\n\x1a\n", FileKind::Image),
    (b"GIF87a", FileKind::Image),
    (b"GIF89a", FileKind::Image),
    (b"II*\x00", FileKind::Image),
    (b"MM\x00*", FileKind::Image),
    (b"\x00\x00\x01\x00", FileKind::Image),
    (b"OggS", FileKind::Media),
    (b"ID3", FileKind::Media),
    (b"fLaC", FileKind::Media),
    (b"\x1aE\xdf\xa3", FileKind::Media),
    (b"\x00\x00\x01\xba", FileKind::Media),
    (b"\x00\x00\x01\xb3", FileKind::Media),
    (b"\xff\xfb", FileKind::Media),
    (b"\xff\xf3", FileKind::Media),
    (b"FWS", FileKind::Media),
    (b"CWS", FileKind::Media),
    (b"MThd", FileKind::Media),
    (b"BEGIN:VCALENDAR", FileKind::Calendar),
    (b"BEGIN:VCARD", FileKind::Card),
    (b"\x78\x9f\x3e\x22", FileKind::Tnef),
    (b"ITSF", FileKind::Help),
    (b"Return-Path:", FileKind::Message),
    (b"Received:", FileKind::Message),
    (b"Delivered-To:", FileKind::Message),
    (b"MIME-Version:", FileKind::Message),
    (b"From: ", FileKind::Message),
];

/// Tells what the bytes are. Looks at the first kilobytes only, and at a ZIP's directory.
pub fn sniff(bytes: &[u8]) -> FileKind {
    if bytes.is_empty() {
        return FileKind::Empty;
    }
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"PK\x05\x06") {
        return zip_kind(bytes);
    }
    if let Some((_, kind)) = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return *kind;
    }
    // A Mach-O program for several processors; a Java class begins alike, with a version of 45 or more.
    if let [0xca, 0xfe, 0xba, 0xbe | 0xbf, 0, 0, 0, 0..=32, ..] = bytes {
        return FileKind::MachProgram;
    }
    let at =
        |offset: usize, magic: &[u8]| bytes.get(offset..).is_some_and(|b| b.starts_with(magic));
    // Readers take a PDF whose signature comes somewhere in the first kilobyte.
    let head = &bytes[..bytes.len().min(1_024)];
    if memmem::find(head, b"%PDF-").is_some() {
        return FileKind::Pdf;
    }
    if at(257, b"ustar") {
        return FileKind::Tar;
    }
    if at(0x8001, b"CD001") || at(0x8001, b"BEA01") || at(0x8801, b"CD001") {
        return FileKind::DiskImage;
    }
    if at(7, b"**ACE**") {
        return FileKind::Ace;
    }
    // A bitmap's two letters are too few: its reserved bytes are zero.
    if bytes.starts_with(b"BM") && at(6, &[0; 4]) {
        return FileKind::Image;
    }
    if bytes.starts_with(b"RIFF") {
        return if at(8, b"WEBP") { FileKind::Image } else { FileKind::Media };
    }
    if at(4, b"ftyp") {
        return FileKind::Media;
    }
    text_kind(head)
}

/// HTML, SVG, plain text or nothing known, by the first kilobyte.
fn text_kind(head: &[u8]) -> FileKind {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let lower = head.to_ascii_lowercase();
    let has = |needle: &[u8]| memmem::find(&lower, needle).is_some();
    if lower.starts_with(b"<") {
        if has(b"<svg") {
            return FileKind::Svg;
        }
        let tags: [&[u8]; 7] =
            [b"<!doctype html", b"<html", b"<head", b"<body", b"<script", b"<table", b"<meta"];
        if tags.iter().any(|tag| has(tag)) {
            return FileKind::Html;
        }
    }
    let control = |b: &u8| *b < 32 && !matches!(*b, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b);
    if head.iter().any(control) { FileKind::Unknown } else { FileKind::Text }
}

/// An entry of a ZIP's central directory (APPNOTE.TXT section 4.3.12).
struct ZipEntry<'a> {
    name: &'a [u8],
    flags: u16,
}

/// The entries by the central directory; without one, those of the local headers that follow each
/// other. At most [`ZIP_ENTRIES_MAX`].
fn zip_entries(bytes: &[u8]) -> Vec<ZipEntry<'_>> {
    let u16_at = |at: usize| bytes.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let tail = bytes.len().saturating_sub(ZIP_TAIL_BYTES);
    let directory = memmem::rfind(&bytes[tail..], b"PK\x05\x06").and_then(|i| {
        let field = bytes.get(tail + i + 16..tail + i + 20)?;
        Some(u32::from_le_bytes([field[0], field[1], field[2], field[3]]) as usize)
    });
    let starts = |at: usize, magic: &[u8]| bytes.get(at..).is_some_and(|b| b.starts_with(magic));
    let central = directory.filter(|&at| starts(at, b"PK\x01\x02"));
    // Offsets of flags, name length and name; extra and comment lengths follow the name's.
    let (mut at, magic, flags_at, length_at, name_at) = match central {
        Some(at) => (at, b"PK\x01\x02", 8, 28, 46),
        None => (0, b"PK\x03\x04", 6, 26, 30),
    };
    let mut entries = Vec::new();
    while entries.len() < ZIP_ENTRIES_MAX && starts(at, magic) {
        let (Some(flags), Some(length), Some(extra)) =
            (u16_at(at + flags_at), u16_at(at + length_at), u16_at(at + length_at + 2))
        else {
            break;
        };
        let start = at + name_at;
        let Some(name) = bytes.get(start..start + usize::from(length)) else { break };
        entries.push(ZipEntry { name, flags });
        at = start + usize::from(length) + usize::from(extra);
        at = match central {
            Some(_) => at + usize::from(u16_at(start - name_at + 32).unwrap_or(0)),
            // Sizes may be missing from local headers: find the next one by its signature.
            None => match memmem::find(&bytes[at.min(bytes.len())..], magic) {
                Some(i) => at + i,
                None => break,
            },
        };
    }
    entries
}

/// Whether a ZIP has more entries than [`archive_names`] reads.
pub fn has_unread_entries(bytes: &[u8]) -> bool {
    let more = |magic: &[u8]| memmem::find_iter(bytes, magic).nth(ZIP_ENTRIES_MAX).is_some();
    !archive_names(bytes).is_empty() && (more(b"PK\x01\x02") || more(b"PK\x03\x04"))
}

/// Names of the entries of a ZIP, each once: programs that unpack go by the directory at the end, by the
/// header of each entry, or by the name in Unicode beside either, and these may differ. At most
/// [`ZIP_ENTRIES_MAX`] of each. Empty for what is no ZIP.
pub fn archive_names(bytes: &[u8]) -> Vec<Cow<'_, [u8]>> {
    let tail = bytes.len().saturating_sub(ZIP_TAIL_BYTES);
    // Whatever stands before the first entry, the directory at the end makes it a ZIP.
    if !bytes.starts_with(b"PK") && memmem::rfind(&bytes[tail..], b"PK\x05\x06").is_none() {
        return Vec::new();
    }
    let mut names: BTreeSet<Cow<'_, [u8]>> = BTreeSet::new();
    for (magic, at) in [(&b"PK\x01\x02"[..], (28, 46)), (b"PK\x03\x04", (26, 30))] {
        let (length_at, name_at) = at;
        for start in memmem::find_iter(bytes, magic).take(ZIP_ENTRIES_MAX) {
            let entry = &bytes[start..];
            let length = |at: usize| {
                entry.get(at..at + 2).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]])))
            };
            let (Some(name), Some(extra)) = (length(length_at), length(length_at + 2)) else {
                break;
            };
            let Some(name_bytes) = entry.get(name_at..name_at + name) else { continue };
            names.insert(Cow::Borrowed(name_bytes));
            let extra = entry.get(name_at + name..name_at + name + extra).unwrap_or_default();
            names.extend(unicode_path(extra).map(Cow::Borrowed));
        }
    }
    names.into_iter().filter(|name| !name.is_empty()).collect()
}

/// The name in a Unicode path extra field (APPNOTE.TXT section 4.6.9): version, checksum, name.
fn unicode_path(mut extra: &[u8]) -> Option<&[u8]> {
    while let [a, b, c, d, rest @ ..] = extra {
        let field = rest.get(..usize::from(u16::from_le_bytes([*c, *d])))?;
        if u16::from_le_bytes([*a, *b]) == 0x7075 {
            return field.get(5..);
        }
        extra = &rest[field.len()..];
    }
    None
}

fn zip_kind(bytes: &[u8]) -> FileKind {
    let entries = zip_entries(bytes);
    let has = |name: &[u8]| entries.iter().any(|e| e.name == name);
    let has_under = |folder: &[u8]| entries.iter().any(|e| e.name.starts_with(folder));
    if has(b"[Content_Types].xml")
        && (has_under(b"word/") || has_under(b"xl/") || has_under(b"ppt/"))
    {
        FileKind::OfficeXml
    } else if has(b"AndroidManifest.xml") {
        FileKind::Apk
    } else if has(b"META-INF/MANIFEST.MF") {
        FileKind::Jar
    } else if has(b"mimetype")
        && memmem::find(&bytes[..bytes.len().min(256)], b"application/vnd.oasis.opendocument")
            .is_some()
    {
        FileKind::OpenDocument
    } else {
        FileKind::Zip
    }
}

/// Whether what is inside cannot be read without a password: an entry of a ZIP, the headers of 7-Zip
/// or RAR, a PDF with an encryption dictionary, an Office document in an encrypted package.
pub fn is_encrypted(bytes: &[u8]) -> bool {
    let find = |needle: &[u8]| memmem::find(bytes, needle).is_some();
    match sniff(bytes) {
        FileKind::Zip | FileKind::OfficeXml | FileKind::Jar | FileKind::OpenDocument => {
            zip_entries(bytes).iter().any(|e| e.flags & 1 == 1)
        }
        FileKind::Pdf => {
            let tail = bytes.len().saturating_sub(4_096);
            memmem::find(&bytes[tail..], b"/Encrypt").is_some()
        }
        // "EncryptedPackage" in UTF-16: a stream of an OLE2 file (MS-OFFCRYPTO section 2.3.4.4).
        FileKind::Ole => find(&utf16(b"EncryptedPackage")),
        // RAR 4: main header with the password flag; RAR 5: encryption header (type 4) comes first.
        FileKind::Rar => {
            let old =
                bytes.get(10).is_some_and(|flags| flags & 0x80 != 0 && bytes.get(6) == Some(&0));
            old || (bytes.get(6) == Some(&1) && bytes.get(13) == Some(&4))
        }
        // 7-Zip: the AES coder's id is in the header, which is at the end and plain unless encrypted.
        FileKind::SevenZip => find(b"\x06\xf1\x07\x01"),
        _ => false,
    }
}

/// Whether an Office document carries macros: a VBA project in a ZIP, or a VBA storage in OLE2.
pub fn has_macros(bytes: &[u8]) -> bool {
    match sniff(bytes) {
        FileKind::OfficeXml => zip_entries(bytes)
            .iter()
            .any(|e| e.name.to_ascii_lowercase().ends_with(b"vbaproject.bin")),
        FileKind::Ole => memmem::find(bytes, &utf16(b"_VBA_PROJECT")).is_some(),
        _ => false,
    }
}

fn utf16(ascii: &[u8]) -> Vec<u8> {
    ascii.iter().flat_map(|&b| [b, 0]).collect()
}

/// One attachment.
#[derive(Debug, Clone)]
pub struct Attachment<'m> {
    /// Index of its part in [`Message::parts`].
    pub part: u16,
    /// The name the sender gave, if any.
    pub name: Option<&'m str>,
    /// The type the sender gave, `kind/subtype`.
    pub declared: String,
    /// What it is.
    pub kind: FileKind,
    /// Decoded size in bytes.
    pub size: u64,
    body: &'m [u8],
}

impl Attachment<'_> {
    /// BLAKE3 hash of the decoded bytes.
    pub fn hash(&self) -> blake3::Hash {
        blake3::hash(self.body)
    }

    /// See [`is_encrypted`].
    pub fn is_encrypted(&self) -> bool {
        is_encrypted(self.body)
    }

    /// See [`has_macros`].
    pub fn has_macros(&self) -> bool {
        has_macros(self.body)
    }

    /// What follows the last dot of the name, in lower case; empty without one.
    pub fn extension(&self) -> Cow<'static, str> {
        let name = self.name.unwrap_or_default();
        name.trim_end_matches(['.', ' '])
            .rsplit_once('.')
            .map_or(Cow::Borrowed(""), |(_, e)| Cow::Owned(e.to_lowercase()))
    }
}

/// An attachment's view of its part.
fn attachment<'m>(part: &'m Part<'_>, index: u16) -> Attachment<'m> {
    let body = if part.is_container { part.raw_body() } else { part.body() };
    Attachment {
        part: index,
        name: part.file_name(),
        declared: part.content_type.essence(),
        kind: sniff(body),
        size: body.len() as u64,
        body,
    }
}

impl Message<'_> {
    /// Every part that is not shown in line, in the order of the message.
    pub fn attachments(&self) -> Vec<Attachment<'_>> {
        let parts = self.parts().iter().zip(0u16..).filter(|(part, _)| part.is_attachment());
        parts.map(|(part, index)| attachment(part, index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ZIP of empty stored entries with these names, written by hand.
    fn zip(names: &[&str], flags: u16) -> Vec<u8> {
        let (mut local, mut central) = (Vec::new(), Vec::new());
        for name in names {
            let offset = local.len() as u32;
            local.extend_from_slice(b"PK\x03\x04\x14\x00");
            local.extend_from_slice(&flags.to_le_bytes());
            local.extend_from_slice(&[0; 18]);
            local.extend_from_slice(&(name.len() as u16).to_le_bytes());
            local.extend_from_slice(&[0; 2]);
            local.extend_from_slice(name.as_bytes());
            central.extend_from_slice(b"PK\x01\x02\x14\x00\x14\x00");
            central.extend_from_slice(&flags.to_le_bytes());
            central.extend_from_slice(&[0; 18]);
            central.extend_from_slice(&(name.len() as u16).to_le_bytes());
            central.extend_from_slice(&[0; 12]);
            central.extend_from_slice(&offset.to_le_bytes());
            central.extend_from_slice(name.as_bytes());
        }
        let start = local.len() as u32;
        let mut all = local;
        all.extend_from_slice(&central);
        all.extend_from_slice(b"PK\x05\x06\0\0\0\0");
        all.extend_from_slice(&(names.len() as u16).to_le_bytes());
        all.extend_from_slice(&(names.len() as u16).to_le_bytes());
        all.extend_from_slice(&(central.len() as u32).to_le_bytes());
        all.extend_from_slice(&start.to_le_bytes());
        all.extend_from_slice(&[0; 2]);
        all
    }

    #[test]
    fn kinds() {
        assert_eq!(sniff(b"MZ\x90"), FileKind::WindowsProgram);
        assert_eq!(sniff(b"junk %PDF-1.4"), FileKind::Pdf);
        assert_eq!(sniff(b"\xef\xbb\xbf  <HTML><body>"), FileKind::Html);
        assert_eq!(sniff(b"<?xml version='1.0'?><svg>"), FileKind::Svg);
        assert_eq!(sniff(b"just words\n"), FileKind::Text);
        assert_eq!(sniff(b"\x00\x01\x02"), FileKind::Unknown);
        assert_eq!(sniff(b""), FileKind::Empty);
        assert_eq!(sniff(&zip(&["a.txt"], 0)), FileKind::Zip);
        assert_eq!(
            sniff(&zip(&["[Content_Types].xml", "word/document.xml"], 0)),
            FileKind::OfficeXml
        );
        assert_eq!(sniff(&zip(&["META-INF/MANIFEST.MF"], 0)), FileKind::Jar);
    }

    #[test]
    fn encryption_and_macros() {
        assert!(!is_encrypted(&zip(&["a", "b"], 0)) && is_encrypted(&zip(&["a", "b"], 1)));
        let macros = zip(&["[Content_Types].xml", "xl/workbook.xml", "xl/vbaProject.bin"], 0);
        assert!(has_macros(&macros) && !has_macros(&zip(&["vbaProject.bin"], 0)));
        let mut cut = zip(&["a", "b"], 1);
        cut.truncate(50);
        assert!(is_encrypted(&cut), "the local headers say so without a directory");
        assert!(is_encrypted(b"%PDF-1.7 ... trailer << /Encrypt 5 0 R >>"));
    }

    #[test]
    fn attachments_of_a_message() {
        let raw = b"Content-Type: multipart/mixed; boundary=x\n\n--x\n\nhello\n--x\n\
            Content-Type: application/pdf; name=\"Bill.PDF.exe\"\n\
            Content-Transfer-Encoding: base64\n\nTVqQAAM=\n--x--\n";
        let message = Message::parse(raw);
        let found = message.attachments();
        assert_eq!(found.len(), 1);
        let a = &found[0];
        assert_eq!(
            (a.part, a.name, a.declared.as_str()),
            (2, Some("Bill.PDF.exe"), "application/pdf")
        );
        assert_eq!((a.kind, a.size, &*a.extension()), (FileKind::WindowsProgram, 5, "exe"));
    }

    #[test]
    fn cut_archives_do_not_panic() {
        let whole = zip(&["[Content_Types].xml", "word/document.xml"], 1);
        for end in 0..whole.len() {
            sniff(&whole[..end]);
            is_encrypted(&whole[..end]);
        }
    }
}
