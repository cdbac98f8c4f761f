//! What settings about users mean to a running node: groups that change, folders and their limits,
//! keys of held mail.

use std::sync::Arc;
use std::time::Duration;

use gauntlet_policy::Groups;
use gauntlet_store::Quarantine;

use super::Node;
use crate::admin::{groups, quarantine};
use crate::config::Config;

/// Opens the quarantine of a node.
pub(super) fn open_quarantine(config: &Config) -> anyhow::Result<Arc<Quarantine>> {
    let folder = config.node.data.join("quarantine");
    let quarantine = Quarantine::open_with(&folder, quarantine::body_keys(config)?)?;
    quarantine.set_folder_release(quarantine::folder_release(config));
    quarantine.set_own_packs(quarantine::folders_with_own_packs(config));
    if config.array.objects.is_empty() {
        // Else changes would be noted for ever, for an array that does not ask for them.
        quarantine.end_feed()?;
    }
    Ok(Arc::new(quarantine))
}

impl Node {
    /// Polls whether groups of users changed, and applies the policy with them.
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
