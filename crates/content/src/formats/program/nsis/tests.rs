use std::io::{Read, Write};

use super::super::nsis_bzip2::NsisBzip2;
use crate::DefectKind;
use crate::formats::program::testing::program;
use crate::formats::testing::{nasty, paths, tree};

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A header with one instruction that writes the file at place 0 as `run.exe`.
fn header(is_wide: bool) -> Vec<u8> {
    let mut out = vec![0; 68];
    let number = |value: usize| u32::try_from(value).unwrap().to_le_bytes();
    for (at, value) in [(20, 68), (24, 1), (28, 96)] {
        out[at..at + 4].copy_from_slice(&number(value));
    }
    for value in [20, 0, if is_wide { 1 } else { 3 }, 0, 0, 0, 0] {
        out.extend(number(value));
    }
    // A variable stands before the name.
    match is_wide {
        true => out.extend(
            [0, 0, 3, 0, 5, 0]
                .iter()
                .copied()
                .chain("\\run.exe\0".encode_utf16().flat_map(u16::to_le_bytes)),
        ),
        false => out.extend(b"\0a\0\xfd\x95\x80\\run.exe\0"),
    }
    out
}

fn installer(data: &[u8], header_size: usize) -> Vec<u8> {
    let mut out = program(&[0xc3], false);
    let number = |value: usize| u32::try_from(value).unwrap().to_le_bytes();
    out.extend(number(0));
    out.extend(b"\xef\xbe\xad\xdeNullsoftInst");
    out.extend(number(header_size));
    out.extend(number(28 + data.len() + 4));
    out.extend(data);
    out.extend([0; 4]);
    out
}

fn sized(bytes: &[u8], flag: u32) -> Vec<u8> {
    let size = u32::try_from(bytes.len()).unwrap() | flag;
    [&size.to_le_bytes()[..], bytes].concat()
}

#[test]
fn files_that_are_compressed_one_by_one() {
    for is_wide in [false, true] {
        let header = header(is_wide);
        let packed = 1 << 31;
        let data = [
            sized(&deflated(&header), packed),
            sized(&deflated(b"hello"), packed),
            sized(b"stored", 0),
        ];
        // The header's size has the highest byte by which the kind is recognized.
        let whole = installer(&data.concat(), header.len());
        let found = tree(&whole, "setup.exe");
        let names = ["setup.exe", "setup.exe/run.exe", "setup.exe/unnamed"];
        assert_eq!(paths(&found), names, "{:?}", found.objects[0].defects);
        assert_eq!((found.objects[1].text.as_str(), &*found.objects[2].text), ("hello", "stored"));
        nasty(&whole, "setup.exe");
    }
}

#[test]
fn files_that_are_compressed_as_one() {
    let header = header(false);
    let all = [sized(&header, 0), sized(b"hello", 0), sized(b"more", 0)].concat();
    let whole = installer(&deflated(&all), header.len());
    let found = tree(&whole, "setup.exe");
    assert_eq!(paths(&found), ["setup.exe", "setup.exe/run.exe", "setup.exe/unnamed"]);
    let cut = tree(&whole[..whole.len() - 30], "setup.exe");
    assert!(cut.objects[0].defects.iter().any(|d| d.kind == DefectKind::Truncated));
    nasty(&whole, "setup.exe");
}

/// A stream of bzip2 with one block, as NSIS writes it: what it leaves out is cut out.
fn as_nsis(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    encoder.write_all(bytes).unwrap();
    let whole = encoder.finish().unwrap();
    let bits: Vec<bool> =
        whole.iter().flat_map(|b| (0..8).map(move |i| b >> (7 - i) & 1 != 0)).collect();
    let end: Vec<bool> = (0..48).map(|i| 0x1772_4538_5090_u64 >> (47 - i) & 1 != 0).collect();
    let end = bits.windows(48).rposition(|window| window == end).unwrap();
    let byte = |value: u8| (0..8).map(move |i| value >> (7 - i) & 1 != 0);
    // Behind "BZh9", the mark of a block, its checksum and the bit of randomness.
    let body = bits[32 + 48 + 32 + 1..end].iter().copied();
    let all: Vec<bool> = byte(0x31).chain(body).chain(byte(0x17)).collect();
    let value =
        |bits: &[bool]| (0..8).fold(0, |v, i| v << 1 | u8::from(bits.get(i) == Some(&true)));
    all.chunks(8).map(value).collect()
}

#[test]
fn bzip2_without_its_marks() {
    let text = "the same words, the same words, ".repeat(3_000);
    let runs = [&[7; 1_000][..], text.as_bytes(), &[0; 259], b"xyz"].concat();
    let packed = as_nsis(&runs);
    let mut out = Vec::new();
    NsisBzip2::new(&packed).read_to_end(&mut out).unwrap();
    assert_eq!(out, runs);
    for at in 0..packed.len() {
        let mut out = Vec::new();
        let _ = NsisBzip2::new(&packed[..at]).read_to_end(&mut out);
        let mut changed = packed.clone();
        changed[at] ^= 0x10;
        let _ = NsisBzip2::new(&changed).take(1 << 22).read_to_end(&mut out);
    }
    let header = header(false);
    let all = [sized(&header, 0), sized(b"hello", 0)].concat();
    let whole = installer(&as_nsis(&all), header.len());
    assert_eq!(tree(&whole, "a.exe").objects[1].text, "hello");
}
