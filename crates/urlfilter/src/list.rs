//! Compiled lists in use, and looking a URL up in all of them.
//!
//! A look-up hashes the host and each domain above it, skips those with a number of labels that no
//! host of the list has, and where a host has prefixes, the beginnings of the path of the lengths
//! that they have. It never searches. Of a large list nearly every read waits for memory, so that
//! the slots of all names are read before one of them is looked at: they wait together.

use std::path::Path;
use std::sync::Arc;

use gauntlet_mail::url::{CanonicalUrl, UrlTraits};
use regex::bytes::RegexSet;

use crate::compiled::{
    Kind, Lengths, Map, MapInfo, OpenError, Record, host_hash, is_boundary, label_bit, path_hash,
};
use crate::entry::{Case, DomainReach, Party, PrefixEnd, PrefixHosts};
use crate::forms::{self, Reading};
use crate::matches::{Match, Matched, Matches, Origin, Role};
use crate::server_names;

/// A compiled list, mapped into memory. Dropping it unmaps the file.
#[derive(Debug)]
pub struct UrlList {
    name: String,
    role: Role,
    map: Map,
    info: MapInfo,
    regexes: RegexSet,
}

impl UrlList {
    /// Opens a compiled file under the name that its matches will bear. Every byte of it is checked
    /// once.
    ///
    /// # Errors
    /// If it cannot be opened, is of another version, or is damaged in any byte.
    pub fn open(path: &Path, name: &str, role: Role) -> Result<UrlList, OpenError> {
        UrlList::open_with(path, None, name, role)
    }

    /// The same of a copy without a name in the folder `copies`, so that whoever writes into the
    /// file afterwards changes nothing; where none can be made, of one in memory
    /// ([`UrlList::is_in_memory`]).
    ///
    /// # Errors
    /// As [`UrlList::open`] has them.
    pub fn open_copied(
        path: &Path,
        copies: &Path,
        name: &str,
        role: Role,
    ) -> Result<UrlList, OpenError> {
        UrlList::open_with(path, Some(copies), name, role)
    }

    fn open_with(
        path: &Path,
        copies: Option<&Path>,
        name: &str,
        role: Role,
    ) -> Result<UrlList, OpenError> {
        let (map, info) = Map::open(path, copies)?;
        let texts = info.regexes.iter().map(|row| row.text.as_str());
        let regexes = crate::regexes::set(texts)
            .map_err(|_| OpenError::Damaged { path: path.to_owned(), what: "its expressions" })?;
        Ok(UrlList { name: name.to_owned(), role, map, info, regexes })
    }

    /// Whether a file begins as a compiled list does.
    pub fn is_compiled(path: &Path) -> bool {
        Map::is_one(path)
    }

    /// It was to be copied, and no copy could be made on the disk.
    pub fn is_in_memory(&self) -> bool {
        self.map.is_in_memory()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is for.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Entries.
    pub fn entries(&self) -> u64 {
        self.map.entries()
    }

    /// Regular expressions among them.
    pub fn regexes(&self) -> usize {
        self.info.regexes.len()
    }

    /// Bytes of the file, which are mapped.
    pub fn file_bytes(&self) -> u64 {
        self.map.file_bytes()
    }

    /// The categories that its entries have.
    pub fn categories(&self) -> &[String] {
        &self.info.categories
    }

    /// The files that it was compiled from.
    pub fn sources(&self) -> &[String] {
        &self.info.sources
    }

    /// BLAKE3 of what it was compiled from: equal if nothing has changed.
    pub fn sources_hash(&self) -> [u8; 32] {
        self.map.sources_hash()
    }

    fn look_up<'a>(&'a self, url: &Asked<'_>, found: &mut Matches<'a>) {
        let mut names = Names::of(url);
        loop {
            let mut batch = [Name::default(); NAMES_READ_AHEAD];
            let mut count = 0;
            for name in &mut batch {
                let Some(next) = names.next(&self.map) else { break };
                *name = next;
                count += 1;
            }
            for name in batch.iter().take(count).filter(|name| name.slot != 0) {
                self.look_up_host(url, name, found);
            }
            if count < NAMES_READ_AHEAD {
                break;
            }
        }
        if !self.info.regexes.is_empty() && self.regexes.is_match(url.whole.as_bytes()) {
            self.look_up_regexes(url, found);
        }
    }

