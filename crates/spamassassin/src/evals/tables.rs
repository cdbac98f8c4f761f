//! Lists of the rule files that eval functions look things up in.

use std::collections::BTreeMap;

use super::network::NetworkTables;
use crate::boundaries::Boundaries;
use gauntlet_rules::hash::{HashMap, HashSet};
use gauntlet_rules::settings::{SettingLine, Settings};

/// Settings and lists that functions look things up in, read once when rules are loaded.
#[derive(Debug, Default)]
pub struct EvalTables {
    /// Registry boundaries.
    pub boundaries: Boundaries,
    pub(super) freemail: Freemail,
    addresses: BTreeMap<String, AddressList>,
    relayed: BTreeMap<&'static str, RelayedList>,
    hosts: BTreeMap<String, HashMap<Box<[u8]>, bool>>,
    subjects: BTreeMap<&'static str, Vec<Glob>>,
    /// Wanted locales; none if all are wanted.
    locales: Option<Vec<String>>,
    pub(super) network: NetworkTables,
    /// Points from which a message is spam.
    pub(crate) required_score: f64,
}

/// Lists of addresses that have a setting of their own; `enlist_addrlist` makes more.
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

/// Lists of an address and what must vouch for it: a relay, or a signing domain.
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

    /// Wanted locales; none if all are wanted.
    pub(super) fn locales(&self) -> Option<&[String]> {
        self.locales.as_deref()
    }
}

/// A file-glob over bytes: `*` is any text without a line feed, `?` one such byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob(Box<[u8]>);

impl Glob {
    pub(super) fn new(text: &str) -> Self {
        Glob(text.to_ascii_lowercase().into_bytes().into())
    }

    /// Whether the whole text (in lower case) matches.
    pub(super) fn matches(&self, text: &[u8]) -> bool {
        // What stands after the last wildcard ends the text, or no way there needs to be tried.
        // Most say so by their last bytes.
        for (wanted, byte) in self.0.iter().rev().zip(text.iter().rev().chain([&b'\n'])) {
            if matches!(wanted, b'*' | b'?') {
                break;
            }
            if wanted != byte {
                return false;
            }
        }
        let (mut p, mut t) = (0, 0);
        // Where to go on when the text after the last star turns out not to fit.
        let mut retry: Option<(usize, usize)> = None;
        while t < text.len() {
            let fits = match self.0.get(p) {
                Some(b'*') => {
                    retry = Some((p + 1, t));
                    p += 1;
                    continue;
                }
                Some(b'?') => text[t] != b'\n',
                Some(&b) => b == text[t],
                None => false,
            };
            if fits {
                (p, t) = (p + 1, t + 1);
            } else if let Some((after_star, at)) = retry.filter(|&(_, at)| text[at] != b'\n') {
                retry = Some((after_star, at + 1));
                (p, t) = (after_star, at + 1);
            } else {
                return false;
            }
        }
        self.0[p.min(self.0.len())..].iter().all(|&b| b == b'*')
    }

    /// Whether any piece of the text (in lower case) matches.
    pub(super) fn is_within(&self, text: &[u8]) -> bool {
        Glob([b"*", &*self.0, b"*"].concat().into()).matches(text)
    }

    /// The byte that every text ends with which matches; none if there is none such.
    fn last_byte(&self) -> Option<u8> {
        self.0.last().copied().filter(|b| !matches!(b, b'*' | b'?'))
    }

    fn is_plain(&self) -> bool {
        !self.0.iter().any(|b| matches!(b, b'*' | b'?'))
    }
}

/// Addresses and globs of addresses.
#[derive(Debug, Clone, Default)]
pub(super) struct AddressList {
    exact: HashSet<Box<[u8]>>,
    /// By the last byte, unless that is a wildcard.
    globs: HashMap<Option<u8>, Vec<Glob>>,
}

impl AddressList {
    fn add(&mut self, word: &str) {
        let glob = Glob::new(word);
        if glob.is_plain() {
            self.exact.insert(glob.0);
        } else {
            let alike = self.globs.entry(glob.last_byte()).or_default();
            if !alike.contains(&glob) {
                alike.push(glob);
            }
        }
    }

    fn remove(&mut self, word: &str) {
        let glob = Glob::new(word);
        self.exact.remove(&glob.0);
        self.globs.retain(|_, alike| {
            alike.retain(|g| *g != glob);
            !alike.is_empty()
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.globs.is_empty()
    }

    pub(super) fn contains(&self, address: &[u8]) -> bool {
        if self.is_empty() {
            return false;
        }
        let address = address.to_ascii_lowercase();
        let ends = [None, address.last().copied()];
        // An empty address ends in no byte: the first list is its only one.
        let ends = &ends[..1 + usize::from(!address.is_empty())];
        let mut globs = ends.iter().filter_map(|end| self.globs.get(end)).flatten();
        self.exact.contains(address.as_slice()) || globs.any(|glob| glob.matches(&address))
    }
}

/// Lines of a setting and of the one that takes back, in the files' order; true means taken back.
fn with_removals<'s>(
    settings: &'s Settings,
    name: &str,
    removal: &str,
) -> Vec<(bool, &'s SettingLine)> {
    let added = settings.all(name).iter().map(|l| (false, l));
    let removed = settings.all(removal).iter().map(|l| (true, l));
    let mut lines: Vec<_> = added.chain(removed).collect();
    lines.sort_by_key(|(_, l)| l.order);
    lines
}

fn removal_name(name: &str) -> String {
    format!("un{}", name.strip_prefix("def_").unwrap_or(name))
}

fn address_list(settings: &Settings, name: &str) -> AddressList {
    let mut list = AddressList::default();
    for (is_removal, line) in with_removals(settings, name, &removal_name(name)) {
        for word in line.value.split_ascii_whitespace() {
            if is_removal {
                list.remove(word);
            } else {
                list.add(word);
            }
        }
    }
    list
}

/// An address glob, and what must vouch for it (in lower case, without repetition of the glob).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Relayed {
    pub(super) address: Glob,
    /// A host name or `[address]` of a relay, or a signing domain; empty if the line has none.
    pub(super) vouchers: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, Default)]
