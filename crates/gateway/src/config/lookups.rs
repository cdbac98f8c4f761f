//! Settings of questions to the network: DNS, facts, lists.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The way to the DNS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DnsSettings {
    /// Addresses of resolvers, with or without a port; empty takes the system's.
    pub servers: Vec<String>,
    /// Milliseconds to wait for one server's answer.
    pub timeout_ms: u64,
    /// Attempts after the first.
    pub attempts: usize,
    /// Milliseconds that a question may take in all.
    pub wait_ms_max: u64,
    /// Questions under way at once; above, they are not asked.
    pub questions_max: usize,
    /// Bytes of answers kept.
    pub cache_bytes_max: u64,
    /// Seconds that an answer is kept at least.
    pub ttl_seconds_min: u64,
    /// Seconds that an answer is kept at most.
    pub ttl_seconds_max: u64,
    /// Seconds that "there is nothing" is kept at most.
    pub negative_seconds_max: u64,
    /// Seconds that a failure or a timeout is kept (RFC 9520).
    pub failure_seconds: u64,
    /// Verify signatures (DNSSEC) of what trust hangs on, as DANE (RFC 7672).
    pub dnssec: bool,
    /// A file of DNSKEY records to trust instead of the root's.
    pub trust_anchor: PathBuf,
}

impl Default for DnsSettings {
    fn default() -> Self {
        DnsSettings {
            servers: Vec::new(),
            timeout_ms: 1_500,
            attempts: 1,
            wait_ms_max: 5_000,
            questions_max: 1_000,
            cache_bytes_max: 16 << 20,
            ttl_seconds_min: 5,
            ttl_seconds_max: super::DAY_SECONDS,
            negative_seconds_max: 900,
            failure_seconds: 5,
            dnssec: false,
            trust_anchor: PathBuf::new(),
        }
    }
}

/// What the network is asked about a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FactSettings {
    /// Ask anything at all.
    pub enabled: bool,
    /// Milliseconds that a message may wait for its facts; what is unanswered then is unknown.
    pub wait_ms_max: u64,
    /// Questions of one message.
    pub questions_max: usize,
    /// DKIM signatures of one message that are verified.
    pub signatures_max: usize,
    /// Domains whose ARC seals are trusted, with those below them. Of a chain that they alone
    /// sealed counts what it says of DMARC; of others nothing: any host can seal.
    pub arc_sealers_trusted: Vec<String>,
    /// Names of mail servers in front of this node (the first word of their
    /// `Authentication-Results`) whose results count for mail that they pass on.
    pub trust_authserv_id: Vec<String>,
    /// Remember senders: how much of their mail was spam.
    pub history: bool,
    /// Look for the logo of senders that pass DMARC (BIMI).
    pub bimi: bool,
    /// Networks in CIDR form whose clients are ours: no SPF, reverse names and lists for them.
    pub our_networks: Vec<String>,
    /// File with the country of a client (MaxMind's format, .mmdb), read at start and reload; none
    /// knows no countries.
    pub countries: Option<PathBuf>,
}

impl Default for FactSettings {
    fn default() -> Self {
        let ours =
            ["127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7"];
        FactSettings {
            enabled: true,
            wait_ms_max: 3_000,
            questions_max: 150,
            signatures_max: 10,
            arc_sealers_trusted: Vec::new(),
            trust_authserv_id: Vec::new(),
            history: true,
            bimi: false,
            our_networks: ours.map(str::to_owned).to_vec(),
            countries: None,
        }
    }
}

/// What is looked up in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListSubject {
    /// IP address of the client.
    Client,
    /// What it called itself.
    Helo,
    /// Domain of the envelope sender.
    MailFrom,
    /// Domain of the From field.
    From,
    /// Domains whose signatures verify.
    Dkim,
    /// Registered domains of links, and addresses in links.
    Links,
    /// Host names of links.
    LinkHosts,
    /// SHA-256 of attachments; for local lists.
    Attachments,
}

/// A list in the DNS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DnsListSettings {
    /// DNS zone under which the list answers.
    pub zone: String,
    /// What is looked up.
    pub of: Vec<ListSubject>,
    /// Points of any listing; below 0 for a welcome list.
    pub points: f64,
    /// Points by answer: an address, or a range with `-`; other answers then say nothing.
    pub answers: std::collections::BTreeMap<String, f64>,
}

impl Default for DnsListSettings {
    fn default() -> Self {
        DnsListSettings {
            zone: String::new(),
            of: vec![ListSubject::Client],
            points: 2.0,
            answers: std::collections::BTreeMap::new(),
        }
    }
}

/// A list of our own in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalListSettings {
    /// Its name in listings.
    pub name: String,
    /// The file: addresses, networks, hosts, mail addresses, `@domain`, SHA-256 hashes; one a line.
    /// It is read again when it changes.
    #[serde(default)]
    pub path: PathBuf,
    /// Instead of a file: where such a file is fetched from, by http or https.
    #[serde(default)]
    pub url: String,
    /// Seconds between two polls of the URL.
    #[serde(default = "an_hour")]
    pub refresh_seconds: u64,
    /// Bytes of what is fetched; a larger list is not used.
    #[serde(default = "fetched_bytes")]
    pub bytes_max: u64,
    /// What is looked up.
    #[serde(default = "client_only")]
    pub of: Vec<ListSubject>,
    /// Points of a listing; below 0 for a welcome list.
    pub points: f64,
}

fn an_hour() -> u64 {
    3_600
}

fn fetched_bytes() -> u64 {
    256 << 20
}

fn client_only() -> Vec<ListSubject> {
    vec![ListSubject::Client]
}
