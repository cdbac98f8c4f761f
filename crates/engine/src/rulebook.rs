//! The rules that filters written in code can hit: name, points, description.
//!
//! A filter asks the book for each of its rules when it is made. So the book knows all of them (for
//! the ruleset's version, and for lists), and an administrator's points reach them in one place.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A rule that a filter may hit.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Stable name, e.g. `URL_TEXT_MISMATCH`.
    pub name: Arc<str>,
    /// Points that a hit adds.
    pub score: f64,
    /// One sentence for a person.
    pub description: Arc<str>,
    /// What else a hit says.
    pub lean: Lean,
    /// Points 0 set by an administrator: the rule is off.
    pub enabled: bool,
}

/// What a hit says beside its points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lean {
    /// Nothing.
    Points,
    /// Its points count towards [`gauntlet_verdict::Class::Phishing`] too.
    Phishing,
    /// The message is mass mail.
    Bulk,
    /// The class, whatever the points.
    Certain(gauntlet_verdict::Class),
}

/// All rules of the filters of one snapshot.
#[derive(Debug, Clone, Default)]
pub struct RuleBook {
    scores: BTreeMap<String, f64>,
    rules: Vec<Rule>,
}

impl RuleBook {
    /// A book in which these rules have other points than their filters propose; 0 turns one off.
    pub fn new(scores: BTreeMap<String, f64>) -> Self {
        RuleBook { scores, rules: Vec::new() }
    }

    /// A rule that gives points.
    pub fn points(&mut self, name: &str, score: f64, description: &str) -> Rule {
        self.rule(name, score, description, Lean::Points)
    }

    /// A rule that speaks of phishing.
    pub fn phishing(&mut self, name: &str, score: f64, description: &str) -> Rule {
        self.rule(name, score, description, Lean::Phishing)
    }

    /// A rule that says more than points.
    pub fn rule(&mut self, name: &str, score: f64, description: &str, lean: Lean) -> Rule {
        let changed = self.scores.get(name).copied();
        let rule = Rule {
            name: name.into(),
            score: changed.unwrap_or(score),
            description: description.into(),
            lean,
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
