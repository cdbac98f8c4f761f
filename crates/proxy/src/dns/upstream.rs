//! Other resolvers, which are asked.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hickory_resolver::proto::op::Message;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::dns::counters::DnsCounters;
use crate::dns::message::{Asked, answers};

/// Bytes of a message by UDP; resolvers were told less.
const DATAGRAM_BYTES_MAX: usize = 4_096;
/// How often each resolver is asked: a datagram may get lost.
const ROUNDS: usize = 2;

/// The resolvers, the one that answered last first.
pub(crate) struct Upstream {
    servers: Vec<SocketAddr>,
    first: AtomicUsize,
    wait_max: Duration,
    counters: Arc<DnsCounters>,
    random: SystemRandom,
}

impl Upstream {
    pub(crate) fn new(
        servers: Vec<SocketAddr>,
        wait_max: Duration,
        counters: Arc<DnsCounters>,
    ) -> Self {
        Upstream {
            servers,
            first: AtomicUsize::new(0),
            wait_max,
            counters,
            random: SystemRandom::new(),
        }
    }

    /// Asks one resolver after the other; none if none answers.
    pub(crate) async fn ask(&self, asked: &Asked) -> Option<Message> {
        let (first, count) = (self.first.load(Ordering::Relaxed), self.servers.len());
        for attempt in 0..ROUNDS * count {
            let place = (first + attempt) % count;
            let Some(server) = self.servers.get(place) else { continue };
            self.counters.upstream.add(1);
            match timeout(self.wait_max, self.ask_one(*server, asked)).await {
                Ok(Ok(answer)) => {
                    self.first.store(place, Ordering::Relaxed);
                    return Some(answer);
                }
                Ok(Err(error)) => tracing::debug!(%server, %error, "a resolver failed"),
                Err(_) => tracing::debug!(%server, "a resolver did not answer in time"),
            }
            self.counters.upstream_failures.add(1);
        }
        None
    }

    async fn ask_one(&self, server: SocketAddr, asked: &Asked) -> io::Result<Message> {
        // Who does not see the query has to guess number and port (RFC 5452): each query has a
        // socket of its own.
        let mut id = [0; 2];
        self.random.fill(&mut id).map_err(|_| io::Error::other("no random numbers"))?;
        let query = asked.for_upstream(u16::from_be_bytes(id));
        let bytes = query.to_vec().map_err(io::Error::other)?;
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).await?;
        socket.connect(server).await?;
        socket.send(&bytes).await?;
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        loop {
            let count = socket.recv(&mut buffer).await?;
            let answer = Message::from_vec(buffer.get(..count).unwrap_or_default());
            // What does not fit is somebody else's, or forged.
            let Some(answer) = answer.ok().filter(|answer| answers(answer, &query)) else {
                continue;
            };
            if !answer.metadata.truncation {
                return Ok(answer);
            }
            self.counters.upstream_tcp.add(1);
            return by_tcp(server, &query, &bytes).await;
        }
    }
}

async fn by_tcp(server: SocketAddr, query: &Message, bytes: &[u8]) -> io::Result<Message> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(&framed(bytes)?).await?;
    let count = stream.read_u16().await?;
    let mut answer = vec![0; usize::from(count)];
    stream.read_exact(&mut answer).await?;
    let answer = Message::from_vec(&answer).map_err(io::Error::other)?;
    match answers(&answer, query) {
        true => Ok(answer),
        false => Err(io::Error::other("it answers another query")),
    }
}

/// A message as TCP has it: its length before it (RFC 1035 section 4.2.2).
///
/// # Errors
/// If it is longer than its length can say.
pub(crate) fn framed(message: &[u8]) -> io::Result<Vec<u8>> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    Ok([&length.to_be_bytes(), message].concat())
}
