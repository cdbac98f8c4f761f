//! The claimed sender of the message, and signs that it is forged.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `FROM_NAME_OTHER_ADDRESS` | 2.0 phishing | the name is an address of another organization |
//! | `FROM_NAME_OTHER_DOMAIN` | 1.5 phishing | a much imitated firm's host, the address elsewhere |
//! | `FROM_NAME_BRAND` | 2.5 phishing | the name of a much imitated firm, the address is not |
//! | `FROM_LOOKALIKE` | 3.0 phishing | the domain looks like that of a much imitated firm |
//! | `FROM_BRAND_INSIDE` | 2.0 phishing | a brand name in the domain of another owner |
//! | `REPLY_TO_FREEMAIL` | 2.0 | replies go to a free mail box, the sender is elsewhere |
//! | `REPLY_TO_OTHER_FREEMAIL` | 1.8 | From and Reply-To are different free mail boxes |
//! | `ENVELOPE_FREEMAIL` | 0.5 | the envelope's sender is a free mail box elsewhere |
//! | `FROM_IS_TO` | 0.6 | the sender is the recipient |
//! | `FROM_MANY_DIGITS` | 0.7 | the local part has many digits between letters |
//! | `FROM_PUNYCODE` | 0.7 | the domain is written in another alphabet |
//!
//! Limits: the first From, Reply-To and To mailboxes. Mailing lists rewrite From and Reply-To, so
//! that messages with a `List-Id` or `List-Post` are spared the rules on addresses for replies.

use std::collections::HashSet;
use std::sync::Arc;

use gauntlet_mail::address::{self, Mailbox};
use gauntlet_mail::{Evidence, Message, View};

use crate::filter::{Filter, Findings, Item};
use crate::filters::header_form::field_evidence;
use crate::lookalike::{Brands, Likeness, organizational_domain};
use crate::rule_registry::{Rule, RuleRegistry};
use crate::scratch::Scratch;

/// Rules that say that the sender pretends to be somebody else.
pub(crate) const IMITATIONS: [&str; 5] = [
    "FROM_NAME_OTHER_ADDRESS",
    "FROM_NAME_OTHER_DOMAIN",
    "FROM_NAME_BRAND",
    "FROM_LOOKALIKE",
    "FROM_BRAND_INSIDE",
];

/// Longer display names are prose, and hold many words.
const NAME_BYTES_MAX: usize = 100;
const DIGITS_MIN: usize = 5;

/// Looks at the identities in From, Reply-To, To and the envelope.
#[derive(Debug)]
pub struct Sender {
    brands: Arc<Brands>,
    freemail: HashSet<&'static str>,
    name_other_address: Rule,
    name_other_domain: Rule,
    name_brand: Rule,
    lookalike: Rule,
    brand_inside: Rule,
    reply_to_freemail: Rule,
    reply_to_other_freemail: Rule,
    envelope_freemail: Rule,
    from_is_to: Rule,
    many_digits: Rule,
    punycode: Rule,
}

impl Sender {
    /// The filter with its rules.
    pub fn new(registry: &mut RuleRegistry, brands: Arc<Brands>) -> Self {
        let mut phishing = |name, score, description| registry.phishing(name, score, description);
        let name_other_address = phishing(
            "FROM_NAME_OTHER_ADDRESS",
            2.0,
            "From: display name is an address of another domain",
        );
        let name_other_domain = phishing(
            "FROM_NAME_OTHER_DOMAIN",
            1.5,
            "From: display name contains a brand's host, the address is elsewhere",
        );
        let name_brand =
            phishing("FROM_NAME_BRAND", 2.5, "From: display name is a brand, the address is not");
        let lookalike = phishing("FROM_LOOKALIKE", 3.0, "From: domain is a lookalike of a brand");
        let brand_inside = phishing(
            "FROM_BRAND_INSIDE",
            2.0,
            "From: domain of another owner contains a brand name",
        );
        let mut points = |name, score, description| registry.points(name, score, description);
        Sender {
            brands,
            freemail: freemail(),
            name_other_address,
            name_other_domain,
            name_brand,
            lookalike,
            brand_inside,
            reply_to_freemail: points(
                "REPLY_TO_FREEMAIL",
                2.0,
                "Reply-To: is freemail, From: is not",
            ),
            reply_to_other_freemail: points(
                "REPLY_TO_OTHER_FREEMAIL",
                1.8,
                "Reply-To: and From: are different freemail addresses",
            ),
            envelope_freemail: points(
                "ENVELOPE_FREEMAIL",
                0.5,
                "Envelope sender is freemail, From: is not",
            ),
            from_is_to: points("FROM_IS_TO", 0.6, "From: and To: are the same address"),
            many_digits: points("FROM_MANY_DIGITS", 0.7, "From: address has many digits"),
            punycode: points(
                "FROM_PUNYCODE",
                0.7,
                "From: domain is an internationalised name (IDN)",
            ),
        }
    }

