//! The protocol of rspamc and rspamd: `POST /checkv2`, any number of requests a connection.

use super::wire::{Failure, Link, Outcome, Prepared};

/// Bytes of the answer's head at most.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How every answer begins, HTTP/1.0 and 1.1.
const PROTOCOL: &[u8] = b"HTTP/1.";

/// The request, head and message.
pub(crate) fn prepare(raw: &[u8]) -> Prepared {
    let mut wire = format!(
        "POST /checkv2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        raw.len()
    )
    .into_bytes();
    wire.extend_from_slice(raw);
    Prepared { wire, ..Prepared::default() }
}

/// Requests and answers on one connection.
pub(crate) struct Exchange {
    link: Link,
    open: bool,
}

/// The head of an answer.
struct Head {
    status: u16,
    /// Bytes of the head, its empty line included.
    bytes: usize,
    /// Bytes of the body; none if it ends with the connection.
    length: Option<usize>,
    keep: bool,
}

impl Exchange {
    pub(crate) fn new(link: Link) -> Self {
        Exchange { link, open: true }
    }

    /// Another request may follow.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn pass(&mut self, message: &Prepared) -> Result<Outcome, Failure> {
        self.link.write(&message.wire).await?;
        let head = loop {
            if let Some(head) = head(&self.link.input)? {
                break head;
            }
            self.link.more().await?;
        };
        let end = match head.length {
            Some(length) => {
                let end = head.bytes.saturating_add(length);
                while self.link.input.len() < end {
                    self.link.more().await?;
                }
                end
            }
            None => {
                while self.link.read().await? {}
                self.link.input.len()
            }
        };
        self.open = head.keep && head.length.is_some();
        let outcome =
            outcome(head.status, self.link.input.get(head.bytes..end).unwrap_or_default());
        self.link.input.drain(..end);
        outcome
    }
}

/// The head, if it has come whole.
fn head(input: &[u8]) -> Result<Option<Head>, Failure> {
    let begun = input.len().min(PROTOCOL.len());
    if input.get(..begun) != PROTOCOL.get(..begun) {
        let line = input.split(|b| *b == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line.get(..line.len().min(80)).unwrap_or_default());
        return Err(Failure::Protocol(format!("no HTTP answer: {:?}", line.trim_end())));
    }
    let Some(end) = input.windows(4).position(|w| w == b"\r\n\r\n") else {
        if input.len() > HEAD_BYTES_MAX {
            return Err(Failure::Protocol("an endless head of an answer".to_owned()));
        }
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&input[..end]);
    let mut lines = text.split("\r\n");
    let status = lines.next().unwrap_or_default();
    let bad = || Failure::Protocol(format!("no HTTP answer: {status:?}"));
    let number = status.strip_prefix("HTTP/1.").ok_or_else(bad)?.split(' ').nth(1);
    let number = number.and_then(|n| n.parse().ok()).ok_or_else(bad)?;
    let mut head =
        Head { status: number, bytes: end + 4, length: None, keep: status.starts_with("HTTP/1.1") };
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            head.length = Some(value.parse().map_err(|_| bad())?);
        } else if name.eq_ignore_ascii_case("connection") {
            head.keep = !value.eq_ignore_ascii_case("close");
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Failure::Protocol(format!("an answer with Transfer-Encoding: {value}")));
        }
    }
    Ok(Some(head))
}

/// What rspamd's `action` says.
fn outcome(status: u16, body: &[u8]) -> Result<Outcome, Failure> {
    #[derive(serde::Deserialize)]
    struct Answer {
        action: String,
    }
    if status == 429 || status == 503 {
        return Ok(Outcome::Deferred);
    }
    if status != 200 {
        return Err(Failure::Protocol(format!("HTTP status {status}")));
    }
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|error| Failure::Protocol(format!("no verdict in the answer: {error}")))?;
    Ok(match answer.action.as_str() {
        "reject" | "add header" | "rewrite subject" | "quarantine" | "discard" => Outcome::Spam,
        "soft reject" => Outcome::Deferred,
        _ => Outcome::Passed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        assert_eq!(outcome(200, b"{\"action\":\"reject\"}").unwrap(), Outcome::Spam);
        assert_eq!(outcome(200, b"{\"action\":\"no action\",\"x\":1}").unwrap(), Outcome::Passed);
        assert_eq!(outcome(503, b"").unwrap(), Outcome::Deferred);
        assert!(outcome(200, b"{}").is_err() && outcome(404, b"").is_err());
    }

    #[test]
    fn heads() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
        let head = super::head(text).unwrap().unwrap();
        assert_eq!((head.status, head.length, head.keep), (200, Some(5), false));
        assert_eq!(head.bytes, text.len() - 5);
        assert!(super::head(b"HTTP/1.1 200 OK\r\n").unwrap().is_none());
        assert!(super::head(b"SPAMD/1.1 0\r\n\r\n").is_err());
        assert!(super::head(&vec![b'x'; HEAD_BYTES_MAX + 1]).is_err());
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(super::head(chunked).is_err());
    }
}
