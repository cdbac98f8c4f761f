//! Whether a new version may judge: it runs in the shadow of the one in force, on mail that is held
//! and on a share of what comes, and only its verdicts are compared.
//!
//! ```text
//! compared ─▶ limits ─▶ Wait        not enough mail yet
//!                       Promote     nothing speaks against it
//!                       Hold        a person decides
//!                       Reject      it harms good mail, fails, or costs too much
//! ```
//!
//! Pure: what was compared comes in, a decision goes out.

use std::collections::BTreeMap;

use gauntlet_verdict::Class;
use serde::{Deserialize, Serialize};

/// Changed messages that are kept to be shown.
pub const CHANGES_KEPT_MAX: usize = 200;
/// Phrases that are kept to be shown.
const PHRASES_KEPT_MAX: usize = 50;

/// When a version is promoted, held or rejected.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Messages that have to be compared before the time is up counts; fewer: a person decides.
    pub messages_min: u64,
    /// Share of mail that was good and would be suspect or worse, in hundredths; above: rejected.
    pub worse_percent_max: f64,
    /// So many of them are never too many: of a few messages any is a large share.
    pub worse_min: u64,
    /// The same of mail with a sign that it is good (known author, list of long standing, reply).
    pub good_sign_worse_max: u64,
    /// Share of mail that was spam or worse and would be good, in hundredths; above: held.
    pub milder_percent_max: f64,
    /// Time for a message, in hundredths of that of the version in force; above: held.
    pub cost_percent_max: f64,
    /// Messages on which a filter failed that did not fail before; above: rejected.
    pub failures_max: u64,
    /// Pages that have to be compared, where phrases are others; fewer: a person decides.
    pub pages_min: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            messages_min: 20,
            worse_percent_max: 0.5,
            worse_min: 3,
            good_sign_worse_max: 1,
            milder_percent_max: 10.0,
            cost_percent_max: 200.0,
            failures_max: 0,
            pages_min: 0,
        }
    }
}

/// One message, judged by both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// By the version in force.
    pub was: Class,
    /// By the new one.
    pub is: Class,
    /// It came in a way that good mail comes: a known author who is who they say, or a reply.
    pub good_sign: bool,
    /// A filter failed by the new one, and none by the old.
    pub failed: bool,
    /// Time of both, in microseconds.
    pub micros: [f64; 2],
}

/// A message whose class changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Id in the message log.
    pub id: String,
    /// The From field.
    pub from: String,
    /// The Subject field.
    pub subject: String,
    /// Class by the version in force.
    pub was: Class,
    /// Class by the new one.
    pub is: Class,
    /// It has a sign of good mail.
    pub good_sign: bool,
    /// Rules that only the new one hit.
    pub rules: Vec<String>,
}

/// Pages that were scored by the phrases of both.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pages {
    /// Pages scored by both.
    pub compared: u64,
    /// Of these, blocked by the phrases in force.
    pub blocked: u64,
    /// That passed, and would be blocked.
    pub blocked_anew: u64,
    /// That were blocked, and would pass.
    pub passes_anew: u64,
    /// Time of all by both, in microseconds.
    pub micros: [f64; 2],
    /// In how many of the pages that would be blocked a phrase was. Which pages these are is
    /// nobody's business.
    pub phrases: BTreeMap<String, u64>,
}

impl Pages {
    /// Adds a page: whether it is blocked by both, the phrases of the new one, and times in
    /// microseconds.
    pub fn add(&mut self, [was, is]: [bool; 2], phrases: &[String], micros: [f64; 2]) {
        self.compared += 1;
        self.blocked += u64::from(was);
        self.blocked_anew += u64::from(is && !was);
        self.passes_anew += u64::from(was && !is);
        self.micros[0] += micros[0];
        self.micros[1] += micros[1];
        for phrase in phrases.iter().filter(|_| is && !was) {
            if self.phrases.contains_key(phrase) || self.phrases.len() < PHRASES_KEPT_MAX {
                *self.phrases.entry(phrase.clone()).or_default() += 1;
            }
        }
    }

    fn harm(&self, limits: &Limits) -> Option<String> {
        let passed = self.compared - self.blocked;
        let share = percent(self.blocked_anew, passed);
        (self.blocked_anew > limits.worse_min && share > limits.worse_percent_max).then(|| {
            let often = self.phrases.iter().max_by_key(|(_, count)| **count);
            let phrase = often.map_or(String::new(), |(text, _)| format!(", mostly for {text:?}"));
            format!(
                "{} of {passed} pages that pass would be blocked{phrase} ({share:.1} %, at most {})",
                self.blocked_anew, limits.worse_percent_max
            )
        })
    }