    fn display_name(&self, from: &Mailbox, own: &str, at: &Evidence, findings: &mut Findings) {
        if from.name.is_empty() || from.name.len() > NAME_BYTES_MAX {
            return;
        }
        let name = from.name.to_lowercase();
        let words = || name.split(|c: char| c.is_whitespace() || "<>()[]\"',;|".contains(c));
        let other = |host: &str| {
            let organizational_domain = organizational_domain(host);
            organizational_domain.is_some_and(|o| o != own && !self.brands.same_owner(o, own))
        };
        if let Some(address) = words().find(|w| w.contains('@') && w.contains('.')) {
            let host = address.rsplit('@').next().unwrap_or_default();
            if other(host.trim_end_matches('.')) {
                findings.add(&self.name_other_address, at.clone());
            }
            return;
        }
        // Only of firms we know: names and initials look like hosts too ("R.Hughes", "News.com").
        let imitated = |word: &str| self.brands.owned(word) && other(word);
        if words().any(|word| looks_like_host(word) && imitated(word)) {
            findings.add(&self.name_other_domain, at.clone());
            return;
        }
        let brand = self.brands.named(&from.name);
        if brand.is_some_and(|brand| !brand.owns(own) && !is_own_domain(brand, own)) {
            findings.add(&self.name_brand, at.clone());
        }
    }

    fn domain(&self, domain: &str, at: &Evidence, findings: &mut Findings) {
        match self.brands.imitated(domain) {
            Some((_, Likeness::Confusable | Likeness::Typo)) => {
                findings.add(&self.lookalike, at.clone());
            }
            Some((_, Likeness::Inside)) => findings.add(&self.brand_inside, at.clone()),
            None => {}
        }
        if domain.split('.').any(|label| label.starts_with("xn--")) || !domain.is_ascii() {
            findings.add(&self.punycode, at.clone());
        }
    }

    fn replies(&self, item: &Item<'_>, from: &Mailbox, own: &str, findings: &mut Findings) {
        let message = item.message;
        if is_list(message) {
            return;
        }
        let from_free = self.freemail.contains(own);
        if let Some((field, reply)) = first_mailbox(message, "reply-to") {
            let domain = reply.domain().to_ascii_lowercase();
            let differs = !reply.address.eq_ignore_ascii_case(&from.address);
            if differs && self.freemail.contains(&*domain) {
                let rule =
                    if from_free { &self.reply_to_other_freemail } else { &self.reply_to_freemail };
                if !from_free || domain != own {
                    findings.add(rule, field);
                }
            }
        }
        let sender = &item.envelope.mail_from;
        let domain = sender.rsplit_once('@').map_or("", |(_, d)| d).to_ascii_lowercase();
        if self.freemail.contains(&*domain) && domain != own && !from_free {
            let at = Evidence::new(View::Envelope, 0, 0, sender.as_bytes()).named("mail_from");
            findings.add(&self.envelope_freemail, at);
        }
    }
}

impl Filter for Sender {
    fn name(&self) -> &'static str {
        "sender"
    }

    fn run(&self, item: &Item<'_>, _: &mut Scratch, findings: &mut Findings) {
        let Some((at, from)) = first_mailbox(item.message, "from") else { return };
        let domain = from.domain().trim_end_matches('.').to_lowercase();
        let own = organizational_domain(&domain).unwrap_or(&domain);
        self.display_name(&from, own, &at, findings);
        self.domain(&domain, &at, findings);
        self.replies(item, &from, own, findings);
        if let Some((to_at, to)) = first_mailbox(item.message, "to")
            && !from.address.is_empty()
            && to.address.eq_ignore_ascii_case(&from.address)
            && !is_list(item.message)
        {
            findings.add(&self.from_is_to, to_at);
        }
        let local = from.local_part();
        let digits = local.bytes().filter(u8::is_ascii_digit).count();
        let machine = local.contains(['=', '+']) || local.len() > 32;
        if digits >= DIGITS_MIN && digits < local.len() && !machine {
            findings.add(&self.many_digits, at);
        }
    }

    fn data_version(&self) -> String {
        let text = [include_str!("../../data/brands.tsv"), include_str!("../../data/freemail.txt")];
        blake3::hash(text.concat().as_bytes()).to_hex().to_string()
    }
}

