//! Engines behind ICAP (RFC 3507), as most commercial ones are: each file goes there as the body of
//! an HTTP response (RESPMOD), with a preview, and comes back untouched (204) or not.
//!
//! What servers say of a finding is no part of the RFC: `X-Infection-Found`
//! (draft-stecher-icap-subid-00), `X-Virus-ID`, `X-Violations-Found`, or an HTTP answer of status
//! 403 in place of the file.

use std::io::{self, Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::connection::{Connection, ConnectionPool, EngineAddress, read_until};
use super::{Answer, Engine, EngineError, EngineItem};

/// Bytes of one line of a header.
const LINE_BYTES_MAX: usize = 8 << 10;
/// Lines of one header.
const LINES_MAX: usize = 100;
/// Bytes of one chunk.
const CHUNK_BYTES: usize = 128 << 10;
/// How long the answer to OPTIONS is believed if it does not say so, and at most.
const OPTIONS_AGE: Duration = Duration::from_secs(60);
/// Idle connections are closed by c-icap after 600 s, by others earlier.
const IDLE_MAX: Duration = Duration::from_secs(20);
/// Names of one answer.
const NAMES_MAX: usize = 16;

/// A service of an ICAP server.
#[derive(Debug)]
pub struct Icap {
    connections: ConnectionPool,
    /// Host and port, as the request names them.
    host: String,
    /// Name of the service, such as `avscan`.
    service: String,
    options: Mutex<Option<(Options, Instant)>>,
}

/// The options that a service announces.
#[derive(Debug, Clone, Default)]
struct Options {
    /// Changes whenever its answers may change (RFC 3507 section 4.7).
    tag: String,
    /// Bytes of a file that it wants to see first; none if it wants no preview.
    preview: Option<usize>,
    age_max: Duration,
}

/// Status line and header of an answer.
#[derive(Debug, Default)]
struct Head {
    status: u16,
    fields: Vec<(String, String)>,
}

impl Head {
    fn field(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        field.map(|(_, value)| value.as_str())
    }

    fn keeps_open(&self) -> bool {
        !self.field("Connection").is_some_and(|v| v.eq_ignore_ascii_case("close"))
    }
}

impl Icap {
    /// A service at an address, queried over at most so many connections.
    pub fn new(address: EngineAddress, service: &str, connections_max: usize) -> Self {
        let host = match &address {
            EngineAddress::Tcp(host) => host.clone(),
            EngineAddress::Unix(_) => "localhost".to_owned(),
        };
        Icap {
            connections: ConnectionPool::new(address, connections_max, IDLE_MAX),
            host,
            service: service.trim_matches('/').to_owned(),
            options: Mutex::default(),
        }
    }

    fn known_options(&self) -> MutexGuard<'_, Option<(Options, Instant)>> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn options(&self, until: Instant) -> Result<Options, EngineError> {
        if let Some((options, at)) = &*self.known_options()
            && at.elapsed() < options.age_max
        {
            return Ok(options.clone());
        }
        let head = self.connections.with(until, |connection| {
            write!(
                connection,
                "OPTIONS icap://{}/{} ICAP/1.0\r\nHost: {}\r\nEncapsulated: null-body=0\r\n\r\n",
                self.host, self.service, self.host
            )?;
            let head = read_head(connection, "ICAP/1.0 ")?;
            let no_body = head.field("Encapsulated").is_none_or(|e| !e.contains("opt-body"));
            let keep = no_body && head.keeps_open();
            Ok((head, keep))
        })?;
        if head.status != 200 {
            let why = format!("OPTIONS of service {:?} answers {}", self.service, head.status);
            return Err(EngineError::Unreachable(why));
        }
        let seconds = head.field("Options-TTL").and_then(|v| v.trim().parse().ok());
        let options = Options {
            tag: head.field("ISTag").unwrap_or_default().trim_matches('"').to_owned(),
            preview: head.field("Preview").and_then(|v| v.trim().parse().ok()),
            age_max: seconds.map_or(OPTIONS_AGE, Duration::from_secs).min(OPTIONS_AGE),
        };
        *self.known_options() = Some((options.clone(), Instant::now()));
        Ok(options)
    }

    /// Sends a file and reads the answer's head; of what it has instead of the file, the head only.
    fn respond(
        &self,
        connection: &mut Connection,
        item: &EngineItem<'_>,
        options: &Options,
    ) -> io::Result<IcapAnswer> {
        let name = url_name(item.path);
        let request = format!(
            "GET http://gauntlet.invalid/{name} HTTP/1.1\r\nHost: gauntlet.invalid\r\n\r\n"
        );
        let response = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n",
            item.kind.media_type(),
            item.bytes.len()
        );
        let preview = options.preview.map(|n| n.min(item.bytes.len()));
        let preview_field = preview.map(|n| format!("Preview: {n}\r\n")).unwrap_or_default();
        write!(
            connection,
            "RESPMOD icap://{}/{} ICAP/1.0\r\nHost: {}\r\nAllow: 204\r\n{preview_field}\
             Encapsulated: req-hdr=0, res-hdr={}, res-body={}\r\n\r\n{request}{response}",
            self.host,
            self.service,
            self.host,
            request.len(),
            request.len() + response.len()
        )?;
        let sent = preview.unwrap_or(0);
        if preview.is_some() {
            write_chunks(connection, &item.bytes[..sent])?;
            let whole = sent == item.bytes.len();
            connection.write_all(if whole { b"0; ieof\r\n\r\n" } else { b"0\r\n\r\n" })?;
            let answer = read_answer(connection)?;
            if answer.status != 100 {
                return Ok(answer);
            }
        }
        write_chunks(connection, &item.bytes[sent..])?;
        connection.write_all(b"0\r\n\r\n")?;
        read_answer(connection)
    }
}

