//! DNS questions of rules, as data. Whatever gathers facts looks them up before the scan; rules
//! read the answers from [`gauntlet_mail::Facts::rule_answers`] under the question's text.

use std::collections::BTreeMap;
use std::fmt;

use gauntlet_rules::RecordType;
use gauntlet_rules::settings::Settings;

/// Most questions of one message; further ones are not looked up.
pub const QUESTIONS_MAX: usize = 400;

/// The names that a question looks up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum About {
    /// This name, as it stands here.
    Name(String),
    /// Each address of the host, reversed, before the zone.
    AddressesOf(String),
    /// Each address of each name server of the domain, reversed, before the zone.
    ServersOf(String),
    /// Each name server of the domain, before the zone.
    ServerNamesOf {
        /// Whose name servers they are.
        domain: String,
        /// The whole names, not their registered domains.
        whole: bool,
    },
    /// Each name server of the host's domain and the domain's first one (SOA), before the zone.
    AuthoritiesOf(String),
}

/// A DNS question of rules about a message. Its text (`A 2.0.0.127.zen.example`) is the key of the
/// answer in the facts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    /// Type of the DNS record that is looked up.
    pub kind: RecordType,
    /// The name, or how the names are found.
    pub about: About,
    /// The list's zone in lower case without a trailing dot; empty if no list is queried.
    pub zone: String,
    /// The absence of records is an answer too.
    pub absence: bool,
    /// The answer is the response code (`NOERROR`, `NXDOMAIN`, `REFUSED`, `SERVFAIL`), not the
    /// records.
    pub status: bool,
}

impl Question {
    /// The name to look up, if that needs no other question first.
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
        if self.status {
            f.write_str("status ")?;
        }
        write!(f, "{} ", self.kind.name())?;
        match &self.about {
            About::Name(name) => f.write_str(name)?,
            About::AddressesOf(host) => write!(f, "addresses({host})")?,
            About::ServersOf(domain) => write!(f, "servers({domain})")?,
            About::ServerNamesOf { domain, whole: false } => write!(f, "server-domains({domain})")?,
            About::ServerNamesOf { domain, whole: true } => write!(f, "server-names({domain})")?,
            About::AuthoritiesOf(host) => write!(f, "authorities({host})")?,
        }
        if self.zone.is_empty() { Ok(()) } else { write!(f, ".{}", self.zone) }
    }
}

/// Which names rules may look up (`dns_query_restriction`), and which are blocked for a while after
/// a rule fired (`dns_block_rule`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restrictions {
    /// Whether lookups are allowed, by domain in lower case; `*` is every domain that has no line
    /// of its own.
    domains: BTreeMap<String, bool>,
    /// A rule, and the domain that is blocked once it fired.
    pub blocks: Vec<(String, String)>,
    /// Duration of a block, in seconds.
    pub block_seconds: u64,
}

/// Lines of each kind that are read.
const RESTRICTIONS_MAX: usize = 10_000;
/// Default and maximum of that.
const BLOCK_SECONDS: f64 = 300.0;
const BLOCK_SECONDS_MAX: f64 = 7.0 * 86_400.0;

impl Restrictions {
    /// Reads the files' settings.
    pub fn from_settings(settings: &Settings) -> Self {
        let cleared = ["clear_dns_query_restriction", "clear_dns_query_restrictions"];
        let cleared = cleared.iter().flat_map(|name| settings.all(name)).map(|l| l.order).max();
        let mut domains = BTreeMap::new();
        for line in settings.all("dns_query_restriction") {
            let mut words = line.value.split_ascii_whitespace();
            let allowed = match words.next().map(str::to_ascii_lowercase).as_deref() {
                Some("allow") => true,
                Some("deny") => false,
                _ => continue,
            };
            if cleared.is_none_or(|cleared| line.order > cleared) {
                let room = RESTRICTIONS_MAX.saturating_sub(domains.len());
                domains.extend(words.take(room).map(|d| (bare(d), allowed)));
            }
        }
        let mut blocks = Vec::new();
        for line in settings.all("dns_block_rule").iter().take(RESTRICTIONS_MAX) {
            let mut words = line.value.split_ascii_whitespace();
            if let (Some(rule), Some(domain)) = (words.next(), words.next()) {
                blocks.push((rule.to_owned(), bare(domain)));
            }
        }
        let seconds = settings.number("dns_block_time", BLOCK_SECONDS);
        let block_seconds = seconds.clamp(0.0, BLOCK_SECONDS_MAX) as u64;
        Restrictions { domains, blocks, block_seconds }
    }

    /// Whether rules may look up this name: the longest domain with a line decides.
    pub fn allow(&self, name: &str) -> bool {
        if self.domains.is_empty() {
            return true;
        }
        let named = parents(name).find_map(|domain| self.domains.get(domain));
        named.or_else(|| self.domains.get("*")).copied().unwrap_or(true)
    }

    /// Whether rules may ask this question: by its name, or by its list's zone.
    pub fn allow_asking(&self, question: &Question) -> bool {
        match question.name() {
            Some(name) => self.allow(&name),
            None => question.zone.is_empty() || self.allow(&question.zone),
        }
    }
}

/// A domain in the form in which it is compared.
fn bare(domain: &str) -> String {
    domain.trim_matches('.').to_ascii_lowercase()
}

/// The name and all domains above it, the longest first.
pub fn parents(name: &str) -> impl Iterator<Item = &str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    std::iter::successors(Some(name), |n| n.split_once('.').map(|(_, above)| above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gauntlet_rules::rule::Source;

    #[test]
    fn the_tightest_restriction_decides() {
        let mut settings = Settings::default();
        let mut add = |name: &str, value: &str| settings.add(name, value, Source::default());
        add("dns_query_restriction", "deny forgotten.example");
        add("clear_dns_query_restriction", "");
        add("dns_query_restriction", "deny Lists.example other.example");
        add("dns_query_restriction", "allow zen.lists.example");
        add("dns_block_rule", "BLOCKED multi.lists.example.");
        let read = Restrictions::from_settings(&settings);
        for (name, allowed) in [
            ("2.0.0.127.zen.lists.example", true),
            ("2.0.0.127.bl.lists.example.", false),
            ("lists.example", false),
            ("mylists.example", true),
            ("a.forgotten.example", true),
        ] {
            assert_eq!(read.allow(name), allowed, "{name}");
        }
        assert_eq!(read.blocks, [("BLOCKED".to_owned(), "multi.lists.example".to_owned())]);
        assert_eq!(read.block_seconds, 300);
        settings.add("dns_query_restriction", "deny *", Source::default());
        let read = Restrictions::from_settings(&settings);
        assert!(!read.allow("a.example") && read.allow("zen.lists.example"));
    }
}
