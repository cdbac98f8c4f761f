//! The DNS questions of network rules about a message.
//!
//! A [`Plan`] is what one rule looks up, found when rules are loaded. The same plan gives the
//! questions before the scan (for whatever gathers facts) and during it (to find the answers), so
//! that both always agree.

use std::collections::HashSet;
use std::net::IpAddr;

use gauntlet_rules::RecordType;

use super::context::EvalContext;
use super::expansion::expanded;
use super::host_names::{host_name, host_of, reversed, unique};
use super::links::links;
use super::lists::all_from;
use super::net;
use super::plan::{LinkHosts, Plan, Senders};
use super::senders::{envelope_domain, sender_domains};
use crate::questions::{About, QUESTIONS_MAX, Question};
use crate::views::{Relay, addresses_in, is_private};

/// Most relays that are looked up in one list, as SpamAssassin's `num_check_received`.
const RELAYS_MAX: usize = 9;
/// Most addresses of `originating_ip_headers`.
const ORIGINS_MAX: usize = 20;

/// The questions of all rules about a message: each once, in the order of the rules.
pub fn questions(cx: &EvalContext<'_>) -> Vec<Question> {
    let network = &cx.tables.network;
    let mut known = HashSet::new();
    let all = network.plans.iter().flat_map(|plan| plan.questions(cx));
    let allowed = all.filter(|question| network.restrictions.allow_asking(question));
    allowed.filter(|question| known.insert(question.clone())).take(QUESTIONS_MAX).collect()
}

impl Plan {
    /// Its questions about this message.
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
                let wanted = links(cx).iter().filter(|l| l.is_wanted(*only));
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

/// Public addresses of relays, each once, in order.
fn addresses<'r>(relays: impl Iterator<Item = &'r Relay>) -> Vec<IpAddr> {
    unique(relays.filter(|r| !r.private).filter_map(|r| r.address))
}

/// The addresses that a set looks up: its suffix says which. The address that mail came from before
/// the first relay that wrote a Received field (`originating_ip_headers`) counts as the most
/// distant relay, unless it is trusted.
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

/// The addresses in the fields that name a message's origin.
fn origins(cx: &EvalContext<'_>) -> Vec<IpAddr> {
    let names = cx.views.settings().trust().originating_ip_headers();
    names.iter().flat_map(|name| addresses_in(&cx.text(name))).take(ORIGINS_MAX).collect()
}

/// Names and addresses of the most distant hop: client, server, HELO name, reverse DNS name.
fn first_hop(cx: &EvalContext<'_>, only: LinkHosts) -> Vec<String> {
    let Some(relay) = cx.views.relays().untrusted().last() else { return Vec::new() };
    let words = [&relay.ip, &relay.by, &relay.helo, &relay.rdns];
    unique(words.into_iter().filter_map(|word| list_name(cx, word, only)))
}

/// The label of a host in a DNS list: a reversed address, or the name itself; `None` for the other
/// kind, or if it is neither.
fn list_name(cx: &EvalContext<'_>, host: &[u8], only: LinkHosts) -> Option<String> {
    let host = host.trim_ascii();
    match net::address(host) {
        Some(_) if only == LinkHosts::Names => None,
        Some(address) => Some(reversed(address)),
        None if only == LinkHosts::Addresses => None,
        None => host_name(host).filter(|name| cx.boundaries().is_valid(name.as_bytes())),
    }
}

/// Whether an accreditor is named: in the envelope sender's host (`a--name.`) or in the field
/// `Accreditor`.
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

/// The hosts that a field names: that of its first address, else each of its lines.
fn field_hosts(cx: &EvalContext<'_>, field: &str) -> Vec<Vec<u8>> {
    if field.eq_ignore_ascii_case("EnvelopeFrom") {
        return envelope_domain(cx).map(String::into_bytes).into_iter().collect();
    }
    match host_of(&cx.text(&format!("{field}:addr"))) {
        Some(host) => vec![host],
        None => cx.text(field).split(|b| *b == b'\n').map(<[u8]>::to_vec).collect(),
    }
}
