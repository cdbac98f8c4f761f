//! Whom a copy belongs to that root makes.

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::files;

/// Whom a copy is given to, if root makes it. Without that, a node could not be started on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner(Option<(u32, u32)>);

impl Owner {
    /// The owner of this file or folder; nobody, if that is root or root does not run us.
    ///
    /// # Errors
    /// The system's.
    pub fn of(path: &Path) -> Result<Self, StoreError> {
        let seen = fs::metadata(path).map_err(StoreError::io(path, "look at"))?;
        Ok(Self::user(seen.uid(), seen.gid()))
    }

    /// This user and group; nobody, if that is root or root does not run us.
    pub fn user(uid: u32, gid: u32) -> Self {
        Owner((uid != 0 && files::effective_user() == 0).then_some((uid, gid)))
    }

    /// While root writes, the folder is root's own: in one of the owner's, a link could be put in
    /// the way.
    pub(super) fn begin(self, target: &Path) -> Result<(), StoreError> {
        let make = StoreError::io(target, "make root's own");
        self.0.map_or(Ok(()), |_| lchown(target, Some(0), Some(0)).map_err(make))
    }

    /// Gives away everything below a folder, then the folder itself: nobody else can reach in
    /// meanwhile.
    pub(super) fn give(self, folder: &Path) -> Result<(), StoreError> {
        self.give_below(folder)?;
        self.give_one(folder)
    }

    /// Gives away everything below a folder, which root keeps.
    pub(super) fn give_below(self, folder: &Path) -> Result<(), StoreError> {
        if self.0.is_none() {
            return Ok(());
        }
        let entries = fs::read_dir(folder).map_err(StoreError::io(folder, "list"))?;
        for entry in entries {
            let path = entry.map_err(StoreError::io(folder, "list"))?.path();
            let seen = path.symlink_metadata().map_err(StoreError::io(&path, "look at"))?;
            if seen.is_dir() {
                self.give_below(&path)?;
            }
            self.give_one(&path)?;
        }
        Ok(())
    }

    /// Gives away one file or folder.
    pub(super) fn give_one(self, path: &Path) -> Result<(), StoreError> {
        let Some((uid, gid)) = self.0 else { return Ok(()) };
        let give = StoreError::io(path, "give to the data folder's owner");
        lchown(path, Some(uid), Some(gid)).map_err(give)
    }
}
