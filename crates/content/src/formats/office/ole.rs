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
        "Current User" if powerpoint::is_encrypted(bytes) => {
            unpacker.property(PropertyKind::Encrypted, "");
            return unpacker.defect(DefectKind::Encrypted, "a presentation");
        }
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
    use crate::formats::testing::{compound, nasty, paths, tree};

    #[test]
    fn text_and_fields_of_a_document() {
        let text = "Dear Ann,\r\u{13} HYPERLINK \"http://e.example/a\" \u{14}click\u{15} \u{13}DDEAUTO cmd\u{15}";
        let wide: Vec<u8> = "über".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut document = vec![0u8; 1_024];
        document[2..4].copy_from_slice(&0xc1u16.to_le_bytes());
        document[0x1a2..0x1aa].copy_from_slice(&[0, 0, 0, 0, 33, 0, 0, 0]);
        document.extend(text.bytes());
        let wide_at = document.len() as u32;
        document.extend(&wide);
        let length = text.len() as u32;
        let places = [0, length, length + 4].map(u32::to_le_bytes).concat();
        let piece = |at: u32| [&[0, 0][..], &at.to_le_bytes(), &[0, 0]].concat();
        let pieces = [places, piece((2 * 1_024) | 0x4000_0000), piece(wide_at)].concat();
        let clx = [&[2][..], &28u32.to_le_bytes(), &pieces].concat();
        let whole = compound(&[("WordDocument", &document), ("0Table", &clx)]);
        let found = tree(&whole, "a.doc");
        let object = &found.objects[0];
        assert_eq!(object.text, "Dear Ann,\nclick über");
        assert_eq!(object.urls[0].url, "http://e.example/a");
        assert!(object.has(PropertyKind::Dde));
        nasty(&whole, "a.doc");
    }

    #[test]
    fn texts_and_objects_of_a_presentation() {
        let record = |version: u16, kind: u16, body: &[u8]| {
            let length = (body.len() as u32).to_le_bytes();
            [&version.to_le_bytes()[..], &kind.to_le_bytes(), &length, body].concat()
        };
        let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let inner = compound(&[("x", b"y")]);
        let mut packed = (inner.len() as u32).to_le_bytes().to_vec();
        let mut writer = flate2::write::ZlibEncoder::new(&mut packed, flate2::Compression::best());
        std::io::Write::write_all(&mut writer, &inner).unwrap();
        writer.finish().unwrap();
        let slides = [
            record(0, 0x0fa0, &wide("Größe")),
            record(0, 0x0fa8, b"narrow"),
            record(0x10, 0x0fba, &wide("http://e.example/")),
            record(0x10, 0x1011, &packed),
        ];
        let stream = record(0xf, 0x03e8, &slides.concat());
        let whole = compound(&[("PowerPoint Document", &stream)]);
        let found = tree(&whole, "a.ppt");
        assert_eq!(found.objects[0].text, "Größe\nnarrow");
        assert_eq!(found.objects[0].urls[0].url, "http://e.example/");
        assert_eq!(found.objects[1].kind, crate::FileKind::Ole);
        nasty(&whole, "a.ppt");
    }

    #[test]
    fn a_compressed_object_of_a_presentation_needs_no_end() {
        let inner = compound(&[("x", b"y")]);
        let mut writer =
            flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut writer, &inner).unwrap();
        std::io::Write::flush(&mut writer).unwrap();
        let told = |size: usize| {
            let body = [&(size as u32).to_le_bytes()[..], writer.get_ref()].concat();
            let length = (body.len() as u32).to_le_bytes();
            let stream = [&[0x10, 0, 0x11, 0x10][..], &length, &body].concat();
            let found = tree(&compound(&[("PowerPoint Document", &stream)]), "a.ppt");
            assert_eq!(found.objects[1].size, inner.len() as u64);
            found.objects[0].defects.iter().map(|d| d.kind).collect::<Vec<_>>()
        };
        assert_eq!(told(inner.len()), [], "PowerPoint writes such");
        assert_eq!(told(inner.len() + 1), [crate::DefectKind::Truncated]);
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
