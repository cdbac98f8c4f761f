//! Connections to servers, kept for the next request.
//!
//! hyper's own pool is not used: it chooses addresses itself, and which failed request may be sent
//! again is ours to say.

mod connection;
mod shared;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::refusal::Refusal;
use crate::request::WebRequest;
use crate::settings::Settings;
use crate::tls::{Route, Secured};

use connection::Sender;
pub(crate) use connection::{Connection, SendError};
use shared::Shared;

/// How often connections that servers have closed are looked for, at most.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// Where a connection goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Host or address that is connected to.
    pub(crate) host: String,
    /// Its port.
    pub(crate) port: u16,
    /// The name that was verified, if it is TLS.
    pub(crate) tls: Option<String>,
}

impl Key {
    /// The key of connections for a tunnel that is decrypted, if TLS names the same host.
    pub(crate) fn of_tunnel(web: &WebRequest) -> Self {
        let host = web.host().to_owned();
        Key { host: host.clone(), port: web.port, tls: Some(host) }
    }

    /// The key of a decrypted tunnel's connections.
    pub(crate) fn of_route(route: &Route) -> Self {
        Key { host: route.host.clone(), port: route.port, tls: Some(route.name.clone()) }
    }
}

#[derive(Default)]
struct Idle {
    by_key: HashMap<Key, Vec<Connection>>,
    /// Of HTTP/2, one a server: its streams are taken, it stays.
    shared: HashMap<Key, Shared>,
    /// Both kinds.
    all: usize,
    swept: Option<Instant>,
}

/// Kept connections, within bounds.
pub(crate) struct Pool {
    idle: Mutex<Idle>,
    all_max: usize,
    key_max: usize,
    keep: Duration,
}

impl Pool {
    pub(crate) fn new(settings: &Settings) -> Self {
        Pool {
            idle: Mutex::default(),
            all_max: settings.limits.kept_connections_max,
            key_max: settings.limits.kept_origin_connections_max,
            keep: Duration::from_secs(settings.times.origin_keep_alive_seconds_max),
        }
    }

    /// The connection that was used last; older ones are more likely to have been closed.
    pub(crate) fn take(&self, key: &Key) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = idle.shared.get(key) {
            if !shared.is_closed() {
                return shared.stream();
            }
            idle.shared.remove(key);
            idle.all -= 1;
        }
        loop {
            let list = idle.by_key.get_mut(key)?;
            let connection = list.pop();
            if list.is_empty() {
                idle.by_key.remove(key);
            }
            let connection = connection?;
            idle.all -= 1;
            if !connection.is_closed() {
                return Some(connection);
            }
        }
    }

    /// There is a connection that is not closed.
    pub(crate) fn has(&self, key: &Key) -> bool {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.shared.get(key).is_some_and(|shared| !shared.is_closed())
            || idle.by_key.get(key).is_some_and(|list| list.iter().any(|c| !c.is_closed()))
    }

    /// Keeps the connection as soon as its response has been read to the end.
    pub(crate) fn put_when_ready(self: &Arc<Self>, key: Key, mut connection: Connection) {
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            let is_ready = match &mut connection.sender {
                Sender::Http1(sender) => sender.ready().await.is_ok(),
                // Its connection is here already.
                Sender::Http2(_) => false,
            };
            if is_ready {
                pool.put(key, connection);
            }
        });
    }

    /// Makes a connection to a server that was verified. That of HTTP/2 is kept at once, for others
    /// to use, too; that of HTTP/1.1 is the caller's.
    ///
    /// # Errors
    /// If the first steps fail.
    pub(crate) async fn connection(
        &self,
        key: &Key,
        secured: Secured,
        settings: &Settings,
    ) -> Result<Connection, Refusal> {
        if !secured.is_http2 {
            return Connection::new(secured.stream, settings).await;
        }
        let shared = Shared::new(secured.stream, settings).await?;
        let connection = shared.stream().ok_or(Refusal::Connections)?;
        self.share(key.clone(), shared);
        Ok(connection)
    }

    fn share(&self, key: Key, shared: Shared) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.all >= self.all_max {
            idle.sweep();
        }
        if idle.all < self.all_max && idle.shared.insert(key, shared).is_none() {
            idle.all += 1;
        }
    }

    /// Keeps a connection that waits for a request.
    pub(crate) fn put(&self, key: Key, connection: Connection) {
        connection.progress.set_limit(self.keep);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.all >= self.all_max {
            idle.sweep();
        }
        let of_key = idle.by_key.get(&key).map_or(0, Vec::len);
        if idle.all < self.all_max && of_key < self.key_max {
            idle.by_key.entry(key).or_default().push(connection);
            idle.all += 1;
        }
    }
}

impl Idle {
    /// Forgets connections that servers have closed.
    fn sweep(&mut self) {
        if self.swept.is_some_and(|at| at.elapsed() < SWEEP_PAUSE) {
            return;
        }
        self.swept = Some(Instant::now());
        self.by_key.retain(|_, list| {
            list.retain(|connection| !connection.is_closed());
            !list.is_empty()
        });
        self.shared.retain(|_, shared| !shared.is_closed());
        self.all = self.by_key.values().map(Vec::len).sum::<usize>() + self.shared.len();
    }
}
