//! Where classes begin, by points and by probability.

use crate::verdict::{Class, Verdict};

/// Where a class begins, in points and as probability; the more severe of the two counts.
///
/// Probabilities are stated as expected error rates ([`Thresholds::ERRORS`]): the share of good
/// mail that reaches them, measured on mail of today from sources that the model had not seen (411
/// good messages, so what lies below three in a thousand is an extrapolation). Mail like that which
/// the model learned from reaches them about ten times as seldom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// From here an item is suspect (points).
    pub suspect: f64,
    /// From here it is spam (points).
    pub spam: f64,
    /// From here it is explicit spam: certain enough to be kept from users altogether (points).
    pub explicit: f64,
    /// An item that is suspect at least, and whose phishing rules have this many points together,
    /// is phishing.
    pub phishing: f64,
    /// From here an item is suspect (probability).
    pub suspect_probability: f64,
    /// From here it is spam (probability).
    pub spam_probability: f64,
    /// From here it is explicit spam (probability).
    pub explicit_probability: f64,
    /// Below this probability points that only several rules reach together say nothing: the whole
    /// message looks good. 0: points always count.
    pub contradicted: f64,
    /// Shares of good mail that the three probabilities promise: what a site's own calibration
    /// keeps.
    pub errors: [f64; 3],
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            suspect: 4.0,
            spam: 6.0,
            explicit: 12.0,
            phishing: 3.0,
            suspect_probability: probability_reached_by(Self::ERRORS[0]),
            spam_probability: probability_reached_by(Self::ERRORS[1]),
            explicit_probability: probability_reached_by(Self::ERRORS[2]),
            contradicted: 0.7,
            errors: Self::ERRORS,
        }
    }
}

impl Thresholds {
    /// Shares of good mail expected to be called suspect, spam and explicit spam, or worse, by
    /// their probability.
    pub const ERRORS: [f64; 3] = [0.02, 0.01, 0.0002];

    /// Whether the verdict is explicit spam: spam above the high threshold, by probability where
    /// there is one, else by points.
    pub fn is_explicit(&self, verdict: &Verdict) -> bool {
        let high = match verdict.probability {
            Some(probability) => probability >= self.explicit_probability,
            None => verdict.score >= self.explicit,
        };
        verdict.class == Class::Spam && (high || verdict.score >= self.explicit)
    }

    /// Points from which an item is suspect, spam and explicit spam.
    pub fn points(&self) -> [f64; 3] {
        [self.suspect, self.spam, self.explicit]
    }

    /// Probabilities from which an item is suspect, spam and explicit spam.
    pub fn probability(&self) -> [f64; 3] {
        [self.suspect_probability, self.spam_probability, self.explicit_probability]
    }
}

/// Shares of good mail and the log odds that they reach: 494 good messages of 2014 to 2026 from 41
/// sources, each judged by a model that has seen nothing of its source, with the default weights.
/// The last was found at 5.0, by one message alone, and is set higher for that.
const GOOD_MAIL_REACHES: [(f64, f64); 4] = [(0.1, 0.4), (0.03, 2.68), (0.01, 3.4), (0.0025, 6.0)];

/// The probability that this share (0 to 1) of good mail reaches: what a threshold must be for an
/// expected rate of false positives. Between the measured shares, and beyond the rarest, the log
/// odds are taken to grow evenly with the logarithm of the share; so a rate below three in a
/// thousand is an extrapolation.
pub fn probability_reached_by(share: f64) -> f64 {
    let share = share.clamp(1e-9, 1.0).ln();
    let [first, second, third, last] = GOOD_MAIL_REACHES.map(|(share, odds)| (share.ln(), odds));
    let (from, to) = match share {
        _ if share > second.0 => (first, second),
        _ if share > third.0 => (second, third),
        _ => (third, last),
    };
    let odds = from.1 + (share - from.0) * (to.1 - from.1) / (to.0 - from.0);
    (1e6 / (1.0 + (-odds).exp())).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rarer_errors_need_a_higher_probability() {
        let shares = [0.5, 0.1, 0.05, 0.01, 0.003, 0.001, 1e-4, 1e-6, 0.0];
        let found = shares.map(probability_reached_by);
        assert!(found.windows(2).all(|p| p[0] <= p[1]), "{found:?}");
        for (share, odds) in GOOD_MAIL_REACHES {
            let expected = 1.0 / (1.0 + (-odds).exp());
            assert!((probability_reached_by(share) - expected).abs() < 1e-6, "{share}");
        }
    }
}
