//! Settings of the way out: routes, next hops, the Sender.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where mail goes that no `[[next_hop]]` takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouteSettings {
    /// Next hop for mail to our domains, `host:port`; empty delivers into `maildir`.
    pub next_hop: String,
    /// Next hop for outbound mail, `host:port`; empty asks the DNS for each domain's mail
    /// exchangers.
    pub smart_host: String,
    /// Maildir that takes mail when no next hop is set; relative to the data folder.
    pub maildir: PathBuf,
    /// Folder of the Maildir (Maildir++) for mail with the disposition `spam_folder`: a name that
    /// begins with a dot; empty delivers it like other mail.
    pub maildir_spam_folder: String,
    /// Hand a message on inside the client's session where that is safe (cut-through).
    pub cut_through: bool,
}

impl Default for RouteSettings {
    fn default() -> Self {
        RouteSettings {
            next_hop: String::new(),
            smart_host: String::new(),
            maildir: "maildir".into(),
            maildir_spam_folder: ".Junk".to_owned(),
            cut_through: true,
        }
    }
}

/// Where mail for some addresses goes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NextHopSettings {
    /// Domains (`*.example.org` for the subdomains) and addresses. The first table that fits
    /// counts.
    pub r#for: Vec<String>,
    /// Next hops, `host:port`; empty asks the DNS for the domain's mail exchangers.
    pub hosts: Vec<String>,
    /// Share of each next hop, in their order; empty is the same for all. One that cannot be
    /// reached leaves its share to the others; a weight of 0 is taken only then.
    pub weights: Vec<u32>,
    /// TLS there; none is `sender.tls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<HopTlsPolicy>,
    /// The next hops use LMTP (RFC 2033).
    pub lmtp: bool,
}

/// How mail goes to a next hop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SenderSettings {
    /// Connections at once to one next hop.
    pub connections_per_hop_max: usize,
    /// Messages over one connection before it is closed.
    pub messages_per_connection_max: usize,
    /// Connections at once over all next hops.
    pub connections_max: usize,
    /// Per cent of them for mail exchangers that the DNS names; the others are kept for next hops
    /// that the configuration names.
    pub exchanger_connections_percent_max: u32,
    /// Connections at once to mail exchangers of one network (/24, /64).
    pub exchanger_connections_per_network_max: usize,
    /// Per cent of all connections for messages from the empty sender (reports) to mail exchangers.
    pub report_connections_percent_max: u32,
    /// Connections at once for such messages to mail exchangers of one network (/24, /64).
    pub report_connections_per_network_max: usize,
    /// Recipients of one message over one connection; further ones get a copy of their own.
    pub recipients_per_message_max: usize,
    /// Port of mail exchangers that the DNS names.
    pub exchanger_port: u16,
    /// Networks in CIDR form that mail exchangers may be in beside the internet.
    pub exchanger_networks_allowed: Vec<String>,
    /// Seconds to wait for a connection.
    pub connect_seconds_max: u64,
    /// Seconds to wait for a whole reply.
    pub reply_seconds_max: u64,
    /// Seconds that a message may take over a connection, all replies together.
    pub transaction_seconds_max: u64,
    /// Seconds before each further attempt; the last one repeats.
    pub retry_seconds: Vec<u64>,
    /// Seconds after which a message that could not be delivered is returned.
    pub expire_seconds: u64,
    /// Report to senders mail that cannot be delivered, is late, or whose delivery they asked to
    /// know (RFC 3464).
    pub bounces: bool,
    /// Seconds after which a late message is reported to its sender; 0 is never.
    pub delay_report_seconds: u64,
    /// Crashes of the node with a message in flight after which it is held; 0 is never.
    pub crashes_max: u32,
    /// TLS towards next hops; a route can ask for more.
    pub tls: HopTlsPolicy,
    /// Follow the MTA-STS policies of domains (RFC 8461), where roots are trusted and DANE does not
    /// decide.
    pub mta_sts: bool,
    /// Port at which policies are fetched.
    pub mta_sts_port: u16,
    /// A PEM bundle of the roots that `verified` and MTA-STS trust; empty takes the system's.
    pub roots: PathBuf,
}

/// How a connection to a next hop is protected.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum HopTlsPolicy {
    /// Plain text, even where TLS is offered.
    Off,
    /// When it is offered and works (RFC 7435), else plain.
    #[default]
    Opportunistic,
    /// Always, with any certificate; else the message waits.
    Required,
    /// Always, and the certificate must be valid for the host's name.
    Verified,
}

impl Default for SenderSettings {
    fn default() -> Self {
        SenderSettings {
            connections_per_hop_max: 20,
            messages_per_connection_max: 100,
            connections_max: 500,
            exchanger_connections_percent_max: 80,
            exchanger_connections_per_network_max: 40,
            report_connections_percent_max: 10,
            report_connections_per_network_max: 4,
            recipients_per_message_max: 100,
            exchanger_port: 25,
            exchanger_networks_allowed: Vec::new(),
            connect_seconds_max: 30,
            reply_seconds_max: 300,
            transaction_seconds_max: 1_200,
            retry_seconds: vec![60, 300, 900, 1_800, 3_600, 7_200, 14_400],
            expire_seconds: 5 * super::DAY_SECONDS,
            bounces: true,
            delay_report_seconds: 4 * 3_600,
            crashes_max: 5,
            tls: HopTlsPolicy::Opportunistic,
            mta_sts: true,
            mta_sts_port: 443,
            roots: PathBuf::new(),
        }
    }
}
