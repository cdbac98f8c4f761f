//! What people ask to have released, and what administrators release: URLs that may pass although
//! the policy blocks them.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use gauntlet_mail::CanonicalUrl;
use gauntlet_mail::url::{UrlTraits, canonical, without_parameters};
use serde::{Deserialize, Serialize};

/// Characters of a reason that are kept.
pub const REASON_CHARS_MAX: usize = 500;
/// Bytes of an e-mail address (RFC 5321 section 4.5.3.1.3).
pub const MAIL_BYTES_MAX: usize = 254;
/// Bytes of a target.
pub const TARGET_BYTES_MAX: usize = 2_000;

/// Somebody got the page of a block, and asks for what was blocked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseRequest {
    /// The code on the page.
    pub reference: String,
    /// When it was asked, in milliseconds since 1970.
    pub at_ms: i64,
    /// The client's address, or its network if addresses are not kept; may be empty.
    pub client: String,
    /// Who logged in; empty if nobody did.
    pub user: String,
    /// The URL; without path and query if those are not kept.
    pub url: String,
    /// The rule that blocked.
    pub rule: String,
    /// Why it is needed, as the person said.
    pub reason: String,
    /// Where to answer; empty if the person did not say.
    pub mail: String,
}

/// What is released.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReleaseTarget {
    /// One host, at any port and path.
    Host(String),
    /// A domain with all below it.
    Domain(String),
    /// URLs that begin so: host, port if one is written, and a path at whose end a segment ends.
    Prefix {
        /// It is an `https` URL: tunnels to host and port pass, too.
        is_https: bool,
        /// The host.
        host: String,
        /// The port, if it is not the scheme's own.
        port: Option<u16>,
        /// Path and query.
        path: String,
    },
}

/// A text that is no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no host (example.com), domain (.example.com) or URL (https://example.com/path)")]
pub struct TargetError(String);

impl FromStr for ReleaseTarget {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let wrong = || TargetError(text.chars().take(100).collect());
        let text = text.trim();
        if text.len() > TARGET_BYTES_MAX || text.chars().any(|c| c.is_control() || c == ' ') {
            return Err(wrong());
        }
        if text.contains("://") {
            let url = canonical(text).ok_or_else(wrong)?;
            let (host, port) = (host_of(&url).ok_or_else(wrong)?, url.port());
            let (is_https, path) = (url.scheme() == "https", url.path_for_look_up().into_owned());
            return Ok(ReleaseTarget::Prefix { is_https, host, port, path });
        }
        let (name, is_domain) = match text.strip_prefix('.') {
            Some(name) => (name, true),
            None => (text, false),
        };
        let url = canonical(&format!("http://{name}/")).ok_or_else(wrong)?;
        let host = host_of(&url).filter(|_| url.path_and_query() == "/" && url.port().is_none());
        let host = host.ok_or_else(wrong)?;
        match is_domain {
            true if host.contains('.') => Ok(ReleaseTarget::Domain(host)),
            true => Err(wrong()),
            false => Ok(ReleaseTarget::Host(host)),
        }
    }
}

/// A host that can be released: something that could be looked up.
fn host_of(url: &CanonicalUrl) -> Option<String> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b);
    let host = url.host();
    let is_host = !host.is_empty()
        && host.bytes().all(is_plain)
        && !host.starts_with('.')
        && !url.traits().has(UrlTraits::USER_INFO);
    is_host.then(|| host.to_owned())
}

impl fmt::Display for ReleaseTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReleaseTarget::Host(host) => f.write_str(host),
            ReleaseTarget::Domain(domain) => write!(f, ".{domain}"),
            ReleaseTarget::Prefix { is_https, host, port, path } => {
                f.write_str(if *is_https { "https://" } else { "http://" })?;
                f.write_str(host)?;
                if let Some(port) = port {
                    write!(f, ":{port}")?;
                }
                f.write_str(path)
            }
        }
    }
}

impl ReleaseTarget {
    /// Host or domain: where it is looked for.
    fn name(&self) -> &str {
        match self {
            ReleaseTarget::Host(name) | ReleaseTarget::Domain(name) => name,
            ReleaseTarget::Prefix { host, .. } => host,
        }
    }

