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
use super::template::{Piece, expanded};
use gauntlet_rules::RecordType;

use crate::questions::{About, Question};
use crate::views::{Relay, addresses_in, is_private};

/// Longest name that is asked for (RFC 1035 section 3.1).
const NAME_BYTES_MAX: usize = 253;
/// Relays that are looked up in one list, as SpamAssassin's `num_check_received`.
const RELAYS_MAX: usize = 9;
/// Addresses of `originating_ip_headers` that are read.
const ORIGINS_MAX: usize = 20;

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
        /// Only if this accreditor is said to vouch for the sender.
        accreditor: Option<String>,
    },
    /// Hosts of senders, in a list.
    Senders { of: Senders, zone: String, only: LinkHosts },
    /// The hop that is furthest away, in a list.
    FirstHop { zone: String, only: LinkHosts },
    /// Name servers of the envelope sender's domain, in a list.
    Authorities { zone: String },
    /// Hosts of links, in a list.
    Links { how: LinkLookup, zone: String, kind: RecordType, only: LinkHosts },
    /// Names made from tags.
    Template {
        pieces: Vec<Piece>,
        kinds: Vec<RecordType>,
        /// What counts is the response code.
        status: bool,
    },
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
    /// Host of the envelope sender.
    Envelope,
    /// Hosts of the addresses in these header fields, or what else they name.
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

