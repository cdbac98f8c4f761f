//! Encryption of bodies at rest.
//!
//! An encrypted body is `GNTLSEAL`, a format byte, the id of the key (8 bytes), a salt (24), and
//! the ciphertext of ChaCha20-Poly1305 (RFC 8439) with its tag. Each body has its own key, derived
//! from the file's key and the salt by BLAKE3's keyed hash: so the nonce may be constant, and the
//! number of bodies is not limited. Header and name are authenticated as associated data: a body
//! that was moved to another name cannot be decrypted.
//!
//! The keys are lines of 64 hexadecimal digits in a file of their own; the first encrypts, all
//! decrypt. The file is read again when it changed, so a new key needs no restart.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::SystemTime;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use super::ContentHash;
use crate::error::StoreError;
use crate::random;

pub(crate) const MAGIC: &[u8; 8] = b"GNTLSEAL";
const FORMAT_1: u8 = 1;
const KEY_BYTES: usize = 32;
const ID_BYTES: usize = 8;
const SALT_BYTES: usize = 24;
const HEAD_BYTES: usize = MAGIC.len() + 1 + ID_BYTES + SALT_BYTES;
/// Most keys of a file; rotation drops those that are no longer needed.
const KEYS_MAX: usize = 100;
const HEAD_OF_FILE: &str = "\
# Keys that seal held mail: the first seals, the others still open. Keep a copy of this file in another
# place: without it, what is held cannot be read.
";

#[derive(Clone, PartialEq, Eq)]
struct Key([u8; KEY_BYTES]);

impl Key {
    /// Identifies the key without revealing it.
    fn id(&self) -> [u8; ID_BYTES] {
        let whole = blake3::derive_key("gauntlet 2026-11 id of a key of held mail", &self.0);
        let mut id = [0; ID_BYTES];
        id.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
        id
    }

    /// Derives the key of one body.
    fn of_body(&self, salt: &[u8]) -> Option<LessSafeKey> {
        let own = blake3::keyed_hash(&self.0, salt);
        UnboundKey::new(&CHACHA20_POLY1305, own.as_bytes()).ok().map(LessSafeKey::new)
    }
}

/// The keys of encrypted bodies.
pub struct BodyKeys {
    path: PathBuf,
    /// New bodies are encrypted; else existing ones are still decrypted.
    seal: bool,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    /// Modification time, inode and length of the file as it was read.
    changed: Option<(SystemTime, u64, u64)>,
    keys: Vec<Key>,
}

impl std::fmt::Debug for BodyKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BodyKeys").field("path", &self.path).finish_non_exhaustive()
    }
}

impl BodyKeys {
    /// Opens the keys of this file. If bodies are to be encrypted and there is no file, it is
    /// created, for its owner only.
    ///
    /// # Errors
    /// If the file cannot be read or created, or is not a valid key file.
    pub fn open(path: &Path, seal: bool) -> Result<Self, StoreError> {
        if seal && !path.exists() {
            write_keys(path, &[new_key()?])?;
        }
        let keys = BodyKeys { path: path.to_owned(), seal, known: RwLock::default() };
        if path.exists() {
            keys.refresh()?;
        }
        Ok(keys)
    }

