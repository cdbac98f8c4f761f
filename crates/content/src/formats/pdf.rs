//! PDF (ISO 32000-2): text of the pages, actions, files inside, pictures with codes.
//!
//! Objects are found by looking through all bytes, not by the cross-reference table, so that
//! damaged files are read as readers repair them and superseded objects are seen. Not read: the
//! pictures of JPEG 2000, JBIG2 and fax compression; text of fonts without a mapping to Unicode.

mod action;
mod crypt;
mod document;
mod filter;
mod font;
mod glyph;
mod page;
mod picture;
mod value;

use gauntlet_sniff::FileKind;

use crate::unpack::Unpacker;

pub(crate) fn decode(_kind: FileKind, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let document = document::Document::read(bytes, unpacker);
    action::read(&document, unpacker);
    page::read(&document, unpacker);
}

#[cfg(test)]
mod tests;
