//! Points for clients that compare them with the threshold beside them.
//!
//! A verdict's class comes from rule points and the classifier together. Exim and amavis read the
//! points alone, so that mail which the classifier knows for spam would pass them. The points
//! reported are the rules' own unless they contradict the class; then they are the nearest that do
//! not.

use gauntlet_verdict::{Class, Thresholds, Verdict};

/// What lies between "no" and the threshold: protocols write one digit after the point.
const STEP: f64 = 0.1;

/// Points that say what the class says.
pub(super) fn consistent(verdict: &Verdict, thresholds: &Thresholds) -> f64 {
    if verdict.class < Class::Spam {
        return verdict.score.min(thresholds.spam - STEP);
    }
    let least = if verdict.explicit { thresholds.explicit } else { thresholds.spam };
    verdict.score.max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_say_what_the_class_says() {
        let thresholds = Thresholds { spam: 6.0, explicit: 15.0, ..Thresholds::default() };
        for (class, explicit, score, expected) in [
            (Class::Ham, false, -3.0, -3.0),
            (Class::Suspect, false, 4.5, 4.5),
            (Class::Suspect, false, 8.0, 5.9),
            (Class::Spam, false, 0.5, 6.0),
            (Class::Spam, false, 7.25, 7.25),
            (Class::Spam, true, 7.25, 15.0),
            (Class::Malware, true, 22.0, 22.0),
        ] {
            let verdict = Verdict { class, explicit, score, ..Verdict::default() };
            assert_eq!(consistent(&verdict, &thresholds), expected, "{class} {score}");
        }
    }
}
