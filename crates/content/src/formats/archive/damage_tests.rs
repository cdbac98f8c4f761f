//! Damaged streams: what stands before the fault is read, and the damage is known.

use gauntlet_sniff::object::Tree;

use crate::DefectKind;
use crate::formats::testing::{base64, tree};

/// A deflate stream of the content that is damaged behind it: its block has no end, and a block of
/// a type that there is not follows.
fn damaged_deflate(content: &[u8]) -> Vec<u8> {
    let mut stream = Vec::with_capacity(content.len() + 1_000);
    let mut deflate = flate2::Compress::new(flate2::Compression::best(), false);
    deflate.compress_vec(content, &mut stream, flate2::FlushCompress::Sync).unwrap();
    stream.extend([0xff; 16]);
    stream
}

/// A ZIP with this stream as its only file, of the content.
fn zip_of(stream: &[u8], content: &[u8]) -> Vec<u8> {
    let name = b"invoice.txt";
    let number = |n: usize| u32::try_from(n).unwrap().to_le_bytes();
    let sums =
        [crc32fast::hash(content).to_le_bytes(), number(stream.len()), number(content.len())];
    let fixed = [&[20, 0, 0, 0, 8, 0, 0, 0, 0, 0][..], &sums.concat(), &[11, 0, 0, 0]].concat();
    let local = [b"PK\x03\x04", &fixed[..], name, stream].concat();
    let central = [b"PK\x01\x02\x14\0", &fixed[..], &[0; 14], name].concat();
    let end =
        [&b"PK\x05\x06\0\0\0\0\x01\0\x01\0"[..], &number(central.len()), &number(local.len())];
    [&local[..], &central, &end.concat(), &[0, 0]].concat()
}

fn gzip_of(stream: &[u8]) -> Vec<u8> {
    [b"\x1f\x8b\x08\0\0\0\0\0\0\x03", stream].concat()
}

fn unread(tree: &Tree) -> Vec<DefectKind> {
    tree.unread().map(|(_, defect)| defect.kind).collect()
}

/// Contents below and above the buffer of a reading.
fn contents() -> [Vec<u8>; 3] {
    let word = |n: usize| format!("line {n}: {:x}\n", n * 7_919).into_bytes();
    [300, 20_000, 80_000].map(|lines| (0..lines).flat_map(word).collect())
}

#[test]
fn what_stands_before_the_fault_of_a_deflate_stream_is_read() {
    for content in contents() {
        let stream = damaged_deflate(&content);
        for whole in [zip_of(&stream, &content), gzip_of(&stream)] {
            let found = tree(&whole, "invoice.zip");
            assert_eq!(found.objects[1].size, content.len() as u64);
            let digest = crate::digest::of(&content).0;
            assert_eq!(found.objects[1].sha256, digest);
            assert_eq!(unread(&found), [DefectKind::Corrupt], "{:?}", found.objects[0]);
        }
    }
}

#[test]
fn what_stands_before_the_fault_of_lzma_is_read() {
    // LZMA2: a chunk that is stored, and a byte of control that there is not (The .xz File Format,
    // section 5.3.1).
    let content = b"hello before the fault";
    let size = u16::try_from(content.len() - 1).unwrap().to_be_bytes();
    let whole = base64(super::zip::FILE_XZ);
    // Headers of the stream and the block.
    let damaged = [&whole[..24], &[1], &size, content, &[0x7f; 40]].concat();
    let found = tree(&damaged, "a.txt.xz");
    assert_eq!(found.objects[1].text, "hello before the fault");
    assert_eq!(unread(&found), [DefectKind::Corrupt]);
    // Cut, in each format; a decoder may guess a little behind the end.
    for (file, name) in [(super::zip::FILE_XZ, "a.xz"), (super::zip::FILE_LZMA, "a.lzma")] {
        let whole = base64(file);
        let found = tree(&whole, name);
        let text = found.objects[1].text.clone();
        assert!(unread(&found).is_empty());
        for end in [whole.len() - 5, whole.len() - 12] {
            let cut = tree(&whole[..end], name);
            assert!(cut.objects[1].text.starts_with(&text[..20.min(text.len())]), "{name} {end}");
            assert!(!unread(&cut).is_empty(), "{name} {end}");
        }
    }
}

#[test]
fn a_7z_with_a_wrong_checksum_or_a_fault_is_read_as_far_as_it_goes() {
    let bytes = base64(super::zip::SEVENZ_LATER_BLOCK);
    let whole = crate::formats::testing::tree_with(&bytes, "a.7z", &["secret"]);
    assert!(unread(&whole).is_empty());
    // The first block is stored in a chunk of LZMA2 behind its three bytes of control.
    let mut changed = bytes.clone();
    changed[32 + 5] ^= 1;
    let found = crate::formats::testing::tree_with(&changed, "a.7z", &["secret"]);
    let sizes = |tree: &Tree| tree.objects.iter().map(|o| o.size).collect::<Vec<_>>();
    assert_eq!(sizes(&found), sizes(&whole));
    assert_eq!(unread(&found), [DefectKind::Corrupt]);
    assert!(found.objects[0].defects[0].detail.ends_with("a checksum is wrong"), "{found:?}");
    // One that is cut, and the first of several.
    let cut = tree(&bytes[..bytes.len() - 9], "a.7z");
    assert_eq!(unread(&cut), [DefectKind::Truncated]);
    let first = tree(&bytes[..bytes.len() - 9], "a.7z.001");
    assert_eq!(unread(&first), [DefectKind::MissingVolume]);
}

#[test]
fn lzip_in_members_and_what_nothing_here_reads() {
    // The stream of an LZMA file, which has an end mark, in the frame of lzip.
    let lzma = base64(super::zip::FILE_LZMA);
    let member = [b"LZIP\x01\x10", &lzma[13..], &[0; 20]].concat();
    let whole = [&member[..], &member].concat();
    let found = tree(&whole, "a.txt.lz");
    assert_eq!(found.objects[1].name, "a.txt");
    assert_eq!(found.objects[1].size, 2 * 580, "{found:?}");
    assert!(unread(&found).is_empty());
    assert!(!unread(&tree(&member[..30], "a.lz")).is_empty());
    assert_eq!(unread(&tree(b"LZIP\x01\x1f...............", "a.lz")), [DefectKind::TooMuchMemory]);
    crate::formats::testing::nasty(&whole, "a.lz");
    let closed: [&[u8]; 5] = [
        b"\x1f\x9d\x90MZ and more",
        b"\x04\x22\x4d\x18\x64\x40\xa7",
        b"\x02\x21\x4c\x18\x10\0\0\0",
        b"\x89LZO\0\r\n\x1a\n\x10\x30",
        b"xar!\0\x1c\0\x01\0\0",
    ];
    for bytes in closed {
        assert_eq!(unread(&tree(bytes, "a")), [DefectKind::Unsupported], "{bytes:?}");
    }
}
