//! ARJ (TECHNOTE.TXT of the archiver; the public domain program unarj): stored files and methods 1
//! to 4, those that are garbled with a password, too.

use std::io::{self, Read};

use super::lz::{BitOrder, Bits, Code, LzReader, Tokens, Window};
use crate::formats::numbers::{slice, u16_at, u32_at, until_nul};
use crate::host::Child;
use crate::object::{DefectKind, PropertyKind};
use crate::text;
use crate::unpack::Unpacker;

const MAGIC: [u8; 2] = [0x60, 0xea];
/// Bytes of a header without its size and checksum.
const HEADER_BYTES_MAX: usize = 2_600;
/// File type of a comment or volume label, which have no bytes, and of a folder.
const FOLDER: u8 = 3;
const GARBLED: u8 = 1;
/// Bytes that a try of a password unpacks.
const TRY_BYTES_MAX: u64 = 1 << 20;

/// A file of the archive.
struct Entry<'b> {
    name: String,
    flags: u8,
    method: u8,
    file_type: u8,
    /// What is added to each byte of a password.
    modifier: u8,
    size: u64,
    crc: u32,
    data: &'b [u8],
    is_cut: bool,
}

pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let Some((main, mut at)) = header(bytes, 0) else {
        return unpacker.defect(DefectKind::Corrupt, "no main header");
    };
    if main.get(4).is_some_and(|flags| flags & 0x04 != 0) {
        unpacker.property(PropertyKind::Volume, "");
        unpacker.defect(DefectKind::MissingVolume, "");
    }
    let mut password = None;
    loop {
        if unpacker.is_over() {
            return;
        }
        let Some((entry, next)) = entry(bytes, at) else { break };
        at = next;
        if entry.is_cut {
            unpacker.defect(DefectKind::Truncated, &entry.name);
        }
        if entry.file_type < FOLDER {
            file(&entry, &mut password, unpacker);
        }
    }
    let ends = u16_at(bytes, at) == Some(MAGIC_NUMBER) && u16_at(bytes, at + 2) == Some(0);
    if !ends {
        unpacker.defect(DefectKind::Truncated, "no end of the archive");
    }
}

const MAGIC_NUMBER: u16 = u16::from_le_bytes(MAGIC);

/// A header, from its first byte behind the size on, and where it and its extensions end.
fn header(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let size = usize::from(u16_at(bytes, at + 2)?);
    if !bytes.get(at..)?.starts_with(&MAGIC) || size == 0 || size > HEADER_BYTES_MAX {
        return None;
    }
    let body = bytes.get(at + 4..at + 4 + size)?;
    let mut end = at + 4 + size + 4;
    // Extensions until one without bytes; each has a checksum.
    loop {
        let more = usize::from(u16_at(bytes, end)?);
        end += 2;
        if more == 0 {
            return Some((body, end));
        }
        end += more + 4;
    }
}

/// A file and where the next one begins.
fn entry(bytes: &[u8], at: usize) -> Option<(Entry<'_>, usize)> {
    let (body, data_at) = header(bytes, at)?;
    let fixed = usize::from(*body.first()?);
    let (name, _) = until_nul(body.get(fixed..)?)?;
    let packed = u32_at(body, 12)? as usize;
    let data = slice(bytes, data_at, packed);
    let entry = Entry {
        name: text::file_name(name),
        flags: *body.get(4)?,
        method: *body.get(5)?,
        file_type: *body.get(6)?,
        modifier: *body.get(7)?,
        size: u64::from(u32_at(body, 16)?),
        crc: u32_at(body, 20)?,
        data,
        is_cut: data.len() < packed,
    };
    Some((entry, data_at + data.len()))
}

fn file(entry: &Entry<'_>, password: &mut Option<String>, unpacker: &mut Unpacker<'_>) {
    if entry.flags & 0x04 != 0 {
        unpacker.defect(DefectKind::MissingVolume, &entry.name);
    }
    if entry.method > 4 {
        unpacker.defect(DefectKind::Unsupported, &format!("{}: a method", entry.name));
        return unpacker.child(Child::named(&entry.name), b"");
    }
    let packed = entry.data.len() as u64;
    if entry.flags & GARBLED == 0 {
        let body = unpacker.read(&mut reader(entry, entry.data), packed, &entry.name);
        // Codes that are damaged give other bytes, and no error.
        let is_whole = body.len() as u64 == entry.size;
        if is_whole && crc32fast::hash(&body) != entry.crc {
            unpacker.defect(DefectKind::Corrupt, &format!("{}: its checksum", entry.name));
        } else if !is_whole && unpacker.current().is_some_and(|o| o.defects.is_empty()) {
            unpacker.defect(DefectKind::Truncated, &entry.name);
        }
        return unpacker.child(Child::named(&entry.name), &body);
    }
    let opens = |password: &str| {
        let plain = ungarbled(entry, password);
        let mut file = Vec::new();
        let read = reader(entry, &plain).take(TRY_BYTES_MAX).read_to_end(&mut file);
        let is_whole = read.is_ok() && file.len() as u64 == entry.size.min(TRY_BYTES_MAX);
        // Of a large file only the beginning is tried: its checksum comes too late.
        let is_right = entry.size > TRY_BYTES_MAX || crc32fast::hash(&file) == entry.crc;
        (is_whole && is_right && !password.is_empty()).then(|| password.to_owned())
    };
    let known = password.as_deref().and_then(opens);
    *password = known.or_else(|| unpacker.with_password(opens)).or(password.take());
    match password.as_deref().and_then(opens) {
        Some(password) => {
            let plain = ungarbled(entry, &password);
            let body = unpacker.read(&mut reader(entry, &plain), packed, &entry.name);
            unpacker.child(Child::named(&entry.name), &body);
        }
        None => {
            unpacker.property(PropertyKind::Encrypted, "");
            unpacker.defect(DefectKind::Encrypted, &entry.name);
            unpacker.child(Child::named(&entry.name), b"");
        }
    }
}

