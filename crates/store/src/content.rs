//! Content-addressed store of message bodies: files named by their hash.
//!
//! A body is written to a temporary file, made durable, renamed to its name, and the folder made
//! durable; so a name that exists has its whole content. Equal bodies are stored once. Two levels
//! of 256 folders keep every folder small. With keys, bodies are encrypted ([`seal`]); the name is
//! the hash of the plain text.

mod seal;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::error::StoreError;
use crate::files;
use crate::random;

pub use seal::BodyKeys;
pub(crate) use seal::MAGIC as SEAL_MAGIC;

/// Why an encrypted body cannot be read.
const NO_KEYS: &str = "it is encrypted, and there is no key file: set quarantine.key_file";

/// BLAKE3 of a body; in text, 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The name of a body with these bytes: their BLAKE3 hash.
    pub fn of(bytes: &[u8]) -> Self {
        ContentHash(*blake3::hash(bytes).as_bytes())
    }

    /// The hash that was stored as these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        ContentHash(bytes)
    }

    /// The hash as bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses 64 hexadecimal digits.
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
    /// Distinguishes this process's files in `incoming` from those of others; a process id does
    /// not, where containers share a volume.
    process: u64,
    written: AtomicU64,
    /// Bodies that a thread is writing: their name may exist before it is durable.
    writing: Mutex<BTreeSet<ContentHash>>,
    write_finished: Condvar,
    /// First two bytes of the hashes whose folders are known to be durable.
    synced: Mutex<BTreeSet<[u8; 2]>>,
    keys: Option<BodyKeys>,
}

