//! Installers of the Nullsoft Scriptable Install System (fileform.h of NSIS 2 and 3): a header and
//! files behind a program, compressed each by itself or all as one.

use std::io::Read;

use flate2::bufread::DeflateDecoder;
use lzma_rust2::LzmaReader;
use lzma_rust2::filter::bcj::BcjReader;
use memchr::memmem;

use super::nsis_bzip2::NsisBzip2;
use crate::formats::numbers::{slice, u16_at, u32_at};
use crate::host::Child;
use crate::object::DefectKind;
use crate::salvage::Salvage;
use crate::text;
use crate::unpack::Unpacker;

const MAGIC: &[u8] = b"\xef\xbe\xad\xdeNullsoftInst";
/// Bytes of the first header, and of the checksum at the end.
const HEADER_BYTES: usize = 28;
const CHECKSUM_BYTES: usize = 4;
/// A size with this bit is that of something compressed.
const IS_COMPRESSED: u32 = 1 << 31;
/// Files of one installer; the limits of a request end most earlier.
const FILES_MAX: usize = 65_536;
/// The instruction that writes a file.
const EXTRACT: u32 = 20;
const INSTRUCTION_BYTES: usize = 28;
const DICTIONARY_KIB_MAX: u32 = 64 * 1024;

/// Adds the files of an installer; whether it is one.
pub(super) fn decode(bytes: &[u8], end: usize, unpacker: &mut Unpacker<'_>) -> bool {
    let behind = bytes.get(end..).unwrap_or_default();
    let Some(magic) = memmem::find(behind, MAGIC) else { return false };
    let Some(start) = (end + magic).checked_sub(4) else { return false };
    let (Some(header_size), Some(size)) = (u32_at(bytes, start + 20), u32_at(bytes, start + 24))
    else {
        return false;
    };
    let length = (size as usize).saturating_sub(HEADER_BYTES + CHECKSUM_BYTES);
    let data = slice(bytes, start + HEADER_BYTES, length);
    if data.len() < length {
        unpacker.defect(DefectKind::Truncated, "the installer's files");
    }
    if data.get(3).is_some_and(|top| *top == 0x80) {
        separate(data, unpacker);
    } else {
        solid(data, header_size as usize, unpacker);
    }
    true
}

/// Each file compressed by itself, the header first.
fn separate(data: &[u8], unpacker: &mut Unpacker<'_>) {
    let mut names: Option<Vec<(u32, String)>> = None;
    let (mut at, mut first) = (0, 0);
    for _ in 0..FILES_MAX {
        let Some(size) = u32_at(data, at) else { return };
        let length = (size & !IS_COMPRESSED) as usize;
        let body = slice(data, at + 4, length);
        if unpacker.is_over() {
            return;
        }
        let place = at - first;
        at = at.saturating_add(4).saturating_add(length);
        let is_header = names.is_none();
        let name = match &names {
            Some(names) => name_at(names, place),
            None => String::new(),
        };
        if body.len() < length {
            unpacker.defect(DefectKind::Truncated, &name);
        }
        let file = match size & IS_COMPRESSED {
            0 => unpacker.read(&mut &*body, body.len() as u64, &name),
            _ => match reader(body) {
                Some(first) => {
                    let mut reader = Salvage::new(first, || reader(body));
                    unpacker.read(&mut reader, body.len() as u64, &name)
                }
                None => Vec::new(),
            },
        };
        if is_header {
            first = at;
            names = Some(file_names(&file));
        } else {
            unpacker.child(Child::named(name), &file);
        }
    }
    unpacker.defect(DefectKind::TooManyObjects, "files of an installer");
}

/// All files compressed as one; each has its size before it, the header first.
fn solid(data: &[u8], header_size: usize, unpacker: &mut Unpacker<'_>) {
    let Some(mut reader) = reader(data) else {
        return unpacker.defect(DefectKind::Unsupported, "the installer's compression");
    };
    let packed = data.len() as u64;
    let mut names: Option<Vec<(u32, String)>> = None;
    let mut place = 0;
    for _ in 0..FILES_MAX {
        if unpacker.is_over() {
            return;
        }
        let mut size = [0; 4];
        // Nothing behind the last file.
        if reader.read_exact(&mut size).is_err() {
            return;
        }
        let size = u64::from(u32::from_le_bytes(size) & !IS_COMPRESSED);
        let name = names.as_ref().map_or(String::new(), |names| name_at(names, place));
        let file = unpacker.read(&mut reader.by_ref().take(size), packed, &name);
        if (file.len() as u64) < size {
            return unpacker.defect(DefectKind::Truncated, &name);
        }
        if names.is_none() {
            if file.len() != header_size {
                return unpacker.defect(DefectKind::Corrupt, "the installer's header");
            }
            names = Some(file_names(&file));
        } else {
            place += 4 + file.len();
            unpacker.child(Child::named(name), &file);
        }
    }
    unpacker.defect(DefectKind::TooManyObjects, "files of an installer");
}

