//! Entries of URL lists made of what mail to probes leads to.
//!
//! An entry blocks mail of people who are not asked, so that anything that good mail might lead to
//! is left out:
//!
//! | Left out | Because |
//! |---|---|
//! | named by too few messages, networks or senders | one sender, or one mistake, is no campaign |
//! | mostly in messages that nothing else speaks against | somebody subscribed a trap to a list |
//! | a domain that good mail names | [`GoodDomains`](crate::probes::GoodDomains) |
//! | a shared host | [`is_shared`]: platforms, shorteners, mailing services, brands |
//! | a host under no public suffix, or a suffix itself | names of a site's network; registries |
//! | an address that is not of the public internet | the same |
//!
//! An entry is no wider than what was seen: one page where all led to one, a folder where all led
//! below one, the host alone (no host below it) where they led to several places of it. It ages
//! out with the messages that it is made of.
//!
//! What is left: who sends to traps from several networks in several names can have a site listed
//! whose mail the node has not seen in a year. Its owner's word (a correction) ends that.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use gauntlet_engine::shared_hosts::is_shared;
use gauntlet_mail::CanonicalUrl;
use gauntlet_mail::public_suffix::suffix;
use gauntlet_mail::url::canonical;

use crate::probes::Sighting;

/// Pages of one host that are told apart.
const PATHS_MAX: usize = 64;

/// What an entry has to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryRules {
    /// Messages that lead there.
    pub messages_min: usize,
    /// Networks of clients that brought them: those cannot be forged.
    pub networks_min: usize,
    /// Domains of their senders.
    pub senders_min: usize,
    /// Entries in all; those that were seen last stay.
    pub entries_max: usize,
}

impl Default for EntryRules {
    fn default() -> Self {
        EntryRules { messages_min: 3, networks_min: 2, senders_min: 2, entries_max: 10_000 }
    }
}

/// Lines of lists, and what was left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entries {
    /// Where most messages were called phishing or malware.
    pub phishing: Vec<String>,
    /// The others.
    pub spam: Vec<String>,
    /// Hosts that were left out, by why.
    pub left_out: BTreeMap<&'static str, usize>,
}

/// What messages led to on one host.
#[derive(Debug, Default)]
struct Seen<'s> {
    messages: usize,
    networks: BTreeSet<&'s str>,
    senders: BTreeSet<&'s str>,
    /// Messages that something else speaks against.
    suspect: usize,
    phishing: usize,
    last_s: i64,
    paths: BTreeSet<String>,
    registrable: String,
    host: String,
}

/// The entries that these messages give. `is_good` says whether good mail names a registrable
/// domain.
pub fn entries(
    sightings: &[Sighting],
    rules: &EntryRules,
    is_good: impl Fn(&str) -> bool,
) -> Entries {
    let mut hosts: BTreeMap<String, Seen<'_>> = BTreeMap::new();
    for sighting in sightings {
        let mut counted = BTreeSet::new();
        for url in sighting.urls.iter().filter_map(|url| canonical(url)) {
            let authority = authority(&url);
            let seen = hosts.entry(authority.clone()).or_default();
            if counted.insert(authority) {
                count(seen, sighting, &url);
            }
            if seen.paths.len() < PATHS_MAX {
                seen.paths.insert(path(&url).to_owned());
            }
        }
    }
    let mut made = Entries::default();
    let mut kept = Vec::new();
    for (authority, seen) in &hosts {
        match reason(seen, rules, &is_good) {
            Some(why) => *made.left_out.entry(why).or_default() += 1,
            None => match line(authority, &seen.paths) {
                Some(line) => kept.push((seen.last_s, seen.phishing * 2 > seen.messages, line)),
                None => *made.left_out.entry("a path with odd signs").or_default() += 1,
            },
        }
    }
    kept.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.2.cmp(&b.2)));
    kept.truncate(rules.entries_max);
    for (_, is_phishing, line) in kept {
        if is_phishing { made.phishing.push(line) } else { made.spam.push(line) }
    }
    // In one order, whatever came last: what did not change is the same file.
    made.phishing.sort();
    made.spam.sort();
    made
}

