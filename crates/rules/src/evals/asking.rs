//! Which questions network rules ask of the DNS about a message.
//!
//! A [`Plan`] is what one rule asks, found when rules are loaded. The same plan makes the questions
//! before the scan (for who gathers facts) and during it (to find the answers), so that both always
//! agree.

use std::net::IpAddr;

use super::EvalContext;
use super::lists::all_from;
use super::net;
use super::network::LinkRules;
use crate::questions::{About, Question, RecordType};
use crate::views::Relay;

/// Names that one template is expanded to.
const EXPANSIONS_MAX: usize = 20;
/// Longest name that is asked for (RFC 1035 section 3.1).
const NAME_BYTES_MAX: usize = 253;
/// Relays that are looked up in one list, as SpamAssassin's `num_check_received`.
const RELAYS_MAX: usize = 9;

/// What one rule asks.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Plan {
    /// Addresses of relays, in a list.
    Relays {
        /// Name of the set; its end says which relays.
        set: String,
        zone: String,
        kind: RecordType,
        /// A welcome list: trusted relays are looked up too.
        nice: bool,
    },
    /// Hosts of senders, in a list.
    Senders { of: Senders, zone: String },
    /// Hosts of links, in a list.
    Links { how: LinkLookup, zone: String, kind: RecordType, only: LinkHosts },
    /// Names made from tags.
    Template { pieces: Vec<Piece>, kinds: Vec<RecordType> },
    /// Whether senders' domains exist.
    SenderExists,
}

/// Whose hosts are asked for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Senders {
    /// Hosts of the From addresses.
    FromHost,
    /// Their registered domains.
    FromDomain,
    /// Hosts of the addresses in these header fields.
    Fields(Vec<String>),
}

/// How links are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkLookup {
    /// Registered domain before the zone.
    Domain,
    /// Host before the zone.
    Host,
    /// Addresses of the host.
    Addresses,
    /// Addresses of the domain's name servers.
    Servers,
    /// Both.
    AddressesAndServers,
    /// Names of the domain's name servers; the whole names or their registered domains.
    ServerNames { whole: bool },
}

/// Which hosts of links are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkHosts {
    All,
    Names,
    Addresses,
}

/// A piece of an `askdns` template.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Tag(String),
}

/// The pieces of `_TAG_.rest`; tags are upper-case letters, digits and `_`.
pub(super) fn template(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = text.trim_end_matches('.');
    while let Some(at) = rest.find('_') {
        let (before, tail) = rest.split_at(at);
        plain.push_str(before);
        let inner = &tail[1..];
        let end = inner.find('_');
        let tag = end.and_then(|end| inner.get(..end)).filter(|t| is_tag(t));
        match tag {
            Some(tag) => {
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(Piece::Tag(tag.to_owned()));
                rest = &inner[tag.len() + 1..];
            }
            None => {
                plain.push('_');
                rest = inner;
            }
        }
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    pieces
}

fn is_tag(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
}

/// Tags that have values here.
pub(super) const TAGS: [&str; 11] = [
    "AUTHORDOMAIN",
    "DKIMDOMAIN",
    "FIRSTTRUSTEDIP",
    "FIRSTTRUSTEDREVIP",
    "LASTEXTERNALHELO",
    "LASTEXTERNALIP",
    "LASTEXTERNALRDNS",
    "LASTEXTERNALREVIP",
    "SENDERDOMAIN",
    "URIDOMAINS",
    "URIHOSTS",
];

impl Plan {
    /// What it asks about this message.
    pub(super) fn questions(&self, cx: &EvalContext<'_>) -> Vec<Question> {
        let to_list = |kind: RecordType, zone: &str| {
            let zone = zone.to_owned();
            move |about| Question { kind, about, zone: zone.clone(), absence: false }
        };
        match self {
            Plan::Relays { set, zone, kind, nice } => {
                let named = relays(cx, set, *nice).into_iter().map(reversed).map(About::Name);
                named.map(to_list(*kind, zone)).collect()
            }
            Plan::Senders { of, zone } => {
                let hosts = sender_hosts(cx, of).into_iter().map(About::Name);
                hosts.map(to_list(RecordType::A, zone)).collect()
            }
            Plan::Links { how, zone, kind, only } => {
                let wanted = cx.links().iter().filter(|l| l.is_wanted(*only));
                wanted.flat_map(|l| l.abouts(*how)).map(to_list(*kind, zone)).collect()
            }
            Plan::Template { pieces, kinds } => {
                let names = expanded(cx, pieces);
                let each = names.iter().flat_map(|name| kinds.iter().map(move |k| (name, *k)));
                each.map(|(name, kind)| to_list(kind, "")(About::Name(name.clone()))).collect()
            }
            Plan::SenderExists => {
                let domains = sender_domains(cx);
                let kinds = [RecordType::A, RecordType::Mx];
                let each = domains.into_iter().flat_map(|d| kinds.map(|k| (d.clone(), k)));
                let question = |(domain, kind)| Question {
                    kind,
                    about: About::Name(domain),
                    zone: String::new(),
                    absence: true,
                };
                each.map(question).collect()
            }
        }
    }
}

/// The domains of everybody who claims to have sent the message.
pub(super) fn sender_domains(cx: &EvalContext<'_>) -> Vec<String> {
    let domains = all_from(cx).iter().filter_map(|a| host_of(a)).filter_map(|d| host_name(&d));
    unique(domains)
}

fn host_of(address: &[u8]) -> Option<Vec<u8>> {
    memchr::memrchr(b'@', address).map(|at| address[at + 1..].to_vec())
}

/// A name that can be asked for, in lower case.
fn host_name(host: &[u8]) -> Option<String> {
    let host = std::str::from_utf8(host).ok()?.trim_end_matches('.').to_ascii_lowercase();
    let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let is_name = host.contains('.')
        && host.len() <= NAME_BYTES_MAX
        && host.bytes().all(fine)
        && host.split('.').all(|label| (1..=63).contains(&label.len()));
    is_name.then_some(host)
}

fn unique<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut out = Vec::new();
    for one in all {
        if !out.contains(&one) {
            out.push(one);
        }
    }
    out
}

