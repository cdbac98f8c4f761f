//! InstallShield's cabinets of version 6 and later: a header file, and volumes with the files, each
//! in chunks that are compressed by themselves.

use std::io::{self, Read};

use flate2::bufread::DeflateDecoder;

use crate::formats::numbers::{slice, u16_at, u32_at, u64_at, until_nul};
use crate::host::Child;
use crate::object::DefectKind;
use crate::text;
use crate::unpack::Unpacker;

const MAGIC: &[u8] = b"ISc(";
const ENTRY_BYTES: usize = 0x57;
const FILES_MAX: usize = 16_384;
/// Volumes that one file goes over.
const VOLUMES_MAX: u16 = 64;
/// What an entry says of its file.
const SPLIT: u16 = 1;
const OBFUSCATED: u16 = 2;
const COMPRESSED: u16 = 4;
const INVALID: u16 = 8;
/// The same bytes as an entry before.
const LINKED: u8 = 1;

/// Finds a volume by its number.
type Volume<'v, 'b> = &'v dyn Fn(u16) -> Option<&'b [u8]>;

/// Adds the files that a header describes.
pub(super) fn decode(header: &[u8], volume: Volume<'_, '_>, unpacker: &mut Unpacker<'_>) {
    if !header.starts_with(MAGIC) {
        return;
    }
    let Some((strings, table, count)) = tables(header) else {
        return unpacker.defect(DefectKind::Corrupt, "an installer's cabinet");
    };
    for index in 0..(count as usize).min(FILES_MAX) {
        let Some(entry) = entry(header, strings, table + index * ENTRY_BYTES) else {
            return unpacker.defect(DefectKind::Truncated, "an installer's cabinet");
        };
        if unpacker.is_over() {
            return;
        }
        if entry.flags & INVALID == 0 && entry.size > 0 {
            file(&entry, index, volume, unpacker);
        }
    }
    if count as usize > FILES_MAX {
        unpacker.defect(DefectKind::TooManyObjects, "an installer's cabinet");
    }
}

/// Where names stand, where entries stand, and how many there are.
fn tables(header: &[u8]) -> Option<(usize, usize, u32)> {
    let start = u32_at(header, 12)? as usize;
    let strings = start.checked_add(u32_at(header, start.checked_add(0x0c)?)? as usize)?;
    let count = u32_at(header, start + 0x28)?;
    let table = strings.checked_add(u32_at(header, start + 0x2c)? as usize)?;
    Some((strings, table, count))
}

struct Entry {
    name: String,
    flags: u16,
    size: u64,
    packed: usize,
    at: usize,
    is_linked: bool,
    volume: u16,
}

fn entry(header: &[u8], strings: usize, at: usize) -> Option<Entry> {
    let bytes = header.get(at..)?.get(..ENTRY_BYTES)?;
    let name = header.get(strings.checked_add(u32_at(bytes, 58)? as usize)?..)?;
    Some(Entry {
        name: text::file_name(until_nul(name)?.0),
        flags: u16_at(bytes, 0)?,
        size: u64_at(bytes, 2)?,
        packed: usize::try_from(u64_at(bytes, 10)?).ok()?,
        at: usize::try_from(u64_at(bytes, 18)?).ok()?,
        is_linked: bytes[84] & LINKED != 0,
        volume: u16_at(bytes, 85)?,
    })
}

fn file(entry: &Entry, index: usize, volume: Volume<'_, '_>, unpacker: &mut Unpacker<'_>) {
    // Files beside the cabinets are in the header, too, and those whose bytes are another's.
    let is_outside = entry.at == 0 || entry.is_linked;
    let Some(first) = volume(entry.volume).filter(|_| !is_outside) else { return };
    let mut packed = slice(first, entry.at, entry.packed).to_vec();
    if entry.flags & SPLIT != 0 {
        packed = split(entry, index, volume);
    }
    if packed.len() < entry.packed {
        unpacker.defect(DefectKind::Truncated, &entry.name);
    }
    if entry.flags & OBFUSCATED != 0 {
        for (byte, seed) in packed.iter_mut().zip((0..0x47u8).cycle()) {
            *byte = (*byte ^ 0xd5).rotate_right(2).wrapping_sub(seed);
        }
    }
    let length = packed.len() as u64;
    let body = match entry.flags & COMPRESSED {
        0 => unpacker.read(&mut packed.take(entry.size), length, &entry.name),
        _ => unpacker.read(&mut Chunks::new(&packed).take(entry.size), length, &entry.name),
    };
    unpacker.child(Child::named(&entry.name), &body);
}

/// The pieces of a file that ends in another volume.
fn split(entry: &Entry, index: usize, volume: Volume<'_, '_>) -> Vec<u8> {
    let mut all = Vec::new();
    for number in (entry.volume..).take(usize::from(VOLUMES_MAX)) {
        let Some(bytes) = volume(number) else { break };
        let is_last = u32_at(bytes, 0x20).is_some_and(|last| last as usize == index);
        let fields = if is_last && number == entry.volume { 0x3c } else { 0x24 };
        let (Some(at), Some(size)) = (u64_at(bytes, fields), u64_at(bytes, fields + 16)) else {
            break;
        };
        let (Ok(at), Ok(size)) = (usize::try_from(at), usize::try_from(size)) else { break };
        all.extend_from_slice(slice(bytes, at, size));
        if all.len() >= entry.packed {
            break;
        }
    }
    all.truncate(entry.packed);
    all
}

/// Chunks behind their sizes, each compressed by itself.
struct Chunks<'b> {
    rest: &'b [u8],
    chunk: Option<DeflateDecoder<&'b [u8]>>,
}

impl<'b> Chunks<'b> {
    fn new(rest: &'b [u8]) -> Self {
        Chunks { rest, chunk: None }
    }
}

impl Read for Chunks<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(chunk) = &mut self.chunk {
                let read = chunk.read(out)?;
                if read > 0 {
                    return Ok(read);
                }
            }
            let Some(size) = u16_at(self.rest, 0) else { return Ok(0) };
            let body = self.rest.get(2..2 + usize::from(size));
            let body = body.ok_or(io::ErrorKind::UnexpectedEof)?;
            self.rest = &self.rest[2 + body.len()..];
            self.chunk = Some(DeflateDecoder::new(body));
        }
    }
}
