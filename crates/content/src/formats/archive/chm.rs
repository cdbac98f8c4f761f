//! Compiled HTML help (ITSF, after the descriptions of Matthew T. Russotto and of libmspack):
//! files that are stored, and those that LZX compresses, by the crate `lzxd`.

use lzxd::{Lzxd, WindowSize};

use crate::formats::numbers::{slice, u32_at, u64_at};
use crate::host::Child;
use crate::object::DefectKind;
use crate::text;
use crate::unpack::Unpacker;

/// Entries of the directory that are read.
const ENTRIES_MAX: usize = 65_536;
/// Bytes that LZX puts out at a time.
const FRAME_BYTES: usize = 32 * 1024;
const CONTENT: &str = "::DataSpace/Storage/MSCompressed/Content";
const CONTROL: &str = "::DataSpace/Storage/MSCompressed/ControlData";
const RESETS: &str = "::DataSpace/Storage/MSCompressed/Transform/\
    {7FC28940-9D31-11D0-9B27-00A0C91E9C7C}/InstanceData/ResetTable";

struct Entry {
    name: String,
    section: u64,
    at: usize,
    length: usize,
}

pub(super) fn decode(bytes: &[u8], unpacker: &mut Unpacker<'_>) {
    let Some((entries, content)) = directory(bytes) else {
        return unpacker.defect(DefectKind::Corrupt, "no directory");
    };
    let stored = |name: &str| {
        let entry = entries.iter().find(|entry| entry.name == name && entry.section == 0)?;
        Some(slice(bytes, content.saturating_add(entry.at), entry.length))
    };
    let is_file = |entry: &&Entry| !entry.name.ends_with('/') && !entry.name.starts_with("::");
    let files: Vec<&Entry> = entries.iter().filter(is_file).collect();
    let mut unpacked = None;
    for entry in files {
        if unpacker.is_over() {
            return;
        }
        let name = entry.name.trim_start_matches('/');
        if entry.length == 0 {
            continue;
        }
        let all = match entry.section {
            0 => bytes.get(content..).unwrap_or_default(),
            _ => unpacked.get_or_insert_with(|| section(stored, unpacker)).as_slice(),
        };
        let body = slice(all, entry.at, entry.length);
        if body.len() < entry.length {
            unpacker.defect(DefectKind::Truncated, name);
        }
        unpacker.child(Child::named(name), body);
    }
}

/// The entries of the directory's chunks, and where the stored section begins.
fn directory(bytes: &[u8]) -> Option<(Vec<Entry>, usize)> {
    let itsp = usize::try_from(u64_at(bytes, 0x48)?).ok()?;
    let version = u32_at(bytes, 4)?;
    let content = match version {
        3.. => usize::try_from(u64_at(bytes, 0x58)?).ok()?,
        _ => itsp.checked_add(usize::try_from(u64_at(bytes, 0x50)?).ok()?)?,
    };
    let header = bytes.get(itsp..)?;
    if !header.starts_with(b"ITSP") {
        return None;
    }
    let first = u32_at(header, 8)? as usize;
    let chunk = (u32_at(header, 0x10)? as usize).max(32);
    let mut entries = Vec::new();
    for chunk in header.get(first..)?.chunks(chunk) {
        if !chunk.starts_with(b"PMG") {
            break;
        }
        if chunk.starts_with(b"PMGL") {
            listing(chunk, &mut entries);
        }
        if entries.len() >= ENTRIES_MAX {
            break;
        }
    }
    Some((entries, content))
}

/// The entries of one chunk.
fn listing(chunk: &[u8], entries: &mut Vec<Entry>) {
    let free = u32_at(chunk, 4).unwrap_or(0) as usize;
    let mut rest = slice(chunk, 20, chunk.len().saturating_sub(20).saturating_sub(free));
    while !rest.is_empty() {
        let Some(entry) = entry(&mut rest) else { return };
        entries.push(entry);
    }
}

fn entry(rest: &mut &[u8]) -> Option<Entry> {
    let length = usize::try_from(number(rest)?).ok()?;
    let name = text::file_name(rest.get(..length)?);
    *rest = &rest[length..];
    let section = number(rest)?;
    let at = usize::try_from(number(rest)?).ok()?;
    let length = usize::try_from(number(rest)?).ok()?;
    Some(Entry { name, section, at, length })
}

/// Seven bits a byte, the highest first; the last byte's top bit is not set.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    loop {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        number = number.checked_mul(128)? | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
}

