//! How rules are loaded, and which of them run.

use std::borrow::Cow;
use std::path::PathBuf;

use crate::rule::Rule;

/// Which rules run and which score set counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Profile {
    /// As `spamassassin -L` without Bayes: only the message itself; score set 0.
    #[default]
    Local,
    /// Rules that need the network are answered from the facts; score set 1.
    Full,
}

impl Profile {
    /// `local` or `full`, as the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Local => "local",
            Profile::Full => "full",
        }
    }

    /// Which of a rule's four scores counts: 0 local, 1 network.
    pub fn score_set(self) -> usize {
        match self {
            Profile::Local => 0,
            Profile::Full => 1,
        }
    }

    /// Whether a rule runs: its score in this profile's score set is not 0.
    pub(crate) fn runs(self, rule: &Rule) -> bool {
        rule.scores[self.score_set()] != 0.0
    }
}

/// Where rule files are, and how strictly they are read.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Folders with `.pre` and extra `.cf` files, as `/etc/spamassassin`.
    pub site: Vec<PathBuf>,
    /// Whether rules that need the network run.
    pub profile: Profile,
    /// Any error or warning refuses the whole set.
    pub strict: bool,
    /// Outcomes have the count of every rule that fired, sub-rules included.
    pub subtests: bool,
    /// Locale that `lang` lines are compared with, e.g. `en_US`.
    pub language: String,
    /// Rule files that are not on disk, name and content, read before the sources; they cannot
    /// include others.
    pub texts: Vec<(Cow<'static, str>, Cow<'static, str>)>,
    /// Only rules of `texts` are kept. What the sources say about them (points, flags) is applied;
    /// one that a source redefines is left out.
    pub texts_alone: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            site: Vec::new(),
            profile: Profile::Local,
            strict: false,
            subtests: false,
            language: "en_US".to_owned(),
            texts: Vec::new(),
            texts_alone: false,
        }
    }
}
