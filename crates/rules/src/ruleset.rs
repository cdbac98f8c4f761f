//! All rules, compiled, immutable.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use gauntlet_mail::{Defect, Envelope, Facts, Hit, Message};

use crate::language::{self, Problem, ReadOptions, Severity};
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
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Folders with `.pre` and extra `.cf` files, read like `/etc/spamassassin`.
    pub site: Vec<PathBuf>,
    /// Which rules run.
    pub profile: Profile,
    /// Any error or warning refuses the whole set.
    pub strict: bool,
    /// Locale that `lang` lines are compared with, e.g. `en_US`.
    pub language: String,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            site: Vec::new(),
            profile: Profile::Local,
            strict: false,
            language: "en_US".to_owned(),
        }
    }
}

/// Why nothing was loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file or folder could not be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file or folder.
        path: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Problems were found, and the load was strict.
    #[error("{count} problems, the first: {first}")]
    Strict {
        /// Errors and warnings.
        count: usize,
        /// The first of them.
        first: Box<Problem>,
    },
}

/// What was found while loading.
#[derive(Debug, Clone, Default)]
pub struct LoadReport {
    /// Problems in the order they were met.
    pub problems: Vec<Problem>,
    /// Loaded rules by kind.
    pub kinds: BTreeMap<&'static str, usize>,
    /// Files read, in order.
    pub files: Vec<PathBuf>,
    /// Packages of loaded plugins.
    pub plugins: Vec<String>,
}

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
        sources: &[PathBuf],
        options: &LoadOptions,
    ) -> Result<(Ruleset, LoadReport), LoadError> {
        let read = ReadOptions {
            sites: options.site.clone(),
            local_tests_only: options.profile == Profile::Local,
            language: options.language.clone(),
        };
        let config = language::read(sources, &read)
            .map_err(|(path, cause)| LoadError::Read { path: path.display().to_string(), cause })?;
        let mut report = LoadReport {
            problems: config.problems,
            files: config.files,
            plugins: config.plugins,
            ..LoadReport::default()
        };
        for rule in &config.rules {
            *report.kinds.entry(rule.test.kind()).or_default() += 1;
        }
        let bad = |p: &&Problem| p.severity >= Severity::Warning;
        if options.strict
            && let Some(first) = report.problems.iter().find(bad)
        {
            let count = report.problems.iter().filter(bad).count();
            return Err(LoadError::Strict { count, first: Box::new(first.clone()) });
        }
        let view_settings = ViewSettings::from_settings(&config.settings);
        Ok((Ruleset { rules: config.rules, settings: config.settings, view_settings }, report))
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
