//! Which protocol a client speaks, by its first bytes.
//!
//! What servers could take for a request of HTTP is HTTP, however odd: hyper then refuses what it
//! does not like. As another protocol it would pass unseen, in a tunnel or where
//! `other = "tunnel"`.

use crate::client_hello::{ClientHello, Reading, read};

/// Blank lines before a request (RFC 9112 section 2.2: servers ignore them).
const BLANK_BYTES_MAX: usize = 64;
/// Of blanks behind a method, and of a scheme.
const WORD_BYTES_MAX: usize = 64;

/// What the first bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Too few to say.
    NeedsMore,
    /// A ClientHello.
    Tls(ClientHello),
    /// HTTP/1, or HTTP/2 by prior knowledge.
    Http,
    /// Something that begins as TLS or HTTP and is neither.
    Malformed(&'static str),
    /// Something else.
    Other,
}

/// Says what these bytes are, which are all that came so far.
pub(crate) fn classify(bytes: &[u8]) -> Protocol {
    match read(bytes) {
        Reading::Hello(hello) => Protocol::Tls(hello),
        Reading::Malformed(why) => Protocol::Malformed(why),
        Reading::NeedsMore => Protocol::NeedsMore,
        Reading::NotTls => http(bytes),
    }
}

/// A method, blanks, and the begin of a target (RFC 9112 section 3).
fn http(bytes: &[u8]) -> Protocol {
    let line = bytes.trim_ascii_start();
    if bytes.len() - line.len() > BLANK_BYTES_MAX {
        return Protocol::Malformed("there are too many blank lines");
    }
    let is_token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    let (method, rest) = word(line, is_token);
    let (blanks, target) = word(rest, |b| matches!(b, b' ' | b'\t'));
    match (method, rest.is_empty(), blanks) {
        (_, true, _) => return Protocol::NeedsMore,
        (0, false, _) | (_, false, 0) => return Protocol::Other,
        (_, false, n) if n > WORD_BYTES_MAX => {
            return Protocol::Malformed("there are too many blanks in the first line");
        }
        _ => {}
    }
    match target {
        [] => Protocol::NeedsMore,
        [b'/' | b'*', ..] => Protocol::Http,
        _ if line.starts_with(b"CONNECT") || is_absolute(target) => Protocol::Http,
        _ => by_version(line),
    }
}

/// The begin of an absolute URI.
fn is_absolute(target: &[u8]) -> bool {
    let is_scheme = |b: &u8| b.is_ascii_alphanumeric() || b"+-.".contains(b);
    let (scheme, rest) = word(target, is_scheme);
    (1..=WORD_BYTES_MAX).contains(&scheme) && rest.starts_with(b"://")
}

/// Another target is none, but some servers take it: what says its version is a request. Other
/// protocols of lines send theirs whole.
fn by_version(line: &[u8]) -> Protocol {
    let end = memchr::memchr(b'\n', line);
    let first = line.get(..end.unwrap_or(line.len())).unwrap_or(line).to_ascii_uppercase();
    match end {
        _ if memchr::memmem::find(&first, b"HTTP/").is_some() => Protocol::Http,
        Some(_) => Protocol::Other,
        None => Protocol::NeedsMore,
    }
}

/// How many bytes are such, and what follows.
fn word(bytes: &[u8], is_such: impl Fn(&u8) -> bool) -> (usize, &[u8]) {
    let length = bytes.iter().take_while(|b| is_such(b)).count();
    (length, bytes.split_at_checked(length).map_or(&[][..], |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_told_apart() {
        for text in [
            "GET / HTTP/1.1\r\n",
            "get / HTTP/1.1\r\n",
            "\r\n\r\nGET / HTTP/1.1",
            "\nGET /",
            "GET  \t/",
            "M-SEARCH * HTTP/1.1",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "OPTIONS *",
            "GET http://a.example/",
            "GET x://a.example/",
            "CONNECT a.example:443 HTTP/1.1",
            "GET secret HTTP/1.1\r\n",
            "GET ?secret http/1.1",
            &format!("{} / HTTP/1.1", "A".repeat(1000)),
        ] {
            assert_eq!(classify(text.as_bytes()), Protocol::Http, "{text:?}");
        }
        for text in [
            "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n",
            "EHLO host.example\r\n",
            "a1 LOGIN user\r\n",
            "USER anonymous\r\n",
            "\0\0",
            "GET\r\n/",
            ": /",
            "\u{fc} /",
        ] {
            assert_eq!(classify(text.as_bytes()), Protocol::Other, "{text:?}");
        }
        for text in ["", "\r\n", "G", "GET ", "GET http", "GET http:/", "a1 LOGIN user", "\x16\x03"]
        {
            assert_eq!(classify(text.as_bytes()), Protocol::NeedsMore, "{text:?}");
        }
    }

    #[test]
    fn what_is_waited_for_is_bounded() {
        let bytes = |b: u8, n| vec![b; n];
        assert!(matches!(classify(&bytes(b'\n', 65)), Protocol::Malformed(_)));
        let blanks = [b"GET".to_vec(), bytes(b' ', 65)].concat();
        assert!(matches!(classify(&blanks), Protocol::Malformed(_)));
        let scheme = [b"GET ".to_vec(), bytes(b'a', 65), b"://\n".to_vec()].concat();
        assert_eq!(classify(&scheme), Protocol::Other);
        assert!(matches!(classify(b"\x16\x03\x01\x00\x00"), Protocol::Malformed(_)));
    }
}
