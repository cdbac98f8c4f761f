//! Tables of eval functions, from the settings of the rule files.

pub(super) mod addresses;
mod freemail;
mod glob;
mod network;

use std::collections::BTreeMap;

use gauntlet_rules::hash::HashMap;
use gauntlet_rules::settings::{SettingLine, Settings};

use addresses::{AddressList, Relayed, RelayedList, address_list, relayed_list};
use freemail::Freemail;
use glob::Glob;
use network::NetworkTables;

use crate::boundaries::Boundaries;

/// Settings and lists of eval functions, read once when rules are loaded.
#[derive(Debug, Default)]
pub struct EvalTables {
    /// Where registries end and registered domains begin (`util_rb_*tld` settings).
    pub boundaries: Boundaries,
    pub(super) freemail: Freemail,
    addresses: BTreeMap<String, AddressList>,
    relayed: BTreeMap<&'static str, RelayedList>,
    hosts: BTreeMap<String, HashMap<Box<[u8]>, bool>>,
    subjects: BTreeMap<&'static str, Vec<Glob>>,
    /// Accepted locales (`ok_locales`); `None` if all are accepted.
    locales: Option<Vec<String>>,
    pub(super) network: NetworkTables,
    /// Points from which a message is spam.
    pub(crate) required_score: f64,
}

/// Address lists with a setting of their own; `enlist_addrlist` defines more.
const ADDRESS_LISTS: [&str; 10] = [
    "welcomelist_from",
    "blocklist_from",
    "welcomelist_to",
    "blocklist_to",
    "more_spam_to",
    "all_spam_to",
    "welcomelist_auth",
    "def_welcomelist_auth",
    "welcomelist_allows_relays",
    "welcomelist_bounce_relays",
];

/// Lists of an address and what must confirm it: a relay, or a signing domain.
const RELAYED_LISTS: [&str; 6] = [
    "welcomelist_from_rcvd",
    "def_welcomelist_from_rcvd",
    "welcomelist_from_dkim",
    "def_welcomelist_from_dkim",
    "welcomelist_from_spf",
    "def_welcomelist_from_spf",
];

impl EvalTables {
    /// Reads them from the files' settings.
    pub fn from_settings(settings: &Settings) -> Self {
        let own = ADDRESS_LISTS.iter().map(|&n| (n.to_owned(), address_list(settings, n)));
        let mut addresses: BTreeMap<String, AddressList> = own.collect();
        for line in settings.all("enlist_addrlist") {
            if let Some((list, words)) = named_list(&line.value) {
                let list = addresses.entry(list.to_owned()).or_default();
                words.split_ascii_whitespace().for_each(|w| list.add(w));
            }
        }
        let locales: Vec<String> = settings
            .last("ok_locales")
            .unwrap_or("all")
            .split_whitespace()
            .map(Into::into)
            .collect();
        EvalTables {
            boundaries: Boundaries::from_settings(settings),
            freemail: Freemail::from_settings(settings),
            addresses,
            relayed: RELAYED_LISTS.iter().map(|&n| (n, relayed_list(settings, n))).collect(),
            hosts: host_lists(settings),
            subjects: ["welcomelist_subject", "blocklist_subject"]
                .map(|name| (name, subject_list(settings, name)))
                .into(),
            network: NetworkTables::default(),
            required_score: settings.number("required_score", 5.0),
            locales: if locales.iter().any(|l| l == "all") { None } else { Some(locales) },
        }
    }

    /// A list of addresses, if any line names it.
    pub(super) fn addresses(&self, name: &str) -> Option<&AddressList> {
        self.addresses.get(name)
    }

    pub(super) fn relayed(&self, name: &str) -> &[Relayed] {
        self.relayed.get(name).map_or(&[], |list| &list.0)
    }

    /// Host lists by name, in the order of their names.
    pub(super) fn hosts(&self) -> &BTreeMap<String, HashMap<Box<[u8]>, bool>> {
        &self.hosts
    }

    pub(super) fn subjects(&self, name: &str) -> &[Glob] {
        self.subjects.get(name).map_or(&[], Vec::as_slice)
    }

    /// Accepted locales (`ok_locales`); `None` if all are accepted.
    pub(super) fn locales(&self) -> Option<&[String]> {
        self.locales.as_deref()
    }
}

/// Cuts `(NAME) words` into name and words.
fn named_list(value: &str) -> Option<(&str, &str)> {
    let (name, words) = value.strip_prefix('(')?.split_once(')')?;
    let name = name.trim();
    (!name.is_empty() && words.starts_with(|c: char| c.is_ascii_whitespace()))
        .then_some((name, words))
}

