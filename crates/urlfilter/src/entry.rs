//! What a line of a list says, whatever its format.

use std::sync::Arc;

/// What a pattern asks of a URL. Hosts and paths are in the canonical form of
/// [`gauntlet_mail::url`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// This host alone, with any path.
    ExactHost(String),
    /// Hosts below this domain, with any path.
    Domain {
        /// The domain.
        domain: String,
        /// Whether the domain itself is meant, too.
        reach: DomainReach,
    },
    /// A host and the beginning of path and query.
    Prefix(Prefix),
    /// A regular expression (syntax of the crate `regex`), tried on the whole canonical URL as
    /// bytes.
    Regex(String),
}

/// Which hosts a domain stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DomainReach {
    /// The domain and all below.
    WithItself,
    /// Only what is below, as `*.example.com` in a zone.
    BelowOnly,
}

/// A host and the beginning of path and query.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The host.
    pub host: String,
    /// Which hosts it stands for.
    pub hosts: PrefixHosts,
    /// A port that the URL must have; none stands for all.
    pub port: Option<u16>,
    /// Beginning of path and query, from the `/`.
    pub path: String,
    /// Where the beginning may end.
    pub end: PrefixEnd,
    /// Whether letters of the path count as equal in both cases.
    pub case: Case,
}

/// Which hosts a prefix stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrefixHosts {
    /// The host alone.
    Exact,
    /// The host, alone or behind `www.`, `web.` or `ftp.` with any number (squidGuard).
    ServerNames,
    /// The host and all below (AdBlock `||`).
    Below,
}

/// Where a prefix may end in a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrefixEnd {
    /// Only where a segment, the path or a parameter ends: `/a` is no prefix of `/ab`.
    Boundary,
    /// Anywhere.
    Anywhere,
}

/// Whether upper and lower case differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Case {
    /// They differ.
    Sensitive,
    /// They are equal, in ASCII.
    Folded,
}

/// Whose requests an entry is for (AdBlock `$third-party`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Party {
    /// All.
    #[default]
    Any,
    /// Those that a page of another site makes.
    Third,
    /// Those that a page of the same site makes.
    First,
}

/// One entry of a list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// What it asks of a URL.
    pub pattern: Pattern,
    /// Its category, if the list says one.
    pub category: Option<Arc<str>>,
    /// It says what is not meant (AdBlock `@@`, RPZ `rpz-passthru.`).
    pub is_exception: bool,
    /// No exception of its list undoes it (AdBlock `$important`).
    pub is_important: bool,
    /// Whose requests it is for.
    pub party: Party,
    /// Line in its file, from 1.
    pub line: u64,
}

impl Entry {
    /// An entry without category and options.
    pub fn new(pattern: Pattern) -> Self {
        Entry {
            pattern,
            category: None,
            is_exception: false,
            is_important: false,
            party: Party::Any,
            line: 0,
        }
    }
}
