//! Settings of the way in: listeners, how often clients may come, and who has to wait.

use std::path::PathBuf;

use gauntlet_mail::Direction;
use gauntlet_store::GreylistRules;
use serde::{Deserialize, Serialize};

/// Who a listener is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListenerRole {
    /// The internet: mail for our domains.
    #[default]
    Inbound,
    /// Our own servers: mail to anywhere, from `networks` only.
    Outbound,
    /// Our users: mail to anywhere after a login.
    Submission,
    /// A server of ours by LMTP (RFC 2033).
    Lmtp,
    /// Whoever finds it: an open box in appearance, that takes mail to anywhere and delivers none.
    Trap,
    /// Programs that know that this is a proxy for HTTP.
    Proxy,
    /// Programs that know nothing of it: a router hands their connections over.
    Transparent,
    /// Other proxies, such as Squid, that ask by ICAP (RFC 3507).
    Icap,
    /// Programs that look names up: what a rule blocks does not exist for them.
    Dns,
}

impl ListenerRole {
    /// Web requests come in by such a listener, and no mail.
    pub fn is_web(self) -> bool {
        matches!(
            self,
            ListenerRole::Proxy
                | ListenerRole::Transparent
                | ListenerRole::Icap
                | ListenerRole::Dns
        )
    }

    /// The direction of mail that comes in by such a listener.
    pub fn direction(self) -> Direction {
        match self {
            ListenerRole::Inbound | ListenerRole::Lmtp | ListenerRole::Trap => Direction::Inbound,
            // Their clients are ours.
            ListenerRole::Proxy
            | ListenerRole::Transparent
            | ListenerRole::Icap
            | ListenerRole::Dns => Direction::Outbound,
            ListenerRole::Outbound | ListenerRole::Submission => Direction::Outbound,
        }
    }
}

/// Where mail is accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListenerSettings {
    /// Who it is for.
    pub role: ListenerRole,
    /// Address and port; port 0 takes a free one.
    pub address: String,
    /// Networks in CIDR form that may use an outbound listener, or one of the web path.
    pub networks: Vec<String>,
    /// Other nodes of this machine may listen on the same address and port (SO_REUSEPORT): the
    /// system shares connections out.
    pub share_port: bool,
    /// Balancers in CIDR form that begin every connection with a PROXY header (version 2).
    pub proxy_from: Vec<String>,
    /// Relays in CIDR form that may name the real client (XCLIENT).
    pub xclient_from: Vec<String>,
    /// Submission: From fields name only addresses of the user who logged in, as MAIL does; people
    /// without addresses of their own are free.
    pub own_header_from: bool,
    /// TLS from the first byte (RFC 8314), else STARTTLS where there is a certificate.
    pub implicit_tls: bool,
    /// Certificate chains in PEM; of several, the client's wish (SNI) chooses.
    pub certificate: Vec<PathBuf>,
    /// Their private keys in PEM, in the same order.
    pub key: Vec<PathBuf>,
    /// Without a certificate: use one that the node signs itself at its first start.
    pub self_signed: bool,
}

impl Default for ListenerSettings {
    fn default() -> Self {
        ListenerSettings {
            role: ListenerRole::Inbound,
            address: "127.0.0.1:2525".into(),
            networks: vec!["127.0.0.0/8".into(), "::1/128".into()],
            share_port: false,
            proxy_from: Vec::new(),
            xclient_from: Vec::new(),
            own_header_from: true,
            implicit_tls: false,
            certificate: Vec::new(),
            key: Vec::new(),
            self_signed: true,
        }
    }
}

/// How often clients may come; 0 sets no limit. What is over gets 421 or 450 and may come again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateSettings {
    /// Sessions a minute from one address.
    pub client_connections_per_minute: u32,
    /// Sessions a minute from one network (/24, /64).
    pub network_connections_per_minute: u32,
    /// Messages an hour from one address.
    pub client_messages_per_hour: u32,
    /// Messages an hour from one network (/24, /64).
    pub network_messages_per_hour: u32,
    /// Messages an hour from one envelope sender.
    pub sender_messages_per_hour: u32,
}

impl Default for RateSettings {
    fn default() -> Self {
        RateSettings {
            client_connections_per_minute: 120,
            network_connections_per_minute: 600,
            client_messages_per_hour: 6_000,
            network_messages_per_hour: 30_000,
            sender_messages_per_hour: 0,
        }
    }
}

