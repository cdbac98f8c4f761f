//! Everything that judges an item, immutable while it does (design invariant 4).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::classifier::Model;
use crate::filter::Filter;
use crate::filters;
use crate::filters::url_lists::MailUrlLists;
use crate::fusion::Weights;
use crate::learned::{Learned, VERSION_BYTES};
use crate::lookalike::Brands;
use crate::own_rules;
use crate::rule_registry::RuleRegistry;
use crate::signatures::KnownSignatures;
use gauntlet_urlfilter::UrlLists;
use gauntlet_verdict::lists::List;
use gauntlet_verdict::{SiteCalibration, Thresholds};

/// What a filter that failed does to the class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailAction {
    /// The item is [`Unscannable`](gauntlet_verdict::Class::Unscannable), and the policy says what
    /// follows.
    #[default]
    Unscannable,
    /// The other filters decide; the defect is still in the verdict.
    Ignore,
}

/// What can be chosen about the engine. `Settings::default()` is what ships.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Where the classes begin.
    pub thresholds: Thresholds,
    /// Other points for rules of the filters, by rule name; 0 turns a rule off.
    pub scores: BTreeMap<String, f64>,
    /// What a filter that failed does to the class.
    pub on_failure: FailAction,
    /// Addresses, domains and networks that are never spam (see [`crate::lists`]).
    pub allow: Vec<String>,
    /// Addresses, domains and networks that are always spam.
    pub block: Vec<String>,
    /// Lists of URLs, with what a hit of each means.
    pub url_lists: MailUrlLists,
    /// Our own rules; none are those that ship ([`crate::own_rules`]).
    pub own_rules: Option<Arc<gauntlet_rules::Ruleset>>,
    /// Rules of SpamAssassin that run beside the filters; their points add to the score.
    pub rules: Option<Arc<gauntlet_spamassassin::Ruleset>>,
    /// Names of filters to leave out.
    pub filters_off: Vec<String>,
    /// The classifier's model; none is the one that ships.
    pub model: Option<Arc<Model>>,
    /// What the site has learned.
    pub learned: Learned,
}

/// Why a snapshot could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An entry of a list that is none.
    #[error(transparent)]
    List(#[from] gauntlet_verdict::lists::Error),
    /// Points for a rule that no filter has.
    #[error("no rule is called {0:?}, so its points cannot be set; check the spelling")]
    UnknownRule(String),
    /// A filter that there is not.
    #[error("no filter is called {name:?}; the filters are {known}")]
    UnknownFilter {
        /// The name in the settings.
        name: String,
        /// The names there are.
        known: String,
    },
}

/// Ruleset, model, lists and thresholds of one version. Updates swap the whole of it.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Names this version in verdicts and logs: a hash over everything that can change a verdict.
    pub version: Arc<str>,
    /// Where the classes begin: as set, or as the site's own mail keeps what is set.
    pub thresholds: Thresholds,
    /// Where they begin by the settings.
    configured: Thresholds,
    /// Weights that make a probability of points and classifier; none if the class follows from
    /// the points alone.
    pub fusion: Option<Weights>,
    /// What a filter that failed does to the class.
    pub on_failure: FailAction,
    /// Hits of one item at most; the filter that goes beyond has failed.
    pub hits_max: usize,
    /// The filters, in the order they run.
    pub filters: Vec<Arc<dyn Filter>>,
    /// Our own rules among the filters.
    pub own_rules: Option<Arc<gauntlet_rules::Ruleset>>,
    /// SpamAssassin's rules among the filters: what they ask of the network is asked before the
    /// scan.
    pub ruleset: Option<Arc<gauntlet_spamassassin::Ruleset>>,
    /// Lists of URLs that the filter of lists asks, and the web path of the same generation.
    pub url_lists: UrlLists,
    /// What the site has learned.
    pub learned: Learned,
    /// The version without what was learned.
    version_of_rules: Arc<str>,
    /// Their names, shared by all verdicts.
    pub(crate) filter_names: Vec<Arc<str>>,
    /// Every rule that the filters written in code can hit.
    pub registry: RuleRegistry,
}
/// All of SpamAssassin's rules can hit at once without reaching this.
const HITS_MAX: usize = 20_000;

