//! What an administrator sets: defaults, and the bounds within which each value must lie.
//!
//! Sizes are bytes, times are seconds. [`Settings::check`] names the first value that is out of its
//! bounds; a proxy is not started with such settings.

pub mod content;
mod dns;
mod hosts;
mod icap;
mod login;
mod tls;
mod transparent;

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use gauntlet_mail::Network;
use serde::{Deserialize, Serialize};

use crate::item::RequestKind;
pub use crate::pac::Pac;
use content::{ContentSettings, ContentSettingsError};
pub use dns::{BlockedAnswer, DnsSettings, LoggedQueries};
pub use hosts::Hosts;
pub use icap::{IcapSettings, UserEncoding};
pub use login::{LoginMethod, LoginSettings};
pub use tls::{ClientCertificate, TlsSettings, TunnelPolicy, UnknownRevocation};
pub use transparent::{Destination, Mode, Other, Transparent, VerifyNames};

/// All settings of a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where clients connect; not part of a file, since whoever reads that knows the listeners.
    #[serde(skip, default = "listen_default")]
    pub listen: Vec<SocketAddr>,
    /// Networks that clients may come from; others get 403. Not part of a file, either.
    #[serde(skip, default = "client_networks_default")]
    pub client_networks: Vec<Network>,
    /// The proxy's name in `Via`, `Proxy-Status` and on pages; without one that others know, two
    /// proxies of the same name behind each other take themselves for a loop.
    pub name: String,
    /// Ports that CONNECT may reach. A tunnel to any port would let clients send mail, or anything.
    pub connect_ports: Vec<PortRange>,
    /// Ports that requests without a tunnel may reach.
    pub plain_ports: Vec<PortRange>,
    /// Networks of our own that clients may reach; all others that are not of the internet
    /// (private, loopback, link-local, metadata services of clouds) are refused.
    pub private_networks: Vec<String>,
    /// Lists are asked for the addresses that a name is looked up to as well.
    pub listed_addresses: bool,
    /// Add `Via` to requests and responses (RFC 9110 section 7.6.3). Without it, loops are not
    /// seen.
    pub via: bool,
    /// What servers learn about the client (RFC 7239).
    pub forwarded: Forwarded,
    /// Protocols that a connection may be upgraded to; other `Upgrade` fields are not passed on.
    pub upgrades: Vec<String>,
    /// A proxy through which every request goes.
    pub upstream: Option<Upstream>,
    /// Who has to log in.
    pub login: LoginSettings,
    /// Connections that a router hands over.
    pub transparent: Transparent,
    /// What browsers are told about the proxy.
    pub pac: Pac,
    /// Whom we trust, and whether tunnels are decrypted.
    pub tls: TlsSettings,
    /// How long things may take.
    pub times: Times,
    /// How large and how many things may be.
    pub limits: Limits,
    /// The service for other proxies.
    pub icap: IcapSettings,
    /// The DNS service.
    pub dns: DnsSettings,
    /// What is looked for in content.
    pub content: ContentSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            listen: listen_default(),
            client_networks: client_networks_default(),
            name: "gauntlet".to_owned(),
            connect_ports: vec![PortRange::one(443)],
            plain_ports: vec![
                PortRange::one(80),
                PortRange::one(443),
                PortRange { first: 1025, last: u16::MAX },
            ],
            private_networks: Vec::new(),
            listed_addresses: true,
            via: true,
            forwarded: Forwarded::Off,
            upgrades: vec!["websocket".to_owned()],
            upstream: None,
            login: LoginSettings::default(),
            transparent: Transparent::default(),
            pac: Pac::default(),
            tls: TlsSettings::default(),
            times: Times::default(),
            limits: Limits::default(),
            icap: IcapSettings::default(),
            dns: DnsSettings::default(),
            content: ContentSettings::default(),
        }
    }
}

impl Settings {
    /// Whether requests of this kind may reach a port.
    ///
    /// # Errors
    /// The setting that does not have it.
    pub fn check_port(&self, kind: RequestKind, port: u16) -> Result<(), &'static str> {
        let (name, ports) = match kind {
            RequestKind::Tunnel => ("connect_ports", &self.connect_ports),
            RequestKind::Plain | RequestKind::Upgrade | RequestKind::Lookup => {
                ("plain_ports", &self.plain_ports)
            }
        };
        match ports.iter().any(|range| range.contains(port)) {
            true => Ok(()),
            false => Err(name),
        }
    }
}

