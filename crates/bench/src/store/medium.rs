//! Media that a measurement needs: one that counts, and one that keeps nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gauntlet_store::spool::{Medium, MediumFile, Volatile};

/// What was asked of a medium.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Waits for the disk: of files and of folders.
    pub(super) syncs: AtomicU64,
    /// Bytes appended to files.
    pub(super) bytes: AtomicU64,
}

/// A medium whose work is counted.
#[derive(Debug)]
pub(super) struct Counted {
    medium: Arc<dyn Medium>,
    counts: Arc<Counts>,
}

impl Counted {
    pub(super) fn new(medium: Arc<dyn Medium>, counts: Arc<Counts>) -> Self {
        Counted { medium, counts }
    }

    fn file(&self, file: Arc<dyn MediumFile>) -> Arc<dyn MediumFile> {
        Arc::new(CountedFile { file, counts: self.counts.clone() })
    }
}

impl Medium for Counted {
    fn list(&self) -> io::Result<Vec<String>> {
        self.medium.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        Ok(self.file(self.medium.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        Ok(self.file(self.medium.open(name)?))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.medium.remove(name)
    }

    fn sync_folder(&self) -> io::Result<()> {
        self.counts.syncs.fetch_add(1, Ordering::Relaxed);
        self.medium.sync_folder()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.medium.free_bytes()
    }

    fn describe(&self) -> String {
        self.medium.describe()
    }
}

#[derive(Debug)]
struct CountedFile {
    file: Arc<dyn MediumFile>,
    counts: Arc<Counts>,
}

impl MediumFile for CountedFile {
    fn append(&self, parts: &[&[u8]]) -> io::Result<()> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        self.counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.file.append(parts)
    }

    fn sync(&self) -> io::Result<()> {
        self.counts.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buffer, offset)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.file.truncate(size)
    }
}

/// Knows how long its files would be. What was written cannot be read back.
pub(super) type Null = Volatile<NullFile>;

/// The length of a file that is not kept.
#[derive(Debug, Default)]
pub(super) struct NullFile(AtomicU64);

impl MediumFile for NullFile {
    fn append(&self, parts: &[&[u8]]) -> io::Result<()> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.load(Ordering::Relaxed))
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.0.store(size, Ordering::Relaxed);
        Ok(())
    }
}
