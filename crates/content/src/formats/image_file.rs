//! Archives and disk images that programs of the system read: RAR, CAB, LHA, ISO 9660.
//!
//! The host has `bsdtar` (libarchive) turn them into a tar archive. Where it is not installed, or
//! does not read the format, the object says so: what is in it was not seen.

use gauntlet_sniff::FileKind as K;

use super::archive::tar;
use crate::object::{DefectKind, PropertyKind};
use crate::unpack::Unpacker;

/// Reads an object of one of these kinds.
pub(crate) fn decode(kind: K, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    match kind {
        K::Rar | K::Cab | K::Lha | K::DiskImage => {
            if kind == K::Rar && gauntlet_sniff::is_encrypted(bytes) {
                unpacker.property(PropertyKind::Encrypted, "");
                return unpacker.defect(DefectKind::Encrypted, "names are encrypted, too");
            }
            if let Some(archive) = unpacker.convert(kind, bytes) {
                tar::decode(&archive, unpacker);
            }
        }
        _ => {}
    }
}
