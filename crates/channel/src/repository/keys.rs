//! The publisher's keys: `ROLE-NUMBER.pem` in a folder. Those of the root belong on a medium that
//! is not connected; a folder without them publishes, too.

use std::path::{Path, PathBuf};

use gauntlet_store::files::create_folder;

use crate::error::Error;
use crate::keys::SigningKey;
use crate::metadata::{Envelope, RoleName, Root};

/// Keys of one role in a folder.
const KEYS_PER_ROLE_MAX: usize = 64;

/// Who signs for a channel: a folder of keys, or a process that has one.
pub trait Signer {
    /// Signs with all keys of a role that the root names.
    ///
    /// # Errors
    /// If there is none, or whoever has them does not sign this.
    fn sign(&self, role: RoleName, root: &Root, envelope: &mut Envelope) -> Result<(), Error>;

    /// Where the keys are, for what people are told.
    fn place(&self) -> String;
}

/// A folder of private keys.
#[derive(Debug, Clone)]
pub struct KeyFolder(PathBuf);

impl KeyFolder {
    /// Of this folder, whether it is there or not.
    pub fn new(folder: &Path) -> Self {
        KeyFolder(folder.to_owned())
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Makes a key for a role, under the next free number.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(&self, role: RoleName) -> Result<SigningKey, Error> {
        create_folder(&self.0).map_err(Error::io(&self.0))?;
        let path = |number: usize| self.0.join(format!("{}-{number}.pem", role.name()));
        let free = (1..=KEYS_PER_ROLE_MAX).map(path).find(|path| !path.exists());
        let free = free.ok_or_else(|| Error::Key {
            path: self.0.clone(),
            why: format!("more than {KEYS_PER_ROLE_MAX} keys of one role"),
        })?;
        SigningKey::create(&free)
    }

    /// All keys of a role.
    ///
    /// # Errors
    /// If one cannot be read, or there is none.
    pub fn all(&self, role: RoleName) -> Result<Vec<SigningKey>, Error> {
        let keys = self.some(role)?;
        match keys.is_empty() {
            true => Err(Error::Key {
                path: self.0.clone(),
                why: format!("no key of the role (none is called {}-1.pem)", role.name()),
            }),
            false => Ok(keys),
        }
    }

    /// All keys of a role; none is no error.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn some(&self, role: RoleName) -> Result<Vec<SigningKey>, Error> {
        let path = |number: usize| self.0.join(format!("{}-{number}.pem", role.name()));
        let paths = (1..=KEYS_PER_ROLE_MAX).map(path).filter(|path| path.exists());
        paths.map(|path| SigningKey::load(&path)).collect()
    }
}

impl Signer for KeyFolder {
    fn sign(&self, role: RoleName, root: &Root, envelope: &mut Envelope) -> Result<(), Error> {
        let named = &root.role(role)?.keyids;
        let keys = self.all(role)?;
        let keys: Vec<_> = keys.iter().filter(|key| named.contains(&key.public().id())).collect();
        if keys.is_empty() {
            return Err(Error::Key {
                path: self.0.clone(),
                why: format!("no key of the role {} that the channel's root names", role.name()),
            });
        }
        keys.into_iter().for_each(|key| envelope.sign(key));
        Ok(())
    }

    fn place(&self) -> String {
        self.0.display().to_string()
    }
}
