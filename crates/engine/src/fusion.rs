//! From what the filters found to class and probability.
//!
//! With a classifier, rules, classifier and signatures are added up as log odds with weights fitted
//! on mail of sources that the classifier had not seen (`gauntlet evaluate --leave-sources-out`,
//! `examples/fit_fusion.rs`), which gives the probability. The class is the more severe of what the
//! points say and what the probability says. Where the probability says clearly that the message is
//! good, a sum of small suspicions makes nothing of it; a rule that has the points of a class by
//! itself is obeyed all the same, so that an administrator may rely on it and a rule about an
//! attached program is not talked away by a friendly text; so are phishing rules together, if the
//! sender pretends to be somebody else. Without a classifier (or with
//! SpamAssassin's rules in their `local` profile) there is no probability, and the points alone
//! decide.

use std::sync::Arc;

use gauntlet_mail::Hit;
use gauntlet_verdict::{Class, Thresholds};

use crate::filter::Findings;
use crate::filters::sender;

/// Points of rules about an imitated sender from which on phishing rules count together.
const IMITATION_MIN: f64 = 2.0;

/// The inputs of fusion, gathered from the findings.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Signals {
    /// Points of all rules that fired.
    pub rule_points: f64,
    /// Points of the rule that gave most; of all phishing rules, if some say that the sender is not
    /// who it seems: a forged name is itself what makes such a message look good.
    pub strongest: f64,
    /// Points of the phishing rules.
    pub phishing_points: f64,
    /// Some rule marks the message as bulk mail.
    pub bulk: bool,
    /// A class that holds whatever the points.
    pub forced_class: Option<Class>,
    /// Log odds of the classifier.
    pub classifier: Option<f64>,
    /// Log odds of near-duplicate signatures.
    pub signatures: Option<f64>,
    /// Log odds of what the site has learned.
    pub site: Option<f64>,
}

impl Signals {
    /// What is weighed, from the hits whose rule `counts`.
    pub(crate) fn of(findings: &Findings, counts: &dyn Fn(&Arc<str>) -> bool) -> Self {
        let hits = || findings.hits.iter().filter(|h| counts(&h.rule));
        let speaks = |list: &[Arc<str>], rule: &Arc<str>| list.iter().any(|r| Arc::ptr_eq(r, rule));
        let of =
            |list: &[Arc<str>]| hits().filter(|h| speaks(list, &h.rule)).map(|h| h.score).sum();
        let phishing_points = rounded(of(&findings.phishing));
        let imitates = |hit: &&Hit| sender::IMITATIONS.contains(&&*hit.rule);
        let imitation: f64 = hits().filter(imitates).map(|h| h.score).sum();
        let strongest = hits().map(|h| h.score).fold(0.0, f64::max);
        let forced_classes = findings.forced_classes.iter().filter(|c| counts(&c.1)).map(|c| c.0);
        Signals {
            rule_points: rounded(hits().map(|h| h.score).sum()),
            strongest: match imitation >= IMITATION_MIN {
                true => strongest.max(phishing_points),
                false => strongest,
            },
            phishing_points,
            bulk: findings.bulk.iter().any(counts),
            forced_class: forced_class(forced_classes),
            classifier: findings.classifier,
            signatures: findings.signatures,
            site: findings.site,
        }
    }
}

/// To a thousandth, so that sums do not show binary fractions; the sum of nothing is 0, not -0.
pub(crate) fn rounded(score: f64) -> f64 {
    (score * 1000.0).round() / 1000.0 + 0.0
}

/// Weights of the log odds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// Log odds of an item about which nothing is known.
    pub intercept: f64,
    /// For each rule point, but for those of the phishing rules; points beyond ±`points_max` count
    /// no further, so that one long list of hits cannot outweigh everything.
    pub rule_points: f64,
    /// For each point of the phishing rules: a warning of a bank and its forgery use the same
    /// words, so these rules often fire together on good mail.
    pub phishing_points: f64,
    /// Bound of the points of either kind.
    pub points_max: f64,
    /// For each unit of the classifier's log odds.
    pub classifier: f64,
    /// For each unit of the signatures' log odds.
    pub signatures: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Weights {
            intercept: -0.9,
            rule_points: 0.7,
            phishing_points: 0.3,
            points_max: 20.0,
            classifier: 1.11,
            // Not fitted: no corpus contains a site's own corrections.
            signatures: 1.0,
        }
    }
}

/// What points, classifier and signatures say together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Assessment {
    /// The class that follows from them.
    pub class: Class,
    /// Spam, and above the high threshold.
    pub explicit: bool,
    /// Probability that the item is unwanted; none without a classifier.
    pub probability: Option<f64>,
}

/// Weighs the signals. Without weights there is no probability, and the points alone decide.
pub fn classify(
    signals: &Signals,
    weights: Option<&Weights>,
    thresholds: &Thresholds,
) -> Assessment {
    let probability = weights.and_then(|w| probability(signals, w));
    let contradicted = probability.is_some_and(|p| p < thresholds.contradicted);
    let points = match contradicted {
        true => signals.rule_points.min(signals.strongest),
        false => signals.rule_points,
    };
    let by_points = by_threshold(points, &thresholds.points());
    let by_probability = probability.map(|p| by_threshold(p, &thresholds.probability()));
    let (class, explicit) = by_points.max(by_probability.unwrap_or_default());
    let phishing = class >= Class::Suspect && signals.phishing_points >= thresholds.phishing;
    let class = match class {
        _ if phishing => Class::Phishing,
        Class::Ham if signals.bulk => Class::Bulk,
        class => class,
    };
    match signals.forced_class {
        Some(forced) => Assessment { class: forced, explicit: forced >= Class::Spam, probability },
        None => Assessment { class, explicit, probability },
    }
}

