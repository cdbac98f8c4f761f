//! `uri_detail` rules: one URI that meets every condition.

use super::{Location, Tally};
use crate::document::{Document, UriDetail};
use crate::pattern::{Pattern, PatternError};
use crate::rule::{Rule, UriCondition};

/// A `uri_detail` rule: all its conditions must hold for one URI.
#[derive(Debug)]
pub(crate) struct UriDetailRule {
    pub(crate) rule: u32,
    /// As [`super::Member::is_deferrable`]: nothing but metas reads it.
    pub(crate) is_deferrable: bool,
    conditions: Vec<Condition>,
}

#[derive(Debug)]
struct Condition {
    key: String,
    negated: bool,
    pattern: Pattern,
}

impl UriDetailRule {
    /// Compiles the conditions; fails if a pattern is not valid.
    pub(crate) fn new(
        index: usize,
        rule: &Rule,
        conditions: &[UriCondition],
    ) -> Result<Self, PatternError> {
        let compile = |c: &UriCondition| {
            let pattern = Pattern::new(&c.pattern)?;
            Ok(Condition { key: c.key.clone(), negated: c.negated, pattern })
        };
        let conditions: Result<Vec<_>, _> = conditions.iter().map(compile).collect();
        Ok(UriDetailRule {
            rule: index as u32,
            is_deferrable: rule.is_sub(),
            conditions: conditions?,
        })
    }

    /// Evaluates the rule on every URI.
    pub(crate) fn scan(&self, document: &dyn Document, tally: &mut Tally) {
        if self.first(document).is_some() {
            tally.hit(self.rule, 1, Location::None);
        }
    }

    /// The first URI that meets every condition, as it was written.
    pub(crate) fn first<'v>(&self, document: &'v dyn Document) -> Option<&'v [u8]> {
        let mut uris = document.uri_details();
        let found = uris
            .find(|(raw, detail)| self.conditions.iter().all(|c| c.holds(raw, detail, document)));
        found.map(|(raw, _)| raw)
    }
}

impl Condition {
    /// Whether some value of the key matches (or with `!~` does not match).
    fn holds(&self, raw: &[u8], detail: &UriDetail, document: &dyn Document) -> bool {
        let meets = |text: &[u8]| self.pattern.is_match(text) != self.negated;
        match self.key.as_str() {
            "raw" => meets(raw),
            "type" => {
                detail.elements.iter().any(|e| meets(e.as_bytes()))
                    || (detail.is_parsed && meets(b"parsed"))
            }
            "cleaned" => detail.forms.iter().any(|f| meets(f)),
            "text" => detail.anchor_texts.iter().any(|t| meets(t)),
            "host" => detail.hosts.iter().any(|h| meets(h)),
            _ => detail.hosts.iter().any(|host| meets(&document.registered_domain(host))),
        }
    }
}
