//! Where the links of a message lead, and whether they say so.
//!
//! | Rule | Points | Says |
//! |---|---|---|
//! | `URL_TEXT_BRAND` | 3.0 phishing | the text is an imitated firm's address, the link is not |
//! | `URL_TEXT_MISMATCH` | 0.5 | the text is an address, the link goes to another organization |
//! | `URL_LOOKALIKE` | 2.5 phishing | the host looks like that of a much imitated firm |
//! | `URL_BRAND_INSIDE` | 0.4 phishing | a brand name in the host of another owner |
//! | `URL_PUNYCODE` | 0.8 | a host in another alphabet |
//! | `URL_IP` | 1.8 phishing | a number instead of a host |
//! | `URL_IP_DISGUISED` | 2.5 phishing | an obfuscated IP address |
//! | `URL_USER_INFO` | 2.0 phishing | something before an `@` that looks like the host and is not |
//! | `URL_ESCAPED_HOST` | 1.5 | a host written with escapes |
//! | `URL_MANY_LABELS` | 0.8 | a host of seven or more labels |
//! | `URL_SHORTENER` | 0.6 | a service that hides where the link goes |
//! | `URL_FREE_HOSTING` | 0.4 | a page on a service where anybody publishes at once |
//! | `URL_ODD_TLD` | 0.7 | a top-level domain that unwanted mail likes |
//! | `URL_SCRIPT` | 1.0 phishing | a link that runs script or holds a whole page |
//! | `URL_HAS_RECIPIENT` | 0.2 | a link that carries the recipient's address |
//!
//! Limits: the URLs that the parser kept ([`gauntlet_mail::Limits::urls_max`]); each host is judged
//! once.

use std::collections::HashSet;
use std::sync::Arc;

use gauntlet_mail::url::canonical;
use gauntlet_mail::{Evidence, Message, Url, UrlSource, UrlTraits, View, address};

use crate::filter::{Filter, Findings, Item};
use crate::lookalike::{Brands, Likeness, is_below};
use crate::rule_registry::{Rule, RuleRegistry};
use crate::scratch::Scratch;

const LABELS_MIN: usize = 7;
/// Link texts longer than this are prose.
const TEXT_BYTES_MAX: usize = 200;

/// Gateways that replace links by their own, so that a click passes them.
const REWRITERS: [&str; 10] = [
    "proofpoint.com",
    "outlook.com",
    "mimecast.com",
    "mimecastprotect.com",
    "barracudanetworks.com",
    "cudasvc.com",
    "sophos.com",
    "fireeye.com",
    "trendmicro.com",
    "cisco.com",
];

/// The filter of links: their hosts, forms, and the texts they stand under.
#[derive(Debug)]
pub struct Urls {
    brands: Arc<Brands>,
    shorteners: HashSet<&'static str>,
    free_hosting: Vec<&'static str>,
    suspicious_tlds: HashSet<&'static str>,
    rules: Rules,
}

#[derive(Debug)]
struct Rules {
    text_brand: Rule,
    text_mismatch: Rule,
    lookalike: Rule,
    brand_inside: Rule,
    punycode: Rule,
    ip: Rule,
    ip_disguised: Rule,
    user_info: Rule,
    escaped_host: Rule,
    many_labels: Rule,
    shortener: Rule,
    free_hosting: Rule,
    suspicious_tld: Rule,
    script: Rule,
    has_recipient: Rule,
}

