//! Lines of the access log, as programs that read logs of Squid and Apache know them.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::{Request, Version};

use crate::reason::Note;
use crate::refusal::Refusal;

/// What is known of a request when it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRecord {
    /// When it came.
    pub at: SystemTime,
    /// From its header to the last byte of the response or tunnel.
    pub took: Duration,
    /// The client.
    pub client: IpAddr,
    /// Who it is, if that is known.
    pub user: Option<String>,
    /// As in `GET`.
    pub method: String,
    /// The canonical URL; `host:port` of a tunnel; as it was sent if it could not be read.
    pub url: String,
    /// As in `HTTP/1.1`.
    pub version: &'static str,
    /// Of the response; 0 if the client left before there was one.
    pub status: u16,
    /// Bytes of the response's body, or from the tunnel to the client.
    pub bytes_out: u64,
    /// Bytes of the request's body, or from the client into the tunnel.
    pub bytes_in: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// The server, or the next proxy.
    pub peer: Peer,
    /// The address of the server that answered, or that a list refused; none if it is not known, or
    /// behind the next proxy.
    pub server_address: Option<IpAddr>,
    /// Type of the response.
    pub content_type: Option<String>,
    /// Bytes of its body, if it says so.
    pub bytes_declared: Option<u64>,
    /// `Referer`.
    pub referer: Option<String>,
    /// `User-Agent`.
    pub user_agent: Option<String>,
    /// Name of the refusal.
    pub refusal: Option<&'static str>,
    /// What became of a tunnel: `intercepted`, `plain_http` (requests without TLS), or why neither.
    pub tunnel: Option<&'static str>,
    /// The rule that blocked.
    pub rule: Option<String>,
    /// What inspectors say of the content: types, points, what was not judged and why.
    pub notes: Vec<String>,
    /// The reference on the page that the client got.
    pub reference: String,
    /// What the judge says about its decision.
    pub note: Note,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The server's response, whole.
    Passed,
    /// A tunnel or an upgraded connection.
    Tunnel,
    /// Refused by a rule or a setting.
    Denied,
    /// Our own error page.
    Failed,
    /// Cut before its end, by either side.
    Aborted,
    /// Another proxy asked (ICAP), and it passes as it came.
    Unmodified,
}

/// Who answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// Nobody was asked.
    None,
    /// The server, by host or address.
    Direct(String),
    /// The next proxy.
    Parent(String),
}

/// Where records go.
pub trait AccessLog: Send + Sync {
    /// Takes the record of a request that has ended. It must not wait: sockets would, too.
    fn record(&self, record: &AccessRecord);
}

/// Keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLog;

impl AccessLog for NoLog {
    fn record(&self, _record: &AccessRecord) {}
}

/// Bytes of a text in a line.
const TEXT_BYTES_MAX: usize = 8192;

impl AccessRecord {
    /// A request that begins now: nothing passed yet, and aborted unless its end says otherwise.
    pub(crate) fn begun(
        client: IpAddr,
        method: String,
        version: &'static str,
        reference: String,
    ) -> Self {
        AccessRecord {
            at: SystemTime::now(),
            took: Duration::ZERO,
            client,
            user: None,
            method,
            url: String::new(),
            version,
            status: 0,
            bytes_out: 0,
            bytes_in: 0,
            outcome: Outcome::Aborted,
            peer: Peer::None,
            server_address: None,
            content_type: None,
            bytes_declared: None,
            referer: None,
            user_agent: None,
            refusal: None,
            tunnel: None,
            rule: None,
            notes: Vec::new(),
            reference,
            note: Note::default(),
        }
    }

    /// A request that was answered by the HTTP library, since it could not be read: nothing else is
    /// known of it.
    pub(crate) fn unread(client: IpAddr, refusal: &Refusal) -> Self {
        AccessRecord {
            status: refusal.status().as_u16(),
            refusal: Some(refusal.name()),
            outcome: Outcome::Failed,
            ..AccessRecord::begun(client, String::new(), "HTTP/1.1", String::new())
        }
    }

    /// A request of a client that the proxy does not take, or not at this time.
    pub(crate) fn refused_at_once<B>(
        client: IpAddr,
        request: &Request<B>,
        url: &str,
        refusal: &Refusal,
    ) -> Self {
        let outcome = match refusal {
            Refusal::Client => Outcome::Denied,
            _ => Outcome::Failed,
        };
        AccessRecord {
            url: url.to_owned(),
            outcome,
            method: request.method().to_string(),
            version: version_name(request.version()),
            ..AccessRecord::unread(client, refusal)
        }
    }

    /// Squid's native format (`logformat squid`): `time elapsed client code/status bytes method URL
    /// user hierarchy/peer type`.
    pub fn squid(&self) -> String {
        let since = self.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (hierarchy, peer) = match &self.peer {
            Peer::None => ("HIER_NONE", "-"),
            Peer::Direct(host) => ("HIER_DIRECT", host.as_str()),
            Peer::Parent(host) => ("FIRSTUP_PARENT", host.as_str()),
        };
        // As Squid does, the address that it connected to, if it came so far.
        let address = self.server_address.map(|address| address.to_string());
        let peer = address.as_deref().unwrap_or(peer);
        format!(
            "{}.{:03} {:6} {} {}/{:03} {} {} {} {} {hierarchy}/{} {}",
            since.as_secs(),
            since.subsec_millis(),
            self.took.as_millis(),
            self.client,
            self.squid_code(),
            self.status,
            self.bytes_out,
            word(&self.method),
            word(&self.url),
            word(self.user.as_deref().unwrap_or_default()),
            word(peer),
            self.content_type.as_deref().map_or("-".to_owned(), media_type),
        )
    }

