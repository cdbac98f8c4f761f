//! The options that say what judges: shared by every subcommand that scans.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::ValueEnum;
use gauntlet_engine::signatures::known::DAYS_DEFAULT;
use gauntlet_engine::{Settings, Snapshot, Thresholds, own_rules};
use gauntlet_gateway::config::Config;
use gauntlet_rules::{LoadOptions, LoadReport, Profile, Severity};
use gauntlet_spamassassin::Ruleset;

use crate::learning;

/// Options that choose the ruleset, model and lists.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RulesetArgs {
    /// Judge by SpamAssassin rules from this folder or file alone (may be repeated)
    #[arg(long, value_name = "DIR")]
    pub(crate) rules: Vec<PathBuf>,
    /// Judge with what the node of this data folder has learned: corrections and signatures
    #[arg(long, value_name = "DIR", conflicts_with = "rules")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: ReadingArgs,
    /// Say how often every rule fired, sub-rules included
    #[arg(long, requires = "rules")]
    pub(crate) subtests: bool,
    /// Refuse rules with any fault: an error or a warning of `gauntlet rules check`
    #[arg(long, requires = "rules")]
    pub(crate) strict: bool,
    /// End a scan as soon as the rules that are left cannot change the class
    #[arg(long, requires = "rules", conflicts_with = "subtests")]
    pub(crate) early_stop: bool,
}

/// Options that say how rule files are read.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ReadingArgs {
    /// Which rules run
    #[arg(long, value_name = "PROFILE", default_value = "local")]
    pub(crate) profile: ProfileName,
    /// Folder with .pre files (plugins) and further .cf files, as /etc/spamassassin (may be repeated)
    #[arg(long, value_name = "DIR")]
    pub(crate) site: Vec<PathBuf>,
}

/// Names of [`Profile`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileName {
    /// What the message alone tells, as `spamassassin -L` without Bayes
    #[default]
    Local,
    /// Network rules too, answered from facts
    Full,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Local => Profile::Local,
            ProfileName::Full => Profile::Full,
        }
    }
}

impl ReadingArgs {
    /// Loads rules from these sources, and says on standard error if anything is wrong with them. Fails
    /// if there is no rule: mail would pass as if it had been looked at.
    pub(crate) fn load(
        &self,
        sources: &[PathBuf],
        subtests: bool,
        strict: bool,
    ) -> anyhow::Result<Ruleset> {
        let (ruleset, report) = Ruleset::load(sources, &self.options(subtests, strict))?;
        if ruleset.rules().is_empty() {
            return Err(without_rules(sources));
        }
        say_problems(&report);
        Ok(ruleset)
    }

    /// Loads rules from these sources, with what was found on the way; without any source, our own.
    /// Fails if there is no rule file.
    pub(crate) fn load_or_own(
        &self,
        sources: &[PathBuf],
        subtests: bool,
    ) -> anyhow::Result<(Ruleset, LoadReport)> {
        if sources.is_empty() {
            return Ok(own_rules::with(&[], &self.options(subtests, false))?);
        }
        let (ruleset, report) = Ruleset::load(sources, &self.options(subtests, false))?;
        if report.files.is_empty() {
            return Err(without_rules(sources));
        }
        Ok((ruleset, report))
    }

    fn options(&self, subtests: bool, strict: bool) -> LoadOptions {
        LoadOptions {
            site: self.site.clone(),
            profile: self.profile.into(),
            subtests,
            strict,
            ..LoadOptions::default()
        }
    }
}

/// The rules that ship, with the lists and thresholds of a configuration.
fn of_config(config: &Config) -> anyhow::Result<Snapshot> {
    let settings = Settings {
        thresholds: Thresholds::from(&config.thresholds),
        allow: config.lists.allow.clone(),
        block: config.lists.block.clone(),
        ..Settings::default()
    };
    Ok(Snapshot::build(&settings)?)
}

/// The error for sources that hold no rule.
pub(crate) fn without_rules(sources: &[PathBuf]) -> anyhow::Error {
    let names: Vec<String> = sources.iter().map(|s| s.display().to_string()).collect();
    anyhow::anyhow!(
        "{}: there is no rule in it; name .cf files or folders with some",
        names.join(" ")
    )
}

/// Says on standard error how many problems rule files have, and the first.
pub(crate) fn say_problems(report: &LoadReport) {
    let mut bad = report.problems.iter().filter(|p| p.severity > Severity::Note);
    if let Some(first) = bad.next() {
        let more = match bad.count() {
            0 => String::new(),
            n => format!("; {n} more are told by gauntlet rules check"),
        };
        eprintln!("gauntlet: {first}{more}");
    }
}

impl RulesetArgs {
    /// Loads what the options name, else the defaults.
    pub(crate) fn load(&self) -> anyhow::Result<Snapshot> {
        self.load_with(None)
    }

    /// The same, with the lists and thresholds of a configuration; those count for no rules of others that
    /// judge alone.
    ///
    /// # Errors
    /// If rules cannot be loaded, or a list has an entry that is none.
    pub(crate) fn load_with(&self, config: Option<&Config>) -> anyhow::Result<Snapshot> {
        if self.rules.is_empty() {
            let snapshot = config.map_or_else(|| Ok(Snapshot::default_rules()), of_config)?;
            return Ok(match &self.data {
                Some(data) if !data.is_dir() => {
                    anyhow::bail!("--data {}: there is no such folder", data.display())
                }
                Some(data) => snapshot.with_learned(learning::load(data, DAYS_DEFAULT)?),
                None => snapshot,
            });
        }
        let mut ruleset =
            self.reading.load(&self.rules, self.subtests, self.strict).context("--rules")?;
        if self.early_stop {
            let required = ruleset.required_score();
            let thresholds =
                Thresholds { suspect: required, spam: required, ..Thresholds::default() };
            ruleset = Snapshot::stopping_early(ruleset, &thresholds);
        }
        Ok(Snapshot::of_rules(Arc::new(ruleset)))
    }
}
