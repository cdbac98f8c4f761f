//! Servers that do nothing: each takes messages by its protocol, forgets them and says that all is
//! well. They show what a load generator can do at most, and stand behind a gateway that is
//! measured.
//!
//! On purpose a sink may also be slow, stall, or refuse.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use crate::protocol::Protocol;
use crate::token_bucket::TokenBucket;

/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Largest piece of a message for clamd, and a command.
const CLAMD_BYTES_MAX: usize = 4 << 20;
/// Longest command line or head kept.
const LINE_BYTES_MAX: usize = 64 << 10;

/// What a sink for SMTP or LMTP was given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Delivery {
    /// Recipients as RCPT named them, without angle brackets.
    pub recipients: Vec<String>,
    /// The first bytes of the message, up to 64 KiB.
    pub head: Vec<u8>,
}

/// Hears of each delivery before it is answered.
pub type Hook = Arc<dyn Fn(Delivery) + Send + Sync>;

/// How a sink behaves.
#[derive(Clone, Default)]
pub struct Behaviour {
    /// Hears of deliveries by SMTP and LMTP.
    pub hook: Option<Hook>,
    /// Bytes are read as fast as this link is.
    pub link: Option<Arc<TokenBucket>>,
    /// Wait before each answer to a message.
    pub delay: Duration,
    /// All answers stop once, so long after the first message: when, and for how long.
    pub stall: Option<(Duration, Duration)>,
    /// Refuse every so many-th message for now; 0 refuses none.
    pub defer_every: u64,
}

/// What a sink took.
#[derive(Debug, Default)]
pub struct Counts {
    /// Messages that were answered with 250.
    pub messages: AtomicU64,
    /// Bytes read from all connections.
    pub bytes: AtomicU64,
    /// Connections accepted since the start.
    pub connections: AtomicU64,
}

struct Shared {
    protocol: Protocol,
    behaviour: Behaviour,
    counts: Arc<Counts>,
    /// When the first message came. Held while the sink stalls.
    first: Mutex<Option<Instant>>,
}

/// Accepts until the listener fails.
///
/// # Errors
/// The listener's.
pub async fn serve(
    listener: TcpListener,
    protocol: Protocol,
    behaviour: Behaviour,
    counts: Arc<Counts>,
) -> io::Result<()> {
    let shared = Arc::new(Shared { protocol, behaviour, counts, first: Mutex::new(None) });
    loop {
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            // Out of descriptors, or a client that went away: the next one may do.
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => {
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        shared.counts.connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(converse(stream, shared.clone()));
    }
}

async fn converse(mut stream: TcpStream, shared: Arc<Shared>) {
    // A client that breaks off is no error of the sink.
    let _ = stream.set_nodelay(true);
    let _ = match shared.protocol {
        Protocol::Smtp | Protocol::Lmtp => mail(&mut stream, &shared).await,
        Protocol::Spamd => spamd(&mut stream, &shared).await,
        Protocol::Clamd => clamd(&mut stream, &shared).await,
        Protocol::Rspamd => http(&mut stream, &shared).await,
        Protocol::Milter => milter(&mut stream, &shared).await,
    };
}

impl Shared {
    /// Counts a message and behaves; false if it is to be refused for now.
    async fn take(&self) -> bool {
        let number = self.counts.messages.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some((after, time)) = self.behaviour.stall {
            let mut first = self.first.lock().await;
            let since = *first.get_or_insert_with(Instant::now);
            if since.elapsed() >= after && since.elapsed() < after + time {
                tokio::time::sleep_until((since + after + time).into()).await;
            }
        }
        if !self.behaviour.delay.is_zero() {
            tokio::time::sleep(self.behaviour.delay).await;
        }
        self.behaviour.defer_every == 0 || !number.is_multiple_of(self.behaviour.defer_every)
    }

    async fn read(&self, bytes: usize) {
        self.counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if let Some(link) = &self.behaviour.link {
            link.take(bytes).await;
        }
    }

    /// Keeps the head of a message for the hook.
    fn keep(&self, delivery: &mut Delivery, bytes: &[u8]) {
        if self.behaviour.hook.is_some() {
            let room = LINE_BYTES_MAX.saturating_sub(delivery.head.len());
            delivery.head.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        }
    }
}

/// The address of `RCPT TO:<address>`.
fn address(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.split(['<', '>']).nth(1).unwrap_or_default().to_owned()
}

/// Finds the end of a message after DATA, in pieces of any size.
#[derive(Debug, Default)]
struct End {
    /// Bytes of the end that have come.
    matched: usize,
}

impl End {
    const MARK: &'static [u8] = b"\r\n.\r\n";

    /// At the start of the message, where the line end before the dot is that of DATA.
    fn at_start() -> Self {
        End { matched: 2 }
    }

    /// Bytes up to the end, if it is in there.
    fn find(&mut self, input: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            if self.matched == 0 {
                at += memchr::memchr(b'\r', &input[at..])?;
                self.matched = 1;
            } else if Self::MARK.get(self.matched) == Some(&byte) {
                self.matched += 1;
            } else {
                self.matched = usize::from(byte == b'\r');
            }
            at += 1;
            if self.matched == Self::MARK.len() {
                return Some(at);
            }
        }
        None
    }
}

