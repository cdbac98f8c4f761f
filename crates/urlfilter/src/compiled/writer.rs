//! Writes a compiled file in bounded memory: records as they come, then the table in the order of
//! the hashes. In memory are twelve bytes an entry, and sixteen more for a prefix.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use tempfile::NamedTempFile;

use super::hash::{host_hash, path_hash};
use super::layout::{self, Header, Lengths, Record, RegexRow};
use super::layout::{HEADER_BYTES, Kind, Options, UNIT};
use super::map::{RUN_MAX, home_of};
use crate::entry::{Entry, Pattern};
use crate::limits::{CATEGORIES_MAX, ENTRIES_A_KEY_MAX, ENTRIES_MAX, REGEXES_MAX, SOURCES_MAX};

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Tenths of slots for each record: the table is filled to 60 %, so that few are away from home.
const SLOT_TENTHS: u64 = 16;

/// Why a list cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The compiled file cannot be written.
    #[error("cannot write the compiled list {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// A source cannot be read.
    #[error("cannot read the list {path}")]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// There are too many files.
    #[error("more than {SOURCES_MAX} files; compile them into several lists")]
    Sources,
    /// Records take more room than their places can say.
    #[error("the entries take more than 16 GiB; compile them into several lists")]
    Size,
    /// Very many keys have nearly one hash: never seen but by intent.
    #[error("more than {RUN_MAX} keys of the list share their hash; leave out the newest source")]
    Crowded,
    /// The expressions are too large together.
    #[error("the regular expressions are too large together; compile fewer of them")]
    Regexes(#[source] regex::Error),
}

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Added {
    Taken,
    TooManyEntries,
    TooManyRegexes,
    TooManyCategories,
}

/// What was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Built {
    /// Entries in the file.
    pub entries: u64,
    /// Entries that said what an earlier one says, and were left out.
    pub duplicates: u64,
    /// Entries left out because too many have their key.
    pub crowded: u64,
    /// Regular expressions among the entries.
    pub regexes: usize,
    /// Categories.
    pub categories: usize,
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// Hash and place of a record. In the order of hashes, then of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key([u32; 3]);

impl Key {
    fn new(hash: u64, place: u32) -> Key {
        Key([(hash >> 32) as u32, hash as u32, place])
    }

    fn hash(self) -> u64 {
        u64::from(self.0[0]) << 32 | u64::from(self.0[1])
    }

    fn place(self) -> usize {
        self.0[2] as usize * UNIT
    }

    fn slot(self) -> u64 {
        u64::from(self.0[1]) << 32 | u64::from(self.0[2])
    }
}

/// A host with a prefix: its hash and the length.
type HostLength = ([u32; 2], u8);

/// A compiled file that is being written.
pub(crate) struct Writer {
    path: PathBuf,
    out: BufWriter<NamedTempFile>,
    hasher: blake3::Hasher,
    /// Bytes written so far.
    at: u64,
    seed: u64,
    labels: u64,
    keys: Vec<Key>,
    lengths: Vec<HostLength>,
    categories: Names,
    sources: Vec<String>,
    regexes: Vec<RegexRow>,
    buffer: Vec<u8>,
    crowded: u64,
    duplicates: u64,
    /// Records that say lengths, and are no entries.
    length_records: u64,
}

/// Names by number.
#[derive(Default)]
struct Names {
    all: Vec<String>,
    numbers: HashMap<String, u16>,
}

impl Names {
    fn number(&mut self, name: &str) -> Option<u16> {
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        let number =
            u16::try_from(self.all.len()).ok().filter(|n| usize::from(*n) < CATEGORIES_MAX)?;
        self.all.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Some(number)
    }
}

impl Writer {
    /// Begins a file beside `path`; `seed` is the key of the hash.
    pub(crate) fn new(path: &Path, seed: u64) -> Result<Writer, BuildError> {
        let folder = path.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let write = |cause| BuildError::Write { path: path.to_owned(), cause };
        let mut builder = tempfile::Builder::new();
        let file = builder.prefix(".urls-").suffix(".new").tempfile_in(folder).map_err(write)?;
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
        out.write_all(&[0; HEADER_BYTES]).map_err(write)?;
        Ok(Writer {
            path: path.to_owned(),
            out,
            hasher: blake3::Hasher::new(),
            at: HEADER_BYTES as u64,
            seed,
            labels: 0,
            keys: Vec::new(),
            lengths: Vec::new(),
            categories: Names::default(),
            sources: Vec::new(),
            regexes: Vec::new(),
            buffer: Vec::new(),
            crowded: 0,
            duplicates: 0,
            length_records: 0,
        })
    }

