//! Archives and compressed files that safe decoders read: zip, gzip, bzip2, xz, lzma, lzip, zstd,
//! tar, cpio, ar, 7z, ARJ, ACE, CHM, SIS and the compressor of old Windows.

mod ace;
mod ar;
mod arj;
mod chm;
mod compressed;
mod cpio;
#[cfg(test)]
mod damage_tests;
mod gzip;
pub(super) mod lz;
mod ms_compress;
mod sevenz;
mod sis;
pub(super) mod tar;
pub(crate) mod zip;

use gauntlet_sniff::FileKind as K;

use crate::unpack::Unpacker;

pub(super) use self::sevenz::end as seven_zip_end;
pub(super) use self::zip::end as zip_end;

/// Whether a file is a ZIP, whatever else it is.
pub(super) fn is_zip(kind: K) -> bool {
    matches!(kind, K::Zip | K::OfficeXml | K::OpenDocument | K::Jar | K::Apk)
}

/// Reads an object of one of these kinds.
pub(crate) fn decode(kind: K, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    match kind {
        K::Gzip => gzip::decode(bytes, unpacker),
        K::Bzip2 | K::Xz | K::Lzma | K::Lzip | K::Zstd => compressed::decode(kind, bytes, unpacker),
        K::Tar => tar::decode(bytes, unpacker),
        K::Cpio => cpio::decode(bytes, unpacker),
        K::Ar => ar::decode(bytes, unpacker),
        K::Arj => arj::decode(bytes, unpacker),
        K::Ace => ace::decode(bytes, unpacker),
        K::Help => chm::decode(bytes, unpacker),
        K::MsCompress => ms_compress::decode(bytes, unpacker),
        K::SymbianInstaller => sis::decode(bytes, unpacker),
        K::SevenZip => sevenz::decode(bytes, unpacker),
        kind if is_zip(kind) => zip::decode(bytes, unpacker),
        _ => {}
    }
}
