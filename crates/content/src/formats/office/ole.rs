//! OLE2 documents: VBA projects, embedded objects and files, encryption, macros of Excel 4.0.

use gauntlet_sniff::FileKind as K;

use super::compound::Compound;
use super::vba;
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
    for stream in &compound.streams {
        if unpacker.is_over() {
            return;
        }
        self::stream(&stream.path, &stream.bytes, unpacker);
    }
}

fn stream(path: &str, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let name = path.rsplit('/').next().unwrap_or_default();
    match name {
        "EncryptedPackage" => {
            unpacker.property(PropertyKind::Encrypted, "");
            return unpacker.defect(DefectKind::Encrypted, "");
        }
        "\u{1}Ole10Native" => return package(bytes, unpacker),
        "Equation Native" => return unpacker.property(PropertyKind::EquationEditor, ""),
        "Workbook" | "Book" => sheets(bytes, unpacker),
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
    if matches!(name, "WordDocument" | "PowerPoint Document" | "1Table" | "0Table" | "Workbook") {
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

/// Sheets of Excel 4.0 macros among those of a workbook (MS-XLS section 2.4.28, BoundSheet8).
fn sheets(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let mut rest = bytes;
    for _ in 0..10_000 {
        let [k0, k1, l0, l1, behind @ ..] = rest else { return };
        let length = usize::from(u16::from_le_bytes([*l0, *l1]));
        let body = &behind[..length.min(behind.len())];
        match (u16::from_le_bytes([*k0, *k1]), body) {
            (0x0085, [_, _, _, _, state, 1, _, wide, name @ ..]) => {
                let name = if wide & 1 == 1 { text::utf16_le(name) } else { text::decode(name) };
                let state = ["visible", "hidden", "very hidden"][usize::from(state & 3).min(2)];
                unpacker.property(PropertyKind::XlmMacros, &format!("{name} ({state})"));
            }
            // FilePass: the workbook is encrypted.
            (0x002f, _) => {
                unpacker.property(PropertyKind::Encrypted, "");
                return unpacker.defect(DefectKind::Encrypted, "");
            }
            _ => {}
        }
        rest = behind.get(length..).unwrap_or_default();
    }
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
