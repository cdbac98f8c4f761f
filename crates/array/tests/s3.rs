//! Objects in the S3 server of a test, and a relay before it that delays, refuses and answers
//! errors.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gauntlet_array::{DatabaseTls, Objects, ObjectsAddress, ObjectsOptions};

use crate::logs::tls;
pub(crate) use crate::s3_server::{S3, SECRET};

/// The objects behind this port, in this bucket, with this secret; each request has this long.
pub(crate) fn objects_with(
    port: u16,
    bucket: &str,
    secret: &str,
    request_max: Duration,
) -> Objects {
    let uri = format!("s3://KEYID:{secret}@127.0.0.1:{port}/{bucket}/array?tls=off");
    let options = ObjectsOptions { request_max, retries_max: 3, ..ObjectsOptions::default() };
    let tls = DatabaseTls { any: tls(), verified: None };
    Objects::new(&ObjectsAddress::parse(&uri).unwrap(), &tls, options).unwrap()
}

/// The objects behind this port.
pub(crate) fn objects(port: u16) -> Objects {
    objects_with(port, "mail", SECRET, Duration::from_secs(60))
}

/// What a relay does with a connection's requests.
#[derive(Default)]
pub(crate) struct Faults {
    /// Milliseconds before anything is passed on.
    pub(crate) delay_ms: AtomicU64,
    /// Requests that are still answered with 503.
    pub(crate) unavailable: AtomicUsize,
    /// Connections are closed at once.
    pub(crate) closed: AtomicBool,
    /// First lines of the requests that arrived, in order.
    pub(crate) seen: Mutex<Vec<String>>,
}

/// Passes connections on to a port, one request each. Returns the relay's port.
pub(crate) fn relay(to: u16) -> (u16, Arc<Faults>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let faults = Arc::new(Faults::default());
    let shared = faults.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let faults = shared.clone();
            std::thread::spawn(move || {
                let _the_other_side_went = pass(client, to, &faults);
            });
        }
    });
    (port, faults)
}

/// A whole request: its head, and as many bytes as that says.
fn read_request(client: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let (mut request, mut buffer) = (Vec::new(), [0; 65536]);
    loop {
        let count = client.read(&mut buffer)?;
        if count == 0 {
            return Ok(request);
        }
        request.extend_from_slice(&buffer[..count]);
        let Some(end) = request.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        let length: usize = length.map_or(0, |text| text.trim().parse().unwrap());
        if request.len() >= end + 4 + length {
            return Ok(request);
        }
    }
}

fn pass(mut client: TcpStream, to: u16, faults: &Faults) -> std::io::Result<()> {
    loop {
        if faults.closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let request = read_request(&mut client)?;
        if request.is_empty() {
            return Ok(());
        }
        let first = String::from_utf8_lossy(&request).lines().next().unwrap_or("").to_owned();
        faults.seen.lock().unwrap().push(first);
        std::thread::sleep(Duration::from_millis(faults.delay_ms.load(Ordering::Relaxed)));
        let counted = |n: usize| n.checked_sub(1);
        let left = faults.unavailable.fetch_update(Ordering::Relaxed, Ordering::Relaxed, counted);
        if left.is_ok() {
            let page = "<Error><Code>SlowDown</Code><Message>Please reduce</Message></Error>";
            let length = page.len();
            write!(client, "HTTP/1.1 503 Slow Down\r\nContent-Length: {length}\r\n\r\n{page}")?;
            continue;
        }
        let mut server = TcpStream::connect(("127.0.0.1", to))?;
        // So the answer's end is the connection's.
        let text = b"\r\nconnection: close\r\n";
        let line = request.windows(2).position(|w| w == b"\r\n").unwrap_or(0);
        server.write_all(&request[..line])?;
        server.write_all(text)?;
        server.write_all(&request[line + 2..])?;
        let mut answer = Vec::new();
        server.read_to_end(&mut answer)?;
        client.write_all(&answer)?;
        return Ok(());
    }
}