struct RelayedList(Vec<Relayed>);

fn relayed_list(settings: &Settings, name: &str) -> RelayedList {
    let mut list: Vec<Relayed> = Vec::new();
    for (is_removal, line) in with_removals(settings, name, &removal_name(name)) {
        let mut words = line.value.split_ascii_whitespace();
        if is_removal {
            words.for_each(|word| list.retain(|r| r.address != Glob::new(word)));
            continue;
        }
        // SPF lines hold addresses only; the others one address and its voucher.
        let pairs: Vec<(&str, &str)> = if name.ends_with("_spf") {
            words.map(|w| (w, "")).collect()
        } else {
            let Some(address) = words.next() else { continue };
            vec![(address, words.next().unwrap_or_default())]
        };
        for (address, voucher) in pairs {
            let (address, voucher) =
                (Glob::new(address), voucher.to_ascii_lowercase().into_bytes());
            match list.iter_mut().find(|r| r.address == address) {
                Some(known) => known.vouchers.push(voucher),
                None => list.push(Relayed { address, vouchers: vec![voucher] }),
            }
        }
    }
    RelayedList(list)
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

/// Who gives mailboxes to everybody.
#[derive(Debug, Default)]
pub(super) struct Freemail {
    domains: HashSet<Box<[u8]>>,
    wildcards: Vec<DomainGlob>,
    welcome: HashSet<Box<[u8]>>,
    /// Different addresses in the body from which on it is not looked at; 0 never.
    pub(super) body_emails_max: usize,
    /// Different freemail addresses in the body from which on it is not looked at; 0 never.
    pub(super) body_freemails_max: usize,
    pub(super) skip_when_over_max: bool,
    pub(super) skip_bulk_envelope: bool,
    imports: Vec<AddressList>,
}

impl Freemail {
    fn from_settings(settings: &Settings) -> Self {
        let words = |name| settings.words(name).map(str::to_ascii_lowercase);
        let is_word =
            |w: &String| w.bytes().all(|b| b.is_ascii_alphanumeric() || b".*?-".contains(&b));
        let (wildcards, domains): (Vec<String>, Vec<String>) =
            words("freemail_domains").filter(is_word).partition(|w| w.contains(['*', '?']));
        let bytes = |w: String| w.into_bytes().into_boxed_slice();
        let imports = ["welcomelist_auth", "def_welcomelist_auth"]
            .iter()
            .filter(|name| settings.number(&format!("freemail_import_{name}"), 0.0) != 0.0)
            .map(|name| address_list(settings, name));
        Freemail {
            domains: domains.into_iter().map(bytes).collect(),
            wildcards: wildcards.into_iter().map(|w| DomainGlob(bytes(w))).collect(),
            welcome: words("freemail_welcomelist").map(bytes).collect(),
            body_emails_max: settings.number("freemail_max_body_emails", 5.0) as usize,
            body_freemails_max: settings.number("freemail_max_body_freemails", 3.0) as usize,
            skip_when_over_max: settings.number("freemail_skip_when_over_max", 1.0) != 0.0,
            skip_bulk_envelope: settings.number("freemail_skip_bulk_envfrom", 1.0) != 0.0,
            imports: imports.collect(),
        }
    }

    /// Whether any domain is known at all.
    pub(super) fn is_available(&self) -> bool {
        !self.domains.is_empty() || !self.wildcards.is_empty()
    }

    pub(super) fn is_welcome(&self, address: &[u8], domain: &[u8]) -> bool {
        self.welcome.contains(address)
            || self.welcome.contains(domain)
            || self.imports.iter().any(|list| list.contains(address))
    }

    pub(super) fn has_domain(&self, domain: &[u8]) -> bool {
        self.domains.contains(domain) || self.wildcards.iter().any(|w| w.matches(domain))
    }
}

/// A domain pattern, whose `*` does not cross a dot.
#[derive(Debug)]
struct DomainGlob(Box<[u8]>);

impl DomainGlob {
    fn matches(&self, domain: &[u8]) -> bool {
        // Nearly all differ in what stands before the first wildcard, or behind the last.
        let is_plain = |b: &&u8| !matches!(b, b'*' | b'?');
        let mut head = self.0.iter().take_while(is_plain);
        let mut tail = self.0.iter().rev().take_while(is_plain);
        let (mut bytes, mut backwards) = (domain.iter(), domain.iter().rev());
        head.all(|wanted| bytes.next() == Some(wanted))
            && tail.all(|wanted| backwards.next() == Some(wanted))
            && domain_glob(&self.0, domain)
    }
}

/// Whether a domain matches a pattern whose `*` does not cross a dot (and whose `?` is any byte).
fn domain_glob(pattern: &[u8], domain: &[u8]) -> bool {
    match (pattern.split_first(), domain.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            let label = domain.iter().take_while(|&&b| b != b'.').count();
            (0..=label).any(|n| domain_glob(rest, &domain[n..]))
        }
        (Some((b'?', p)), Some((_, d))) => domain_glob(p, d),
        (Some((a, p)), Some((b, d))) => a == b && domain_glob(p, d),
        _ => false,
    }
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
