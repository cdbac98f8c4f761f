//! Rules that a command judges by: which files, and how they are read.

use std::path::PathBuf;

use clap::ValueEnum;
use gauntlet_engine::own_rules;
use gauntlet_mail::{Envelope, Facts, Message};
use gauntlet_rules::{
    HitRates, LoadOptions, LoadReport, NativeDocument, Outcome, Profile, Severity,
};
use gauntlet_spamassassin::Ruleset;

/// Options that say how rule files are read.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ReadingArgs {
    /// Whether rules that need the network run
    #[arg(long, value_name = "PROFILE", default_value = "local")]
    pub profile: ProfileName,
    /// Folder with .pre files (plugins) and further .cf files, as /etc/spamassassin (may be
    /// repeated)
    #[arg(long, value_name = "DIR")]
    pub site: Vec<PathBuf>,
}

/// [`Profile`] as the command line names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ProfileName {
    /// Rules about the message alone, as `spamassassin -L` without Bayes
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
    /// Loads rules from these sources, and says on standard error if anything is wrong with them.
    ///
    /// # Errors
    /// If a file cannot be read, has a fault with `strict`, or if there is no rule: mail would pass
    /// as if it had been looked at.
    pub fn load(
        &self,
        sources: &[PathBuf],
        subtests: bool,
        strict: bool,
    ) -> anyhow::Result<Ruleset> {
        let (ruleset, report) = Ruleset::load(sources, &self.options(subtests, strict))?;
        if ruleset.rules().is_empty() {
            return Err(without_rules(sources));
        }
        report_problems(&report);
        Ok(ruleset)
    }

    /// Loads rules from these sources, with what was found on the way; without any source, our own.
    ///
    /// # Errors
    /// If a file cannot be read, or there is no rule file.
    pub fn load_or_own(
        &self,
        sources: &[PathBuf],
        subtests: bool,
    ) -> anyhow::Result<(LoadedRules, LoadReport)> {
        if sources.is_empty() {
            let (own, report) = own_rules::with(&[], &[], &self.options(subtests, false))?;
            return Ok((LoadedRules::Own(own), report));
        }
        let (ruleset, report) = Ruleset::load(sources, &self.options(subtests, false))?;
        if report.files.is_empty() {
            return Err(without_rules(sources));
        }
        Ok((LoadedRules::SpamAssassin(ruleset), report))
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

/// Rules of either dialect.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one, for the whole run")]
pub enum LoadedRules {
    /// Our own rules, on the message itself.
    Own(gauntlet_rules::Ruleset),
    /// SpamAssassin's rules, on its views of the message.
    SpamAssassin(Ruleset),
}

/// Buffers for rules of either kind, used again for each message.
#[derive(Debug, Default)]
pub struct LoadedScratch {
    own: gauntlet_rules::RulesScratch,
    spamassassin: gauntlet_spamassassin::RulesScratch,
}

impl LoadedScratch {
    /// Buffers that also keep what each rule costs.
    pub fn with_costs() -> Self {
        LoadedScratch {
            own: gauntlet_rules::RulesScratch::with_costs(),
            spamassassin: gauntlet_spamassassin::RulesScratch::with_costs(),
        }
    }

    /// The costs by position of the rule: tries and nanoseconds.
    pub fn costs(&self) -> &[(u64, u64)] {
        match self.own.costs() {
            [] => self.spamassassin.costs(),
            costs => costs,
        }
    }
}

impl std::ops::Deref for LoadedRules {
    type Target = gauntlet_rules::Ruleset;

    fn deref(&self) -> &Self::Target {
        match self {
            LoadedRules::Own(own) => own,
            LoadedRules::SpamAssassin(ruleset) => ruleset,
        }
    }
}

impl LoadedRules {
    /// Tries first what hit often of late.
    #[must_use]
    pub fn ordered_by(self, rates: &HitRates) -> Self {
        match self {
            LoadedRules::Own(own) => LoadedRules::Own(own.ordered_by(rates)),
            LoadedRules::SpamAssassin(rules) => LoadedRules::SpamAssassin(rules.ordered_by(rates)),
        }
    }

    /// Lets scans end as soon as the score is certain to be on one side of each threshold.
    #[must_use]
    pub fn stop_early_at(self, thresholds: &[f64]) -> Self {
        match self {
            LoadedRules::Own(own) => LoadedRules::Own(own.stop_early_at(thresholds)),
            LoadedRules::SpamAssassin(rules) => {
                LoadedRules::SpamAssassin(rules.stop_early_at(thresholds))
            }
        }
    }

    /// Judges a message by these rules alone, at a Unix time in seconds.
    pub fn judge(
        &self,
        message: &Message<'_>,
        envelope: &Envelope,
        now: i64,
        scratch: &mut LoadedScratch,
    ) -> Outcome {
        match self {
            LoadedRules::Own(own) => {
                own.scan(&NativeDocument::new(message, envelope), &mut scratch.own)
            }
            LoadedRules::SpamAssassin(ruleset) => {
                let scratch = &mut scratch.spamassassin;
                ruleset.scan(message, envelope, &Facts::default(), now, scratch)
            }
        }
    }
}

/// The error for sources that hold no rule: names them and says what to name instead.
pub fn without_rules(sources: &[PathBuf]) -> anyhow::Error {
    let names: Vec<String> = sources.iter().map(|s| s.display().to_string()).collect();
    anyhow::anyhow!(
        "{}: there is no rule in it; name .cf files or folders with some",
        names.join(" ")
    )
}

/// Says on standard error how many problems (errors and warnings) rule files have, and the first.
pub fn report_problems(report: &LoadReport) {
    let mut bad = report.problems.iter().filter(|p| p.severity > Severity::Note);
    if let Some(first) = bad.next() {
        let more = match bad.count() {
            0 => String::new(),
            n => format!("; {n} more are listed by gauntlet rules check"),
        };
        eprintln!("gauntlet: {first}{more}");
    }
}