fn listen_default() -> Vec<SocketAddr> {
    vec![SocketAddr::from(([127, 0, 0, 1], 3128))]
}

/// The machine itself, and networks that the internet does not route to us (RFC 1918, RFC 4193,
/// link-local): nobody opens a proxy to the world by mistake.
fn client_networks_default() -> Vec<Network> {
    let texts = [
        "127.0.0.0/8",
        "::1/128",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "169.254.0.0/16",
        "fc00::/7",
        "fe80::/10",
    ];
    texts.into_iter().filter_map(|text| text.parse().ok()).collect()
}

/// What is done with `Forwarded` and `X-Forwarded-For`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Forwarded {
    /// Removed: servers do not learn addresses of our network.
    Off,
    /// Passed on as they came.
    Transparent,
    /// The client's address is added to `Forwarded`.
    On,
}

/// The next proxy.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// Host name or address; it may be one of our own networks.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// User name for Basic credentials; empty sends none.
    #[serde(default)]
    pub user: String,
    /// Its password.
    #[serde(default)]
    pub password: String,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("host", &self.host).field("port", &self.port).finish()
    }
}

/// Time limits, in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Times {
    /// From a request's first byte (of a new connection: from its begin) to the end of its header.
    pub header_seconds_max: u64,
    /// A client's connection without a request.
    pub keep_alive_seconds_max: u64,
    /// A kept connection to a server without a request.
    pub origin_keep_alive_seconds_max: u64,
    /// Names looked up and a connection made.
    pub connect_seconds_max: u64,
    /// From the last byte of a request to the header of its response.
    pub response_seconds_max: u64,
    /// A body, in either direction, without a byte.
    pub idle_seconds_max: u64,
    /// How long a request's body waits for `100 Continue` of a server that may not know it.
    pub continue_seconds_max: u64,
    /// A tunnel without a byte in either direction.
    pub tunnel_idle_seconds_max: u64,
    /// Requests and tunnels when the proxy stops.
    pub stop_seconds_max: u64,
    /// How often what people have used of quotas is written, if it has changed; a crash loses as
    /// much.
    pub quota_write_seconds: u64,
}

impl Default for Times {
    fn default() -> Self {
        Times {
            header_seconds_max: 15,
            keep_alive_seconds_max: 60,
            origin_keep_alive_seconds_max: 30,
            connect_seconds_max: 15,
            response_seconds_max: 120,
            idle_seconds_max: 120,
            continue_seconds_max: 1,
            tunnel_idle_seconds_max: 900,
            stop_seconds_max: 30,
            quota_write_seconds: 30,
        }
    }
}

impl Times {
    /// A connection whose requests are in progress is dropped if nothing passes it for so long:
    /// each of the stages of a request may take its time once.
    pub fn stalled(&self) -> Duration {
        let stages = [self.connect_seconds_max, self.response_seconds_max, self.idle_seconds_max];
        Duration::from_secs(stages.iter().sum())
    }
}

/// Size limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Bytes of a header, of requests and responses, with the first line.
    pub header_bytes_max: usize,
    /// Fields of a header.
    pub header_fields_max: usize,
    /// Bytes of a request's URI.
    pub uri_bytes_max: usize,
    /// Connections of clients.
    pub connections_max: usize,
    /// Connections of one client address.
    pub client_connections_max: usize,
    /// Requests at once on an HTTP/2 connection.
    pub streams_max: u32,
    /// Kept connections to servers, in all.
    pub kept_connections_max: usize,
    /// Kept connections to one server.
    pub kept_origin_connections_max: usize,
    /// Look-ups of names at once.
    pub lookups_max: usize,
    /// Addresses of a server that are tried.
    pub addresses_max: usize,
    /// Bytes of a body that an inspector may hold back.
    pub held_bytes_max: u64,
    /// Pairs of quota and person of whom it is known what they have used; beyond, those who came
    /// last the longest time ago are forgotten.
    pub quota_people_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            header_bytes_max: 64 * 1024,
            header_fields_max: 200,
            uri_bytes_max: 16 * 1024,
            connections_max: 10_000,
            client_connections_max: 500,
            streams_max: 100,
            kept_connections_max: 1000,
            kept_origin_connections_max: 16,
            lookups_max: 64,
            addresses_max: 8,
            held_bytes_max: 16 * 1024 * 1024,
            quota_people_max: 100_000,
        }
    }
}