    fn failed(&self, cause: std::io::Error) -> BuildError {
        BuildError::Write { path: self.path.clone(), cause }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BuildError> {
        self.hasher.update(bytes);
        self.at += bytes.len() as u64;
        self.out
            .write_all(bytes)
            .map_err(|cause| BuildError::Write { path: self.path.clone(), cause })
    }

    /// The number of a file whose entries follow.
    pub(crate) fn source(&mut self, name: &str) -> Result<u16, BuildError> {
        let number = u16::try_from(self.sources.len()).ok();
        let number = number.filter(|n| usize::from(*n) < SOURCES_MAX).ok_or(BuildError::Sources)?;
        self.sources.push(name.to_owned());
        Ok(number)
    }

    /// Adds an entry of a source.
    pub(crate) fn add(
        &mut self,
        entry: &Entry,
        source: u16,
        category: &str,
    ) -> Result<Added, BuildError> {
        if self.keys.len() as u64 >= ENTRIES_MAX {
            return Ok(Added::TooManyEntries);
        }
        let Some(category) = self.categories.number(category) else {
            return Ok(Added::TooManyCategories);
        };
        let Some(record) = Record::of_entry(entry, source, category) else {
            return Ok(self.add_regex(entry, source, category));
        };
        let host = host_hash(self.seed, record.host);
        let mut hash = host;
        if record.kind == Kind::Prefix {
            let hashed = layout::hashed(record.path);
            hash = path_hash(host, hashed);
            self.lengths.push(([(host >> 32) as u32, host as u32], hashed.len() as u8));
        }
        self.labels |= layout::label_bit(memchr::memchr_iter(b'.', record.host).count() + 1);
        self.append(&record, hash)?;
        Ok(Added::Taken)
    }

    fn add_regex(&mut self, entry: &Entry, source: u16, category: u16) -> Added {
        let Pattern::Regex(text) = &entry.pattern else { return Added::Taken };
        let options = Options::of(entry);
        let same =
            |row: &&RegexRow| (&row.text, row.category, row.options) == (text, category, options);
        // At most so many that each may be compared with all.
        if self.regexes.iter().any(|row| same(&row)) {
            self.duplicates += 1;
            return Added::Taken;
        }
        if self.regexes.len() >= REGEXES_MAX {
            return Added::TooManyRegexes;
        }
        let line = u32::try_from(entry.line).unwrap_or(u32::MAX);
        self.regexes.push(RegexRow { text: text.clone(), options, line, source, category });
        Added::Taken
    }

    fn append(&mut self, record: &Record<'_>, hash: u64) -> Result<(), BuildError> {
        let place = u32::try_from(self.at / UNIT as u64).map_err(|_| BuildError::Size)?;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        record.encode(&mut buffer);
        let written = self.write(&buffer);
        self.buffer = buffer;
        self.keys.push(Key::new(hash, place));
        written
    }

    /// One record for each host with prefixes: the lengths that they have. Hosts are told apart by
    /// their hashes alone; two with one hash would look for each other's lengths, and find nothing.
    fn append_lengths(&mut self) -> Result<(), BuildError> {
        let mut all = std::mem::take(&mut self.lengths);
        all.sort_unstable();
        for group in all.chunk_by(|a, b| a.0 == b.0) {
            let Some(([high, low], _)) = group.first() else { continue };
            let mut lengths = Lengths::default();
            group.iter().for_each(|(_, length)| lengths.set(*length));
            let hash = u64::from(*high) << 32 | u64::from(*low);
            self.append(&Record::of_lengths(&lengths.encode()), hash)?;
            self.length_records += 1;
        }
        Ok(())
    }

    /// Writes the rest, and gives the file its name. `sources` is the hash of all that was read.
    pub(crate) fn finish(mut self, sources: [u8; 32]) -> Result<Built, BuildError> {
        crate::regexes::set(self.regexes.iter().map(|row| row.text.as_str()))
            .map_err(BuildError::Regexes)?;
        self.append_lengths()?;
        let records_end = self.at;
        self.drop_duplicates()?;
        let entries = self.write_strings()?;
        let strings_end = self.at;
        let fill = self.at.next_multiple_of(8) - self.at;
        self.write(&[0; 8][..fill as usize])?;
        let slots_start = self.at;
        let homes = (self.keys.len() as u64 * SLOT_TENTHS / 10).max(1);
        self.write_slots(homes)?;
        let header = Header {
            entries,
            records_end,
            strings_end,
            slots_start,
            homes,
            seed: self.seed,
            labels: self.labels,
            file_bytes: self.at,
            sources,
            body: *self.hasher.finalize().as_bytes(),
        };
        let built = Built {
            entries,
            duplicates: self.duplicates,
            crowded: self.crowded,
            regexes: self.regexes.len(),
            categories: self.categories.all.len(),
            file_bytes: self.at,
        };
        self.publish(&header)?;
        Ok(built)
    }

    /// Sorts the keys, and leaves out those whose records say what an earlier one says.
    fn drop_duplicates(&mut self) -> Result<(), BuildError> {
        self.out.flush().map_err(|cause| self.failed(cause))?;
        // SAFETY: the file has a name that nobody else knows; it grows behind what is mapped here
        // and is neither changed before nor cut.
        let map = unsafe { Mmap::map(self.out.get_ref().as_file()) };
        let map = map.map_err(|cause| self.failed(cause))?;
        self.keys.sort_unstable();
        let (mut duplicates, mut crowded) = (0, 0);
        let mut start = 0;
        let mut kept = 0;
        while let Some(first) = self.keys.get(start).copied() {
            let rest = self.keys.get(start..).unwrap_or_default();
            let count = rest.iter().take_while(|key| key.hash() == first.hash()).count();
            let group_start = kept;
            for at in start..start + count {
                let key = self.keys[at];
                let record = Record::at(&map, key.place());
                let mut before = self.keys[group_start..kept].iter();
                let same = count > 1
                    && before.any(|other| {
                        let other = Record::at(&map, other.place());
                        record.zip(other).is_some_and(|(a, b)| a.says_the_same(&b))
                    });
                if same {
                    duplicates += 1;
                } else if kept - group_start >= ENTRIES_A_KEY_MAX
                    && record.is_none_or(|r| r.kind != Kind::Lengths)
                {
                    crowded += 1;
                } else {
                    self.keys[kept] = key;
                    kept += 1;
                }
            }
            start += count;
        }
        self.keys.truncate(kept);
        self.duplicates += duplicates;
        self.crowded += crowded;
        Ok(())
    }

    /// Writes names and expressions; the count of entries.
    fn write_strings(&mut self) -> Result<u64, BuildError> {
        let mut bytes = Vec::new();
        for names in [&self.categories.all, &self.sources] {
            bytes.extend((names.len() as u32).to_le_bytes());
            names.iter().for_each(|name| layout::put_string(name, &mut bytes));
        }
        bytes.extend((self.regexes.len() as u32).to_le_bytes());
        self.regexes.iter().for_each(|row| row.encode(&mut bytes));
        self.write(&bytes)?;
        Ok(self.keys.len() as u64 - self.length_records + self.regexes.len() as u64)
    }

    /// Writes the slots in the order of the hashes: each at its home, or behind the one before.
    fn write_slots(&mut self, homes: u64) -> Result<(), BuildError> {
        let keys = std::mem::take(&mut self.keys);
        let mut next = 0_u64;
        let mut piece = Vec::with_capacity(BUFFER_BYTES);
        for key in keys {
            let home = home_of(key.hash(), homes);
            if next > home + RUN_MAX as u64 - 1 {
                return Err(BuildError::Crowded);
            }
            while next < home {
                piece.extend([0; 8]);
                next += 1;
            }
            piece.extend(key.slot().to_le_bytes());
            next += 1;
            if piece.len() >= BUFFER_BYTES {
                self.write(&piece)?;
                piece.clear();
            }
        }
        // One empty slot ends the last run.
        for _ in next..homes.max(next) + 1 {
            piece.extend([0; 8]);
            if piece.len() >= BUFFER_BYTES {
                self.write(&piece)?;
                piece.clear();
            }
        }
        self.write(&piece)
    }

    /// Durable first, then under its name: who opens it finds the old file or the new one, whole.
    fn publish(self, header: &Header) -> Result<(), BuildError> {
        let Writer { path, out, .. } = self;
        let write = |cause| BuildError::Write { path: path.clone(), cause };
        let mut file = out.into_inner().map_err(|error| write(error.into_error()))?;
        file.seek(SeekFrom::Start(0)).map_err(write)?;
        file.write_all(&header.encode()).map_err(write)?;
        set_mode(file.as_file()).map_err(write)?;
        file.as_file().sync_all().map_err(write)?;
        file.persist(&path).map_err(|error| write(error.error))?;
        let folder = path.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(write)
    }
}

/// A list is no secret, and nobody may change it where it lies: all may read, none may write.
fn set_mode(file: &File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let set = |mode| file.set_permissions(std::fs::Permissions::from_mode(mode));
    match set(0o444) {
        // The sandbox of a node lets it open nothing to others.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => set(0o400),
        done => done,
    }
}