impl Snapshot {
    /// What ships, with its default settings.
    pub fn default_rules() -> Self {
        // Defaults name no rules or filters, so nothing in them can be unknown.
        Self::build(&Settings::default()).unwrap_or_else(|_| Self::empty())
    }

    /// No filter at all: everything is ham. For tests and measurements.
    pub fn empty() -> Self {
        Snapshot {
            version: "empty".into(),
            thresholds: Thresholds::default(),
            configured: Thresholds::default(),
            fusion: Some(Weights::default()),
            on_failure: FailAction::default(),
            hits_max: HITS_MAX,
            filters: Vec::new(),
            own_rules: None,
            ruleset: None,
            url_lists: UrlLists::default(),
            learned: Learned::default(),
            version_of_rules: "empty".into(),
            filter_names: Vec::new(),
            registry: RuleRegistry::default(),
        }
    }

    /// The same with these filters instead.
    #[must_use]
    pub fn with_filters(mut self, filters: Vec<Box<dyn Filter>>) -> Self {
        self.filter_names = filters.iter().map(|f| f.name().into()).collect();
        self.filters = filters.into_iter().map(Arc::from).collect();
        self
    }

    /// The same, having learned this instead, but for what channels publish. Cheap: everything else
    /// is shared.
    #[must_use]
    pub fn with_learned(self, learned: Learned) -> Self {
        let published = self.learned.published.clone();
        self.with_all_learned(Learned { published, ..learned })
    }

    /// The same with this instead of what channels publish.
    #[must_use]
    pub fn with_published(self, published: Vec<Arc<KnownSignatures>>) -> Self {
        let learned = Learned { published, ..self.learned.clone() };
        self.with_all_learned(learned)
    }

    fn with_all_learned(mut self, learned: Learned) -> Self {
        self.version = format!("{}{}", self.version_of_rules, learned.version()).into();
        self.learned = learned;
        if self.fusion.is_some() {
            self.thresholds = self.learned.site_mail().thresholds(&self.configured);
        }
        self
    }

    /// How the thresholds fit the site's own mail; none before anything is known of it.
    pub fn calibration(&self) -> Option<SiteCalibration> {
        let knows = self.learned.site.is_some() || self.learned.good_mail.is_some();
        (knows && self.fusion.is_some())
            .then(|| self.learned.site_mail().calibration(&self.configured))
    }

    /// What the site has learned.
    pub fn learned(&self) -> &Learned {
        &self.learned
    }

    /// Rules of files alone, without any filter of ours: the score is theirs and nothing else, and
    /// the class is spam from the `required_score` on that the files set.
    pub fn of_rules(ruleset: Arc<gauntlet_spamassassin::Ruleset>) -> Self {
        let required = ruleset.required_score();
        let version = format!("{}+{}", env!("CARGO_PKG_VERSION"), ruleset.version());
        let filter = filters::spamassassin::SpamAssassin::new(ruleset.clone());
        let mut snapshot = Self::empty().with_filters(vec![Box::new(filter)]);
        snapshot.ruleset = Some(ruleset);
        snapshot.version = version.into();
        snapshot.version_of_rules = snapshot.version.clone();
        snapshot.thresholds.suspect = required;
        snapshot.thresholds.spam = required;
        snapshot.thresholds.explicit = snapshot.thresholds.explicit.max(required);
        snapshot.fusion = None;
        snapshot
    }

    /// The rules, ending a scan as soon as those that are left cannot change the class or make it
    /// explicit; for snapshots that judge by these rules alone. Rules that lean to a class by a
    /// flag (`phishing`, `bulk`) are all tried: with any of them nothing ends early.
    pub fn stopping_early(
        ruleset: gauntlet_spamassassin::Ruleset,
        thresholds: &Thresholds,
    ) -> gauntlet_spamassassin::Ruleset {
        let leans =
            |rule: &gauntlet_rules::Rule| rule.has_flag("phishing") || rule.has_flag("bulk");
        if ruleset.rules().iter().any(leans) {
            return ruleset;
        }
        ruleset.stop_early_at(&thresholds.points())
    }