fn count<'s>(seen: &mut Seen<'s>, sighting: &'s Sighting, url: &CanonicalUrl) {
    seen.messages += 1;
    seen.networks.insert(&sighting.network);
    seen.senders.insert(&sighting.sender);
    let class = sighting.class.as_str();
    seen.suspect += usize::from(!matches!(class, "ham" | "bulk" | ""));
    seen.phishing += usize::from(matches!(class, "phishing" | "malware"));
    seen.last_s = seen.last_s.max(sighting.at_s);
    seen.registrable = url.registrable_domain().to_owned();
    seen.host = url.host().to_owned();
}

fn authority(url: &CanonicalUrl) -> String {
    match url.port() {
        Some(port) => format!("{}:{port}", url.host()),
        None => url.host().to_owned(),
    }
}

fn path(url: &CanonicalUrl) -> &str {
    let path = url.path_and_query();
    path.split('?').next().unwrap_or(path)
}

/// Why a host is left out, if it is.
fn reason(
    seen: &Seen<'_>,
    rules: &EntryRules,
    is_good: &impl Fn(&str) -> bool,
) -> Option<&'static str> {
    let few = seen.messages < rules.messages_min
        || seen.networks.len() < rules.networks_min
        || seen.senders.len() < rules.senders_min;
    if few {
        return Some("too few messages or senders");
    }
    if seen.suspect * 2 < seen.messages {
        return Some("nothing else speaks against its mail");
    }
    if !is_public(&seen.host) {
        return Some("no host of the public internet");
    }
    if is_shared(&seen.host) {
        return Some("a shared host");
    }
    is_good(&seen.registrable).then_some("good mail names it")
}

/// A name under a public suffix of the list, or an address that anybody can reach.
fn is_public(host: &str) -> bool {
    if let Ok(ip) = host.parse::<Ipv4Addr>() {
        let is_shared = ip.octets()[0] == 100 && (64..128).contains(&ip.octets()[1]);
        return !(ip.is_private()
            || ip.is_loopback()
            || ip.is_link_local()
            || ip.is_unspecified()
            || ip.is_multicast()
            || ip.is_broadcast()
            || is_shared
            || ip.octets()[0] == 0);
    }
    let Some(suffix) = suffix(host.as_bytes()) else { return false };
    suffix.is_known && suffix.domain_of(host.as_bytes()).is_some()
}

