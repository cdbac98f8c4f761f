//! Files that are compressed as one: bzip2, xz, lzma, lzip and Zstandard (RFC 8878), each possibly
//! in several streams that follow each other.

use std::io::Read;

use bzip2::bufread::MultiBzDecoder;
use gauntlet_sniff::FileKind;
use lzma_rust2::{LzmaReader, XzReader};
use ruzstd::decoding::StreamingDecoder;

use crate::formats::inner_name;
use crate::host::Child;
use crate::object::{DefectKind, PropertyKind};
use crate::salvage::Salvage;
use crate::unpack::Unpacker;

/// Memory of a dictionary, in KiB.
pub(super) const DICTIONARY_KIB_MAX: u32 = 64 * 1024;
/// Zstandard frames that are read as one file.
const FRAMES_MAX: usize = 256;
/// Streams of xz that are read as one file.
const STREAMS_MAX: usize = 256;
/// What a stream of xz begins with (The .xz File Format, section 2.1.1.1).
const XZ_MAGIC: &[u8] = b"\xfd7zXZ\0";

/// Properties of LZMA in lzip: 3 bits of context, none of position for literals, 2 for others.
const LZIP_PROPERTIES: u8 = 0x5d;
/// Bytes behind a member of lzip: checksum, sizes of the data and of the member.
const LZIP_TAIL_BYTES: usize = 20;

/// Adds the file inside.
pub(super) fn decode(kind: FileKind, bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let packed = bytes.len() as u64;
    let (file, endings): (Vec<u8>, &[&str]) = match kind {
        FileKind::Bzip2 => {
            let file = unpacker.read_made(|| MultiBzDecoder::new(bytes), packed, "");
            (file, &[".bz2", ".tbz2", ".tbz", ".bz"])
        }
        FileKind::Xz => (xz(bytes, unpacker), &[".xz", ".txz"]),
        FileKind::Lzma => {
            let make = || LzmaReader::new_mem_limit(bytes, DICTIONARY_KIB_MAX, None);
            match make() {
                Ok(reader) => {
                    let mut reader = Salvage::new(reader, || make().ok());
                    (unpacker.read(&mut reader, packed, ""), &[".lzma", ".tlz"])
                }
                Err(error) => return unpacker.defect(DefectKind::Unsupported, &error.to_string()),
            }
        }
        FileKind::Lzip => (lzip(bytes, unpacker), &[".lz", ".tlz"]),
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
        let make = || XzReader::new(rest, false);
        let mut reader = Salvage::new(make(), || Some(make()));
        let stream = unpacker.read(&mut reader, bytes.len() as u64, "");
        all.extend_from_slice(&stream);
        rest = reader.into_inner().into_inner();
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

/// Members one behind the other (lzip manual, "File format"): a head with the size of the
/// dictionary, LZMA with an end mark, checksum and sizes.
fn lzip(bytes: &[u8], unpacker: &mut Unpacker<'_>) -> Vec<u8> {
    let mut all = Vec::new();
    let mut rest = bytes;
    for _ in 0..STREAMS_MAX {
        let [b'L', b'Z', b'I', b'P', version, size, stream @ ..] = rest else {
            if !rest.is_empty() {
                unpacker.property(PropertyKind::DataBehind, "");
            }
            return all;
        };
        if *version != 1 {
            unpacker.defect(DefectKind::Unsupported, "a version of lzip");
            return all;
        }
        // A power of two, less some sixteenths of it.
        let power = 1u32.checked_shl(u32::from(size & 0x1f)).unwrap_or(0);
        let dictionary = power - power / 16 * u32::from(size >> 5);
        if dictionary / 1024 > DICTIONARY_KIB_MAX {
            unpacker.defect(DefectKind::TooMuchMemory, "a dictionary");
            return all;
        }
        let make =
            || LzmaReader::new_with_props(stream, u64::MAX, LZIP_PROPERTIES, dictionary, None);
        let mut reader = match make() {
            Ok(reader) => Salvage::new(reader, || make().ok()),
            Err(error) => {
                unpacker.defect(DefectKind::Corrupt, &error.to_string());
                return all;
            }
        };
        all.extend(unpacker.read(&mut reader, bytes.len() as u64, ""));
        let behind = reader.into_inner().into_inner();
        if behind.len() < LZIP_TAIL_BYTES {
            unpacker.defect(DefectKind::Truncated, "");
        }
        rest = behind.get(LZIP_TAIL_BYTES..).unwrap_or_default();
        if unpacker.is_over() || all.len() as u64 > unpacker.limits().object_bytes_max {
            return all;
        }
    }
    unpacker.defect(DefectKind::Unsupported, "more members than are read");
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
