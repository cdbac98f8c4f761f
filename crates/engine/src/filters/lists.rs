//! The administrator's allow and block lists.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `ALLOW_SENDER` | -20 | sender's address or domain is on the allow list: class ham |
//! | `ALLOW_CLIENT` | -20 | the client's network or name is on the allow list: class ham |
//! | `BLOCK_SENDER` | 20 | sender's address or domain is on the block list: class spam |
//! | `BLOCK_CLIENT` | 20 | the client's network or name is on the block list: class spam |
//! | `BLOCK_URL` | 20 | links to a host on the block list, also through a redirector: class spam |
//!
//! An allow list beats every class below phishing. A sender is the envelope's and the From field's.
//! Anybody can write them, so they are taken for allowed only where nothing contradicts them: not
//! if SPF fails or could not be asked for the envelope's, or DMARC fails, could not be asked or not
//! be read for the From field's, and only if every author in any interpretation of it is on the
//! list.

use std::net::{IpAddr, Ipv4Addr};

use gauntlet_mail::{Defect, DefectKind, Evidence, View};

use crate::filter::{Filter, Findings, Item};
use crate::filters::header_form::field_evidence;
use crate::rule_registry::{Rule, RuleEffect, RuleRegistry};
use crate::scratch::Scratch;
use gauntlet_verdict::Class;
use gauntlet_verdict::lists::List;

/// Looks senders, clients and linked hosts up.
#[derive(Debug)]
pub struct Lists {
    allow: List,
    block: List,
    allow_sender: Rule,
    allow_client: Rule,
    block_sender: Rule,
    block_client: Rule,
    block_url: Rule,
}

impl Lists {
    /// The filter for these lists.
    pub fn new(registry: &mut RuleRegistry, allow: List, block: List) -> Self {
        let mut rule = |name, class, description| {
            let score = if class == Class::Ham { -20.0 } else { 20.0 };
            registry.rule(name, score, description, RuleEffect::ForceClass(class))
        };
        Lists {
            allow,
            block,
            allow_sender: rule("ALLOW_SENDER", Class::Ham, "Sender is on the allow list"),
            allow_client: rule("ALLOW_CLIENT", Class::Ham, "Client is on the allow list"),
            block_sender: rule("BLOCK_SENDER", Class::Spam, "Sender is on the block list"),
            block_client: rule("BLOCK_CLIENT", Class::Spam, "Client is on the block list"),
            block_url: rule("BLOCK_URL", Class::Spam, "URL host is on the block list"),
        }
    }

    fn senders(&self, item: &Item<'_>, findings: &mut Findings) {
        let sender = &item.envelope.mail_from;
        let at = || Evidence::new(View::Envelope, 0, 0, sender.as_bytes()).named("mail_from");
        if self.allow.has_address(sender) && !item.facts.doubts_envelope() {
            findings.add(&self.allow_sender, at());
        }
        if self.block.has_address(sender) {
            findings.add(&self.block_sender, at());
        }
        let Some(field) = item.message.header("from") else { return };
        // Any author blocks, in any interpretation of the fields; to allow, all have to be listed.
        let authors = item.message.authors();
        if authors.addresses().any(|author| self.block.has_address(author)) {
            findings.add(&self.block_sender, field_evidence(field));
        }
        let is_allowed = |address: &str| self.allow.has_address(address);
        if !authors.is_ambiguous()
            && authors.addresses().next().is_some()
            && authors.mailboxes.iter().all(|author| is_allowed(&author.address))
            && !item.facts.doubts_authors()
        {
            findings.add(&self.allow_sender, field_evidence(field));
        }
    }

    fn client(&self, item: &Item<'_>, findings: &mut Findings) {
        let envelope = item.envelope;
        let rules = [(&self.allow, &self.allow_client), (&self.block, &self.block_client)];
        for (list, rule) in rules {
            if let Some(ip) = envelope.client_ip.filter(|&ip| list.has_ip(ip)) {
                let at = Evidence::new(View::Envelope, 0, 0, ip.to_string().as_bytes());
                findings.add(rule, at.named("client_ip"));
            }
            // The name is one that resolves back to the client; HELO could be anything.
            if let Some(name) = envelope.client_name.as_ref().filter(|n| list.has_domain(n)) {
                let at = Evidence::new(View::Envelope, 0, 0, name.as_bytes());
                findings.add(rule, at.named("client_name"));
            }
        }
    }

    fn urls(&self, item: &Item<'_>, findings: &mut Findings) {
        if self.block.is_empty() {
            return;
        }
        for url in item.message.all_urls() {
            if self.blocks(url.canonical.host()) {
                let offset = url.offset as usize;
                let mut at = Evidence::new(View::Url, url.part, offset, url.raw.as_bytes());
                at.length = url.length;
                findings.add(&self.block_url, at);
            }
        }
        // Words that are no link to rules and classifier, but to some mail programs.
        if !findings.hits.iter().any(|hit| &*hit.rule == "BLOCK_URL")
            && let Some(named) = item.message.named_host(|host| self.blocks(host))
        {
            let offset = named.range.start;
            let mut at = Evidence::new(View::Url, named.part, offset, named.host.as_bytes());
            at.length = u32::try_from(named.range.len()).unwrap_or(u32::MAX);
            findings.add(&self.block_url, at);
        }
        if item.message.has_unread_urls() {
            findings.defects.push(Defect::new(DefectKind::TooManyUrls, 0).detail("nested"));
        }
    }

