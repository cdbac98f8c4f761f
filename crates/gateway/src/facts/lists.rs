//! Lists in the DNS: who is known for spam, or for good mail (RFC 5782).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, PoisonError};

use futures_util::future::join_all;
use gauntlet_mail::address::ascii_domain;
use gauntlet_mail::facts::{DkimSignature, Listing};
use gauntlet_mail::{Envelope, Message, Url};

use super::lookup_context::{Effect, LookupContext};
use crate::config::{DnsListSettings, ListSubject};
use crate::net::resolver::{Answer, Kind, reversed};

/// Hosts of one message's links that are looked up in one list: half of them the first, half the
/// last. Local lists see all.
const LINKS_MAX: usize = 20;
/// Attachments of one message that are hashed.
const ATTACHMENTS_MAX: usize = 50;
/// Listings of one message.
const LISTINGS_MAX: usize = 64;

/// The lists that are queried.
#[derive(Debug)]
pub struct DnsLists {
    lists: Vec<List>,
    /// Zones that refused us, so that each is reported once.
    refusing: Mutex<BTreeSet<String>>,
}

#[derive(Debug)]
struct List {
    zone: String,
    of: Vec<ListSubject>,
    points: f64,
    /// Ranges of answers with their points.
    answers: Vec<(u32, u32, f64)>,
}

/// What there is to look up.
#[derive(Debug, Clone, Copy)]
pub struct Subjects<'a> {
    /// The client, if it is not ours.
    pub client: Option<IpAddr>,
    /// What the connection said.
    pub envelope: &'a Envelope,
    /// Domains of the From fields.
    pub from: &'a [String],
    /// DKIM signatures that verify; their `d=` domains are looked up.
    pub dkim: &'a [DkimSignature],
    /// The message as it came.
    pub raw: &'a [u8],
}

impl DnsLists {
    /// Lists of these settings.
    ///
    /// # Errors
    /// A sentence that names the setting.
    pub fn new(settings: &[DnsListSettings]) -> anyhow::Result<Self> {
        let lists = settings.iter().map(|list| {
            let zone = list.zone.trim().trim_matches('.').to_ascii_lowercase();
            anyhow::ensure!(zone.contains('.'), "dns_list.zone: {:?} is no zone", list.zone);
            let answers = list.answers.iter().map(|(range, points)| {
                let (low, high) = range.split_once('-').unwrap_or((range, range));
                let number = |text: &str| text.trim().parse::<Ipv4Addr>().map(Ipv4Addr::to_bits);
                match (number(low), number(high)) {
                    (Ok(low), Ok(high)) if low <= high => Ok((low, high, *points)),
                    _ => anyhow::bail!(
                        "dns_list.answers of {zone}: {range:?} is no address or range such as \
                         127.0.0.2-127.0.0.11"
                    ),
                }
            });
            let answers = answers.collect::<anyhow::Result<Vec<_>>>()?;
            Ok(List { zone: zone.clone(), of: list.of.clone(), points: list.points, answers })
        });
        Ok(DnsLists { lists: lists.collect::<anyhow::Result<_>>()?, refusing: Mutex::default() })
    }

    /// Whether a list asks for this.
    fn wants(&self, subject: ListSubject) -> bool {
        self.lists.iter().any(|list| list.of.contains(&subject))
    }

    /// Asks all lists about a message.
    pub async fn ask(&self, lookups: &LookupContext<'_>, about: &Subjects<'_>) -> Vec<Listing> {
        if self.lists.is_empty() {
            return Vec::new();
        }
        let links = links_of(about.raw, LINKS_MAX, |subject| self.wants(subject));
        let mut questions: Vec<(&List, String, String)> = Vec::new();
        for list in &self.lists {
            let mut names = BTreeSet::new();
            for subject in &list.of {
                names.extend(subjects(*subject, about, &links));
            }
            for (subject, label) in names {
                let name = format!("{label}.{}", list.zone);
                questions.push((list, subject, name));
            }
        }
        let asked = questions.iter().map(|(_, _, name)| lookups.ask(Effect::List, name, Kind::A));
        let answers = join_all(asked).await;
        let mut listings = Vec::new();
        for ((list, subject, _), answer) in questions.into_iter().zip(answers) {
            if let Some(listing) = self.read(list, subject, &answer, lookups)
                && listings.len() < LISTINGS_MAX
            {
                listings.push(listing);
            }
        }
        listings
    }

