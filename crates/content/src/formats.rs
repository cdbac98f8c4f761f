//! Decoders, one file each: what they read of a format, and what they add to the tree.
//!
//! A decoder is a function `(bytes, &mut Unpacker)`. It adds children ([`Unpacker::child`]), text,
//! URLs and properties to the object that is read, notes what it cannot read as a defect, reads
//! compressed bytes by [`Unpacker::read`] only, which knows the limits, and asks
//! [`Unpacker::is_over`] once per entry.

pub(crate) mod archive;
mod carve;
mod encoding;
mod image_file;
mod numbers;
pub(crate) mod office;
mod pdf;
mod picture;
mod program;
mod rc4;
#[cfg(test)]
pub(crate) mod testing;
mod web;

use gauntlet_sniff::FileKind;

use crate::object::{DefectKind, PropertyKind};
use crate::unpack::Unpacker;

/// Reads an object by what its bytes are; then what lies before, behind or inside them without
/// being a part of the format.
pub(crate) fn decode(kind: FileKind, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    use FileKind as K;
    if is_module(unpacker) {
        return office::inspect_module(bytes, unpacker);
    }
    if is_document_part(unpacker) && matches!(kind, K::Text | K::Unknown | K::Html | K::Svg) {
        return office::decode_part(bytes, unpacker);
    }
    declared(kind, bytes, unpacker);
    if matches!(kind, K::Text | K::Unknown | K::Html | K::Svg) {
        office::note_formulas(bytes, unpacker);
        if office::decode_flat(bytes, unpacker) {
            return carve::decode(kind, bytes, unpacker);
        }
    }
    match kind {
        K::Zip | K::Gzip | K::Bzip2 | K::Xz | K::Zstd | K::Lzma | K::Tar | K::Cpio | K::Ar => {
            archive::decode(kind, bytes, unpacker);
        }
        K::Lzip => archive::decode(kind, bytes, unpacker),
        K::Compress => unpacker.defect(DefectKind::Unsupported, "compressed by compress (.Z)"),
        K::Lz4 => unpacker.defect(DefectKind::Unsupported, "compressed by LZ4"),
        K::Lzop => unpacker.defect(DefectKind::Unsupported, "compressed by lzop"),
        K::Xar => unpacker.defect(DefectKind::Unsupported, "an archive of xar"),
        K::SevenZip
        | K::Jar
        | K::Apk
        | K::Arj
        | K::Ace
        | K::Help
        | K::MsCompress
        | K::SymbianInstaller => {
            archive::decode(kind, bytes, unpacker);
        }
        // Documents of these kinds are archives, too: their parts are objects.
        K::OfficeXml | K::OpenDocument => {
            office::decode(kind, bytes, unpacker);
            archive::decode(kind, bytes, unpacker);
        }
        K::Rar | K::Cab | K::DiskImage | K::Lha => {
            image_file::decode(kind, bytes, unpacker);
        }
        K::Ole | K::Rtf | K::OneNote | K::Shortcut => office::decode(kind, bytes, unpacker),
        K::Pdf => pdf::decode(kind, bytes, unpacker),
        K::WindowsProgram => program::decode(bytes, unpacker),
        K::Image => picture::decode(kind, bytes, unpacker),
        K::Html | K::Svg | K::Calendar | K::Card | K::Script => {
            web::decode(kind, bytes, unpacker);
        }
        K::Message => unpacker.message(bytes),
        K::Tnef | K::BinHex | K::Mbox | K::Cms => encoding::decode(kind, bytes, unpacker),
        K::Text if office::is_sheet(bytes) => office::decode_sheet(bytes, unpacker),
        K::Unknown if office::is_project(bytes) => office::decode_project(bytes, unpacker),
        K::Unknown if program::is_script(bytes) => program::decode_script(bytes, unpacker),
        K::Text | K::Unknown => {
            encoding::decode(kind, bytes, unpacker);
            web::decode(kind, bytes, unpacker);
        }
        _ => {}
    }
    carve::decode(kind, bytes, unpacker);
}

/// What only the type says that its sender declares: parts of MIME that stand for something else.
fn declared(kind: FileKind, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let in_cms = [FileKind::Cms, FileKind::Unknown];
    let is_signed = unpacker.container().is_some_and(|object| in_cms.contains(&object.kind));
    match unpacker.current().map(|object| object.declared_type.as_str()) {
        // The entity that is signed: its header may have a type only.
        // Written otherwise than its signature has it.
        Some("application/pkcs7-mime" | "application/x-pkcs7-mime")
            if kind == FileKind::Unknown =>
        {
            encoding::decode(FileKind::Cms, bytes, unpacker);
        }
        Some("message/rfc822") if is_signed && kind != FileKind::Message => {
            unpacker.message(bytes);
        }
        // A recipient's program puts the fragments of several messages together (RFC 2046 section
        // 5.2.2).
        Some("message/partial") => {
            unpacker.property(PropertyKind::Volume, "a fragment of a message");
            unpacker.defect(DefectKind::MissingVolume, "a fragment of a message");
        }
        // The content is fetched from elsewhere (section 5.2.3).
        Some("message/external-body") => {
            unpacker.property(PropertyKind::ExternalReference, "the body of a part");
        }
        _ => {}
    }
}

