//! The way a message came in: the client's own word against what our server saw of it.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `HELO_NUMBER` | 1.5 | the client calls itself by a bare number |
//! | `HELO_LOCAL` | 1.6 | the client calls itself `localhost` or by a word without a dot |
//! | `HELO_RECIPIENT` | 1.0 | the client calls itself by the domain of the recipient |
//! | `CLIENT_DIAL_UP` | 1.5 | the client's name has its address and is dynamic or residential |
//! | `FREEMAIL_ELSEWHERE` | 2.0 | a free mail sender, and none of its servers on the way |
//!
//! The client is the envelope's when there is one, else that of the Received field by which the
//! message came in from outside. Messages that came by a mailing list are spared the last rule.

use std::net::IpAddr;

use gauntlet_mail::{Evidence, View, address};

use crate::filter::{Filter, Findings, Item};
use crate::filters::header_form::field_evidence;
use crate::rule_registry::{Rule, RuleRegistry};
use crate::scratch::Scratch;

/// Domains of free mail providers, and words of which one is in the name of each of their servers.
const PROVIDERS: [(&[&str], &[&str]); 5] = [
    (&["gmail.com", "googlemail.com"], &["google", "gmail"]),
    (&["yahoo.com", "yahoo.co.uk", "yahoo.de", "yahoo.fr", "ymail.com"], &["yahoo"]),
    (
        &["hotmail.com", "outlook.com", "live.com", "msn.com", "hotmail.co.uk", "hotmail.fr"],
        &["hotmail", "outlook", "microsoft", "msn", "live.com"],
    ),
    (&["aol.com"], &["aol", "yahoo"]),
    (&["gmx.de", "gmx.net", "web.de"], &["gmx", "web.de", "kundenserver"]),
];

/// Words of which one is in the names that providers give to their customers' lines. Rented servers
/// have their number in the name too.
const RESIDENTIAL_NAME_PARTS: [&str; 14] = [
    "dsl",
    "dyn",
    "dial",
    "pool",
    "cable",
    "ppp",
    "cust",
    "client",
    "broadband",
    "dhcp",
    "user",
    "home",
    "fiber",
    "mobile",
];

/// Looks at client, HELO and relays.
#[derive(Debug)]
pub struct Path {
    helo_number: Rule,
    helo_local: Rule,
    helo_recipient: Rule,
    dynamic_address: Rule,
    freemail_elsewhere: Rule,
}

/// What the client called itself, its address, and its name.
struct Client<'a> {
    helo: &'a str,
    ip: Option<IpAddr>,
    name: &'a str,
}

impl Path {
    /// The filter with its rules.
    pub fn new(registry: &mut RuleRegistry) -> Self {
        let mut rule = |name, score, description| registry.points(name, score, description);
        Path {
            helo_number: rule("HELO_NUMBER", 1.5, "HELO is a bare IP address"),
            helo_local: rule("HELO_LOCAL", 1.6, "HELO is localhost or has no dot"),
            helo_recipient: rule("HELO_RECIPIENT", 1.0, "HELO is the recipient's domain"),
            dynamic_address: rule(
                "CLIENT_DIAL_UP",
                1.5,
                "Client has a dynamic or residential reverse DNS name",
            ),
            freemail_elsewhere: rule(
                "FREEMAIL_ELSEWHERE",
                2.0,
                "Freemail sender, but no relay of that provider",
            ),
        }
    }

    fn helo(&self, item: &Item<'_>, client: &Client<'_>, findings: &mut Findings) {
        let helo = client.helo.trim_end_matches('.').to_ascii_lowercase();
        if helo.is_empty() {
            return;
        }
        let at = || Evidence::new(View::Envelope, 0, 0, client.helo.as_bytes()).named("helo");
        if helo.parse::<IpAddr>().is_ok() {
            findings.add(&self.helo_number, at());
        } else if !helo.contains(['.', '[', ':']) || helo.ends_with("localhost.localdomain") {
            findings.add(&self.helo_local, at());
        }
        let to = item.envelope.rcpt_to.first().cloned().or_else(|| {
            let field = item.message.header("to")?;
            Some(address::mailboxes(&field.unfolded(), 1).into_iter().next()?.address)
        });
        let domain = to.as_deref().and_then(|to| to.rsplit_once('@')).map(|(_, domain)| domain);
        let seen = client.name.to_ascii_lowercase();
        // Without a name of its own the client may well be one of the domain's servers.
        let is_other = !seen.is_empty() && !seen.ends_with(&helo);
        if is_other && domain.is_some_and(|d| helo.eq_ignore_ascii_case(d)) {
            findings.add(&self.helo_recipient, at());
        }
    }