    /// A listing, unless the answer says something else.
    fn read(
        &self,
        list: &List,
        subject: String,
        answer: &Answer,
        lookups: &LookupContext<'_>,
    ) -> Option<Listing> {
        let mut answers = Vec::new();
        let mut points: Option<f64> = None;
        for address in answer.addresses() {
            let IpAddr::V4(v4) = address else { continue };
            match meaning(v4) {
                Meaning::Listed => {}
                Meaning::Refused => {
                    self.refused(&list.zone, v4);
                    lookups.note(format!("list {}: it refuses to answer us ({v4})", list.zone));
                    return None;
                }
                Meaning::Nonsense => {
                    lookups.note(format!("list {}: {v4} is no answer of a list", list.zone));
                    return None;
                }
            }
            let bits = v4.to_bits();
            let own = list.answers.iter().find(|(low, high, _)| (*low..=*high).contains(&bits));
            let own = match own {
                Some((_, _, points)) => *points,
                None if list.answers.is_empty() => list.points,
                // A list with a map says nothing by answers that are not in it.
                None => continue,
            };
            let stronger = points.is_none_or(|known| own.abs() > known.abs());
            points = if stronger { Some(own) } else { points };
            answers.push(v4.to_string());
        }
        let zone = list.zone.clone();
        points.map(|points| Listing { zone, subject, answers, text: None, points })
    }

    /// Reports a list that does not answer us, once.
    pub(super) fn refused(&self, zone: &str, code: Ipv4Addr) {
        let mut refusing = self.refusing.lock().unwrap_or_else(PoisonError::into_inner);
        if refusing.insert(zone.to_owned()) {
            tracing::warn!(
                zone,
                %code,
                "a DNS list refuses to answer us: most do so to open public resolvers and to heavy \
                 users without a contract; run a resolver of your own (dns.servers) or take the list out"
            );
        }
    }
}

/// What an answer of a list says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The subject is listed.
    Listed,
    /// The list does not answer us: 127.255.255.x by convention.
    Refused,
    /// No answer of a list: those are in 127.0.0.0/8 (RFC 5782 section 2.1).
    Nonsense,
}

/// What an address that a list answers with means (RFC 5782 section 2.3).
pub fn meaning(answer: Ipv4Addr) -> Meaning {
    match answer.octets() {
        [127, 255, 255, _] => Meaning::Refused,
        [127, 0, 0, 1] => Meaning::Nonsense,
        [127, ..] => Meaning::Listed,
        _ => Meaning::Nonsense,
    }
}

/// Hosts and registered domains of links, and hashes of attachments.
#[derive(Debug, Default)]
pub(super) struct Links {
    hosts: BTreeSet<String>,
    domains: BTreeSet<String>,
    /// SHA-256 of attachments in hexadecimal digits.
    attachments: BTreeSet<String>,
}

