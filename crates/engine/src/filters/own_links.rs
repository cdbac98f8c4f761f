//! Whether a message asks for what is done at its sender's own site.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `LINKS_TO_SENDER` | -0.8 of each point of phishing words | a link to the sender's domain |
//!
//! A bank's warning and its forgery use the same words; what tells them apart is where the reader
//! is sent. Of the modern good messages that words of phishing were found in, three quarters link
//! to their sender's own domain, of phishing one in twenty. So the points of rules about words
//! ([`WORDS`]) count a fifth then, unless something says that the sender is not who it seems
//! ([`DECEIT`], a free mail box, DMARC).
//!
//! Limits: runs behind the rules of `rules/*.cf`, and takes nothing from other filters' evidence. A
//! forged sender whose own site is linked beside the trap is recognized by DMARC alone.

use std::collections::HashSet;
use std::sync::Arc;

use gauntlet_mail::facts::AuthResult;
use gauntlet_mail::{Evidence, UrlSource, View};

use crate::filter::{Filter, Findings, Item};
use crate::filters::sender::freemail;
use crate::lookalike::{Brands, organizational_domain};
use crate::rule_registry::{Rule, RuleRegistry};
use crate::scratch::Scratch;

/// Beginnings of names of rules about words that a firm's own warning has, too.
const WORDS: [&str; 5] = ["PHISH_", "MBOX_", "PARCEL_", "LURE_", "HDR_FROM_NAME_URGENT"];

/// Beginnings of names of rules that say that the sender or a link is not what it seems, or that
/// data leaves the message by another way than its links.
const DECEIT: [&str; 12] = [
    "FROM_",
    "REPLY_TO_",
    "HDR_FROM_ODD_TLD",
    "HDR_FROM_TWO_ADDRESSES",
    "HDR_FROM_HIDDEN_SIGNS",
    "HDR_REPLY_TO_",
    "URL_TEXT_BRAND",
    "URL_LOOKALIKE",
    "URL_USER_INFO",
    "URL_IP",
    "HTML_PASSWORD",
    "HTML_FORM",
];

/// Takes back points of phishing words from mail that links to its sender's own site.
#[derive(Debug)]
pub struct OwnLinks {
    brands: Arc<Brands>,
    freemail: HashSet<&'static str>,
    rule: Rule,
}

impl OwnLinks {
    /// The filter with its rule.
    pub fn new(registry: &mut RuleRegistry, brands: Arc<Brands>) -> Self {
        let description = "Links lead to the sender's own domain, so words of phishing count less";
        let rule = registry.phishing("LINKS_TO_SENDER", -0.8, description);
        OwnLinks { brands, freemail: freemail(), rule }
    }

    /// A link to the sender's own domain, or to another of the firm that owns it.
    fn own_link(&self, item: &Item<'_>) -> Option<Evidence> {
        let from = item.message.from()?.domain().trim_end_matches('.').to_lowercase();
        let own = organizational_domain(&from)?;
        if self.freemail.contains(own) {
            return None;
        }
        let is_own = |domain: &str| domain == own || self.brands.same_owner(domain, own);
        let urls = item.message.urls();
        let mut read = urls.iter().filter(|url| {
            matches!(url.source, UrlSource::Href | UrlSource::Text | UrlSource::Schemeless)
        });
        let link = read.find(|url| {
            url.canonical.scheme() != "mailto" && is_own(url.canonical.registrable_domain())
        })?;
        let at = Evidence::new(link.view, link.part, link.offset as usize, link.raw.as_bytes());
        Some(if link.view == View::Header { at.named("Subject") } else { at })
    }
}

impl Filter for OwnLinks {
    fn name(&self) -> &'static str {
        "own_links"
    }

    fn run(&self, item: &Item<'_>, _: &mut Scratch, findings: &mut Findings) {
        let begins = |name: &str, list: &[&str]| list.iter().any(|start| name.starts_with(start));
        let of_words = |name: &Arc<str>| begins(name, &WORDS) && findings.phishing.contains(name);
        let words = findings.hits.iter().filter(|hit| of_words(&hit.rule));
        let points: f64 = words.map(|hit| hit.score).sum();
        let forged = item.facts.dmarc == AuthResult::Fail
            || findings.hits.iter().any(|hit| begins(&hit.rule, &DECEIT));
        if points <= 0.0 || forged || !self.rule.enabled {
            return;
        }
        if let Some(at) = self.own_link(item) {
            let taken = (1e3 * self.rule.score.clamp(-1.0, 0.0) * points).round() / 1e3;
            findings.hit(&self.rule.name, taken, &self.rule.description, at);
            findings.phishing.push(self.rule.name.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_mail::{Envelope, Facts, Message};

    use crate::learned::Learned;

    /// Points taken from a message in which these rules had hit.
    fn taken(raw: &str, rules: &[(&str, f64)], dmarc: AuthResult) -> Option<f64> {
        let filter = OwnLinks::new(&mut RuleRegistry::default(), Arc::new(Brands::shipped()));
        let mut findings = Findings::default();
        for (name, score) in rules {
            let name: Arc<str> = (*name).into();
            findings.hit(&name, *score, &"".into(), Evidence::new(View::Raw, 0, 0, b"x"));
            findings.phishing.push(name);
        }
        let (message, learned) = (Message::parse(raw.as_bytes()), Learned::default());
        let (envelope, facts) = (Envelope::default(), Facts { dmarc, ..Facts::default() });
        let item =
            Item { message: &message, envelope: &envelope, facts: &facts, learned: &learned };
        filter.run(&item, &mut Scratch::default(), &mut findings);
        findings.hits.iter().find(|h| &*h.rule == "LINKS_TO_SENDER").map(|h| h.score)
    }

    const WARNING: &[(&str, f64)] = &[("PHISH_UNUSUAL_ACTIVITY", 1.5), ("MBOX_UPGRADE", 1.0)];

    #[test]
    fn words_of_a_warning_count_less_where_it_leads_to_its_sender() {
        let mail = |from: &str, link: &str| {
            format!(
                "From: Support <{from}>\nContent-Type: text/html\n\n<a href='https://{link}/'>x</a>\n"
            )
        };
        let unknown = AuthResult::default();
        let own = mail("help@mail.shop.com", "www.shop.com");
        assert_eq!(taken(&own, WARNING, unknown), Some(-2.0));
        let firm = mail("no-reply@microsoft.com", "login.live.com");
        assert_eq!(taken(&firm, WARNING, unknown), Some(-2.0));
        let elsewhere = mail("help@shop.com", "shop.evil.com");
        assert_eq!(taken(&elsewhere, WARNING, unknown), None);
        assert_eq!(taken(&mail("ann@gmail.com", "gmail.com"), WARNING, unknown), None);
        assert_eq!(taken(&own, WARNING, AuthResult::Fail), None, "the sender is forged");
        let deceit = [WARNING, &[("FROM_LOOKALIKE", 3.0)]].concat();
        assert_eq!(taken(&own, &deceit, unknown), None);
        assert_eq!(taken(&own, &[("BEC_GIFT_CARDS", 2.0)], unknown), None, "not about a link");
    }
}
