//! The condition on what data loss prevention found.

use gauntlet_mail::Direction;
use serde::Deserialize;

use crate::condition::Condition;
use crate::file::Policy;
use crate::pattern::{OneOrMany, Pattern};
use crate::rule::Rule;

/// Findings that fit all of `detector`, `family`, `dictionary` and `document`, and are enough.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataCondition {
    /// Detectors by name: `payment_card`, `us_*`.
    pub detector: Option<OneOrMany<Pattern>>,
    /// What the values are: `payment`, `identity`, `secret`, `dictionary`, `document`.
    pub family: Option<OneOrMany<Pattern>>,
    /// Dictionaries by name.
    pub dictionary: Option<OneOrMany<Pattern>>,
    /// Documents by file name.
    pub document: Option<OneOrMany<Pattern>>,
    /// Different values of all findings that fit, together, at least; 1 if nothing is said.
    pub count_min: Option<u32>,
    /// Points of a dictionary, at least.
    pub points_min: Option<f64>,
    /// Share of a document, 0 to 1, at least.
    pub share_min: Option<f64>,
    /// The recipient's domain is one of these.
    pub to_domain: Option<OneOrMany<Pattern>>,
    /// The recipient's domain is none of these: those of one's own.
    pub not_to_domain: Option<OneOrMany<Pattern>>,
    /// Not all of the message could be looked through.
    pub unread: Option<bool>,
}

impl DataCondition {
    /// Whether findings are asked for at all, not domains or `unread` alone.
    pub(crate) fn asks_findings(&self) -> bool {
        let patterns = [&self.detector, &self.family, &self.dictionary, &self.document];
        patterns.iter().any(|p| p.is_some())
            || self.count_min.is_some()
            || self.points_min.is_some()
            || self.share_min.is_some()
            || self.unread.is_none()
    }
}

/// The conditions on data of a table, and of those inside it.
fn conditions(when: &Condition) -> Vec<&DataCondition> {
    let lists = [&when.all, &when.any];
    let inner = lists.into_iter().flatten().flatten().chain(when.not.as_deref());
    when.dlp.iter().chain(inner.flat_map(conditions)).collect()
}

fn asks(when: &Condition) -> bool {
    let lists = [&when.all, &when.any];
    when.dlp.is_some()
        || lists.into_iter().flatten().flatten().any(asks)
        || when.not.as_deref().is_some_and(asks)
}

impl Policy {
    /// Whether some rule for this direction has a condition on data: without one, nobody needs to
    /// look.
    pub fn asks_data_loss(&self, direction: Direction) -> bool {
        let for_it = self.rules.iter().filter(|rule| rule.directions.contains(&direction));
        for_it.filter_map(|rule| rule.when.as_ref()).any(asks)
    }

    /// Every condition on data, with its rule.
    pub fn data_conditions(&self) -> impl Iterator<Item = (&Rule, &DataCondition)> {
        let of_rule = |rule| {
            let Rule { when, .. }: &Rule = rule;
            when.iter().flat_map(conditions).map(move |condition| (rule, condition))
        };
        self.rules.iter().flat_map(of_rule)
    }
}
