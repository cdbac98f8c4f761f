//! Installers of InstallShield: files behind the program, masked and compressed (as ISx describes
//! them) or in a list; among those of the list its cabinets (as Unshield describes them).

mod cabinet;

use flate2::read::ZlibDecoder;
use memchr::memmem;

use crate::formats::numbers::{slice, u16_at, u32_at, until_nul};
use crate::host::Child;
use crate::object::DefectKind;
use crate::text;
use crate::unpack::Unpacker;

const MAGIC: &[u8] = b"InstallShield\0";
/// Bytes behind the program in which the first header stands.
const SEARCHED_BYTES: usize = 4_096;
const HEADER_BYTES: usize = 0x2e;
const ENTRY_BYTES: usize = 0x138;
const NAME_BYTES: usize = 0x104;
/// Bytes after which the mask begins anew, where an entry says so.
const CHUNK_BYTES: usize = 1_024;
const MASK: [u8; 4] = [0x13, 0x35, 0x86, 0x07];
/// How an entry's bytes are masked.
const IN_CHUNKS: u32 = 2;
const MASKED: u32 = 4;
/// Files of a list.
const FILES_MAX: usize = 4_096;

/// Adds the files of an installer; whether it is one.
pub(super) fn decode(bytes: &[u8], end: usize, unpacker: &mut Unpacker<'_>) -> bool {
    let behind = bytes.get(end..).unwrap_or_default();
    let head = slice(behind, 0, SEARCHED_BYTES);
    match memmem::find(head, MAGIC) {
        Some(at) => masked(behind, at, unpacker),
        None => list(behind, unpacker),
    }
}

/// Entries with their bytes behind them.
fn masked(bytes: &[u8], start: usize, unpacker: &mut Unpacker<'_>) -> bool {
    let count = u16_at(bytes, start + MAGIC.len()).unwrap_or(0);
    let mut at = start + HEADER_BYTES;
    for _ in 0..count {
        if unpacker.is_over() {
            return true;
        }
        let (Some(flags), Some(size)) =
            (u32_at(bytes, at + NAME_BYTES), u32_at(bytes, at + NAME_BYTES + 8))
        else {
            unpacker.defect(DefectKind::Truncated, "an installer's entry");
            return true;
        };
        let name = slice(bytes, at, NAME_BYTES);
        let name = until_nul(name).map_or(name, |(name, _)| name);
        let shown = text::file_name(name);
        let data = slice(bytes, at + ENTRY_BYTES, size as usize);
        at = at.saturating_add(ENTRY_BYTES).saturating_add(size as usize);
        if data.len() < size as usize {
            unpacker.defect(DefectKind::Truncated, &shown);
        }
        if !unpacker.charge(data.len() as u64, &shown) {
            return true;
        }
        let plain = unmasked(data, name, flags);
        let file = match plain.first() {
            Some(0x78) if flags & MASKED != 0 => {
                unpacker.read_made(|| ZlibDecoder::new(&plain[..]), plain.len() as u64, &shown)
            }
            _ => plain,
        };
        unpacker.child(Child::named(shown), &file);
    }
    count > 0
}

/// Bytes without the mask that the entry's name gives.
fn unmasked(data: &[u8], name: &[u8], flags: u32) -> Vec<u8> {
    if flags & (IN_CHUNKS | MASKED) == 0 || name.is_empty() {
        return data.to_vec();
    }
    let key: Vec<u8> = name.iter().zip(MASK.iter().cycle()).map(|(a, b)| a ^ b).collect();
    let length = if flags & IN_CHUNKS == 0 { data.len().max(1) } else { CHUNK_BYTES };
    let chunks = data.chunks(length);
    let masked = chunks.flat_map(|chunk| chunk.iter().zip(key.iter().cycle()));
    masked.map(|(byte, key)| !(key ^ byte.rotate_left(4))).collect()
}

/// A file of a list.
struct Listed<'b> {
    name: String,
    body: &'b [u8],
}

/// Files, each behind its name, its path, its version and its size in digits.
fn list(bytes: &[u8], unpacker: &mut Unpacker<'_>) -> bool {
    let mut files = Vec::new();
    let width = if bytes.get(1) == Some(&0) { 2 } else { 1 };
    let mut rest = bytes;
    while files.len() < FILES_MAX {
        let Some((file, behind)) = listed(rest, width) else { break };
        files.push(file);
        rest = behind;
    }
    for file in &files {
        if unpacker.is_over() {
            return true;
        }
        if unpacker.charge(file.body.len() as u64, &file.name) {
            unpacker.child(Child::named(&file.name), file.body);
        }
    }
    for header in files.iter().filter(|file| file.name.to_ascii_lowercase().ends_with(".hdr")) {
        let stem =
            &header.name[..header.name.len() - 4].trim_end_matches(|c: char| c.is_ascii_digit());
        let volume = |number: u16| {
            let name = format!("{stem}{number}.cab");
            files.iter().find(|f| f.name.eq_ignore_ascii_case(&name)).map(|file| file.body)
        };
        cabinet::decode(header.body, &volume, unpacker);
    }
    !files.is_empty()
}

fn listed(bytes: &[u8], width: usize) -> Option<(Listed<'_>, &[u8])> {
    let (name, rest) = string(bytes, width)?;
    let (_path, rest) = string(rest, width)?;
    let (version, rest) = string(rest, width)?;
    let (size, rest) = string(rest, width)?;
    let is_version = version.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let size: usize = size.parse().ok().filter(|size| is_version && *size <= rest.len())?;
    let (body, behind) = rest.split_at(size);
    Some((Listed { name, body }, behind))
}

/// A string that ends with a NUL of its width.
fn string(bytes: &[u8], width: usize) -> Option<(String, &[u8])> {
    const UNITS_MAX: usize = 260;
    let mut units = bytes.chunks_exact(width).take(UNITS_MAX);
    let length = units.position(|unit| unit.iter().all(|byte| *byte == 0))?;
    let (string, rest) = bytes.split_at(length * width);
    let string = if width == 2 { text::utf16_le(string) } else { text::file_name(string) };
    let is_plain = !string.is_empty() && !string.chars().any(char::is_control);
    is_plain.then_some((string, rest.get(width..)?))
}

#[cfg(test)]
mod tests;