async fn mail(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    let lmtp = shared.protocol == Protocol::Lmtp;
    stream.write_all(b"220 sink.gauntlet.example ESMTP\r\n").await?;
    let (mut buffer, mut line, mut out) = (vec![0; READ_BYTES], Vec::new(), Vec::new());
    let (mut body, mut delivery): (Option<End>, Delivery) = (None, Delivery::default());
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        shared.read(count).await;
        let mut input = &buffer[..count];
        while !input.is_empty() {
            if let Some(end) = &mut body {
                let Some(used) = end.find(input) else {
                    shared.keep(&mut delivery, input);
                    break;
                };
                shared.keep(&mut delivery, &input[..used]);
                input = &input[used..];
                body = None;
                let reply: &[u8] = if shared.take().await {
                    b"250 2.0.0 forgotten\r\n"
                } else {
                    b"451 4.3.0 not now\r\n"
                };
                let replies = if lmtp { delivery.recipients.len() } else { 1 };
                (0..replies).for_each(|_| out.extend_from_slice(reply));
                let delivery = std::mem::take(&mut delivery);
                if let Some(hook) = shared.behaviour.hook.as_ref().filter(|_| reply[0] == b'2') {
                    hook(delivery);
                }
                continue;
            }
            let Some(end) = memchr::memchr(b'\n', input) else {
                line.extend_from_slice(input);
                if line.len() > LINE_BYTES_MAX {
                    return Ok(());
                }
                break;
            };
            line.extend_from_slice(&input[..end]);
            input = &input[end + 1..];
            let verb: Vec<u8> = line.iter().take(4).map(u8::to_ascii_uppercase).collect();
            match verb.as_slice() {
                b"RCPT" => delivery.recipients.push(address(&line)),
                b"RSET" => delivery = Delivery::default(),
                b"DATA" => body = Some(End::at_start()),
                _ => {}
            }
            line.clear();
            out.extend_from_slice(reply(&verb));
            if verb == b"QUIT" {
                return stream.write_all(&out).await;
            }
        }
        stream.write_all(&out).await?;
        out.clear();
    }
}

/// What a sink says to a command.
fn reply(verb: &[u8]) -> &'static [u8] {
    match verb {
        b"EHLO" | b"LHLO" => {
            b"250-sink.gauntlet.example\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n\
              250-DSN\r\n250 SIZE 0\r\n"
        }
        b"DATA" => b"354 go\r\n",
        b"QUIT" => b"221 2.0.0 bye\r\n",
        _ => b"250 2.0.0 ok\r\n",
    }
}

/// Reads on until the head ends; the head's bytes, and the value of its Content-Length.
async fn head(
    stream: &mut TcpStream,
    input: &mut Vec<u8>,
    shared: &Shared,
) -> io::Result<Option<(usize, usize)>> {
    let mut buffer = [0; 16 << 10];
    loop {
        if let Some(end) = input.windows(4).position(|w| w == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&input[..end]).to_ascii_lowercase();
            let length = text.lines().find_map(|l| l.strip_prefix("content-length:"));
            return Ok(Some((end + 4, length.and_then(|l| l.trim().parse().ok()).unwrap_or(0))));
        }
        let count = stream.read(&mut buffer).await?;
        if count == 0 || input.len() > LINE_BYTES_MAX {
            return Ok(None);
        }
        shared.read(count).await;
        input.extend_from_slice(&buffer[..count]);
    }
}

