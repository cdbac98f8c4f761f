//! A node that does not run, opened to put messages into its spool: `gauntlet queue adopt` works
//! while the node is stopped, too.

use std::fs::File;
use std::sync::Arc;

use gauntlet_store::{Log, LogOptions, Spool};

use super::{folder, opening, users};
use crate::clock::Clock;
use crate::config::Config;
use crate::ids::Ids;
use crate::outbound::queue::arrivals::{Arrival, Arrivals};
use crate::outbound::queue::bundle::Bundle;

/// The stores of a node that is stopped, locked so that it is not started meanwhile.
#[derive(Debug)]
pub struct StoppedNode {
    arrivals: Arrivals,
    log: Arc<Log>,
    spool: Arc<Spool>,
    _locks: (File, Option<File>),
}

impl StoppedNode {
    /// Opens the stores of the node of this configuration.
    ///
    /// # Errors
    /// If it runs, or a store cannot be opened.
    pub fn open(config: &Config) -> anyhow::Result<Self> {
        let lock = folder::lock(&config.node.data)?;
        let clock = Clock::system();
        let (spool, recovery, spool_lock) = folder::open_spool(config, clock.clone())?;
        let log = Arc::new(Log::open_with(&config.node.data.join("log"), LogOptions::default())?);
        let quarantine = users::open_quarantine(config)?;
        let ids = Arc::new(Ids::default());
        recovery.messages.iter().for_each(|(id, _)| ids.see(*id));
        let stores = (&spool, &log, &quarantine);
        // Nothing is received meanwhile.
        let arrivals = opening::arrivals(config, stores, &ids, (&clock, None))?;
        Ok(StoppedNode { arrivals, log, spool, _locks: (lock, spool_lock) })
    }

    /// Takes in messages that another node handed over, once each; the node delivers what is new
    /// when it is started. Durable when it returns.
    ///
    /// # Errors
    /// If the log cannot be written; the messages are here all the same.
    pub fn take_in(&self, bundles: Vec<Bundle>) -> anyhow::Result<Vec<Arrival>> {
        let (answers, _) = self.arrivals.take_in(bundles);
        // An empty append ends when all before it are durable.
        self.log.append(Vec::new())?;
        self.spool.flush();
        Ok(answers)
    }
}
