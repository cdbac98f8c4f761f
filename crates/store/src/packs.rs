//! Packs: append-only files of many bodies, for whatever a room keeps for days.
//!
//! A body in a file of its own costs a file, its sync and often two folders'. Here many are
//! appended to one file and made durable by one sync (group commit); only then does their owner
//! write, in one transaction, where they are ([`index`]). Packs hold what goes together: their
//! *group* is a day and whatever else retention needs, so that retention drops whole packs. A
//! single deletion leaves a hole; what is left of a pack of many holes is copied to another one,
//! and the pack removed.
//!
//! ```text
//! append(group, records) ─▶ write all, fdatasync once ─▶ locations ─▶ the owner's index
//!     0000000000000001.pack   head: group, key │ body │ entry │ body │ entry │ (hole) │ ...
//! ```
//!
//! The index alone says what counts. What a crash left behind the indexed end of a pack was
//! promised to nobody; its owner may read it by [`Packs::scan`] all the same, and make a lost index
//! again from all packs. Each content is sealed by its owner, or not; the hash in its record is
//! that of the clear text, so that equal contents are stored once.
//!
//! One process writes: `flock` on `lock` refuses a second one. Others read.

pub mod index;
mod lock;
mod record;
mod scan;

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::content::ContentHash;
use crate::error::StoreError;
use crate::spool::{Disk, Medium, MediumFile};

pub use lock::Keep;
use lock::WriterLock;
use record::{BadFileHead, FILE_HEAD_BYTES, FileHead, HEAD_BYTES};
pub(crate) use record::{FILE_MAGIC, VERSION};
pub use record::{GROUP_BYTES_MAX, Head, Kind, PAYLOAD_BYTES_MAX};

/// Files that are kept open at most; a read opens another again.
const FILES_OPEN_MAX: usize = 32;
/// Groups to which may be appended without a new pack.
const GROUPS_OPEN_MAX: usize = 32;
/// End of a pack's name.
const SUFFIX: &str = ".pack";

/// Limits of packs, the same for all groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackOptions {
    /// Bytes after which a new pack is begun.
    pub bytes_max: u64,
}

impl Default for PackOptions {
    fn default() -> Self {
        PackOptions { bytes_max: 64 << 20 }
    }
}

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// Number of the pack.
    pub pack: u64,
    /// Offset of the record in bytes.
    pub offset: u64,
    /// Bytes of the record, its header included.
    pub bytes: u64,
}

/// A record to be written.
#[derive(Debug, Clone, Copy)]
pub struct NewRecord<'a> {
    /// A content, an entry about contents, or a change of an entry.
    pub kind: Kind,
    /// The payload is encrypted.
    pub is_sealed: bool,
    /// Hash of the content in clear.
    pub hash: ContentHash,
    /// The bytes to store, sealed already if they are to be.
    pub payload: &'a [u8],
}

/// The valid records of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackScan {
    /// The group; none if the head of the pack is damaged.
    pub group: Option<String>,
    /// Every valid record, in order.
    pub records: Vec<(Head, Location)>,
    /// Offsets at which damage begins that was skipped.
    pub damaged: Vec<u64>,
    /// End of what is to be kept.
    pub valid_bytes: u64,
    /// Bytes of a torn write behind that.
    pub torn_bytes: u64,
}

/// The packs of a folder. All methods may be called from any thread and block.
#[derive(Debug)]
pub struct Packs {
    medium: Arc<dyn Medium>,
    /// Folder of the locks; none in memory.
    folder: Option<PathBuf>,
    options: PackOptions,
    writer: Mutex<Writer>,
    files: Mutex<BTreeMap<u64, Arc<Pack>>>,
}

#[derive(Debug, Default)]
struct Writer {
    lock: Option<WriterLock>,
    /// By group, the pack that is appended to and its length.
    open: BTreeMap<String, (u64, u64)>,
    /// Numbers up to this are taken, also of packs whose files are gone: a row that still names one
    /// must not find another pack's records.
    taken: u64,
}

#[derive(Debug)]
struct Pack {
    file: Arc<dyn MediumFile>,
    head: Option<FileHead>,
}

impl Packs {
    /// Opens or creates this folder to write packs in it.
    ///
    /// # Errors
    /// If the folder cannot be used, or another process writes there.
    pub fn open(folder: &Path, options: PackOptions) -> Result<Self, StoreError> {
        let packs = Self::open_shared(folder, options)?;
        packs.lock_writer()?;
        Ok(packs)
    }

    /// Opens the folder while another process may write there. The first thing that is written
    /// takes the right to write, if nobody else has it.
    ///
    /// # Errors
    /// If the folder cannot be used.
    pub fn open_shared(folder: &Path, options: PackOptions) -> Result<Self, StoreError> {
        let disk = Disk::open(folder).map_err(StoreError::io(folder, "open"))?;
        let packs = Self::on(Arc::new(disk), options);
        Ok(Packs { folder: Some(folder.to_owned()), ..packs })
    }