    fn doubt(&self, limits: &Limits) -> Option<String> {
        let (compared, pages_min) = (self.compared, limits.pages_min);
        let milder = percent(self.passes_anew, self.blocked);
        let cost = 100.0 * self.micros[1] / self.micros[0].max(1.0);
        if compared < pages_min {
            return Some(format!("only {compared} pages were compared, of {pages_min}"));
        }
        if milder > limits.milder_percent_max {
            return Some(format!(
                "{} of {} blocked pages would pass ({milder:.1} %, at most {})",
                self.passes_anew, self.blocked, limits.milder_percent_max
            ));
        }
        // Where there were no phrases before, any takes longer.
        (self.micros[0] > 0.0 && cost > limits.cost_percent_max).then(|| {
            let most = limits.cost_percent_max;
            format!("a page takes {cost:.0} % of the time before (at most {most})")
        })
    }
}

/// What was compared so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Comparison {
    /// Messages judged by both.
    pub messages: u64,
    /// Of these, good ones by the version in force, and those that it called spam or worse.
    pub good: u64,
    /// Spam or worse by the version in force.
    pub bad: u64,
    /// Number of messages by `old -> new` class, where these differ.
    pub transitions: BTreeMap<String, u64>,
    /// Good mail that would be suspect or worse.
    pub worse: u64,
    /// Of these, with a sign that they are good.
    pub good_sign_worse: u64,
    /// Spam that would be good.
    pub milder: u64,
    /// On which a filter failed anew.
    pub failures: u64,
    /// Time of all messages by both, in microseconds.
    pub micros: [f64; 2],
    /// Messages whose class changed, the harmful ones first.
    pub changes: Vec<Changed>,
    /// Pages, where phrases are others.
    #[serde(default)]
    pub pages: Pages,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// More mail is needed.
    Wait,
    /// It may judge.
    Promote,
    /// A person decides, because of this.
    Hold(String),
    /// It never judges, because of this.
    Reject(String),
}

/// Mail that people see.
fn is_good(class: Class) -> bool {
    class < Class::Suspect
}

/// Mail that people do not see, or are warned of.
fn is_bad(class: Class) -> bool {
    class >= Class::Spam && class != Class::Unscannable
}

impl Comparison {
    /// Adds a message; `changed` is asked for what is shown of it if its class changed.
    pub fn add(&mut self, pair: &Pair, changed: impl FnOnce() -> Changed) {
        self.messages += 1;
        self.good += u64::from(is_good(pair.was));
        self.bad += u64::from(is_bad(pair.was));
        self.failures += u64::from(pair.failed);
        self.micros[0] += pair.micros[0];
        self.micros[1] += pair.micros[1];
        if pair.was == pair.is {
            return;
        }
        let name = format!("{} -> {}", pair.was.name(), pair.is.name());
        *self.transitions.entry(name).or_default() += 1;
        let is_worse = is_good(pair.was) && !is_good(pair.is);
        self.worse += u64::from(is_worse);
        self.good_sign_worse += u64::from(is_worse && pair.good_sign);
        self.milder += u64::from(is_bad(pair.was) && is_good(pair.is));
        // Harm is shown first, whenever it came.
        let at = self.changes.partition_point(|other| is_harm(other) >= is_worse);
        if at < CHANGES_KEPT_MAX {
            self.changes.insert(at, changed());
            self.changes.truncate(CHANGES_KEPT_MAX);
        }
    }

    /// What follows. `is_over`: the time of the comparison is up; before, only harm ends it.
    pub fn decide(&self, limits: &Limits, is_over: bool) -> Decision {
        if let Some(why) = self.harm(limits).or_else(|| self.pages.harm(limits)) {
            return Decision::Reject(why);
        }
        if !is_over {
            return Decision::Wait;
        }
        if self.messages < limits.messages_min {
            let (messages, min) = (self.messages, limits.messages_min);
            return Decision::Hold(format!("only {messages} messages were compared, of {min}"));
        }
        let milder = percent(self.milder, self.bad);
        if milder > limits.milder_percent_max {
            return Decision::Hold(format!(
                "{} of {} bad messages would be good ({milder:.1} %, at most {})",
                self.milder, self.bad, limits.milder_percent_max
            ));
        }
        let cost = 100.0 * self.micros[1] / self.micros[0].max(1.0);
        if cost > limits.cost_percent_max {
            return Decision::Hold(format!(
                "a message takes {cost:.0} % of the time before (at most {})",
                limits.cost_percent_max
            ));
        }
        if let Some(why) = self.pages.doubt(limits) {
            return Decision::Hold(why);
        }
        Decision::Promote
    }

