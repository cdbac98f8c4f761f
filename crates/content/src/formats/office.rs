//! Office documents: OLE2, OOXML, RTF, OneNote; shortcuts.

mod compound;
mod crypt;
mod excel;
mod installer;
mod lnk;
mod ole;
mod onenote;
mod powerpoint;
mod rtf;
mod slk;
mod vba;
mod word;
mod xml;

use gauntlet_sniff::FileKind as K;

pub(super) use self::ole::inspect_module;

use crate::unpack::Unpacker;

/// Reads an object of one of these kinds.
pub(crate) fn decode(kind: K, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    match kind {
        K::Ole => ole::decode(bytes, unpacker),
        K::Rtf => rtf::decode(bytes, unpacker),
        K::OneNote => onenote::decode(bytes, unpacker),
        K::Shortcut => lnk::decode(bytes, unpacker),
        _ => {}
    }
}

/// Whether a text is a sheet, which has no signature of its own.
pub(super) fn is_sheet(bytes: &[u8]) -> bool {
    slk::is_match(bytes)
}

/// Reads such a sheet.
pub(super) fn decode_sheet(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    slk::read(&crate::text::decode(bytes), unpacker);
}

/// Reads a part of an OOXML or OpenDocument archive: an object that lies in one.
pub(crate) fn decode_part(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    xml::decode(bytes, unpacker);
}
