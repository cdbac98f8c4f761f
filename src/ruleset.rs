//! The options that say what judges: shared by every subcommand that scans.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use gauntlet_engine::signatures::known::DAYS_DEFAULT;
use gauntlet_engine::{Settings, Snapshot};
use gauntlet_gateway::config::Config;
use gauntlet_inputs::rules::ReadingArgs;
use gauntlet_verdict::Thresholds;

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

impl RulesetArgs {
    /// Loads what the options name, else the defaults.
    pub(crate) fn load(&self) -> anyhow::Result<Snapshot> {
        self.load_with(None)
    }

    /// The same, with the lists and thresholds of a configuration; those count for no rules of
    /// others that judge alone.
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