impl Plan {
    /// What it asks about this message.
    pub(super) fn questions(&self, cx: &EvalContext<'_>) -> Vec<Question> {
        let to_list = |kind: RecordType, zone: &str| {
            let zone = zone.to_owned();
            move |about| Question { kind, about, zone: zone.clone(), absence: false, status: false }
        };
        match self {
            Plan::Relays { accreditor: Some(by), .. } if !is_accredited(cx, by) => Vec::new(),
            Plan::Relays { set, zone, kind, nice, .. } => {
                let named = relays(cx, set, *nice).into_iter().map(reversed).map(About::Name);
                named.map(to_list(*kind, zone)).collect()
            }
            Plan::Senders { of, zone, only } => {
                let hosts = sender_hosts(cx, of, *only).into_iter().map(About::Name);
                hosts.map(to_list(RecordType::A, zone)).collect()
            }
            Plan::FirstHop { zone, only } => {
                let names = first_hop(cx, *only).into_iter().map(About::Name);
                names.map(to_list(RecordType::A, zone)).collect()
            }
            Plan::Authorities { zone } => {
                let domain = envelope_domain(cx).into_iter().map(About::AuthoritiesOf);
                domain.map(to_list(RecordType::A, zone)).collect()
            }
            Plan::Links { how, zone, kind, only } => {
                let wanted = cx.links().iter().filter(|l| l.is_wanted(*only));
                wanted.flat_map(|l| l.abouts(*how)).map(to_list(*kind, zone)).collect()
            }
            Plan::Template { pieces, kinds, status } => {
                let names = expanded(cx, pieces);
                let each = names.iter().flat_map(|name| kinds.iter().map(move |k| (name, *k)));
                let question = |(name, kind): (&String, RecordType)| Question {
                    status: *status,
                    ..to_list(kind, "")(About::Name(name.clone()))
                };
                each.map(question).collect()
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
                    status: false,
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

pub(super) fn host_of(address: &[u8]) -> Option<Vec<u8>> {
    memchr::memrchr(b'@', address).map(|at| address[at + 1..].to_vec())
}

/// A name that can be asked for, in lower case.
pub(super) fn host_name(host: &[u8]) -> Option<String> {
    let host = std::str::from_utf8(host).ok()?.trim_end_matches('.');
    let host = match host.is_ascii() {
        true => host.to_ascii_lowercase(),
        false => gauntlet_mail::address::ascii_domain(host)?,
    };
    let fine = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let is_name = host.contains('.')
        && host.len() <= NAME_BYTES_MAX
        && host.bytes().all(fine)
        && host.split('.').all(|label| (1..=63).contains(&label.len()));
    is_name.then_some(host)
}

pub(super) fn unique<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut out = Vec::new();
    for one in all {
        if !out.contains(&one) {
            out.push(one);
        }
    }
    out
}

/// The address as lists have it: its bytes, or hexadecimal digits, backwards.
pub(super) fn reversed(address: IpAddr) -> String {
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

/// The addresses that a set asks for: the end of its name says which. Where mail came from before the
/// first relay that wrote a Received field (`originating_ip_headers`) counts as a relay further away,
/// unless it is trusted.
fn relays(cx: &EvalContext<'_>, set: &str, nice: bool) -> Vec<IpAddr> {
    let (all, trust) = (cx.views.relays(), cx.views.settings().trust());
    let mut untrusted = addresses(all.untrusted().iter());
    let origins = origins(cx);
    if untrusted.is_empty() && origins.is_empty() {
        return Vec::new();
    }
    let public = origins.into_iter().filter(|ip| !trust.trusts(*ip) && !is_private(*ip));
    let before: Vec<IpAddr> = public.filter(|ip| !untrusted.contains(ip)).collect();
    untrusted.extend(unique(before));
    let mut chosen: Vec<IpAddr> = match set.rsplit_once('-').map_or("", |(_, end)| end) {
        "lastexternal" => addresses(all.external().iter()).into_iter().take(1).collect(),
        "notfirsthop" => {
            let mut external = addresses(all.external().iter());
            external.truncate(external.len().saturating_sub(1).max(1));
            external
        }
        "firsttrusted" => untrusted.into_iter().take(1).collect(),
        "untrusted" => untrusted.into_iter().skip(1).collect(),
        _ => untrusted.into_iter().rev().collect(),
    };
    chosen.truncate(RELAYS_MAX);
    // Trusted relays are looked up in welcome lists only.
    let trusted = chosen.iter().take_while(|ip| !nice && trust.trusts(**ip)).count();
    chosen.split_off(trusted)
}

/// The addresses that fields name which tell where a message came from.
fn origins(cx: &EvalContext<'_>) -> Vec<IpAddr> {
    let names = cx.views.settings().trust().originating_ip_headers();
    names.iter().flat_map(|name| addresses_in(&cx.text(name))).take(ORIGINS_MAX).collect()
}

/// Names and addresses of the hop that is furthest away: client, server, what the client called
/// itself, its name by reverse DNS.
fn first_hop(cx: &EvalContext<'_>, only: LinkHosts) -> Vec<String> {
    let Some(relay) = cx.views.relays().untrusted().last() else { return Vec::new() };
    let words = [&relay.ip, &relay.by, &relay.helo, &relay.rdns];
    unique(words.into_iter().filter_map(|word| list_name(cx, word, only)))
}

/// How lists are asked about a host: an address backwards, a name as it is; none for the other kind,
/// or if it is neither.
fn list_name(cx: &EvalContext<'_>, host: &[u8], only: LinkHosts) -> Option<String> {
    let host = host.trim_ascii();
    match net::address(host) {
        Some(_) if only == LinkHosts::Names => None,
        Some(address) => Some(reversed(address)),
        None if only == LinkHosts::Addresses => None,
        None => host_name(host).filter(|name| cx.boundaries().is_valid(name.as_bytes())),
    }
}

/// Whether somebody is said to vouch for the sender: in the envelope sender's host (`a--name.`) or in
/// the field `Accreditor`.
pub(super) fn is_accredited(cx: &EvalContext<'_>, by: &str) -> bool {
    let sender = cx.text("EnvelopeFrom:addr").to_ascii_lowercase();
    let starts = memchr::memmem::find_iter(&sender, b"a--");
    let in_host = |at: usize| {
        let opens = at.checked_sub(1).and_then(|i| sender.get(i));
        let rest = sender.get(at + 3..).unwrap_or_default();
        let word = rest.iter().take_while(|b| b.is_ascii_alphanumeric()).count();
        matches!(opens, Some(b'@' | b'.'))
            && word >= 3
            && rest.get(word) == Some(&b'.')
            && rest.get(..word) == Some(by.as_bytes())
    };
    if starts.into_iter().any(in_host) {
        return true;
    }
    let field = cx.text("Accreditor");
    let first = |part: &[u8]| {
        let mut words = part.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
        words.next().is_some_and(|w| w.eq_ignore_ascii_case(by.as_bytes()))
    };
    field.split(|b| *b == b',').any(first)
}

fn sender_hosts(cx: &EvalContext<'_>, of: &Senders, only: LinkHosts) -> Vec<String> {
    match of {
        Senders::FromHost => {
            let hosts = all_from(cx).iter().filter_map(|a| host_of(a));
            unique(hosts.filter_map(|host| list_name(cx, &host, only)))
        }
        Senders::FromDomain => {
            let domains = sender_domains(cx);
            let trimmed = domains.iter().map(|d| cx.boundaries().trim(d.as_bytes()));
            unique(trimmed.filter_map(|d| list_name(cx, &d, only)))
        }
        Senders::Envelope => {
            let domain = envelope_domain(cx);
            domain.and_then(|d| list_name(cx, d.as_bytes(), only)).into_iter().collect()
        }
        Senders::Fields(fields) => {
            let names = fields.iter().flat_map(|field| field_hosts(cx, field));
            unique(names.filter_map(|host| list_name(cx, &host, only)))
        }
    }
}

/// Whom a field names: the host of its first address, else each of its lines.
fn field_hosts(cx: &EvalContext<'_>, field: &str) -> Vec<Vec<u8>> {
    if field.eq_ignore_ascii_case("EnvelopeFrom") {
        return envelope_domain(cx).map(String::into_bytes).into_iter().collect();
    }
    match host_of(&cx.text(&format!("{field}:addr"))) {
        Some(host) => vec![host],
        None => cx.text(field).split(|b| *b == b'\n').map(<[u8]>::to_vec).collect(),
    }
}

/// Domain of the envelope sender: as the header tells it, else as the connection did.
pub(super) fn envelope_domain(cx: &EvalContext<'_>) -> Option<String> {
    let told = cx.text("EnvelopeFrom:addr");
    let said = cx.views.envelope().mail_from.as_bytes();
    let address = if told.is_empty() { said } else { &told };
    host_of(address).and_then(|d| host_name(&d))
}

/// A host of links, with its registered domain.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LinkHost {
    pub(super) host: String,
    pub(super) domain: String,
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
    for host in cx.hosts_of_uris(rules.mailto) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
