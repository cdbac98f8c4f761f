//! Archives and compressed files that safe decoders read: zip, gzip, bzip2, xz, lzma, zstd, tar,
//! cpio, ar, 7z.

mod ar;
mod compressed;
mod cpio;
mod gzip;
mod sevenz;
pub(super) mod tar;
pub(crate) mod zip;

use gauntlet_sniff::FileKind as K;

use crate::unpack::Unpacker;

/// Reads an object of one of these kinds.
pub(crate) fn decode(kind: K, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    match kind {
        K::Gzip => gzip::decode(bytes, unpacker),
        K::Bzip2 | K::Xz | K::Lzma | K::Zstd => compressed::decode(kind, bytes, unpacker),
        K::Tar => tar::decode(bytes, unpacker),
        K::Cpio => cpio::decode(bytes, unpacker),
        K::Ar => ar::decode(bytes, unpacker),
        K::SevenZip => sevenz::decode(bytes, unpacker),
        K::Zip | K::OfficeXml | K::OpenDocument | K::Jar | K::Apk => zip::decode(bytes, unpacker),
        _ => {}
    }
}