/// The line of a plain list that covers these pages of a host and no more than it has to; none if
/// it could be read as something else.
fn line(authority: &str, paths: &BTreeSet<String>) -> Option<String> {
    let mut all = paths.iter();
    let first = all.next()?;
    let common = all.fold(first.as_str(), |common, path| {
        let same = common.bytes().zip(path.bytes()).take_while(|(a, b)| a == b).count();
        common.get(..same).unwrap_or_default()
    });
    // Whole segments, unless all led to one page.
    let common = match paths.len() {
        1 => common,
        _ => common.get(..=common.rfind('/')?).unwrap_or("/"),
    };
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/._~%-+=@:".contains(&b);
    match common {
        _ if !common.bytes().all(is_plain) => None,
        "" | "/" if authority.contains(':') => Some(format!("{authority}/")),
        // This host alone: who else is below its domain is not known.
        "" | "/" => Some(format!("={authority}")),
        path => Some(format!("{authority}{path}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(number: usize, class: &str, urls: &[&str]) -> Sighting {
        Sighting {
            at_s: number as i64,
            network: format!("n 192.0.{number}.0/24"),
            sender: format!("sender{number}.example"),
            class: class.to_owned(),
            urls: urls.iter().map(|&url| url.to_owned()).collect(),
            rules: Vec::new(),
        }
    }

    fn made(sightings: &[Sighting]) -> Entries {
        entries(sightings, &EntryRules::default(), |domain| domain == "museum.org")
    }

    fn three(class: &str, urls: [&str; 3]) -> Entries {
        let all: Vec<_> = (0..3).map(|n| sighting(n, class, &[urls[n]])).collect();
        made(&all)
    }

    #[test]
    fn an_entry_is_no_wider_than_what_was_seen() {
        for (urls, expected) in [
            (["http://evil.com/", "http://evil.com/", "https://evil.com"], "=evil.com"),
            (["http://evil.com/a", "http://evil.com/b", "http://evil.com/c"], "=evil.com"),
            (
                [
                    "http://shop.it/x/in.php?i=1",
                    "http://shop.it/x/in.php?i=2",
                    "http://shop.it/x/in.php",
                ],
                "shop.it/x/in.php",
            ),
            (["http://shop.it/x/a1", "http://shop.it/x/a2", "http://shop.it/x/b"], "shop.it/x/"),
            (["http://evil.com:81/", "http://evil.com:81/", "http://evil.com:81/"], "evil.com:81/"),
            (["http://9.9.9.8/a", "http://9.9.9.8/b", "http://9.9.9.8/c"], "=9.9.9.8"),
            (["http://a.github.io/", "http://a.github.io/", "http://a.github.io/"], "=a.github.io"),
        ] {
            assert_eq!(three("spam", urls).spam, [expected], "{urls:?}");
        }
        let phishing = three("phishing", ["http://evil.com/"; 3]);
        assert!(phishing.spam.is_empty() && phishing.phishing == ["=evil.com"]);
    }

    #[test]
    fn what_good_mail_may_lead_to_is_left_out() {
        for (host, why) in [
            ("docs.google.com/forms/d/1", "a shared host"),
            ("bit.ly/abc", "a shared host"),
            ("u1.ct.sendgrid.net/ls/click", "a shared host"),
            ("www.paypal.com/signin", "a shared host"),
            ("news.museum.org/visit", "good mail names it"),
            ("intranet/x", "no host of the public internet"),
            ("wiki.corp.localdomain/x", "no host of the public internet"),
            ("co.uk/x", "no host of the public internet"),
            ("192.168.1.1/x", "no host of the public internet"),
            ("127.0.0.1/x", "no host of the public internet"),
            ("100.64.0.1/x", "no host of the public internet"),
            ("[2001:db8::1]/x", "no host of the public internet"),
            ("evil.com/a,b", "a path with odd signs"),
        ] {
            let url = format!("http://{host}");
            let made = three("spam", [&url; 3]);
            assert_eq!(made.left_out.keys().collect::<Vec<_>>(), [&why], "{host}: {made:?}");
            assert!(made.spam.is_empty() && made.phishing.is_empty());
        }
    }

    #[test]
    fn one_sender_one_network_or_good_looking_mail_is_no_campaign() {
        let url = ["http://evil.com/"];
        let all: Vec<_> = (0..3).map(|n| sighting(n, "spam", &url)).collect();
        assert_eq!(made(&all).spam.len(), 1);
        assert_eq!(made(&all[..2]).spam.len(), 0, "two messages");
        let one_network: Vec<_> =
            all.iter().map(|s| Sighting { network: "n".into(), ..s.clone() }).collect();
        assert_eq!(made(&one_network).spam.len(), 0);
        let one_sender: Vec<_> =
            all.iter().map(|s| Sighting { sender: "a".into(), ..s.clone() }).collect();
        assert_eq!(made(&one_sender).spam.len(), 0);
        let newsletter: Vec<_> = (0..3).map(|n| sighting(n, "bulk", &url)).collect();
        assert_eq!(made(&newsletter).spam.len(), 0);
        let twice = sighting(0, "spam", &["http://evil.com/a", "http://evil.com/b"]);
        assert_eq!(made(&[twice.clone(), twice]).spam.len(), 0, "a message counts once");
    }

    #[test]
    fn the_newest_entries_stay_and_their_order_is_one() {
        let rules = EntryRules { messages_min: 1, networks_min: 1, senders_min: 1, entries_max: 2 };
        let of = |n: usize, host: &str| sighting(n, "spam", &[&format!("http://{host}/")]);
        let all = [of(3, "c.com"), of(1, "a.com"), of(2, "b.com")];
        assert_eq!(entries(&all, &rules, |_| false).spam, ["=b.com", "=c.com"]);
    }

    #[test]
    fn urls_of_any_kind_give_no_panic() {
        let odd = ["", "http://", "mailto:a@b", "http://[::1", "http://é.example/é", "\0", "a b"];
        let all: Vec<_> = (0..4).map(|n| sighting(n, "spam", &odd)).collect();
        let _made = made(&all);
    }
}
