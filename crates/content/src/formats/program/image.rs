//! A Windows program of 32 bits as the loader places it in memory (PE format, "Section Table" and
//! "The .idata Section").

use crate::formats::numbers::{slice, u16_at, u32_at, until_nul};

/// Bytes of an image that is loaded.
const IMAGE_BYTES_MAX: u32 = 32 << 20;
/// Addresses from here on belong to the emulator.
pub(super) const IMAGES_END: u32 = 0x7000_0000;
const SECTIONS_MAX: u16 = 96;
const IMPORTS_MAX: usize = 8_192;
const MODULES_MAX: usize = 256;
/// The loader takes no other alignment of sections in the file.
const FILE_ALIGNMENT: u32 = 512;
const PAGE_BYTES: u32 = 4_096;
const EXECUTE: u32 = 0x2000_0000;
const WRITE: u32 = 0x8000_0000;
const CODE: u32 = 0x20;

/// A place that the loader fills with the address of a function.
#[derive(Debug)]
pub(super) struct Import {
    /// From the beginning of the image.
    pub(super) at: usize,
    pub(super) name: String,
}

/// A program in memory.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) base: u32,
    pub(super) entry: u32,
    pub(super) bytes: Vec<u8>,
    pub(super) imports: Vec<Import>,
}

#[derive(Debug, Clone, Copy)]
struct Section {
    /// Where its header stands.
    at: usize,
    size: u32,
    address: u32,
    raw_size: u32,
    raw_at: u32,
    flags: u32,
}

/// What the headers of a program say.
#[derive(Debug)]
pub(super) struct Headers {
    /// Where "PE" stands.
    at: usize,
    base: u32,
    entry: u32,
    headers_size: u32,
    alignment: u32,
    sections: Vec<Section>,
}

impl Headers {
    /// Those of an Intel program of 32 bits; none if it is something else or does not hold.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let at = u32_at(bytes, 0x3c)? as usize;
        let header = bytes.get(at..)?;
        if !header.starts_with(b"PE\0\0")
            || u16_at(header, 4)? != 0x14c
            || u16_at(header, 24)? != 0x10b
        {
            return None;
        }
        let table = at + 24 + usize::from(u16_at(header, 20)?);
        let count = u16_at(header, 6)?.min(SECTIONS_MAX);
        let section = |index: u16| {
            let at = table + 40 * usize::from(index);
            let field = |offset| u32_at(bytes, at + offset);
            Some(Section {
                at,
                size: field(8)?,
                address: field(12)?,
                raw_size: field(16)?,
                raw_at: field(20)?,
                flags: field(36)?,
            })
        };
        Some(Headers {
            at,
            base: u32_at(header, 52)?,
            entry: u32_at(header, 40)?,
            headers_size: u32_at(header, 84)?,
            alignment: u32_at(header, 56)?,
            sections: (0..count).map_while(section).collect(),
        })
    }

    /// Whether the program looks like one that unpacks itself: it begins outside of what compilers
    /// call code, in something that it may write, or has room for code that is not in the file.
    pub(super) fn is_packed(&self, bytes: &[u8]) -> bool {
        let is_around = |section: &&Section| {
            let size = section.size.max(section.raw_size).max(1);
            (section.address..section.address.saturating_add(size)).contains(&self.entry)
        };
        let Some(section) = self.sections.iter().find(is_around) else { return true };
        let is_last = self.sections.len() > 1
            && self.sections.iter().all(|other| other.address <= section.address);
        let has_room = self.sections.iter().any(|section| {
            section.raw_size == 0 && section.size >= PAGE_BYTES && section.flags & EXECUTE != 0
        });
        section.flags & WRITE != 0
            || section.flags & (CODE | EXECUTE) == 0
            || is_last
            || has_room
            || self.begins_by_unpacking(bytes, section)
    }

    /// FSG leaves the flags of the program's own code: there, decompression is the first thing.
    fn begins_by_unpacking(&self, bytes: &[u8], section: &Section) -> bool {
        let place = section.raw_at.wrapping_add(self.entry.wrapping_sub(section.address));
        let code = slice(bytes, place as usize, 16);
        // `mov ebx, x; mov edi, x; mov esi, x`.
        code.len() > 10 && code[0] == 0xbb && code[5] == 0xbf && code[10] == 0xbe
    }

    /// The program as it is loaded.
    pub(super) fn load(&self, bytes: &[u8]) -> Option<Image> {
        let page = self.alignment.clamp(PAGE_BYTES, 1 << 20);
        let end = |section: &Section| {
            let size = if section.size == 0 { section.raw_size } else { section.size };
            section.address.checked_add(size)?.checked_next_multiple_of(page)
        };
        let mut size = self.headers_size.checked_next_multiple_of(page)?.max(page);
        for section in &self.sections {
            size = size.max(end(section)?);
        }
        if size > IMAGE_BYTES_MAX
            || self.base.checked_add(size)? > IMAGES_END
            || self.base < PAGE_BYTES
        {
            return None;
        }
        let mut image = vec![0; size as usize];
        let head = slice(bytes, 0, self.headers_size.min(size) as usize);
        image[..head.len()].copy_from_slice(head);
        for section in &self.sections {
            let at = if self.alignment < PAGE_BYTES {
                section.raw_at
            } else {
                section.raw_at / FILE_ALIGNMENT * FILE_ALIGNMENT
            };
            let room = end(section)?.saturating_sub(section.address) as usize;
            // What begins within a sector is read from the sector's beginning on.
            let more = section.raw_at.wrapping_sub(at);
            let body = slice(bytes, at as usize, section.raw_size.saturating_add(more) as usize);
            let body = &body[..body.len().min(room)];
            let to = section.address as usize;
            image.get_mut(to..to + body.len())?.copy_from_slice(body);
        }
        let imports = self.imports(&image);
        Some(Image { base: self.base, entry: self.entry, bytes: image, imports })
    }

    fn imports(&self, image: &[u8]) -> Vec<Import> {
        let mut imports = Vec::new();
        let Some(table) = u32_at(image, self.at + 128).filter(|table| *table != 0) else {
            return imports;
        };
        for module in 0..MODULES_MAX {
            let at = table as usize + 20 * module;
            let (Some(names), Some(name), Some(first)) =
                (u32_at(image, at), u32_at(image, at + 12), u32_at(image, at + 16))
            else {
                break;
            };
            if first == 0 || name == 0 {
                break;
            }
            let names = if names == 0 || names as usize >= image.len() { first } else { names };
            for index in 0..IMPORTS_MAX - imports.len() {
                let Some(entry) = u32_at(image, names as usize + 4 * index) else { break };
                if entry == 0 {
                    break;
                }
                let function = match entry & 0x8000_0000 {
                    0 => slice(image, entry as usize + 2, 256),
                    _ => b"#ordinal\0",
                };
                let name = until_nul(function).map_or(&b""[..], |(name, _)| name);
                let name = String::from_utf8_lossy(name).into_owned();
                imports.push(Import { at: first as usize + 4 * index, name });
            }
        }
        imports
    }

    /// Makes a file of an image: each section is where it is in memory.
    pub(super) fn unload(&self, image: &mut [u8]) {
        let mut put = |at: usize, value: u32| {
            if let Some(place) = image.get_mut(at..at + 4) {
                place.copy_from_slice(&value.to_le_bytes());
            }
        };
        put(self.at + 60, self.alignment);
        for section in &self.sections {
            let size = if section.size == 0 { section.raw_size } else { section.size };
            put(section.at + 16, size);
            put(section.at + 20, section.address);
        }
    }
}