/// Whether the object is the source of a VBA module.
fn is_module(unpacker: &Unpacker<'_>) -> bool {
    let is_ole = unpacker.container().is_some_and(|object| object.kind == FileKind::Ole);
    is_ole && unpacker.current().is_some_and(|object| object.name.ends_with(".vba"))
}

/// Whether the object is a part of a document in the ZIP format.
fn is_document_part(unpacker: &Unpacker<'_>) -> bool {
    let kinds = [FileKind::OfficeXml, FileKind::OpenDocument];
    unpacker.container().is_some_and(|object| kinds.contains(&object.kind))
}

/// The name of the single file inside a compressed one: the container's own without the ending, or
/// with `.tar` for the short endings such as `.tgz`.
fn inner_name(unpacker: &Unpacker<'_>, endings: &[&str]) -> String {
    let name = unpacker.current().map(|object| object.name.as_str()).unwrap_or_default();
    let lower = name.to_ascii_lowercase();
    for ending in endings {
        if let Some(stem) = lower.strip_suffix(ending) {
            let tar = if ending.starts_with(".t") { ".tar" } else { "" };
            return format!("{}{tar}", &name[..stem.len()]);
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use crate::{DefectKind, Limits, NoHost, PropertyKind, Root};

    /// What `fuzz/fuzz_targets/content_*.rs` do, with a few inputs.
    #[test]
    fn signatures_with_any_bytes_behind_them() {
        let signatures: [&[u8]; 18] = [
            b"\x60\xea\x22\0\x22\x0b\x01\x02\x10\0\x02",
            b"\0\0\x10\0\0\0\0**ACE**",
            b"SZDD\x88\xf0\x27\x33A",
            b"KWAJ\x88\xf0\x27\xd1\x02\0\x0e\0\0\0",
            b"KWAJ\x88\xf0\x27\xd1\x03\0\x0e\0\0\0",
            b"ITSF\x03\0\0\0",
            b"PK\x03\x04\x14\0\0\0\x01\0\0\0\0\0",
            b"PK\x03\x04\x14\0\x06\0\x06\0\0\0\0\0",
            b"conectix\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x18cxsparse",
            b"\x30\x80\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02\xa0\x80\x30\x80",
            b"ID;P\n",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
            b"MZ\x90\0\x1f\x8b\x08\0\0\0\0\0\0\x03",
            b"GIF89a\x01\0\x01\0\0\0\0PK\x03\x04\x14\0\0\0\x08\0",
            b"MSCF\0\0\0\0",
            b"vhdxfile",
            b"<w:wordDocument xmlns:w='schemas.microsoft.com/office/word/2003'><w:fldData>",
            b"WEB\n1\nhttp://",
        ];
        // A generator of Lehmer's kind: the same bytes each time.
        let mut state = 1u64;
        let mut byte = || {
            state = state * 48_271 % 0x7fff_ffff;
            (state >> 8) as u8
        };
        for round in 0..40 {
            for signature in signatures {
                let behind = (0..7 * round).map(|_| byte() & if round % 2 == 0 { 0xff } else { 3 });
                let bytes: Vec<u8> = signature.iter().copied().chain(behind).collect();
                let found = crate::formats::testing::tree(&bytes, "a");
                let failed = |d: &crate::ObjectDefect| d.kind == DefectKind::DecoderFailed;
                let mut defects = found.objects.iter().flat_map(|o| &o.defects);
                // There is no program here that reads cabinets.
                let missing = signature.starts_with(b"MSCF");
                assert!(missing || !defects.any(failed), "{bytes:?}");
            }
        }
    }

    #[test]
    fn parts_that_stand_for_others() {
        let object = |declared_type: &str| {
            let root = Root { name: "", declared_type, bytes: b"some text" };
            crate::unpack(&[root], &Limits::default(), &[], &mut NoHost).objects.remove(0)
        };
        let fragment = object("message/partial");
        assert_eq!(fragment.defects[0].kind, DefectKind::MissingVolume);
        assert!(object("message/external-body").has(PropertyKind::ExternalReference));
        assert_eq!(object("Application/PKCS7-MIME").defects.len(), 0, "text is what it is");
    }
}