/// What decompresses these bytes: the methods are recognized by their first bytes, as 7-Zip does.
fn reader(bytes: &[u8]) -> Option<Box<dyn Read + '_>> {
    let is_lzma = |b: &[u8]| b.starts_with(&[0x5d, 0, 0]) && b.get(4).is_some_and(|d| *d < 8);
    // A byte before it says whether a filter for programs was used.
    let (stream, is_filtered) = match bytes {
        [filter @ (0 | 1), behind @ ..] if is_lzma(behind) => (behind, *filter == 1),
        _ => (bytes, false),
    };
    if is_lzma(stream) {
        let dictionary = u32_at(stream, 1)?;
        if dictionary / 1024 > DICTIONARY_KIB_MAX {
            return None;
        }
        let body = stream.get(5..)?;
        let reader =
            LzmaReader::new_with_props(body, u64::MAX, stream[0], dictionary, None).ok()?;
        return Some(match is_filtered {
            true => Box::new(BcjReader::new_x86(reader, 0)),
            false => Box::new(reader),
        });
    }
    if let [0x31, 0..=13, ..] = bytes {
        return Some(Box::new(NsisBzip2::new(bytes)));
    }
    Some(Box::new(DeflateDecoder::new(bytes)))
}

/// Places of files behind the header, and their names.
fn file_names(header: &[u8]) -> Vec<(u32, String)> {
    let mut names = Vec::new();
    // Pairs of place and number: pages, sections, instructions, strings.
    let (Some(code), Some(count), Some(strings)) =
        (u32_at(header, 20), u32_at(header, 24), u32_at(header, 28))
    else {
        return names;
    };
    let strings = header.get(strings as usize..).unwrap_or_default();
    let is_wide = strings.starts_with(&[0, 0]);
    let instructions = header.get(code as usize..).unwrap_or_default();
    for instruction in instructions.chunks_exact(INSTRUCTION_BYTES).take(count as usize) {
        if u32_at(instruction, 0) != Some(EXTRACT) {
            continue;
        }
        let (Some(name), Some(place)) = (u32_at(instruction, 8), u32_at(instruction, 12)) else {
            continue;
        };
        names.push((place, string(strings, name as usize, is_wide)));
        if names.len() >= FILES_MAX {
            break;
        }
    }
    names.sort();
    names
}

fn name_at(names: &[(u32, String)], place: usize) -> String {
    let found = names.binary_search_by_key(&place, |(at, _)| *at as usize);
    found.map_or(String::new(), |index| names[index].1.clone())
}

/// A string without the variables in it.
fn string(strings: &[u8], at: usize, is_wide: bool) -> String {
    const LENGTH_MAX: usize = 260;
    let units = (0..LENGTH_MAX).map_while(|index| match is_wide {
        true => u16_at(strings, 2 * (at + index)).filter(|unit| *unit != 0),
        false => strings.get(at + index).map(|b| u16::from(*b)).filter(|unit| *unit != 0),
    });
    let mut plain = Vec::new();
    let mut units = units.peekable();
    while let Some(unit) = units.next() {
        match unit {
            // Codes of variables, folders and languages: NSIS 3, NSIS 2.
            1..=4 | 252..=255 if unit < 5 || !is_wide => {
                units.next();
                if !is_wide {
                    units.next();
                }
            }
            unit => plain.push(unit),
        }
    }
    let bytes: Vec<u8> = plain.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let name = match is_wide {
        true => text::utf16_le(&bytes),
        false => text::file_name(&plain.iter().map(|unit| *unit as u8).collect::<Vec<_>>()),
    };
    name.trim_start_matches(['\\', '/']).to_owned()
}

#[cfg(test)]
mod tests;
