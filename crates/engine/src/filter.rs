//! The filter interface. One file in `filters/` each: struct, docs, rules it can hit, limits,
//! tests.

use std::sync::Arc;

use gauntlet_mail::evidence::EVIDENCE_PER_HIT_MAX;
use gauntlet_mail::{Defect, Envelope, Evidence, Facts, Hit, Message};

use crate::learned::Learned;
use crate::rule_registry::{Rule, RuleEffect};
use crate::scratch::Scratch;
use gauntlet_verdict::{Class, ListedUrl};

/// The message that is scanned, with everything that filters may look at.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    /// The message, parsed once; its views are computed when first asked for.
    pub message: &'a Message<'a>,
    /// What is known of the connection.
    pub envelope: &'a Envelope,
    /// What is known from the network.
    pub facts: &'a Facts,
    /// What the site has learned, on top of the rules and the model that ship.
    pub learned: &'a Learned,
}

/// What filters found so far.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// Rules that fired, with their evidence, in the order of the filters.
    pub hits: Vec<Hit>,
    /// Defects that filters found.
    pub defects: Vec<Defect>,
    /// A class that a filter is sure of whatever the score (e.g. malware by EICAR, ham by an allow
    /// list), with the rule that says so. The most severe wins, except that an allow list beats
    /// everything below [`Class::Phishing`].
    pub forced_classes: Vec<(Class, Arc<str>)>,
    /// Phishing rules that fired.
    pub phishing: Vec<Arc<str>>,
    /// Rules that fired and mark the message as bulk mail.
    pub bulk: Vec<Arc<str>>,
    /// How often every rule of a rule file fired, sub-rules included, if the ruleset was asked to
    /// say so.
    pub sub: Vec<(Arc<str>, f64)>,
    /// URLs that are on lists of URLs.
    pub url_lists: Vec<ListedUrl>,
    /// What the classifier says: log odds that the item is unwanted.
    pub classifier: Option<f64>,
    /// What near-duplicate signatures say: log odds that the item is unwanted.
    pub signatures: Option<f64>,
    /// What the site has learned says: log odds that the item is unwanted.
    pub site: Option<f64>,
    /// The part of `site` that is owed to somebody here knowing the author.
    pub known_author: Option<f64>,
}

impl Findings {
    /// Adds a hit with one piece of evidence.
    pub fn hit(&mut self, rule: &Arc<str>, score: f64, description: &Arc<str>, at: Evidence) {
        self.hits.push(Hit {
            rule: rule.clone(),
            score,
            count: 1,
            description: description.clone(),
            evidence: vec![at],
        });
    }

    /// Adds a hit of a filter's rule; a rule that hit before gets the evidence, not the points,
    /// again.
    pub fn add(&mut self, rule: &Rule, at: Evidence) {
        if !rule.enabled {
            return;
        }
        if let Some(hit) = self.hits.iter_mut().find(|h| Arc::ptr_eq(&h.rule, &rule.name)) {
            hit.count = hit.count.saturating_add(1);
            if hit.evidence.len() < EVIDENCE_PER_HIT_MAX && !hit.evidence.contains(&at) {
                hit.evidence.push(at);
            }
            return;
        }
        self.hit(&rule.name, rule.score, &rule.description, at);
        match rule.effect {
            RuleEffect::Points => {}
            RuleEffect::Phishing => self.phishing.push(rule.name.clone()),
            RuleEffect::Bulk => self.bulk.push(rule.name.clone()),
            RuleEffect::ForceClass(class) => self.forced_classes.push((class, rule.name.clone())),
        }
    }
}

/// One kind of analysis. Code; the rules it reads are data in the snapshot.
pub trait Filter: Send + Sync + std::fmt::Debug {
    /// Stable name, for costs and settings.
    fn name(&self) -> &'static str;
    /// Looks at the item and adds what it found. Deterministic; never waits.
    fn run(&self, item: &Item<'_>, scratch: &mut Scratch, findings: &mut Findings);
    /// Whether it reads text and links, and so those of the message's files too.
    fn reads_objects(&self) -> bool {
        false
    }
    /// Whether it judges files by themselves, too ([`crate::file_scan`]).
    fn judges_files(&self) -> bool {
        false
    }
    /// Names the data that it judges by (words, lists, a model), so that the ruleset's version
    /// changes with it. Its rules are in the registry and need not be named.
    fn data_version(&self) -> String {
        String::new()
    }
}
