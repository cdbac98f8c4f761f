//! Connections to servers, kept for the next request.
//!
//! hyper's own pool is not used: it chooses addresses itself, and which failed request may be sent
//! again is ours to say.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::body::AnyBody;
use crate::progress::Progress;
use crate::refusal::Refusal;
use crate::settings::Settings;

/// How often connections that servers have closed are looked for, at most.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// Where a connection goes.
pub(crate) type Key = (String, u16);

/// A connection to a server.
pub(crate) struct Connection {
    sender: SendRequest<AnyBody>,
    pub(crate) progress: Arc<Progress>,
}

/// Why there is no response.
pub(crate) enum SendError {
    /// The request never left, and is here again.
    Unsent(Box<Request<AnyBody>>),
    /// It may have reached the server.
    Failed(hyper::Error),
}

impl Connection {
    /// Speaks HTTP/1.1 over a new connection, which lives in a task of its own until it ends or
    /// stalls.
    ///
    /// # Errors
    /// If the first steps fail.
    pub(crate) async fn new(stream: TcpStream, settings: &Settings) -> Result<Self, Refusal> {
        let limits = &settings.limits;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(limits.header_bytes_max)
            .max_headers(limits.header_fields_max)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Refusal::Closed)?;
        let wait_max = Duration::from_secs(settings.times.response_seconds_max);
        let progress = Arc::new(Progress::new(wait_max));
        let watch = Arc::clone(&progress);
        tokio::spawn(async move {
            tokio::select! {
                // Whoever waits for the response or its body sees the error, too.
                _ = connection.with_upgrades() => {}
                () = watch.stalled() => {}
            }
        });
        Ok(Connection { sender, progress })
    }

    /// Sends a request and waits for the header of its response.
    ///
    /// # Errors
    /// With the request itself if none of it was sent.
    pub(crate) async fn send(
        &mut self,
        request: Request<AnyBody>,
    ) -> Result<Response<Incoming>, SendError> {
        self.sender.try_send_request(request).await.map_err(|mut error| {
            match error.take_message() {
                Some(request) => SendError::Unsent(Box::new(request)),
                None => SendError::Failed(error.into_error()),
            }
        })
    }

    /// The server has closed it.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

#[derive(Default)]
struct Idle {
    by_key: HashMap<Key, Vec<Connection>>,
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

    /// Keeps the connection as soon as its response has been read to the end.
    pub(crate) fn put_when_ready(self: &Arc<Self>, key: Key, mut connection: Connection) {
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            if connection.sender.ready().await.is_ok() {
                pool.put(key, connection);
            }
        });
    }

    fn put(&self, key: Key, connection: Connection) {
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
        self.all = self.by_key.values().map(Vec::len).sum();
    }
}
