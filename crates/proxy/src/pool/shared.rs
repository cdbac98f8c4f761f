//! HTTP/2 connections to servers, whose streams are requests of many clients at once.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::connection::{Connection, Sender};
use crate::body::AnyBody;
use crate::progress::{Progress, Within};
use crate::refusal::Refusal;
use crate::settings::Settings;
use crate::stream::Stream;

/// How often a connection in use is asked whether it lives, and how long it may take to say so.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_WAIT: Duration = Duration::from_secs(10);

/// A connection, while it lives.
pub(crate) struct Shared {
    sender: http2::SendRequest<AnyBody>,
    watch: Arc<Watch>,
    response_max: Duration,
    streams_max: usize,
    address: Option<IpAddr>,
}

/// Streams of a connection, and when one of them last moved.
#[derive(Debug)]
struct Watch {
    progress: Progress,
    streams: AtomicUsize,
    busy: Duration,
    keep: Duration,
}

/// A stream, until it is dropped.
#[derive(Debug)]
struct Stream2(Arc<Watch>);

impl Within for Stream2 {
    fn touch(&self) {
        self.0.progress.touch();
    }
}

impl Drop for Stream2 {
    fn drop(&mut self) {
        if self.0.streams.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.progress.set_limit(self.0.keep);
        }
    }
}

impl Shared {
    /// Speaks HTTP/2 over a new connection, which lives in a task of its own until it ends, stalls
    /// or is not used for the time that connections are kept.
    ///
    /// # Errors
    /// If the first steps fail.
    pub(crate) async fn new(
        stream: impl Stream + 'static,
        settings: &Settings,
    ) -> Result<Self, Refusal> {
        let address = stream.address();
        let header_max = u32::try_from(settings.limits.header_bytes_max).unwrap_or(u32::MAX);
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_header_list_size(header_max)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_WAIT)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Refusal::Closed)?;
        let keep = Duration::from_secs(settings.times.origin_keep_alive_seconds_max);
        let watch = Arc::new(Watch {
            progress: Progress::new(keep),
            streams: AtomicUsize::new(0),
            busy: settings.times.stalled(),
            keep,
        });
        let watching = Arc::clone(&watch);
        tokio::spawn(async move {
            tokio::select! {
                // Whoever waits for a response or its body sees the error, too.
                _ = connection => {}
                () = watching.progress.stalled() => {}
            }
        });
        let response_max = Duration::from_secs(settings.times.response_seconds_max);
        let streams_max = usize::try_from(settings.limits.streams_max).unwrap_or(usize::MAX);
        Ok(Shared { sender, watch, response_max, streams_max, address })
    }

    /// A stream for a request; none if it has as many as it may.
    pub(crate) fn stream(&self) -> Option<Connection> {
        let begun = self.watch.streams.fetch_add(1, Ordering::AcqRel);
        let stream = Stream2(Arc::clone(&self.watch));
        if begun >= self.streams_max {
            return None;
        }
        if begun == 0 {
            self.watch.progress.set_limit(self.watch.busy);
        }
        let progress = Progress::new(self.response_max).within(Box::new(stream));
        Some(Connection {
            sender: Sender::Http2(self.sender.clone()),
            progress: Arc::new(progress),
            address: self.address,
        })
    }

    /// The server has closed it, or it has stalled.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}
