//! Counters for Prometheus, by HTTP.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::shared::Shared;

/// How long a client may take for its request or our answer.
const CLIENT_WAIT: Duration = Duration::from_secs(2);
/// Longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 8_192;

/// Listens; requests wait until [`serve`].
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address)
}

/// Answers requests one after the other, in a thread that ends with the process.
pub(super) fn serve(listener: TcpListener, shared: Arc<Shared>) -> io::Result<()> {
    std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
        for client in listener.incoming().flatten() {
            // A client that goes away is its own business.
            let _ = answer(client, &shared);
        }
    })?;
    Ok(())
}

fn answer(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    client.set_read_timeout(Some(CLIENT_WAIT))?;
    client.set_write_timeout(Some(CLIENT_WAIT))?;
    let mut request = Vec::new();
    let mut bytes = [0; 1_024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = client.read(&mut bytes)?;
        request.extend_from_slice(bytes.get(..read).unwrap_or_default());
        if read == 0 || request.len() > REQUEST_BYTES_MAX {
            return Ok(());
        }
    }
    let (status, body) = if request.starts_with(b"GET /metrics ") {
        ("200 OK", shared.sum().prometheus(shared.records.failures()))
    } else {
        ("404 Not Found", "see /metrics\n".to_owned())
    };
    write!(
        client,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
