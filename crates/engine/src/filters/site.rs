//! What this site has learned: by corrections, and by whom its people write to.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `SITE_SPAM` | 0 | what people of this site corrected makes such mail unwanted here |
//! | `SITE_HAM` | 0 | it makes such mail wanted here, or somebody here writes to its author |
//!
//! No points: the log odds go into the probability (`fusion`). The evidence says how far
//! corrections move it, how far the recipient's own mailbox does, and since when the author is
//! known.
//!
//! An author that somebody here wrote to, or whose mail somebody released, is worth
//! [`CORRESPONDENT_ODDS`] if DMARC proves the author, [`UNPROVEN_ODDS`] if nothing contradicts
//! them, and nothing if something does; half as much for each [`HALF_LIFE_DAYS`] since.

use gauntlet_mail::facts::AuthResult;
use gauntlet_mail::{Evidence, Facts, View};

use crate::filter::{Filter, Findings, Item};
use crate::rule_registry::{Rule, RuleEffect, RuleRegistry};
use crate::scratch::Scratch;

/// Log odds of an author that is proven and known since today.
const CORRESPONDENT_ODDS: f64 = -4.0;
/// The same if nothing proves or contradicts who it is.
const UNPROVEN_ODDS: f64 = -1.0;
/// Days after which a known author is worth half as much.
const HALF_LIFE_DAYS: f64 = 180.0;

/// Asks what the site has learned.
#[derive(Debug)]
pub struct Site {
    spam: Rule,
    ham: Rule,
}

impl Site {
    /// The filter with its rules.
    pub fn new(registry: &mut RuleRegistry) -> Self {
        let mut rule =
            |name, description| registry.rule(name, 0.0, description, RuleEffect::Points);
        Site {
            spam: rule("SITE_SPAM", "Unwanted by what this site has learned"),
            ham: rule("SITE_HAM", "Wanted by what this site has learned"),
        }
    }
}

impl Filter for Site {
    fn name(&self) -> &'static str {
        "site"
    }

    fn run(&self, item: &Item<'_>, scratch: &mut Scratch, findings: &mut Findings) {
        let known = correspondent(item.facts);
        let taught = item.learned.site.as_ref().filter(|_| !item.message.is_blank()).map(|site| {
            scratch.classifier.read_once(item.message);
            site.evidence((item.message, item.envelope, item.facts), &scratch.classifier)
        });
        let parts = taught.map_or([0.0; 2], |site| [site.weights, site.mailbox]);
        let odds = known + parts.iter().sum::<f64>();
        if odds == 0.0 {
            return;
        }
        findings.site = Some((odds * 1e6).round() / 1e6);
        findings.known_author = Some(known);
        let rule = if odds > 0.0 { &self.spam } else { &self.ham };
        if let Some(site) = taught.filter(|site| site.weights != 0.0) {
            let said = match site.corrections {
                1 => "1 correction".to_owned(),
                many => format!("{many} corrections"),
            };
            findings.add(rule, feature(&format!("{said} of this site ({:+.2})", site.weights)));
        }
        if parts[1] != 0.0 {
            findings.add(rule, feature(&format!("mail of this mailbox ({:+.2})", parts[1])));
        }
        if let Some(days) = item.facts.correspondent_days.filter(|_| known != 0.0) {
            let text = format!("an author known here, last {days} days ago ({known:+.2})");
            findings.add(rule, feature(&text));
        }
    }
}

/// What it says that somebody here knows the author.
fn correspondent(facts: &Facts) -> f64 {
    let Some(days) = facts.correspondent_days.filter(|_| !facts.doubts_authors()) else {
        return 0.0;
    };
    let proven = facts.dmarc == AuthResult::Pass;
    let odds = if proven { CORRESPONDENT_ODDS } else { UNPROVEN_ODDS };
    odds * 0.5_f64.powf(f64::from(days) / HALF_LIFE_DAYS)
}

fn feature(text: &str) -> Evidence {
    Evidence::new(View::Feature, 0, 0, text.as_bytes()).named("site")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::find_with;
    use gauntlet_mail::Envelope;

    fn odds(facts: &Facts) -> Option<f64> {
        let filter = Site::new(&mut RuleRegistry::default());
        let mail = "From: Ann <ann@example.org>\nSubject: minutes\n\nhello\n";
        find_with(&filter, mail, &Envelope::default(), facts).site
    }

    #[test]
    fn an_author_somebody_wrote_to_is_known_until_it_is_long_ago_and_unless_it_is_forged() {
        let facts = |days, dmarc| Facts { correspondent_days: days, dmarc, ..Facts::default() };
        assert_eq!(odds(&Facts::default()), None);
        assert_eq!(odds(&facts(Some(0), AuthResult::Pass)), Some(CORRESPONDENT_ODDS));
        assert_eq!(odds(&facts(Some(180), AuthResult::Pass)), Some(CORRESPONDENT_ODDS / 2.0));
        assert_eq!(odds(&facts(Some(0), AuthResult::Unknown)), Some(UNPROVEN_ODDS));
        assert_eq!(odds(&facts(Some(0), AuthResult::Fail)), None);
    }
}