    fn harm(&self, limits: &Limits) -> Option<String> {
        if self.failures > limits.failures_max {
            return Some(format!("a filter failed on {} messages", self.failures));
        }
        if self.good_sign_worse > limits.good_sign_worse_max {
            return Some(format!(
                "{} messages with a sign of good mail would be suspect or worse (at most {})",
                self.good_sign_worse, limits.good_sign_worse_max
            ));
        }
        let worse = percent(self.worse, self.good);
        (self.worse > limits.worse_min && worse > limits.worse_percent_max).then(|| {
            format!(
                "{} of {} good messages would be suspect or worse ({worse:.1} %, at most {})",
                self.worse, self.good, limits.worse_percent_max
            )
        })
    }
}

fn is_harm(changed: &Changed) -> bool {
    is_good(changed.was) && !is_good(changed.is)
}

fn percent(part: u64, of: u64) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(pairs: &[(u64, Class, Class, bool)]) -> Comparison {
        let mut comparison = Comparison::default();
        for (count, was, is, good_sign) in pairs {
            for n in 0..*count {
                let micros = [100.0, 110.0];
                let pair =
                    Pair { was: *was, is: *is, good_sign: *good_sign, failed: false, micros };
                comparison.add(&pair, || Changed {
                    id: format!("{n}"),
                    from: String::new(),
                    subject: String::new(),
                    was: *was,
                    is: *is,
                    good_sign: *good_sign,
                    rules: Vec::new(),
                });
            }
        }
        comparison
    }

    #[test]
    fn harm_rejects_at_once_and_the_rest_waits_for_the_time() {
        use Class::{Ham, Spam, Suspect};
        let limits = Limits::default();
        let decide = |pairs: &[_], is_over| compared(pairs).decide(&limits, is_over);
        assert_eq!(decide(&[(500, Ham, Ham, false)], false), Decision::Wait);
        assert_eq!(decide(&[(500, Ham, Ham, false)], true), Decision::Promote);
        // Half of the ham.
        let half = [(10, Ham, Ham, false), (10, Ham, Spam, false)];
        assert!(matches!(decide(&half, false), Decision::Reject(_)));
        // A few are never too many, unless they are known to be good.
        assert_eq!(
            decide(&[(97, Ham, Ham, false), (3, Ham, Suspect, false)], true),
            Decision::Promote
        );
        let known = [(998, Ham, Ham, false), (2, Ham, Spam, true)];
        assert!(matches!(decide(&known, false), Decision::Reject(_)));
        assert!(matches!(decide(&[(5, Ham, Ham, false)], true), Decision::Hold(_)));
        let milder = [(100, Ham, Ham, false), (100, Spam, Spam, false), (20, Spam, Ham, false)];
        assert!(matches!(decide(&milder, true), Decision::Hold(_)));
        assert_eq!(decide(&milder, false), Decision::Wait);
    }

    #[test]
    fn pages_that_would_be_blocked_reject_and_too_few_are_held() {
        let limits = Limits { messages_min: 0, pages_min: 20, ..Limits::default() };
        let pages = |all: &[(u64, bool, bool)]| {
            let mut comparison = Comparison::default();
            for (count, was, is) in all {
                let add = |_| comparison.pages.add([*was, *is], &["casino".into()], [10.0, 12.0]);
                (0..*count).for_each(add);
            }
            comparison
        };
        let decide = |all: &[_], is_over| pages(all).decide(&limits, is_over);
        assert_eq!(decide(&[(100, false, false), (9, true, true)], true), Decision::Promote);
        let Decision::Reject(why) = decide(&[(50, false, false), (5, false, true)], false) else {
            panic!("it is rejected at once")
        };
        assert!(why.contains("5 of 55 pages") && why.contains("casino"), "{why}");
        assert_eq!(decide(&[(97, false, false), (3, false, true)], true), Decision::Promote);
        assert!(matches!(decide(&[(19, false, false)], true), Decision::Hold(_)));
        let milder = [(20, false, false), (5, true, false)];
        assert!(matches!(decide(&milder, true), Decision::Hold(_)));
        assert_eq!(decide(&milder, false), Decision::Wait);
    }

    #[test]
    fn failures_and_costs_count_and_harm_is_shown_first() {
        let mut slow = compared(&[(30, Class::Ham, Class::Ham, false)]);
        slow.micros[1] *= 3.0;
        assert!(matches!(slow.decide(&Limits::default(), true), Decision::Hold(_)));
        slow.failures = 1;
        assert!(matches!(slow.decide(&Limits::default(), false), Decision::Reject(_)));
        let many = compared(&[
            (300, Class::Spam, Class::Ham, false),
            (2, Class::Ham, Class::Spam, false),
            (300, Class::Spam, Class::Ham, false),
        ]);
        assert_eq!(many.changes.len(), CHANGES_KEPT_MAX);
        assert_eq!(many.changes.iter().filter(|c| c.was == Class::Ham).count(), 2);
        assert_eq!(many.changes[1].was, Class::Ham);
    }
}
