//! What rules look up in the DNS, as far as it is known when they are loaded.

use std::collections::HashSet;

use gauntlet_rules::RecordType;

use super::template::Piece;

/// What one rule looks up.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Plan {
    /// Addresses of relays, in a list.
    Relays {
        /// Name of the set; its suffix selects the relays.
        set: String,
        zone: String,
        kind: RecordType,
        /// A welcome list: trusted relays are looked up too.
        nice: bool,
        /// Only if the message names this accreditor.
        accreditor: Option<String>,
    },
    /// Hosts of senders, in a list.
    Senders { of: Senders, zone: String, only: LinkHosts },
    /// The most distant hop, in a list.
    FirstHop { zone: String, only: LinkHosts },
    /// Name servers of the envelope sender's domain, in a list.
    Authorities { zone: String },
    /// Hosts of links, in a list.
    Links { how: LinkLookup, zone: String, kind: RecordType, only: LinkHosts },
    /// Names made from tags.
    Template {
        pieces: Vec<Piece>,
        kinds: Vec<RecordType>,
        /// The answer is the response code.
        status: bool,
    },
    /// Whether senders' domains exist.
    SenderExists,
}

/// The senders whose hosts are looked up.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Senders {
    /// Hosts of the From addresses.
    FromHost,
    /// Registered domains of the From addresses.
    FromDomain,
    /// Host of the envelope sender.
    Envelope,
    /// Hosts of the addresses in these header fields, or the lines of the fields.
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
    /// Addresses of the host and of the domain's name servers.
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

/// Which links are looked up in lists.
#[derive(Debug)]
pub(super) struct LinkRules {
    /// Domains and hosts that are never looked up.
    pub(super) skipped: HashSet<String>,
    /// Most domains of one message.
    pub(super) domains_max: usize,
    /// Hosts of `mailto:` URIs too.
    pub(super) mailto: bool,
}

impl Default for LinkRules {
    fn default() -> Self {
        LinkRules { skipped: HashSet::new(), domains_max: 20, mailto: false }
    }
}

/// A zone in lower case without leading and trailing dots, as plans have it.
pub(super) fn bare_zone(zone: Option<&str>) -> String {
    zone.unwrap_or_default().trim_matches('.').to_ascii_lowercase()
}