    /// Packs on another medium, which nobody else uses.
    pub fn on(medium: Arc<dyn Medium>, options: PackOptions) -> Self {
        let (writer, files) = (Mutex::default(), Mutex::default());
        Packs { medium, folder: None, options, writer, files }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Pack>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Path of a pack, for messages.
    pub fn path(&self, number: u64) -> PathBuf {
        Path::new(&self.medium.describe()).join(name_of(number))
    }

    /// Whether this process has the right to write.
    pub fn is_writer(&self) -> bool {
        self.folder.is_none() || self.writer().lock.is_some()
    }

    /// Takes the right to write, for as long as this lives.
    ///
    /// # Errors
    /// If another process has it.
    pub fn lock_writer(&self) -> Result<(), StoreError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let mut writer = self.writer();
        if writer.lock.is_some() {
            return Ok(());
        }
        writer.lock = Some(WriterLock::take(folder)?.ok_or_else(|| StoreError::Invalid {
            what: "these packs",
            cause: format!(
                "{}: another process writes here; have the running node do it, or stop it first",
                folder.display()
            ),
        })?);
        Ok(())
    }

    /// Numbers of all packs, ascending.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    pub fn list(&self) -> Result<Vec<u64>, StoreError> {
        let names = self.medium.list().map_err(self.failed("list"))?;
        let numbers = names.iter().filter_map(|name| name.strip_suffix(SUFFIX)?.parse().ok());
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Whether a folder has any pack.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn has_any(folder: &Path) -> Result<bool, StoreError> {
        match std::fs::read_dir(folder) {
            Ok(entries) => Ok(entries
                .flatten()
                .any(|entry| entry.file_name().to_str().is_some_and(|n| n.ends_with(SUFFIX)))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(StoreError::io(folder, "list")(error)),
        }
    }

    /// Whether a test holds for the first MiB of any pack.
    ///
    /// # Errors
    /// If the folder cannot be listed, or a pack not be read.
    pub fn any_begins_with(
        folder: &Path,
        test: impl Fn(&[u8]) -> bool,
    ) -> Result<bool, StoreError> {
        const BEGINNING: u64 = 1 << 20;
        if !Self::has_any(folder)? {
            return Ok(false);
        }
        let entries = std::fs::read_dir(folder).map_err(StoreError::io(folder, "list"))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let mut bytes = Vec::new();
            let file = std::fs::File::open(&path).map_err(StoreError::io(&path, "open"))?;
            file.take(BEGINNING).read_to_end(&mut bytes).map_err(StoreError::io(&path, "read"))?;
            if test(&bytes) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Bytes of a pack; none if it is missing.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn size(&self, number: u64) -> Result<Option<u64>, StoreError> {
        let Some(pack) = self.pack(number)? else { return Ok(None) };
        pack.file.size().map(Some).map_err(self.failed_at(number, "look at"))
    }

    /// Free bytes of the file system.
    ///
    /// # Errors
    /// If they cannot be counted.
    pub fn free_bytes(&self) -> Result<u64, StoreError> {
        self.medium.free_bytes().map_err(self.failed("look at"))
    }

    /// New packs get numbers above this: the index still knows packs up to it, whose files may be
    /// gone.
    pub fn take_numbers(&self, up_to: u64) {
        let mut writer = self.writer();
        writer.taken = writer.taken.max(up_to);
    }

    /// Continues a pack that an earlier process began, if its length is this.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn resume(&self, number: u64, group: &str, length: u64) -> Result<(), StoreError> {
        let Some(pack) = self.pack(number)? else { return Ok(()) };
        let is_same = pack.head.as_ref().is_some_and(|head| head.group == group);
        if is_same && self.size(number)? == Some(length) {
            self.writer().open.insert(group.to_owned(), (number, length));
        }
        Ok(())
    }

    /// Appends records of one group; durable when it returns. At most one call at a time is of use.
    ///
    /// # Errors
    /// If they could not all be made durable; then none counts.
    pub fn append(
        &self,
        group: &str,
        records: &[NewRecord<'_>],
    ) -> Result<Vec<Location>, StoreError> {
        self.lock_writer()?;
        let mut writer = self.writer();
        let (number, start, pack) = self.pack_to_append(&mut writer, group)?;
        let key = pack.head.as_ref().map(|head| head.key).ok_or_else(|| self.bad_head(number))?;
        let (mut heads, mut locations) = (Vec::new(), Vec::new());
        let mut at = start;
        for record in records {
            if record.payload.len() as u64 > u64::from(PAYLOAD_BYTES_MAX) {
                let cause = format!("{} bytes are too many", record.payload.len());
                return Err(StoreError::Invalid { what: "a record of a pack", cause });
            }
            let head = Head::new(record.kind, record.is_sealed, record.hash, record.payload);
            locations.push(Location { pack: number, offset: at, bytes: head.record_bytes() });
            heads.push(head.encode(&key, at));
            at += head.record_bytes();
        }
        let parts = heads.iter().zip(records).flat_map(|(head, r)| [&head[..], r.payload]);
        let parts: Vec<&[u8]> = parts.collect();
        let written = pack.file.append(&parts).map_err(self.failed_at(number, "append to"));
        let written =
            written.and_then(|()| pack.file.sync().map_err(self.failed_at(number, "sync")));
        if let Err(error) = written {
            // Best effort: what is left is promised to nobody. After a failed sync it is unknown
            // what of the cache is on the disk, so that the next records go elsewhere.
            let _cut = pack.file.truncate(start);
            writer.open.remove(group);
            return Err(error);
        }
        writer.open.insert(group.to_owned(), (number, at));
        Ok(locations)
    }

    /// Takes back what was appended last and is not in the index: best effort, since nobody was
    /// promised anything.
    pub fn retract(&self, locations: &[Location]) {
        let Some(first) = locations.first() else { return };
        let mut writer = self.writer();
        let mut open = writer.open.values_mut();
        let end = locations.last().map_or(0, |last| last.offset + last.bytes);
        if let Some(last) = open.find(|(pack, length)| *pack == first.pack && *length == end)
            && let Ok(Some(pack)) = self.pack(first.pack)
            && pack.file.truncate(first.offset).is_ok()
        {
            last.1 = first.offset;
        }
    }

    /// Appends no more to this pack.
    pub fn close(&self, number: u64) {
        self.writer().open.retain(|_, (open, _)| *open != number);
    }

    /// A record; none if its pack is missing.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub fn read(&self, location: Location) -> Result<Option<(Head, Vec<u8>)>, StoreError> {
        let Some(pack) = self.pack(location.pack)? else { return Ok(None) };
        let damaged = |cause: &str| StoreError::Damaged {
            path: self.path(location.pack),
            what: format!("the record at byte {}", location.offset),
            cause: format!("{cause}; restore the file from a backup, or delete the message"),
        };
        let length = usize::try_from(location.bytes).unwrap_or(usize::MAX);
        if length < HEAD_BYTES || length > HEAD_BYTES + PAYLOAD_BYTES_MAX as usize {
            return Err(damaged("the index gives it an impossible length"));
        }
        let mut bytes = vec![0; length];
        match pack.file.read_at(&mut bytes, location.offset) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(damaged("the file ends before it"));
            }
            Err(error) => return Err(self.failed_at(location.pack, "read")(error)),
        }
        let key = pack.head.as_ref().map(|head| &head.key);
        let head = Head::decode(&bytes, key, location.offset);
        let head = head.ok_or_else(|| damaged("its header is not what was written"))?;
        let payload = bytes.split_off(HEAD_BYTES);
        if !head.describes(&payload) {
            return Err(damaged("its content is not what was written"));
        }
        Ok(Some((head, payload)))
    }

    /// The records of a pack from an offset on, 0 for all; none if it is missing.
    ///
    /// # Errors
    /// If it cannot be read, or is of a newer version.
    pub fn scan(&self, number: u64, from: u64) -> Result<Option<PackScan>, StoreError> {
        let Some(pack) = self.pack(number)? else { return Ok(None) };
        let size = pack.file.size().map_err(self.failed_at(number, "look at"))?;
        if size < FILE_HEAD_BYTES {
            // Its creation was torn; it cannot hold a record.
            let (group, records, damaged) = (None, Vec::new(), Vec::new());
            let valid_bytes = 0;
            return Ok(Some(PackScan { group, records, damaged, valid_bytes, torn_bytes: size }));
        }
        let key = pack.head.as_ref().map(|head| &head.key);
        let found = scan::scan(&*pack.file, key, from.max(FILE_HEAD_BYTES));
        let found = found.map_err(self.failed_at(number, "read"))?;
        let records = found.records.into_iter().map(|(head, offset)| {
            (head, Location { pack: number, offset, bytes: head.record_bytes() })
        });
        Ok(Some(PackScan {
            group: pack.head.as_ref().map(|head| head.group.clone()),
            records: records.collect(),
            damaged: found.damaged,
            valid_bytes: found.valid_bytes,
            torn_bytes: found.torn_bytes,
        }))
    }

    /// Cuts a torn write off.
    ///
    /// # Errors
    /// If the file cannot be changed.
    pub fn truncate(&self, number: u64, length: u64) -> Result<(), StoreError> {
        self.lock_writer()?;
        let Some(pack) = self.pack(number)? else { return Ok(()) };
        pack.file.truncate(length).map_err(self.failed_at(number, "truncate"))
    }

    /// Removes packs for good; durable when it returns. False, and nothing is removed, while
    /// somebody keeps them ([`Keep`]).
    ///
    /// # Errors
    /// If one cannot be removed.
    pub fn remove(&self, numbers: &[u64]) -> Result<bool, StoreError> {
        if numbers.is_empty() {
            return Ok(true);
        }
        self.lock_writer()?;
        let lock = match &self.folder {
            Some(folder) => match lock::may_remove(folder)? {
                Some(lock) => Some(lock),
                None => return Ok(false),
            },
            None => None,
        };
        for number in numbers {
            self.close(*number);
            self.files().remove(number);
            match self.medium.remove(&name_of(*number)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(self.failed_at(*number, "remove")(error)),
            }
        }
        self.medium.sync_folder().map_err(self.failed("sync"))?;
        drop(lock);
        Ok(true)
    }

    /// The pack of a group that is appended to: its number and length.
    fn pack_to_append(
        &self,
        writer: &mut Writer,
        group: &str,
    ) -> Result<(u64, u64, Arc<Pack>), StoreError> {
        if let Some((number, length)) = writer.open.get(group).copied()
            && length < self.options.bytes_max
            && let Some(pack) = self.pack(number)?
        {
            return Ok((number, length, pack));
        }
        let number = self.list()?.last().copied().unwrap_or(0).max(writer.taken) + 1;
        writer.taken = number;
        let name = name_of(number);
        let create = || {
            let head = FileHead::new(group)?;
            let file = self.medium.create(&name)?;
            let ready = file.append(&[&head.encode()]).and_then(|()| self.medium.sync_folder());
            if let Err(error) = ready {
                let _best_effort = self.medium.remove(&name);
                return Err(error);
            }
            Ok(Arc::new(Pack { file, head: Some(head) }))
        };
        let pack = create().map_err(self.failed_at(number, "create"))?;
        self.keep_open(number, &pack);
        writer.open.remove(group);
        if writer.open.len() >= GROUPS_OPEN_MAX {
            // The pack that was begun first: its day is most likely over.
            let oldest = writer.open.iter().min_by_key(|(_, (number, _))| *number);
            let oldest = oldest.map(|(group, _)| group.clone());
            oldest.map(|group| writer.open.remove(&group));
        }
        writer.open.insert(group.to_owned(), (number, FILE_HEAD_BYTES));
        Ok((number, FILE_HEAD_BYTES, pack))
    }

    /// An open pack; none if it is missing.
    fn pack(&self, number: u64) -> Result<Option<Arc<Pack>>, StoreError> {
        if let Some(pack) = self.files().get(&number) {
            return Ok(Some(pack.clone()));
        }
        let file = match self.medium.open(&name_of(number)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed_at(number, "open")(error)),
        };
        let size = file.size().map_err(self.failed_at(number, "look at"))?;
        let mut bytes = vec![0; usize::try_from(size.min(FILE_HEAD_BYTES)).unwrap_or_default()];
        file.read_at(&mut bytes, 0).map_err(self.failed_at(number, "read"))?;
        let head = match FileHead::decode(&bytes) {
            Ok(head) => Some(head),
            Err(BadFileHead::Damaged) => None,
            Err(BadFileHead::Newer(found)) => {
                return Err(StoreError::Newer { path: self.path(number), found, known: 1 });
            }
        };
        let pack = Arc::new(Pack { file, head });
        // Another process may be about to write the head.
        if pack.head.is_some() {
            self.keep_open(number, &pack);
        }
        Ok(Some(pack))
    }

    fn keep_open(&self, number: u64, pack: &Arc<Pack>) {
        let mut files = self.files();
        if files.len() >= FILES_OPEN_MAX {
            // The oldest, of which least is still held.
            files.pop_first();
        }
        files.insert(number, pack.clone());
    }

    fn bad_head(&self, number: u64) -> StoreError {
        let (path, what) = (self.path(number), "the head of the pack".to_owned());
        StoreError::Damaged { path, what, cause: "it is not what was written".to_owned() }
    }

    fn failed(&self, what: &'static str) -> impl FnOnce(std::io::Error) -> StoreError + use<> {
        let path = PathBuf::from(self.medium.describe());
        move |source| StoreError::Io { path, what, source }
    }

    fn failed_at(
        &self,
        number: u64,
        what: &'static str,
    ) -> impl FnOnce(std::io::Error) -> StoreError + use<> {
        let path = self.path(number);
        move |source| StoreError::Io { path, what, source }
    }
}

/// Name of a pack's file.
fn name_of(number: u64) -> String {
    format!("{number:016}{SUFFIX}")
}

#[cfg(test)]
mod tests;
