//! Heads of HTTP answers, as far as a client that measures has to know them.

use std::io;

/// What a head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Head {
    pub(super) status: u16,
    /// Its bytes, the empty line included.
    pub(super) bytes: usize,
    /// Bytes of the body; none: until the server closes.
    pub(super) length: Option<u64>,
    /// The connection stays open.
    pub(super) keep: bool,
}

/// Reads a head; none if it has not come whole.
///
/// # Errors
/// What is no HTTP/1 answer, or comes in chunks.
pub(super) fn parse(input: &[u8]) -> io::Result<Option<Head>> {
    let begin = b"HTTP/1.";
    let both = input.len().min(begin.len());
    if input.get(..both) != begin.get(..both) {
        return Err(io::Error::other("no HTTP answer"));
    }
    let Some(end) = memchr::memmem::find(input, b"\r\n\r\n") else { return Ok(None) };
    let bad = || io::Error::other("no HTTP answer: its first lines are not understood");
    let text = input.get(..end).unwrap_or_default();
    let number = text.get(9..12).and_then(|n| std::str::from_utf8(n).ok());
    let status: u16 = number.and_then(|n| n.parse().ok()).ok_or_else(bad)?;
    let mut head = Head { status, bytes: end + 4, length: None, keep: text.get(7) == Some(&b'1') };
    if status < 200 || matches!(status, 204 | 304) {
        head.length = Some(0);
    }
    let mut at = memchr::memchr(b'\n', text).map_or(text.len(), |line| line + 1);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let line = memchr::memchr(b'\n', rest).map_or(rest, |end| &rest[..end]);
        at += line.len() + 1;
        // Only three names matter; their first bytes rule out most others.
        if !matches!(line.first(), Some(b'c' | b'C' | b't' | b'T')) {
            continue;
        }
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let value = std::str::from_utf8(value).ok().and_then(|v| v.parse().ok());
            head.length = Some(value.ok_or_else(bad)?);
        } else if name.eq_ignore_ascii_case(b"connection") {
            head.keep = !value.eq_ignore_ascii_case(b"close");
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            return Err(io::Error::other("an answer in chunks: measure a file of known length"));
        }
    }
    head.keep &= head.length.is_some();
    Ok(Some(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let text = b"HTTP/1.1 200 OK\r\nServer: x\r\ncontent-LENGTH: 5\r\n\r\nhello";
        let head = parse(text).unwrap().unwrap();
        let length = Some(5);
        assert_eq!(head, Head { status: 200, bytes: text.len() - 5, length, keep: true });
        for cut in 0..text.len() - 5 {
            assert_eq!(parse(&text[..cut]).unwrap(), None, "{cut}");
        }
        let closing = b"HTTP/1.1 404 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        assert!(!parse(closing).unwrap().unwrap().keep);
        assert!(!parse(b"HTTP/1.1 200 OK\r\n\r\n").unwrap().unwrap().keep, "no length");
        assert!(!parse(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n").unwrap().unwrap().keep);
        assert_eq!(parse(b"HTTP/1.1 304 same\r\n\r\n").unwrap().unwrap().length, Some(0));
        for bad in [
            &b"SSH-2.0-x\r\n\r\n"[..],
            b"HTTP/1.1 abc\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert!(parse(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
