//! Mail that is nearly the same as known bad or good mail.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `SIGNATURE_BAD` | 0 | text, page structure, image or file nearly the same as known bad ones |
//! | `SIGNATURE_GOOD` | 0 | nearly the same as known good ones |
//!
//! No points: the log odds go into the probability (`fusion`). The evidence quotes what matched,
//! how closely, how often its like was bad and good, and when last.

use gauntlet_mail::date::{DAY_SECONDS, day_name};
use gauntlet_mail::{Evidence, Message, View};

use crate::filter::{Filter, Findings, Item};
use crate::rule_registry::{Rule, RuleEffect, RuleRegistry};
use crate::scratch::Scratch;
use crate::signatures::known::{BAD_BOUND, GOOD_BOUND, Resemblance};
use crate::signatures::{Kind, fingerprint};

/// Bytes of text that are quoted.
const QUOTE_BYTES_MAX: usize = 100;
/// Share of its weight that mail of a list has which is like mail that was bad once.
const ONCE_ON_A_LIST: f64 = 0.5;

/// Looks fingerprints up in what the snapshot knows.
#[derive(Debug)]
pub struct Signatures {
    bad: Rule,
    good: Rule,
}

impl Signatures {
    /// The filter with its rules.
    pub fn new(registry: &mut RuleRegistry) -> Self {
        let mut rule =
            |name, description| registry.rule(name, 0.0, description, RuleEffect::Points);
        Signatures {
            bad: rule("SIGNATURE_BAD", "Near-duplicate of known spam"),
            good: rule("SIGNATURE_GOOD", "Near-duplicate of known ham"),
        }
    }
}

impl Filter for Signatures {
    fn name(&self) -> &'static str {
        "signatures"
    }

    fn run(&self, item: &Item<'_>, scratch: &mut Scratch, findings: &mut Findings) {
        if item.learned.signatures.is_none() && item.learned.published.is_empty() {
            return;
        }
        let scratch = &mut scratch.classifier;
        scratch.read_once(item.message);
        let found = fingerprint::of_message(item.message, scratch);
        let today = item.envelope.received_at.max(0) / DAY_SECONDS;
        let today = u16::try_from(today).unwrap_or(u16::MAX);
        let mut log_odds = 0.0;
        for like in item.learned.resembles(&found, today) {
            let odds = log_odds_of(&like, item.message);
            log_odds += odds;
            let rule = if odds < 0.0 { &self.good } else { &self.bad };
            findings.add(rule, feature(&like, odds));
            findings.add(rule, quotation(item, &like));
        }
        if log_odds != 0.0 {
            let bounded = log_odds.clamp(-GOOD_BOUND, BAD_BOUND);
            findings.signatures = Some((bounded * 1e6).round() / 1e6);
        }
    }
}

/// What a resemblance counts. Everybody gets the same letter of a list, so that it came once to an
/// address that never asked for it may only say that somebody entered that address.
fn log_odds_of(like: &Resemblance, message: &Message<'_>) -> f64 {
    let once = like.bad == 1 && like.good == 0;
    let is_list = || message.header("List-Unsubscribe").is_some();
    like.log_odds() * if once && is_list() { ONCE_ON_A_LIST } else { 1.0 }
}

/// `text: 92 % like mail that was bad 14 times and good 0 times, last on day 20413`
fn feature(like: &Resemblance, log_odds: f64) -> Evidence {
    let how = match like.kind.is_fuzzy() {
        true => format!("{:.0} % like", 100.0 * like.closeness),
        false => "the same as".to_owned(),
    };
    let date = day_name(i64::from(like.day));
    let text = format!(
        "{}: {how} one seen {} in bad and {} in good mail, last on {date} ({log_odds:+.2})",
        like.kind.name(),
        times(like.bad),
        times(like.good),
    );
    Evidence::new(View::Feature, like.part, 0, text.as_bytes()).named("signature")
}

fn times(count: u32) -> String {
    format!("{count} {}", if count == 1 { "time" } else { "times" })
}