    /// Looks for the host or a domain above it.
    #[inline]
    fn look_up_host<'a>(&'a self, url: &Asked<'_>, at: &Name, found: &mut Matches<'a>) {
        let name = url.host.get(at.start..).unwrap_or_default();
        for record in self.map.find(at.hash) {
            match record.kind {
                Kind::Lengths => self.look_up_prefixes(url, (name, at.hash), &record, found),
                Kind::ExactHost | Kind::Domain if record.host != name => {}
                Kind::ExactHost if name.len() == url.host.len() => {
                    self.push(url, &record, found);
                }
                Kind::Domain
                    if name.len() < url.host.len()
                        || record.options.reach() == DomainReach::WithItself =>
                {
                    self.push(url, &record, found);
                }
                Kind::ExactHost | Kind::Domain | Kind::Prefix => {}
            }
        }
    }

    /// Looks for prefixes under a host, with the lengths that they have.
    fn look_up_prefixes<'a>(
        &'a self,
        url: &Asked<'_>,
        (name, hash): (&[u8], u64),
        lengths: &Record<'_>,
        found: &mut Matches<'a>,
    ) {
        let Some(lengths) = Lengths::decode(lengths.path) else { return };
        for length in lengths.iter() {
            let Some(start) = url.path.get(..length) else { return };
            for record in self.map.find(path_hash(hash, start)) {
                if record.kind == Kind::Prefix && record.host == name && is_prefix(url, &record) {
                    self.push(url, &record, found);
                }
            }
        }
    }

    fn look_up_regexes<'a>(&'a self, url: &Asked<'_>, found: &mut Matches<'a>) {
        for at in &self.regexes.matches(url.whole.as_bytes()) {
            let Some(row) = self.info.regexes.get(at) else { continue };
            if !is_for(row.options.party(), url.origin) {
                continue;
            }
            found.push(Match {
                list: &self.name,
                role: self.role,
                category: name(&self.info.categories, row.category),
                pattern: Matched::Regex(&row.text),
                source: name(&self.info.sources, row.source),
                line: row.line,
                is_exception: row.options.is_exception(),
                is_important: row.options.is_important(),
            });
        }
    }

    fn push<'a>(&'a self, url: &Asked<'_>, record: &Record<'a>, found: &mut Matches<'a>) {
        if !is_for(record.options.party(), url.origin) {
            return;
        }
        let text = |bytes: &'a [u8]| std::str::from_utf8(bytes).unwrap_or_default();
        let host = text(record.host);
        let pattern = match record.kind {
            Kind::ExactHost => Matched::ExactHost(host),
            Kind::Domain => Matched::Domain(host, record.options.reach()),
            Kind::Prefix => Matched::Prefix {
                host,
                hosts: record.options.hosts(),
                port: (record.port != 0).then_some(record.port),
                path: text(record.path),
            },
            Kind::Lengths => return,
        };
        found.push(Match {
            list: &self.name,
            role: self.role,
            category: name(&self.info.categories, record.category),
            pattern,
            source: name(&self.info.sources, record.source),
            line: record.line,
            is_exception: record.options.is_exception(),
            is_important: record.options.is_important(),
        });
    }
}

fn name(names: &[String], number: u16) -> &str {
    names.get(usize::from(number)).map_or("", String::as_str)
}

fn is_for(party: Party, origin: Origin) -> bool {
    match party {
        Party::Any => true,
        Party::Third => origin == Origin::OtherSite,
        Party::First => origin == Origin::SameSite,
    }
}

/// Whether the URL is below the prefix of this record, whose host is its own or one above.
fn is_prefix(url: &Asked<'_>, record: &Record<'_>) -> bool {
    let Some((start, rest)) = url.path.split_at_checked(record.path.len()) else { return false };
    let is_same = match record.options.case() {
        Case::Sensitive => start == record.path,
        Case::Folded => start.eq_ignore_ascii_case(record.path),
    };
    let before = url.host.len() - record.host.len().min(url.host.len());
    let is_host = match record.options.hosts() {
        PrefixHosts::Exact => before == 0,
        PrefixHosts::Below => true,
        PrefixHosts::ServerNames => {
            let label = url.host.get(..before.saturating_sub(1)).unwrap_or_default();
            before == 0 || std::str::from_utf8(label).is_ok_and(server_names::is_one)
        }
    };
    let is_end = match record.options.end() {
        PrefixEnd::Anywhere => true,
        PrefixEnd::Boundary => is_boundary(record.path, rest.first()),
    };
    let is_port = record.port == 0 || Some(record.port) == url.port;
    is_same && is_host && is_end && is_port
}

/// Names of a host whose slots are read before one of them is looked at.
const NAMES_READ_AHEAD: usize = 4;

