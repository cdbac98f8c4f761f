//! The entries of a ZIP: by its central directories and by its local headers.

use std::collections::HashSet;

use memchr::memmem;

use crate::text;

/// Entries that are read; far more than limits of objects allow.
const ENTRIES_MAX: usize = 65_536;
/// Ends of central directories that are looked at.
const DIRECTORIES_MAX: usize = 8;
/// Bytes before the end of the file in which the last directory's end is looked for: its comment
/// has 65,535 bytes at most.
const TAIL_BYTES: usize = 65_557;
/// Differences between headers that are named.
const DIFFERENCES_MAX: usize = 4;

const LOCAL: &[u8] = b"PK\x03\x04";
const CENTRAL: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
const END64_LOCATOR: &[u8] = b"PK\x06\x07";
const END64: &[u8] = b"PK\x06\x06";
const SPLIT: &[u8] = b"PK\x07\x08";

/// A file of the archive.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    /// General purpose bit flags; bit 0 says that it is encrypted, bit 3 that sizes follow the
    /// data.
    pub(super) flags: u16,
    pub(super) method: u16,
    /// Time of the last change, of which ZipCrypto uses the high byte.
    pub(super) time: u16,
    pub(super) crc: u32,
    /// Bytes of its data; zero if that is only known behind them.
    pub(super) packed: u64,
    pub(super) size: u64,
    /// Where its data begins.
    pub(super) data: usize,
    /// Extra field, for the parameters of AES.
    pub(super) extra: Vec<u8>,
    /// External attributes; the high half is a Unix mode where the archive was made there.
    attributes: u32,
    /// Its size is not known from its headers.
    open_end: bool,
    /// One of its headers says that it is encrypted, the other that it is not.
    pub(super) is_encrypted_by_one: bool,
}

impl Entry {
    pub(super) fn is_encrypted(&self) -> bool {
        self.flags & 1 != 0
    }

    /// A folder's name ends with a slash, and it has no bytes.
    pub(super) fn is_folder(&self) -> bool {
        self.name.ends_with(b"/") && self.size == 0 && !self.open_end
    }

    pub(super) fn is_link(&self) -> bool {
        self.attributes >> 16 & 0o170_000 == 0o120_000
    }

    /// Its compressed bytes: all to the end of the file where their number is not known.
    pub(super) fn bytes<'b>(&self, file: &'b [u8]) -> &'b [u8] {
        let start = self.data.min(file.len());
        if self.open_end {
            return &file[start..];
        }
        let end = start.saturating_add(usize::try_from(self.packed).unwrap_or(usize::MAX));
        &file[start..end.min(file.len())]
    }
}

