//! What the engine answers about an item.

use std::sync::Arc;

use gauntlet_mail::{Defect, Hit};
use serde::{Deserialize, Serialize};

use crate::data_loss::DataLoss;
use crate::listed_url::ListedUrl;

/// The kinds of item, from harmless to unjudgeable. By severity: ham, bulk, suspect, spam,
/// unscannable, phishing, malware.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Mail that the recipient wants.
    #[default]
    Ham,
    /// Newsletters and other bulk mail that the recipient may want.
    Bulk,
    /// Its score is between the two thresholds: perhaps unwanted.
    Suspect,
    /// Unsolicited mail, sent to many.
    Spam,
    /// Mail that impersonates a person or organisation to obtain secrets or money.
    Phishing,
    /// Carries a file that harms who opens it.
    Malware,
    /// Could not be judged (a filter failed, or a limit was reached); the policy says what follows.
    Unscannable,
}

impl Class {
    /// Every class, from harmless to unjudgeable.
    pub const ALL: [Class; 7] = [
        Class::Ham,
        Class::Bulk,
        Class::Suspect,
        Class::Spam,
        Class::Phishing,
        Class::Malware,
        Class::Unscannable,
    ];

    /// How severe it is, from 0: known harm is worse than what cannot be judged, and that is worse
    /// than all else.
    pub fn severity(self) -> usize {
        match self {
            Class::Ham => 0,
            Class::Bulk => 1,
            Class::Suspect => 2,
            Class::Spam => 3,
            Class::Unscannable => 4,
            Class::Phishing => 5,
            Class::Malware => 6,
        }
    }

    /// The name in JSON, headers and policies: `ham`, `bulk`, ...
    pub fn name(self) -> &'static str {
        match self {
            Class::Ham => "ham",
            Class::Bulk => "bulk",
            Class::Suspect => "suspect",
            Class::Spam => "spam",
            Class::Phishing => "phishing",
            Class::Malware => "malware",
            Class::Unscannable => "unscannable",
        }
    }
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Class {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let names: Vec<&str> = Self::ALL.iter().map(|c| c.name()).collect();
        let found = Self::ALL.into_iter().find(|c| c.name() == name);
        found.ok_or_else(|| format!("no class {name:?}; the classes are {}", names.join(", ")))
    }
}

/// One change that would have given another class, e.g. "without URL_TEXT_MISMATCH: ham".
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counterfactual {
    /// Rules (or signals) that would have to be absent, fewest first.
    pub without: Vec<Arc<str>>,
    /// Points they gave together.
    pub points: f64,
    /// The class without them.
    pub class: Class,
}

/// What a filter cost on this item. Not part of what must be deterministic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilterCost {
    /// Name of the filter, as `[filters]` and metrics have it.
    pub filter: Arc<str>,
    /// Wall time in microseconds.
    pub micros: f32,
}

/// What the engine says of one item: the class, and all that it follows from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Verdict {
    /// What kind of item it is.
    pub class: Class,
    /// Rule points; with SpamAssassin's rules and the `local` profile this is SpamAssassin's score.
    pub score: f64,
    /// Calibrated probability that the item is unwanted, from rules, classifier, signatures and
    /// lists together; none with a profile that uses rules alone.
    pub probability: Option<f64>,
    /// Spam above the high threshold: certain enough to be kept from users altogether.
    #[serde(default)]
    pub explicit: bool,
    /// Rules that fired, ordered by rule name.
    pub hits: Vec<Hit>,
    /// Anomalies of the item and failures of filters.
    pub defects: Vec<Defect>,
    /// What would have changed the class, smallest change first.
    pub counterfactuals: Vec<Counterfactual>,
    /// Time that each filter took; the only part that differs from run to run.
    pub costs: Vec<FilterCost>,
    /// How often every rule of a rule file fired, sub-rules included, by name; empty unless the
    /// ruleset was asked to say so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub: Vec<(Arc<str>, f64)>,
    /// Version of the ruleset, model and lists that judged it.
    pub ruleset: Arc<str>,
    /// What data loss prevention found, masked; none if no rule of the policy asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_loss: Option<DataLoss>,
    /// URLs of the item that are on lists of URLs, whatever these say of mail, in the order of the
    /// item; bounded by the filter that asks the lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub url_lists: Vec<ListedUrl>,
    /// Log odds that the item is unwanted, as if nobody here knew its author and without what the
    /// site has learned in its favour: a sample of good mail for the thresholds, if it is one. Not
    /// written down with the verdict.
    #[serde(skip)]
    pub stranger_odds: Option<f64>,
}

impl Verdict {
    /// Wall time of all filters in microseconds.
    pub fn cost_us(&self) -> f64 {
        self.costs.iter().map(|c| f64::from(c.micros)).sum()
    }

    /// The hit of this rule.
    pub fn hit(&self, rule: &str) -> Option<&Hit> {
        self.hits.iter().find(|h| &*h.rule == rule)
    }
}
