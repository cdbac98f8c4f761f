//! Bodies on disk, named by their hash.
//!
//! A body is written to a temporary file, made durable, renamed to its name, and the folder made
//! durable; so a name that exists has its whole content. The same bytes are kept once. Two levels
//! of 256 folders keep every folder small.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::StoreError;

/// BLAKE3 of a body; in text, 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        ContentHash(*blake3::hash(bytes).as_bytes())
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        Some(ContentHash(*blake3::Hash::from_hex(text).ok()?.as_bytes()))
    }
}

impl std::fmt::Display for ContentHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

/// A folder of bodies.
#[derive(Debug)]
pub struct Content {
    folder: PathBuf,
    written: AtomicU64,
}

impl Content {
    /// Opens or creates the folder, and clears what a crash left half written.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let incoming = folder.join("incoming");
        fs::create_dir_all(&incoming).map_err(StoreError::io(&incoming, "create"))?;
        let left = fs::read_dir(&incoming).map_err(StoreError::io(&incoming, "list"))?;
        for entry in left.flatten() {
            let path = entry.path();
            fs::remove_file(&path).map_err(StoreError::io(&path, "remove"))?;
        }
        Ok(Content { folder: folder.to_owned(), written: AtomicU64::new(0) })
    }

    /// Keeps these bytes; durable when it returns. Bytes that are kept already cost one look-up.
    pub fn put(&self, bytes: &[u8]) -> Result<ContentHash, StoreError> {
        let hash = ContentHash::of(bytes);
        let path = self.path(hash);
        if path.exists() {
            return Ok(hash);
        }
        let parent = path.parent().unwrap_or(&self.folder);
        let made = !parent.exists();
        fs::create_dir_all(parent).map_err(StoreError::io(parent, "create"))?;
        let n = self.written.fetch_add(1, Ordering::Relaxed);
        let temporary = self.folder.join("incoming").join(format!("{n}-{}", std::process::id()));
        let written = write_durably(&temporary, bytes)
            .and_then(|()| fs::rename(&temporary, &path))
            .and_then(|()| sync_folder(parent));
        if let Err(source) = written {
            let _already_failing = fs::remove_file(&temporary);
            return Err(StoreError::Io { path, what: "write", source });
        }
        if made {
            self.sync_above(parent)?;
        }
        Ok(hash)
    }

    /// Makes the entries of newly made folders durable.
    fn sync_above(&self, leaf: &Path) -> Result<(), StoreError> {
        for folder in leaf.ancestors().skip(1) {
            sync_folder(folder).map_err(StoreError::io(folder, "sync"))?;
            if folder == self.folder {
                break;
            }
        }
        Ok(())
    }

    /// The bytes, or none if they are not kept. Checked against the hash.
    pub fn get(&self, hash: ContentHash) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.path(hash);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::Io { path, what: "read", source }),
        };
        if ContentHash::of(&bytes) != hash {
            let cause = "its bytes do not have the hash they are named by".to_owned();
            return Err(StoreError::Damaged { path, what: hash.to_string(), cause });
        }
        Ok(Some(bytes))
    }

    /// Forgets the bytes; false if they were not kept.
    pub fn remove(&self, hash: ContentHash) -> Result<bool, StoreError> {
        let path = self.path(hash);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(StoreError::Io { path, what: "remove", source }),
        }
    }

    /// Where bytes of this hash are, or would be.
    pub fn path(&self, hash: ContentHash) -> PathBuf {
        let name = hash.to_string();
        let (first, rest) = name.split_at(2);
        let (second, _) = rest.split_at(2);
        self.folder.join(first).join(second).join(&name)
    }
}

fn write_durably(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_data()
}

fn sync_folder(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_once_checks_and_forgets() {
        let folder = tempfile::tempdir().unwrap();
        let content = Content::open(folder.path()).unwrap();
        let hash = content.put(b"hello").unwrap();
        assert_eq!(content.put(b"hello").unwrap(), hash);
        assert_eq!(ContentHash::parse(&hash.to_string()), Some(hash));
        assert_eq!(content.get(hash).unwrap().as_deref(), Some(&b"hello"[..]));
        fs::write(content.path(hash), b"hullo").unwrap();
        assert!(matches!(content.get(hash), Err(StoreError::Damaged { .. })));
        assert!(content.remove(hash).unwrap());
        assert!(!content.remove(hash).unwrap());
        assert_eq!(content.get(hash).unwrap(), None);
    }

    #[test]
    fn clears_what_a_crash_left() {
        let folder = tempfile::tempdir().unwrap();
        Content::open(folder.path()).unwrap();
        let left = folder.path().join("incoming").join("0-1");
        fs::write(&left, b"half").unwrap();
        Content::open(folder.path()).unwrap();
        assert!(!left.exists());
    }
}
