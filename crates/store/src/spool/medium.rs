//! The storage of a spool: a flat folder of append-only files.
//!
//! Three media exist: [`Disk`], [`Ram`] (for benchmarks, and for nodes that may lose mail), and the
//! fault-injecting one of [`super::fault`] for tests.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::files;

/// A folder of append-only files.
pub trait Medium: Send + Sync + Debug {
    /// Names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Creates an empty file. Its name is durable after [`Medium::sync_folder`].
    fn create(&self, name: &str) -> io::Result<Arc<dyn MediumFile>>;
    /// Opens a file that exists.
    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>>;
    /// Removes a file; not durable before [`Medium::sync_folder`].
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations and removals durable.
    fn sync_folder(&self) -> io::Result<()>;
    /// Free space in bytes.
    fn free_bytes(&self) -> io::Result<u64>;
    /// Description of the location, for error messages.
    fn describe(&self) -> String;
}

/// An append-only file that may be truncated.
pub trait MediumFile: Send + Sync + Debug {
    /// Writes all parts at the end. After an error any part of them may have been written.
    fn append(&self, parts: &[&[u8]]) -> io::Result<()>;
    /// Makes everything written durable.
    fn sync(&self) -> io::Result<()>;
    /// Reads exactly `buffer.len()` bytes from `offset` on.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Length of the file in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Truncates the file to this length.
    fn truncate(&self, size: u64) -> io::Result<()>;
}

/// A folder of the file system.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Uses this folder, which is created if it does not exist.
    pub fn open(folder: &Path) -> io::Result<Self> {
        files::create_folder(folder)?;
        Ok(Disk { folder: folder.to_owned() })
    }

    fn open_file(&self, name: &str, create: bool) -> io::Result<Arc<dyn MediumFile>> {
        let path = self.folder.join(name);
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create_new(create).mode(0o600).open(path)?;
        Ok(Arc::new(DiskFile(file)))
    }
}

impl Medium for Disk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        self.open_file(name, true)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        self.open_file(name, false)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.folder.join(name))
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        crate::files::free_bytes(&self.folder)
    }

    fn describe(&self) -> String {
        self.folder.display().to_string()
    }
}

/// A folder of the file system that is looked at and not changed: what would change it is left
/// undone, and a new file is refused. For a look at the disk of another node.
#[derive(Debug)]
pub struct ReadOnlyDisk {
    folder: PathBuf,
}

impl ReadOnlyDisk {
    /// Uses this folder, which must exist.
    pub fn open(folder: &Path) -> io::Result<Self> {
        std::fs::read_dir(folder)?;
        Ok(ReadOnlyDisk { folder: folder.to_owned() })
    }
}

impl Medium for ReadOnlyDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Disk { folder: self.folder.clone() }.list()
    }

    fn create(&self, _: &str) -> io::Result<Arc<dyn MediumFile>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        Ok(Arc::new(ReadOnlyFile(DiskFile(File::open(self.folder.join(name))?))))
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_folder(&self) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn describe(&self) -> String {
        self.folder.display().to_string()
    }
}

#[derive(Debug)]
struct ReadOnlyFile(DiskFile);

impl MediumFile for ReadOnlyFile {
    fn append(&self, _: &[&[u8]]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buffer, offset)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct DiskFile(File);

impl MediumFile for DiskFile {
    fn append(&self, parts: &[&[u8]]) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|p| IoSlice::new(p)).collect();
        let mut rest = slices.as_mut_slice();
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match (&self.0).write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => IoSlice::advance_slices(&mut rest, n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }
}

/// Files in memory only: nothing survives the process.
#[derive(Debug, Default)]
pub struct Volatile<F> {
    files: Mutex<BTreeMap<String, Arc<F>>>,
}

/// A medium in memory.
pub type Ram = Volatile<RamFile>;

impl<F> Volatile<F> {
    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Arc<F>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: MediumFile + Default + 'static> Medium for Volatile<F> {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        let file = Arc::new(F::default());
        self.files().insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn MediumFile>> {
        match self.files().get(name) {
            Some(file) => Ok(file.clone()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files().remove(name);
        Ok(())
    }

    fn sync_folder(&self) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

/// A file in memory.
#[derive(Debug, Default)]
pub struct RamFile(RwLock<Vec<u8>>);

impl MediumFile for RamFile {
    fn append(&self, parts: &[&[u8]]) -> io::Result<()> {
        let mut bytes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        copy_at(&bytes, buffer, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.read().unwrap_or_else(PoisonError::into_inner).len() as u64)
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        self.0.write().unwrap_or_else(PoisonError::into_inner).truncate(size);
        Ok(())
    }
}

/// Copies `buffer.len()` bytes from `offset` of `bytes`.
pub(super) fn copy_at(bytes: &[u8], buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let end = start.saturating_add(buffer.len());
    match bytes.get(start..end) {
        Some(found) => {
            buffer.copy_from_slice(found);
            Ok(())
        }
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
