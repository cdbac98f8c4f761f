//! Bodies sealed at rest.
//!
//! A sealed body is `GNTLSEAL`, a format byte, the id of the key (8 bytes), a salt (24), and the bytes
//! under ChaCha20-Poly1305 (RFC 8439) with its tag. Each body has a key of its own, made of ours and the
//! salt by BLAKE3's keyed hash: so the nonce may be the same always, and no number of bodies is too many.
//! Head and name are authenticated with the bytes: a body that was moved to another name is not opened.
//!
//! The keys are lines of 64 hexadecimal digits in a file of their own; the first seals, the others still
//! open. The file is read again when it changed, so a new key counts without a restart.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::SystemTime;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use super::ContentHash;
use crate::error::StoreError;

const MAGIC: &[u8; 8] = b"GNTLSEAL";
const FORMAT_1: u8 = 1;
const KEY_BYTES: usize = 32;
const ID_BYTES: usize = 8;
const SALT_BYTES: usize = 24;
const HEAD_BYTES: usize = MAGIC.len() + 1 + ID_BYTES + SALT_BYTES;
/// Keys of a file; rotation drops those that seal nothing any more.
const KEYS_MAX: usize = 100;
const HEAD_OF_FILE: &str = "\
# Keys that seal held mail: the first seals, the others still open. Keep a copy of this file in another
# place: without it, what is held cannot be read.
";

#[derive(Clone, PartialEq, Eq)]
struct Key([u8; KEY_BYTES]);

impl Key {
    /// Names the key without telling it.
    fn id(&self) -> [u8; ID_BYTES] {
        let whole = blake3::derive_key("gauntlet 2026-11 id of a key of held mail", &self.0);
        let mut id = [0; ID_BYTES];
        id.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
        id
    }

    /// The key of one body.
    fn of_body(&self, salt: &[u8]) -> Option<LessSafeKey> {
        let own = blake3::keyed_hash(&self.0, salt);
        UnboundKey::new(&CHACHA20_POLY1305, own.as_bytes()).ok().map(LessSafeKey::new)
    }
}

/// The keys of held mail.
pub struct BodyKeys {
    path: PathBuf,
    /// New bodies are sealed; else what was sealed before is still opened.
    seal: bool,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    /// Time, number and length of the file as it was read.
    changed: Option<(SystemTime, u64, u64)>,
    keys: Vec<Key>,
}

impl std::fmt::Debug for BodyKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BodyKeys").field("path", &self.path).finish_non_exhaustive()
    }
}

impl BodyKeys {
    /// The keys of this file. If bodies are to be sealed and there is none, it is made, for its owner
    /// only.
    ///
    /// # Errors
    /// If the file cannot be read or made, or holds something else.
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

    /// Where the keys are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// New bodies are sealed.
    pub fn seals(&self) -> bool {
        self.seal
    }

    /// Puts a new key in the first place; those that are there still open.
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

    /// Forgets all keys but the first. What they sealed cannot be read any more.
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

    /// Seals a body under the first key.
    pub(super) fn seal(&self, hash: ContentHash, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.refresh()?;
        let key = self.known().keys.first().cloned();
        let key = key.ok_or_else(|| self.wrong("there is no key in it"))?;
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(|e| self.wrong(&e.to_string()))?;
        let mut out = Vec::with_capacity(HEAD_BYTES + bytes.len() + CHACHA20_POLY1305.tag_len());
        out.extend_from_slice(MAGIC);
        out.push(FORMAT_1);
        out.extend_from_slice(&key.id());
        out.extend_from_slice(&salt);
        let own = key.of_body(&salt).ok_or_else(|| self.wrong("unusable"))?;
        let aad = [out.as_slice(), &hash.0].concat();
        let mut sealed = bytes.to_vec();
        own.seal_in_place_append_tag(nonce(), Aad::from(aad), &mut sealed)
            .map_err(|_| self.wrong("a body could not be sealed"))?;
        out.extend_from_slice(&sealed);
        Ok(out)
    }

    /// Opens a sealed body.
    pub(super) fn open_body(
        &self,
        hash: ContentHash,
        place: &Path,
        sealed: &[u8],
    ) -> Result<Vec<u8>, StoreError> {
        let damaged = |cause: &str| StoreError::Damaged {
            path: place.to_owned(),
            what: hash.to_string(),
            cause: cause.to_owned(),
        };
        let (head, rest) =
            sealed.split_at_checked(HEAD_BYTES).ok_or_else(|| damaged("it is cut short"))?;
        if head.get(MAGIC.len()) != Some(&FORMAT_1) {
            return Err(damaged("it was sealed by a newer version of the program"));
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
            .map_err(|_| damaged("its bytes are not those that were sealed"))?
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
                "body {:.16} was sealed with key {shown}, which {path} {there}; put the file of keys \
                 back (quarantine.key_file)",
                hash.to_string()
            ),
        }
    }
}

/// These bytes are a sealed body.
pub(super) fn is_sealed(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Which key sealed this body is the first one's: nothing is to be done when all are sealed anew.
pub(super) fn is_by_first(keys: &BodyKeys, bytes: &[u8]) -> bool {
    let first = keys.known().keys.first().map(Key::id);
    let at = MAGIC.len() + 1;
    is_sealed(bytes) && first.is_some_and(|id| bytes.get(at..at + ID_BYTES) == Some(&id[..]))
}

/// The same for all: each body has a key of its own.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

fn new_key() -> Result<Key, StoreError> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(|e| StoreError::Invalid {
        what: "a new key",
        cause: format!("the system has no randomness to give: {e}"),
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
            let cause = "is no key of 64 hexadecimal digits; put the file back from a backup";
            wrong(format!("line {} {cause}", n + 1))
        };
        keys.push(Key(*hash.ok_or_else(why)?.as_bytes()));
        if keys.len() > KEYS_MAX {
            return Err(wrong(format!("more than {KEYS_MAX} keys")));
        }
    }
    if keys.is_empty() {
        let cause = "there is no key in it; put the file back from a backup: mail that is sealed with a lost \
                     key is lost. A new file is 64 hexadecimal digits on a line (openssl rand -hex 32)";
        return Err(wrong(cause.to_owned()));
    }
    Ok(keys)
}

/// Writes the keys beside the file, makes them durable, and puts them in its place.
fn write_keys(path: &Path, keys: &[Key]) -> Result<(), StoreError> {
    let mut text = HEAD_OF_FILE.to_owned();
    for key in keys {
        text.push_str(blake3::Hash::from_bytes(key.0).to_hex().as_str());
        text.push('\n');
    }
    crate::files::write_durably(path, text.as_bytes()).map_err(StoreError::io(path, "write"))
}
