//! Requests of the client, and what has to come of each.

use std::io;

use tokio_rustls::rustls::pki_types::ServerName;

/// Digits that a request's number is written with.
const DIGITS: usize = 12;

/// What has to come of a request for it to count as answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// A status below 400.
    Success,
    /// Status 200 and so many bytes.
    Bytes(u64),
    /// A refusal by the proxy: anything but these bytes, and but an error of the server (5xx).
    Block(u64),
}

/// How an answer was as expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    Passed,
    Blocked,
}

/// A request in the form that goes over the wire.
#[derive(Debug, Clone)]
pub struct Ask {
    bytes: Vec<u8>,
    /// Where its number goes, if each is to ask for something else.
    number_at: Option<usize>,
    /// The CONNECT that opens a tunnel for it, over a connection of its own.
    pub(crate) connect: Option<Vec<u8>>,
    /// Whom TLS is spoken to, inside the tunnel if there is one; none for no TLS.
    pub(crate) server_name: Option<ServerName<'static>>,
    /// The next request may go through the same tunnel.
    pub(crate) keeps_tunnel: bool,
    pub(crate) expects: Expect,
}

impl Ask {
    /// A GET of this target (a path, or a URL for a proxy). The first `{}` of it is replaced by a
    /// number that no other request of a run has.
    pub fn get(target: &str, host: &str, keep_alive: bool, expects: Expect) -> Ask {
        let connection = if keep_alive { "" } else { "Connection: close\r\n" };
        let (before, after) = target.split_once("{}").unwrap_or((target, ""));
        let mut bytes = format!("GET {before}").into_bytes();
        let number_at = (before.len() < target.len()).then_some(bytes.len());
        if number_at.is_some() {
            bytes.extend([b'0'; DIGITS]);
        }
        let rest = format!("{after} HTTP/1.1\r\nHost: {host}\r\n{connection}\r\n");
        bytes.extend_from_slice(rest.as_bytes());
        Ask { bytes, number_at, connect: None, server_name: None, keeps_tunnel: false, expects }
    }

    /// The same through a tunnel to the host (`HOST:PORT`), which is made for it alone.
    #[must_use]
    pub fn through_tunnel(self, host: &str) -> Ask {
        let connect = format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        Ask { connect: Some(connect.into_bytes()), ..self }
    }

    /// The same within TLS, whose certificate must be that of this host; `keeps`: the next request
    /// may go the same way.
    #[must_use]
    pub fn within_tls(self, host: &str, keeps: bool) -> Ask {
        let server_name = ServerName::try_from(host.to_owned()).ok();
        Ask { server_name, keeps_tunnel: keeps, ..self }
    }

    /// Writes the request with this number.
    pub(crate) fn write(&self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.bytes);
        let Some(digits) = self.number_at.and_then(|at| out.get_mut(at..at + DIGITS)) else {
            return;
        };
        let mut left = number;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (left % 10) as u8;
            left /= 10;
        }
    }

    /// Whether an answer is what was expected.
    ///
    /// # Errors
    /// What it is instead, in a few words.
    pub(super) fn judge(&self, status: u16, bytes: u64) -> io::Result<Right> {
        let wrong = |what: String| Err(io::Error::other(what));
        match self.expects {
            Expect::Block(passed) if status == 200 && bytes == passed => {
                wrong("not blocked, though it is on the list".to_owned())
            }
            Expect::Block(_) if status < 500 => Ok(Right::Blocked),
            Expect::Success if status < 400 => Ok(Right::Passed),
            Expect::Bytes(expected) if status == 200 && bytes == expected => Ok(Right::Passed),
            Expect::Bytes(_) if status == 403 => {
                wrong("blocked, though it is not on the list".to_owned())
            }
            Expect::Bytes(expected) if status == 200 => {
                wrong(format!("{bytes} bytes in place of {expected}"))
            }
            _ => wrong(format!("HTTP status {status}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_numbered() {
        let ask = Ask::get("http://a.example/b/{}?x", "a.example", true, Expect::Success);
        let mut out = b"old".to_vec();
        ask.write(7, &mut out);
        let text = "GET http://a.example/b/000000000007?x HTTP/1.1\r\nHost: a.example\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), text);
        let mut out = Vec::new();
        let plain = Ask::get("/", "a.example", false, Expect::Success);
        plain.through_tunnel("a.example:443").write(7, &mut out);
        assert_eq!(out, b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    }

    #[test]
    fn answers_are_judged() {
        let ask = |expects| Ask::get("/", "a", true, expects);
        assert_eq!(ask(Expect::Success).judge(304, 0).unwrap(), Right::Passed);
        assert!(ask(Expect::Success).judge(404, 0).is_err());
        assert_eq!(ask(Expect::Bytes(5)).judge(200, 5).unwrap(), Right::Passed);
        let wrong = ask(Expect::Bytes(5)).judge(403, 900).unwrap_err().to_string();
        assert!(wrong.starts_with("blocked"), "{wrong}");
        assert!(ask(Expect::Bytes(5)).judge(200, 6).is_err(), "a page in its place");
        for (status, bytes) in [(403, 900), (302, 0), (200, 900)] {
            assert_eq!(ask(Expect::Block(5)).judge(status, bytes).unwrap(), Right::Blocked);
        }
        assert!(ask(Expect::Block(5)).judge(200, 5).is_err());
        assert!(ask(Expect::Block(5)).judge(503, 900).is_err(), "a failure is no block");
    }
}