/// What lists want to know of the message itself.
pub(super) fn links_of(raw: &[u8], hosts_max: usize, wants: impl Fn(ListSubject) -> bool) -> Links {
    let mut links = Links::default();
    let (of_links, of_attachments) = (
        wants(ListSubject::Links) || wants(ListSubject::LinkHosts),
        wants(ListSubject::Attachments),
    );
    if !of_links && !of_attachments {
        return links;
    }
    let message = Message::parse(raw);
    if of_attachments {
        for part in message.parts().iter().filter(|p| p.is_attachment()).take(ATTACHMENTS_MAX) {
            let digest = ring::digest::digest(&ring::digest::SHA256, part.body());
            links.attachments.insert(digest.as_ref().iter().map(|b| format!("{b:02x}")).collect());
        }
    }
    if !of_links {
        return links;
    }
    let mut hosts: Vec<&Url> = Vec::new();
    let mut known = BTreeSet::new();
    hosts.extend(message.all_urls().filter(|url| {
        let host = url.canonical.host();
        !host.is_empty() && known.insert(host)
    }));
    // Of too many the first and the last: padding in front must not hide what follows it.
    let tail = hosts.len().saturating_sub(hosts_max / 2).max(hosts_max - hosts_max / 2);
    let shown =
        hosts.iter().enumerate().filter(|(i, _)| *i < hosts_max - hosts_max / 2 || *i >= tail);
    for (_, url) in shown {
        let host = url.canonical.host();
        links.hosts.insert(host.to_owned());
        let domain = url.canonical.registrable_domain();
        links.domains.insert(if domain.is_empty() { host } else { domain }.to_owned());
    }
    links
}

/// What is looked up, and under which name: an address backwards, a domain as it is.
fn subjects(subject: ListSubject, about: &Subjects<'_>, links: &Links) -> Vec<(String, String)> {
    let labels = texts(subject, about, links).into_iter().filter_map(|text| {
        let plain = text.trim_start_matches('[').trim_end_matches(']');
        match plain.parse::<IpAddr>() {
            Ok(ip) => Some((text, reversed(ip))),
            Err(_) if text.contains('.') && !text.contains('@') => Some((text.clone(), text)),
            Err(_) => None,
        }
    });
    labels.collect()
}

/// What is looked up, as text.
pub(super) fn texts(subject: ListSubject, about: &Subjects<'_>, links: &Links) -> Vec<String> {
    let domain_of = |address: &str| address.rsplit_once('@').and_then(|(_, d)| ascii_domain(d));
    match subject {
        ListSubject::Client => {
            about.client.iter().map(|ip| ip.to_canonical().to_string()).collect()
        }
        ListSubject::Helo if about.client.is_some() => {
            ascii_domain(&about.envelope.helo).into_iter().collect()
        }
        ListSubject::Helo => Vec::new(),
        ListSubject::MailFrom => domain_of(&about.envelope.mail_from).into_iter().collect(),
        ListSubject::From => about.from.to_vec(),
        ListSubject::Dkim => {
            let good =
                about.dkim.iter().filter(|s| s.result == gauntlet_mail::facts::AuthResult::Pass);
            good.map(|s| s.domain.clone()).collect()
        }
        ListSubject::Links => links.domains.iter().cloned().collect(),
        ListSubject::LinkHosts => links.hosts.iter().cloned().collect(),
        ListSubject::Attachments => links.attachments.iter().cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_distinguished() {
        for (answer, expected) in [
            ("127.0.0.2", Meaning::Listed),
            ("127.0.1.255", Meaning::Listed),
            ("127.0.0.1", Meaning::Nonsense),
            ("127.255.255.254", Meaning::Refused),
            ("127.255.255.1", Meaning::Refused),
            ("192.0.2.1", Meaning::Nonsense),
        ] {
            assert_eq!(meaning(answer.parse().unwrap()), expected, "{answer}");
        }
    }

    #[test]
    fn wrong_settings_are_named() {
        let list = |zone: &str, answer: &str| DnsListSettings {
            zone: zone.into(),
            answers: [(answer.to_owned(), 1.0)].into(),
            ..DnsListSettings::default()
        };
        for (zone, answer, named) in [
            ("zen", "127.0.0.2", "zone"),
            ("a.b", "127.0.0", "127.0.0"),
            ("a.b", "127.0.0.9-127.0.0.2", "range"),
        ] {
            let error = DnsLists::new(&[list(zone, answer)]).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        assert!(DnsLists::new(&[list("a.b.", "127.0.0.2 - 127.0.0.9")]).is_ok());
    }
}
