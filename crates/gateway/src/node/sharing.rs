//! What a node of an array shares with the others.

use std::sync::{Arc, Weak};

use gauntlet_learning::corrections::sharing::SharedCorrections;
use gauntlet_learning::signatures::sharing::SharedSignatures;
use gauntlet_store::history::sharing::SharedHistory;
use gauntlet_store::sharing::{Cursors, Incoming, Outgoing, SharedKind, SharedPart, SharingError};
use gauntlet_store::users::sharing::Taken;
use gauntlet_store::{Clock, History, Users};

use super::Node;
use crate::admin::sandbox;
use crate::config::Config;
use crate::inbound::rate_limiter::sharing::SharedRates;

/// Opens the history of a node. What is not shared, of it and of users, is not noted: nobody would
/// ask for it.
pub(super) fn open_history(config: &Config, users: &Users) -> anyhow::Result<Arc<History>> {
    if !config.array.shares(SharedKind::Users) {
        users.end_sharing()?;
    }
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
    pub fn shared_parts(self: &Arc<Self>) -> Vec<Arc<dyn SharedPart>> {
        let config = self.config();
        let (data, clock) = (&config.node.data, self.clock.clone());
        let part = |kind: SharedKind| -> Arc<dyn SharedPart> {
            let history = self.history.clone();
            match kind {
                SharedKind::Users => Arc::new(SharedUsers {
                    users: self.logins.shared_users(),
                    node: Arc::downgrade(self),
                    clock: clock.clone(),
                }),
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

/// The users of a node, in whichever process has them.
#[derive(Debug)]
struct SharedUsers {
    users: Arc<Users>,
    node: Weak<Node>,
    clock: Clock,
}

impl SharedPart for SharedUsers {
    fn kind(&self) -> SharedKind {
        SharedKind::Users
    }

    fn begin(&self, epoch: &str) -> Result<Cursors, SharingError> {
        Ok(self.users.begin_sharing(epoch)?)
    }

    fn collect(&self) -> Result<Option<Outgoing>, SharingError> {
        Ok(self.users.shared_changes()?)
    }

    fn sent(&self, mark: u64) -> Result<(), SharingError> {
        Ok(self.users.shared_sent(mark)?)
    }

    fn take(&self, batches: &[Incoming]) -> Result<(), SharingError> {
        let mut changed = Taken::default();
        // One by one: a request to the secrets process has a limit.
        for batch in batches {
            let taken = self.users.take_shared(batch, self.clock.unix_ms())?;
            changed.people |= taken.people;
            changed.senders |= taken.senders;
        }
        let Some(node) = self.node.upgrade() else { return Ok(()) };
        if changed.senders {
            node.reload(Config::clone(&node.config())).map_err(|error| format!("{error:#}"))?;
        } else if changed.people {
            node.reload_policy().map_err(|error| format!("{error:#}"))?;
        }
        Ok(())
    }
}
