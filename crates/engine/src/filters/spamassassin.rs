//! SpamAssassin's rules, on the message as SpamAssassin renders it. Flags as for our own rules
//! ([`super::rules`]).

use std::sync::Arc;

use gauntlet_spamassassin::Ruleset;

use super::rules::RuleEffects;
use crate::filter::{Filter, Findings, Item};
use crate::scratch::Scratch;

/// Runs a rule set of the administrator's.
#[derive(Debug)]
pub struct SpamAssassin {
    ruleset: Arc<Ruleset>,
    leans: RuleEffects,
}

impl SpamAssassin {
    /// A filter that runs these rules.
    pub fn new(ruleset: Arc<Ruleset>) -> Self {
        SpamAssassin { leans: RuleEffects::of(&ruleset), ruleset }
    }
}

impl Filter for SpamAssassin {
    fn name(&self) -> &'static str {
        "spamassassin"
    }

    fn reads_objects(&self) -> bool {
        true
    }

    fn run(&self, item: &Item<'_>, scratch: &mut Scratch, findings: &mut Findings) {
        let (now, scratch) = (item.envelope.received_at, &mut scratch.spamassassin);
        let outcome = self.ruleset.scan(item.message, item.envelope, item.facts, now, scratch);
        self.leans.add(outcome, findings);
    }

    fn data_version(&self) -> String {
        self.ruleset.version().to_owned()
    }
}
