//! Settings of scanning: threads, thresholds, rules, learning, lists.

use std::path::PathBuf;

use gauntlet_verdict::{Thresholds, probability_reached_by};
use serde::{Deserialize, Serialize};

use super::error::ConfigError;

/// What the node learns from, beside corrections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LearningSettings {
    /// Addresses without a user: mail to them becomes signatures of known bad mail.
    pub probes: Vec<String>,
    /// Domains without a user: mail to any of their addresses becomes that, and goes nowhere.
    pub probe_domains: Vec<String>,
    /// The classifier's model, as `gauntlet train` makes it; empty takes the one in the program.
    pub model: PathBuf,
    /// Days that a signature is believed after it was seen last.
    pub signature_days: u16,
    /// Seconds between two polls for corrections and signatures that are new.
    pub refresh_seconds: u64,
}

impl Default for LearningSettings {
    fn default() -> Self {
        let signature_days = gauntlet_engine::signatures::known::DAYS_DEFAULT;
        let model = PathBuf::new();
        LearningSettings {
            probes: Vec::new(),
            probe_domains: Vec::new(),
            model,
            signature_days,
            refresh_seconds: 2,
        }
    }
}

impl LearningSettings {
    /// Refuses probe domains that are none, or that have users.
    pub(super) fn check(&self, recipients: &[String]) -> Result<(), ConfigError> {
        let wrong = |problem: String| Err(ConfigError::invalid("learning.probe_domains", problem));
        for domain in &self.probe_domains {
            let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
            if !domain.contains('.') || domain.starts_with('.') || !domain.chars().all(is_plain) {
                return wrong(format!("{domain:?} is no domain, such as old.example.org"));
            }
            let below = format!("@{}", domain.to_lowercase());
            if let Some(user) = recipients.iter().find(|r| r.to_lowercase().ends_with(&below)) {
                return wrong(format!(
                    "{domain:?} has a user, {user} of recipients.known, and would get none of \
                     their mail; name single addresses in learning.probes"
                ));
            }
        }
        Ok(())
    }
}

/// How many threads judge mail, and how long mail waits for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScanSettings {
    /// Judge mail; without it every message is ham, and the policy goes by envelope, facts and
    /// headers.
    pub enabled: bool,
    /// Threads that judge all mail; with 0 the threads that receive judge small messages, and one
    /// for each CPU that the process may use judges others.
    pub threads: usize,
    /// Messages that wait for a thread; above, new bodies get 451.
    pub queue_max: usize,
    /// Seconds a message may wait for its verdict before it gets 451.
    pub wait_seconds_max: u64,
}

impl Default for ScanSettings {
    fn default() -> Self {
        ScanSettings { enabled: true, threads: 0, queue_max: 256, wait_seconds_max: 60 }
    }
}

/// Where classes begin, in points and in expected errors; the more severe of the two counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ThresholdSettings {
    /// From here a message is suspect.
    pub suspect: f64,
    /// From here it is spam.
    pub spam: f64,
    /// From here it is explicit spam.
    pub explicit: f64,
    /// Share of good mail that may be called suspect or worse by its probability.
    pub suspect_error: f64,
    /// Share of good mail that may be called spam or worse.
    pub spam_error: f64,
    /// Share of good mail that may be called explicit spam.
    pub explicit_error: f64,
    /// Below this probability the points of several rules together say nothing; 0: they always
    /// count.
    pub contradicted: f64,
}

impl Default for ThresholdSettings {
    fn default() -> Self {
        let Thresholds { suspect, spam, explicit, contradicted, .. } = Thresholds::default();
        let [suspect_error, spam_error, explicit_error] = Thresholds::ERRORS;
        ThresholdSettings {
            suspect,
            spam,
            explicit,
            suspect_error,
            spam_error,
            explicit_error,
            contradicted,
        }
    }
}

impl From<&ThresholdSettings> for Thresholds {
    fn from(settings: &ThresholdSettings) -> Self {
        Thresholds {
            suspect: settings.suspect,
            spam: settings.spam,
            explicit: settings.explicit,
            suspect_probability: probability_reached_by(settings.suspect_error),
            spam_probability: probability_reached_by(settings.spam_error),
            explicit_probability: probability_reached_by(settings.explicit_error),
            contradicted: settings.contradicted,
            errors: [settings.suspect_error, settings.spam_error, settings.explicit_error],
            ..Thresholds::default()
        }
    }
}

/// Rules beside our own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleSettings {
    /// Rule files and folders in SpamAssassin's language.
    pub paths: Vec<PathBuf>,
    /// Use our own rules as well.
    pub own: bool,
    /// Refuse a rule file that is not understood as a whole.
    pub strict: bool,
    /// Run rules of the files that need the network; they read the facts.
    pub network: bool,
    /// End a scan as soon as the rules that are left cannot change the class; only where the files
    /// judge alone.
    pub early_stop: bool,
    /// Try first what hit often on the last day, where scans may end early.
    pub order_by_hits: bool,
}

impl Default for RuleSettings {
    fn default() -> Self {
        RuleSettings {
            paths: Vec::new(),
            own: true,
            strict: false,
            network: false,
            early_stop: false,
            order_by_hits: false,
        }
    }
}

/// Senders, clients and hosts that are known. Entries are addresses, `@domain`, domains, networks
/// in CIDR form or URL hosts. A file of them is a [`LocalListSettings`](super::LocalListSettings).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListSettings {
    /// Senders whose mail is never spam.
    pub allow: Vec<String>,
    /// Senders whose mail is always spam.
    pub block: Vec<String>,
}