/// Lists of host names; the value says whether the name is listed or exempt (`!name`).
fn host_lists(settings: &Settings) -> BTreeMap<String, HashMap<Box<[u8]>, bool>> {
    let names =
        ["enlist_uri_host", "delist_uri_host", "blocklist_uri_host", "welcomelist_uri_host"];
    let mut lines: Vec<(&str, &SettingLine)> =
        names.iter().flat_map(|&n| settings.all(n).iter().map(move |l| (n, l))).collect();
    lines.sort_by_key(|(_, l)| l.order);
    let mut lists: BTreeMap<String, HashMap<Box<[u8]>, bool>> = BTreeMap::new();
    for (command, line) in lines {
        let (list, words) = match command {
            "blocklist_uri_host" => (Some("BLOCK"), line.value.as_str()),
            "welcomelist_uri_host" => (Some("WELCOME"), line.value.as_str()),
            _ => match named_list(&line.value) {
                Some((list, words)) => (Some(list), words),
                None => (None, line.value.as_str()),
            },
        };
        for word in words.split_ascii_whitespace() {
            let word = word.to_ascii_lowercase();
            let host = word.strip_prefix('!').unwrap_or(&word);
            let key: Box<[u8]> = host.as_bytes().into();
            match (command, list) {
                ("delist_uri_host", Some(list)) => {
                    lists.entry(list.to_owned()).or_default().remove(&key);
                }
                ("delist_uri_host", None) => {
                    lists.values_mut().for_each(|l| {
                        l.remove(&key);
                    });
                }
                (_, Some(list)) => {
                    let is_listed = host.len() == word.len();
                    lists.entry(list.to_owned()).or_default().insert(key, is_listed);
                }
                (_, None) => {}
            }
        }
    }
    lists
}

fn subject_list(settings: &Settings, name: &str) -> Vec<Glob> {
    settings.all(name).iter().map(|l| Glob::new(&l.value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_rules::rule::Source;

    fn tables(lines: &[(&str, &str)]) -> EvalTables {
        let mut settings = Settings::default();
        for (name, value) in lines {
            settings.add(name, value, Source::default());
        }
        EvalTables::from_settings(&settings)
    }

    #[test]
    fn globs() {
        for (glob, text, matches) in [
            ("*@*.example.com", "a@b.example.com", true),
            ("*@*.example.com", "a@example.com", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("a*", "a\nb", false),
            ("a*b*c", "aXbYbZc", true),
            ("", "", true),
        ] {
            assert_eq!(Glob::new(glob).matches(text.as_bytes()), matches, "{glob} {text}");
        }
        assert!(Glob::new("make money").is_within(b"how to make money fast"));
    }

    #[test]
    fn address_lists_keep_the_order_of_lines() {
        let tables = tables(&[
            ("welcomelist_from", "*@a.example B@example.com"),
            ("unwelcomelist_from", "*@a.example"),
            ("enlist_addrlist", "(BANKS) *@bank.example  *@*.bank.example"),
            ("enlist_addrlist", "BANKS *@not.example"),
        ]);
        let welcome = tables.addresses("welcomelist_from").unwrap();
        assert!(welcome.contains(b"b@EXAMPLE.com") && !welcome.contains(b"x@a.example"));
        let banks = tables.addresses("BANKS").unwrap();
        assert!(banks.contains(b"me@www.bank.example") && !banks.contains(b"x@not.example"));
        assert!(tables.addresses("NONE").is_none());
    }

    #[test]
    fn host_lists_with_exceptions() {
        let tables = tables(&[
            ("enlist_uri_host", "(BAD) !good.bad.example bad.example gone.example"),
            ("delist_uri_host", "(BAD) gone.example"),
            ("blocklist_uri_host", "evil.example"),
        ]);
        let bad = &tables.hosts()["BAD"];
        assert_eq!(bad.get(b"good.bad.example".as_slice()), Some(&false));
        assert_eq!(bad.get(b"bad.example".as_slice()), Some(&true));
        assert_eq!(bad.get(b"gone.example".as_slice()), None);
        assert_eq!(tables.hosts()["BLOCK"].len(), 1);
    }

    #[test]
    fn freemail_wildcards_stay_within_a_label() {
        let tables = tables(&[("freemail_domains", "mail.example hot*.example yahoo.co.*")]);
        let freemail = &tables.freemail;
        assert!(freemail.has_domain(b"hotmail.example") && freemail.has_domain(b"yahoo.co.uk"));
        assert!(!freemail.has_domain(b"hot.mail.example") && !freemail.has_domain(b"x.example"));
        assert!(freemail.is_available() && !Freemail::default().is_available());
    }

    #[test]
    fn relayed_lists() {
        let tables = tables(&[
            ("welcomelist_from_rcvd", "*@A.example mx.example"),
            ("welcomelist_from_rcvd", "*@a.example [192.0.2.1]"),
            ("unwelcomelist_from_rcvd", "*@gone.example"),
        ]);
        let list = tables.relayed("welcomelist_from_rcvd");
        assert_eq!(list.len(), 1);
        assert_eq!(list[0].vouchers, [b"mx.example".to_vec(), b"[192.0.2.1]".to_vec()]);
    }
}
