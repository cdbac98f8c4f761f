//! What files are: plain types that mail, content and everything above them share. The tree of
//! objects in a file is [`object::Tree`].
//!
//! What the bytes of a file are, by their own signatures ("magic numbers"), and whether they are
//! encrypted or carry macros.

pub mod object;
pub mod zip;

use memchr::memmem;
use serde::{Deserialize, Serialize};

/// What bytes are, by their own signature and not by what the sender says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileKind {
    /// No bytes at all.
    Empty,
    /// A Windows program (PE, or the older NE and DOS).
    WindowsProgram,
    /// A program or library of Linux and Unix (ELF).
    ElfProgram,
    /// A program or library of macOS (Mach-O).
    MachProgram,
    /// A Windows shortcut (`.lnk`, MS-SHLLINK).
    Shortcut,
    /// A script with a `#!` line.
    Script,
    /// PDF (ISO 32000), also with bytes before it.
    Pdf,
    /// Rich Text Format (`.rtf`).
    Rtf,
    /// Office document in the OLE2 format (also MSI and MSG).
    Ole,
    /// Word, Excel or PowerPoint in the ZIP format.
    OfficeXml,
    /// OpenDocument: LibreOffice's texts, tables and slides.
    OpenDocument,
    /// A Java archive: a ZIP with a manifest.
    Jar,
    /// An Android package: a ZIP with `AndroidManifest.xml`.
    Apk,
    /// A ZIP of none of these kinds.
    Zip,
    /// gzip (RFC 1952), one file.
    Gzip,
    /// A file compressed by bzip2.
    Bzip2,
    /// xz (LZMA2), one file.
    Xz,
    /// Zstandard (RFC 8878), one file.
    Zstd,
    /// An archive of 7-Zip.
    SevenZip,
    /// A RAR archive, version 4 or 5.
    Rar,
    /// A Windows cabinet (`MSCF`).
    Cab,
    /// A tar archive, of any dialect.
    Tar,
    /// ISO 9660 or UDF disk image.
    DiskImage,
    /// An ACE archive (WinAce).
    Ace,
    /// An ARJ archive, as DOS had them.
    Arj,
    /// LZMA without a container (`.lzma`).
    Lzma,
    /// An LHA or LZH archive.
    Lha,
    /// LZMA in members with a checksum each (`.lz`, lzip).
    Lzip,
    /// A file that Unix `compress` made (`.Z`).
    Compress,
    /// A frame of LZ4, also of its legacy form (`.lz4`).
    Lz4,
    /// A file or archive of lzop (`.lzo`).
    Lzop,
    /// A xar archive, as packages of macOS are (`.xar`, `.pkg`).
    Xar,
    /// A cpio archive, of any dialect.
    Cpio,
    /// Unix `ar` archive, Debian packages among them.
    Ar,
    /// BinHex 4.0 (RFC 1741), a text.
    BinHex,
    /// A section of OneNote (`.one`).
    OneNote,
    /// A mailbox: several messages in one file (RFC 4155).
    Mbox,
    /// JPEG, PNG, GIF, BMP, TIFF, WebP or icon.
    Image,
    /// SVG: XML that may hold scripts.
    Svg,
    /// Sound or video of any format.
    Media,
    /// HTML, by its first tags.
    Html,
    /// A mail message, by its first header fields.
    Message,
    /// A calendar (iCalendar, RFC 5545).
    Calendar,
    /// A business card (vCard, RFC 6350).
    Card,
    /// Outlook's `winmail.dat` (TNEF, MS-OXTNEF).
    Tnef,
    /// Compiled HTML help (`.chm`).
    Help,
    /// A file that `COMPRESS.EXE` of old Windows made (SZDD, KWAJ).
    MsCompress,
    /// An installer of Symbian OS (SIS, before version 9).
    SymbianInstaller,
    /// A signed or encrypted message in the Cryptographic Message Syntax (S/MIME opaque).
    Cms,
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
            K::Lzma => "application/x-lzma",
            K::Lha => "application/x-lzh-compressed",
            K::Lzip => "application/x-lzip",
            K::Compress => "application/x-compress",
            K::Lz4 => "application/x-lz4",
            K::Lzop => "application/x-lzop",
            K::Xar => "application/x-xar",
            K::Cpio => "application/x-cpio",
            K::Ar => "application/x-archive",
            K::BinHex => "application/mac-binhex40",
            K::OneNote => "application/onenote",
            K::Mbox => "application/mbox",
            K::Image => "image/*",
            K::Svg => "image/svg+xml",
            K::Media => "video/*",
            K::Html => "text/html",
            K::Message => "message/rfc822",
            K::Calendar => "text/calendar",
            K::Card => "text/vcard",
            K::Tnef => "application/vnd.ms-tnef",
            K::Help => "application/vnd.ms-htmlhelp",
            K::MsCompress => "application/x-ms-compress-szdd",
            K::SymbianInstaller => "application/vnd.symbian.install",
            K::Cms => "application/pkcs7-mime",
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

    /// An archive, a compressed file or a disk: other files, and nothing that is seen by itself.
    pub fn is_archive(self) -> bool {
        use FileKind as K;
        matches!(
            self,
            K::Zip | K::Gzip | K::Bzip2 | K::Xz | K::Zstd | K::Lzma | K::SevenZip | K::Rar | K::Cab
        ) || matches!(
            self,
            K::Tar | K::Cpio | K::Ar | K::Arj | K::Ace | K::Lha | K::DiskImage | K::MsCompress
        ) || matches!(self, K::Jar | K::Apk | K::OfficeXml | K::OpenDocument)
            || matches!(self, K::Lzip | K::Compress | K::Lz4 | K::Lzop | K::Xar)
    }
}

