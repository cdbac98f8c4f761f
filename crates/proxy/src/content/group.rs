//! Groups of kinds of files, as `blocked_types` names them.

use gauntlet_sniff::FileKind;

/// The group of a kind.
pub(super) fn group(kind: FileKind) -> Option<&'static str> {
    use FileKind as K;
    match kind {
        kind if kind.is_program() => Some("program"),
        K::SymbianInstaller | K::MsCompress => Some("program"),
        K::Pdf | K::Rtf | K::Ole | K::OfficeXml | K::OpenDocument | K::OneNote => Some("document"),
        K::Image => Some("image"),
        K::Media => Some("media"),
        K::Zip | K::Gzip | K::Bzip2 | K::Xz | K::Zstd | K::SevenZip | K::Rar | K::Cab | K::Tar => {
            Some("archive")
        }
        K::Lzip | K::Compress | K::Lz4 | K::Lzop | K::Xar => Some("archive"),
        K::DiskImage | K::Ace | K::Arj | K::Lzma | K::Lha | K::Cpio | K::Ar => Some("archive"),
        _ => None,
    }
}