impl Rules {
    fn new(registry: &mut RuleRegistry) -> Self {
        let mut phishing = |name, score, description| registry.phishing(name, score, description);
        let text_brand = phishing(
            "URL_TEXT_BRAND",
            3.0,
            "Link text shows a brand's URL, the target is elsewhere",
        );
        let lookalike = phishing("URL_LOOKALIKE", 2.5, "URL host is a lookalike of a brand");
        let brand_inside =
            phishing("URL_BRAND_INSIDE", 0.4, "URL host of another owner contains a brand name");
        let ip = phishing("URL_IP", 1.8, "URL with an IP address as host");
        let ip_disguised =
            phishing("URL_IP_DISGUISED", 2.5, "URL with an obfuscated IP address as host");
        let user_info = phishing("URL_USER_INFO", 2.0, "URL with user information before the host");
        let script = phishing("URL_SCRIPT", 1.0, "URL runs a script or is a data: page");
        let mut points = |name, score, description| registry.points(name, score, description);
        Rules {
            text_brand,
            lookalike,
            brand_inside,
            ip,
            ip_disguised,
            user_info,
            script,
            text_mismatch: points(
                "URL_TEXT_MISMATCH",
                0.5,
                "Link text shows a URL of another domain than the target",
            ),
            punycode: points("URL_PUNYCODE", 0.8, "URL host is an internationalised name (IDN)"),
            escaped_host: points("URL_ESCAPED_HOST", 1.5, "URL host is percent-encoded"),
            many_labels: points("URL_MANY_LABELS", 0.8, "URL host has seven or more labels"),
            shortener: points("URL_SHORTENER", 0.6, "URL of a link shortener"),
            free_hosting: points("URL_FREE_HOSTING", 0.4, "URL of a free hosting service"),
            suspicious_tld: points("URL_ODD_TLD", 0.7, "URL with a suspicious TLD"),
            has_recipient: points("URL_HAS_RECIPIENT", 0.2, "URL contains the recipient's address"),
        }
    }
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|l| !l.is_empty() && !l.starts_with('#'))
}

impl Urls {
    /// The filter with its rules.
    pub fn new(registry: &mut RuleRegistry, brands: Arc<Brands>) -> Self {
        Urls {
            brands,
            shorteners: lines(include_str!("../../data/shorteners.txt")).collect(),
            free_hosting: lines(include_str!("../../data/free_hosting.txt")).collect(),
            suspicious_tlds: lines(include_str!("../../data/odd_tlds.txt")).collect(),
            rules: Rules::new(registry),
        }
    }

    fn host(&self, url: &Url, findings: &mut Findings) {
        let (host, registrable) = (url.canonical.host(), url.canonical.registrable_domain());
        let at = || evidence(url);
        let unicode = host.contains("xn--").then(|| idna::domain_to_unicode(host).0);
        match self.brands.imitated(unicode.as_deref().unwrap_or(host)) {
            Some((_, Likeness::Confusable | Likeness::Typo)) => {
                findings.add(&self.rules.lookalike, at());
            }
            Some((_, Likeness::Inside)) => findings.add(&self.rules.brand_inside, at()),
            None => {}
        }
        if host.split('.').count() >= LABELS_MIN && !host.starts_with('[') {
            findings.add(&self.rules.many_labels, at());
        }
        if self.shorteners.contains(registrable) {
            findings.add(&self.rules.shortener, at());
        }
        if self.free_hosting.iter().any(|domain| host != *domain && is_below(host, domain)) {
            findings.add(&self.rules.free_hosting, at());
        }
        let top = host.rsplit('.').next().unwrap_or_default();
        if self.suspicious_tlds.contains(top) {
            findings.add(&self.rules.suspicious_tld, at());
        }
    }

    fn traits(&self, url: &Url, findings: &mut Findings) {
        let traits = url.canonical.traits();
        let rules = &self.rules;
        // A bare number in text is a version or an amount more often than a host.
        let meant = !traits.has(UrlTraits::NO_SCHEME);
        let disguised = traits.has(UrlTraits::IP_DISGUISED);
        let remarkable = [
            (UrlTraits::IP, &rules.ip, meant && !disguised && !is_private(url.canonical.host())),
            (UrlTraits::IP_DISGUISED, &rules.ip_disguised, meant),
            (UrlTraits::USER_INFO, &rules.user_info, meant),
            (UrlTraits::IDN, &rules.punycode, true),
            (UrlTraits::ESCAPED_HOST, &rules.escaped_host, true),
        ];
        for (bit, rule, counts) in remarkable {
            if counts && traits.has(bit) {
                findings.add(rule, evidence(url));
            }
        }
    }