/// Signatures at the start of a file, in the order they are tried.
const MAGIC: [(&[u8], FileKind); 56] = [
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
    (b"070701", FileKind::Cpio),
    (b"070702", FileKind::Cpio),
    (b"070707", FileKind::Cpio),
    (b"\xc7\x71", FileKind::Cpio),
    (b"\x71\xc7", FileKind::Cpio),
    (b"!<arch>\n", FileKind::Ar),
    (b"\xe4\x52\x5c\x7b\x8c\xd8\xa7\x4d\xae\xb1\x53\x78\xd0\x29\x96\xd3", FileKind::OneNote),
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
    (b"SZDD\x88\xf0\x27\x33", FileKind::MsCompress),
    (b"SZ \x88\xf0\x27\x33\xd1", FileKind::MsCompress),
    (b"KWAJ\x88\xf0\x27\xd1", FileKind::MsCompress),
    (b"vhdxfile", FileKind::DiskImage),
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
        return zip::kind(bytes);
    }
    if let Some((_, kind)) = MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return *kind;
    }
    if let Some(kind) = compressor(bytes) {
        return kind;
    }
    // A Mach-O program for several processors; a Java class begins alike, with a version of 45 or
    // more.
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
    if at(257, b"ustar") || is_old_tar(bytes) {
        return FileKind::Tar;
    }
    if at(0x8001, b"CD001") || at(0x8001, b"BEA01") || at(0x8801, b"CD001") {
        return FileKind::DiskImage;
    }
    if at(2, b"-lh") && at(6, b"-") || at(2, b"-lz") && at(6, b"-") {
        return FileKind::Lha;
    }
    if is_lzma(bytes) {
        return FileKind::Lzma;
    }
    if is_cms(head) {
        return FileKind::Cms;
    }
    if is_disk(bytes) {
        return FileKind::DiskImage;
    }
    if memmem::find(head, b"(This file must be converted with BinHex").is_some() {
        return FileKind::BinHex;
    }
    if at(8, &[0x19, 4, 0, 0x10]) && (at(4, &[0x12, 0x3a, 0, 0x10]) || at(4, &[0x6d, 0, 0, 0x10])) {
        return FileKind::SymbianInstaller;
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

/// Compressors and archives whose magic number is checked with what follows it.
fn compressor(bytes: &[u8]) -> Option<FileKind> {
    Some(match bytes {
        // A version, and the size of the dictionary.
        [b'L', b'Z', b'I', b'P', 0 | 1, ..] => FileKind::Lzip,
        // Bits of a code, 9 to 16, and two bits that are zero.
        [0x1f, 0x9d, bits, _, ..] if bits & 0x60 == 0 && (9..=16).contains(&(bits & 0x1f)) => {
            FileKind::Compress
        }
        // The version of a frame is 1; the legacy form has none.
        [0x04, 0x22, 0x4d, 0x18, flags, ..] if flags & 0xc0 == 0x40 => FileKind::Lz4,
        [0x02, 0x21, 0x4c, 0x18, ..] => FileKind::Lz4,
        [0x89, b'L', b'Z', b'O', 0, b'\r', b'\n', 0x1a, b'\n', ..] => FileKind::Lzop,
        // The size of the header, and a version.
        [b'x', b'a', b'r', b'!', 0, _, 0, 1, ..] => FileKind::Xar,
        _ => return None,
    })
}

/// A tar archive without a signature (Unix V7): its first header's checksum is right.
fn is_old_tar(bytes: &[u8]) -> bool {
    let Some(header) = bytes.get(..512) else { return false };
    let digits = header[148..156].trim_ascii_start();
    let end = digits.iter().position(|b| !(b'0'..=b'7').contains(b)).unwrap_or(digits.len());
    let said =
        std::str::from_utf8(&digits[..end]).ok().and_then(|t| u64::from_str_radix(t, 8).ok());
    let sum = |(i, &b): (usize, &u8)| if (148..156).contains(&i) { 32 } else { u64::from(b) };
    header[0] != 0 && said == Some(header.iter().enumerate().map(sum).sum())
}

/// A sequence that begins with one of the types of content of CMS (RFC 5652, RFC 3274, RFC 5083).
fn is_cms(head: &[u8]) -> bool {
    const PKCS7: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07";
    const SMIME: &[u8] = b"\x06\x0b\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x01";
    // The length, in up to five bytes, stands between.
    let [0x30, ..] = head else { return false };
    (2..=6).filter_map(|at| head.get(at..)).any(|b| b.starts_with(PKCS7) || b.starts_with(SMIME))
}

/// A disk: a virtual one by its footer ("conectix"), or one that begins with the boot sector of a
/// FAT file system or with a table of partitions.
fn is_disk(bytes: &[u8]) -> bool {
    const SECTOR_BYTES: usize = 512;
    let footer = bytes.len().checked_sub(SECTOR_BYTES).and_then(|at| bytes.get(at..));
    if bytes.starts_with(b"conectix") || footer.is_some_and(|f| f.starts_with(b"conectix")) {
        return true;
    }
    let Some(sector) = bytes.get(..SECTOR_BYTES) else { return false };
    sector.ends_with(&[0x55, 0xaa]) && (is_boot_sector(sector) || has_partitions(sector))
}

/// A jump, sectors of a usual size, clusters of a power of two, one to four tables.
fn is_boot_sector(sector: &[u8]) -> bool {
    matches!(sector[0], 0xeb | 0xe9)
        && matches!(u16::from_le_bytes([sector[11], sector[12]]), 512 | 1_024 | 2_048 | 4_096)
        && sector[13].is_power_of_two()
        && (1..=4).contains(&sector[16])
}

/// Four entries, each active or not, one at least with a type and sectors.
fn has_partitions(sector: &[u8]) -> bool {
    let mut entries = sector[446..510].chunks(16);
    entries.clone().all(|entry| matches!(entry[0], 0 | 0x80))
        && entries.any(|entry| entry[4] != 0 && entry[8..16].iter().any(|b| *b != 0))
}

/// LZMA has no signature: its properties byte is the usual one, its dictionary a power of two or
/// three halves of one, and its size either unknown or below a terabyte.
fn is_lzma(bytes: &[u8]) -> bool {
    let [0x5d, d0, d1, d2, d3, size @ ..] = bytes else { return false };
    let dictionary = u32::from_le_bytes([*d0, *d1, *d2, *d3]);
    let Some(size) = size.first_chunk::<8>() else { return false };
    let usual = dictionary.is_power_of_two() || (dictionary / 3).is_power_of_two();
    let size = u64::from_le_bytes(*size);
    usual && dictionary >= 4_096 && (size == u64::MAX || size < 1 << 40)
}

/// A header block: fields from the first line on, with one that every message has.
fn is_header(head: &[u8]) -> bool {
    let lines = head.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut usual = 0;
    for line in lines.take(30) {
        if line.is_empty() {
            break;
        }
        if line[0] == b' ' || line[0] == b'\t' {
            continue;
        }
        let Some(colon) = line.iter().position(|&b| b == b':') else { return false };
        let name = &line[..colon];
        if name.is_empty() || !name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'-') {
            return usual >= 2;
        }
        const USUAL: [&str; 7] =
            ["from", "to", "subject", "date", "message-id", "mime-version", "received"];
        usual += usize::from(USUAL.iter().any(|u| name.eq_ignore_ascii_case(u.as_bytes())));
    }
    usual >= 2
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
    if head.starts_with(b"From ")
        && head.iter().position(|&b| b == b'\n').is_some_and(|end| is_header(&head[end + 1..]))
    {
        return FileKind::Mbox;
    }
    if is_header(head) {
        return FileKind::Message;
    }
    let control = |b: &u8| *b < 32 && !matches!(*b, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b);
    if head.iter().any(control) { FileKind::Unknown } else { FileKind::Text }
}

