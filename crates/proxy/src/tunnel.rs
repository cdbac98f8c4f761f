//! Bytes both ways until both sides have ended, or nothing passes for too long.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};

use crate::progress::Progress;

/// Bytes read at once.
const BUFFER_BYTES: usize = 16 * 1024;

/// How a tunnel ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Both sides closed it.
    Closed,
    /// A connection broke.
    Broken,
    /// Nothing passed for the time limit.
    Idle,
    /// The proxy stops.
    Stopped,
    /// What the client may use is used up.
    UsedUp,
}

/// Bytes that passed.
#[derive(Debug, Default)]
pub(crate) struct Bytes {
    pub(crate) from_client: AtomicU64,
    pub(crate) to_client: AtomicU64,
}

impl Bytes {
    /// Both ways.
    pub(crate) fn all(&self) -> u64 {
        self.from_client.load(Ordering::Relaxed) + self.to_client.load(Ordering::Relaxed)
    }
}

/// Passes bytes on. A side that ends its direction may still receive.
pub(crate) async fn relay(
    client: impl AsyncRead + AsyncWrite,
    server: impl AsyncRead + AsyncWrite,
    progress: &Progress,
    bytes: &Bytes,
    stop: impl Future<Output = ()>,
) -> End {
    let (client_read, client_write) = split(client);
    let (server_read, server_write) = split(server);
    let up = one_way(client_read, server_write, progress, &bytes.from_client);
    let down = one_way(server_read, client_write, progress, &bytes.to_client);
    tokio::select! {
        ended = async { tokio::try_join!(up, down) } => match ended {
            Ok(_) => End::Closed,
            Err(_) => End::Broken,
        },
        () = progress.stalled() => End::Idle,
        () = stop => End::Stopped,
    }
}

async fn one_way(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    progress: &Progress,
    bytes: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let n = from.read(&mut buffer).await?;
        progress.touch();
        if n == 0 {
            return to.shutdown().await;
        }
        to.write_all(buffer.get(..n).unwrap_or_default()).await?;
        // TLS and HTTP/2 below may keep bytes until they are told.
        to.flush().await?;
        progress.touch();
        bytes.fetch_add(n as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::duplex;

    #[tokio::test]
    async fn a_side_that_has_ended_still_receives() {
        let ((mut client, a), (b, mut server)) = (duplex(64), duplex(64));
        let progress = Progress::new(Duration::from_secs(60));
        let bytes = Bytes::default();
        let relayed = relay(a, b, &progress, &bytes, std::future::pending());
        let talk = async {
            client.write_all(b"question").await.unwrap();
            client.shutdown().await.unwrap();
            let mut text = String::new();
            server.read_to_string(&mut text).await.unwrap();
            server.write_all(b"an answer").await.unwrap();
            server.shutdown().await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            (text, answer)
        };
        let (end, talked) = tokio::join!(relayed, talk);
        assert_eq!((end, talked), (End::Closed, ("question".to_owned(), "an answer".to_owned())));
        assert_eq!(bytes.from_client.into_inner(), 8);
        assert_eq!(bytes.to_client.into_inner(), 9);
    }

    #[tokio::test]
    async fn an_idle_tunnel_ends() {
        let ((_client, a), (b, _server)) = (duplex(64), duplex(64));
        let progress = Progress::new(Duration::from_millis(5));
        let end = relay(a, b, &progress, &Bytes::default(), std::future::pending()).await;
        assert_eq!(end, End::Idle);
    }
}