/// The host of a URL, or a domain above it.
#[derive(Debug, Clone, Copy, Default)]
struct Name {
    /// Where it begins in the host.
    start: usize,
    hash: u64,
    /// What its slot has; 0 for nothing.
    slot: u64,
}

/// The names that a list may have: the host and each domain above; of an address itself alone.
struct Names<'u> {
    host: &'u [u8],
    is_address: bool,
    /// Labels of the next name; 0 at the end.
    labels: usize,
    start: usize,
}

impl<'u> Names<'u> {
    fn of(url: &Asked<'u>) -> Names<'u> {
        let labels = memchr::memchr_iter(b'.', url.host).count() + 1;
        Names { host: url.host, is_address: url.is_address, labels, start: 0 }
    }

    /// The next one with a number of labels that hosts of the list have.
    #[inline]
    fn next(&mut self, map: &Map) -> Option<Name> {
        while self.labels > 0 {
            let (start, labels) = (self.start, self.labels);
            let name = self.host.get(start..).unwrap_or_default();
            self.labels = if self.is_address { 0 } else { labels - 1 };
            self.start += memchr::memchr(b'.', name).map_or(name.len(), |dot| dot + 1);
            if map.labels() & label_bit(labels) != 0 {
                let hash = host_hash(map.seed(), name);
                return Some(Name { start, hash, slot: map.first_slot(hash) });
            }
        }
        None
    }
}

/// The parts of the URL that is looked up.
struct Asked<'u> {
    whole: &'u str,
    host: &'u [u8],
    path: &'u [u8],
    port: Option<u16>,
    is_address: bool,
    origin: Origin,
}

impl<'u> Asked<'u> {
    /// A form of a URL.
    fn of(
        url: &CanonicalUrl,
        whole: &'u str,
        host: &'u str,
        path: &'u str,
        origin: Origin,
    ) -> Asked<'u> {
        Asked {
            whole,
            host: host.as_bytes(),
            path: path.as_bytes(),
            port: url.port(),
            is_address: url.traits().has(UrlTraits::IP),
            origin,
        }
    }
}

/// Several lists, looked up together. To replace one of them, make the next value and put it where
/// the old one was (`Arc`, `ArcSwap`): who still has the old one keeps it, and its file stays
/// mapped for as long.
#[derive(Debug, Clone, Default)]
pub struct UrlLists {
    lists: Vec<Arc<UrlList>>,
}

impl UrlLists {
    /// These lists.
    pub fn new(lists: Vec<Arc<UrlList>>) -> UrlLists {
        UrlLists { lists }
    }

    /// These lists with another one in place of that of its name, or behind all if there is none.
    /// The others are shared, not read again.
    pub fn with(&self, list: Arc<UrlList>) -> UrlLists {
        let mut lists = self.lists.clone();
        match lists.iter_mut().find(|old| old.name == list.name) {
            Some(old) => *old = list,
            None => lists.push(list),
        }
        UrlLists { lists }
    }

    /// The lists, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &UrlList> {
        self.lists.iter().map(Arc::as_ref)
    }

    /// Looks a URL up, without knowing who asks for it.
    pub fn look_up(&self, url: &CanonicalUrl) -> Matches<'_> {
        self.look_up_from(url, Origin::Unknown)
    }

    /// Looks a URL up that a page of this origin asks for.
    pub fn look_up_from(&self, url: &CanonicalUrl, origin: Origin) -> Matches<'_> {
        let mut matches = Matches::default();
        let Some(forms) = forms::of(url) else {
            let (host, path) = (url.host(), url.path_and_query());
            self.ask(&Asked::of(url, url.as_str(), host, path, origin), &mut matches);
            matches.sort();
            return matches;
        };
        // What the forms found that stand before the one that most servers have.
        let mut some: Vec<(&str, Matches<'_>)> = Vec::new();
        for form in &forms {
            let mut found = Matches::default();
            self.ask(&Asked::of(url, &form.whole, &form.host, &form.path, origin), &mut found);
            match form.reading {
                Reading::Most => {
                    let by_each = |found: &Match<'_>| {
                        some.iter().all(|(path, all)| found.is_among(all, path))
                    };
                    matches.unite(&found, by_each);
                    some.clear();
                }
                Reading::Some => {
                    matches.unite(&found, |_| false);
                    some.push((&form.path, found));
                }
                Reading::Written => matches.unite(&found, |_| false),
            }
        }
        matches.sort();
        matches
    }

    fn ask<'a>(&'a self, asked: &Asked<'_>, matches: &mut Matches<'a>) {
        for list in &self.lists {
            list.look_up(asked, matches);
        }
    }
}
