//! ZIP archives, without unpacking: the entries that their directory and their headers name.

use std::borrow::Cow;
use std::collections::BTreeSet;

use memchr::memmem;

use crate::FileKind;

/// Entries read of one ZIP directory.
const ZIP_ENTRIES_MAX: usize = 4_096;

/// Bytes at the end of a file in which a ZIP directory may end (APPNOTE.TXT section 4.3.16: the
/// comment has 65,535 bytes at most).
const ZIP_TAIL_BYTES: usize = 65_557;

/// An entry of a ZIP's central directory (APPNOTE.TXT section 4.3.12).
pub(crate) struct ZipEntry<'a> {
    pub(crate) name: &'a [u8],
    /// General purpose bit flags; bit 0 says that the entry is encrypted.
    pub(crate) flags: u16,
}

/// The entries by the central directory; without one, those of the local headers that follow each
/// other. At most [`ZIP_ENTRIES_MAX`].
pub(crate) fn entries(bytes: &[u8]) -> Vec<ZipEntry<'_>> {
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

/// Names of the entries of a ZIP, each once: programs that unpack go by the directory at the end,
/// by the header of each entry, or by the name in Unicode beside either, and these may differ. At
/// most [`ZIP_ENTRIES_MAX`] of each. Empty for what is no ZIP.
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

pub(crate) fn kind(bytes: &[u8]) -> FileKind {
    let entries = entries(bytes);
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