impl Content {
    /// Opens or creates the folder, and removes partial files that a crash left. Only for the
    /// process that holds the lock of the data folder: another may be writing there.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let content = Self::open_shared(folder)?;
        let incoming = folder.join("incoming");
        let left = fs::read_dir(&incoming).map_err(StoreError::io(&incoming, "list"))?;
        for entry in left.flatten() {
            let path = entry.path();
            fs::remove_file(&path).map_err(StoreError::io(&path, "remove"))?;
        }
        Ok(content)
    }

    /// Opens or creates the folder while another process may write into it.
    pub fn open_shared(folder: &Path) -> Result<Self, StoreError> {
        let incoming = folder.join("incoming");
        files::create_folder(&incoming).map_err(StoreError::io(&incoming, "create"))?;
        Self::existing(folder)
    }

    /// The bodies of a folder that may not exist; it is not created. Only for reading, and for its
    /// keys.
    pub(crate) fn existing(folder: &Path) -> Result<Self, StoreError> {
        let random = random::array().map_err(StoreError::io(folder, "name files in"))?;
        Ok(Content {
            folder: folder.to_owned(),
            process: u64::from_le_bytes(random),
            written: AtomicU64::new(0),
            writing: Mutex::default(),
            write_finished: Condvar::new(),
            synced: Mutex::default(),
            keys: None,
        })
    }

    /// Sets the keys of encrypted bodies.
    #[must_use]
    pub fn with_keys(mut self, keys: Option<BodyKeys>) -> Self {
        self.keys = keys;
        self
    }

    /// The keys of encrypted bodies.
    pub fn keys(&self) -> Option<&BodyKeys> {
        self.keys.as_ref()
    }

    /// Stores these bytes; durable when it returns. Bytes that are stored already cost a check of
    /// the name, and the sync of two folders if this process did not write them: the other process
    /// may not have synced them yet.
    pub fn put(&self, bytes: &[u8]) -> Result<ContentHash, StoreError> {
        let hash = ContentHash::of(bytes);
        let path = self.path(hash);
        // A second writer of the same body waits for the first, then checks again.
        let _alone = self.lock_body(hash);
        if path.exists() {
            self.make_durable(hash)?;
            return Ok(hash);
        }
        self.write(hash, &self.encode(hash, bytes)?)?;
        Ok(hash)
    }

    /// Waits until no other thread writes this body, and prevents others from doing so until the
    /// guard is dropped.
    fn lock_body(&self, hash: ContentHash) -> BodyLock<'_> {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        while !writing.insert(hash) {
            writing = self.write_finished.wait(writing).unwrap_or_else(PoisonError::into_inner);
        }
        BodyLock { content: self, hash }
    }

    /// Makes an existing body durable: its writer may have renamed it without the sync that
    /// follows, because of an error, a crash, or because it is another process that is about to
    /// sync.
    fn make_durable(&self, hash: ContentHash) -> Result<(), StoreError> {
        let path = self.path(hash);
        let parent = path.parent().unwrap_or(&self.folder);
        files::sync_folder(parent).map_err(StoreError::io(parent, "sync"))?;
        self.sync_above(hash, parent)
    }

    /// Encrypts a body with the first key, unless it is already; with keys that do not encrypt,
    /// decrypts it permanently. False if nothing was to be done, or the body does not exist.
    ///
    /// # Errors
    /// If it cannot be read, decrypted or written; then it is unchanged.
    pub fn reencrypt(&self, hash: ContentHash) -> Result<bool, StoreError> {
        let path = self.path(hash);
        let raw = match fs::read(&path) {
            Ok(raw) => raw,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(source) => return Err(StoreError::Io { path, what: "read", source }),
        };
        if self.is_as_wanted(hash, &raw)? {
            return Ok(false);
        }
        let bytes = self.decode(hash, &path, raw)?;
        self.write(hash, &self.encode(hash, &bytes)?)?;
        Ok(true)
    }

    /// Writes a file of the store durably and replaces an existing one.
    fn write(&self, hash: ContentHash, bytes: &[u8]) -> Result<(), StoreError> {
        let path = &self.path(hash);
        let parent = path.parent().unwrap_or(&self.folder);
        files::create_folder(parent).map_err(StoreError::io(parent, "create"))?;
        let n = self.written.fetch_add(1, Ordering::Relaxed);
        let name = format!("{n}-{:016x}", self.process);
        let temporary = self.folder.join("incoming").join(name);
        let written = write_new(&temporary, bytes)
            .and_then(|()| fs::rename(&temporary, path))
            .and_then(|()| files::sync_folder(parent));
        if let Err(source) = written {
            let _already_failing = fs::remove_file(&temporary);
            return Err(StoreError::Io { path: path.to_owned(), what: "write", source });
        }
        self.sync_above(hash, parent)
    }

    /// Makes the entries of the folders that lead to a body durable, once in the life of this
    /// process: that they exist does not say that their creator synced them.
    fn sync_above(&self, hash: ContentHash, leaf: &Path) -> Result<(), StoreError> {
        let [first, second, ..] = hash.0;
        let known = || self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(&[first, second]) {
            return Ok(());
        }
        for folder in leaf.ancestors().skip(1) {
            files::sync_folder(folder).map_err(StoreError::io(folder, "sync"))?;
            if folder == self.folder {
                break;
            }
        }
        known().insert([first, second]);
        Ok(())
    }

    /// The bytes, verified against the hash; none if they are not stored.
    pub fn get(&self, hash: ContentHash) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.path(hash);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::Io { path, what: "read", source }),
        };
        self.decode(hash, &path, bytes).map(Some)
    }

    /// Bytes as they are to be stored: sealed with the first key, or as they are.
    ///
    /// # Errors
    /// If they cannot be encrypted.
    pub(crate) fn encode<'b>(
        &self,
        hash: ContentHash,
        bytes: &'b [u8],
    ) -> Result<Cow<'b, [u8]>, StoreError> {
        let sealing = self.keys.as_ref().filter(|keys| keys.seals());
        sealing.map_or(Ok(Cow::Borrowed(bytes)), |keys| keys.seal(hash, bytes).map(Cow::Owned))
    }

    /// Whether stored bytes are as [`Content::encode`] makes them now.
    ///
    /// # Errors
    /// If the keys cannot be read.
    pub(crate) fn is_as_wanted(&self, hash: ContentHash, raw: &[u8]) -> Result<bool, StoreError> {
        let sealing = self.keys.as_ref().filter(|keys| keys.seals());
        match sealing {
            Some(keys) => {
                // Another process may have added a new first key.
                keys.refresh()?;
                Ok(seal::is_by_first(keys, raw))
            }
            None => Ok(!seal::is_sealed(raw) || ContentHash::of(raw) == hash),
        }
    }

    /// What is stored of a body, as it is; none if it is not stored.
    ///
    /// # Errors
    /// If it cannot be read, or is not what its name says.
    pub(crate) fn stored(&self, hash: ContentHash) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.path(hash);
        let raw = match fs::read(&path) {
            Ok(raw) => raw,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StoreError::Io { path, what: "read", source }),
        };
        // A sealed one whose key is away is moved all the same.
        if !seal::is_sealed(&raw) {
            self.decode(hash, &path, raw.clone())?;
        }
        Ok(Some(raw))
    }

    /// Whether these bytes are an encrypted body.
    pub(crate) fn is_sealed(raw: &[u8]) -> bool {
        seal::is_sealed(raw)
    }

    /// The plain text of what is stored at a path, verified against its hash.
    pub(crate) fn decode(
        &self,
        hash: ContentHash,
        path: &Path,
        raw: Vec<u8>,
    ) -> Result<Vec<u8>, StoreError> {
        if ContentHash::of(&raw) == hash {
            return Ok(raw);
        }
        let damaged = |cause: &str| StoreError::Damaged {
            path: path.to_owned(),
            what: hash.to_string(),
            cause: cause.to_owned(),
        };
        if !seal::is_sealed(&raw) {
            return Err(damaged(
                "its content does not have the hash in its name; restore the file from a backup, or delete \
                 the message",
            ));
        }
        let keys = self.keys.as_ref().ok_or_else(|| damaged(NO_KEYS))?;
        let bytes = keys.open_body(hash, path, &raw)?;
        if ContentHash::of(&bytes) != hash {
            return Err(damaged(
                "its decrypted content does not have the hash in its name; restore the file from a backup, \
                 or delete the message",
            ));
        }
        Ok(bytes)
    }

    /// The plain text of a sealed body that was kept elsewhere, verified against its hash.
    ///
    /// # Errors
    /// If there is no key for it, or it is damaged; `place` says where it was kept.
    pub fn open_sealed(
        keys: Option<&BodyKeys>,
        hash: ContentHash,
        place: &str,
        sealed: &[u8],
    ) -> Result<Vec<u8>, StoreError> {
        let path = Path::new(place);
        let damaged = |cause: &str| StoreError::Damaged {
            path: path.to_owned(),
            what: hash.to_string(),
            cause: cause.to_owned(),
        };
        let keys = keys.ok_or_else(|| damaged(NO_KEYS))?;
        let bytes = keys.open_body(hash, path, sealed)?;
        match ContentHash::of(&bytes) == hash {
            true => Ok(bytes),
            false => Err(damaged("its decrypted content does not have the hash in its name")),
        }
    }

    /// Whether there is any body.
    ///
    /// # Errors
    /// If a folder cannot be listed.
    pub fn has_any(folder: &Path) -> Result<bool, StoreError> {
        let list = |folder: &Path| match fs::read_dir(folder) {
            Ok(entries) => Ok(Some(entries.flatten())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Ok(None),
            Err(error) => Err(StoreError::io(folder, "list")(error)),
        };
        for first in list(folder)?.into_iter().flatten() {
            for second in list(&first.path())?.into_iter().flatten() {
                let names = list(&second.path())?.into_iter().flatten().map(|e| e.file_name());
                let mut names = names.filter_map(|name| name.into_string().ok());
                if names.any(|name| ContentHash::parse(&name).is_some()) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The hashes of all bodies, sorted.
    ///
    /// # Errors
    /// If a folder cannot be listed.
    pub fn all(&self) -> Result<Vec<ContentHash>, StoreError> {
        let list = |folder: &Path| -> Result<Vec<PathBuf>, StoreError> {
            let entries = match fs::read_dir(folder) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
                entries => entries.map_err(StoreError::io(folder, "list"))?,
            };
            Ok(entries.flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect())
        };
        let mut found = Vec::new();
        for first in list(&self.folder)? {
            for second in list(&first)? {
                let entries = fs::read_dir(&second).map_err(StoreError::io(&second, "list"))?;
                let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
                found.extend(names.filter_map(|name| ContentHash::parse(&name)));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Removes a body; false if it is not stored.
    pub fn remove(&self, hash: ContentHash) -> Result<bool, StoreError> {
        let path = self.path(hash);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(StoreError::Io { path, what: "remove", source }),
        }
    }

    /// The path of a body with this hash, whether it exists or not.
    pub fn path(&self, hash: ContentHash) -> PathBuf {
        let name = hash.to_string();
        let (first, rest) = name.split_at(2);
        let (second, _) = rest.split_at(2);
        self.folder.join(first).join(second).join(&name)
    }
}

/// The exclusive right to write one body, until it is dropped.
struct BodyLock<'a> {
    content: &'a Content,
    hash: ContentHash,
}

impl Drop for BodyLock<'_> {
    fn drop(&mut self) {
        let writing = self.content.writing.lock();
        writing.unwrap_or_else(PoisonError::into_inner).remove(&self.hash);
        self.content.write_finished.notify_all();
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_data()
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
    fn sealed_bodies_open_with_their_key_and_say_what_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let (bodies, key_file) = (folder.path().join("bodies"), folder.path().join("keys"));
        let open = |seal| {
            let keys = BodyKeys::open(&key_file, seal).unwrap();
            Content::open(&bodies).unwrap().with_keys(Some(keys))
        };
        let secret = b"From: a\r\n\r\nA secret that must not be on disk.";
        let content = open(true);
        let hash = content.put(secret).unwrap();
        let raw = fs::read(content.path(hash)).unwrap();
        assert!(seal::is_sealed(&raw) && !raw.windows(8).any(|w| w == b"A secret"));
        assert_eq!(content.get(hash).unwrap().as_deref(), Some(&secret[..]));
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(&key_file).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
        // The same bytes under another name are not decrypted; nor are changed ones.
        let other = content.put(b"other").unwrap();
        fs::write(content.path(other), &raw).unwrap();
        assert!(matches!(content.get(other), Err(StoreError::Damaged { .. })));
        let mut wrong = raw.clone();
        *wrong.last_mut().unwrap() ^= 1;
        fs::write(content.path(other), &wrong).unwrap();
        assert!(matches!(content.get(other), Err(StoreError::Damaged { .. })));
        content.remove(other).unwrap();
        // A new key: the old one still decrypts, also in a process that does not know the new one.
        let beside = open(true);
        beside.keys().unwrap().rotate().unwrap();
        let second = beside.put(b"second").unwrap();
        assert_eq!(content.get(second).unwrap().as_deref(), Some(&b"second"[..]));
        assert_eq!(beside.get(hash).unwrap().as_deref(), Some(&secret[..]));
        // A process that read the keys before the change encrypts with the new one, too.
        assert!(content.reencrypt(hash).unwrap() && !content.reencrypt(second).unwrap());
        assert!(!beside.reencrypt(hash).unwrap());
        assert_eq!(beside.keys().unwrap().drop_old().unwrap(), 1);
        for hash in content.all().unwrap() {
            assert!(open(false).get(hash).unwrap().is_some());
        }
        // Without the key the error names it, and where it belongs.
        fs::rename(&key_file, folder.path().join("away")).unwrap();
        let error = open(false).get(hash).unwrap_err().to_string();
        assert!(error.contains("keys (which is gone)") && error.contains("key_file"), "{error}");
        open(true);
        let error = open(false).get(hash).unwrap_err().to_string();
        assert!(error.contains("does not have"), "{error}");
        assert!(Content::open(&bodies).unwrap().get(hash).is_err());
        fs::rename(folder.path().join("away"), &key_file).unwrap();
        assert!(open(false).reencrypt(hash).unwrap(), "opened for good");
        assert_eq!(fs::read(content.path(hash)).unwrap(), secret);
        for wrong in ["", "# none\n", "abc\n"] {
            fs::write(&key_file, wrong).unwrap();
            assert!(BodyKeys::open(&key_file, false).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_command_beside_the_node_removes_nothing_that_is_being_written() {
        let folder = tempfile::tempdir().unwrap();
        let node = Content::open(folder.path()).unwrap();
        let being_written = folder.path().join("incoming").join("0-1");
        fs::write(&being_written, b"half").unwrap();
        let beside = Content::open_shared(folder.path()).unwrap();
        assert!(being_written.exists());
        // Both may write the same body: neither sees the other's partial file.
        assert_eq!(beside.put(b"hello").unwrap(), node.put(b"hello").unwrap());
        assert_eq!(node.get(ContentHash::of(b"hello")).unwrap().as_deref(), Some(&b"hello"[..]));
        drop(Content::open(folder.path()).unwrap());
        assert!(!being_written.exists(), "the node clears it when it starts");
    }

    #[test]
    fn who_comes_second_waits_for_the_first_to_make_a_body_durable() {
        let folder = tempfile::tempdir().unwrap();
        let content = Content::open(folder.path()).unwrap();
        let hash = ContentHash::of(b"twice");
        // The first writer has renamed the file and not yet synced the folder.
        let first = content.lock_body(hash);
        fs::create_dir_all(content.path(hash).parent().unwrap()).unwrap();
        fs::write(content.path(hash), b"twice").unwrap();
        std::thread::scope(|threads| {
            let second = threads.spawn(|| content.put(b"twice").unwrap());
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(!second.is_finished(), "it is not durable yet");
            drop(first);
            assert_eq!(second.join().unwrap(), hash);
        });
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
