//! Bytes both ways until both sides have ended, or nothing passes for too long.
//!
//! Between two sockets the kernel moves them; where TLS or HTTP/2 is between, they are copied.

mod pipes;
mod sockets;

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, mem};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};

pub(crate) use self::pipes::Pipes;
use self::sockets::Way;
use crate::progress::Progress;
use crate::stream::{Stream, Tcp};

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
    client: Box<dyn Stream>,
    server: Box<dyn Stream>,
    pipes: &Pipes,
    progress: &Progress,
    bytes: &Bytes,
    stop: impl Future<Output = ()>,
) -> End {
    let passing = async {
        if !client.is_plain() || !server.is_plain() {
            return copied(client, server, progress, bytes).await;
        }
        match (client.into_tcp(), server.into_tcp()) {
            (Some(client), Some(server)) => moved(client, server, pipes, progress, bytes).await,
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    };
    tokio::select! {
        ended = passing => match ended {
            Ok(()) => End::Closed,
            Err(_) => End::Broken,
        },
        () = progress.stalled() => End::Idle,
        () = stop => End::Stopped,
    }
}

/// From socket to socket.
async fn moved(
    mut client: Tcp,
    mut server: Tcp,
    pipes: &Pipes,
    progress: &Progress,
    bytes: &Bytes,
) -> io::Result<()> {
    let first = (mem::take(&mut client.first), mem::take(&mut server.first));
    let (client, server) = (&client.stream, &server.stream);
    let passed = &bytes.from_client;
    let up = Way { first: first.0, from: client, to: server, passed, progress, pipes };
    let passed = &bytes.to_client;
    let down = Way { first: first.1, from: server, to: client, passed, progress, pipes };
    tokio::try_join!(up.pass(), down.pass()).map(drop)
}

async fn copied(
    client: impl AsyncRead + AsyncWrite,
    server: impl AsyncRead + AsyncWrite,
    progress: &Progress,
    bytes: &Bytes,
) -> io::Result<()> {
    let (client_read, client_write) = split(client);
    let (server_read, server_write) = split(server);
    let up = one_way(client_read, server_write, progress, &bytes.from_client);
    let down = one_way(server_read, client_write, progress, &bytes.to_client);
    tokio::try_join!(up, down).map(drop)
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
    use tokio::io::{DuplexStream, duplex};
    use tokio::net::{TcpListener, TcpStream};

    impl Stream for DuplexStream {}

    const LONG: Duration = Duration::from_secs(60);
    /// More than sockets and pipes hold.
    const MANY: usize = 8 * 1024 * 1024;

    async fn sockets() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connecting = TcpStream::connect(listener.local_addr().unwrap());
        let (one, other) = tokio::join!(connecting, listener.accept());
        (one.unwrap(), other.unwrap().0)
    }

    /// Both talk through a tunnel, each until its end.
    async fn talk<C, S>(
        (mut client, a): (C, Box<dyn Stream>),
        (mut server, b): (S, Box<dyn Stream>),
        question: &[u8],
        answer: &[u8],
        pipes: &Pipes,
    ) -> End
    where
        C: AsyncRead + AsyncWrite + Unpin,
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (progress, bytes) = (Progress::new(LONG), Bytes::default());
        let relayed = relay(a, b, pipes, &progress, &bytes, std::future::pending());
        let talk = async {
            let asked = async {
                client.write_all(question).await.unwrap();
                client.shutdown().await.unwrap();
            };
            let mut text = Vec::new();
            tokio::join!(asked, async { server.read_to_end(&mut text).await.unwrap() });
            assert!(text == question, "{} of {} bytes came", text.len(), question.len());
            let answered = async {
                server.write_all(answer).await.unwrap();
                server.shutdown().await.unwrap();
            };
            let mut text = Vec::new();
            tokio::join!(answered, async { client.read_to_end(&mut text).await.unwrap() });
            assert!(text == answer, "{} of {} bytes came", text.len(), answer.len());
        };
        let (end, ()) = tokio::join!(relayed, talk);
        assert_eq!(bytes.from_client.into_inner(), question.len() as u64);
        assert_eq!(bytes.to_client.into_inner(), answer.len() as u64);
        end
    }

    #[tokio::test]
    async fn a_side_that_has_ended_still_receives() {
        let ((client, a), (b, server)) = (duplex(64), duplex(64));
        let sides = ((client, Box::new(a) as _), (server, Box::new(b) as _));
        let end = talk(sides.0, sides.1, b"question", b"an answer", &Pipes::new()).await;
        assert_eq!(end, End::Closed);
    }

    #[tokio::test]
    async fn sockets_pass_the_same_bytes_copied_or_spliced() {
        let numbers = |by: usize| (0..MANY).map(|n| (n / by % 251) as u8).collect::<Vec<u8>>();
        let (question, answer) = (numbers(1), numbers(3));
        for (pipes, made) in [(Pipes::new(), 1), (Pipes::none(), 0)] {
            let free = pipes.places();
            for (question, answer) in [(&question[..], &answer[..]), (b"few", b""), (b"", b"few")] {
                let ((client, a), (b, server)) = (sockets().await, sockets().await);
                let sides = ((client, Box::new(a) as _), (server, Box::new(b) as _));
                let end = talk(sides.0, sides.1, question, answer, &pipes).await;
                assert_eq!(end, End::Closed);
            }
            assert_eq!(free - pipes.places(), made, "pipes are kept and used again");
        }
    }

    #[tokio::test]
    async fn a_pipe_with_bytes_in_it_is_not_used_again() {
        let ((mut client, a), (b, server)) = (sockets().await, sockets().await);
        let (progress, bytes, pipes) = (Progress::new(LONG), Bytes::default(), Pipes::new());
        let free = pipes.places();
        // The server reads nothing: once nothing more is taken, bytes are in the pipe.
        let writing = async {
            let some = [7; 1 << 16];
            let stalled = Duration::from_millis(500);
            while tokio::time::timeout(stalled, client.write_all(&some)).await.is_ok() {}
        };
        let (a, b) = (Box::new(a) as Box<dyn Stream>, Box::new(b) as Box<dyn Stream>);
        let end = relay(a, b, &pipes, &progress, &bytes, writing).await;
        assert_eq!(end, End::Stopped);
        assert!(bytes.from_client.into_inner() > sockets::COPIED_BYTES);
        assert_eq!(pipes.places(), free, "it is closed");
        drop(server);
    }

    #[tokio::test]
    async fn an_idle_tunnel_ends() {
        let ((_client, a), (b, _server)) = (duplex(64), duplex(64));
        let progress = Progress::new(Duration::from_millis(5));
        let (a, b) = (Box::new(a), Box::new(b));
        let (pipes, bytes) = (Pipes::new(), Bytes::default());
        let end = relay(a, b, &pipes, &progress, &bytes, std::future::pending()).await;
        assert_eq!(end, End::Idle);
        let ((_client, a), (b, _server)) = (sockets().await, sockets().await);
        let (a, b) = (Box::new(a), Box::new(b));
        let end = relay(a, b, &pipes, &progress, &bytes, std::future::pending()).await;
        assert_eq!(end, End::Idle);
    }
}
