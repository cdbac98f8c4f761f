//! Names to addresses.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

/// What looks names up. Addresses come in the order in which they are to be tried (RFC 6724).
pub trait Resolve: Send + Sync {
    /// The addresses of a host name in ASCII.
    ///
    /// # Errors
    /// If there are none, or the resolver fails.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver (`getaddrinfo`), which takes a thread for each look-up.
#[derive(Debug)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl SystemResolver {
    /// At most so many look-ups at once; others wait for their turn.
    pub fn new(lookups_max: usize) -> Self {
        SystemResolver { lookups: Arc::new(Semaphore::new(lookups_max)) }
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let lookups = Arc::clone(&self.lookups);
            let permit = lookups.acquire_owned().await.map_err(io::Error::other)?;
            let host = host.to_owned();
            // The thread keeps the permit: who gave up waiting does not end it.
            let lookup = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                (host.as_str(), 0).to_socket_addrs().map(|all| all.map(|a| a.ip()).collect())
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}