    /// Whether the host, a domain above it, or the network of an address is on the block list.
    fn blocks(&self, host: &str) -> bool {
        let address = || host.trim_matches(['[', ']']).parse::<IpAddr>();
        let is_blocked = |ip| {
            self.block.has_ip(ip) || carried_ipv4(ip).is_some_and(|ip| self.block.has_ip(ip.into()))
        };
        self.block.has_domain(host) || address().is_ok_and(is_blocked)
    }
}

/// The IPv4 address that an IPv6 address leads to: mapped (RFC 4291 section 2.5.5), 6to4 (RFC 3056)
/// or NAT64 (RFC 6052, its own prefix). [`List::has_ip`] holds the mapped form already.
fn carried_ipv4(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(ip) = ip else { return None };
    let of = |high: u16, low: u16| Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match ip.segments() {
        [0x2002, high, low, ..] => of(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => of(high, low),
        // `::a.b.c.d` is out of use, and `::` and `::1` are no such addresses.
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => of(high, low),
        _ => ip.to_ipv4_mapped(),
    }
}

impl Filter for Lists {
    fn name(&self) -> &'static str {
        "lists"
    }

    fn reads_objects(&self) -> bool {
        true
    }

    fn run(&self, item: &Item<'_>, _: &mut Scratch, findings: &mut Findings) {
        if self.allow.is_empty() && self.block.is_empty() {
            return;
        }
        self.senders(item, findings);
        self.client(item, findings);
        self.urls(item, findings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{find, find_with};
    use gauntlet_mail::facts::AuthResult;
    use gauntlet_mail::{Envelope, Facts};

    fn filter() -> Lists {
        let list = |entries: &[&str]| List::parse(entries).unwrap();
        let allow = list(&["good.com", "192.0.2.0/24"]);
        let block = list(&["bad.com", "client.net"]);
        Lists::new(&mut RuleRegistry::default(), allow, block)
    }

    fn found(mail: &str, envelope: &Envelope) -> Vec<String> {
        find(&filter(), mail, envelope).hits.iter().map(|h| h.rule.to_string()).collect()
    }

    #[test]
    fn each_list_by_each_key() {
        let nobody = Envelope::default();
        assert_eq!(found("From: a@mail.good.com\n\nhi\n", &nobody), ["ALLOW_SENDER"]);
        assert_eq!(found("From: a@bad.com\n\nhi\n", &nobody), ["BLOCK_SENDER"]);
        assert_eq!(found("From: a@x.com\n\nhttp://www.bad.com/x\n", &nobody), ["BLOCK_URL"]);
        let client = Envelope {
            client_ip: "192.0.2.1".parse().ok(),
            client_name: Some("mail.client.net".into()),
            mail_from: "x@bad.com".into(),
            ..Envelope::default()
        };
        let all = ["BLOCK_SENDER", "ALLOW_CLIENT", "BLOCK_CLIENT"];
        assert_eq!(found("From: a@x.com\n\nhi\n", &client), all);
        assert!(found("From: a@x.com\n\nhttp://x.com\n", &nobody).is_empty());
    }

    #[test]
    fn authors_are_allowed_together_and_only_undoubted() {
        let found = |from: &str, facts: &Facts| -> Vec<String> {
            let mail = format!("From: {from}\n\nhi\n");
            let nobody = Envelope::default();
            let hits = find_with(&filter(), &mail, &nobody, facts).hits;
            hits.iter().map(|h| h.rule.to_string()).collect()
        };
        let known = Facts { dmarc: AuthResult::Pass, spf: AuthResult::Fail, ..Facts::default() };
        assert_eq!(found("a@good.com", &known), ["ALLOW_SENDER"], "DMARC passes by a signature");
        assert_eq!(found("a@good.com, B <b@good.com>", &known), ["ALLOW_SENDER"]);
        for from in [
            "a@good.com, x@evil.com",
            "x@evil.com, a@good.com",
            "<a@good.com> <x@evil.com>",
            "<x@evil.com> <a@good.com>",
            "a@good.com (<x@evil.com>)",
            "x@evil.com \"<a@good.com>\"",
            "<a@good.com>\nFrom: x@evil.com",
        ] {
            assert!(found(from, &known).is_empty(), "{from}");
        }
        for from in ["<a@bad.com> <x@evil.com>", "x@evil.com \"<a@bad.com>\"", "x@y, a@bad.com"] {
            assert_eq!(found(from, &known), ["BLOCK_SENDER"], "{from}");
        }
        for doubt in [AuthResult::Fail, AuthResult::TempError, AuthResult::PermError] {
            let facts = Facts { dmarc: doubt, spf: AuthResult::Pass, ..Facts::default() };
            assert!(found("a@good.com", &facts).is_empty(), "{doubt:?}");
        }
        for doubt in [AuthResult::Fail, AuthResult::SoftFail, AuthResult::TempError] {
            let facts = Facts { dmarc: AuthResult::None, spf: doubt, ..Facts::default() };
            assert!(found("a@good.com", &facts).is_empty(), "{doubt:?}");
            let from_good = Envelope { mail_from: "a@good.com".into(), ..Envelope::default() };
            let hits = find_with(&filter(), "From: a@x.com\n\nhi\n", &from_good, &facts).hits;
            assert!(hits.is_empty(), "{doubt:?}");
        }
    }
}
