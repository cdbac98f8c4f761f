//! All rules, compiled, immutable.

use std::path::PathBuf;
use std::sync::Arc;

use gauntlet_mail::{Defect, Envelope, Facts, Hit, Message};

use crate::rule::Rule;
use crate::settings::Settings;
use crate::views::{ViewSettings, Views};

/// Which rules run and which score set counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Profile {
    /// As `spamassassin -L` without Bayes: what the message alone tells; score set 0.
    #[default]
    Local,
    /// Rules that need the network are answered from the facts; score set 1.
    Full,
}

/// How to load.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// Folders with `.pre` and extra `.cf` files, read like `/etc/spamassassin`.
    pub site: Vec<PathBuf>,
    /// Which rules run.
    pub profile: Profile,
    /// Any problem refuses the whole set.
    pub strict: bool,
}

/// Why nothing was loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file or folder could not be read.
    #[error("{path}: {cause}")]
    Read { path: String, cause: std::io::Error },
}

/// What was found while loading.
#[derive(Debug, Clone, Default)]
pub struct LoadReport {}

/// Buffers of one scan thread.
#[derive(Debug, Default)]
pub struct RulesScratch {}

/// What the rules say about a message.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Scored rules that fired, by name, with evidence.
    pub hits: Vec<Hit>,
    /// How often every rule fired, sub-rules included, by name.
    pub sub: Vec<(Arc<str>, f64)>,
    /// Sum of the points.
    pub score: f64,
    /// Rules that ran out of their budget.
    pub defects: Vec<Defect>,
}

/// All rules of one version.
#[derive(Debug)]
pub struct Ruleset {
    rules: Vec<Rule>,
    settings: Settings,
    view_settings: ViewSettings,
}

impl Ruleset {
    /// Reads rules from folders and files, in this order.
    pub fn load(
        _sources: &[PathBuf],
        _options: &LoadOptions,
    ) -> Result<(Ruleset, LoadReport), LoadError> {
        let settings = Settings::default();
        let view_settings = ViewSettings::from_settings(&settings);
        Ok((Ruleset { rules: Vec::new(), settings, view_settings }, LoadReport::default()))
    }

    /// Every rule, by name.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Settings of the files that are not rules.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings that views depend on.
    pub fn view_settings(&self) -> &ViewSettings {
        &self.view_settings
    }

    /// Judges a message; `now` is Unix time in seconds.
    pub fn scan(
        &self,
        message: &Message<'_>,
        envelope: &Envelope,
        facts: &Facts,
        _now: i64,
        _scratch: &mut RulesScratch,
    ) -> Outcome {
        let _views = Views::new(message, envelope, facts, &self.view_settings);
        Outcome::default()
    }
}