    /// A name such as `203-0-113-9.dsl.example.net`: every byte of the address stands in it.
    fn dynamic_address(&self, client: &Client<'_>, findings: &mut Findings) {
        let Some(IpAddr::V4(ip)) = client.ip else { return };
        let numbers: Vec<u32> = client
            .name
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse().ok())
            .collect();
        let octets = ip.octets().map(u32::from);
        let backwards = [octets[3], octets[2], octets[1], octets[0]];
        let name = client.name.to_ascii_lowercase();
        if !RESIDENTIAL_NAME_PARTS.iter().any(|word| name.contains(word)) {
            return;
        }
        let holds = |order: &[u32; 4]| numbers.windows(4).any(|w| w == order);
        if holds(&octets) || holds(&backwards) {
            let at = Evidence::new(View::Envelope, 0, 0, client.name.as_bytes());
            findings.add(&self.dynamic_address, at.named("client_name"));
        }
    }

    fn provider(&self, item: &Item<'_>, client: &Client<'_>, findings: &mut Findings) {
        let message = item.message;
        let (Some(from), Some(field)) = (message.from(), message.header("from")) else { return };
        let domain = from.domain().to_ascii_lowercase();
        let Some((_, words)) = PROVIDERS.iter().find(|(d, _)| d.contains(&&*domain)) else {
            return;
        };
        let relayed = ["list-id", "list-post", "resent-from", "list-unsubscribe", "mailing-list"];
        if relayed.iter().any(|name| message.header(name).is_some()) {
            return;
        }
        let known = |name: &str| {
            let lower = name.to_ascii_lowercase();
            words.iter().any(|word| lower.contains(word))
        };
        let relays = message.relays();
        let nothing = relays.iter().all(|r| r.ip.is_none()) && client.ip.is_none();
        let on_the_way = known(client.name)
            || known(client.helo)
            || relays.iter().any(|r| known(&r.rdns) || known(&r.helo) || known(&r.by));
        if !nothing && !on_the_way {
            findings.add(&self.freemail_elsewhere, field_evidence(field));
        }
    }
}

impl Filter for Path {
    fn name(&self) -> &'static str {
        "path"
    }

    fn run(&self, item: &Item<'_>, _: &mut Scratch, findings: &mut Findings) {
        let envelope = item.envelope;
        let entry = item.message.trust_path(&[]).entry;
        let entry = entry.and_then(|i| item.message.relays().get(i));
        let client = match entry {
            _ if envelope.client_ip.is_some() => Client {
                helo: &envelope.helo,
                ip: envelope.client_ip,
                name: envelope.client_name.as_deref().unwrap_or_default(),
            },
            Some(relay) => Client { helo: &relay.helo, ip: relay.ip, name: &relay.rdns },
            None => return,
        };
        if envelope.auth_user.is_none() {
            self.helo(item, &client, findings);
            self.dynamic_address(&client, findings);
            self.provider(item, &client, findings);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::{find, hits};
    use gauntlet_mail::Envelope;

    fn found(from: &str, received: &str) -> Vec<String> {
        let filter = Path::new(&mut RuleRegistry::default());
        hits(
            &filter,
            &format!(
                "Received: from {received} by mx.home.com with SMTP; Sat, 21 Nov 2026 10:00:00 +0000\n\
                 From: {from}\nTo: bob@home.com\n\nhi\n"
            ),
        )
    }

    #[test]
    fn one_way_for_each_rule() {
        let cases = [
            ("a@shop.com", "198.51.100.7 (mail.shop.com [198.51.100.7])", "HELO_NUMBER"),
            ("a@shop.com", "friend (mail.shop.com [198.51.100.7])", "HELO_LOCAL"),
            ("a@shop.com", "home.com (mail.shop.com [198.51.100.7])", "HELO_RECIPIENT"),
            (
                "a@shop.com",
                "x.shop.com (198-51-100-7.dsl.isp.com [198.51.100.7])",
                "CLIENT_DIAL_UP",
            ),
            ("a@gmail.com", "mail.shop.com (mail.shop.com [198.51.100.7])", "FREEMAIL_ELSEWHERE"),
        ];
        for (from, received, rule) in cases {
            assert_eq!(found(from, received), [rule], "{received}");
        }
    }

    #[test]
    fn honest_ways() {
        let shop = "mail.shop.com (mail.shop.com [198.51.100.7])";
        assert!(found("a@shop.com", shop).is_empty());
        let gmail = "mail-ab1.google.com (mail-ab1.google.com [198.51.100.7])";
        assert!(found("a@gmail.com", gmail).is_empty());
        let user = Envelope {
            client_ip: "198.51.100.7".parse().ok(),
            helo: "laptop".into(),
            auth_user: Some("ann".into()),
            ..Envelope::default()
        };
        let filter = Path::new(&mut RuleRegistry::default());
        assert!(find(&filter, "From: a@gmail.com\n\nhi\n", &user).hits.is_empty());
    }
}
