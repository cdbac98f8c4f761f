//! What grows is cut back: the message log and the quarantine.

use std::sync::Arc;
use std::time::Duration;

use super::{Node, people};
use crate::clock::now_ms;

/// Between two rounds of removing what is too old or too much.
const HOUSEKEEPING_PAUSE: Duration = Duration::from_secs(300);

impl Node {
    /// Retention of log and quarantine, again and again.
    pub(super) async fn housekeeping(self: Arc<Self>) {
        let mut stopping = self.stop.subscribe();
        loop {
            let node = self.clone();
            let kept = tokio::task::spawn_blocking(move || {
                let (config, now) = (node.config(), now_ms());
                node.log.retain(now, config.log.retention_days)?;
                let q = &config.quarantine;
                let before_ms = now - i64::from(q.retention_days) * 86_400_000;
                let folders = people::folder_limits(&config);
                let own = node.quarantine.retain_folders(&folders, now)?;
                let cap = Some(q.bytes_max);
                let rest = node.quarantine.retain_except(before_ms, cap, &folders, now)?;
                Ok::<u64, gauntlet_store::StoreError>(own + rest)
            });
            if let Ok(Err(error)) = kept.await {
                tracing::warn!(%error, "old records could not be removed");
            }
            tokio::select! {
                () = tokio::time::sleep(HOUSEKEEPING_PAUSE) => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
        }
    }
}