/// The compressed section as one.
fn section<'b>(stored: impl Fn(&str) -> Option<&'b [u8]>, unpacker: &mut Unpacker<'_>) -> Vec<u8> {
    let frames = (|| {
        let control = stored(CONTROL)
            .filter(|control| control[4.min(control.len())..].starts_with(b"LZXC"))?;
        // Version 2 counts in frames, version 1 in bytes.
        let unit = if u32_at(control, 8)? == 2 { 1 } else { FRAME_BYTES };
        let frames_per_reset = (u32_at(control, 12)? as usize / unit).max(1);
        let window = u32_at(control, 16)? as usize / unit * FRAME_BYTES;
        let resets = stored(RESETS)?;
        let table = slice(resets, u32_at(resets, 12)? as usize, usize::MAX);
        let offsets = table.chunks_exact(8).filter_map(|b| u64_at(b, 0));
        Some(Frames {
            data: stored(CONTENT)?,
            offsets: offsets.map(|at| usize::try_from(at).unwrap_or(usize::MAX)).collect(),
            frames_per_reset,
            window: window_size(window)?,
            left: u64_at(resets, 16)?,
            index: 0,
            lzx: Lzxd::new(window_size(window)?),
            ready: Vec::new(),
        })
    })();
    match frames {
        Some(mut frames) => {
            let packed = frames.data.len() as u64;
            unpacker.read(&mut frames, packed, "compressed files")
        }
        None => {
            unpacker.defect(DefectKind::Unsupported, "no parameters of the compressed files");
            Vec::new()
        }
    }
}

fn window_size(bytes: usize) -> Option<WindowSize> {
    Some(match bytes >> 10 {
        32 => WindowSize::KB32,
        64 => WindowSize::KB64,
        128 => WindowSize::KB128,
        256 => WindowSize::KB256,
        512 => WindowSize::KB512,
        1_024 => WindowSize::MB1,
        2_048 => WindowSize::MB2,
        _ => return None,
    })
}

/// Frames of LZX, each found by the table; every few of them the state begins anew.
struct Frames<'b> {
    data: &'b [u8],
    offsets: Vec<usize>,
    frames_per_reset: usize,
    window: WindowSize,
    left: u64,
    index: usize,
    lzx: Lzxd,
    ready: Vec<u8>,
}

impl std::io::Read for Frames<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.ready.is_empty() && self.left > 0 {
            let Some(&start) = self.offsets.get(self.index) else {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            };
            if self.index.is_multiple_of(self.frames_per_reset) {
                self.lzx = Lzxd::new(self.window);
            }
            let end = self.offsets.get(self.index + 1).copied().unwrap_or(self.data.len());
            let frame = slice(self.data, start, end.saturating_sub(start));
            if frame.is_empty() {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let size = usize::try_from(self.left).unwrap_or(usize::MAX).min(FRAME_BYTES);
            let made = self.lzx.decompress_next(frame, size);
            let made = made.map_err(|error| std::io::Error::other(error.to_string()))?;
            self.ready.extend_from_slice(made);
            self.index += 1;
            self.left -= self.ready.len() as u64;
        }
        let count = self.ready.len().min(out.len());
        out[..count].copy_from_slice(&self.ready[..count]);
        self.ready.drain(..count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use crate::formats::testing::{nasty, paths, tree};

    /// A file of one chunk with stored files.
    fn chm(files: &[(&str, &[u8])]) -> Vec<u8> {
        let (mut listing, mut content) = (Vec::new(), Vec::new());
        for (name, body) in files {
            listing.push(name.len() as u8);
            listing.extend(name.as_bytes());
            listing.extend([0, content.len() as u8, body.len() as u8]);
            content.extend_from_slice(body);
        }
        let mut chunk = b"PMGL".to_vec();
        chunk.extend((512 - 20 - listing.len() as u32).to_le_bytes());
        chunk.extend([0; 12]);
        chunk.extend(listing);
        chunk.resize(512, 0);
        let mut header = b"ITSF\x03\0\0\0".to_vec();
        header.resize(0x60, 0);
        header[0x48] = 0x60;
        let content_at = (0x60 + 0x54 + 512) as u16;
        header[0x58..0x5a].copy_from_slice(&content_at.to_le_bytes());
        let mut itsp = b"ITSP\x01\0\0\0\x54\0\0\0".to_vec();
        itsp.resize(0x54, 0);
        itsp[0x10..0x12].copy_from_slice(&512u16.to_le_bytes());
        [header, itsp, chunk, content].concat()
    }

    #[test]
    fn stored_files() {
        let whole = chm(&[("/", b""), ("/a.txt", b"hello"), ("/run.exe", b"MZ\x90\0")]);
        let found = tree(&whole, "help.chm");
        assert_eq!(paths(&found), ["help.chm", "help.chm/a.txt", "help.chm/run.exe"]);
        assert_eq!(found.objects[1].text, "hello");
        nasty(&whole, "help.chm");
    }
}
