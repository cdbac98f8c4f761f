//! Archives and disk images that programs of the system read: RAR, CAB, LHA, ISO 9660; and disks.
//!
//! The host has `bsdtar` (libarchive) turn them into a tar archive. Where it is not installed, or
//! does not read the format, the object says so: what is in it was not seen.

mod disk;

use gauntlet_sniff::FileKind as K;

use super::archive::tar;
use crate::object::{DefectKind, PropertyKind};
use crate::unpack::Unpacker;

/// Reads an object of one of these kinds.
pub(crate) fn decode(kind: K, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    match kind {
        K::DiskImage if disk::is_match(bytes) => disk::decode(bytes, unpacker),
        K::Rar | K::Cab | K::Lha | K::DiskImage => {
            if kind == K::Rar && gauntlet_sniff::is_encrypted(bytes) {
                unpacker.property(PropertyKind::Encrypted, "");
                return unpacker.defect(DefectKind::Encrypted, "names are encrypted, too");
            }
            // Windows shows the files of UDF, the program those of ISO 9660 beside it.
            if kind == K::DiskImage && has_udf(bytes) {
                unpacker.defect(DefectKind::Unsupported, "a file system of UDF");
            }
            if let Some(archive) = unpacker.convert(kind, bytes) {
                tar::decode(&archive, unpacker);
            }
        }
        _ => {}
    }
}

/// Whether the volume recognition sequence names UDF (ECMA-167 section 2/9.1).
fn has_udf(bytes: &[u8]) -> bool {
    const SECTOR_BYTES: usize = 2_048;
    (16..64)
        .filter_map(|sector| bytes.get(sector * SECTOR_BYTES + 1..))
        .any(|descriptor| descriptor.starts_with(b"NSR02") || descriptor.starts_with(b"NSR03"))
}