    fn link_text(&self, item: &Item<'_>, url: &Url, own: &str, findings: &mut Findings) {
        let Some(text) = item.message.link_text(url).map(str::trim) else { return };
        if text.len() > TEXT_BYTES_MAX || !text.contains('.') || text.contains(char::is_whitespace)
        {
            return;
        }
        let Some(shown) = canonical(text).filter(|s| s.scheme() != "mailto") else { return };
        let (shown_domain, domain) =
            (shown.registrable_domain(), url.canonical.registrable_domain());
        let named = crate::lookalike::organizational_domain(shown.host()).is_some();
        let rewritten = REWRITERS.contains(&domain);
        if rewritten
            || !named
            || shown_domain == domain
            || self.brands.same_owner(shown_domain, domain)
        {
            return;
        }
        // A brand's own mail links through the click tracker of its mailing service.
        let at = evidence(url).named(&gauntlet_mail::evidence::quote(text.as_bytes()));
        if self.brands.owned(shown.host())
            && shown_domain != own
            && !self.brands.same_owner(shown_domain, own)
        {
            findings.add(&self.rules.text_brand, at);
        } else if domain != own {
            findings.add(&self.rules.text_mismatch, at);
        }
    }

    /// Links without a host: script, and pages in the link itself.
    fn script(&self, message: &Message<'_>, findings: &mut Findings) {
        for text in message.texts() {
            let Some(page) = text.part.rendered() else { continue };
            let source = text.part.text().unwrap_or_default();
            let links = page.links.iter().filter(|l| {
                matches!(l.source, UrlSource::Href | UrlSource::Action | UrlSource::MetaRefresh)
            });
            for link in links {
                let range = link.value.start as usize..link.value.end as usize;
                let value = source.get(range.clone()).unwrap_or_default().trim_start();
                let head = scheme_head(value);
                // `javascript:void(0)` is what editors put where nothing shall happen.
                let runs = head.starts_with("javascript:") && !head.starts_with("javascript:void");
                if runs || head.starts_with("data:text/html") || head.starts_with("vbscript:") {
                    let at = Evidence::new(View::Html, text.index, range.start, value.as_bytes());
                    findings.add(&self.rules.script, at);
                }
            }
        }
    }
}

impl Filter for Urls {
    fn name(&self) -> &'static str {
        "urls"
    }

    fn reads_objects(&self) -> bool {
        true
    }

    fn run(&self, item: &Item<'_>, _: &mut Scratch, findings: &mut Findings) {
        let own = item.message.from().map(|f| f.domain().to_lowercase()).unwrap_or_default();
        let own = crate::lookalike::organizational_domain(&own).unwrap_or(&own);
        let recipient = recipient(item).filter(|r| r.len() > 5);
        let mut hosts = HashSet::new();
        for url in item.message.urls() {
            if url.canonical.scheme() == "mailto" || url.source == UrlSource::BareHost {
                continue;
            }
            if hosts.insert(url.canonical.host()) {
                self.host(url, findings);
            }
            self.traits(url, findings);
            if url.source == UrlSource::Href {
                self.link_text(item, url, own, findings);
            }
            if recipient.as_ref().is_some_and(|r| carries(&url.raw, r)) {
                findings.add(&self.rules.has_recipient, evidence(url));
            }
        }
        self.script(item.message, findings);
    }

    fn data_version(&self) -> String {
        let text = [
            include_str!("../../data/shorteners.txt"),
            include_str!("../../data/free_hosting.txt"),
            include_str!("../../data/odd_tlds.txt"),
        ];
        blake3::hash(text.concat().as_bytes()).to_hex().to_string()
    }
}