/// What the structure of a ZIP says.
#[derive(Debug, Default)]
pub(super) struct Directory {
    pub(super) entries: Vec<Entry>,
    /// Bytes before the archive.
    pub(super) prefix: usize,
    /// Where the archive ends.
    pub(super) end: usize,
    /// Where headers contradict each other.
    pub(super) differences: Vec<String>,
    pub(super) is_volume: bool,
    pub(super) has_more: bool,
    /// A directory that says that there are no entries.
    pub(super) is_empty_archive: bool,
    seen: HashSet<usize>,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at.checked_add(2)?).map(|b| u16::from_le_bytes([b[0], b[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(u32_at(bytes, at)?) | u64::from(u32_at(bytes, at.checked_add(4)?)?) << 32)
}

impl Directory {
    /// Reads every directory and every local header.
    pub(super) fn read(file: &[u8]) -> Self {
        let mut directory = Directory { end: file.len(), ..Directory::default() };
        directory.is_volume = file.starts_with(SPLIT);
        let tail = file.len().saturating_sub(TAIL_BYTES);
        let last = memmem::rfind(&file[tail..], END).map(|at| tail + at);
        if let Some(at) = last {
            let comment = usize::from(u16_at(file, at + 20).unwrap_or(0));
            directory.end = (at + 22 + comment).min(file.len());
            directory.central(file, at, true);
        }
        directory.others(file, last);
        directory.local_headers(file);
        directory
    }

    /// The entries of the central directory whose end record stands at `end`.
    fn central(&mut self, file: &[u8], end: usize, is_last: bool) {
        let Some((mut start, count, disk)) = end_record(file, end) else { return };
        if is_last && disk > 0 && disk != u32::from(u16::MAX) {
            self.is_volume = true;
        }
        self.is_empty_archive |= count == 0;
        // Offsets count from the beginning of the archive, which others may stand before.
        // Or from that of a file that the archive was cut out of.
        let mut shift = 0;
        if !file.get(start..).is_some_and(|b| b.starts_with(CENTRAL)) {
            let size = u32_at(file, end + 12).unwrap_or(0) as usize;
            let real = end.saturating_sub(size);
            if file[real..].starts_with(CENTRAL) {
                shift = real as i64 - i64::try_from(start).unwrap_or(i64::MAX);
                start = real;
            }
        }
        if is_last {
            self.prefix = usize::try_from(shift).unwrap_or(0);
        }
        let mut at = start;
        while file.get(at..).is_some_and(|b| b.starts_with(CENTRAL)) {
            if self.entries.len() >= ENTRIES_MAX {
                self.has_more = true;
                return;
            }
            let Some((entry, local, next)) = central_entry(file, at) else { return };
            let local = i64::try_from(local).unwrap_or(i64::MAX).saturating_add(shift);
            let local = usize::try_from(local).unwrap_or(usize::MAX);
            self.add_central(file, entry, local, is_last);
            at = next;
        }
    }

    /// Adds an entry of a central directory, with what its local header says.
    fn add_central(&mut self, file: &[u8], mut entry: Entry, local: usize, is_last: bool) {
        if !self.seen.insert(local) {
            return;
        }
        let name = text::file_name(&entry.name);
        if !is_last {
            self.differ(format!("only in another directory: {name}"));
        }
        let Some(header) = local_entry(file, local) else {
            self.differ(format!("no local header: {name}"));
            return;
        };
        entry.data = header.data;
        if header.name != entry.name {
            self.differ(format!("{name} is {} in its local header", text::file_name(&header.name)));
        }
        let sizes_follow = header.flags & 8 != 0;
        if !sizes_follow && header.packed != entry.packed {
            self.differ(format!("{name}: two sizes"));
            entry.packed = entry.packed.max(header.packed);
        }
        if header.method != entry.method {
            self.differ(format!("{name}: two methods"));
            // Programs go by the one or the other.
            self.entries.push(Entry { method: header.method, ..entry.clone() });
        }
        if header.is_encrypted() != entry.is_encrypted() {
            let by = if header.is_encrypted() { "local header" } else { "directory" };
            self.differ(format!("{name}: encrypted by its {by}"));
            // Programs go by the one or the other.
            entry.is_encrypted_by_one = true;
        }
        if entry.extra.is_empty() {
            entry.extra = header.extra;
        }
        self.entries.push(entry);
    }

    /// Directories that end somewhere else: those outside every entry's bytes.
    fn others(&mut self, file: &[u8], last: Option<usize>) {
        let covered = self.covered();
        let ends = memmem::find_iter(file, END).filter(|at| Some(*at) != last);
        let ends: Vec<usize> =
            ends.filter(|at| !is_in(&covered, *at)).take(DIRECTORIES_MAX).collect();
        for at in ends {
            self.central(file, at, false);
        }
    }

    /// Local headers that no directory names: those outside every entry's bytes.
    fn local_headers(&mut self, file: &[u8]) {
        let covered = self.covered();
        let named = !self.entries.is_empty();
        let mut skip_to = 0;
        for at in memmem::find_iter(file, LOCAL) {
            if at < skip_to || self.seen.contains(&at) || is_in(&covered, at) {
                continue;
            }
            if self.entries.len() >= ENTRIES_MAX {
                self.has_more = true;
                return;
            }
            let Some(entry) = local_entry(file, at) else { continue };
            if !is_plausible(&entry) {
                continue;
            }
            if named {
                self.differ(format!("in no directory: {}", text::file_name(&entry.name)));
            }
            self.seen.insert(at);
            skip_to =
                entry.data.saturating_add(usize::try_from(entry.packed).unwrap_or(usize::MAX));
            self.entries.push(entry);
        }
    }

    /// Where entries have their bytes, in order.
    fn covered(&self) -> Vec<(usize, usize)> {
        let range = |e: &Entry| {
            let end = e.data.saturating_add(usize::try_from(e.packed).unwrap_or(usize::MAX));
            (e.data, end)
        };
        let mut all: Vec<_> = self.entries.iter().map(range).collect();
        all.sort_unstable();
        all
    }

    fn differ(&mut self, what: String) {
        if self.differences.len() < DIFFERENCES_MAX {
            self.differences.push(what);
        }
    }
}

/// Whether a place lies in one of the ranges.
fn is_in(ranges: &[(usize, usize)], at: usize) -> bool {
    let before = ranges.partition_point(|(start, _)| *start <= at);
    // Ranges may overlap: the longest of the last few counts.
    ranges[..before].iter().rev().take(16).any(|(_, end)| at < *end)
}

/// A header that random bytes would not make.
fn is_plausible(entry: &Entry) -> bool {
    let known = matches!(entry.method, 0..=20 | 93..=99);
    known && !entry.name.is_empty() && entry.name.len() <= 4_096
}

/// Start of the central directory, its number of entries, and the number of this disk.
fn end_record(file: &[u8], at: usize) -> Option<(usize, u64, u32)> {
    let (disk, count) = (u16_at(file, at + 4)?, u16_at(file, at + 10)?);
    let start = u32_at(file, at + 16)?;
    let locator = at.checked_sub(20).filter(|&l| file[l..].starts_with(END64_LOCATOR));
    if let Some(locator) = locator {
        let record = usize::try_from(u64_at(file, locator + 8)?).ok()?;
        if file.get(record..).is_some_and(|b| b.starts_with(END64)) {
            let start = usize::try_from(u64_at(file, record + 48)?).ok()?;
            return Some((start, u64_at(file, record + 32)?, u32_at(file, record + 16)?));
        }
    }
    Some((start as usize, u64::from(count), u32::from(disk)))
}

/// An entry of the central directory, where its local header stands, and where the next one begins.
fn central_entry(file: &[u8], at: usize) -> Option<(Entry, usize, usize)> {
    let name_bytes = usize::from(u16_at(file, at + 28)?);
    let extra_bytes = usize::from(u16_at(file, at + 30)?);
    let comment_bytes = usize::from(u16_at(file, at + 32)?);
    let name_at = at + 46;
    let extra_at = name_at + name_bytes;
    let name = file.get(name_at..extra_at)?.to_vec();
    let extra = file.get(extra_at..extra_at + extra_bytes).unwrap_or_default().to_vec();
    let mut entry = Entry {
        name,
        flags: u16_at(file, at + 8)?,
        method: u16_at(file, at + 10)?,
        time: u16_at(file, at + 12)?,
        crc: u32_at(file, at + 16)?,
        packed: u64::from(u32_at(file, at + 20)?),
        size: u64::from(u32_at(file, at + 24)?),
        data: 0,
        attributes: u32_at(file, at + 38)?,
        open_end: false,
        is_encrypted_by_one: false,
        extra,
    };
    let mut local = u64::from(u32_at(file, at + 42)?);
    zip64(&mut entry, Some(&mut local));
    let next = extra_at + extra_bytes + comment_bytes;
    Some((entry, usize::try_from(local).ok()?, next))
}

/// An entry by its local header.
fn local_entry(file: &[u8], at: usize) -> Option<Entry> {
    if !file.get(at..)?.starts_with(LOCAL) {
        return None;
    }
    let name_bytes = usize::from(u16_at(file, at + 26)?);
    let extra_bytes = usize::from(u16_at(file, at + 28)?);
    let name_at = at + 30;
    let extra_at = name_at + name_bytes;
    let flags = u16_at(file, at + 6)?;
    let mut entry = Entry {
        name: file.get(name_at..extra_at)?.to_vec(),
        flags,
        method: u16_at(file, at + 8)?,
        time: u16_at(file, at + 10)?,
        crc: u32_at(file, at + 14)?,
        packed: u64::from(u32_at(file, at + 18)?),
        size: u64::from(u32_at(file, at + 22)?),
        data: extra_at + extra_bytes,
        extra: file.get(extra_at..extra_at + extra_bytes).unwrap_or_default().to_vec(),
        attributes: 0,
        open_end: false,
        is_encrypted_by_one: false,
    };
    zip64(&mut entry, None);
    entry.open_end = flags & 8 != 0 && entry.packed == 0;
    Some(entry)
}

/// Sizes of 64 bits (APPNOTE section 4.5.3): only those whose field of 32 bits is full.
fn zip64(entry: &mut Entry, local: Option<&mut u64>) {
    const FULL: u64 = u32::MAX as u64;
    let mut rest = entry.extra.as_slice();
    while let (Some(id), Some(size)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let body = rest.get(4..4 + usize::from(size)).unwrap_or_default();
        if id == 1 {
            let mut at = 0;
            let mut next = |value: &mut u64| {
                if *value == FULL
                    && let Some(long) = u64_at(body, at)
                {
                    *value = long;
                    at += 8;
                }
            };
            next(&mut entry.size);
            next(&mut entry.packed);
            if let Some(local) = local {
                next(local);
            }
            return;
        }
        rest = rest.get(4 + usize::from(size)..).unwrap_or_default();
    }
}
