//! Numbers for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::refusal::Refusal;

/// What happened since the start. Reading is not one instant: numbers may be of slightly different
/// moments.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections of clients that were taken.
    pub connections: Counter,
    /// Connections now.
    pub connections_now: Counter,
    /// Connections beyond the limits that were closed without an answer.
    pub connections_dropped: Counter,
    /// Connections closed since a header did not come in time.
    pub header_timeouts: Counter,
    /// Connections closed since nothing passed.
    pub stalled: Counter,
    /// Connections to a listener with TLS that ended in the handshake.
    pub client_tls_failures: Counter,
    /// Connections closed since what came was no HTTP; hyper answers 400, 414 or 431.
    pub protocol_errors: Counter,
    /// Connections to a transparent listener that no router handed over.
    pub not_redirected: Counter,
    /// Names that do not have the address that the client connected to (`verify_names`).
    pub names_mismatched: Counter,
    /// Requests.
    pub requests: Counter,
    /// Requests whose login was right.
    pub logins: Counter,
    /// Passwords that were checked: by a slow hash, for the first of many requests.
    pub passwords_checked: Counter,
    /// Tunnels and upgraded connections.
    pub tunnels: Counter,
    /// Connections made to servers.
    pub origin_connections: Counter,
    /// Requests that a kept connection took.
    pub origin_reused: Counter,
    /// Requests sent again since a kept connection had been closed.
    pub origin_retries: Counter,
    /// Bytes of bodies and tunnels to clients.
    pub bytes_to_clients: Counter,
    /// Bytes of bodies and tunnels from clients.
    pub bytes_from_clients: Counter,
    /// Tunnels that were decrypted.
    pub tls_intercepted: Counter,
    /// Tunnels that were not, by a setting, a list or a rule.
    pub tls_bypassed: Counter,
    /// Tunnels that were not, by what was learned of the client or the server.
    pub tls_bypassed_learned: Counter,
    /// Hosts of which it was learned that decrypting does not work.
    pub tls_learned: Counter,
    /// Tunnels without TLS, or with TLS for another protocol than HTTP, that passed.
    pub tls_not_http: Counter,
    /// Certificates made for servers.
    pub certificates_issued: Counter,
    /// Certificates that are kept now.
    pub certificates_kept: Counter,
    refusals: Refusals,
}

/// By the place of a refusal's name among all.
#[derive(Debug)]
struct Refusals([Counter; Refusal::NAMES.len()]);

impl Default for Refusals {
    fn default() -> Self {
        Refusals(std::array::from_fn(|_| Counter::default()))
    }
}

/// A number that goes up, or up and down.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Takes one away.
    pub fn decrement(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sets it.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    /// Counts a refusal.
    pub fn refused(&self, refusal: &Refusal) {
        let at = Refusal::NAMES.iter().position(|name| *name == refusal.name());
        if let Some(counter) = at.and_then(|at| self.refusals.0.get(at)) {
            counter.add(1);
        }
    }

    /// Refusals of this name.
    pub fn refusals(&self, name: &str) -> u64 {
        let at = Refusal::NAMES.iter().position(|n| *n == name);
        at.and_then(|at| self.refusals.0.get(at)).map_or(0, Counter::get)
    }

    /// All numbers by their names; those of refusals begin with `refused_`.
    pub fn all(&self) -> Vec<(String, u64)> {
        let named = [
            ("connections", &self.connections),
            ("connections_now", &self.connections_now),
            ("connections_dropped", &self.connections_dropped),
            ("header_timeouts", &self.header_timeouts),
            ("stalled", &self.stalled),
            ("client_tls_failures", &self.client_tls_failures),
            ("protocol_errors", &self.protocol_errors),
            ("not_redirected", &self.not_redirected),
            ("names_mismatched", &self.names_mismatched),
            ("requests", &self.requests),
            ("logins", &self.logins),
            ("passwords_checked", &self.passwords_checked),
            ("tunnels", &self.tunnels),
            ("origin_connections", &self.origin_connections),
            ("origin_reused", &self.origin_reused),
            ("origin_retries", &self.origin_retries),
            ("bytes_to_clients", &self.bytes_to_clients),
            ("bytes_from_clients", &self.bytes_from_clients),
            ("tls_intercepted", &self.tls_intercepted),
            ("tls_bypassed", &self.tls_bypassed),
            ("tls_bypassed_learned", &self.tls_bypassed_learned),
            ("tls_learned", &self.tls_learned),
            ("tls_not_http", &self.tls_not_http),
            ("certificates_issued", &self.certificates_issued),
            ("certificates_kept", &self.certificates_kept),
        ];
        let named = named.into_iter().map(|(name, counter)| (name.to_owned(), counter.get()));
        let refused = Refusal::NAMES.iter().zip(&self.refusals.0);
        named.chain(refused.map(|(name, c)| (format!("refused_{name}"), c.get()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_is_counted_by_its_name() {
        let counters = Counters::default();
        counters.refused(&Refusal::Loop);
        counters.refused(&Refusal::Port(25));
        counters.refused(&Refusal::Port(26));
        assert_eq!(counters.refusals("port"), 2);
        assert!(counters.all().contains(&("refused_loop".to_owned(), 1)));
    }
}
