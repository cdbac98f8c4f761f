//! Names to addresses.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long an answer is used again: `getaddrinfo` does not say how long it holds, and browsers
/// open several tunnels to a server at once.
const KEPT_FOR: Duration = Duration::from_secs(5);
/// Names whose answers are kept.
const KEPT_NAMES_MAX: usize = 4096;

/// What looks names up. Addresses come in the order in which they are to be tried (RFC 6724).
pub trait Resolve: Send + Sync {
    /// The addresses of a host name in ASCII.
    ///
    /// # Errors
    /// If there are none, or the resolver fails.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver (`getaddrinfo`), which takes a thread for each look-up. Answers are used
/// again for five seconds.
#[derive(Debug)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
    kept: Kept,
}

impl SystemResolver {
    /// At most so many look-ups at once; others wait for their turn.
    pub fn new(lookups_max: usize) -> Self {
        SystemResolver { lookups: Arc::new(Semaphore::new(lookups_max)), kept: Kept::default() }
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            if let Some(addresses) = self.kept.get(host, Instant::now()) {
                return Ok(addresses);
            }
            let lookups = Arc::clone(&self.lookups);
            let permit = lookups.acquire_owned().await.map_err(io::Error::other)?;
            let name = host.to_owned();
            // The thread keeps the permit: who gave up waiting does not end it.
            let lookup = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                (name.as_str(), 0).to_socket_addrs().map(|all| all.map(|a| a.ip()).collect())
            });
            let addresses: Vec<IpAddr> = lookup.await.map_err(io::Error::other)??;
            self.kept.put(host, &addresses, Instant::now());
            Ok(addresses)
        })
    }
}

/// Answers by name, with the time that they came.
#[derive(Debug, Default)]
struct Kept(Mutex<HashMap<String, (Instant, Vec<IpAddr>)>>);

impl Kept {
    fn get(&self, host: &str, now: Instant) -> Option<Vec<IpAddr>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (came, addresses) = kept.get(host)?;
        (now.saturating_duration_since(*came) < KEPT_FOR).then(|| addresses.clone())
    }

    fn put(&self, host: &str, addresses: &[IpAddr], now: Instant) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT_NAMES_MAX {
            kept.retain(|_, (came, _)| now.saturating_duration_since(*came) < KEPT_FOR);
        }
        if kept.len() < KEPT_NAMES_MAX {
            kept.insert(host.to_owned(), (now, addresses.to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_kept_for_a_while_and_within_bounds() {
        let (kept, now) = (Kept::default(), Instant::now());
        let addresses = [IpAddr::from([192, 0, 2, 1])];
        kept.put("a.example", &addresses, now);
        assert_eq!(kept.get("a.example", now).unwrap(), addresses);
        assert_eq!(kept.get("b.example", now), None);
        assert_eq!(kept.get("a.example", now + KEPT_FOR), None);
        for number in 0..KEPT_NAMES_MAX {
            kept.put(&format!("{number}.example"), &addresses, now);
        }
        assert_eq!(kept.0.lock().unwrap().len(), KEPT_NAMES_MAX);
        kept.put("late.example", &addresses, now + KEPT_FOR);
        assert_eq!(kept.0.lock().unwrap().len(), 1, "old ones made room");
    }
}
