//! What a node of an array shares with the others.

use std::sync::Arc;

use gauntlet_learning::corrections::sharing::SharedCorrections;
use gauntlet_learning::signatures::sharing::SharedSignatures;
use gauntlet_store::History;
use gauntlet_store::history::sharing::SharedHistory;
use gauntlet_store::sharing::{SharedKind, SharedPart};

use super::Node;
use crate::admin::sandbox;
use crate::config::Config;
use crate::inbound::rate_limiter::sharing::SharedRates;

/// Opens the history of a node. What is not shared is not noted: nobody would ask for it.
pub(super) fn open_history(config: &Config) -> anyhow::Result<Arc<History>> {
    let history = History::open(&sandbox::history_folder(&config.node.data)?)?;
    for kind in [SharedKind::Senders, SharedKind::Greylist] {
        if !config.array.shares(kind) {
            history.end_sharing(kind)?;
        }
    }
    Ok(Arc::new(history))
}

impl Node {
    /// The parts of this node whose state its array shares.
    pub fn shared_parts(&self) -> Vec<Arc<dyn SharedPart>> {
        let config = self.config();
        let (data, clock) = (&config.node.data, self.clock.clone());
        let part = |kind: SharedKind| -> Arc<dyn SharedPart> {
            let history = self.history.clone();
            match kind {
                SharedKind::Corrections => Arc::new(SharedCorrections::new(data)),
                SharedKind::Signatures => {
                    let days = config.learning.signature_days;
                    Arc::new(SharedSignatures::new(data, days, clock.clone()))
                }
                SharedKind::Senders => Arc::new(SharedHistory::senders(history, clock.clone())),
                SharedKind::Greylist => Arc::new(SharedHistory::greylist(history, clock.clone())),
                SharedKind::Rates => Arc::new(SharedRates::new(self.rate_limiter.clone())),
            }
        };
        let shares = |kind: &SharedKind| config.array.shares(*kind);
        SharedKind::ALL.into_iter().filter(shares).map(part).collect()
    }
}