/// The beginning of a link as browsers read it, in lower case: character references decoded,
/// control characters dropped (URL Standard, section 4.4).
fn scheme_head(value: &str) -> String {
    let decoded = gauntlet_mail::html::entity::decode(value.as_bytes(), true);
    let letters = decoded.iter().filter(|b| **b > b' ').take(24);
    letters.map(|b| char::from(b.to_ascii_lowercase())).collect()
}

fn evidence(url: &Url) -> Evidence {
    let mut at = Evidence::new(url.view, url.part, url.offset as usize, url.raw.as_bytes());
    at.length = url.length;
    if url.view == View::Header {
        return at.named("Subject");
    }
    at
}

/// The recipient: of the envelope, else of the To field.
fn recipient(item: &Item<'_>) -> Option<String> {
    let first = item.envelope.rcpt_to.first().cloned();
    first.or_else(|| {
        let field = item.message.header("to")?;
        Some(address::mailboxes(&field.unfolded(), 1).into_iter().next()?.address)
    })
}

/// Whether the URL holds the address, as it is or with its `@` escaped.
fn carries(url: &str, address: &str) -> bool {
    let Some((local, domain)) = address.split_once('@') else { return false };
    let Some(at) = url.find(local) else { return false };
    let rest = &url[at + local.len()..];
    let rest = rest.strip_prefix('@').or_else(|| rest.strip_prefix("%40"));
    !local.is_empty() && rest.is_some_and(|r| r.starts_with(domain))
}

fn is_private(host: &str) -> bool {
    host.parse::<std::net::Ipv4Addr>().is_ok_and(|ip| ip.is_private() || ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::testing::hits;

    fn found(body: &str) -> Vec<String> {
        let filter = Urls::new(&mut RuleRegistry::default(), Arc::new(Brands::shipped()));
        let mail = format!(
            "From: a@shop.com\nTo: bob@here.com\nContent-Type: text/html\n\n<p>{body}</p>\n"
        );
        hits(&filter, &mail)
    }

    #[test]
    fn one_link_for_each_rule() {
        let cases = [
            ("<a href='http://evil.com/x'>www.paypal.com</a>", "URL_TEXT_BRAND"),
            ("<a href='http://evil.com/x'>www.other.com</a>", "URL_TEXT_MISMATCH"),
            ("<a href='http://paypa1.com/'>x</a>", "URL_LOOKALIKE"),
            ("<a href='http://netflix-billing.com/'>x</a>", "URL_BRAND_INSIDE"),
            ("<a href='http://xn--mnchen-3ya.de/'>x</a>", "URL_PUNYCODE"),
            ("<a href='http://203.0.113.9/login'>x</a>", "URL_IP"),
            ("<a href='http://www.bank.com@evil.com/'>x</a>", "URL_USER_INFO"),
            ("<a href='http://a.b.c.d.e.f.evil.com/'>x</a>", "URL_MANY_LABELS"),
            ("<a href='https://tinyurl.com/abc'>x</a>", "URL_SHORTENER"),
            ("<a href='https://login.weebly.com/'>x</a>", "URL_FREE_HOSTING"),
            ("<a href='https://offers.icu/'>x</a>", "URL_ODD_TLD"),
            ("<a href='javascript:go(1)'>x</a>", "URL_SCRIPT"),
            ("<a href='&#1; java&Tab;script&colon;go(1)'>x</a>", "URL_SCRIPT"),
            ("<a href='https://evil.com/?u=bob%40here.com'>x</a>", "URL_HAS_RECIPIENT"),
        ];
        for (body, rule) in cases {
            assert_eq!(found(body), [rule], "{body}");
        }
    }

    #[test]
    fn honest_links() {
        for body in [
            "<a href='https://www.shop.com/x'>www.shop.com</a>",
            "<a href='https://click.shop.com/x'>www.other.com</a>",
            "<a href='https://www.paypal.com/x'>PayPal</a>",
            "<a href='https://example.com/'>Release 1.2.3.4</a>",
            "<a href='javascript:void(0)'>x</a>",
        ] {
            assert!(found(body).is_empty(), "{body}: {:?}", found(body));
        }
    }
}