    /// A tunnel has no path, and is needed for whatever is inside it: the beginning of an `https`
    /// URL takes it as far as its host and port, that of an `http` URL needs none.
    fn has(&self, url: &CanonicalUrl, is_tunnel: bool) -> bool {
        match self {
            ReleaseTarget::Host(host) => url.host() == host,
            ReleaseTarget::Domain(domain) => {
                let rest = url.host().strip_suffix(domain.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
            ReleaseTarget::Prefix { is_https, host, port, path } => {
                // Each server that may get it has to read a path below.
                let has_path = || {
                    let (bare, others) = (without_parameters(path), url.other_paths_for_look_up());
                    begins_with(&url.path_for_look_up(), path)
                        && others
                            .iter()
                            .all(|other| begins_with(other, path) || begins_with(other, &bare))
                };
                url.host() == host
                    && *port == url.port()
                    && if is_tunnel { *is_https } else { has_path() }
            }
        }
    }
}

/// `/a/b` and `/a?b` begin with `/a`, `/ab` does not.
fn begins_with(path: &str, prefix: &str) -> bool {
    let Some(rest) = path.strip_prefix(prefix) else { return false };
    rest.is_empty() || prefix.is_empty() || prefix.ends_with(['/', '?', '&', '=']) || {
        rest.starts_with(['/', '?', '#', '&'])
    }
}

/// For whom something is released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReleasedFor {
    /// For everybody.
    Everybody,
    /// For a client by its address.
    Client(IpAddr),
    /// For who logs in by this name.
    User(String),
}

impl fmt::Display for ReleasedFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReleasedFor::Everybody => f.write_str("everybody"),
            ReleasedFor::Client(address) => write!(f, "client {address}"),
            ReleasedFor::User(user) => write!(f, "user {user}"),
        }
    }
}

/// An administrator's decision that something may pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebException {
    /// Counts from 1; never reused.
    pub number: i64,
    /// What may pass.
    pub target: ReleaseTarget,
    /// For whom.
    pub released_for: ReleasedFor,
    /// Until when, in milliseconds since 1970; none: for good.
    pub until_ms: Option<i64>,
    /// Who decided.
    pub by: String,
}

impl WebException {
    /// As the log names what decided.
    pub fn rule(&self) -> String {
        format!("{RELEASED_RULE} {}", self.number)
    }

    /// Whether it is in force.
    pub fn is_in_force(&self, now_ms: i64) -> bool {
        self.until_ms.is_none_or(|until| now_ms < until)
    }
}

/// What the log has where a rule would be: `release 12`.
pub const RELEASED_RULE: &str = "release";

/// What the log has as the policy's action for what passed by an exception.
pub const RELEASED_ACTION: &str = "released";

/// The exceptions of a node, found by host in a time that does not depend on their number.
#[derive(Debug, Clone, Default)]
pub struct WebExceptions {
    by_name: HashMap<String, Vec<WebException>>,
    /// Differs between any two sets of a run.
    pub version: u64,
}

/// Who asks for what.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The URL; of a tunnel, host and port alone.
    pub url: &'a CanonicalUrl,
    /// It is a tunnel.
    pub is_tunnel: bool,
    /// The client.
    pub client: IpAddr,
    /// Who logged in.
    pub user: Option<&'a str>,
    /// When, in milliseconds since 1970.
    pub now_ms: i64,
}

impl WebExceptions {
    /// A set of these.
    pub fn new(all: impl IntoIterator<Item = WebException>, version: u64) -> Self {
        let mut by_name: HashMap<String, Vec<WebException>> = HashMap::new();
        for exception in all {
            by_name.entry(exception.target.name().to_owned()).or_default().push(exception);
        }
        WebExceptions { by_name, version }
    }