/// The address as lists have it: its bytes, or hexadecimal digits, backwards.
fn reversed(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}")
        }
        IpAddr::V6(v6) => {
            let digits = format!("{:032x}", v6.to_bits());
            let backwards: Vec<String> = digits.chars().rev().map(String::from).collect();
            backwards.join(".")
        }
    }
}

/// Public addresses of relays, each once, in order.
fn addresses<'r>(relays: impl Iterator<Item = &'r Relay>) -> Vec<IpAddr> {
    unique(relays.filter(|r| !r.private).filter_map(|r| r.address))
}

/// The relays that a set asks for: the end of its name says which.
fn relays(cx: &EvalContext<'_>, set: &str, nice: bool) -> Vec<IpAddr> {
    let all = cx.views.relays();
    let mut chosen = match set.rsplit_once('-').map_or("", |(_, end)| end) {
        "lastexternal" => addresses(all.external.iter()).into_iter().take(1).collect(),
        "notfirsthop" => {
            let mut external = addresses(all.external.iter());
            external.truncate(external.len().saturating_sub(1).max(1));
            external
        }
        "firsttrusted" => addresses(all.untrusted.iter()).into_iter().take(1).collect(),
        "untrusted" => addresses(all.untrusted.iter()).into_iter().skip(1).collect(),
        _ => {
            // Trusted relays are looked up in welcome lists only.
            let trusted = addresses(all.trusted.iter());
            let mut both = addresses(all.trusted.iter().chain(&all.untrusted));
            both.retain(|ip| nice || !trusted.contains(ip));
            both.reverse();
            both
        }
    };
    chosen.truncate(RELAYS_MAX);
    chosen
}

fn sender_hosts(cx: &EvalContext<'_>, of: &Senders) -> Vec<String> {
    let in_fields = |fields: &[String]| {
        let values = fields.iter().flat_map(|f| cx.values(&format!("{f}:addr")));
        let hosts: Vec<String> =
            values.filter_map(|a| host_of(&a)).filter_map(|h| host_name(&h)).collect();
        unique(hosts)
    };
    match of {
        Senders::FromHost => sender_domains(cx),
        Senders::FromDomain => {
            let domains = sender_domains(cx);
            let trimmed = domains.iter().map(|d| cx.boundaries().trim(d.as_bytes()));
            unique(trimmed.filter_map(|d| host_name(&d)))
        }
        Senders::Fields(fields) => {
            let mut hosts = in_fields(fields);
            if fields.iter().any(|f| f.eq_ignore_ascii_case("EnvelopeFrom")) {
                hosts.extend(envelope_domain(cx).filter(|d| !hosts.contains(d)));
            }
            hosts
        }
    }
}

/// Domain of the envelope sender: as the header tells it, else as the connection did.
fn envelope_domain(cx: &EvalContext<'_>) -> Option<String> {
    let told = cx.text("EnvelopeFrom:addr");
    let said = cx.views.envelope().mail_from.as_bytes();
    let address = if told.is_empty() { said } else { &told };
    host_of(address).and_then(|d| host_name(&d))
}

/// A host of links, with its registered domain.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LinkHost {
    host: String,
    domain: String,
    address: Option<IpAddr>,
}

impl LinkHost {
    fn is_wanted(&self, only: LinkHosts) -> bool {
        match only {
            LinkHosts::All => true,
            LinkHosts::Names => self.address.is_none(),
            LinkHosts::Addresses => self.address.is_some(),
        }
    }