/// The domains of `data/freemail.txt`.
pub(super) fn freemail() -> HashSet<&'static str> {
    include_str!("../../data/freemail.txt").lines().filter(|l| !l.starts_with('#')).collect()
}

/// A firm may own more domains than we know: one that is its very name is given the benefit.
fn is_own_domain(brand: &crate::lookalike::Brand, domain: &str) -> bool {
    let first = domain.split('.').next().unwrap_or_default();
    brand.labels.iter().any(|label| label == first)
}

fn looks_like_host(word: &str) -> bool {
    let plain = word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'));
    plain && word.contains('.') && organizational_domain(word).is_some()
}

fn is_list(message: &Message<'_>) -> bool {
    message.header("list-id").is_some() || message.header("list-post").is_some()
}

/// The first mailbox of the first field of this name, and the field's value as evidence.
fn first_mailbox(message: &Message<'_>, name: &str) -> Option<(Evidence, Mailbox)> {
    let field = message.header(name)?;
    let mailbox = match name {
        "from" => message.from(),
        _ => address::mailboxes(&field.unfolded(), 1).into_iter().next(),
    };
    Some((field_evidence(field), mailbox?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{find, hits};
    use gauntlet_mail::Envelope;

    fn filter() -> Sender {
        Sender::new(&mut RuleRegistry::default(), Arc::new(Brands::shipped()))
    }

    #[test]
    fn one_message_for_each_rule() {
        let cases = [
            ("From: \"service@paypal.com\" <x@shop.com>\n", "FROM_NAME_OTHER_ADDRESS"),
            ("From: \"www.sparkasse.de\" <x@shop.com>\n", "FROM_NAME_OTHER_DOMAIN"),
            ("From: PayPal Support <x@shop.com>\n", "FROM_NAME_BRAND"),
            ("From: <x@paypa1.com>\n", "FROM_LOOKALIKE"),
            ("From: <x@netflix-billing.com>\n", "FROM_BRAND_INSIDE"),
            ("From: a@shop.com\nReply-To: b@gmail.com\n", "REPLY_TO_FREEMAIL"),
            ("From: a@gmail.com\nReply-To: b@yahoo.com\n", "REPLY_TO_OTHER_FREEMAIL"),
            ("From: a@shop.com\nTo: A@shop.com\n", "FROM_IS_TO"),
            ("From: ann83910x@shop.com\n", "FROM_MANY_DIGITS"),
            ("From: a@xn--mnchen-3ya.de\n", "FROM_PUNYCODE"),
        ];
        for (mail, rule) in cases {
            assert_eq!(hits(&filter(), &format!("{mail}\nhi\n")), [rule], "{mail}");
        }
        let envelope = Envelope { mail_from: "x@gmail.com".into(), ..Envelope::default() };
        let found = find(&filter(), "From: a@shop.com\n\nhi\n", &envelope);
        assert_eq!(&*found.hits[0].rule, "ENVELOPE_FREEMAIL");
    }

    #[test]
    fn honest_senders() {
        for mail in [
            "From: PayPal <service@mail.paypal.com>\n",
            "From: \"ann@shop.com\" <ann@mail.shop.com>\n",
            "From: Amazon Web Services <no-reply@amazonaws.com>\n",
            "From: Ann Smith <ann.smith@gmail.com>\nReply-To: ann@gmail.com\n",
            "From: a@lists.com\nReply-To: b@gmail.com\nList-Id: <x.lists.com>\n",
            "From: Dr. J.Doe <x@shop.com>\n",
        ] {
            assert!(hits(&filter(), &format!("{mail}\nhi\n")).is_empty(), "{mail}");
        }
    }
}
