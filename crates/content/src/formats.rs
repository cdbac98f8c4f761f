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
mod office;
mod pdf;
mod picture;
#[cfg(test)]
pub(crate) mod testing;
mod web;

use gauntlet_sniff::FileKind;

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
    match kind {
        K::Zip | K::Gzip | K::Bzip2 | K::Xz | K::Zstd | K::Lzma | K::Tar | K::Cpio | K::Ar => {
            archive::decode(kind, bytes, unpacker);
        }
        K::SevenZip | K::Jar | K::Apk => archive::decode(kind, bytes, unpacker),
        // Documents of these kinds are archives, too: their parts are objects.
        K::OfficeXml | K::OpenDocument => {
            office::decode(kind, bytes, unpacker);
            archive::decode(kind, bytes, unpacker);
        }
        K::Rar | K::Cab | K::DiskImage | K::Ace | K::Arj | K::Lha | K::Help => {
            image_file::decode(kind, bytes, unpacker);
        }
        K::Ole | K::Rtf | K::OneNote | K::Shortcut => office::decode(kind, bytes, unpacker),
        K::Pdf => pdf::decode(kind, bytes, unpacker),
        K::Image => picture::decode(kind, bytes, unpacker),
        K::Html | K::Svg | K::Calendar | K::Card | K::Script => {
            web::decode(kind, bytes, unpacker);
        }
        K::Message => unpacker.message(bytes),
        K::Tnef | K::BinHex | K::Mbox => encoding::decode(kind, bytes, unpacker),
        K::Text | K::Unknown => {
            encoding::decode(kind, bytes, unpacker);
            web::decode(kind, bytes, unpacker);
        }
        _ => {}
    }
    carve::decode(kind, bytes, unpacker);
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
