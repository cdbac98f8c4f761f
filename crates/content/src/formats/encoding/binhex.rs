//! BinHex 4.0 (RFC 1741 appendix A): a Macintosh file with its data and resource forks as text.

use memchr::memmem;

use crate::host::Child;
use crate::object::DefectKind;
use crate::text;
use crate::unpack::Unpacker;

const ALPHABET: &[u8; 64] = b"!\"#$%&'()*+,-012345689@ABCDEFGHIJKLMNPQRSTUVXYZ[`abcdefhijklmpqr";
/// Byte that says how often the one before is repeated.
const REPEAT: u8 = 0x90;

/// Adds the data fork by the file's name, and the resource fork if there is one.
pub(super) fn decode(text: &[u8], unpacker: &mut Unpacker<'_>) {
    let head = memmem::find(text, b"(This file must be converted with BinHex");
    let start = head.and_then(|at| memchr::memchr(b':', &text[at..]).map(|colon| at + colon + 1));
    let Some(start) = start else { return };
    let limit = usize::try_from(unpacker.limits().object_bytes_max).unwrap_or(usize::MAX);
    let bytes = expanded(&sextets(&text[start..]), limit);
    let Some((&length, rest)) = bytes.split_first() else { return };
    let length = usize::from(length);
    // Name, NUL, type, creator, flags, lengths of the forks, checksum.
    let Some(header) = rest.get(..length + 21) else {
        return unpacker.defect(DefectKind::Truncated, "header");
    };
    let name = text::file_name(&header[..length]);
    let number = |at: usize| {
        let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        u32::from_be_bytes(bytes) as usize
    };
    let (data, resource) = (number(length + 11), number(length + 15));
    let forks = &rest[length + 21..];
    let fork = |start: usize, size: usize| {
        forks
            .get(start.min(forks.len())..start.saturating_add(size).min(forks.len()))
            .unwrap_or_default()
    };
    if forks.len() < data {
        unpacker.defect(DefectKind::Truncated, &name);
    }
    unpacker.child(Child::named(name.clone()), fork(0, data));
    let resource = fork(data.saturating_add(2), resource);
    if !resource.is_empty() {
        unpacker.child(Child::named(format!("{name}.rsrc")), resource);
    }
}

/// The bytes of the characters up to the next colon.
fn sextets(text: &[u8]) -> Vec<u8> {
    let (mut out, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for &byte in text.iter().take_while(|b| **b != b':') {
        let Some(value) = ALPHABET.iter().position(|&a| a == byte) else { continue };
        bits = bits << 6 | value as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

/// Without run lengths: `BYTE 0x90 COUNT`; a count of zero is the byte 0x90 itself.
fn expanded(bytes: &[u8], limit: usize) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::new();
    let mut rest = bytes.iter();
    while let Some(&byte) = rest.next() {
        if out.len() >= limit {
            break;
        }
        if byte != REPEAT {
            out.push(byte);
            continue;
        }
        match (rest.next().copied().unwrap_or(0), out.last().copied()) {
            (0, _) => out.push(REPEAT),
            (count, Some(last)) => out.resize(out.len() + usize::from(count) - 1, last),
            (_, None) => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{nasty, paths, tree};

    /// A file in BinHex, without checksums.
    fn encoded(name: &str, data: &[u8], resource: &[u8]) -> String {
        let mut bytes = vec![u8::try_from(name.len()).unwrap()];
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b"\0TEXTttxt\0\0");
        bytes.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        bytes.extend(u32::try_from(resource.len()).unwrap().to_be_bytes());
        bytes.extend([&[0, 0][..], data, &[0, 0], resource, &[0, 0]].concat());
        let (mut text, mut bits, mut count) = (String::new(), 0u32, 0);
        for byte in bytes {
            bits = bits << 8 | u32::from(byte);
            count += 8;
            while count >= 6 {
                count -= 6;
                text.push(char::from(ALPHABET[(bits >> count & 63) as usize]));
            }
        }
        text.push(char::from(ALPHABET[(bits << (6 - count) & 63) as usize]));
        format!("(This file must be converted with BinHex 4.0)\r\n:{text}:\r\n")
    }

    #[test]
    fn both_forks() {
        let text = encoded("run.exe", b"MZ in a fork", b"resource");
        let found = tree(text.as_bytes(), "a.hqx");
        assert_eq!(paths(&found), ["a.hqx", "a.hqx/run.exe", "a.hqx/run.exe.rsrc"]);
        assert_eq!((found.objects[1].size, found.objects[2].size), (12, 8));
        nasty(text.as_bytes(), "a.hqx");
    }

    #[test]
    fn runs_are_expanded() {
        assert_eq!(expanded(&[7, REPEAT, 4, 9, REPEAT, 0], 99), [7, 7, 7, 7, 9, REPEAT]);
        assert_eq!(expanded(&[7, REPEAT, 255, REPEAT, 255], 300).len(), 509);
    }
}
