//! Everything that judges an item, immutable while it does (design invariant 4).

use std::sync::Arc;

use crate::filter::Filter;

/// Points at which a class begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// From here an item is suspect.
    pub suspect: f64,
    /// From here it is spam.
    pub spam: f64,
    /// From here it is explicit spam: certain enough to be kept from people altogether.
    pub explicit: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds { suspect: 4.0, spam: 6.0, explicit: 12.0 }
    }
}

/// Ruleset, model, lists and thresholds of one version. Updates swap the whole of it.
#[derive(Debug)]
pub struct Snapshot {
    /// Names this version in verdicts and logs.
    pub version: Arc<str>,
    /// Where the classes begin.
    pub thresholds: Thresholds,
    /// The filters, in the order they run.
    pub filters: Vec<Box<dyn Filter>>,
}

impl Snapshot {
    /// Our own filters with their default settings.
    pub fn default_rules() -> Self {
        Snapshot { version: "none".into(), thresholds: Thresholds::default(), filters: Vec::new() }
    }
}
