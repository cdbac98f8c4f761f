//! What settings mean to the quarantine: keys of held mail, folders and their limits.

use anyhow::Context;
use gauntlet_store::quarantine::FolderRelease;
use gauntlet_store::{BodyKeys, FolderLimit};

use crate::config::Config;

/// The keys of held mail, where bodies are or were sealed.
///
/// # Errors
/// If the file of keys cannot be read or made, or is gone although held mail needs it.
pub fn body_keys(config: &Config) -> anyhow::Result<Option<BodyKeys>> {
    let (path, seal) = (config.node.inside(&config.quarantine.key_file), config.quarantine.encrypt);
    if !seal && !path.exists() {
        return Ok(None);
    }
    let packs = config.node.data.join("quarantine");
    if !path.exists() && gauntlet_store::quarantine::has_sealed_bodies(&packs)? {
        anyhow::bail!(
            "quarantine.key_file: {} is gone, and held mail is sealed with its keys. Restore it from a \
             backup. If it is lost, that mail is, too: to go on without it, put a new key there \
             (openssl rand -hex 32)",
            path.display()
        );
    }
    let keys = BodyKeys::open(&path, seal).context("quarantine.key_file")?;
    Ok(Some(keys))
}

/// What single folders of the quarantine keep.
pub fn folder_limits(config: &Config) -> Vec<FolderLimit> {
    let limits = config.folder.iter().map(|f| FolderLimit {
        folder: f.name.clone(),
        retention_days: f.retention_days,
        bytes_max: (f.bytes_max > 0).then_some(f.bytes_max),
    });
    limits.collect()
}

/// Folders whose mail is kept for another time than the rest, and so has files of its own.
pub fn folders_with_own_packs(config: &Config) -> impl Iterator<Item = String> {
    config.folder.iter().map(|f| f.name.clone())
}

/// Who may release what is held in single folders.
pub fn folder_release(config: &Config) -> FolderRelease {
    let said = config.folder.iter().filter_map(|f| Some((f.name.clone(), f.release?)));
    said.collect()
}