/// The answer to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IcapAnswer {
    /// Status of ICAP; 100 requests the rest of the file.
    pub status: u16,
    /// Names of what was found, from the header fields that services use; empty if clean.
    pub names: Vec<String>,
    /// Whether the connection can be used again.
    pub keeps_open: bool,
}

/// Reads an answer; of what it has instead of the file, the header only.
///
/// # Errors
/// The reader's, or [`io::ErrorKind::InvalidData`] if it is none.
pub fn read_answer(from: &mut impl Read) -> io::Result<IcapAnswer> {
    let head = read_head(from, "ICAP/1.0 ")?;
    let has_http = head.field("Encapsulated").is_some_and(|e| e.contains("res-hdr"));
    let http = match head.status {
        200 if has_http => read_head(from, "HTTP/1.")?,
        _ => Head::default(),
    };
    // What comes in place of the file is not read: the connection ends with it.
    let keeps_open = head.status == 204 && head.keeps_open();
    Ok(IcapAnswer { status: head.status, names: names(&head, &http), keeps_open })
}

fn write_chunks(connection: &mut Connection, bytes: &[u8]) -> io::Result<()> {
    for chunk in bytes.chunks(CHUNK_BYTES) {
        write!(connection, "{:x}\r\n", chunk.len())?;
        connection.write_all(chunk)?;
        connection.write_all(b"\r\n")?;
    }
    Ok(())
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Reads status line and fields, to the empty line behind them.
fn read_head(from: &mut impl Read, protocol: &str) -> io::Result<Head> {
    let mut head = Head::default();
    for number in 0..LINES_MAX {
        let line = read_until(from, b'\n', LINE_BYTES_MAX)?;
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches('\r');
        if number == 0 {
            let rest =
                line.strip_prefix(protocol).ok_or_else(|| bad("no answer of this protocol"))?;
            let status = rest.split_ascii_whitespace().find(|w| w.len() == 3);
            head.status = status.and_then(|s| s.parse().ok()).ok_or_else(|| bad("no status"))?;
        } else if line.is_empty() {
            return Ok(head);
        } else if line.starts_with([' ', '\t']) {
            // Folded fields are obsolete, yet X-Violations-Found is sent so.
            if let Some((_, value)) = head.fields.last_mut() {
                value.push('\n');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            head.fields.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    Err(bad("too many header fields"))
}

/// A path as the last segment of a URL.
fn url_name(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    let mut out = String::new();
    for byte in name.bytes().take(200) {
        if byte.is_ascii_alphanumeric() || b".-_".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The names in the fields of an answer.
fn names(head: &Head, http: &Head) -> Vec<String> {
    let mut names = Vec::new();
    // `Type=0; Resolution=2; Threat=Eicar-Test-Signature;`
    if let Some(found) = head.field("X-Infection-Found") {
        let threat = found.split(';').find_map(|part| part.trim().strip_prefix("Threat="));
        names.push(threat.unwrap_or(found).trim().to_owned());
    }
    // A count, and four lines each: file, name, number, resolution.
    if let Some(found) = head.field("X-Violations-Found") {
        let lines: Vec<&str> = found.lines().map(str::trim).collect();
        names.extend(lines.iter().skip(2).step_by(4).map(|name| (*name).to_owned()));
    }
    if let Some(found) = head.field("X-Virus-ID").or_else(|| head.field("X-Virus-Name")) {
        names.extend(found.split(',').map(|name| name.trim().to_owned()));
    }
    names.retain(|name| !name.is_empty() && name != "no threats");
    names.dedup();
    names.truncate(NAMES_MAX);
    let blocked = http.status == 403 || http.field("X-Virus-ID").is_some();
    if names.is_empty() && blocked {
        names.push(http.field("X-Virus-ID").unwrap_or("blocked").to_owned());
    }
    names
}

impl Engine for Icap {
    fn version(&self, until: Instant) -> Result<String, EngineError> {
        self.options(until).map(|options| format!("{} {}", self.service, options.tag))
    }

    fn scan(&self, item: &EngineItem<'_>, until: Instant) -> Result<Answer, EngineError> {
        let options = self.options(until)?;
        let IcapAnswer { status, names, .. } = self.connections.with(until, |connection| {
            let answer = self.respond(connection, item, &options)?;
            let keep = answer.keeps_open;
            Ok((answer, keep))
        })?;
        match status {
            _ if !names.is_empty() => Ok(Answer::Found(names)),
            // 200 without a finding: the server sends the file back.
            200 | 204 => Ok(Answer::Clean),
            413 => Ok(Answer::TooLarge),
            // Overloaded, or broken: it may answer later.
            status @ (500..=599 | 408) => {
                Err(EngineError::Unreachable(format!("ICAP status {status}")))
            }
            status => Err(EngineError::Failed(format!("ICAP status {status}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, fields: &[(&str, &str)]) -> Head {
        let fields = fields.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Head { status, fields }
    }

    #[test]
    fn findings_of_several_makers() {
        let none = Head::default();
        let found = head(200, &[("x-infection-found", "Type=0; Resolution=2; Threat=Eicar;")]);
        assert_eq!(names(&found, &none), ["Eicar"]);
        let violations = "2\nfile.zip\nEICAR\n11101\n0\nb.exe\nOther\n1\n2";
        assert_eq!(
            names(&head(200, &[("X-Violations-Found", violations)]), &none),
            ["EICAR", "Other"]
        );
        assert_eq!(names(&head(200, &[("X-Virus-ID", "A, B")]), &none), ["A", "B"]);
        assert_eq!(names(&head(200, &[]), &head(403, &[])), ["blocked"]);
        assert!(names(&head(200, &[]), &head(200, &[])).is_empty());
        assert!(names(&head(204, &[("X-Virus-ID", "no threats")]), &none).is_empty());
    }

    #[test]
    fn answers_and_what_is_none() {
        let found =
            b"ICAP/1.0 200 OK\r\nX-Violations-Found: 1\r\n\ta.exe\r\n\tEvil\r\n\t1\r\n\t0\r\n\
            Encapsulated: res-hdr=0, res-body=20\r\n\r\nHTTP/1.1 403 Forbidden\r\n\r\n";
        let answer = read_answer(&mut found.as_slice()).unwrap();
        assert_eq!((answer.status, answer.keeps_open), (200, false));
        assert_eq!(answer.names, ["Evil"]);
        for end in 0..found.len() {
            assert!(read_answer(&mut &found[..end]).is_err(), "cut at {end}");
        }
        let long = [b"ICAP/1.0 200 OK\r\nX: ".as_slice(), &vec![b'x'; 100_000]].concat();
        assert!(read_answer(&mut long.as_slice()).is_err());
        let many = [b"ICAP/1.0 200 OK\r\n".as_slice(), &b"A: b\r\n".repeat(1_000)].concat();
        assert!(read_answer(&mut many.as_slice()).is_err());
        assert!(read_answer(&mut b"HTTP/1.1 200 OK\r\n\r\n".as_slice()).is_err());
    }

    #[test]
    fn names_in_urls() {
        assert_eq!(url_name("a.zip/in voice\r\n.exe"), "in%20voice%0D%0A.exe");
    }
}
