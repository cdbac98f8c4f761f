//! A compiled file, opened: mapped, checked, asked.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use memmap2::{Mmap, MmapMut};

use super::layout::{self, Cursor, Header, RegexRow, UNIT};
use super::layout::{HEADER_BYTES, MAGIC, Record, VERSION};
use crate::limits::{CATEGORIES_MAX, REGEXES_MAX, SOURCES_MAX};

/// Slots that are looked at for one key; the writer refuses a list that would need more.
pub(super) const RUN_MAX: usize = 4096;

/// Why a compiled list cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened or mapped.
    #[error("cannot open the compiled list {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// The file is something else.
    #[error("{path} is no compiled list; compile again (gauntlet urls compile)")]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// Another version wrote it.
    #[error("{path} has format {found}, this program reads {VERSION}; compile again")]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that it has.
        found: u32,
    },
    /// It is damaged.
    #[error("{path} is damaged ({what}); compile again (gauntlet urls compile)")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is not as it was written.
        what: &'static str,
    },
}

/// What a file says of itself, apart from its entries.
#[derive(Debug)]
pub(crate) struct MapInfo {
    pub(crate) categories: Vec<String>,
    pub(crate) sources: Vec<String>,
    pub(crate) regexes: Vec<RegexRow>,
}

/// A mapped file.
#[derive(Debug)]
pub(crate) struct Map {
    bytes: Mmap,
    header: Header,
    is_in_memory: bool,
}

impl Map {
    /// Whether a file has our magic.
    pub(crate) fn is_one(path: &Path) -> bool {
        let mut start = [0; MAGIC.len()];
        File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok()) && start == MAGIC
    }

    /// Opens a file and checks every byte of it once. With a folder `copies` it is a copy that is
    /// mapped: a file there without a name or, where none can be made, memory.
    pub(crate) fn open(path: &Path, copies: Option<&Path>) -> Result<(Map, MapInfo), OpenError> {
        let failed = |cause| OpenError::Io { path: path.to_owned(), cause };
        let mut file = File::open(path).map_err(failed)?;
        let copied = copies.filter(|_| Map::is_one(path)).map(|folder| copy(&mut file, folder));
        let is_in_memory = matches!(copied, Some(Err(_)));
        let bytes = match copied {
            Some(Err(_)) => in_memory(&mut file),
            // SAFETY: nobody else can open it.
            Some(Ok(copy)) => unsafe { Mmap::map(&copy) },
            // SAFETY: a compiled list is never changed or cut after it has its name: `Writer` makes
            // a file under another name and renames it when it is whole, and the mapping keeps the
            // file that it was made of. Whoever cuts it nevertheless ends the process (SIGBUS),
            // which is why what runs for long has copies.
            None => unsafe { Mmap::map(&file) },
        };
        let bytes = bytes.map_err(failed)?;
        let damaged = |what| OpenError::Damaged { path: path.to_owned(), what };
        if !bytes.starts_with(&MAGIC) {
            return Err(OpenError::NotOurs { path: path.to_owned() });
        }
        let found = layout::u32_at(&bytes, MAGIC.len()).ok_or_else(|| damaged("it is cut"))?;
        if found != VERSION {
            return Err(OpenError::Version { path: path.to_owned(), found });
        }
        let header = Header::decode(&bytes).ok_or_else(|| damaged("its header"))?;
        if header.file_bytes != bytes.len() as u64 {
            return Err(damaged("its length"));
        }
        let body = bytes.get(HEADER_BYTES..).unwrap_or_default();
        if *blake3::hash(body).as_bytes() != header.body {
            return Err(damaged("its checksum"));
        }
        let map = Map { bytes, header, is_in_memory };
        let info = map.info().ok_or_else(|| damaged("its strings"))?;
        if !map.is_sound() {
            return Err(damaged("its table"));
        }
        Ok((map, info))
    }

    /// Whether the parts of the file follow each other.
    fn is_sound(&self) -> bool {
        let h = &self.header;
        HEADER_BYTES as u64 <= h.records_end
            && h.records_end <= h.strings_end
            && h.strings_end <= h.slots_start
            && h.slots_start <= h.file_bytes
            && h.homes <= (h.file_bytes - h.slots_start) / 8
            && u32::try_from(h.homes).is_ok()
    }

    fn info(&self) -> Option<MapInfo> {
        let start = usize::try_from(self.header.records_end).ok()?;
        let end = usize::try_from(self.header.strings_end).ok()?;
        let mut cursor = Cursor(self.bytes.get(start..end)?);
        let strings = |cursor: &mut Cursor<'_>, max: usize| {
            let count = cursor.u32()? as usize;
            (count <= max).then_some(())?;
            (0..count).map(|_| cursor.string()).collect::<Option<Vec<_>>>()
        };
        let categories = strings(&mut cursor, CATEGORIES_MAX)?;
        let sources = strings(&mut cursor, SOURCES_MAX)?;
        let count = cursor.u32()? as usize;
        (count <= REGEXES_MAX).then_some(())?;
        let regexes = (0..count).map(|_| cursor.regex()).collect::<Option<Vec<_>>>()?;
        Some(MapInfo { categories, sources, regexes })
    }

    /// No copy could be made on the disk.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.is_in_memory
    }

    /// Entries, expressions among them.
    pub(crate) fn entries(&self) -> u64 {
        self.header.entries
    }

    /// Bytes of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.header.file_bytes
    }

    /// BLAKE3 of what it was made of.
    pub(crate) fn sources_hash(&self) -> [u8; 32] {
        self.header.sources
    }

    /// Key of the hash.
    pub(crate) fn seed(&self) -> u64 {
        self.header.seed
    }

    /// Numbers of labels that hosts of the list have.
    pub(crate) fn labels(&self) -> u64 {
        self.header.labels
    }

    /// What the slot of a hash has; 0 if nothing is there.
    #[inline]
    pub(crate) fn first_slot(&self, hash: u64) -> u64 {
        layout::u64_at(&self.bytes, self.slot_start(hash)).unwrap_or(0)
    }

    #[inline]
    fn slot_start(&self, hash: u64) -> usize {
        (self.header.slots_start + home_of(hash, self.header.homes) * 8) as usize
    }

    /// The records whose key may have this hash.
    #[inline]
    pub(crate) fn find(&self, hash: u64) -> impl Iterator<Item = Record<'_>> {
        let file: &[u8] = &self.bytes;
        let slots =
            file.get(self.slot_start(hash)..).unwrap_or_default().chunks_exact(8).take(RUN_MAX);
        let slots = slots.map(|slot| slot.first_chunk().map_or(0, |b| u64::from_le_bytes(*b)));
        let fingerprint = hash as u32;
        slots
            .take_while(|slot| *slot != 0)
            .filter(move |slot| (slot >> 32) as u32 == fingerprint)
            .filter_map(move |slot| Record::at(file, slot as u32 as usize * UNIT))
    }
}

/// A copy without a name; of file systems that can, it shares its blocks with the file.
fn copy(file: &mut File, folder: &Path) -> io::Result<File> {
    let mut copy = tempfile::tempfile_in(folder)?;
    io::copy(file, &mut copy)?;
    Ok(copy)
}

/// A copy in memory.
fn in_memory(file: &mut File) -> io::Result<Mmap> {
    file.rewind()?;
    let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let mut copy = MmapMut::map_anon(bytes)?;
    file.read_exact(&mut copy)?;
    copy.make_read_only()
}

/// The slot where a hash belongs: in the order of hashes.
pub(super) fn home_of(hash: u64, homes: u64) -> u64 {
    ((hash >> 32) * homes) >> 32
}