    fn abouts(&self, how: LinkLookup) -> Vec<About> {
        if let Some(address) = self.address {
            return match how {
                LinkLookup::ServerNames { .. } => Vec::new(),
                _ => vec![About::Name(reversed(address))],
            };
        }
        let (host, domain) = (self.host.clone(), self.domain.clone());
        match how {
            LinkLookup::Domain => vec![About::Name(domain)],
            LinkLookup::Host => vec![About::Name(host)],
            LinkLookup::Addresses => vec![About::AddressesOf(host)],
            LinkLookup::Servers => vec![About::ServersOf(domain)],
            LinkLookup::AddressesAndServers => {
                vec![About::AddressesOf(host), About::ServersOf(domain)]
            }
            LinkLookup::ServerNames { whole } => vec![About::ServerNamesOf { domain, whole }],
        }
    }
}

/// The hosts of links that lists are asked about: each domain's hosts, up to so many domains.
pub(super) fn link_hosts(cx: &EvalContext<'_>, rules: &LinkRules) -> Vec<LinkHost> {
    let mut domains: Vec<String> = Vec::new();
    let mut found: Vec<LinkHost> = Vec::new();
    for host in cx.uri_hosts() {
        let address = net::address(host.trim_ascii());
        let Some(name) = host_name(host) else { continue };
        let domain = match address {
            Some(_) => name.clone(),
            None => match host_name(&cx.boundaries().trim(host)) {
                Some(domain) => domain,
                None => continue,
            },
        };
        if rules.skipped.contains(&domain) || rules.skipped.contains(&name) {
            continue;
        }
        if !domains.contains(&domain) {
            if domains.len() >= rules.domains_max {
                continue;
            }
            domains.push(domain.clone());
        }
        let link = LinkHost { host: name, domain, address };
        if !found.contains(&link) && found.len() < 2 * rules.domains_max {
            found.push(link);
        }
    }
    found
}

/// The names that a template stands for; none while a tag has no value.
fn expanded(cx: &EvalContext<'_>, pieces: &[Piece]) -> Vec<String> {
    let mut names = vec![String::new()];
    for piece in pieces {
        let values = match piece {
            Piece::Text(text) => vec![text.clone()],
            Piece::Tag(tag) => tag_values(cx, tag),
        };
        let longer = names.iter().flat_map(|name| values.iter().map(move |v| format!("{name}{v}")));
        names = longer.take(EXPANSIONS_MAX).collect();
    }
    unique(names.iter().filter_map(|name| host_name(name.as_bytes())))
}

fn tag_values(cx: &EvalContext<'_>, tag: &str) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let relays = cx.views.relays();
    let (external, trusted) = (relays.external.first(), relays.trusted.last());
    let address = |relay: Option<&Relay>| relay.and_then(|r| r.address);
    match tag {
        "AUTHORDOMAIN" => {
            let values = cx.values("From:addr");
            unique(values.iter().filter_map(|a| host_of(a)).filter_map(|h| host_name(&h)))
        }
        "SENDERDOMAIN" => envelope_domain(cx).into_iter().collect(),
        "DKIMDOMAIN" => {
            let valid = super::auth::valid_signatures(cx);
            unique(valid.map(|s| s.domain.to_ascii_lowercase()))
        }
        "FIRSTTRUSTEDIP" => address(trusted).iter().map(IpAddr::to_string).collect(),
        "FIRSTTRUSTEDREVIP" => address(trusted).map(reversed).into_iter().collect(),
        "LASTEXTERNALIP" => address(external).iter().map(IpAddr::to_string).collect(),
        "LASTEXTERNALREVIP" => address(external).map(reversed).into_iter().collect(),
        "LASTEXTERNALRDNS" => external.iter().map(|r| text(&r.rdns)).collect(),
        "LASTEXTERNALHELO" => external.iter().map(|r| text(&r.helo)).collect(),
        "URIDOMAINS" => unique(cx.links().iter().map(|l| l.domain.clone())),
        "URIHOSTS" => unique(cx.links().iter().map(|l| l.host.clone())),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates() {
        let tag = |t: &str| Piece::Tag(t.to_owned());
        let text = |t: &str| Piece::Text(t.to_owned());
        assert_eq!(template("_AUTHORDOMAIN_.a.b."), [tag("AUTHORDOMAIN"), text(".a.b")]);
        assert_eq!(template("_dmarc._SENDERDOMAIN_"), [text("_dmarc."), tag("SENDERDOMAIN")]);
        assert_eq!(template("a_b_c"), [text("a_b_c")]);
        assert_eq!(template("_A__B_"), [tag("A"), tag("B")]);
        assert_eq!(template("x_"), [text("x_")]);
    }

    #[test]
    fn names_and_addresses() {
        assert_eq!(host_name(b"A.Example."), Some("a.example".into()));
        for bad in [&b"example"[..], b"a..b", b"a b.example", b"", b"\xff.example"] {
            assert_eq!(host_name(bad), None);
        }
        assert_eq!(reversed("192.0.2.1".parse().unwrap()), "1.2.0.192");
        let six = reversed("2001:db8::1".parse().unwrap());
        assert!(six.starts_with("1.0.0.0.") && six.ends_with("8.b.d.0.1.0.0.2"), "{six}");
    }
}
