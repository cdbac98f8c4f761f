//! Lists of our own: fetched, read again when they change; and what is remembered of senders,
//! written.

use std::sync::Arc;
use std::time::Duration;

use super::Node;

/// How often lists of our own are looked at, and what was remembered of senders is written.
const WATCH_PAUSE: Duration = Duration::from_secs(10);
/// How often it is looked whether a list is to be fetched.
const FETCH_PAUSE: Duration = Duration::from_secs(2);

impl Node {
    /// Fetches lists of our own that come from URLs.
    pub(super) async fn fetch_lists(self: Arc<Self>) {
        let mut stopping = self.stop.subscribe();
        loop {
            let facts = self.in_force.get().inbound.facts.clone();
            tokio::select! {
                () = facts.fetch_lists() => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
            drop(facts);
            tokio::select! {
                () = tokio::time::sleep(FETCH_PAUSE) => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
        }
    }

    /// Reads lists of our own again that changed, and writes what was remembered of senders.
    pub(super) async fn watch_lists(self: Arc<Self>) {
        let mut stopping = self.stop.subscribe();
        loop {
            let node = self.clone();
            let done = tokio::task::spawn_blocking(move || {
                let inbound = node.in_force.get().inbound.clone();
                inbound.facts.reload_lists();
                let now_s = node.clock.unix_s();
                node.history.write(now_s)?;
                let rules = inbound.rates.greylist_rules();
                node.history.forget_waiting(&rules, now_s)
            });
            if let Ok(Err(error)) = done.await {
                tracing::warn!(%error, "the history of senders cannot be written");
            }
            tokio::select! {
                () = tokio::time::sleep(WATCH_PAUSE) => {}
                _ = stopping.wait_for(|stop| *stop) => return,
            }
        }
    }
}
