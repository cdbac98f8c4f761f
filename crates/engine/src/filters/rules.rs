//! Our own rules, in SpamAssassin's language, on the message as every filter sees it.
//!
//! A rule with `tflags NAME phishing` counts towards that class, one with `tflags NAME bulk` says
//! that the message is bulk mail, as the rules of the filters do.

use std::collections::BTreeMap;
use std::sync::Arc;

use gauntlet_rules::{NativeDocument, Outcome, Ruleset};

use crate::filter::{Filter, Findings, Item};
use crate::rule_registry::RuleEffect;
use crate::scratch::Scratch;

/// Rules that say more than points.
#[derive(Debug)]
pub(super) struct RuleEffects(BTreeMap<Arc<str>, RuleEffect>);

impl RuleEffects {
    /// Those of a rule set.
    pub(super) fn of(ruleset: &Ruleset) -> Self {
        let effect = |rule: &gauntlet_rules::Rule| {
            let effect =
                if rule.has_flag("phishing") { RuleEffect::Phishing } else { RuleEffect::Bulk };
            (rule.has_flag("phishing") || rule.has_flag("bulk"))
                .then(|| (rule.name.clone(), effect))
        };
        RuleEffects(ruleset.rules().iter().filter_map(effect).collect())
    }

    /// Adds what the rules found.
    pub(super) fn add(&self, mut outcome: Outcome, findings: &mut Findings) {
        for hit in &outcome.hits {
            match self.0.get(&hit.rule) {
                Some(RuleEffect::Phishing) => findings.phishing.push(hit.rule.clone()),
                Some(_) => findings.bulk.push(hit.rule.clone()),
                None => {}
            }
        }
        findings.hits.append(&mut outcome.hits);
        findings.defects.append(&mut outcome.defects);
        findings.sub.append(&mut outcome.sub);
    }
}

/// Runs our own rules.
#[derive(Debug)]
pub struct Rules {
    ruleset: Arc<Ruleset>,
    leans: RuleEffects,
}

impl Rules {
    /// A filter that runs these rules.
    pub fn new(ruleset: Arc<Ruleset>) -> Self {
        Rules { leans: RuleEffects::of(&ruleset), ruleset }
    }
}

impl Filter for Rules {
    fn name(&self) -> &'static str {
        "rules"
    }

    fn reads_objects(&self) -> bool {
        true
    }

    fn run(&self, item: &Item<'_>, scratch: &mut Scratch, findings: &mut Findings) {
        let document = NativeDocument::new(item.message, item.envelope);
        self.leans.add(self.ruleset.scan(&document, &mut scratch.rules), findings);
    }

    fn data_version(&self) -> String {
        self.ruleset.version().to_owned()
    }
}