    fn squid_code(&self) -> &'static str {
        match self.outcome {
            Outcome::Passed => "TCP_MISS",
            // As Squid logs a tunnel that it decrypts: the requests in it have lines of their own.
            Outcome::Tunnel if matches!(self.tunnel, Some("intercepted" | "plain_http")) => {
                "NONE_NONE"
            }
            Outcome::Tunnel => "TCP_TUNNEL",
            Outcome::Denied => "TCP_DENIED",
            Outcome::Failed => "NONE_NONE",
            Outcome::Aborted => "TCP_MISS_ABORTED",
            Outcome::Unmodified => "ICAP_ECHO",
        }
    }

    /// The combined format of Apache: `client - user [time] "request" status bytes "referer"
    /// "agent"`.
    pub fn combined(&self) -> String {
        format!(
            "{} - {} [{}] \"{} {} {}\" {} {} \"{}\" \"{}\"",
            self.client,
            word(self.user.as_deref().unwrap_or_default()),
            clf_time(self.at),
            quoted(&self.method),
            quoted(&self.url),
            self.version,
            self.status,
            self.bytes_out,
            quoted(self.referer.as_deref().unwrap_or("-")),
            quoted(self.user_agent.as_deref().unwrap_or("-")),
        )
    }
}

/// A version of HTTP as logs have it.
pub(crate) fn version_name(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

/// The media type without parameters.
fn media_type(value: &str) -> String {
    word(value.split(';').next().unwrap_or_default().trim())
}

/// A text as one word: what would end it or the line is escaped as in a URL.
fn word(text: &str) -> String {
    if text.is_empty() {
        return "-".to_owned();
    }
    escaped(text, |b| b <= b' ' || b >= 0x7f, |b| format!("%{b:02X}"))
}

/// A text between quotation marks, as Apache escapes it.
fn quoted(text: &str) -> String {
    let is_special = |b: u8| !(b' '..0x7f).contains(&b) || matches!(b, b'"' | b'\\');
    escaped(text, is_special, |b| match b {
        b'"' | b'\\' => format!("\\{}", b as char),
        _ => format!("\\x{b:02x}"),
    })
}

fn escaped(text: &str, is_special: impl Fn(u8) -> bool, escape: impl Fn(u8) -> String) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes().take(TEXT_BYTES_MAX) {
        match is_special(byte) {
            true => out.push_str(&escape(byte)),
            false => out.push(byte as char),
        }
    }
    out
}

/// `25/Nov/2026:22:35:15 +0000`.
fn clf_time(at: SystemTime) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let month = MONTHS.get(month - 1).copied().unwrap_or("-");
    format!("{day:02}/{month}/{year}:{hour:02}:{minute:02}:{second:02} +0000")
}

/// Year, month (from 1) and day of a number of days since 1970, in the Gregorian calendar.
fn civil(days: u64) -> (u64, usize, u64) {
    let is_leap = |y: u64| (y.is_multiple_of(4) && !y.is_multiple_of(100)) || y.is_multiple_of(400);
    // 400 years have 146,097 days, so that the loop is short for any clock.
    let mut year = 1970 + days / 146_097 * 400;
    let mut left = days % 146_097;
    while left >= 365 + u64::from(is_leap(year)) {
        left -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> AccessRecord {
        AccessRecord {
            at: UNIX_EPOCH + Duration::from_millis(1_795_646_115_042),
            took: Duration::from_millis(37),
            client: [192, 0, 2, 7].into(),
            user: None,
            method: "GET".to_owned(),
            url: "http://example.com/a".to_owned(),
            version: "HTTP/1.1",
            status: 200,
            bytes_out: 1234,
            bytes_in: 0,
            outcome: Outcome::Passed,
            peer: Peer::Direct("example.com".to_owned()),
            server_address: None,
            content_type: Some("text/html; charset=utf-8".to_owned()),
            bytes_declared: None,
            referer: None,
            user_agent: Some("a \"b\"\n".to_owned()),
            refusal: None,
            tunnel: None,
            rule: None,
            notes: Vec::new(),
            reference: "r".to_owned(),
            note: Note::default(),
        }
    }

    #[test]
    fn lines_are_as_squid_and_apache_write_them() {
        let line = "1795646115.042     37 192.0.2.7 TCP_MISS/200 1234 GET http://example.com/a - \
                    HIER_DIRECT/example.com text/html";
        assert_eq!(record().squid(), line);
        let reached = AccessRecord { server_address: Some([192, 0, 2, 9].into()), ..record() };
        assert!(reached.squid().ends_with(" HIER_DIRECT/192.0.2.9 text/html"));
        let line = "192.0.2.7 - - [25/Nov/2026:22:35:15 +0000] \
                    \"GET http://example.com/a HTTP/1.1\" 200 1234 \
                    \"-\" \"a \\\"b\\\"\\x0a\"";
        assert_eq!(record().combined(), line);
    }

    #[test]
    fn nothing_that_a_client_sends_makes_a_second_line() {
        let mut nasty = record();
        nasty.url = "http://x/\r\n1 2 3\u{2028}".to_owned();
        nasty.content_type = Some("a b\n".to_owned());
        nasty.user = Some("ann b\n".to_owned());
        for line in [nasty.squid(), nasty.combined()] {
            assert!(line.bytes().all(|b| (b' '..0x7f).contains(&b)), "{line}");
        }
        assert_eq!(nasty.squid().split_whitespace().count(), 10);
    }

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_817), (2026, 12, 30));
        assert_eq!(civil(u64::MAX / 86_400).1.clamp(1, 12), civil(u64::MAX / 86_400).1);
    }
}
