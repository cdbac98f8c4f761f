use std::io::Write;

use super::*;
use crate::formats::program::testing::program;
use crate::formats::testing::{nasty, paths, tree};

fn masked_entry(name: &str, file: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(file).unwrap();
    let body = encoder.finish().unwrap();
    let key: Vec<u8> = name.bytes().zip(MASK.iter().cycle()).map(|(a, b)| a ^ b).collect();
    let masked = body.chunks(CHUNK_BYTES).flat_map(|chunk| {
        chunk.iter().zip(key.iter().cycle()).map(|(byte, key)| (!byte ^ key).rotate_left(4))
    });
    let mut out = name.as_bytes().to_vec();
    out.resize(ENTRY_BYTES, 0);
    out[NAME_BYTES] = 6;
    let size = u32::try_from(body.len()).unwrap().to_le_bytes();
    out[NAME_BYTES + 8..NAME_BYTES + 12].copy_from_slice(&size);
    out.extend(masked);
    out
}

#[test]
fn masked_files() {
    let mut whole = program(&[0xc3], false);
    whole.extend(b"NB10 setup.pdb\0");
    let mut header = MAGIC.to_vec();
    header.push(2);
    header.resize(HEADER_BYTES, 0);
    whole.extend(header);
    // Long enough for a second chunk.
    let noise: Vec<u8> =
        (0..4_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    whole.extend(masked_entry("setup.ini", b"hello"));
    whole.extend(masked_entry("a.bin", &noise));
    let found = tree(&whole, "setup.exe");
    assert_eq!(paths(&found), ["setup.exe", "setup.exe/setup.ini", "setup.exe/a.bin"]);
    assert_eq!(found.objects[1].text, "hello");
    assert_eq!(found.objects[2].sha256, tree(&noise, "x").objects[0].sha256);
    nasty(&whole, "setup.exe");
}

fn listed_file(name: &str, body: &[u8], is_wide: bool) -> Vec<u8> {
    let head = format!("{name}\0Disk1\\{name}\01.0.0.0\0{}\0", body.len());
    let head: Vec<u8> = match is_wide {
        true => head.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        false => head.into_bytes(),
    };
    [&head[..], body].concat()
}

/// A header of one file in a volume, from which it is read by this flag.
fn cabinet_header(flags: u16, packed: usize, size: usize) -> Vec<u8> {
    let mut out = vec![0; 0x200];
    out[..4].copy_from_slice(b"ISc(");
    out[12..14].copy_from_slice(&[0, 2]);
    let mut descriptor = vec![0; 0x40];
    // Names behind the descriptor, entries behind the names.
    (descriptor[0x0c], descriptor[0x28], descriptor[0x2c]) = (0x40, 1, 0x10);
    out.extend(descriptor);
    let mut names = b"\0a.txt\0".to_vec();
    names.resize(0x10, 0);
    out.extend(names);
    let mut entry = flags.to_le_bytes().to_vec();
    for number in [size, packed, 4] {
        entry.extend((number as u64).to_le_bytes());
    }
    entry.extend([0; 32]);
    entry.extend([1, 0, 0, 0]);
    entry.resize(85, 0);
    entry.extend([1, 0]);
    out.extend(entry);
    out
}

#[test]
fn files_of_a_list_and_of_the_cabinets_in_it() {
    let deflated = {
        let mut encoder =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(b"hello").unwrap();
        encoder.finish().unwrap()
    };
    let chunk = [&u16::try_from(deflated.len()).unwrap().to_le_bytes()[..], &deflated].concat();
    for (is_wide, is_obfuscated) in [(false, false), (true, true)] {
        let mut body = chunk.clone();
        let mut flags = 4;
        if is_obfuscated {
            flags |= 2;
            for (byte, seed) in body.iter_mut().zip(0u8..) {
                *byte = byte.wrapping_add(seed).rotate_left(2) ^ 0xd5;
            }
        }
        let header = cabinet_header(flags, chunk.len(), 5);
        let volume = [b"ISc(", &body[..]].concat();
        let mut whole = program(&[0xc3], false);
        whole.extend(listed_file("data1.hdr", &header, is_wide));
        whole.extend(listed_file("data1.cab", &volume, is_wide));
        let found = tree(&whole, "setup.exe");
        let names = ["setup.exe", "setup.exe/data1.hdr", "setup.exe/data1.cab", "setup.exe/a.txt"];
        assert_eq!(paths(&found), names, "{:?}", found.objects[0].defects);
        assert_eq!(found.objects[3].text, "hello");
        nasty(&whole, "setup.exe");
    }
}