/// The compressed bytes without the password: an exclusive or with its bytes.
fn ungarbled(entry: &Entry<'_>, password: &str) -> Vec<u8> {
    let key = password.bytes().map(|b| b.wrapping_add(entry.modifier)).collect::<Vec<_>>();
    entry.data.iter().zip(key.iter().cycle()).map(|(b, k)| b ^ k).collect()
}

fn reader<'d>(entry: &Entry<'_>, data: &'d [u8]) -> Box<dyn Read + 'd> {
    let bits = Bits::new(data, BitOrder::High);
    match entry.method {
        0 => Box::new(data.take(entry.size)),
        4 => Box::new(LzReader::new(Fastest { bits }, entry.size, 0)),
        _ => Box::new(LzReader::new(Lzh::new(bits), entry.size, 0)),
    }
}

/// Symbols of lengths of codes, of distances and of characters; bits of their numbers.
const LENGTHS: (usize, u32) = (19, 5);
const DISTANCES: (usize, u32) = (17, 5);
const CHARACTERS: (usize, u32) = (510, 9);

/// Methods 1 to 3: blocks with prefix codes of characters and distances, as LHA has them.
struct Lzh<'b> {
    bits: Bits<'b>,
    /// Symbols left in this block.
    left: u32,
    characters: Code,
    distances: Code,
}

impl<'b> Lzh<'b> {
    fn new(bits: Bits<'b>) -> Self {
        Lzh { bits, left: 0, characters: Code::default(), distances: Code::default() }
    }

    fn block(&mut self) -> io::Result<()> {
        self.left = self.bits.number(16)?;
        let lengths = self.small_code(LENGTHS, Some(3))?;
        self.characters = self.character_code(&lengths)?;
        self.distances = self.small_code(DISTANCES, None)?;
        Ok(())
    }

    /// A code of few symbols; behind the third of lengths a count of zeros stands.
    fn small_code(&mut self, size: (usize, u32), zeros: Option<usize>) -> io::Result<Code> {
        let count = self.bits.number(size.1)? as usize;
        if count == 0 {
            return Ok(Code::only(self.bits.number(size.1)? as u16));
        }
        let mut lengths = Vec::new();
        while lengths.len() < count.min(size.0) {
            let mut length = self.bits.number(3)?;
            if length == 7 {
                while self.bits.bit()? == 1 {
                    length += 1;
                    if length > 16 {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                }
            }
            lengths.push(length as u8);
            if zeros == Some(lengths.len()) {
                let more = self.bits.number(2)? as usize;
                lengths.resize(lengths.len() + more, 0);
            }
        }
        Code::new(&lengths)
    }

    fn character_code(&mut self, lengths_code: &Code) -> io::Result<Code> {
        let count = self.bits.number(CHARACTERS.1)? as usize;
        if count == 0 {
            return Ok(Code::only(self.bits.number(CHARACTERS.1)? as u16));
        }
        let mut lengths: Vec<u8> = Vec::new();
        while lengths.len() < count.min(CHARACTERS.0) {
            let zeros = match lengths_code.symbol(&mut self.bits)? {
                0 => 1,
                1 => self.bits.number(4)? as usize + 3,
                2 => self.bits.number(CHARACTERS.1)? as usize + 20,
                length => {
                    lengths.push((length - 2) as u8);
                    continue;
                }
            };
            lengths.resize((lengths.len() + zeros).min(CHARACTERS.0), 0);
        }
        Code::new(&lengths)
    }
}

impl Tokens for Lzh<'_> {
    fn next(&mut self, window: &mut Window) -> io::Result<bool> {
        if self.left == 0 {
            self.block()?;
            if self.left == 0 {
                return Ok(false);
            }
        }
        self.left -= 1;
        let symbol = self.characters.symbol(&mut self.bits)?;
        if let Ok(byte) = u8::try_from(symbol) {
            window.push(byte);
            return Ok(true);
        }
        let length = usize::from(symbol) - 256 + 3;
        let distance = match u32::from(self.distances.symbol(&mut self.bits)?) {
            0 => 0,
            bits @ 1..=16 => (1 << (bits - 1)) + self.bits.number(bits - 1)?,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        window.repeat(distance as usize + 1, length);
        Ok(true)
    }
}

/// Method 4: numbers in a code of a fixed shape.
struct Fastest<'b> {
    bits: Bits<'b>,
}

impl Fastest<'_> {
    /// Ones that make the number wider, a zero, then the number.
    fn number(&mut self, narrow: u32, wide: u32) -> io::Result<u32> {
        let (mut width, mut base) = (narrow, 0);
        while width < wide && self.bits.bit()? == 1 {
            base += 1 << width;
            width += 1;
        }
        Ok(base + self.bits.number(width)?)
    }
}

impl Tokens for Fastest<'_> {
    fn next(&mut self, window: &mut Window) -> io::Result<bool> {
        match self.number(0, 7)? {
            0 => window.push(self.bits.number(8)? as u8),
            length => {
                let distance = self.number(9, 13)?;
                window.repeat(distance as usize + 1, length as usize + 2);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