    /// The text of a new file of keys, with one.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn new_file() -> Result<String, StoreError> {
        Ok(format!("{}\n", blake3::Hash::from_bytes(new_key()?.0).to_hex()))
    }

    /// Path of the key file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether new bodies are encrypted.
    pub fn seals(&self) -> bool {
        self.seal
    }

    /// Adds a new first key; the others still decrypt.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn rotate(&self) -> Result<(), StoreError> {
        self.refresh()?;
        let mut keys = vec![new_key()?];
        keys.extend(self.known().keys.iter().cloned());
        keys.truncate(KEYS_MAX);
        write_keys(&self.path, &keys)?;
        self.refresh()
    }

    /// Removes all keys but the first. What they encrypted cannot be read any more.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn drop_old(&self) -> Result<usize, StoreError> {
        self.refresh()?;
        let keys = self.known().keys.clone();
        write_keys(&self.path, keys.get(..1).unwrap_or_default())?;
        self.refresh()?;
        Ok(keys.len().saturating_sub(1))
    }

    fn known(&self) -> std::sync::RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file again if it changed.
    pub(super) fn refresh(&self) -> Result<(), StoreError> {
        let path = &self.path;
        let seen = fs::metadata(path).and_then(|m| Ok((m.modified()?, m.ino(), m.len())));
        let changed = seen.map_err(StoreError::io(path, "look at"))?;
        if self.known().changed == Some(changed) {
            return Ok(());
        }
        let text = fs::read_to_string(path).map_err(StoreError::io(path, "read"))?;
        let keys = parse(path, &text)?;
        *self.known.write().unwrap_or_else(PoisonError::into_inner) =
            Known { changed: Some(changed), keys };
        Ok(())
    }

    /// Encrypts a body with the first key.
    pub(super) fn seal(&self, hash: ContentHash, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.refresh()?;
        let key = self.known().keys.first().cloned();
        let key = key.ok_or_else(|| self.wrong("there is no key in it"))?;
        let salt: [u8; SALT_BYTES] = random::array().map_err(|e| self.wrong(&e.to_string()))?;
        let mut out = Vec::with_capacity(HEAD_BYTES + bytes.len() + CHACHA20_POLY1305.tag_len());
        out.extend_from_slice(MAGIC);
        out.push(FORMAT_1);
        out.extend_from_slice(&key.id());
        out.extend_from_slice(&salt);
        let own = key.of_body(&salt).ok_or_else(|| self.wrong("unusable"))?;
        let aad = [out.as_slice(), &hash.0].concat();
        let mut sealed = bytes.to_vec();
        own.seal_in_place_append_tag(nonce(), Aad::from(aad), &mut sealed)
            .map_err(|_| self.wrong("a body could not be encrypted"))?;
        out.extend_from_slice(&sealed);
        Ok(out)
    }

    /// Encrypts bytes for a purpose, with the first key.
    ///
    /// # Errors
    /// If there is no usable key.
    pub fn seal_as(&self, purpose: &str, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.seal(ContentHash::of(purpose.as_bytes()), bytes)
    }

    /// Decrypts bytes of [`BodyKeys::seal_as`] for the same purpose.
    ///
    /// # Errors
    /// If none of the keys encrypted them, or they were changed.
    pub fn open_as(&self, purpose: &str, sealed: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.refresh()?;
        let opened = self.open_body(ContentHash::of(purpose.as_bytes()), &self.path, sealed);
        opened.map_err(|error| match error {
            StoreError::Invalid { .. } => self.wrong(
                "another key encrypted what other nodes sent; the same file belongs on every node",
            ),
            other => other,
        })
    }

    pub(super) fn open_body(
        &self,
        hash: ContentHash,
        path: &Path,
        sealed: &[u8],
    ) -> Result<Vec<u8>, StoreError> {
        let damaged = |cause: &str| StoreError::Damaged {
            path: path.to_owned(),
            what: hash.to_string(),
            cause: cause.to_owned(),
        };
        let (head, rest) =
            sealed.split_at_checked(HEAD_BYTES).ok_or_else(|| damaged("it is truncated"))?;
        if head.get(MAGIC.len()) != Some(&FORMAT_1) {
            return Err(damaged("it was encrypted by a newer version of the program"));
        }
        let (_, id_and_salt) = head.split_at(MAGIC.len() + 1);
        let (id, salt) = id_and_salt.split_at(ID_BYTES);
        let find = || self.known().keys.iter().find(|k| k.id() == id).cloned();
        let key = match find() {
            Some(key) => Some(key),
            None if self.path.exists() => {
                self.refresh()?;
                find()
            }
            None => None,
        };
        let key = key.ok_or_else(|| self.missing(hash, id))?;
        let own = key.of_body(salt).ok_or_else(|| damaged("its key is unusable"))?;
        let aad = [head, &hash.0].concat();
        let mut bytes = rest.to_vec();
        let length = own
            .open_in_place(nonce(), Aad::from(aad), &mut bytes)
            .map_err(|_| damaged("its ciphertext was changed"))?
            .len();
        bytes.truncate(length);
        Ok(bytes)
    }

    fn wrong(&self, cause: &str) -> StoreError {
        let cause = format!("{}: {cause}", self.path.display());
        StoreError::Invalid { what: "the file of keys", cause }
    }

    fn missing(&self, hash: ContentHash, id: &[u8]) -> StoreError {
        let shown: String = id.iter().map(|b| format!("{b:02x}")).collect();
        let there = if self.path.exists() { "does not have" } else { "(which is gone) had" };
        let path = self.path.display();
        StoreError::Invalid {
            what: "the key of held mail",
            cause: format!(
                "body {:.16} was encrypted with key {shown}, which {path} {there}; restore the key file \
                 (quarantine.key_file)",
                hash.to_string()
            ),
        }
    }
}

/// Whether these bytes are an encrypted body.
pub(super) fn is_sealed(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Whether this body is encrypted with the first key.
pub(super) fn is_by_first(keys: &BodyKeys, bytes: &[u8]) -> bool {
    let first = keys.known().keys.first().map(Key::id);
    let at = MAGIC.len() + 1;
    is_sealed(bytes) && first.is_some_and(|id| bytes.get(at..at + ID_BYTES) == Some(&id[..]))
}

/// Constant: each body has a key of its own.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn new_key() -> Result<Key, StoreError> {
    let key = random::array().map_err(|e| StoreError::Invalid {
        what: "a new key",
        cause: format!("the system provides no randomness: {e}"),
    })?;
    Ok(Key(key))
}

fn parse(path: &Path, text: &str) -> Result<Vec<Key>, StoreError> {
    let wrong = |cause: String| {
        let cause = format!("{}: {cause}", path.display());
        StoreError::Invalid { what: "the file of keys", cause }
    };
    let mut keys = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let hash = blake3::Hash::from_hex(line).ok();
        let why = || {
            let cause = "is not a key of 64 hexadecimal digits; restore the file from a backup";
            wrong(format!("line {} {cause}", n + 1))
        };
        keys.push(Key(*hash.ok_or_else(why)?.as_bytes()));
        if keys.len() > KEYS_MAX {
            return Err(wrong(format!("more than {KEYS_MAX} keys")));
        }
    }
    if keys.is_empty() {
        let cause = "there is no key in it; restore the file from a backup: mail that is encrypted with a lost \
                     key is lost. A new file is 64 hexadecimal digits on a line (openssl rand -hex 32)";
        return Err(wrong(cause.to_owned()));
    }
    Ok(keys)
}

/// Writes the key file atomically and durably.
fn write_keys(path: &Path, keys: &[Key]) -> Result<(), StoreError> {
    let mut text = HEAD_OF_FILE.to_owned();
    for key in keys {
        text.push_str(blake3::Hash::from_bytes(key.0).to_hex().as_str());
        text.push('\n');
    }
    crate::files::write_durably(path, text.as_bytes()).map_err(StoreError::io(path, "write"))
}
