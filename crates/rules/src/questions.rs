//! What rules ask of the DNS, as data: who gathers facts asks, and the rules read the answers from
//! [`gauntlet_mail::Facts::rule_answers`] under the question's text.

use std::fmt;

/// Questions of one message; further ones are not asked.
pub const QUESTIONS_MAX: usize = 400;

/// The type of record that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordType {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
    /// Mail exchangers.
    Mx,
    /// Name servers.
    Ns,
    /// The name of an address.
    Ptr,
    /// Texts.
    Txt,
}

impl RecordType {
    /// The type of this name, in any case; none if rules cannot ask for it.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "A" => RecordType::A,
            "AAAA" => RecordType::Aaaa,
            "MX" => RecordType::Mx,
            "NS" => RecordType::Ns,
            "PTR" => RecordType::Ptr,
            "TXT" => RecordType::Txt,
            _ => return None,
        })
    }

    /// As zone files write it.
    pub fn name(self) -> &'static str {
        match self {
            RecordType::A => "A",
            RecordType::Aaaa => "AAAA",
            RecordType::Mx => "MX",
            RecordType::Ns => "NS",
            RecordType::Ptr => "PTR",
            RecordType::Txt => "TXT",
        }
    }
}

/// Under which name a question is asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum About {
    /// This one.
    Name(String),
    /// Each address of the host, backwards, before the zone.
    AddressesOf(String),
    /// Each address of each name server of the domain, backwards, before the zone.
    ServersOf(String),
    /// Each name server of the domain, before the zone.
    ServerNamesOf {
        /// The domain.
        domain: String,
        /// The whole names, not their registered domains.
        whole: bool,
    },
}

/// A question that rules ask about a message. Its text (`A 2.0.0.127.zen.example`) names the answer in
/// the facts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    /// Type of record.
    pub kind: RecordType,
    /// Name, or how names are found.
    pub about: About,
    /// The list's zone in lower case without a dot at its end; empty if no list is asked.
    pub zone: String,
    /// That there is nothing is an answer too.
    pub absence: bool,
}

impl Question {
    /// The name to ask, if it needs no other question first.
    pub fn name(&self) -> Option<String> {
        match &self.about {
            About::Name(name) if self.zone.is_empty() => Some(name.clone()),
            About::Name(name) => Some(format!("{name}.{}", self.zone)),
            _ => None,
        }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind.name())?;
        match &self.about {
            About::Name(name) => f.write_str(name)?,
            About::AddressesOf(host) => write!(f, "addresses({host})")?,
            About::ServersOf(domain) => write!(f, "servers({domain})")?,
            About::ServerNamesOf { domain, whole: false } => write!(f, "server-domains({domain})")?,
            About::ServerNamesOf { domain, whole: true } => write!(f, "server-names({domain})")?,
        }
        if self.zone.is_empty() { Ok(()) } else { write!(f, ".{}", self.zone) }
    }
}
