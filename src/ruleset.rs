//! The options that say what judges: shared by every subcommand that scans.

use gauntlet_engine::Snapshot;

/// Options that choose the ruleset, model and lists.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RulesetArgs {}

impl RulesetArgs {
    /// Loads what the options name, else the defaults.
    pub(crate) fn load(&self) -> anyhow::Result<Snapshot> {
        Ok(Snapshot::default_rules())
    }
}
