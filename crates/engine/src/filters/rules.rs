//! Rules in SpamAssassin's language, as files define them.
//!
//! A rule with `tflags NAME phishing` counts towards that class, one with `tflags NAME bulk` says that
//! the message is mass mail, as the rules of the filters do.

use std::collections::BTreeMap;
use std::sync::Arc;

use gauntlet_spamassassin::Ruleset;

use crate::filter::{Filter, Findings, Item};
use crate::rulebook::Lean;
use crate::scan::Scratch;

/// Runs a compiled [`Ruleset`].
#[derive(Debug)]
pub struct Rules {
    ruleset: Arc<Ruleset>,
    /// Rules that say more than points.
    leans: BTreeMap<Arc<str>, Lean>,
}

impl Rules {
    /// A filter that runs these rules.
    pub fn new(ruleset: Arc<Ruleset>) -> Self {
        let lean = |rule: &gauntlet_rules::Rule| {
            let lean = if rule.has_flag("phishing") { Lean::Phishing } else { Lean::Bulk };
            (rule.has_flag("phishing") || rule.has_flag("bulk")).then(|| (rule.name.clone(), lean))
        };
        let leans = ruleset.rules().iter().filter_map(lean).collect();
        Rules { ruleset, leans }
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
        for hit in &outcome.hits {
            match self.leans.get(&hit.rule) {
                Some(Lean::Phishing) => findings.phishing.push(hit.rule.clone()),
                Some(_) => findings.bulk.push(hit.rule.clone()),
                None => {}
            }
        }
        findings.hits.append(&mut outcome.hits);
        findings.defects.append(&mut outcome.defects);
        findings.sub.append(&mut outcome.sub);
    }

    fn data_version(&self) -> String {
        self.ruleset.version().to_owned()
    }
}
