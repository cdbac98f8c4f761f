//! Archives and compressed files that safe decoders read: zip, gzip, bzip2, xz, lzma, zstd, tar,
//! cpio, ar, 7z.

mod gzip;

use gauntlet_sniff::FileKind;

use crate::unpack::Unpacker;

/// Reads an object of one of these kinds.
pub(crate) fn decode(kind: FileKind, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    if kind == FileKind::Gzip {
        gzip::decode(bytes, unpacker);
    }
}
