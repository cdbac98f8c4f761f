//! Installers of Symbian OS before version 9 and of EPOC (SIS): files, each compressed by itself,
//! some in several languages.

use flate2::read::ZlibDecoder;

use crate::formats::numbers::{slice, u16_at, u32_at};
use crate::host::Child;
use crate::object::DefectKind;
use crate::text;
use crate::unpack::Unpacker;

/// Options of the whole: names are UTF-16, files are stored.
const IS_UNICODE: u16 = 1;
const IS_STORED: u16 = 8;
/// Records of files and of conditions.
const RECORDS_MAX: usize = 4_096;
/// Bytes of a file's record up to the first length, and behind the last size.
const FILE_HEAD_BYTES: usize = 28;
const FILE_TAIL_BYTES: usize = 8;

/// Adds every file, in each language.
pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let fields = (u16_at(bytes, 18), u16_at(bytes, 20), u16_at(bytes, 0x24), u32_at(bytes, 0x34));
    let (Some(languages), Some(files), Some(options), Some(start)) = fields else {
        return unpacker.defect(DefectKind::Truncated, "the header");
    };
    let mut at = start as usize;
    let mut left = files;
    for _ in 0..RECORDS_MAX {
        if left == 0 || unpacker.is_over() {
            return;
        }
        let Some(kind) = u32_at(bytes, at) else {
            return unpacker.defect(DefectKind::Truncated, "the list of files");
        };
        let next = match kind {
            0 => record(bytes, at, 1, options, unpacker),
            1 => record(bytes, at, usize::from(languages), options, unpacker),
            // Choices of the user, conditions with their expressions, and their ends.
            2 => u32_at(bytes, at + 4)
                .map(|count| at + 24 + 8 * count.min(64) as usize * usize::from(languages)),
            3 | 4 => u32_at(bytes, at + 4).map(|size| at.saturating_add(8 + size as usize)),
            5 | 6 => Some(at + 4),
            _ => None,
        };
        let Some(next) = next else {
            return unpacker.defect(DefectKind::Corrupt, "the list of files");
        };
        at = next;
        left -= u16::from(kind < 2);
    }
    unpacker.defect(DefectKind::TooManyObjects, "records of an installer");
}

/// Adds the file of a record; where the next one begins.
fn record(
    bytes: &[u8],
    at: usize,
    count: usize,
    options: u16,
    unpacker: &mut Unpacker<'_>,
) -> Option<usize> {
    let name = name(bytes, u32_at(bytes, at + 20)?, u32_at(bytes, at + 24)?, options);
    let lengths = at + FILE_HEAD_BYTES;
    let (places, sizes) = (lengths + 4 * count, lengths + 8 * count);
    for index in 0..count {
        if unpacker.is_over() {
            break;
        }
        let length = u32_at(bytes, lengths + 4 * index)? as usize;
        let place = u32_at(bytes, places + 4 * index)? as usize;
        let data = slice(bytes, place, length);
        if data.len() < length {
            unpacker.defect(DefectKind::Truncated, &name);
        }
        let packed = data.len() as u64;
        let body = match options & IS_STORED {
            0 => unpacker.read_made(|| ZlibDecoder::new(data), packed, &name),
            _ => unpacker.read(&mut &*data, packed, &name),
        };
        unpacker.child(Child::named(&name), &body);
    }
    Some(sizes + 4 * count + FILE_TAIL_BYTES)
}

fn name(bytes: &[u8], length: u32, at: u32, options: u16) -> String {
    let name = slice(bytes, at as usize, length as usize);
    // Drive "!" is the one that the user chooses.
    let name = match options & IS_UNICODE {
        0 => text::file_name(name),
        _ => text::utf16_le(name),
    };
    name.trim_start_matches(['!', ':', '\\']).to_owned()
}

#[cfg(test)]
mod tests {
    use crate::formats::testing::{nasty, paths, tree};

    /// "hello", stored by zlib.
    const PACKED: [u8; 16] = [
        0x78, 0x01, 0x01, 0x05, 0x00, 0xfa, 0xff, b'h', b'e', b'l', b'l', b'o', 0x06, 0x2c, 0x02,
        0x15,
    ];
    const NAME: &[u8] = b"!:\\a\\b.txt";

    #[test]
    fn files_in_one_language_and_in_two() {
        const RECORDS_AT: usize = 0x66;
        // A file of one language, the end of a condition, a file of two languages.
        let name = RECORDS_AT + 48 + 4 + 60;
        let (data, length) = (name + NAME.len(), PACKED.len());
        let mut whole = vec![0; RECORDS_AT];
        whole[4..12].copy_from_slice(&[0x12, 0x3a, 0, 0x10, 0x19, 4, 0, 0x10]);
        (whole[18], whole[20], whole[0x34]) = (2, 2, 0x66);
        let records = [
            &[0, 0, 0, 0, 0, NAME.len(), name, length, data, 5, 0, 0][..],
            &[5],
            &[1, 0, 0, 0, 0, NAME.len(), name, length, length, data, data, 5, 5, 0, 0],
        ];
        let numbers = records.concat().into_iter().map(|n| u32::try_from(n).unwrap());
        whole.extend(numbers.flat_map(u32::to_le_bytes));
        assert_eq!(whole.len(), name);
        whole.extend(NAME);
        whole.extend(PACKED);
        let found = tree(&whole, "a.sis");
        assert_eq!(paths(&found), ["a.sis", "a.sis/a\\b.txt", "a.sis/a\\b.txt", "a.sis/a\\b.txt"]);
        assert!(found.objects[1..].iter().all(|object| object.text == "hello"));
        nasty(&whole, "a.sis");
    }
}
