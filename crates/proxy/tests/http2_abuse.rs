//! Frames of HTTP/2 by hand that a client sends to wear the proxy out: each is bounded, ends that
//! connection or stream alone, and others are served.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::{Origin, PATIENCE, Proxy, settings, text};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Types of frames (RFC 9113 section 6).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
/// Flags of HEADERS and CONTINUATION.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The most that a frame may have.
const FRAME_BYTES: usize = 16_384;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// GET of the root of this authority, without an end (RFC 7541).
fn request(authority: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x84, 0x41, u8::try_from(authority.len()).unwrap()];
    block.extend(authority.as_bytes());
    block
}

/// A connection that has begun.
async fn connect(proxy: &Proxy) -> TcpStream {
    let mut stream = proxy.connect().await;
    let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    stream.write_all(&begin).await.unwrap();
    stream
}

/// The next frame but settings: type, stream, payload; none if the connection ends.
async fn next(stream: &mut TcpStream) -> Option<(u8, u32, Vec<u8>)> {
    let reading = async {
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            stream.read_exact(&mut payload).await.ok()?;
            let id = u32::from_be_bytes(head[5..].try_into().unwrap());
            if head[3] != SETTINGS {
                return Some((head[3], id, payload));
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("there is an answer")
}

/// Sends all that the proxy takes, and gives whether it took all.
async fn send(stream: &mut TcpStream, bytes: impl Iterator<Item = Vec<u8>>) -> bool {
    for bytes in bytes {
        let sent = tokio::time::timeout(PATIENCE, stream.write_all(&bytes)).await;
        if sent.expect("bytes are taken, or the connection ends").is_err() {
            return false;
        }
    }
    true
}

/// Why the connection ended, as GOAWAY says it; none if it was simply closed.
async fn goaway(stream: &mut TcpStream) -> Option<u32> {
    while let Some((kind, _, payload)) = next(stream).await {
        if kind == GOAWAY {
            return Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
    }
    None
}

async fn is_serving(proxy: &Proxy, origin: &Origin) -> bool {
    let url = origin.url("/after");
    let answer = format!("GET {url} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    proxy.talk(answer).await.starts_with("HTTP/1.1 200 OK\r\n")
}

#[tokio::test]
async fn a_header_that_grows_a_thousandfold_is_refused() {
    let (proxy, origin) = (Proxy::start(settings()).await, Origin::echo().await);
    let mut stream = connect(&proxy).await;
    let mut block = request(&origin.address.to_string());
    // A field of 4,000 bytes goes into the table, and is named by one byte each from then on.
    block.extend([0x40, 1, b'x', 0x7f, 0xa1, 0x1e]);
    block.extend([b'a'; 4000]);
    block.resize(FRAME_BYTES, 0xbe);
    let bomb = frame(HEADERS, END_STREAM | END_HEADERS, 1, &block);
    assert!(send(&mut stream, [bomb].into_iter()).await);
    let (kind, id, _) = next(&mut stream).await.expect("it is answered");
    // 431, or the stream or the connection ends.
    assert!([HEADERS, RST_STREAM, GOAWAY].contains(&kind), "{kind} {id}");
    assert_eq!(origin.connections(), 0, "no server saw it");
    assert!(is_serving(&proxy, &origin).await);
}

#[tokio::test]
async fn a_header_without_end_is_cut() {
    let (proxy, origin) = (Proxy::start(settings()).await, Origin::echo().await);
    let mut stream = connect(&proxy).await;
    let first = frame(HEADERS, END_STREAM, 1, &request(&origin.address.to_string()));
    // A field that is not to be put into the table, of 16,000 bytes.
    let mut field = vec![0x00, 1, b'x', 0x7f, 0x81, 0x7c];
    field.extend([b'a'; 16_000]);
    let more = (0..10_000).map(|_| frame(CONTINUATION, 0, 1, &field));
    let is_taken = send(&mut stream, [first].into_iter().chain(more)).await;
    assert!(!is_taken, "160 MB of a header were taken");
    assert_eq!(origin.connections(), 0, "no server saw it");
    assert!(is_serving(&proxy, &origin).await);
}

#[tokio::test]
async fn ten_thousand_streams_that_are_reset_end_their_connection() {
    // What a rapid reset (CVE-2023-44487) is after: work for requests that nobody waits for.
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let origin = Origin::start(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async { text("here") }
    })
    .await;
    let proxy = Proxy::start(settings()).await;
    let mut stream = connect(&proxy).await;
    let block = request(&origin.address.to_string());
    // Stream identifiers of clients are odd.
    let resets = (0..10_000).map(|n| {
        let id = 2 * n + 1;
        let begin = frame(HEADERS, END_STREAM | END_HEADERS, id, &block);
        [begin, frame(RST_STREAM, 0, id, &8_u32.to_be_bytes())].concat()
    });
    // In pieces as large as the sockets take: who resets so fast sends no single frames.
    let resets: Vec<u8> = resets.flatten().collect();
    let is_taken = send(&mut stream, resets.chunks(65_536).map(<[u8]>::to_vec)).await;
    let reason = goaway(&mut stream).await;
    // ENHANCE_YOUR_CALM, unless the system dropped it with the connection.
    assert!(reason == Some(11) || (reason.is_none() && !is_taken), "{reason:?}");
    assert!(asked.load(Ordering::SeqCst) < 1000, "{asked:?} requests reached the server");
    assert!(is_serving(&proxy, &origin).await);
}

#[tokio::test]
async fn more_streams_than_the_limit_are_refused() {
    let mut few = settings();
    few.limits.streams_max = 3;
    let proxy = Proxy::start(few).await;
    let origin = Origin::start(|_| std::future::pending()).await;
    let mut stream = connect(&proxy).await;
    let block = request(&origin.address.to_string());
    let ids = (0..10).map(|n| 2 * n + 1);
    let begin = ids.map(|id| frame(HEADERS, END_STREAM | END_HEADERS, id, &block));
    assert!(send(&mut stream, begin).await);
    for _ in 0..7 {
        let (kind, _, payload) = next(&mut stream).await.unwrap();
        // REFUSED_STREAM.
        assert_eq!((kind, payload), (RST_STREAM, vec![0, 0, 0, 7]));
    }
    assert!(origin.connections() <= 3);
}