/// Whether what is inside cannot be read without a password: an entry of a ZIP, the headers of
/// 7-Zip or RAR, a PDF with an encryption dictionary, an Office document in an encrypted package.
pub fn is_encrypted(bytes: &[u8]) -> bool {
    let find = |needle: &[u8]| memmem::find(bytes, needle).is_some();
    match sniff(bytes) {
        FileKind::Zip | FileKind::OfficeXml | FileKind::Jar | FileKind::OpenDocument => {
            zip::entries(bytes).iter().any(|e| e.flags & 1 == 1)
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
        // 7-Zip: the AES coder's id is in the header, which is at the end and plain unless
        // encrypted.
        FileKind::SevenZip => find(b"\x06\xf1\x07\x01"),
        _ => false,
    }
}

/// Whether an Office document carries macros: a VBA project in a ZIP, or a VBA storage in OLE2.
pub fn has_macros(bytes: &[u8]) -> bool {
    match sniff(bytes) {
        FileKind::OfficeXml => zip::entries(bytes)
            .iter()
            .any(|e| e.name.to_ascii_lowercase().ends_with(b"vbaproject.bin")),
        FileKind::Ole => memmem::find(bytes, &utf16(b"_VBA_PROJECT")).is_some(),
        _ => false,
    }
}

fn utf16(ascii: &[u8]) -> Vec<u8> {
    ascii.iter().flat_map(|&b| [b, 0]).collect()
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
        assert_eq!(sniff(b"LZIP\x01\x0c"), FileKind::Lzip);
        assert_eq!(sniff(b"\x1f\x9d\x90MZ"), FileKind::Compress);
        assert_eq!(sniff(b"\x1f\x9d\xff\xff"), FileKind::Unknown);
        assert_eq!(sniff(b"\x04\x22\x4d\x18\x64\x40"), FileKind::Lz4);
        assert_eq!(sniff(b"\x89LZO\0\r\n\x1a\n\x10"), FileKind::Lzop);
        assert_eq!(sniff(b"xar!\0\x1c\0\x01\0\0"), FileKind::Xar);
        assert_eq!(sniff(b"xar! and words"), FileKind::Text);
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
    fn cut_archives_do_not_panic() {
        let whole = zip(&["[Content_Types].xml", "word/document.xml"], 1);
        for end in 0..whole.len() {
            sniff(&whole[..end]);
            is_encrypted(&whole[..end]);
        }
    }
}
