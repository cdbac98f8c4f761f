//! The condition on what data loss prevention found.

use serde::Deserialize;

use crate::pattern::{OneOrMany, Pattern};

/// Findings that fit all of `detector`, `family`, `dictionary` and `document`, and are enough.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataCondition {
    /// Detectors by name: `payment_card`, `us_*`.
    pub detector: Option<OneOrMany<Pattern>>,
    /// What the values are: `payment`, `identity`, `secret`, `dictionary`, `document`.
    pub family: Option<OneOrMany<Pattern>>,
    /// Names of dictionaries of which one was found.
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
    /// Whether findings are requested at all, not domains or `unread` alone.
    pub(crate) fn asks_findings(&self) -> bool {
        let patterns = [&self.detector, &self.family, &self.dictionary, &self.document];
        patterns.iter().any(|p| p.is_some())
            || self.count_min.is_some()
            || self.points_min.is_some()
            || self.share_min.is_some()
            || self.unread.is_none()
    }
}
