//! Office documents: OLE2, OOXML, RTF, OneNote, XML in one file, tables of text; shortcuts.

mod active_mime;
mod binary;
mod compound;
mod crypt;
mod dde;
mod delimited;
mod excel;
mod field_data;
mod flat;
mod hyperlink;
mod installer;
mod lnk;
mod markup;
mod ole;
mod onenote;
mod powerpoint;
mod rtf;
mod sheet;
mod slk;
mod vba;
mod word;
mod xml;

use gauntlet_sniff::FileKind as K;

pub(crate) use self::dde::reference as dde_reference;
pub(crate) use self::delimited::{active_cells, is_table};
pub(crate) use self::field_data::is_plain as is_plain_field_data;
pub(crate) use self::flat::is_match as is_flat;
pub(crate) use self::markup::{Place, Places, base64, unescape};
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

/// Reads a document in one file of XML; false if it is none, or something else, too.
pub(super) fn decode_flat(bytes: &[u8], unpacker: &mut Unpacker<'_>) -> bool {
    flat::decode(bytes, unpacker)
}

/// Whether a file holds a compressed VBA project.
pub(super) fn is_project(bytes: &[u8]) -> bool {
    active_mime::is_match(bytes)
}

/// Reads such a file.
pub(super) fn decode_project(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    active_mime::decode(bytes, unpacker);
}

/// Notes formulas that start programs in a text that a spreadsheet opens.
pub(super) fn note_formulas(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    // Every link has one of these characters in it, in any encoding.
    if delimited::is_match(unpacker) && memchr::memchr2(b'|', b'(', bytes).is_some() {
        delimited::note(&crate::text::decode(bytes), unpacker);
    }
}

/// Reads a part of an OOXML or OpenDocument archive: an object that lies in one.
pub(crate) fn decode_part(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    xml::decode(bytes, unpacker);
}
