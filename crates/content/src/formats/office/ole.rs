//! OLE2 documents: VBA projects, embedded objects and files, encryption, macros of Excel 4.0.

use gauntlet_sniff::FileKind as K;

use super::compound::{Compound, Stream};
use super::installer::installer;
use super::{crypt, excel, powerpoint, vba, word};
use crate::host::Child;
use crate::object::{DefectKind, PropertyKind};
use crate::text;
use crate::unpack::Unpacker;

/// Class of the equation editor, as the root storage of an embedded object has it
/// (`0002CE02-0000-0000-C000-000000000046`).
const EQUATION: [u8; 16] = [0x02, 0xce, 0x02, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0x46];
/// Bytes of a stream that are searched for texts.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// Characters of a run of text that is kept.
const RUN_CHARS_MIN: usize = 6;

/// Reads every stream.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let Some(compound) = Compound::read(bytes) else {
        return unpacker.defect(DefectKind::Corrupt, "no directory");
    };
    if compound.is_cut {
        unpacker.defect(DefectKind::Truncated, "a stream");
    }
    if compound.class == EQUATION {
        unpacker.property(PropertyKind::EquationEditor, "");
    }
    encrypted_package(&compound.streams, unpacker);
    installer(&compound.streams, unpacker);
    for stream in &compound.streams {
        if unpacker.is_over() {
            return;
        }
        self::stream(stream, &compound.streams, unpacker);
    }
}

/// A package of OOXML, encrypted as a whole: it becomes an object if a password opens it.
fn encrypted_package(streams: &[Stream], unpacker: &mut Unpacker<'_>) {
    let find = |name: &str| streams.iter().find(|stream| stream.name() == name);
    let Some(package) = find("EncryptedPackage") else { return };
    let info = find("EncryptionInfo").map_or(&[][..], |info| &info.bytes);
    if let Some(plain) = crypt::package(info, &package.bytes, unpacker) {
        unpacker.child(Child::named("EncryptedPackage"), &plain);
    }
}

fn stream(stream: &Stream, streams: &[Stream], unpacker: &mut Unpacker<'_>) {
    let (name, path, bytes) = (stream.name(), stream.path.as_str(), stream.bytes.as_slice());
    match name {
        "EncryptedPackage" | "EncryptionInfo" => return,
        "\u{1}Ole10Native" => return package(bytes, unpacker),
        "Equation Native" => return unpacker.property(PropertyKind::EquationEditor, ""),
        "Workbook" | "Book" => return excel::read(bytes, unpacker),
        "PowerPoint Document" => return powerpoint::read(bytes, unpacker),
        "WordDocument" if word::read(stream, streams, unpacker) => return,
        _ => {}
    }
    if let Some(source) = vba::source(bytes) {
        return module(path, &source, unpacker);
    }
    let kind = gauntlet_sniff::sniff(bytes);
    let is_file = kind.is_program()
        || matches!(kind, K::Ole | K::OfficeXml | K::Pdf | K::Zip | K::Rtf | K::Cab | K::SevenZip)
        || matches!(kind, K::Rar | K::Gzip | K::Html | K::Svg | K::Message | K::Image);
    // Attachments of a message by Outlook (MS-OXMSG), whatever they are.
    let is_attachment = name.starts_with("__substg1.0_37010102");
    if is_attachment || (is_file && kind != K::Script) {
        return unpacker.child(Child::named(path), bytes);
    }
    // Without its tables a document is still searched for text.
    if name == "WordDocument" {
        unpacker.text(&runs(bytes));
    }
}

/// A module becomes an object of its own, with its source as text.
fn module(path: &str, source: &[u8], unpacker: &mut Unpacker<'_>) {
    unpacker.property(PropertyKind::VbaMacros, path);
    let name = format!("{path}.vba");
    unpacker.child(Child { name, declared_type: "text/vbscript".to_owned() }, source);
}

/// Notes what is in the source of a module: for the child of [`module`].
pub(crate) fn inspect_module(source: &[u8], unpacker: &mut Unpacker<'_>) {
    vba::inspect(&text::decode(source), unpacker);
}

/// A file that was put into a document by the packager: label, path, command, size and bytes.
fn package(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    unpacker.property(PropertyKind::EmbeddedObject, "package");
    let parsed = (|| {
        let rest = bytes.get(6..)?;
        let (label, rest) = until_nul(rest)?;
        let (_, rest) = until_nul(rest)?;
        let rest = rest.get(8..)?;
        let (path, rest) = until_nul(rest)?;
        let size = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?) as usize;
        let body = rest.get(4..)?;
        let name = if label.is_empty() { path } else { label };
        Some((text::file_name(name), &body[..size.min(body.len())]))
    })();
    match parsed {
        Some((name, body)) => unpacker.child(Child::named(name), body),
        // Not as the packager writes it: the bytes behind the size may be a file all the same.
        None => unpacker.child(Child::named("package"), bytes.get(4..).unwrap_or_default()),
    }
}

