//! Hosts that are no longer decrypted since it does not work: programs that trust one certificate
//! alone (pinning) or do not know our authority, and servers that ask for a certificate of the
//! client.
//!
//! What a client's failures teach counts for this client alone, so that one client cannot make a
//! host unseen for all.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::lru::Lru;
use crate::settings::TlsSettings;

/// What was learned, within bounds.
#[derive(Debug)]
pub(crate) struct Learned {
    clients: Mutex<Lru<(IpAddr, String), Failures>>,
    servers: Mutex<Lru<String, Instant>>,
    failures_max: u32,
    window: Duration,
    keep: Duration,
}

#[derive(Debug)]
struct Failures {
    count: u32,
    first: Instant,
    /// When it was learned.
    learned: Option<Instant>,
}

/// Why a host is not decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lesson {
    /// The client broke handshakes off.
    Failures,
    /// The server asks for a certificate of the client.
    ClientCertificate,
}

impl Learned {
    pub(crate) fn new(settings: &TlsSettings) -> Self {
        Learned {
            clients: Mutex::new(Lru::new(settings.learn_hosts_max)),
            servers: Mutex::new(Lru::new(settings.learn_hosts_max)),
            failures_max: settings.learn_failures_max,
            window: Duration::from_secs(settings.learn_window_seconds),
            keep: Duration::from_secs(settings.learn_keep_seconds),
        }
    }

    /// Why this host is not decrypted for this client, if it is not.
    pub(crate) fn lesson(&self, client: IpAddr, host: &str, now: Instant) -> Option<Lesson> {
        let is_kept = |since: Instant| now.duration_since(since) < self.keep;
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let host = host.to_owned();
        match servers.get(&host).map(|learned| is_kept(*learned)) {
            Some(true) => return Some(Lesson::ClientCertificate),
            Some(false) => drop(servers.remove(&host)),
            None => {}
        }
        drop(servers);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (client, host);
        let learned = clients.get(&key)?.learned?;
        if is_kept(learned) {
            return Some(Lesson::Failures);
        }
        clients.remove(&key);
        None
    }

    /// The client broke a handshake off; whether the host is learned by that.
    pub(crate) fn failed(&self, client: IpAddr, host: &str, now: Instant) -> bool {
        if self.failures_max == 0 {
            return false;
        }
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (client, host.to_owned());
        let count = match clients.get(&key) {
            Some(failures) if now.duration_since(failures.first) < self.window => {
                failures.count += 1;
                let is_new = failures.learned.is_none() && failures.count >= self.failures_max;
                if is_new {
                    failures.learned = Some(now);
                }
                return is_new;
            }
            _ => 1,
        };
        let learned = (count >= self.failures_max).then_some(now);
        clients.insert(key, Failures { count, first: now, learned });
        learned.is_some()
    }

    /// A handshake with the client succeeded: failures before it were something else.
    pub(crate) fn succeeded(&self, client: IpAddr, host: &str) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.remove(&(client, host.to_owned()));
    }

    /// The server asks for a certificate of the client.
    pub(crate) fn asks_for_certificate(&self, host: &str, now: Instant) {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.insert(host.to_owned(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn learned(hosts: usize) -> Learned {
        Learned::new(&TlsSettings {
            learn_failures_max: 3,
            learn_window_seconds: 60,
            learn_keep_seconds: 1000,
            learn_hosts_max: hosts,
            ..TlsSettings::default()
        })
    }

    #[test]
    fn failures_within_the_window_teach_for_a_while() {
        let (learned, begin) = (learned(10), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let failures = [0, 20, 40].map(|t| learned.failed(CLIENT, "pinned.example", at(t)));
        assert_eq!(failures, [false, false, true]);
        assert_eq!(learned.lesson(CLIENT, "pinned.example", at(41)), Some(Lesson::Failures));
        assert_eq!(learned.lesson(OTHER, "pinned.example", at(41)), None);
        assert_eq!(learned.lesson(CLIENT, "www.pinned.example", at(41)), None);
        assert!(learned.lesson(CLIENT, "pinned.example", at(1039)).is_some());
        assert_eq!(learned.lesson(CLIENT, "pinned.example", at(1040)), None);
    }

    #[test]
    fn a_success_or_time_makes_failures_forgotten() {
        let (learned, begin) = (learned(10), Instant::now());
        let fails = |seconds| learned.failed(CLIENT, "h", begin + Duration::from_secs(seconds));
        assert!(!fails(0) && !fails(1));
        learned.succeeded(CLIENT, "h");
        assert!(!fails(2) && !fails(3));
        assert!(!fails(62) && !fails(63));
        assert!(fails(64));
    }

    #[test]
    fn a_server_that_asks_for_a_certificate_is_known_to_all() {
        let (learned, now) = (learned(1), Instant::now());
        let asked = Some(Lesson::ClientCertificate);
        learned.asks_for_certificate("intern.example", now);
        assert_eq!(learned.lesson(OTHER, "intern.example", now), asked);
        learned.asks_for_certificate("other.example", now);
        assert_eq!(learned.lesson(OTHER, "intern.example", now), None);
        assert_eq!(learned.lesson(OTHER, "other.example", now), asked);
        let later = now + Duration::from_secs(1000);
        assert_eq!(learned.lesson(OTHER, "other.example", later), None);
    }
}