    /// The exception by which this may pass.
    pub fn find(&self, asked: &Asked<'_>) -> Option<&WebException> {
        if self.by_name.is_empty() {
            return None;
        }
        let fits = |exception: &&WebException| {
            exception.is_in_force(asked.now_ms)
                && exception.target.has(asked.url, asked.is_tunnel)
                && match &exception.released_for {
                    ReleasedFor::Everybody => true,
                    ReleasedFor::Client(client) => {
                        client.to_canonical() == asked.client.to_canonical()
                    }
                    ReleasedFor::User(user) => {
                        asked.user.is_some_and(|asked| asked.eq_ignore_ascii_case(user))
                    }
                }
        };
        let mut name = asked.url.host();
        loop {
            if let Some(found) = self.by_name.get(name).and_then(|all| all.iter().find(fits)) {
                return Some(found);
            }
            name = name.split_once('.')?.1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exception(target: &str, released_for: ReleasedFor) -> WebException {
        let (target, by) = (target.parse().unwrap(), "ann".to_owned());
        WebException { number: 1, target, released_for, until_ms: Some(1_000), by }
    }

    fn passes(set: &WebExceptions, url: &str, client: [u8; 4], user: Option<&str>) -> bool {
        let url = canonical(url).unwrap();
        let asked = Asked { url: &url, is_tunnel: false, client: client.into(), user, now_ms: 999 };
        set.find(&asked).is_some()
    }

    #[test]
    fn hosts_domains_and_prefixes() {
        let all = [
            "a.example",
            ".b.example",
            "https://c.example/docs",
            "http://d.example:81/x/",
            "https://e.example/a;v=1",
        ];
        let all = all.map(|target| exception(target, ReleasedFor::Everybody));
        let set = WebExceptions::new(all, 1);
        let of = |url: &str| passes(&set, url, [10, 0, 0, 1], None);
        for url in [
            "http://a.example/x",
            "https://A.example:8443/",
            "http://b.example/",
            "http://x.y.b.example/",
            "https://c.example/docs",
            "http://c.example/docs/a?b",
            "https://c.example/docs?x",
            "http://d.example:81/x/y",
            "http://c.example//docs/%2fa",
            "https://c.example/docs/a;v=1",
            "https://e.example/a;v=1/b;c",
        ] {
            assert!(of(url), "{url}");
        }
        for url in [
            "http://www.a.example/",
            "http://xb.example/",
            "https://c.example/docs2",
            "https://c.example/docs/..%2fadmin",
            "https://c.example/docs/..;/admin",
            "https://e.example/a;v=1/..;/admin",
            "https://c.example/admin/a//../../docs",
            "https://c.example/",
            "http://d.example/x/y",
            "http://example/",
        ] {
            assert!(!of(url), "{url}");
        }
    }

    #[test]
    fn a_prefix_takes_the_tunnel_to_its_host() {
        let target = exception("https://c.example/docs", ReleasedFor::Everybody);
        let set = WebExceptions::new([target], 1);
        let (url, client) = (canonical("https://c.example").unwrap(), [10, 0, 0, 1].into());
        let asked = Asked { url: &url, is_tunnel: true, client, user: None, now_ms: 0 };
        assert!(set.find(&asked).is_some());
        assert!(set.find(&Asked { is_tunnel: false, ..asked }).is_none());
        let elsewhere = canonical("https://c.example:8443").unwrap();
        assert!(set.find(&Asked { url: &elsewhere, ..asked }).is_none(), "another port");
        // What was released without encryption needs no tunnel, which would open the whole host.
        for target in ["http://c.example/docs", "http://c.example:8081/", "http://c.example/"] {
            let set = WebExceptions::new([exception(target, ReleasedFor::Everybody)], 1);
            assert!(set.find(&asked).is_none(), "{target}");
        }
    }

    #[test]
    fn for_a_client_for_a_user_and_for_a_time() {
        let client = exception("a.example", ReleasedFor::Client([10, 0, 0, 1].into()));
        let user = exception("b.example", ReleasedFor::User("Ann".into()));
        let set = WebExceptions::new([client, user], 1);
        assert!(passes(&set, "http://a.example/", [10, 0, 0, 1], None));
        assert!(!passes(&set, "http://a.example/", [10, 0, 0, 2], None));
        assert!(passes(&set, "http://b.example/", [10, 0, 0, 2], Some("ann")));
        assert!(!passes(&set, "http://b.example/", [10, 0, 0, 2], Some("bob")));
        let url = canonical("http://a.example/").unwrap();
        let client = [10, 0, 0, 1].into();
        let late = Asked { url: &url, is_tunnel: false, client, user: None, now_ms: 1_000 };
        assert!(set.find(&late).is_none(), "it has ended");
    }

    #[test]
    fn targets_are_written_as_they_are_read_and_nonsense_is_refused() {
        for text in ["a.example", ".a.example", "http://a.example/x?y", "http://a.example:81/"] {
            assert_eq!(text.parse::<ReleaseTarget>().unwrap().to_string(), text);
        }
        assert_eq!(
            "MÜNCHEN.example".parse::<ReleaseTarget>().unwrap().to_string(),
            "xn--mnchen-3ya.example"
        );
        let long = "a".repeat(TARGET_BYTES_MAX + 1);
        for wrong in [
            "",
            ".",
            ".com",
            "a b",
            "a.example/x",
            "http://",
            "a\u{0}b",
            &long,
            "mailto:a@b",
            "a.example:81",
            "http://a@b.example/",
        ] {
            assert!(wrong.parse::<ReleaseTarget>().is_err(), "{wrong:?}");
        }
    }
}
