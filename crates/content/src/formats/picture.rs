//! Pictures: their size, and QR codes in them.

use gauntlet_sniff::FileKind;

use crate::unpack::Unpacker;

/// Reads an object of one of these kinds.
pub(crate) fn decode(_kind: FileKind, _bytes: &[u8], _unpacker: &mut Unpacker<'_>) {}