/// A port, or a range of them: `443`, `"1025-65535"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PortText", into = "String")]
pub struct PortRange {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

impl PortRange {
    /// One port alone.
    pub const fn one(port: u16) -> Self {
        PortRange { first: port, last: port }
    }

    /// The port is in the range.
    pub fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl FromStr for PortRange {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(PortRange { first, last }),
            _ => Err(SettingsError::Ports(text.to_owned())),
        }
    }
}

impl From<PortRange> for String {
    fn from(range: PortRange) -> String {
        match range.first == range.last {
            true => range.first.to_string(),
            false => format!("{}-{}", range.first, range.last),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum PortText {
    Port(u16),
    Range(String),
}

impl TryFrom<PortText> for PortRange {
    type Error = SettingsError;

    fn try_from(text: PortText) -> Result<Self, SettingsError> {
        match text {
            PortText::Port(port) => port.to_string().parse(),
            PortText::Range(range) => range.parse(),
        }
    }
}

/// A setting that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A number out of its bounds.
    #[error("{name} = {value} is out of its bounds: from {min} to {max}")]
    Bounds {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// Not a port or a range of ports.
    #[error("{0:?} is no port, nor a range of ports such as 1025-65535")]
    Ports(String),
    /// Not a network.
    #[error("private_networks: {0}")]
    Network(String),
    /// Not a host.
    #[error("tls.bypass: {0:?} is no host such as bank.example, *.bank.example or 192.0.2.7")]
    Bypass(String),
    /// Every server would be refused.
    #[error(
        "tls.unknown_revocation = \"block\" refuses every server as long as tls.crls names no list"
    )]
    NoRevocationLists,
    /// Not a network.
    #[error("icap.trusted_networks: {0}")]
    TrustedNetwork(String),
    /// A setting of `[dns]`.
    #[error("dns: {0}")]
    Dns(String),
    /// A setting of `[login]`.
    #[error("login: {0}")]
    Login(String),
    /// A name that cannot stand in a header.
    #[error("name = {0:?} may have letters, digits, '-', '.' and '_' only, at least one")]
    Name(String),
    /// What cannot stand in the file of the proxy auto-configuration.
    #[error("pac: {0}")]
    Pac(String),
    /// A setting of `[content]`.
    #[error(transparent)]
    Content(#[from] ContentSettingsError),
    /// Content is cut before it is judged.
    #[error(
        "limits.held_bytes_max = {held_max} is less than content.page_bytes_max or \
         content.scan_bytes_max ({needed})"
    )]
    Held {
        /// The limit.
        held_max: u64,
        /// What content needs.
        needed: u64,
    },
    /// No address to listen on.
    #[error("listen names no address, so no client could connect")]
    Listen,
}

const DAY: u64 = 24 * 3600;