/// The start of what matched.
fn quotation(item: &Item<'_>, like: &Resemblance) -> Evidence {
    let part = item.message.parts().get(usize::from(like.part));
    let (view, text) = match like.kind {
        Kind::Text => (View::Text, part.and_then(|p| p.shown_text())),
        Kind::Page => (View::Html, part.and_then(|p| p.text())),
        Kind::Image | Kind::File => {
            let name = part.and_then(|p| p.file_name());
            (View::Attachment, name.or(part.map(|p| p.content_type.kind.as_str())))
        }
    };
    let text = text.unwrap_or_default();
    let start = text.len() - text.trim_start().len();
    let end = text.floor_char_boundary(start + QUOTE_BYTES_MAX);
    let quoted = text.get(start..end).unwrap_or_default();
    Evidence::new(view, like.part, start, quoted.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use gauntlet_mail::{Envelope, Facts, Message};

    use crate::classifier::ClassifierScratch;
    use crate::learned::Learned;
    use crate::scan;
    use crate::signatures::known::{DAYS_DEFAULT, KnownSignatures, Report};
    use crate::snapshot::Snapshot;
    use gauntlet_verdict::Verdict;

    const DAY: u16 = 20_000;

    fn message(name: &str, link: &str) -> String {
        format!(
            "From: shop@example.org\nSubject: your parcel\n\nDear {name}, our records show that your \
             parcel could not be delivered because the address was incomplete. Please confirm the \
             address and pay the small fee for a second delivery within two days, or the parcel \
             goes back to the sender: {link} We thank you for your trust. The team of your parcel \
             service, central office, department for undeliverable goods and returns.\n"
        )
    }

    fn judge(raw: &str, reports: &[(&str, bool, u64)]) -> Verdict {
        let mut scratch = ClassifierScratch::default();
        let mut said = Vec::new();
        for &(raw, spam, reporter) in reports {
            let message = Message::parse(raw.as_bytes());
            scratch.read(&message);
            said.extend(fingerprint::of_message(&message, &scratch).into_iter().map(|f| Report {
                fingerprint: f.fingerprint,
                spam,
                reporter,
                day: DAY,
            }));
        }
        let signatures = Some(Arc::new(KnownSignatures::new(None, &[], &said, DAYS_DEFAULT)));
        let learned = Learned { signatures, ..Learned::default() };
        let snapshot = Snapshot::default_rules().with_learned(learned);
        let received_at = (i64::from(DAY) + 5) * DAY_SECONDS;
        let envelope = Envelope { received_at, ..Envelope::default() };
        let message = Message::parse(raw.as_bytes());
        scan(&message, &envelope, &Facts::default(), &snapshot, &mut Scratch::default())
    }

    #[test]
    fn a_near_duplicate_of_reported_mail_is_found_and_quoted() {
        let sent = message("Ann", "http://one.example/a?1");
        let seen = message("Mr Bob Miller", "https://two.example.net/b");
        let (before, after) = (judge(&seen, &[]), judge(&seen, &[(&sent, true, 0)]));
        assert!(before.hit("SIGNATURE_BAD").is_none());
        assert!(after.probability > before.probability);
        assert_ne!(after.ruleset, before.ruleset);
        let hit = after.hit("SIGNATURE_BAD").unwrap();
        assert_eq!(hit.score, 0.0);
        let text = &hit.evidence[0].text;
        assert!(text.contains("% like one seen 1 time in bad and 0 times in good mail"), "{text}");
        assert!(text.contains("last on 2024-10-04"), "{text}");
        assert!(hit.evidence[1].text.starts_with("Dear Mr Bob Miller"), "{:?}", hit.evidence);
        let good = judge(&seen, &[(&sent, false, 0)]);
        assert!(good.hit("SIGNATURE_GOOD").is_some() && good.probability < before.probability);
    }

    #[test]
    fn one_reporter_alone_changes_nothing_and_other_mail_is_not_hit() {
        let (sent, seen) = (message("Ann", ""), message("Bob", ""));
        let alone = judge(&seen, &[(&sent, true, 7), (&sent, true, 7)]);
        assert!(alone.hit("SIGNATURE_BAD").is_none());
        let two = judge(&seen, &[(&sent, true, 7), (&sent, true, 8)]);
        assert!(two.hit("SIGNATURE_BAD").is_some());
        let other = "From: a@example.org\nSubject: minutes\n\nThe minutes of the meeting are here, \
            with the changes that Ann asked for; please read them before Friday and tell me.\n";
        assert!(judge(other, &[(&sent, true, 0)]).hit("SIGNATURE_BAD").is_none());
    }

    #[test]
    fn a_probe_that_somebody_subscribed_to_a_newsletter_makes_it_no_spam() {
        let letter = |name: &str, number: u32| {
            format!(
                "From: Rowing Club <news@rowing.example.org>\nTo: {name}@example.org\n\
                 Subject: training in spring\nDate: Sun, 29 Sep 2024 10:00:00 +0000\n\
                 Message-ID: <{number}@rowing.example.org>\n\
                 List-Unsubscribe: <https://rowing.example.org/u/{number}>\n\nDear members, the ice is \
                 gone and training begins again on Monday at the boat house. Beginners meet at five, \
                 the eights at six. Please bring warm clothes, and tell Ann by Friday if you can help \
                 to carry the boats out of the hall and to paint the landing stage.\n"
            )
        };
        let (probe, bob) = (letter("probe", 1), letter("bob", 2));
        let poisoned = judge(&bob, &[(&probe, true, 0)]);
        assert!(poisoned.hit("SIGNATURE_BAD").is_some());
        assert!(poisoned.class < gauntlet_verdict::Class::Suspect, "{:?}", poisoned.probability);
        let (ann, carl) = (letter("ann", 3), letter("carl", 4));
        let released = judge(&bob, &[(&probe, true, 0), (&ann, false, 7), (&carl, false, 8)]);
        assert!(released.probability < poisoned.probability, "people say otherwise");
    }

    #[test]
    fn dates() {
        for (day, expected) in [(0, "1970-01-01"), (11_016, "2000-02-29"), (20_000, "2024-10-04")] {
            assert_eq!(day_name(i64::from(day)), expected);
        }
    }
}
