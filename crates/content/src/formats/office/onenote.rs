//! OneNote sections (MS-ONESTORE): the files that are attached to a page.

use memchr::memmem;

use crate::host::Child;
use crate::object::{DefectKind, PropertyKind};
use crate::unpack::Unpacker;

/// Before each file: `{BDE316E7-2665-4511-A4C4-8D4D0B7A9EAC}` (FileDataStoreObject, 2.6.13).
const FILE: [u8; 16] = [
    0xe7, 0x16, 0xe3, 0xbd, 0x65, 0x26, 0x11, 0x45, 0xa4, 0xc4, 0x8d, 0x4d, 0x0b, 0x7a, 0x9e, 0xac,
];
/// Identifier, length, unused and reserved bytes.
const HEADER_BYTES: usize = 36;

/// Adds every attached file.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    for (number, at) in memmem::find_iter(bytes, &FILE).enumerate() {
        if unpacker.is_over() {
            return;
        }
        let Some(header) = bytes.get(at..at + HEADER_BYTES) else { return };
        let length = u64::from_le_bytes(header[16..24].try_into().unwrap_or_default());
        let start = at + HEADER_BYTES;
        let end = start.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
        if end > bytes.len() {
            unpacker.defect(DefectKind::Truncated, "");
        }
        unpacker.property(PropertyKind::EmbeddedFile, "");
        let body = &bytes[start..end.min(bytes.len())];
        unpacker.child(Child::named(format!("attachment-{}", number + 1)), body);
    }
}

#[cfg(test)]
mod tests {
    use super::FILE;
    use crate::formats::testing::{nasty, paths, tree};

    #[test]
    fn attached_files() {
        let magic = b"\xe4\x52\x5c\x7b\x8c\xd8\xa7\x4d\xae\xb1\x53\x78\xd0\x29\x96\xd3";
        let whole =
            [&magic[..], &[0; 64], &FILE, &4u64.to_le_bytes(), &[0; 12], b"MZ\x90\0"].concat();
        let found = tree(&whole, "a.one");
        assert_eq!(paths(&found), ["a.one", "a.one/attachment-1"]);
        assert_eq!(found.objects[1].kind, crate::FileKind::WindowsProgram);
        nasty(&whole, "a.one");
    }
}
