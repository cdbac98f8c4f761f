//! What would have changed the class: the smallest sets of signals whose absence does.

use std::sync::Arc;

use crate::filter::Findings;
use crate::fusion::{self, Signals};
use crate::snapshot::Snapshot;
use gauntlet_mail::DefectKind;
use gauntlet_verdict::{Class, Counterfactual};

/// Answers given at most.
const ANSWERS_MAX: usize = 5;
/// Rules in one answer at most: more would not be read.
const RULES_MAX: usize = 8;
/// Rules that are tried alone at most; those with most points first.
const TRIED_MAX: usize = 64;
/// How the classifier is called where it stands beside rules.
pub(crate) const CLASSIFIER: &str = "the classifier";
/// How near-duplicate signatures are called.
pub(crate) const SIGNATURES: &str = "the signatures";
/// How the site's corrections are called.
pub(crate) const SITE: &str = "what this site taught";

/// Each signal that alone changes the class; if none does, those with most weight together, fewest
/// first. Bounded, so it may miss a set that is not made of the heaviest.
pub(crate) fn find(findings: &Findings, snapshot: &Snapshot, class: Class) -> Vec<Counterfactual> {
    let candidates = candidates(findings, class);
    let mut found = Vec::new();
    for candidate in candidates.iter().take(TRIED_MAX) {
        if let Some(answer) = without(findings, snapshot, class, std::slice::from_ref(candidate)) {
            found.push(answer);
            if found.len() >= ANSWERS_MAX {
                break;
            }
        }
    }
    if found.is_empty() {
        let sets = (2..=candidates.len().min(RULES_MAX)).map(|n| &candidates[..n]);
        found.extend(sets.into_iter().find_map(|set| without(findings, snapshot, class, set)));
    }
    found
}

/// What an unscannable item would be without the defects that make it so, by their names. All of
/// them, since any one that stays keeps the class.
pub(crate) fn without_defects(causes: &[DefectKind], judged: Class) -> Vec<Counterfactual> {
    if causes.is_empty() {
        return Vec::new();
    }
    let without = causes.iter().map(|kind| kind.name().into()).collect();
    vec![Counterfactual { without, points: 0.0, class: judged }]
}

/// Names that may matter, heaviest first: those that support the class, whichever side it is on.
fn candidates(findings: &Findings, class: Class) -> Vec<Arc<str>> {
    let harmless = class <= Class::Bulk;
    let sign = if harmless { -1.0 } else { 1.0 };
    let mut weighed: Vec<(f64, Arc<str>)> = Vec::new();
    for hit in &findings.hits {
        let decides = findings.forced_classes.iter().any(|c| c.1 == hit.rule)
            || (class == Class::Bulk && findings.bulk.contains(&hit.rule));
        let weight = if decides { f64::INFINITY } else { hit.score * sign };
        if weight > 0.0 {
            weighed.push((weight, hit.rule.clone()));
        }
    }
    for (odds, name) in [
        (findings.classifier, CLASSIFIER),
        (findings.signatures, SIGNATURES),
        (findings.site, SITE),
    ] {
        if let Some(odds) = odds.filter(|o| o * sign > 0.0) {
            weighed.push((odds * sign, name.into()));
        }
    }
    weighed.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    weighed.into_iter().map(|w| w.1).collect()
}

/// The class without these, if it is another one.
fn without(
    findings: &Findings,
    snapshot: &Snapshot,
    class: Class,
    names: &[Arc<str>],
) -> Option<Counterfactual> {
    let stays = |name: &Arc<str>| !names.contains(name);
    let named = |name: &str| names.iter().any(|n| &**n == name);
    let mut signals = Signals::of(findings, &stays);
    if named(CLASSIFIER) {
        // Neutral, not absent: without any classifier the points alone would decide.
        signals.classifier = signals.classifier.map(|_| 0.0);
    }
    if named(SIGNATURES) {
        signals.signatures = None;
    }
    if named(SITE) {
        signals.site = None;
    }
    let other = fusion::classify(&signals, snapshot.fusion.as_ref(), &snapshot.thresholds).class;
    let points: f64 =
        findings.hits.iter().filter(|h| names.contains(&h.rule)).map(|h| h.score).sum();
    let without = names.to_vec();
    (other != class).then(|| Counterfactual {
        without,
        points: fusion::rounded(points),
        class: other,
    })
}
