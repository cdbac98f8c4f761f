//! Numbers of the DNS service.

use crate::counters::Counter;

/// What happened since the start.
#[derive(Debug, Default)]
pub struct DnsCounters {
    /// Queries by UDP.
    pub udp: Counter,
    /// Queries by TCP or TLS.
    pub tcp: Counter,
    /// Connections by TCP now.
    pub connections_now: Counter,
    /// Connections of clients that are not ours, or beyond the limits.
    pub connections_refused: Counter,
    /// Connections whose TLS failed.
    pub tls_failures: Counter,
    /// Datagrams of clients that are not ours.
    pub strangers: Counter,
    /// Queries beyond `dns.queries_max`; nothing was answered.
    pub dropped: Counter,
    /// What is no query: nothing was answered, or FORMERR, NOTIMP, BADVERS or REFUSED.
    pub malformed: Counter,
    /// Queries for a name that a rule blocks, or whose answer leads to one.
    pub blocked: Counter,
    /// Answers from the cache.
    pub cached: Counter,
    /// Queries sent to resolvers.
    pub upstream: Counter,
    /// Answers of them that came by TCP, too long for UDP.
    pub upstream_tcp: Counter,
    /// Resolvers that did not answer in time, or not to the query.
    pub upstream_failures: Counter,
    /// Queries that no resolver answered (SERVFAIL).
    pub failed: Counter,
    /// Answers too long for the client's UDP.
    pub truncated: Counter,
}

impl DnsCounters {
    /// All numbers by their names.
    pub fn all(&self) -> Vec<(String, u64)> {
        [
            ("dns_queries_udp", &self.udp),
            ("dns_queries_tcp", &self.tcp),
            ("dns_connections_now", &self.connections_now),
            ("dns_connections_refused", &self.connections_refused),
            ("dns_tls_failures", &self.tls_failures),
            ("dns_strangers", &self.strangers),
            ("dns_dropped", &self.dropped),
            ("dns_malformed", &self.malformed),
            ("dns_blocked", &self.blocked),
            ("dns_cached", &self.cached),
            ("dns_upstream_queries", &self.upstream),
            ("dns_upstream_tcp", &self.upstream_tcp),
            ("dns_upstream_failures", &self.upstream_failures),
            ("dns_failed", &self.failed),
            ("dns_truncated", &self.truncated),
        ]
        .map(|(name, counter)| (name.to_owned(), counter.get()))
        .into()
    }
}
