//! Bodies that are too large to wait in memory for their end: they go to files as they come.
//!
//! A file has no name, so that nothing is left of it when the node ends, and no other user can open
//! it (0600). It is not the spool: a message is read back, judged and made durable before its
//! client gets 250.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gauntlet_store::spool::{Disk, Medium};

use crate::memory::{Holder, MemoryBudget, MemoryShare};

/// Where bodies wait for their end.
#[derive(Debug)]
pub struct OverflowArea {
    folder: PathBuf,
    disk: Disk,
    /// Bytes of bodies on disk, bounded over all sessions.
    bytes: Arc<MemoryBudget>,
    /// Files, for each takes a descriptor.
    files: Arc<MemoryBudget>,
    /// Bytes of the disk that stay free.
    free_bytes_min: AtomicU64,
    /// For names, where the file system has no files without.
    number: AtomicU64,
}

/// A body that is being received into a file.
#[derive(Debug)]
pub(super) struct Overflow {
    /// None while a thread writes to it, and after a failure.
    file: Option<File>,
    written: u64,
    bytes: MemoryShare,
    _file: MemoryShare,
}

impl OverflowArea {
    /// Uses this folder, which is made if it is missing; what a node that was killed left there
    /// goes.
    ///
    /// # Errors
    /// The system's.
    pub fn open(
        folder: &Path,
        bytes: Arc<MemoryBudget>,
        files: Arc<MemoryBudget>,
        free_bytes_min: u64,
    ) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        for entry in std::fs::read_dir(folder)? {
            std::fs::remove_file(entry?.path())?;
        }
        Ok(OverflowArea {
            folder: folder.to_owned(),
            disk: Disk::open(folder)?,
            bytes,
            files,
            free_bytes_min: AtomicU64::new(free_bytes_min),
            number: AtomicU64::new(0),
        })
    }

    /// Another bound of the free disk from now on.
    pub fn set_free_bytes_min(&self, bytes: u64) {
        self.free_bytes_min.store(bytes, Ordering::Relaxed);
    }

    /// A file without a name.
    fn create(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        match options.custom_flags(libc::O_TMPFILE | libc::O_EXCL).open(&self.folder) {
            Ok(file) => Ok(file),
            // Not every file system has that.
            Err(_) => {
                let number = self.number.fetch_add(1, Ordering::Relaxed);
                let path = self.folder.join(number.to_string());
                let file = options.custom_flags(0).create_new(true).open(&path)?;
                std::fs::remove_file(&path)?;
                Ok(file)
            }
        }
    }

    /// A file for a body of these holders; none if there is none left for them.
    pub(super) fn begin(&self, holders: &[Holder]) -> Option<Overflow> {
        let mut slot = self.files.share_of(holders.to_vec());
        if !slot.resize(1) {
            return None;
        }
        match self.create() {
            Ok(file) => Some(Overflow {
                file: Some(file),
                written: 0,
                bytes: self.bytes.share_of(holders.to_vec()),
                _file: slot,
            }),
            Err(error) => {
                tracing::warn!(folder = %self.folder.display(), %error, "no file for a large body");
                None
            }
        }
    }

    /// The disk keeps enough free when so many more bytes are on it.
    fn has_room(&self, bytes: u64) -> bool {
        let least = self.free_bytes_min.load(Ordering::Relaxed);
        self.disk.free_bytes().is_ok_and(|free| free >= least.saturating_add(bytes))
    }
}

impl Overflow {
    /// Bytes in the file.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Writes what came. False if there is no room on disk for it, or it could not be written.
    pub(super) async fn append(&mut self, area: &OverflowArea, piece: Vec<u8>) -> bool {
        let more = piece.len() as u64;
        if !self.bytes.resize(self.written + more) || !area.has_room(more) {
            return false;
        }
        let Some(mut file) = self.file.take() else { return false };
        let written =
            tokio::task::spawn_blocking(move || file.write_all(&piece).map(|()| file)).await;
        match written {
            Ok(Ok(file)) => {
                self.file = Some(file);
                self.written += more;
                true
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "a large body could not be written to disk");
                false
            }
            Err(_) => false,
        }
    }

    /// The whole body: what is in the file, and what came last.
    ///
    /// # Errors
    /// The file's.
    pub(super) async fn read_back(mut self, tail: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut file = self.file.take().ok_or(io::ErrorKind::NotFound)?;
        let (written, area) = (self.written, self.bytes);
        let read = tokio::task::spawn_blocking(move || {
            let bytes = usize::try_from(written).map_err(io::Error::other)?;
            let mut body = Vec::with_capacity(bytes + tail.len());
            file.rewind()?;
            file.take(written).read_to_end(&mut body)?;
            if body.len() != bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            body.extend_from_slice(&tail);
            drop(area);
            Ok(body)
        });
        read.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::BudgetLimits;

    #[tokio::test]
    async fn a_body_comes_back_as_it_was_and_limits_hold() {
        let folder = tempfile::tempdir().unwrap();
        let budget = |max| Arc::new(MemoryBudget::new(BudgetLimits::of(max)));
        let (bytes, files) = (budget(1_000), budget(1));
        std::fs::write(folder.path().join("7"), b"left by a kill").unwrap();
        let area = OverflowArea::open(folder.path(), bytes.clone(), files.clone(), 0).unwrap();
        let mut body = area.begin(&[]).unwrap();
        assert!(area.begin(&[]).is_none(), "one file");
        assert!(
            body.append(&area, vec![b'a'; 600]).await && body.append(&area, vec![b'b'; 400]).await
        );
        assert!(!body.append(&area, vec![b'c']).await, "1,000 bytes");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no name, nothing left");
        assert_eq!((bytes.used(), files.used(), body.written()), (1_000, 1, 1_000));
        let whole = body.read_back(b"tail".to_vec()).await.unwrap();
        assert_eq!(whole, [vec![b'a'; 600], vec![b'b'; 400], b"tail".to_vec()].concat());
        assert_eq!((bytes.used(), files.used()), (0, 0));
        area.set_free_bytes_min(u64::MAX);
        assert!(!area.begin(&[]).unwrap().append(&area, vec![b'a']).await, "the disk is full");
    }
}