    /// Makes a snapshot of these settings.
    pub fn build(settings: &Settings) -> Result<Self, Error> {
        let mut registry = RuleRegistry::new(settings.scores.clone());
        let (allow, block) = (List::parse(&settings.allow)?, List::parse(&settings.block)?);
        let model = settings.model.clone().unwrap_or_else(Model::shipped);
        let url_lists = settings.url_lists.clone();
        let mut filters = filters::all(&mut registry, (allow, block), url_lists, model);
        let own_rules = settings.own_rules.clone().or_else(own_rules::shipped);
        if let Some(rules) = &own_rules {
            filters.push(Box::new(filters::rules::Rules::new(rules.clone())));
        }
        let brands = Arc::new(Brands::shipped());
        filters.push(Box::new(filters::own_links::OwnLinks::new(&mut registry, brands)));
        if let Some(ruleset) = &settings.rules {
            filters.push(Box::new(filters::spamassassin::SpamAssassin::new(ruleset.clone())));
        }
        if let Some(unknown) = registry.unknown().first() {
            return Err(Error::UnknownRule((*unknown).to_owned()));
        }
        for off in &settings.filters_off {
            if !filters.iter().any(|f| f.name() == off) {
                let known: Vec<_> = filters.iter().map(|f| f.name()).collect();
                let known = known.join(", ");
                return Err(Error::UnknownFilter { name: off.clone(), known });
            }
        }
        let is_off = |name: &str| settings.filters_off.iter().any(|off| off == name);
        // The classifier reads the same words, and better: with it, lists of words call good mail
        // spam and catch nothing more.
        let has_url_lists = settings.url_lists.lists.iter().next().is_some();
        let is_needed = |name: &str| match name {
            "words" => is_off("classifier"),
            "url_lists" => has_url_lists,
            _ => true,
        };
        filters.retain(|f| !is_off(f.name()) && is_needed(f.name()));
        let version = version(&registry, settings, &filters);
        let mut snapshot = Self::empty().with_filters(filters);
        snapshot.version_of_rules = version;
        snapshot.own_rules = own_rules;
        snapshot.url_lists = settings.url_lists.lists.clone();
        snapshot.ruleset.clone_from(&settings.rules);
        snapshot.thresholds = settings.thresholds;
        snapshot.configured = settings.thresholds;
        snapshot.on_failure = settings.on_failure;
        snapshot.registry = registry;
        Ok(snapshot.with_all_learned(settings.learned.clone()))
    }
}

/// A hash over rules, points, thresholds, and the data of every filter.
fn version(registry: &RuleRegistry, settings: &Settings, filters: &[Box<dyn Filter>]) -> Arc<str> {
    let mut hash = blake3::Hasher::new();
    hash.update(env!("CARGO_PKG_VERSION").as_bytes());
    // Rule files, model and lists of URLs are named by their filters, what was learned is added at
    // the end.
    let Settings {
        thresholds,
        scores,
        on_failure,
        allow,
        block,
        url_lists: _,
        own_rules: _,
        rules: _,
        filters_off,
        model: _,
        learned: _,
    } = settings;
    let chosen = format!("{thresholds:?}{scores:?}{on_failure:?}{allow:?}{block:?}{filters_off:?}");
    hash.update(chosen.as_bytes());
    hash.update(format!("{:?}{:?}", registry.rules(), Weights::default()).as_bytes());
    for filter in filters {
        hash.update(filter.name().as_bytes());
        hash.update(filter.data_version().as_bytes());
    }
    let digest = hash.finalize();
    let hex = digest.to_hex();
    format!("{}+{}", env!("CARGO_PKG_VERSION"), &hex[..2 * VERSION_BYTES]).into()
}
