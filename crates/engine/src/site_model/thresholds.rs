//! Where classes begin on a site's own mail, and what the console shows of it.

use gauntlet_verdict::{ThresholdCheck, Thresholds, probability_reached_by};

use super::calibration::{Tail, threshold};
use crate::classifier::metrics::upper_bound_percent;

/// Normal quantile of a two-sided interval of 95 %.
const SIDES_95: f64 = 1.96;
/// The classes that begin at a threshold, as [`Thresholds::probability`] has them.
const CLASSES: [&str; 3] = ["suspect", "spam", "explicit spam"];

/// The tail of good mail of unknown sites, as what ships was measured on.
pub(super) fn shipped_tail() -> Tail {
    let [from, further] = [0.1, 0.01].map(|share| odds(probability_reached_by(share)));
    Tail { from, scale: (further - from) / 10_f64.ln(), good: 0.0 }
}

/// The thresholds with the probabilities that keep the configured errors on the site's mail.
pub(super) fn of_site(configured: &Thresholds, tail: &Tail) -> Thresholds {
    let [suspect, spam, explicit] = std::array::from_fn(|i| in_force(configured, tail, i));
    let spam = spam.max(suspect);
    Thresholds {
        suspect_probability: suspect,
        spam_probability: spam,
        explicit_probability: explicit.max(spam),
        // Where the site's own mail says what good mail looks like, points that only several rules
        // have together count only for what that leaves in doubt.
        contradicted: configured.contradicted.max(tail.carried() * suspect),
        ..*configured
    }
}

fn in_force(configured: &Thresholds, tail: &Tail, which: usize) -> f64 {
    let (shipped, share) = (configured.probability()[which], configured.errors[which]);
    probability(threshold(odds(shipped), tail, share))
}

/// What is promised and what was found for each class. `good` are held-out log odds and shares.
pub(super) fn checks(
    configured: &Thresholds,
    tail: &Tail,
    good: &[(f64, f64)],
) -> Vec<ThresholdCheck> {
    let in_use = of_site(configured, tail).probability();
    let all: f64 = good.iter().map(|g| g.1).sum();
    let check = |i: usize| {
        let at = odds(in_use[i]);
        // From 0, since the sum of no floats at all is -0.
        let over = good.iter().filter(|g| g.0 >= at).fold(0.0, |sum, g| sum + g.1);
        let (middle, error) =
            (tail.reached_by(configured.errors[i]), tail.error(configured.errors[i]));
        ThresholdCheck {
            class: CLASSES[i].to_owned(),
            promised: configured.errors[i],
            configured: configured.probability()[i],
            probability: in_use[i],
            interval: [-SIDES_95, SIDES_95].map(|side| probability(middle + side * error)),
            over,
            found: if all > 0.0 { over / all } else { 0.0 },
            found_max: upper_bound_percent(over.round() as u64, all.round() as u64) / 100.0,
        }
    };
    (0..CLASSES.len()).map(check).collect()
}

fn odds(probability: f64) -> f64 {
    let p = probability.clamp(1e-9, 1.0 - 1e-9);
    (p / (1.0 - p)).ln()
}

fn probability(odds: f64) -> f64 {
    (1e6 / (1.0 + (-odds).exp())).round() / 1e6
}
