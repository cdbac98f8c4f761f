//! Settings of the DNS service.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::SettingsError;

/// The port of the DNS.
const DNS_PORT: u16 = 53;

/// Settings of the DNS service, `[dns]`. Sizes are bytes, times are seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DnsSettings {
    /// Where clients ask, by UDP and TCP; none: there is no DNS service. Not part of a file.
    #[serde(skip)]
    pub listen: Vec<SocketAddr>,
    /// Resolvers that are asked, with or without a port; none takes the node's, or the system's.
    pub upstream: Vec<String>,
    /// The answer for what a rule blocks.
    pub blocked: BlockedAnswer,
    /// The addresses of a server whose page explains it, for `blocked = "address"`.
    pub block_addresses: Vec<IpAddr>,
    /// How long clients keep that answer.
    pub block_ttl_seconds: u32,
    /// Whether records of queries are kept: of all, of those that were not answered, of none.
    pub log: LoggedQueries,
    /// Answers that are kept; 0 asks upstream each time.
    pub cache_entries_max: u64,
    /// How long an answer is kept at most, whatever its TTL says.
    pub cache_seconds_max: u32,
    /// Queries in progress; those beyond are not answered, and clients ask again.
    pub queries_max: usize,
    /// Connections by TCP.
    pub connections_max: usize,
    /// Connections by TCP of one client.
    pub client_connections_max: usize,
    /// A connection by TCP without a query (RFC 7766 section 6.2.3).
    pub idle_seconds_max: u64,
    /// How long one resolver may take before the next one is asked.
    pub upstream_seconds_max: u64,
    /// Aliases (CNAME) in one answer that are judged; longer chains are blocked.
    pub aliases_max: usize,
    /// Take the keys of Encrypted ClientHello out of answers (`ech` in RFC 9460), so that names in
    /// TLS stay visible to the proxy and the packet path.
    pub remove_ech: bool,
}

/// The answer for what a rule blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockedAnswer {
    /// The name does not exist.
    #[default]
    Nxdomain,
    /// `0.0.0.0` and `::`, which no client can reach.
    Null,
    /// The addresses of `block_addresses`.
    Address,
    /// REFUSED; clients may ask another resolver then.
    Refused,
}

/// Which queries are kept in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoggedQueries {
    /// Every one.
    All,
    /// Those that a rule blocks, or that failed.
    #[default]
    Blocked,
    /// None.
    None,
}

impl Default for DnsSettings {
    fn default() -> Self {
        DnsSettings {
            listen: Vec::new(),
            upstream: Vec::new(),
            blocked: BlockedAnswer::Nxdomain,
            block_addresses: Vec::new(),
            block_ttl_seconds: 60,
            log: LoggedQueries::Blocked,
            cache_entries_max: 20_000,
            cache_seconds_max: 3_600,
            queries_max: 2_000,
            connections_max: 200,
            client_connections_max: 20,
            idle_seconds_max: 30,
            upstream_seconds_max: 2,
            aliases_max: 16,
            remove_ech: false,
        }
    }
}

impl DnsSettings {
    /// Whether every value is within its bounds.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.upstreams()?;
        if self.blocked == BlockedAnswer::Address && self.block_addresses.is_empty() {
            let text = "blocked = \"address\" needs block_addresses".to_owned();
            return Err(SettingsError::Dns(text));
        }
        let size = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        for (name, value, min, max) in [
            ("dns.block_ttl_seconds", self.block_ttl_seconds.into(), 0, 86_400),
            ("dns.cache_entries_max", self.cache_entries_max, 0, 10_000_000),
            ("dns.cache_seconds_max", self.cache_seconds_max.into(), 1, 7 * 86_400),
            ("dns.queries_max", size(self.queries_max), 1, 100_000),
            ("dns.connections_max", size(self.connections_max), 1, 100_000),
            ("dns.client_connections_max", size(self.client_connections_max), 1, 100_000),
            ("dns.idle_seconds_max", self.idle_seconds_max, 1, 600),
            ("dns.upstream_seconds_max", self.upstream_seconds_max, 1, 30),
            ("dns.aliases_max", size(self.aliases_max), 1, 100),
        ] {
            if value < min || value > max {
                return Err(SettingsError::Bounds { name, value, min, max });
            }
        }
        Ok(())
    }

    /// The resolvers that are asked, in order.
    ///
    /// # Errors
    /// If one is no address.
    pub fn upstreams(&self) -> Result<Vec<SocketAddr>, SettingsError> {
        let parse = |text: &String| {
            let with_port = text.parse::<SocketAddr>().ok();
            let alone = || Some(SocketAddr::new(text.parse::<IpAddr>().ok()?, DNS_PORT));
            let not = || SettingsError::Dns(format!("upstream: {text:?} is no address"));
            with_port.or_else(alone).ok_or_else(not)
        };
        self.upstream.iter().map(parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_their_bounds_and_others_are_named() {
        assert_eq!(DnsSettings::default().check(), Ok(()));
        let error = |settings: DnsSettings| settings.check().unwrap_err().to_string();
        let few = error(DnsSettings { queries_max: 0, ..DnsSettings::default() });
        assert_eq!(few, "dns.queries_max = 0 is out of its bounds: from 1 to 100000");
        let blocked = BlockedAnswer::Address;
        let none = error(DnsSettings { blocked, ..DnsSettings::default() });
        assert_eq!(none, "dns: blocked = \"address\" needs block_addresses");
        let upstream = vec!["quad9".to_owned()];
        let no_address = error(DnsSettings { upstream, ..DnsSettings::default() });
        assert_eq!(no_address, "dns: upstream: \"quad9\" is no address");
    }

    #[test]
    fn resolvers_have_the_port_of_the_dns_unless_they_say_another() {
        let upstream = ["9.9.9.9", "[::1]:5353", "2620:fe::fe"].map(str::to_owned).to_vec();
        let settings = DnsSettings { upstream, ..DnsSettings::default() };
        let upstreams = settings.upstreams().unwrap();
        let texts: Vec<String> = upstreams.iter().map(SocketAddr::to_string).collect();
        assert_eq!(texts, ["9.9.9.9:53", "[::1]:5353", "[2620:fe::fe]:53"]);
    }
}
