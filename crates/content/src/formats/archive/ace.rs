//! ACE 1 and 2: the names of an archive, and the files that are stored. Its compression was never
//! published and its library is no longer safe to use, so that what is compressed stays unread.

use crate::formats::numbers::{slice, u16_at, u32_at};
use crate::host::Child;
use crate::object::{DefectKind, PropertyKind};
use crate::text;
use crate::unpack::Unpacker;

/// Where the signature stands in the first header.
const SIGNATURE_AT: usize = 7;
const FILE: u8 = 1;
/// A header is followed by as many bytes as it says.
const HAS_DATA: u16 = 0x0001;
const IS_VOLUME: u16 = 0x0800;
const IS_ENCRYPTED: u16 = 0x4000;

/// Adds every file; one that cannot be read without bytes, for its name.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    if !bytes.get(SIGNATURE_AT..).is_some_and(|b| b.starts_with(b"**ACE**")) {
        return unpacker.defect(DefectKind::Corrupt, "no main header");
    }
    if u16_at(bytes, 5).is_some_and(|flags| flags & IS_VOLUME != 0) {
        unpacker.property(PropertyKind::Volume, "");
        unpacker.defect(DefectKind::MissingVolume, "");
    }
    let mut at = 0;
    // A checksum and a size, which counts from the type on.
    while let (Some(size), Some(kind), Some(flags)) =
        (u16_at(bytes, at + 2), bytes.get(at + 4), u16_at(bytes, at + 5))
    {
        if unpacker.is_over() {
            return;
        }
        if size < 3 {
            return unpacker.defect(DefectKind::Corrupt, "a header");
        }
        let header = slice(bytes, at + 4, usize::from(size));
        let data_at = at + 4 + usize::from(size);
        let packed = if flags & HAS_DATA != 0 { u32_at(header, 3).unwrap_or(0) } else { 0 };
        let data = slice(bytes, data_at, packed as usize);
        if *kind == FILE {
            file(header, flags, data, unpacker);
        }
        if data.len() < packed as usize {
            unpacker.defect(DefectKind::Truncated, "a file");
        }
        at = data_at + data.len();
    }
}

fn file(header: &[u8], flags: u16, data: &[u8], unpacker: &mut Unpacker<'_>) {
    let (Some(length), Some(method)) = (u16_at(header, 29), header.get(23)) else {
        return unpacker.defect(DefectKind::Corrupt, "the header of a file");
    };
    let name = text::file_name(slice(header, 31, usize::from(length)));
    if flags & IS_ENCRYPTED != 0 {
        unpacker.property(PropertyKind::Encrypted, "");
        unpacker.defect(DefectKind::Encrypted, &name);
    } else if *method == 0 {
        return unpacker.child(Child::named(name), data);
    } else {
        unpacker.defect(DefectKind::Unsupported, &format!("{name}: compressed by ACE"));
    }
    unpacker.child(Child::named(name), b"");
}

#[cfg(test)]
mod tests {
    use crate::DefectKind;
    use crate::formats::testing::{nasty, paths, tree};

    fn file(name: &str, flags: u16, method: u8, data: &[u8]) -> Vec<u8> {
        let mut header = vec![1];
        header.extend((flags | 1).to_le_bytes());
        header.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
        header.extend([0; 16]);
        header.extend([method, 3, 0, 0, 0, 0]);
        header.extend(u16::try_from(name.len()).unwrap().to_le_bytes());
        header.extend(name.as_bytes());
        let size = u16::try_from(header.len()).unwrap().to_le_bytes();
        [&[0, 0][..], &size, &header, data].concat()
    }

    #[test]
    fn names_and_stored_files() {
        let main = [&[0, 0, 16, 0, 0, 0, 0][..], b"**ACE**", &[20, 20, 2, 0, 0, 0]].concat();
        let whole = [
            main,
            file("a.txt", 0, 0, b"hello"),
            file("b.exe", 0, 1, b"\x01\x02"),
            file("c.exe", 0x4000, 1, b"\x01\x02"),
        ]
        .concat();
        let found = tree(&whole, "a.ace");
        assert_eq!(paths(&found), ["a.ace", "a.ace/a.txt", "a.ace/b.exe", "a.ace/c.exe"]);
        assert_eq!(found.objects[1].text, "hello");
        let kinds: Vec<DefectKind> = found.objects[0].defects.iter().map(|d| d.kind).collect();
        assert_eq!(kinds, [DefectKind::Unsupported, DefectKind::Encrypted]);
        nasty(&whole, "a.ace");
    }
}
