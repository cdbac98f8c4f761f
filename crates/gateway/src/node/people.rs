//! What settings about people mean to a running node: groups that change, folders and their limits, keys of
//! held mail.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use gauntlet_policy::Groups;
use gauntlet_store::quarantine::FolderRelease;
use gauntlet_store::{BodyKeys, FolderLimit, Quarantine};

use super::Node;
use crate::config::Config;
use crate::groups;

/// The keys of held mail, where bodies are or were sealed.
///
/// # Errors
/// If the file of keys cannot be read or made.
pub fn body_keys(config: &Config) -> anyhow::Result<Option<BodyKeys>> {
    let (path, seal) = (config.node.inside(&config.quarantine.key_file), config.quarantine.encrypt);
    if !seal && !path.exists() {
        return Ok(None);
    }
    let keys = BodyKeys::open(&path, seal).context("quarantine.key_file")?;
    Ok(Some(keys))
}

/// Opens the quarantine of a node.
pub(super) fn open_quarantine(config: &Config) -> anyhow::Result<Arc<Quarantine>> {
    let folder = config.node.data.join("quarantine");
    let quarantine = Quarantine::open_with(&folder, body_keys(config)?)?;
    quarantine.set_folder_release(folder_release(config));
    Ok(Arc::new(quarantine))
}

/// What single folders of the quarantine keep.
pub(super) fn folder_limits(config: &Config) -> Vec<FolderLimit> {
    let limits = config.folder.iter().map(|f| FolderLimit {
        folder: f.name.clone(),
        retention_days: f.retention_days,
        bytes_max: (f.bytes_max > 0).then_some(f.bytes_max),
    });
    limits.collect()
}

/// Who may release what is held in single folders.
pub fn folder_release(config: &Config) -> FolderRelease {
    let said = config.folder.iter().filter_map(|f| Some((f.name.clone(), f.release?)));
    said.collect()
}

impl Node {
    /// Looks now and then whether groups of people changed, and takes the policy over with them.
    pub(super) async fn watch_groups(self: Arc<Self>) {
        let mut stopping = self.stop.subscribe();
        let mut last: Option<Groups> = None;
        // The node may have started without a group's database.
        let mut has_failed = false;
        loop {
            let config = self.config();
            if groups::may_change(&config) {
                let node = self.clone();
                let known = last.clone();
                let looked = tokio::task::spawn_blocking(move || {
                    let now = groups::load(&node.config())?;
                    if known.map_or(has_failed, |known| known != now) {
                        node.reload_policy()?;
                        tracing::info!("groups changed");
                    }
                    anyhow::Ok(now)
                });
                match looked.await {
                    Ok(Ok(now)) => last = Some(now),
                    Ok(Err(error)) => {
                        let error = format!("{error:#}");
                        has_failed = true;
                        tracing::warn!(error, "groups could not be read; they stay as they were");
                    }
                    Err(_) => {}
                }
            }
            let pause = Duration::from_secs(config.policy.groups_seconds.max(1));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
        }
    }
}