impl Settings {
    /// Whether every value is within its bounds.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.listen.is_empty()
            && self.transparent.listen.is_empty()
            && self.icap.listen.is_empty()
            && self.dns.listen.is_empty()
        {
            return Err(SettingsError::Listen);
        }
        let is_token = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        if self.name.is_empty() || !self.name.bytes().all(is_token) {
            return Err(SettingsError::Name(self.name.clone()));
        }
        self.networks()?;
        self.pac.check().map_err(SettingsError::Pac)?;
        self.tls.check()?;
        self.login.check()?;
        if self.login.pass_to_upstream && self.tls.is_intercepting() {
            let text = "pass_to_upstream: connections of decrypted tunnels are shared by people";
            return Err(SettingsError::Login(text.to_owned()));
        }
        self.icap.check()?;
        self.dns.check()?;
        self.content.check()?;
        let (t, l) = (&self.times, &self.limits);
        let size = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        for (name, value, min, max) in [
            ("times.header_seconds_max", t.header_seconds_max, 1, 600),
            ("times.keep_alive_seconds_max", t.keep_alive_seconds_max, 1, DAY),
            ("times.origin_keep_alive_seconds_max", t.origin_keep_alive_seconds_max, 1, DAY),
            ("times.connect_seconds_max", t.connect_seconds_max, 1, 600),
            ("times.response_seconds_max", t.response_seconds_max, 1, DAY),
            ("times.idle_seconds_max", t.idle_seconds_max, 1, DAY),
            ("times.continue_seconds_max", t.continue_seconds_max, 0, 60),
            ("times.tunnel_idle_seconds_max", t.tunnel_idle_seconds_max, 1, 7 * DAY),
            ("times.stop_seconds_max", t.stop_seconds_max, 0, 3600),
            ("times.quota_write_seconds", t.quota_write_seconds, 1, 3600),
            // hyper's buffers have at least 8 KiB.
            ("limits.header_bytes_max", size(l.header_bytes_max), 8192, 1 << 20),
            ("limits.header_fields_max", size(l.header_fields_max), 10, 1000),
            // hyper takes no URI of 64 KiB.
            ("limits.uri_bytes_max", size(l.uri_bytes_max), 256, 65_000),
            ("limits.connections_max", size(l.connections_max), 1, 1_000_000),
            ("limits.client_connections_max", size(l.client_connections_max), 1, 1_000_000),
            ("limits.streams_max", l.streams_max.into(), 1, 10_000),
            ("limits.kept_connections_max", size(l.kept_connections_max), 0, 100_000),
            ("limits.kept_origin_connections_max", size(l.kept_origin_connections_max), 0, 1000),
            ("limits.lookups_max", size(l.lookups_max), 1, 10_000),
            ("limits.addresses_max", size(l.addresses_max), 1, 64),
            ("limits.held_bytes_max", l.held_bytes_max, 0, 1 << 40),
            ("limits.quota_people_max", size(l.quota_people_max), 100, 10_000_000),
        ] {
            if value < min || value > max {
                return Err(SettingsError::Bounds { name, value, min, max });
            }
        }
        Ok(())
    }

    /// Whether a body may be held back for as long as its content takes to be judged, if any is.
    ///
    /// # Errors
    /// If the limit for all inspectors is less.
    pub fn check_held(&self, is_judged: bool) -> Result<(), SettingsError> {
        let (needed, held_max) = (self.content.held_bytes_needed(), self.limits.held_bytes_max);
        match is_judged && needed > held_max {
            true => Err(SettingsError::Held { held_max, needed }),
            false => Ok(()),
        }
    }

    /// The networks of our own that clients may reach.
    ///
    /// # Errors
    /// If one is no network.
    pub fn networks(&self) -> Result<Vec<Network>, SettingsError> {
        let parse = |text: &String| text.parse().map_err(SettingsError::Network);
        self.private_networks.iter().map(parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_their_bounds() {
        assert_eq!(Settings::default().check(), Ok(()));
    }

    #[test]
    fn a_value_out_of_its_bounds_is_named() {
        let mut settings = Settings::default();
        settings.times.header_seconds_max = 0;
        let error = settings.check().unwrap_err().to_string();
        assert_eq!(error, "times.header_seconds_max = 0 is out of its bounds: from 1 to 600");
    }

    #[test]
    fn ports_are_numbers_or_ranges() {
        let text = "connect_ports = [443, \"8000-8100\"]\nforwarded = \"transparent\"";
        let settings: Settings = toml::from_str(text).unwrap();
        assert!(settings.connect_ports[1].contains(8100));
        assert!(!settings.connect_ports[1].contains(8101));
        for wrong in ["0", "9-8", "x", "1-70000", ""] {
            assert!(wrong.parse::<PortRange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_password_is_not_printed() {
        let user = "u".to_owned();
        let upstream =
            Upstream { host: "p".to_owned(), port: 1, user, password: "secret".to_owned() };
        assert!(!format!("{upstream:?}").contains("secret"));
    }
}
