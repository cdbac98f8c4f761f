//! What is known from the network before the scan: sender authentication, the client's name, DNS
//! lists, history.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `SPF_FAILED` | 1.5 | the sender's domain says that this client may not send for it |
//! | `SPF_SOFT` | 0.5 | the sender's domain doubts this client |
//! | `DMARC_REJECT` | 3.5 | nothing proves the From domain, which asks to reject such mail |
//! | `DMARC_QUARANTINE` | 2.0 | nothing proves the From domain, which asks to quarantine it |
//! | `DMARC_FORWARDED` | 0.5 | the same, but it passed where trusted forwarders got it (ARC) |
//! | `DMARC_UNKNOWN` | 0.5 | the policy of the From domain could not be fetched, or not be read |
//! | `CLIENT_NAMELESS` | 1.0 | the DNS has no name for the client |
//! | `CLIENT_NAME_FALSE` | 0.6 | the client's name has another address |
//! | `DNS_LISTED` | of the lists, at most 10 | DNS block lists name client, sender or links |
//! | `DNS_WELCOME` | of the lists, at least -6 | welcome lists of the DNS |
//! | `SENDER_OFTEN_SPAM` | 2.0 | at least eight in ten messages of this sender were spam |
//! | `SENDER_WELL_KNOWN` | -1.0 | at most one in fifty of many messages of this sender was spam |
//!
//! A fact that is unknown hits nothing.

use gauntlet_mail::facts::{AuthResult, DmarcPolicy, Listing};
use gauntlet_mail::{Evidence, View};

use crate::filter::{Filter, Findings, Item};
use crate::rule_registry::{Rule, RuleRegistry};
use crate::scratch::Scratch;

/// Most points of all block lists together.
const LISTED_MAX: f64 = 10.0;
/// Fewest points of all welcome lists together.
const WELCOME_MIN: f64 = -6.0;
/// Messages of a sender before its share of spam says anything.
const SEEN_MIN: u32 = 10;
/// The same for a good name.
const SEEN_WELL_MIN: u32 = 25;

/// The filter of what was learned from the network before the scan.
#[derive(Debug)]
pub struct Network {
    spf_failed: Rule,
    spf_soft: Rule,
    dmarc_reject: Rule,
    dmarc_quarantine: Rule,
    dmarc_forwarded: Rule,
    dmarc_unknown: Rule,
    no_ptr: Rule,
    ptr_mismatch: Rule,
    listed: Rule,
    welcome: Rule,
    often_spam: Rule,
    well_known: Rule,
}

impl Network {
    /// The filter with its rules.
    pub fn new(registry: &mut RuleRegistry) -> Self {
        let mut rule = |name, score, description| registry.points(name, score, description);
        Network {
            spf_failed: rule("SPF_FAILED", 1.5, "SPF: sender does not match SPF record (fail)"),
            spf_soft: rule("SPF_SOFT", 0.5, "SPF: sender does not match SPF record (softfail)"),
            dmarc_reject: rule("DMARC_REJECT", 3.5, "DMARC failed, policy is reject"),
            dmarc_quarantine: rule("DMARC_QUARANTINE", 2.0, "DMARC failed, policy is quarantine"),
            dmarc_forwarded: rule(
                "DMARC_FORWARDED",
                0.5,
                "DMARC failed, but passed at a trusted forwarder (ARC)",
            ),
            dmarc_unknown: rule(
                "DMARC_UNKNOWN",
                0.5,
                "DMARC record could not be looked up or parsed",
            ),
            no_ptr: rule("CLIENT_NAMELESS", 1.0, "Client has no reverse DNS (PTR)"),
            ptr_mismatch: rule(
                "CLIENT_NAME_FALSE",
                0.6,
                "Reverse DNS of the client is not forward-confirmed",
            ),
            listed: rule("DNS_LISTED", 1.0, "Listed on DNS block lists"),
            welcome: rule("DNS_WELCOME", -1.0, "Listed on DNS welcome lists"),
            often_spam: rule("SENDER_OFTEN_SPAM", 2.0, "Sender's history is mostly spam"),
            well_known: rule("SENDER_WELL_KNOWN", -1.0, "Sender's history is almost free of spam"),
        }
    }

    fn authentication(&self, item: &Item<'_>, findings: &mut Findings) {
        let facts = item.facts;
        match facts.spf {
            AuthResult::Fail => findings.add(&self.spf_failed, fact("spf", "fail")),
            AuthResult::SoftFail => findings.add(&self.spf_soft, fact("spf", "softfail")),
            _ => {}
        }
        match facts.dmarc {
            AuthResult::Fail => {}
            AuthResult::TempError => {
                return findings.add(&self.dmarc_unknown, fact("dmarc", "temperror"));
            }
            AuthResult::PermError => {
                return findings.add(&self.dmarc_unknown, fact("dmarc", "permerror"));
            }
            _ => return,
        }
        let rule = match facts.dmarc_policy {
            DmarcPolicy::Reject => &self.dmarc_reject,
            DmarcPolicy::Quarantine => &self.dmarc_quarantine,
            DmarcPolicy::None | DmarcPolicy::Unknown => return,
        };
        let rule = if facts.arc_dmarc == AuthResult::Pass { &self.dmarc_forwarded } else { rule };
        findings.add(rule, fact("dmarc", facts.dmarc_domain.as_deref().unwrap_or("fail")));
    }