/// What listeners for traps take, all together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrapSettings {
    /// Largest message; `receiver.message_bytes_max`, if that is less.
    pub message_bytes_max: u64,
    /// Messages an hour of all clients; what is over gets 450.
    pub messages_per_hour_max: u32,
    /// Bytes kept of what mail to probes and traps named and hit; the oldest go.
    pub kept_bytes_max: u64,
}

impl Default for TrapSettings {
    fn default() -> Self {
        TrapSettings {
            message_bytes_max: 1 << 20,
            messages_per_hour_max: 10_000,
            kept_bytes_max: 64 << 20,
        }
    }
}

/// How a node under pressure treats its clients, those that are exempt apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StressSettings {
    /// Per cent of `receiver.sessions_max` or `receiver.memory_bytes_max` from which it is under
    /// pressure.
    pub percent: u32,
    /// Seconds without a command that brings anything after which a session is closed, instead of
    /// `receiver.command_seconds_max`.
    pub command_seconds_max: u64,
    /// Seconds without such a command after which a session is closed as soon as another client
    /// finds the node full.
    pub idle_seconds_min: u64,
    /// Refused commands before a session that begins now is closed, instead of
    /// `receiver.errors_max`.
    pub errors_max: usize,
    /// Bytes a second that a body brings at least, instead of `receiver.body_bytes_per_second_min`.
    pub body_bytes_per_second_min: u64,
    /// Seconds over which that is counted, instead of `receiver.body_rate_seconds`.
    pub body_rate_seconds: u64,
}

impl Default for StressSettings {
    fn default() -> Self {
        StressSettings {
            percent: 60,
            command_seconds_max: 10,
            idle_seconds_min: 5,
            errors_max: 1,
            body_bytes_per_second_min: 5_000,
            body_rate_seconds: 5,
        }
    }
}

/// Greylisting: strangers are asked to come again, which mail servers do and much malware does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GreylistSettings {
    /// Do it on inbound listeners.
    pub enabled: bool,
    /// Seconds that a stranger waits.
    pub wait_seconds: u32,
    /// Seconds within which it must come again.
    pub window_seconds: u32,
    /// Seconds for which it is no stranger from then on.
    pub pass_seconds: u32,
    /// Rows kept in all; beyond, those that wait longest in vain go first.
    pub rows_max: u32,
    /// New rows an hour of one network (/24, /64); further strangers of it wait without a row.
    pub rows_per_network_per_hour_max: u32,
}

impl GreylistSettings {
    /// The same for the store.
    pub(crate) fn rules(&self) -> GreylistRules {
        GreylistRules {
            wait_seconds: self.wait_seconds,
            window_seconds: self.window_seconds,
            pass_seconds: self.pass_seconds,
            rows_max: self.rows_max,
            rows_per_network_per_hour_max: self.rows_per_network_per_hour_max,
        }
    }
}

impl Default for GreylistSettings {
    fn default() -> Self {
        let rules = GreylistRules::default();
        GreylistSettings {
            enabled: false,
            wait_seconds: rules.wait_seconds,
            window_seconds: rules.window_seconds,
            pass_seconds: rules.pass_seconds,
            rows_max: rules.rows_max,
            rows_per_network_per_hour_max: rules.rows_per_network_per_hour_max,
        }
    }
}

/// Which recipients of ours exist. Without a list, a table or a probe every local part does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecipientSettings {
    /// Addresses, or `@domain` for all of it.
    pub known: Vec<String>,
    /// A file of the same, one a line.
    pub file: PathBuf,
    /// An SQLite file that is asked.
    pub sqlite: PathBuf,
    /// What it is asked: a row means yes. One parameter, the address in lower case.
    pub query: String,
    /// Ask the next hop about recipients in none of these.
    pub probe: bool,
    /// Seconds to wait for it.
    pub probe_wait_seconds: u64,
    /// Seconds that a yes is kept.
    pub probe_keep_seconds: u64,
    /// Seconds that a no is kept.
    pub probe_refused_seconds: u64,
    /// Take mail when the next hop does not answer; else its sender comes again later.
    pub accept_unclear: bool,
}

impl Default for RecipientSettings {
    fn default() -> Self {
        RecipientSettings {
            known: Vec::new(),
            file: PathBuf::new(),
            sqlite: PathBuf::new(),
            query: "SELECT 1 FROM recipients WHERE address = ?1".into(),
            probe: false,
            probe_wait_seconds: 10,
            probe_keep_seconds: super::DAY_SECONDS,
            probe_refused_seconds: 3_600,
            accept_unclear: true,
        }
    }
}
