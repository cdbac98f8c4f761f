//! The options that say what judges: shared by every subcommand that scans.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context;
use gauntlet_engine::signatures::known::DAYS_DEFAULT;
use gauntlet_engine::{Settings, Snapshot, UrlListMeaning};
use gauntlet_gateway::config::{Config, UrlListSettings};
use gauntlet_inputs::rules::ReadingArgs;
use gauntlet_verdict::Thresholds;

use crate::{judge, learning, url_lists};

/// Options that choose the ruleset, model and lists.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RulesetArgs {
    /// Judge by SpamAssassin rules from this folder or file alone (may be repeated)
    #[arg(long, value_name = "DIR")]
    pub(crate) rules: Vec<PathBuf>,
    /// Judge with what the node of this data folder has learned: corrections and signatures
    #[arg(long, value_name = "DIR", conflicts_with = "rules")]
    pub(crate) data: Option<PathBuf>,
    /// Look URLs up in this compiled list (`gauntlet urls compile`) as well; MEANING= is
    /// `phishing=`, `spam=` or nothing (may be repeated)
    #[arg(long, value_name = "[MEANING=]FILE", conflicts_with = "rules")]
    pub(crate) url_list: Vec<UrlListArg>,
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

/// A list of URLs, and what a hit means.
#[derive(Debug, Clone)]
pub(crate) struct UrlListArg(UrlListSettings);

impl FromStr for UrlListArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let meanings = [
            ("phishing=", UrlListMeaning::Phishing),
            ("spam=", UrlListMeaning::Spam),
            ("none=", UrlListMeaning::None),
        ];
        let named =
            meanings.into_iter().find_map(|(start, m)| Some((text.strip_prefix(start)?, m)));
        let (file, mail) = named.unwrap_or((text, UrlListMeaning::None));
        let file = PathBuf::from(file);
        // A file may have the sign in its name; a folder before it is no meaning.
        let unknown = text.split_once('=').map(|(meaning, _)| meaning);
        let unknown = unknown.filter(|meaning| named.is_none() && !meaning.contains('/'));
        if let Some(meaning) = unknown.filter(|_| !file.exists()) {
            return Err(format!(
                "{meaning:?} is no MEANING; write phishing=FILE, spam=FILE, none=FILE or FILE alone"
            ));
        }
        let name = file.file_stem().ok_or_else(|| format!("{text:?} names no file"))?;
        let name = name.to_string_lossy().into_owned();
        Ok(UrlListArg(UrlListSettings { name, file, mail, ..UrlListSettings::default() }))
    }
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
            self.check_data()?;
            let snapshot = self.shipped(config)?;
            return Ok(match &self.data {
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

    /// What a node of this configuration judges by now: its rules, lists, thresholds and model, the
    /// senders that its console allows and blocks, and what it has learned. Rules that the options
    /// name judge alone.
    ///
    /// # Errors
    /// As [`Self::load_with`], or if the node's data cannot be read.
    pub(crate) fn load_for_node(&self, config: &Config) -> anyhow::Result<Snapshot> {
        if !self.rules.is_empty() {
            return self.load();
        }
        self.check_data()?;
        let url_list = self.with_url_lists(config.url_list.clone())?;
        judge::of_node(&Config { url_list, ..config.clone() })
    }

    fn check_data(&self) -> anyhow::Result<()> {
        match &self.data {
            Some(data) if !data.is_dir() => {
                anyhow::bail!("--data {}: there is no such folder", data.display())
            }
            _ => Ok(()),
        }
    }

    /// These lists of URLs, and those that the options name.
    fn with_url_lists(
        &self,
        mut lists: Vec<UrlListSettings>,
    ) -> anyhow::Result<Vec<UrlListSettings>> {
        for UrlListArg(list) in &self.url_list {
            if lists.iter().any(|other| other.name == list.name) {
                anyhow::bail!("--url-list: two lists are called {:?}", list.name);
            }
            lists.push(list.clone());
        }
        Ok(lists)
    }

    /// The rules that ship, with the lists and thresholds of a configuration.
    fn shipped(&self, config: Option<&Config>) -> anyhow::Result<Snapshot> {
        if config.is_none() && self.url_list.is_empty() {
            return Ok(Snapshot::default_rules());
        }
        let config = config.cloned().unwrap_or_default();
        let lists = self.with_url_lists(config.url_list)?;
        let settings = Settings {
            thresholds: Thresholds::from(&config.thresholds),
            allow: config.lists.allow,
            block: config.lists.block,
            url_lists: url_lists::open(&lists)?,
            ..Settings::default()
        };
        Ok(Snapshot::build(&settings)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_meaning_is_named() {
        let read = |text: &str| text.parse::<UrlListArg>().map(|UrlListArg(list)| list);
        let error = read("foo=/x").unwrap_err();
        assert!(error.contains("\"foo\" is no MEANING") && error.contains("phishing="), "{error}");
        assert_eq!(read("spam=/x/a.urls").unwrap().mail, UrlListMeaning::Spam);
        assert_eq!(read("none=b.urls").unwrap().file, PathBuf::from("b.urls"));
        assert_eq!(read("/x=y/a.urls").unwrap().name, "a");
        assert_eq!(read("/a=b.urls").unwrap().mail, UrlListMeaning::None);
    }
}
