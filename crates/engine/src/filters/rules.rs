//! Rules in SpamAssassin's language, as files define them.

use std::sync::Arc;

use gauntlet_rules::Ruleset;

use crate::filter::{Filter, Findings, Item};
use crate::scan::Scratch;

/// Runs a compiled [`Ruleset`].
#[derive(Debug)]
pub struct Rules {
    ruleset: Arc<Ruleset>,
}

impl Rules {
    /// A filter that runs these rules.
    pub fn new(ruleset: Arc<Ruleset>) -> Self {
        Rules { ruleset }
    }
}

impl Filter for Rules {
    fn name(&self) -> &'static str {
        "rules"
    }

    fn run(&self, item: &Item<'_>, scratch: &mut Scratch, findings: &mut Findings) {
        let now = item.envelope.received_at;
        let mut outcome =
            self.ruleset.scan(item.message, item.envelope, item.facts, now, &mut scratch.rules);
        findings.hits.append(&mut outcome.hits);
        findings.defects.append(&mut outcome.defects);
        findings.sub.append(&mut outcome.sub);
    }

    fn data_version(&self) -> String {
        self.ruleset.version().to_owned()
    }
}
