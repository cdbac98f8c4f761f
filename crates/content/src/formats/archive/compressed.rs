//! Files that are compressed as one: bzip2, xz, lzma and Zstandard (RFC 8878), each possibly in
//! several streams that follow each other.

use std::io::Read;

use bzip2::bufread::MultiBzDecoder;
use gauntlet_sniff::FileKind;
use lzma_rust2::{LzmaReader, XzReader};
use ruzstd::decoding::StreamingDecoder;

use crate::formats::inner_name;
use crate::host::Child;
use crate::object::DefectKind;
use crate::unpack::Unpacker;

/// Memory of a dictionary, in KiB.
pub(super) const DICTIONARY_KIB_MAX: u32 = 64 * 1024;
/// Zstandard frames that are read as one file.
const FRAMES_MAX: usize = 256;
/// Streams of xz that are read as one file.
const STREAMS_MAX: usize = 256;
/// What a stream of xz begins with (The .xz File Format, section 2.1.1.1).
const XZ_MAGIC: &[u8] = b"\xfd7zXZ\0";

/// Adds the file inside.
pub(super) fn decode(kind: FileKind, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let packed = bytes.len() as u64;
    let (file, endings): (Vec<u8>, &[&str]) = match kind {
        FileKind::Bzip2 => {
            let mut reader = MultiBzDecoder::new(bytes);
            (unpacker.read(&mut reader, packed, ""), &[".bz2", ".tbz2", ".tbz", ".bz"])
        }
        FileKind::Xz => (xz(bytes, unpacker), &[".xz", ".txz"]),
        FileKind::Lzma => match LzmaReader::new_mem_limit(bytes, DICTIONARY_KIB_MAX, None) {
            Ok(mut reader) => (unpacker.read(&mut reader, packed, ""), &[".lzma", ".tlz"]),
            Err(error) => return unpacker.defect(DefectKind::Unsupported, &error.to_string()),
        },
        FileKind::Zstd => (zstd(bytes, unpacker), &[".zst", ".tzst", ".zstd"]),
        _ => return,
    };
    let name = inner_name(unpacker, endings);
    unpacker.child(Child::named(name), &file);
}

/// Streams one behind the other, with zeros between them. Each has a reader of its own: one that
/// goes on by itself calls itself for each stream that is empty.
fn xz(bytes: &[u8], unpacker: &mut Unpacker<'_>) -> Vec<u8> {
    let mut all = Vec::new();
    let mut rest = bytes;
    for _ in 0..STREAMS_MAX {
        let stream = unpacker.read(&mut XzReader::new(&mut rest, false), bytes.len() as u64, "");
        all.extend_from_slice(&stream);
        let padding = rest.iter().take_while(|byte| **byte == 0).count();
        rest = rest.get(padding..).unwrap_or_default();
        if !rest.starts_with(XZ_MAGIC) {
            return all;
        }
        if unpacker.is_over() || all.len() as u64 > unpacker.limits().object_bytes_max {
            return all;
        }
    }
    unpacker.defect(DefectKind::Unsupported, "more streams than are read");
    all
}

/// Frames one behind the other; skippable ones are left out.
fn zstd(bytes: &[u8], unpacker: &mut Unpacker<'_>) -> Vec<u8> {
    let mut all = Vec::new();
    let mut rest = bytes;
    for _ in 0..FRAMES_MAX {
        if let Some(behind) = skippable(rest) {
            rest = behind;
            continue;
        }
        if rest.is_empty() || unpacker.is_over() {
            return all;
        }
        match StreamingDecoder::new(&mut rest) {
            Ok(mut decoder) => {
                let frame = unpacker.read(&mut decoder, bytes.len() as u64, "");
                let whole = decoder.decoder.is_finished();
                all.extend_from_slice(&frame);
                if !whole || all.len() as u64 > unpacker.limits().object_bytes_max {
                    return all;
                }
            }
            Err(error) => {
                unpacker.defect(DefectKind::Corrupt, &error.to_string());
                return all;
            }
        }
    }
    if !rest.is_empty() {
        unpacker.defect(DefectKind::Unsupported, "more frames than are read");
    }
    all
}

/// What follows a skippable frame (RFC 8878 section 3.1.2).
fn skippable(bytes: &[u8]) -> Option<&[u8]> {
    let [0x50..=0x5f, 0x2a, 0x4d, 0x18, a, b, c, d, behind @ ..] = bytes else { return None };
    behind.get(u32::from_le_bytes([*a, *b, *c, *d]) as usize..)
}

/// A raw stream of one of the methods that ZIP shares with these formats.
pub(super) fn zstd_reader(bytes: &[u8]) -> Option<Box<dyn Read + '_>> {
    StreamingDecoder::new(bytes).ok().map(|decoder| Box::new(decoder) as Box<dyn Read>)
}