/// The log odds of everything together; none without a classifier.
pub fn log_odds(signals: &Signals, weights: &Weights) -> Option<f64> {
    let classifier = signals.classifier?;
    let bounded = |points: f64| points.clamp(-weights.points_max, weights.points_max);
    Some(
        weights.intercept
            + weights.rule_points * bounded(signals.rule_points - signals.phishing_points)
            + weights.phishing_points * bounded(signals.phishing_points)
            + weights.classifier * classifier
            + weights.signatures * signals.signatures.unwrap_or(0.0)
            // The site's model is trained on top of the others: it has their unit.
            + signals.site.unwrap_or(0.0),
    )
}

fn probability(signals: &Signals, weights: &Weights) -> Option<f64> {
    let odds = log_odds(signals, weights)?;
    // A millionth is finer than any calibration, and keeps the output short.
    Some((1e6 / (1.0 + (-odds).exp())).round() / 1e6)
}

/// The class of a value that grows with the suspicion; whether it is explicit.
fn by_threshold(value: f64, [suspect, spam, explicit]: &[f64; 3]) -> (Class, bool) {
    match value {
        v if v >= *spam => (Class::Spam, v >= *explicit),
        v if v >= *suspect => (Class::Suspect, false),
        _ => (Class::Ham, false),
    }
}

/// The class that holds whatever the points: the most severe, except that an allow list (ham) beats
/// everything below phishing.
pub fn forced_class(classes: impl IntoIterator<Item = Class>) -> Option<Class> {
    let (mut most, mut allowed) = (None, false);
    for class in classes {
        most = most.max(Some(class));
        allowed |= class == Class::Ham;
    }
    let most = most?;
    Some(if allowed && most < Class::Phishing { Class::Ham } else { most })
}

#[cfg(test)]
mod tests {
    use gauntlet_mail::{Evidence, View};

    use super::*;

    fn assess(signals: &Signals) -> Assessment {
        classify(signals, Some(&Weights::default()), &Thresholds::default())
    }

    fn class(signals: Signals) -> Class {
        assess(&signals).class
    }

    #[test]
    fn points_alone() {
        let points = |rule_points| Signals { rule_points, ..Signals::default() };
        assert_eq!(class(points(0.0)), Class::Ham);
        assert_eq!(class(points(4.5)), Class::Suspect);
        assert_eq!(class(points(6.0)), Class::Spam);
        assert_eq!(class(Signals { bulk: true, ..points(0.0) }), Class::Bulk);
        assert_eq!(class(Signals { phishing_points: 5.0, ..points(7.0) }), Class::Phishing);
        assert_eq!(class(Signals { phishing_points: 5.0, ..points(2.0) }), Class::Ham);
        assert!(assess(&points(99.0)).explicit);
    }

    #[test]
    fn the_classifier_gives_a_probability_that_grows_with_every_signal() {
        let p = |points, logit| {
            let signals =
                Signals { rule_points: points, classifier: Some(logit), ..Signals::default() };
            assess(&signals).probability.unwrap()
        };
        assert!(p(0.0, -6.0) < 0.01);
        assert!(p(8.0, 8.0) > 0.99);
        assert!(p(1.0, 0.0) > p(0.0, 0.0) && p(0.0, 1.0) > p(0.0, 0.0));
    }

    #[test]
    fn who_imitates_a_firm_is_not_excused_by_links_to_itself() {
        let of = |rules: &[(&str, f64)]| {
            let mut findings = Findings { classifier: Some(-9.0), ..Findings::default() };
            for (name, score) in rules {
                let name: Arc<str> = (*name).into();
                findings.hit(&name, *score, &"".into(), Evidence::new(View::Raw, 0, 0, b"x"));
                findings.phishing.push(name);
            }
            class(Signals::of(&findings, &|_| true))
        };
        assert_eq!(of(&[("FROM_NAME_BRAND", 2.5), ("LURE_IT_CONTO", 1.6)]), Class::Phishing);
        assert_eq!(of(&[("PHISH_WORDS", 2.5), ("LURE_IT_CONTO", 1.6)]), Class::Ham);
        assert_eq!(of(&[("FROM_NAME_BRAND", 2.5), ("LURE_IT_CONTO", 1.0)]), Class::Ham);
    }

    #[test]
    fn small_suspicions_do_not_outvote_a_message_that_looks_good() {
        let of = |rule_points, strongest, logit| {
            class(Signals {
                rule_points,
                strongest,
                phishing_points: 3.0,
                classifier: Some(logit),
                ..Signals::default()
            })
        };
        assert_eq!(of(9.0, 2.0, -9.0), Class::Ham);
        assert_eq!(of(9.0, 2.0, 0.0), Class::Phishing, "nothing speaks against the points");
        assert_eq!(of(9.0, 7.0, -9.0), Class::Phishing, "one rule has points enough alone");
        assert_eq!(of(1.0, 7.0, -9.0), Class::Ham, "other rules take its points back");
    }

    #[test]
    fn an_allow_list_beats_spam_but_not_malware() {
        let of = |classes: &[Class]| forced_class(classes.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[Class::Ham, Class::Spam]), Some(Class::Ham));
        assert_eq!(of(&[Class::Ham, Class::Malware]), Some(Class::Malware));
        assert_eq!(of(&[Class::Spam, Class::Phishing]), Some(Class::Phishing));
    }
}
