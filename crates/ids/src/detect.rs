//! Detection: which rules match a packet, its stream and its transactions.
//!
//! ```text
//! packet rules (addresses, headers, payload, stream) -> transactions -> alerts in order -> actions
//! ```
//!
//! [`Program`] is what rules are compiled to and is shared; [`Detector`] is what one thread keeps.

mod actions;
mod alert;
mod compile;
mod compiled;
mod countries;
mod datasets;
mod engines;
mod flow_state;
mod frames;
mod grouping;
mod groups;
mod header;
mod host_bits;
mod inspection;
mod packet;
mod packet_buffers;
mod profile;
mod program;
mod reputations;
mod rules;
mod tag;
mod tags;
mod threshold;
mod transaction;
mod words;

pub use alert::{Alert, Verdict};
pub use countries::Countries;
pub use datasets::{Datasets, address_bytes};
pub use flow_state::{FlowActions, FlowState};
pub use inspection::{InFlow, inspect, skip};
pub use packet::{Counters, Facts, Known, Protocols};
pub use profile::{Clock, Cost, Profile, Searched, Taken};
pub use program::{Limits, Program, Settings, Suppress};
pub use reputations::Reputations;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::inspect::Inspector;
use crate::inspect::prefilter::Scratch;

/// What one thread keeps between packets.
#[derive(Default)]
pub struct Detector {
    /// Sets that rules test and change.
    pub datasets: Datasets,
    /// Scores and countries of addresses.
    pub reputations: Arc<Reputations>,
    /// What rules cost, if that is counted.
    pub profile: Option<Box<Profile>>,
    pub(crate) inspector: Inspector,
    pub(crate) search: Scratch,
    pub(crate) groups: groups::Used,
    pub(crate) host_bits: host_bits::HostBitTable,
    pub(crate) thresholds: threshold::Thresholds,
    pub(crate) tags: tags::Hosts,
}

impl Detector {
    /// Takes sets and reputations of `newer`. Sets that are in no file, and so have only what rules
    /// put in, keep it; bits of addresses and counters of limits stay. Of siblings each takes one
    /// of siblings that are newer, at its own time.
    pub(crate) fn replace_lists(&mut self, newer: Self, program: &Program) {
        let own = program.rules.datasets.iter().filter(|set| set.load.is_none());
        let kept: Vec<&str> = own.map(|set| set.name.as_str()).collect();
        self.datasets.replace(newer.datasets, &kept);
        self.reputations = newer.reputations;
        if let Some(profile) = &mut self.profile {
            // Numbers of rules mean others now.
            profile.take();
        }
        // Those of the rules before.
        self.groups = groups::Used::default();
    }
}

impl Detector {
    /// One for another thread. Sets of values, bits of addresses and the counters of limits are
    /// shared.
    #[must_use]
    pub fn sibling(&self) -> Self {
        Self {
            datasets: self.datasets.clone(),
            reputations: Arc::clone(&self.reputations),
            host_bits: self.host_bits.clone(),
            thresholds: self.thresholds.clone(),
            profile: self.profile.as_ref().map(|profile| Box::new(profile.sibling())),
            ..Self::default()
        }
    }
}

/// Locks what threads share. What a thread that panicked has left is used: each change is whole.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
