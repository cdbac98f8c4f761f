//! What a node has learned: corrections and signatures of a data folder, and when they change.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use gauntlet_engine::Learned;
use gauntlet_engine::SiteModel;
use gauntlet_engine::corrections::reports;
use gauntlet_engine::signatures::KnownSignatures;
use gauntlet_gateway::Node;
use gauntlet_learning::{Corrections, corrections, signatures};

/// Learns all that the data folder holds. Takes as long as training on as many messages as there
/// are corrections: up to about a second.
pub(crate) fn load(data: &Path, days: u16) -> anyhow::Result<Learned> {
    let standing = Corrections::read(data)?;
    let (table, entries) = signatures::load(data)?;
    let known = KnownSignatures::new(table, &entries, &reports(&standing), days);
    Ok(Learned {
        site: (!standing.is_empty()).then(|| Arc::new(SiteModel::learn(&standing))),
        signatures: (!known.is_empty()).then(|| Arc::new(known)),
    })
}

/// Looks for what was learned (by `gauntlet learn`, the console, probe accounts) while the node
/// runs, and gives it to the node. On a thread of its own, which ends with the node.
pub(crate) fn watch(node: &Arc<Node>) -> anyhow::Result<()> {
    let mut seen = marks(&node.config().node.data);
    let node = Arc::downgrade(node);
    let look = move || {
        loop {
            let Some(seconds) = node.upgrade().map(|n| n.config().learning.refresh_seconds) else {
                return;
            };
            std::thread::sleep(Duration::from_secs(seconds.max(1)));
            let Some(node) = node.upgrade() else { return };
            let config = node.config();
            let now = marks(&config.node.data);
            if now == seen {
                continue;
            }
            seen = now;
            match load(&config.node.data, config.learning.signature_days) {
                Ok(learned) => {
                    node.apply_learned(&learned);
                    tracing::info!(ruleset = node.ruleset(), "learned");
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::error!(
                        error,
                        "what was learned cannot be read; the node goes on without"
                    );
                }
            }
        }
    };
    std::thread::Builder::new().name("learning".to_owned()).spawn(look).context("learning")?;
    Ok(())
}

/// Size and time of change of each file; another value means that something was learned.
fn marks(data: &Path) -> [Option<(u64, SystemTime)>; 3] {
    let folder = data.join(signatures::FOLDER_NAME);
    [
        corrections::journal_path(data),
        folder.join(signatures::TABLE_NAME),
        folder.join(signatures::JOURNAL_NAME),
    ]
    .map(|path| {
        let about = std::fs::metadata(path).ok()?;
        Some((about.len(), about.modified().ok()?))
    })
}
