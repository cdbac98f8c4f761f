//! What a look-up found, with its evidence.

use std::borrow::Cow;
use std::fmt;

use gauntlet_mail::url::without_parameters;

use crate::entry::{DomainReach, PrefixHosts};

/// Who asks for a URL: rules of AdBlock may be for one of the two alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// Not known: entries for one of the two do not match.
    #[default]
    Unknown,
    /// A page of the same registrable domain.
    SameSite,
    /// A page of another one.
    OtherSite,
}

/// What a list is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// What it has is of its categories.
    Match,
    /// What it has undoes matches of all lists.
    Allow,
}

/// The pattern of an entry in canonical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matched<'a> {
    /// A host alone.
    ExactHost(&'a str),
    /// A domain and what is below.
    Domain(&'a str, DomainReach),
    /// A host and the beginning of path and query.
    Prefix {
        /// The host.
        host: &'a str,
        /// Which hosts it stands for.
        hosts: PrefixHosts,
        /// Port that the URL must have.
        port: Option<u16>,
        /// Beginning of path and query.
        path: &'a str,
    },
    /// A regular expression.
    Regex(&'a str),
}

impl Matched<'_> {
    /// What kind of pattern it is, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Matched::ExactHost(_) => "host",
            Matched::Domain(..) => "domain",
            Matched::Prefix { .. } => "prefix",
            Matched::Regex(_) => "regex",
        }
    }

    /// The pattern without its kind.
    pub fn text(&self) -> Cow<'_, str> {
        match *self {
            Matched::ExactHost(text) | Matched::Regex(text) => Cow::Borrowed(text),
            Matched::Domain(domain, DomainReach::WithItself) => Cow::Borrowed(domain),
            Matched::Domain(domain, DomainReach::BelowOnly) => Cow::Owned(format!("*.{domain}")),
            Matched::Prefix { host, hosts, port, path } => {
                let before = if hosts == PrefixHosts::Below { "[*.]" } else { "" };
                let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                Cow::Owned(format!("{before}{host}{port}{path}"))
            }
        }
    }

    /// Ranks patterns: a longer path before a shorter one, a host before its domains, those before
    /// expressions.
    pub(crate) fn specificity(&self) -> (u8, usize) {
        match self {
            Matched::Prefix { host, path, .. } => (3, path.len() * 256 + host.len()),
            Matched::ExactHost(host) => (2, host.len()),
            Matched::Domain(domain, _) => (1, domain.len()),
            Matched::Regex(text) => (0, text.len()),
        }
    }
}

impl fmt::Display for Matched<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.text())
    }
}

/// An entry that a URL matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match<'a> {
    /// Name of the list.
    pub list: &'a str,
    /// What the list is for.
    pub role: Role,
    /// Category of the entry.
    pub category: &'a str,
    /// Its pattern.
    pub pattern: Matched<'a>,
    /// File that it comes from, as it was named when it was compiled.
    pub source: &'a str,
    /// Its line there, from 1.
    pub line: u32,
    /// It says what is not meant.
    pub is_exception: bool,
    /// No exception of its list undoes it.
    pub is_important: bool,
}

impl Match<'_> {
    /// Whether it undoes others, in its own list or in all.
    fn undoes(&self) -> bool {
        self.is_exception || self.role == Role::Allow
    }

    /// Whether another reading of the URL, with this path, is found by the same entry. One that has
    /// parameters of segments itself is taken without them.
    pub(crate) fn is_among(&self, matches: &Matches<'_>, path: &str) -> bool {
        let is_beginning = |own: &str| {
            let bare = without_parameters(own);
            let rest = path.strip_prefix(&*bare).filter(|_| bare != own);
            rest.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with(['/', '?']) || bare.ends_with('/')
            })
        };
        matches.all().contains(self)
            || matches!(self.pattern, Matched::Prefix { path: own, .. } if is_beginning(own))
    }
}

impl fmt::Display for Match<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Match { list, category, pattern, source, line, .. } = self;
        write!(f, "{list}: {category}: {pattern} ({source}:{line})")
    }
}

/// All entries that a URL matches, most specific first. Nothing is allocated for a single one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matches<'a> {
    found: Found<'a>,
}

/// Most URLs that a list has, it has once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Found<'a> {
    #[default]
    Nothing,
    One(Match<'a>),
    Several(Vec<Match<'a>>),
}

impl<'a> Matches<'a> {
    /// Adds an entry behind the others.
    pub(crate) fn push(&mut self, found: Match<'a>) {
        match &mut self.found {
            Found::Nothing => self.found = Found::One(found),
            Found::One(first) => self.found = Found::Several(vec![*first, found]),
            Found::Several(all) => all.push(found),
        }
    }

    /// Adds what a look-up by another form of the same URL found, once; what would undo others only
    /// if it may.
    pub(crate) fn unite(&mut self, others: &Matches<'a>, may_undo: impl Fn(&Match<'a>) -> bool) {
        for found in others.all() {
            if (!found.undoes() || may_undo(found)) && !self.all().contains(found) {
                self.push(*found);
            }
        }
    }

    /// Brings the entries into their order; those of equal rank stay in the order of the lists.
    pub(crate) fn sort(&mut self) {
        if let Found::Several(all) = &mut self.found {
            all.sort_by_key(|found| std::cmp::Reverse(found.pattern.specificity()));
        }
    }

    /// Every entry, exceptions and what they undo among them.
    pub fn all(&self) -> &[Match<'a>] {
        match &self.found {
            Found::Nothing => &[],
            Found::One(found) => std::slice::from_ref(found),
            Found::Several(all) => all,
        }
    }

    /// Nothing was found, not even an exception.
    pub fn is_empty(&self) -> bool {
        matches!(self.found, Found::Nothing)
    }

    /// The entry that undoes this one: an entry of an allow list undoes those of every list, an
    /// exception those of its own that are not important.
    pub fn undone_by(&self, found: &Match<'a>) -> Option<&Match<'a>> {
        self.all().iter().find(|other| match other.role {
            Role::Allow => !other.is_exception,
            Role::Match => other.is_exception && other.list == found.list && !found.is_important,
        })
    }

    /// The entries that count.
    pub fn effective(&self) -> impl Iterator<Item = &Match<'a>> {
        self.all().iter().filter(|found| !found.undoes() && self.undone_by(found).is_none())
    }

    /// The most specific entry that counts.
    pub fn first(&self) -> Option<&Match<'a>> {
        self.effective().next()
    }
}
