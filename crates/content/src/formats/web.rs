//! HTML, SVG, calendars and scripts.

use gauntlet_sniff::FileKind;

use crate::object::PropertyKind;
use crate::unpack::Unpacker;

/// Reads an object of one of these kinds.
pub(crate) fn decode(_kind: FileKind, _bytes: &[u8], _unpacker: &mut Unpacker<'_>) {}

pub(super) fn script(text: &str, unpacker: &mut Unpacker<'_>) {
    unpacker.text(text);
}

pub(super) fn markup(text: &str, unpacker: &mut Unpacker<'_>) {
    unpacker.text(text);
    unpacker.property(PropertyKind::Script, "");
}