    fn lists(&self, item: &Item<'_>, findings: &mut Findings) {
        let all = &item.facts.listings;
        let sum =
            |sign: f64| -> f64 { all.iter().map(|l| l.points).filter(|p| p * sign > 0.0).sum() };
        for (rule, sign) in [(&self.listed, 1.0), (&self.welcome, -1.0)] {
            let points = sum(sign).clamp(WELCOME_MIN, LISTED_MAX) * rule.score.abs();
            let named = all.iter().filter(|l| l.points * sign > 0.0);
            let mut first = true;
            for listing in named.take(gauntlet_mail::evidence::EVIDENCE_PER_HIT_MAX) {
                if !rule.enabled {
                    continue;
                }
                if first {
                    findings.hit(&rule.name, points, &rule.description, named_by(listing));
                } else {
                    findings.add(rule, named_by(listing));
                }
                first = false;
            }
        }
    }
}

/// A fact as evidence.
fn fact(name: &'static str, value: &str) -> Evidence {
    Evidence::new(View::Facts, 0, 0, value.as_bytes()).named(name)
}

fn named_by(listing: &Listing) -> Evidence {
    let text = format!("{} on {}: {}", listing.subject, listing.zone, listing.answers.join(" "));
    fact("listing", &text)
}

impl Filter for Network {
    fn name(&self) -> &'static str {
        "network"
    }

    fn run(&self, item: &Item<'_>, _: &mut Scratch, findings: &mut Findings) {
        let facts = item.facts;
        self.authentication(item, findings);
        match (facts.reverse_name.as_deref(), facts.reverse_confirmed) {
            (Some(""), _) => findings.add(&self.no_ptr, fact("reverse_name", "none")),
            (Some(name), Some(false)) => {
                findings.add(&self.ptr_mismatch, fact("reverse_name", name));
            }
            _ => {}
        }
        self.lists(item, findings);
        if let (Some(seen), Some(share)) = (facts.sender_seen, facts.sender_spam_share) {
            let text = format!("{seen} messages, {:.0} % spam", share * 100.0);
            if seen >= SEEN_MIN && share >= 0.8 {
                findings.add(&self.often_spam, fact("sender_seen", &text));
            } else if seen >= SEEN_WELL_MIN && share <= 0.02 {
                findings.add(&self.well_known, fact("sender_seen", &text));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::Learned;
    use gauntlet_mail::{Envelope, Facts, Message};

    fn hits(facts: &Facts) -> Vec<(String, f64)> {
        let filter = Network::new(&mut RuleRegistry::default());
        let message = Message::parse(b"From: a@b.example\r\n\r\nhi\r\n");
        let (envelope, learned) = (Envelope::default(), Learned::default());
        let item = Item { message: &message, envelope: &envelope, facts, learned: &learned };
        let mut findings = Findings::default();
        filter.run(&item, &mut Scratch::default(), &mut findings);
        findings.hits.iter().map(|h| (h.rule.to_string(), h.score)).collect()
    }

    fn listing(points: f64) -> Listing {
        Listing {
            zone: "bl.example".into(),
            subject: "192.0.2.1".into(),
            answers: vec!["127.0.0.2".into()],
            text: None,
            points,
        }
    }

    #[test]
    fn facts_become_points() {
        assert_eq!(hits(&Facts::default()), []);
        let facts = Facts {
            spf: AuthResult::Fail,
            dmarc: AuthResult::Fail,
            dmarc_policy: DmarcPolicy::Reject,
            reverse_name: Some(String::new()),
            reverse_confirmed: Some(false),
            listings: vec![listing(3.0), listing(9.0), listing(-1.5)],
            sender_seen: Some(40),
            sender_spam_share: Some(0.9),
            ..Facts::default()
        };
        let expected = [
            ("SPF_FAILED", 1.5),
            ("DMARC_REJECT", 3.5),
            ("CLIENT_NAMELESS", 1.0),
            ("DNS_LISTED", 10.0),
            ("DNS_WELCOME", -1.5),
            ("SENDER_OFTEN_SPAM", 2.0),
        ];
        let expected: Vec<_> = expected.iter().map(|(n, p)| ((*n).to_owned(), *p)).collect();
        assert_eq!(hits(&facts), expected);
    }

    #[test]
    fn what_is_unknown_or_passes_hits_nothing() {
        let unknown = Facts { dmarc_policy: DmarcPolicy::Reject, ..Facts::default() };
        assert_eq!(hits(&unknown), []);
        let good = Facts {
            spf: AuthResult::Pass,
            dmarc: AuthResult::Pass,
            dmarc_policy: DmarcPolicy::Reject,
            reverse_name: Some("mail.b.example".into()),
            reverse_confirmed: Some(true),
            ..Facts::default()
        };
        assert_eq!(hits(&good), []);
        let sealed = Facts { dmarc: AuthResult::Fail, arc: AuthResult::Pass, ..good };
        assert_eq!(hits(&sealed), [("DMARC_REJECT".to_owned(), 3.5)], "anybody can seal");
        let forwarded = Facts { arc_dmarc: AuthResult::Pass, ..sealed };
        assert_eq!(hits(&forwarded), [("DMARC_FORWARDED".to_owned(), 0.5)]);
    }
}
