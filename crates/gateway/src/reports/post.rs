//! Reports by HTTPS (RFC 8460 section 3): one POST, no redirections, a certificate that is valid.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::net::resolver::{Kind, Resolver};
use crate::net::tls::{Certificate, HandshakeError, HopTls};
use crate::wire::Wire;

/// Time for one POST.
const WAIT: Duration = Duration::from_secs(30);
/// Bytes of the answer that are read: its first line says all.
const ANSWER_BYTES_MAX: u64 = 8 * 1024;
/// Addresses of one host that are tried.
const ADDRESSES_MAX: usize = 4;

/// Why a report could not be posted.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// No `https://` URL of a host with a dot in its name.
    #[error("{0:?} is no https URL")]
    Url(String),
    /// The DNS has no address of this host.
    #[error("{0}: no address")]
    NoAddress(String),
    /// The last address that was tried did not take the report.
    #[error("{host} [{peer}]: {cause}")]
    Failed {
        /// Host of the URL.
        host: String,
        /// Address and port that were tried.
        peer: SocketAddr,
        /// What went wrong there.
        cause: AttemptError,
    },
}

/// Why one address did not take a report.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    /// The connection cannot be made, or broke.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// No TLS, or a certificate that is not valid.
    #[error(transparent)]
    Tls(#[from] HandshakeError),
    /// No answer came within 30 seconds.
    #[error("no answer in time")]
    Timeout,
    /// The answer is not 2xx: its first line.
    #[error("answered {0:?}")]
    Refused(String),
}

/// Sends a report to an `https://` URL.
///
/// # Errors
/// The URL is none, no server can be reached, or the answer is not 2xx.
pub async fn post(
    resolver: &Resolver,
    tls: &HopTls,
    url: &str,
    kind: &str,
    body: &[u8],
) -> Result<(), PostError> {
    let (host, port, path) = parts(url).ok_or_else(|| PostError::Url(url.to_owned()))?;
    let (v4, v6) = tokio::join!(resolver.ask(host, Kind::A), resolver.ask(host, Kind::Aaaa));
    let mut why = PostError::NoAddress(host.to_owned());
    for ip in v4.answer.addresses().chain(v6.answer.addresses()).take(ADDRESSES_MAX) {
        let peer = SocketAddr::new(ip, port);
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: Gauntlet\r\nContent-Type: {kind}\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let said = send_request(tls, host, peer, request.as_bytes(), body);
        let cause = match tokio::time::timeout(WAIT, said).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error,
            Err(_) => AttemptError::Timeout,
        };
        why = PostError::Failed { host: host.to_owned(), peer, cause };
    }
    Err(why)
}

/// Host, port and path of an `https://` URL, without anything that ends a line.
fn parts(url: &str) -> Option<(&str, u16, &str)> {
    let rest = url
        .get(8..)
        .filter(|_| url.get(..8).is_some_and(|s| s.eq_ignore_ascii_case("https://")))?;
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (authority, 443),
    };
    let name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    let fits =
        host.contains('.') && host.bytes().all(name) && path.bytes().all(|b| b.is_ascii_graphic());
    fits.then_some((host, port, path))
}

async fn send_request(
    tls: &HopTls,
    host: &str,
    peer: SocketAddr,
    head: &[u8],
    body: &[u8],
) -> Result<(), AttemptError> {
    let stream = TcpStream::connect(peer).await?;
    let wire: Wire = Box::new(stream);
    let mut wire = tls.connect(wire, host, &Certificate::Valid).await?;
    for piece in [head, body] {
        wire.write_all(piece).await?;
    }
    wire.flush().await?;
    let mut answer = Vec::new();
    // A peer that ends without closing TLS has said what it had to say.
    let _ends_as_it_likes = (&mut wire).take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await;
    let line = answer.split(|b| *b == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    match line.split(' ').nth(1) {
        Some(code) if code.starts_with('2') && code.len() == 3 => Ok(()),
        _ => Err(AttemptError::Refused(gauntlet_smtp::text::excerpt(&line, 80))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        assert_eq!(parts("https://a.example"), Some(("a.example", 443, "/")));
        assert_eq!(parts("HTTPS://a.example:8443/x?y=z"), Some(("a.example", 8443, "/x?y=z")));
        for bad in [
            "http://a.example/",
            "https://",
            "https://localhost/",
            "https://a.example:x/",
            "https://u@a.example/",
            "https://a.example/ x",
            "https://a.example/\r\nX: y",
        ] {
            assert_eq!(parts(bad), None, "{bad}");
        }
    }
}