fn until_nul(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(0, bytes)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// Runs of readable characters, of 8 and of 16 bits: the text of a document without its structure.
fn runs(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
    let shown =
        |b: u8| (0x20..0x7f).contains(&b) || matches!(b, b'\t' | b'\r' | b'\n' | 0xa0..=0xff);
    let mut out = String::new();
    let mut keep = |run: &str| {
        if run.trim().chars().count() >= RUN_CHARS_MIN && run.contains(' ') {
            out.push_str(run.trim());
            out.push('\n');
        }
    };
    for run in bytes.split(|b| !shown(*b)) {
        if run.len() >= RUN_CHARS_MIN {
            keep(&text::decode(run));
        }
    }
    let mut wide = String::new();
    for pair in bytes.chunks_exact(2) {
        if pair[1] == 0 && shown(pair[0]) {
            wide.push(char::from(pair[0]));
        } else {
            if wide.len() >= RUN_CHARS_MIN {
                keep(&wide);
            }
            wide.clear();
        }
    }
    keep(&wide);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{nasty, paths, tree};

    /// A compound file with streams of 4,096 bytes each, of these names and beginnings.
    fn compound(streams: &[(&str, &[u8])]) -> Vec<u8> {
        let mut header = vec![0u8; 512];
        header[..8].copy_from_slice(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1");
        header[24..34].copy_from_slice(&[0x3e, 0, 3, 0, 0xfe, 0xff, 9, 0, 6, 0]);
        header[44] = 1;
        header[48] = 1;
        header[60..64].copy_from_slice(&0xffff_fffeu32.to_le_bytes());
        header[68..72].copy_from_slice(&0xffff_fffeu32.to_le_bytes());
        header[76..].fill(0xff);
        header[76..80].copy_from_slice(&0u32.to_le_bytes());
        let (mut fat, mut directory, mut bodies) =
            (vec![0xffff_fffdu32, 0xffff_fffe], Vec::new(), Vec::new());
        let entry = |name: &str, kind: u8, right: u32, child: u32, start: u32, size: u32| {
            let mut entry = vec![0u8; 128];
            for (i, unit) in name.encode_utf16().enumerate() {
                entry[2 * i..2 * i + 2].copy_from_slice(&unit.to_le_bytes());
            }
            entry[64..66].copy_from_slice(&(2 * name.len() as u16 + 2).to_le_bytes());
            entry[66] = kind;
            for (at, value) in [(68, u32::MAX), (72, right), (76, child), (116, start), (120, size)]
            {
                entry[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
            entry
        };
        directory.extend(entry("Root Entry", 5, u32::MAX, 1, 0xffff_fffe, 0));
        for (index, (name, body)) in streams.iter().enumerate() {
            let start = fat.len() as u32;
            let right = if index + 1 < streams.len() { index as u32 + 2 } else { u32::MAX };
            directory.extend(entry(name, 2, right, u32::MAX, start, 4_096));
            fat.extend((0..8).map(|i| if i == 7 { 0xffff_fffe } else { start + i + 1 }));
            let mut body = body.to_vec();
            body.resize(4_096, 0);
            bodies.extend(body);
        }
        fat.resize(128, u32::MAX);
        directory.resize(512, 0);
        let fat: Vec<u8> = fat.iter().flat_map(|n| n.to_le_bytes()).collect();
        [header, fat, directory, bodies].concat()
    }

    #[test]
    fn modules_packages_and_sheets() {
        // A module: a raw container that begins with the attributes that every module has.
        let mut module = b"\0\0\0\0".to_vec();
        let source =
            b"Attribute VB_Name = \"M\"\r\nSub AutoOpen()\r\nShell \"calc\"\r\nEnd Sub\r\n";
        let mut tokens = vec![];
        for eight in source.chunks(8) {
            tokens.push(0);
            tokens.extend_from_slice(eight);
        }
        let size = u16::try_from(tokens.len() - 1).unwrap() | 0xb000;
        module.extend([&[1][..], &size.to_le_bytes(), &tokens].concat());
        let package = [
            &[0; 4][..],
            &[2, 0],
            b"run.exe\0c:\\r\0",
            &[0; 8],
            b"c:\\r\0",
            &4u32.to_le_bytes(),
            b"MZ\x90\0",
        ];
        let sheet = [
            &0x0085u16.to_le_bytes()[..],
            &14u16.to_le_bytes(),
            &[0, 0, 0, 0, 2, 1, 6, 0],
            b"Macro1",
        ]
        .concat();
        let whole = compound(&[
            ("M", &module),
            ("\u{1}Ole10Native", &package.concat()),
            ("Workbook", &sheet),
        ]);
        let found = tree(&whole, "a.doc");
        assert!(paths(&found).contains(&"a.doc/M.vba"), "{found:?}");
        let module = found.objects.iter().find(|o| o.name == "M.vba").unwrap();
        assert!(module.has(PropertyKind::AutoExec) && module.has(PropertyKind::SuspiciousCall));
        let package = found.objects.iter().find(|o| o.name == "run.exe").unwrap();
        assert_eq!(package.size, 4);
        let sheets = &found.objects[0].properties;
        assert!(sheets.iter().any(|p| p.detail == "Macro1 (very hidden)"), "{sheets:?}");
        nasty(&whole, "a.doc");
    }
}