/// Reads so many bytes and forgets them; false if the client broke off.
async fn skip(stream: &mut TcpStream, mut bytes: usize, shared: &Shared) -> io::Result<bool> {
    let mut buffer = vec![0; READ_BYTES.min(bytes.max(1))];
    while bytes > 0 {
        let length = buffer.len().min(bytes);
        let count = stream.read(&mut buffer[..length]).await?;
        if count == 0 {
            return Ok(false);
        }
        shared.read(count).await;
        bytes -= count;
    }
    Ok(true)
}

async fn spamd(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    let mut input = Vec::new();
    let Some((end, length)) = head(stream, &mut input, shared).await? else { return Ok(()) };
    if !skip(stream, (end + length).saturating_sub(input.len()), shared).await? {
        return Ok(());
    }
    let answer: &[u8] = if shared.take().await {
        b"SPAMD/1.1 0 EX_OK\r\nSpam: False ; 0.0 / 5.0\r\n\r\n"
    } else {
        b"SPAMD/1.1 75 EX_TEMPFAIL\r\n\r\n"
    };
    stream.write_all(answer).await?;
    stream.shutdown().await
}

/// Answers a session (`IDSESSION`) of any number of `INSTREAM`: each is named by its number in it.
async fn clamd(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let (mut input, mut number, mut streaming) = (Vec::new(), 0_u64, false);
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 || input.len() > CLAMD_BYTES_MAX {
            return Ok(());
        }
        shared.read(count).await;
        input.extend_from_slice(&buffer[..count]);
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            if streaming {
                let Some(length) = rest.first_chunk::<4>() else { break };
                let length = u32::from_be_bytes(*length) as usize;
                if rest.len() < 4 + length {
                    break;
                }
                at += 4 + length;
                if length == 0 {
                    streaming = false;
                    let answer = if shared.take().await { "OK" } else { "not now ERROR" };
                    stream.write_all(format!("{number}: stream: {answer}\0").as_bytes()).await?;
                }
            } else {
                let Some(end) = memchr::memchr(0, rest) else { break };
                streaming = rest.starts_with(b"zINSTREAM");
                number += u64::from(streaming);
                if rest.starts_with(b"zEND") {
                    return Ok(());
                }
                at += end + 1;
            }
        }
        input.drain(..at);
    }
}

async fn http(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    let mut input = Vec::new();
    while let Some((end, length)) = head(stream, &mut input, shared).await? {
        if !skip(stream, (end + length).saturating_sub(input.len()), shared).await? {
            break;
        }
        input.drain(..input.len().min(end + length));
        let answer: &[u8] = if shared.take().await {
            b"HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\n{\"action\":\"no action\"}"
        } else {
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
        };
        stream.write_all(answer).await?;
    }
    Ok(())
}

/// Steps that the sink does not answer: all but the end of the message.
const UNANSWERED: u32 = 0xf_f080;

async fn milter(stream: &mut TcpStream, shared: &Shared) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let mut input = Vec::new();
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        shared.read(count).await;
        input.extend_from_slice(&buffer[..count]);
        let mut at = 0;
        while let Some(length) = input.get(at..).and_then(<[u8]>::first_chunk::<4>) {
            let length = u32::from_be_bytes(*length) as usize;
            let Some(packet) = input.get(at + 4..at + 4 + length) else { break };
            at += 4 + length;
            match packet.first() {
                Some(b'O') => {
                    let mut answer = vec![0, 0, 0, 13, b'O', 0, 0, 0, 6, 0, 0, 0, 0];
                    answer.extend_from_slice(&UNANSWERED.to_be_bytes());
                    stream.write_all(&answer).await?;
                }
                Some(b'E') => {
                    let answer = if shared.take().await { b"\0\0\0\x01c" } else { b"\0\0\0\x01t" };
                    stream.write_all(answer).await?;
                }
                Some(b'Q') | None => return Ok(()),
                Some(_) => {}
            }
        }
        input.drain(..at);
        if input.len() > 4 << 20 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_message_in_pieces() {
        let text = b"a\r\n..b\r\n.c\r\r\n.\r\nrest";
        let end = text.len() - 4;
        for size in 1..text.len() {
            let mut find = End::at_start();
            let mut before = 0;
            let mut found = None;
            for piece in text.chunks(size) {
                if let Some(used) = find.find(piece) {
                    found = Some(before + used);
                    break;
                }
                before += piece.len();
            }
            assert_eq!(found, Some(end), "pieces of {size}");
        }
        assert_eq!(End::at_start().find(b".\r\n"), Some(3), "an empty message");
    }
}
