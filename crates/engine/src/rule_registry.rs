//! The rules that filters written in code can hit: name, points, description.
//!
//! A filter asks the registry for each of its rules when it is made. So the registry knows all of
//! them (for the ruleset's version, and for lists), and an administrator's points reach them in one
//! place.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A rule that a filter may hit.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Stable name, e.g. `URL_TEXT_MISMATCH`.
    pub name: Arc<str>,
    /// Points that a hit adds.
    pub score: f64,
    /// One sentence for administrators and users.
    pub description: Arc<str>,
    /// What else a hit says.
    pub effect: RuleEffect,
    /// Points 0 set by an administrator: the rule is off.
    pub enabled: bool,
}

/// What a hit says beside its points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleEffect {
    /// Nothing beside its points.
    Points,
    /// Its points count towards [`gauntlet_verdict::Class::Phishing`] too.
    Phishing,
    /// The message is bulk mail.
    Bulk,
    /// The class, whatever the points.
    ForceClass(gauntlet_verdict::Class),
}

/// All rules of the filters of one snapshot.
#[derive(Debug, Clone, Default)]
pub struct RuleRegistry {
    scores: BTreeMap<String, f64>,
    rules: Vec<Rule>,
}

impl RuleRegistry {
    /// A registry in which these rules have other points than their filters propose; 0 turns one
    /// off.
    pub fn new(scores: BTreeMap<String, f64>) -> Self {
        RuleRegistry { scores, rules: Vec::new() }
    }

    /// A rule that gives points.
    pub fn points(&mut self, name: &str, score: f64, description: &str) -> Rule {
        self.rule(name, score, description, RuleEffect::Points)
    }

    /// A rule whose points count towards [`gauntlet_verdict::Class::Phishing`] too.
    pub fn phishing(&mut self, name: &str, score: f64, description: &str) -> Rule {
        self.rule(name, score, description, RuleEffect::Phishing)
    }

    /// A rule that says more than points.
    pub fn rule(&mut self, name: &str, score: f64, description: &str, effect: RuleEffect) -> Rule {
        let changed = self.scores.get(name).copied();
        let rule = Rule {
            name: name.into(),
            score: changed.unwrap_or(score),
            description: description.into(),
            effect,
            enabled: changed != Some(0.0),
        };
        self.rules.push(rule.clone());
        rule
    }

    /// Every rule asked for so far, in that order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Names with points of an administrator that no filter has: spelling mistakes.
    pub fn unknown(&self) -> Vec<&str> {
        let known = |name: &str| self.rules.iter().any(|r| &*r.name == name);
        self.scores.keys().map(String::as_str).filter(|n| !known(n)).collect()
    }
}
