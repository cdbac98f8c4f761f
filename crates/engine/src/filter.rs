//! What a filter is. One file in `filters/` each: struct, docs, rules it can hit, limits, tests.

use std::sync::Arc;

use gauntlet_mail::{Defect, Envelope, Evidence, Facts, Hit, Message};

use crate::scan::Scratch;
use crate::snapshot::Snapshot;
use crate::verdict::Class;

/// An item on its way through the gauntlet.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    /// The parsed message.
    pub message: &'a Message<'a>,
    /// What the connection said.
    pub envelope: &'a Envelope,
    /// What the network said.
    pub facts: &'a Facts,
    /// Ruleset, model and lists that judge this item from start to end.
    pub snapshot: &'a Snapshot,
}

/// What filters found so far.
#[derive(Debug, Default)]
pub struct Findings {
    /// Rules that fired.
    pub hits: Vec<Hit>,
    /// Oddities that filters found.
    pub defects: Vec<Defect>,
    /// A class that a filter is sure of whatever the score (e.g. malware by EICAR, ham by an allow
    /// list), with the rule that says so. The most severe wins, except that an allow list beats
    /// everything below [`Class::Phishing`].
    pub certain: Vec<(Class, Arc<str>)>,
}

impl Findings {
    /// Adds a hit with one piece of evidence.
    pub fn hit(&mut self, rule: &Arc<str>, score: f64, description: &Arc<str>, at: Evidence) {
        self.hits.push(Hit {
            rule: rule.clone(),
            score,
            count: 1,
            description: description.clone(),
            evidence: vec![at],
        });
    }
}

/// One kind of analysis. Code; the rules it reads are data in the snapshot.
pub trait Filter: Send + Sync + std::fmt::Debug {
    /// Stable name, for costs and settings.
    fn name(&self) -> &'static str;
    /// Looks at the item and adds what it found. Deterministic; never waits.
    fn run(&self, item: &Item<'_>, scratch: &mut Scratch, findings: &mut Findings);
}
